// @ts-check
// The list of experiments.
import { html, useEffect, useMemo, useRef, useState } from "./vendor/preact.js";
import { PauseButton } from "./actions.js";
import { get } from "./api.js";
import { subscribe } from "./events.js";
import * as format from "./format.js";
import { useKeys } from "./keys.js";
import { formatIds, formatPlace, parseIds } from "./route.js";
import { Badge, Button, Empty, Loading, Problem, Progress } from "./widgets.js";

const REFRESH_MS = 2000;
const PAGE = 100;

/** @param {{route: import("./route.js").Route, status: any}} props */
export function ExperimentsView({ route, status }) {
  const isArchivedShown = route.query.archived === "1";
  const { experiments, error, load } = useExperiments();
  const search = useRef();
  const [active, setActive] = useState(-1);
  const selection = useMemo(() => new Set(parseIds(route.query.sel)), [route.query.sel]);
  const [numShown, setNumShown] = useState(PAGE);
  const isTree = route.query.tree === "1";
  const depths = useMemo(() => {
    const chosen = choose(experiments ?? [], route.query);
    return isTree ? arrange(chosen) : new Map(chosen.map((one) => [one, 0]));
  }, [experiments, route.query]);
  const shown = [...depths.keys()];
  const toggle = (/** @type {number} */ id) => {
    const next = new Set(selection);
    if (!next.delete(id)) next.add(id);
    route.setQuery({ sel: formatIds(next) });
  };
  const move = (/** @type {number} */ step) => setActive(Math.max(0, Math.min(shown.length - 1, numShown - 1, active + step)));
  useKeys({
    "/": () => search.current?.focus(),
    j: () => move(1), k: () => move(-1), ArrowDown: () => move(1), ArrowUp: () => move(-1),
    x: () => shown[active] && toggle(shown[active].id),
    Enter: () => shown[active] && route.go(`/experiments/${shown[active].id}`),
  });
  if (error && !experiments) return html`<${Problem} error=${error} retry=${load} />`;
  if (!experiments) return html`<${Loading} text="Loading experiments" />`;
  if (!experiments.length) return html`<${NoExperiments} />`;
  const nows = new Map((status?.experiments ?? []).map((/** @type {any} */ one) => [one.experiment_id, one]));
  const numArchived = experiments.filter((one) => one.is_archived).length;
  return html`
    <div class="page-head"><h1>Experiments</h1><span class="space"></span>
      ${selection.size > 0 && html`<span class="selected-bar"><b>${selection.size}</b> selected
        <a href=${formatPlace("/compare", { ids: formatIds(selection) })}>compare</a>
        <${Button} kind="quiet" label="Clear selection" onClick=${() => route.setQuery({ sel: null })}>✕<//></span>`}
      <input ref=${search} type="search" class="search" aria-label="Find experiments"
        placeholder="Find by name, label or search  ( / )" value=${route.query.find ?? ""}
        onInput=${(/** @type {any} */ event) => route.setQuery({ find: event.target.value })} />
      ${experiments.some((one) => one.parent_id) && html`<label class="check" title="Each below the one that it was made from"><input type="checkbox" checked=${isTree}
        onChange=${() => route.setQuery({ tree: isTree ? null : "1" })} />tree</label>`}
      <label class="check"><input type="checkbox" checked=${isArchivedShown}
        onChange=${() => route.setQuery({ archived: isArchivedShown ? null : "1" })} />archived${numArchived ? ` (${numArchived})` : ""}</label>
    </div>
    ${shown.length
      ? html`<div class="plain-box"><table class="plain cards experiments">
          <thead><tr><th><span class="visually-hidden">Select</span></th><th class="number">#</th><th>Name</th><th>State</th>
            <th>Progress</th><th class="number">Trials</th><th class="number">Best</th><th>Search</th><th>Labels</th><th>Started</th></tr></thead>
          <tbody>${shown.slice(0, numShown).map((one, at) => html`<${Line} key=${one.id} experiment=${one} depth=${depths.get(one)}
            now=${nows.get(one.id)} isActive=${at === active} isSelected=${selection.has(one.id)} toggle=${toggle} />`)}</tbody>
        </table></div>`
      : html`<${Empty} title="No matches"><p>${route.query.find
        ? `No experiment has “${route.query.find}” in its name, labels or search.`
        : "All experiments are archived."}</p><//>`}
    ${shown.length > numShown && html`<p class="more"><${Button} onClick=${() => setNumShown(numShown + 10 * PAGE)}>
      Show more of ${format.number(shown.length)} experiments<//></p>`}`;
}

/** @param {{labels: string[] | undefined}} props */
export function Labels({ labels }) {
  return (labels ?? []).map((label) => html`<span key=${label} class="label" title=${format.short(label)}>
    ${format.short(label, 40)}</span> `);
}

/** @param {{experiment: any, depth: number, now: any, isActive: boolean, isSelected: boolean,
 *   toggle: (id: number) => void}} props */
function Line({ experiment, depth, now, isActive, isSelected, toggle }) {
  const { id, state, labels, config, start_time: start, end_time: end } = experiment;
  const counts = experiment.num_trials ?? {};
  const total = Object.values(counts).reduce((sum, count) => sum + count, 0);
  const isOver = end !== null && end !== undefined;
  return html`<tr class=${isActive ? "active" : ""}>
    <td class="select"><label class="hit"><input type="checkbox" checked=${isSelected} onChange=${() => toggle(id)}
      aria-label=${`Select experiment ${id}`} /></label></td>
    <td class="number">${id}</td>
    <td class="name" style=${`--depth: ${depth}`}><a href="#/experiments/${id}" title=${nameOf(experiment, 500)}><bdi>${nameOf(experiment)}</bdi></a>${
      experiment.parent_id && html` <a class="muted small nowrap" href="#/experiments/${experiment.parent_id}">from #${experiment.parent_id}</a>`}</td>
    <td class="state"><${Badge} state=${state} />${experiment.is_archived && html` <span class="label">archived</span>`} <${PauseButton} experiment=${experiment} /></td>
    <td>${isOver
      ? html`<span class="muted nowrap">took ${format.duration(end - start)}</span>`
      : html`<${Progress} share=${now?.progress ?? experiment.progress} />
      ${(now?.eta_secs ?? null) !== null && html`<div class="muted small nowrap">${format.duration(now.eta_secs)} left</div>`}`}</td>
    <td class="number" data-label="Trials"><span class="nowrap" title=${describeCounts(counts)}>${format.number(total)}${
      counts.ERROR ? html` <span class="bad">${counts.ERROR} failed</span>` : ""}</span></td>
    <td class="number" data-label="Best">${(experiment.best_metric ?? null) !== null && html`${format.metric(experiment.best_metric, config?.searcher?.metric ?? "", config?.searcher)}
      <div class="muted small">${config?.searcher?.metric}</div>`}</td>
    <td class="nowrap" data-label="Search">${(config?.searcher?.name ?? "").replaceAll("_", " ")}</td>
    <td class="labels"><${Labels} labels=${labels} /></td>
    <td class="nowrap muted" data-label="Started" title=${format.time(start)}>${format.ago(start)}</td></tr>`;
}

function NoExperiments() {
  return html`<${Empty} title="No experiments yet">
    <p>An experiment is one search over hyperparameters. Write what to search into a file, say <code>search.yaml</code>,
      and run</p>
    <pre><code>quintain experiment create search.yaml .</code></pre>
    <p>It appears here at once. Single trainings by <code>quintain train</code> are under <a href="#/runs">runs</a>.</p><//>`;
}

