// @ts-check
// One experiment: its head, and its tabs, which all see the same trials, filter and selection.
import { html, useEffect, useMemo, useState } from "./vendor/preact.js";
import { ExperimentActions } from "./actions.js";
import { get, getBuffer } from "./api.js";
import { subscribe, watchConnection } from "./events.js";
import { LazyView } from "./lazy.js";
import { applyBrush, readBrush, writeBrush } from "./brush.js";
import { readParts } from "./curve_choice.js";
import { ExperimentData } from "./experiment_data.js";
import { Labels, nameOf } from "./experiments.js";
import { FilterBar } from "./filter_bar.js";
import * as format from "./format.js";
import { useKeys } from "./keys.js";
import { clean, shorten } from "./log_lines.js";
import { findBestRow } from "./rank.js";
import { formatIds, formatPlace, parseIds } from "./route.js";
import { filterRows } from "./rows.js";
import { useStandings, useStops } from "./search_data.js";
import { countTrials } from "./status.js";
import { ALL, TrialFilter } from "./trial_filter.js";
import { TableTools, TrialsTab } from "./trials_tab.js";
import { Badge, Empty, Loading, Problem, Progress, Tabs } from "./widgets.js";

const REPAINT_MS = 100;
const RELOAD_MS = 300;
const DELETED = "This experiment was deleted. What is shown is what the page knew of it.";

/** @type {Record<string, {label: string, module?: string, name?: string, isFiltered?: boolean}>} */
const TABS = {
  overview: { label: "Overview", module: "./overview.js", name: "OverviewView" },
  trials: { label: "Trials", isFiltered: true },
  curves: { label: "Curves", module: "./curves.js", name: "CurvesView", isFiltered: true },
  parallel: { label: "Parallel", module: "./parallel.js", name: "ParallelView", isFiltered: true },
  scatter: { label: "Scatter", module: "./scatter.js", name: "ScatterView", isFiltered: true },
  importance: { label: "Importance", module: "./importance.js", name: "ImportanceView" },
  compare: { label: "Compare", module: "./compare.js", name: "CompareView" },
  search: { label: "Search", module: "./search_view.js", name: "SearchView" },
  timeline: { label: "Timeline", module: "./timeline.js", name: "TimelineView" },
  logs: { label: "Logs", module: "./logs.js", name: "LogsView" },
  config: { label: "Config", module: "./config_view.js", name: "ConfigView" },
};

/** @param {{experimentId: number, route: import("./route.js").Route, status: any}} props */
export function ExperimentView({ experimentId, route, status }) {
  const { data, version, error, load } = useExperimentData(experimentId);
  const { query, setQuery } = route;
  // A link may name trials that another experiment has, or had.
  const selection = useMemo(() => new Set(parseIds(query.sel).filter((id) => data.rowOf(id) >= 0)), [data, query.sel, data.numRows]);
  useEffect(() => data.chooseParts(readParts(query.agg)), [data, query.agg]);
  const brush = useMemo(() => readBrush(query.brush ?? ""), [query.brush]);
  const filter = useFilter(experimentId, query.where ?? "", version);
  const states = useMemo(() => new Set((query.state ?? "").split(",").filter(Boolean)), [query.state]);
  const filtered = useMemo(() => filterRows(data, states, filter.ids), [data, version, states, filter.ids]);
  const numTrials = useMemo(() => data.numRows, [data, version]);
  const visible = useMemo(() => applyBrush(data, filtered, brush), [data, version, filtered, brush]);
  const tab = TABS[query.tab] ? query.tab : "overview";
  const hrefOf = (/** @type {string} */ key) => formatPlace(route.path, { ...query, tab: key });
  const show = (/** @type {string} */ key) => () => setQuery({ tab: key }, { push: true });
  useKeys(Object.fromEntries(Object.keys(TABS).slice(0, 10).map((key, at) => [String((at + 1) % 10), show(key)])));
  const { experiment } = data;
  useStops(data, experiment);
  useEffect(() => {
    if (experiment) document.title = `${nameOf(experiment)} · Quintain`;
  }, [experiment && nameOf(experiment)]);
  if (error?.status === 404 && !experiment) return html`<${NoExperiment} id=${experimentId} />`;
  if (error && !experiment) return html`<${Problem} error=${error} retry=${load} />`;
  if (!experiment) return html`<${Loading} text="Loading the experiment" />`;
  const props = {
    data, experiment, experimentId, visible: tab === "parallel" ? filtered : visible, selection, brush, route, status, version,
    setSelection: (/** @type {Iterable<number>} */ ids) => setQuery({ sel: formatIds(ids) }),
    setBrush: (/** @type {any} */ next) => setQuery({ brush: writeBrush(next) }),
  };
  /** @type {Record<string, string | null>} */
  const counts = { trials: format.number(numTrials), compare: selection.size ? format.number(selection.size) : null };
  const tabs = Object.entries(TABS).map(([key, { label }]) => ({ key, label, count: counts[key] }));
  const { module, name, isFiltered } = TABS[tab];
  return html`
    <${Header} experiment=${experiment} data=${data} version=${version} status=${status} props=${props} />
    ${error && html`<${Problem} error=${error} retry=${load} />`}
    <${Tabs} tabs=${tabs} current=${tab} hrefOf=${hrefOf} label="views of the experiment" />
    ${isFiltered && html`<${FilterBar} ...${{ ...props, numVisible: visible.length, numTrials, problem: filter.problem, states }}>
      ${tab === "trials" && html`<${TableTools} data=${data} visible=${visible} version=${version} route=${route} />`}<//>`}
    ${tab === "trials"
      ? html`<${TrialsTab} ...${props} visible=${visible} />`
      : html`<section class="tab-body" key=${tab}><${LazyView} module=${module} name=${name} props=${props} /></section>`}`;
}

/** @param {{id: number}} props */
function NoExperiment({ id }) {
  return html`<${Empty} title=${`There is no experiment ${id}`}>
    <p>It may have been deleted. See the <a href="#/experiments">experiments</a> that there are.</p><//>`;
}

