// @ts-check
/** Experiments side by side: their searches, the settings that differ, and how soon each became good. */
import { get, getBuffer } from "./api.js";
import { subscribe } from "./events.js";
import { Chart } from "./chart.js";
import { Swatch } from "./chart_parts.js";
import { brief } from "./chart_table.js";
import { assignLooks, useTheme } from "./colors.js";
import { listDifferingPaths } from "./comparison.js";
import { ExperimentData } from "./experiment_data.js";
import * as format from "./format.js";
import { flatten, shortenPaths } from "./hparams.js";
import { formatIds, parseIds } from "./route.js";
import { bestSoFar, findBestRow } from "./rank.js";
import { html, useEffect, useMemo, useState } from "./vendor/preact.js";
import { Badge, Button, Empty, Loading, Problem } from "./widgets.js";

const MAX_EXPERIMENTS = 12;
const HIDDEN = /^(description|labels|name|searcher\.metric$)/;

/** @param {{route: import("./route.js").Route}} props */
export function CompareExperimentsView({ route }) {
  const ids = [...parseIds(route.query.ids)].slice(0, MAX_EXPERIMENTS);
  const { loaded, all, error, version } = useExperiments(ids);
  const setIds = (/** @type {number[]} */ next) => route.setQuery({ ids: formatIds(next) || null });
  const others = all.filter((one) => !ids.includes(one.id));
  return html`<section class="compare">
    <div class="page-head"><h1>Compare experiments</h1><span class="space"></span>
      ${others.length > 0 && ids.length < MAX_EXPERIMENTS && html`<label class="choice">Add <select value=""
        onChange=${(/** @type {any} */ event) => event.currentTarget.value && setIds([...ids, Number(event.currentTarget.value)])}>
        <option value="">an experiment …</option>
        ${others.map((one) => html`<option key=${one.id} value=${one.id}>#${one.id} ${brief(nameOf(one))}</option>`)}</select></label>`}
    </div>
    ${error && html`<${Problem} error=${error} />`}
    ${!ids.length && html`<${Empty} title="No experiments selected"><p>${all.length ? "Add two or more above." : "There are none yet."}</p><//>`}
    ${ids.length > 0 && !loaded.length && !error && html`<${Loading} text="Loading the experiments" />`}
    ${loaded.length > 0 && html`<${Comparison} loaded=${loaded} version=${version} onRemove=${(/** @type {number} */ id) => setIds(ids.filter((each) => each !== id))} />`}
  </section>`;
}

/** @param {{loaded: ExperimentData[], version: number, onRemove: (id: number) => void}} props */
function Comparison({ loaded, version, onRemove }) {
  const theme = useTheme();
  const settings = loaded.map((data) => flatten(data.experiment.config));
  const paths = listDifferingPaths(settings).filter((path) => !HIDDEN.test(path));
  const best = loaded.map((data) => findBestRow(bestValues(data), data.isSmallerBetter("best_metric")));
  const metrics = new Set(loaded.map((data) => data.searchedMetric));
  const looks = useMemo(() => assignLooks(loaded.map((data) => data.id), theme.isDark), [loaded, theme]);
  const series = useMemo(() => loaded.map((data) => ({ ...toSeries(data), ...looks.get(data.id) })).reverse(), [loaded, version, looks]);
  const [numCurves, setNumCurves] = useState(0);
  useEffect(() => {
    Promise.all(loaded.map((data, i) => data.searchedMetric && best[i] >= 0 && data.loadCurves([data.searchedMetric], [data.ids[best[i]]])))
      .then(() => setNumCurves((old) => old + 1), () => {}); // Without its curve an experiment is in the table all the same.
  }, [loaded, best.join()]);
  const curves = useMemo(() => loaded.flatMap((data, i) => {
    const curve = best[i] < 0 ? null : data.curve(data.ids[best[i]], data.searchedMetric);
    return curve ? [{ name: `#${data.id}, trial ${data.ids[best[i]]}`, x: curve.batches, y: curve.values, ...looks.get(data.id) }] : [];
  }).reverse(), [loaded, version, numCurves, looks]);
  /** @type {[string, (data: ExperimentData, i: number) => any][]} */
  const facts = [
    ["state", (data) => html`<${Badge} state=${data.experiment.state} />`],
    ["search", (data) => String(data.experiment.config?.searcher?.name ?? "").replaceAll("_", " ")],
    ["metric", (data) => data.searchedMetric || "–"],
    ["trials", (data) => data.numRows.toLocaleString("en")],
    ["best", (data, i) => (best[i] < 0 ? "–" : html`<b>${data.write("best_metric", bestValues(data)[best[i]])}</b> by <a href=${`#/trials/${data.ids[best[i]]}`}>trial ${data.ids[best[i]]}</a>`)],
    ["batches in all", (data) => format.number(/** @type {Float64Array} */ (data.get("total_batches")).reduce((sum, value) => sum + (value || 0), 0))],
  ];
  const hparams = [...new Set(loaded.flatMap((data) => data.columns.filter((column) => column.source === "hparam").map((column) => column.path ?? column.label)))];
  const labels = shortenPaths(hparams);
  const row = (/** @type {string} */ name, /** @type {any[]} */ cells, label = name) => html`<tr key=${name}><th scope="row" title=${name}>${label}</th>${cells.map((cell) => html`<td>${cell}</td>`)}</tr>`;
  const section = (/** @type {string} */ name) => html`<tr class="section"><th scope="rowgroup" colspan=${loaded.length + 1}>${name}</th></tr>`;
  return html`<div class="plain-box"><table class="plain comparison">
      <thead><tr><th></th>${loaded.map((data) => html`<th scope="col" key=${data.id}>
        <${Swatch} ...${looks.get(data.id)} />
        <a href=${`#/experiments/${data.id}`}>#${data.id} <bdi>${brief(nameOf(data.experiment))}</bdi></a>
        <${Button} kind="quiet" label=${`Take experiment ${data.id} out`} onClick=${() => onRemove(data.id)}>✕<//></th>`)}</tr></thead>
      <tbody>${facts.map(([name, write]) => row(name, loaded.map(write)))}</tbody>
      <tbody>${section("Settings that differ")}
        ${!paths.length && html`<tr><td colspan=${loaded.length + 1} class="muted">${loaded.length > 1 ? "None." : "Add an experiment to compare it with."}</td></tr>`}
        ${paths.map((path) => row(path, settings.map((each) => (path in each ? brief(format.text(each[path])) || "–" : html`<span class="muted">not set</span>`))))}</tbody>
      <tbody>${section("Hyperparameters of the best trial")}
        ${hparams.map((path) => row(path, loaded.map((data, i) => (best[i] < 0 ? "–" : brief(data.value(`hparams.${path}`, best[i])) || "–")), labels.get(path)))}</tbody>
    </table></div>
    ${metrics.size > 1 && html`<p class="chart-note">These experiments search for different metrics: ${[...metrics].join(", ")}.</p>`}
    <${Chart} series=${series} xKind="duration" xLabel="time since the experiment began" yLabel="best so far" height=${300} />
    <${Chart} series=${curves} xLabel="batches" yLabel=${`${[...metrics].join(", ")} of the best trials`} height=${300} />`;
}

/** Loads experiments, and keeps them as new as the store. @param {number[]} ids */
function useExperiments(ids) {
  const [kept] = useState(() => /** @type {Map<number, ExperimentData>} */ (new Map()));
  const [all, setAll] = useState(/** @type {any[]} */ ([]));
  const [error, setError] = useState(/** @type {any} */ (null));
  const [version, setVersion] = useState(0);
  useEffect(() => {
    get("/experiments", { summary: true }).then(setAll, setError);
    const draw = () => setVersion((old) => old + 1);
    const reload = () => Promise.all([...kept.values()].map((data) => data.load())).then(draw, setError);
    return subscribe({
      onReset: reload,
      onChanges: (/** @type {any} */ changes) => {
        const stale = [...kept.values()].filter((data) => data.experiment && data.applyChanges(changes));
        Promise.all(stale.map((data) => data.load())).then(draw, setError);
      },
    });
  }, []);
  useEffect(() => {
    setError(null);
    for (const id of [...kept.keys()]) if (!ids.includes(id)) kept.delete(id);
    const fresh = ids.filter((id) => !kept.has(id)).map((id) => {
      const data = new ExperimentData(id, { get, getBuffer });
      kept.set(id, data);
      return data.load().catch((problem) => {
        kept.delete(id);
        setError(problem);
      });
    });
    Promise.all(fresh).then(() => setVersion((old) => old + 1));
  }, [ids.join()]);
  const loaded = useMemo(() => ids.map((id) => kept.get(id)).filter((data) => data?.experiment), [version, ids.join()]);
  return { loaded: /** @type {ExperimentData[]} */ (loaded), all, error, version };
}

/** @param {ExperimentData} data */
function toSeries(data) {
  const ends = /** @type {Float64Array} */ (data.get("end_time"));
  const now = Date.now() / 1000;
  const times = ends.map((end) => (Number.isFinite(end) ? end : now));
  const { x, y } = bestSoFar(times, bestValues(data), data.isSmallerBetter("best_metric"));
  const start = data.experiment.start_time;
  return { name: `#${data.id} ${brief(nameOf(data.experiment))}`, x: x.map((time) => time - start), y };
}

/** @param {ExperimentData} data */
function bestValues(data) {
  return /** @type {Float64Array} */ (data.get("best_metric"));
}

/** @param {any} experiment */
function nameOf(experiment) {
  return experiment.config?.name || experiment.description?.split("\n")[0] || "";
}