/** Keeps the list as new as the store. */
function useExperiments() {
  const [experiments, setExperiments] = useState(/** @type {any[] | null} */ (null));
  const [error, setError] = useState(/** @type {any} */ (null));
  const timer = useRef(/** @type {any} */ (null));
  const load = () => {
    get("/experiments", { summary: true, include_archived: true }).then((list) => {
      setExperiments(list);
      setError(null);
    }, setError);
  };
  const loadSoon = () => {
    timer.current ??= setTimeout(() => {
      timer.current = null;
      load();
    }, REFRESH_MS);
  };
  useEffect(() => {
    load();
    const stop = subscribe({
      onReset: load,
      onState: (state) => state === "live" && load(),
      onChanges: (changes) => {
        if (changes.experiments || changes.deleted_experiments) setExperiments((old) => old && merge(old, changes));
        if (changes.trials) loadSoon();
      },
    });
    return () => {
      stop();
      clearTimeout(timer.current);
    };
  }, []);
  return { experiments, error, load };
}

/** @param {any[]} old @param {any} changes */
export function merge(old, changes) {
  const byId = new Map(old.map((one) => [one.id, one]));
  for (const one of changes.experiments ?? []) byId.set(one.id, { ...byId.get(one.id), ...one });
  for (const id of changes.deleted_experiments ?? []) byId.delete(id);
  return [...byId.values()];
}

/** Newest first. @param {any[]} experiments @param {Record<string, string>} query */
export function choose(experiments, { find = "", archived }) {
  const wanted = find.toLowerCase().split(/\s+/).filter(Boolean);
  const fits = (/** @type {any} */ one) => {
    const searched = [one.id, nameOf(one), one.config?.name, one.config?.searcher?.name, one.state, ...(one.labels ?? [])];
    const words = searched.join(" ").toLowerCase();
    return (archived === "1" || !one.is_archived) && wanted.every((word) => words.includes(word));
  };
  return experiments.filter(fits).sort((a, b) => b.id - a.id);
}

/** Puts each experiment below the one that it was made from, and says how deep. @param {any[]} experiments @returns {Map<any, number>} */
export function arrange(experiments) {
  const known = new Set(experiments.map((one) => one.id));
  /** @type {Map<number | null, any[]>} */
  const children = new Map();
  for (const one of experiments) {
    const parent = known.has(one.parent_id) ? one.parent_id : null;
    if (!children.get(parent)?.push(one)) children.set(parent, [one]);
  }
  /** @type {Map<any, number>} */
  const depths = new Map();
  const place = (/** @type {number | null} */ id, /** @type {number} */ depth) => {
    for (const one of children.get(id) ?? []) {
      depths.set(one, depth);
      place(one.id, depth + 1);
    }
  };
  place(null, 0);
  return depths;
}

/** What people call an experiment, as `quintain experiment list` has it. @param {any} experiment @param {number} [most] characters @returns {string} */
export function nameOf(experiment, most = 200) {
  return format.short(experiment.config?.name || experiment.description?.split("\n")[0], most) || `Experiment ${experiment.id}`;
}

/** @param {Record<string, number>} counts */
export function describeCounts(counts) {
  const there = Object.entries(counts).filter(([, count]) => count);
  return there.map(([state, count]) => `${count} ${state.toLowerCase()}`).join(", ");
}