/** @param {{experiment: any, data: ExperimentData, version: number, status: any, props: any}} all */
function Header({ experiment, data, version, status, props }) {
  const now = status?.experiments?.find((/** @type {any} */ one) => one.experiment_id === experiment.id);
  const isOver = experiment.end_time !== null && experiment.end_time !== undefined;
  const { running, waiting } = countTrials(now);
  const parent = experiment.parent_id;
  const [leader] = useStandings(data, version);
  const best = useMemo(() => findBest(data, leader), [data, version, leader]);
  return html`<div class="page-head experiment-head">
    <h1 title=${nameOf(experiment, 500)}><span class="muted">#${experiment.id}</span> <bdi>${nameOf(experiment)}</bdi></h1>
    <${Badge} state=${experiment.state} />
    ${experiment.is_archived && html`<span class="label">archived</span>`}
    <${Labels} labels=${experiment.labels} />
    <span class="space"></span>
    <${ExperimentActions} experiment=${experiment} selection=${props.selection} />
    <dl class="facts">
      ${isOver
        ? html`<div><dt>took</dt><dd>${format.duration(experiment.end_time - experiment.start_time)}</dd></div>`
        : html`<div><dt>progress</dt><dd><${Progress} share=${now?.progress ?? experiment.progress} /></dd></div>
          <div><dt>left</dt><dd>${format.duration(now?.eta_secs) || "not known yet"}</dd></div>
          <div><dt>running</dt><dd>${running}${waiting ? `, ${waiting} waiting` : ""}</dd></div>`}
      <div><dt>best ${experiment.config?.searcher?.metric}</dt><dd>${best
        ? html`<b>${data.write("best_metric", best.value)}</b> by <a href=${`#/trials/${best.id}`}>trial ${best.id}</a>`
        : "none yet"}</dd></div>
      <div><dt>search</dt><dd>${(experiment.config?.searcher?.name ?? "").replaceAll("_", " ")}</dd></div>
      <div><dt>started</dt><dd title=${format.time(experiment.start_time)}>${format.ago(experiment.start_time)}</dd></div>
      ${parent && html`<div><dt>forked from</dt><dd><a href=${`#/experiments/${parent}`}>#${parent}</a></dd></div>`}
    </dl>
    ${experiment.description && format.short(experiment.description) !== nameOf(experiment) && html`
      <p class="description muted"><bdi>${clean(shorten(experiment.description))}</bdi></p>`}
    ${experiment.reason && html`<div class=${experiment.state === "ERROR" ? "problem reason" : "muted reason"}>${clean(shorten(experiment.reason))}</div>`}
  </div>`;
}

/** Fetches an experiment, and keeps it as new as the store. @param {number} id */
function useExperimentData(id) {
  const data = useMemo(() => new ExperimentData(id, { get, getBuffer }), [id]);
  const [version, setVersion] = useState(0);
  const [error, setError] = useState(/** @type {any} */ (null));
  useEffect(() => {
    let isGone = false;
    /** @type {any} */
    let paint = null;
    /** @type {any} */
    let reload = null;
    let stop = () => {};
    const follow = data.subscribe(() => {
      paint ??= setTimeout(() => {
        paint = null;
        setVersion(data.version);
      }, REPAINT_MS);
    });
    const load = async () => {
      try {
        await data.load();
        if (isGone) return;
        setError(null);
        setVersion(data.version);
        stop();
        stop = subscribe({ experiment_id: id, cursor: data.cursor, onReset: loadSoon, onChanges });
      } catch (problem) {
        if (!isGone) setError(problem);
      }
    };
    const loadSoon = () => {
      clearTimeout(reload);
      reload = setTimeout(load, RELOAD_MS);
    };
    const onChanges = (/** @type {any} */ changes) => {
      if (changes.deleted_experiments?.includes(id)) setError(new Error(DELETED));
      if (data.applyChanges(changes)) loadSoon();
    };
    load();
    data.reload = load;
    let isLost = false;
    const unwatch = watchConnection((state) => {
      if (state === "live" && isLost && !data.experiment) load();
      isLost = state !== "live";
    });
    return () => {
      isGone = true;
      unwatch();
      clearTimeout(paint);
      clearTimeout(reload);
      follow();
      stop();
    };
  }, [data]);
  return { data, version, error, load: data.reload };
}

/** Follows which trials an expression chooses, as the master says.
 * @param {number} id @param {string} where @param {number} version of what the page knows of the trials */
function useFilter(id, where, version) {
  const [found, setFound] = useState(ALL);
  const filter = useMemo(() => new TrialFilter((where, signal) => get(`/experiments/${id}/trials`, { where, fields: "id" }, { signal }), setFound), [id]);
  useEffect(() => () => filter.close(), [filter]);
  useEffect(() => filter.choose(where), [filter, where]);
  useEffect(() => filter.refresh(), [filter, version]);
  return found;
}

/** The trial with the best value of the searched metric, or the best one of what further seeds chose. @param {ExperimentData} data @param {any} leader */
function findBest(data, leader) {
  const values = /** @type {Float64Array} */ (data.get("best_metric"));
  const row = leader ? data.rowOf(leader.trial_ids[0]) : findBestRow(values, data.isSmallerBetter("best_metric"));
  return row < 0 ? null : { id: data.ids[row], value: values[row] };
}
