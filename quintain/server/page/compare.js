// @ts-check
/** Trials side by side: only the settings that differ, metrics and curves; group seeds. */
import { Chart } from "./chart.js";
import { nameCurve, useCurves, useGroups, useSame, useVersion } from "./chart_data.js";
import { Check, ColumnPart, SeedSwitch, Swatch } from "./chart_parts.js";
import { assignLooks, DASH_NOTE, TRAINING_DASH, useTheme } from "./colors.js";
import { describeGroup, findSpread, joinCurves, listDifferences } from "./comparison.js";
import { groupMetrics, readSettings } from "./curve_choice.js";
import { CurveControls } from "./curve_controls.js";
import { formatPlace } from "./route.js";
import { sortByMetric } from "./rank.js";
import { html, useMemo } from "./vendor/preact.js";
import { Badge, Button, Empty, Problem } from "./widgets.js";

const MAX_COLUMNS = 20;
const NUM_BEST = 5;
/** @type {[string, string][]} */
const FACTS = [["total_batches", "batches"], ["duration", "duration"], ["restarts", "restarts"]];

/** @typedef {import("./comparison.js").Group} Group */

/**
 * @param {object} props
 * @param {import("./experiment_data.js").ExperimentData} props.data
 * @param {Set<number>} props.selection
 * @param {(selection: Set<number>) => void} props.setSelection
 * @param {import("./route.js").Route} props.route
 */
export function CompareView({ data, selection, setSelection, route }) {
  const version = useVersion(data, false);
  const settings = useMemo(() => readSettings(route.query, data), [JSON.stringify(route.query), data, data.metricNames.length]);
  const rows = useSame([...selection].map((id) => data.rowOf(id)).filter((row) => row >= 0));
  const { groups, isSeeded, isGrouped } = useGroups(data, rows, route.query);
  const theme = useTheme();
  const looks = useMemo(() => assignLooks(groups.map((group) => group.id), theme.isDark), [groups, theme]);
  const { error, retry } = useCurves(data, settings.metrics, rows.map((row) => data.ids[row]));
  const others = html`<a href=${formatPlace("/compare", { ids: data.id })}>Compare this experiment with others</a>`;
  if (!rows.length) {
    const best = sortByMetric(/** @type {Float64Array} */ (data.get("best_metric")), Array.from({ length: data.numRows }, (_, row) => row), data.isSmallerBetter("best_metric"));
    return html`<${Empty} title="No trials selected">
      <p>Select trials in the table, or click a curve, a line or a point.</p>
      ${data.numRows > 0 && html`<p><${Button} kind="main" onClick=${() => setSelection(new Set(best.slice(0, NUM_BEST).map((row) => data.ids[row])))}>
        Compare the best ${Math.min(NUM_BEST, data.numRows)}<//></p>`}
      <p>${others}</p><//>`;
  }
  return html`<section class="compare">
    <div class="chart-controls">
      <${SeedSwitch} isSeeded=${isSeeded} isGrouped=${isGrouped} />
      <${Check} label="Only differences" checked=${route.query.all !== "1"} onChange=${(/** @type {boolean} */ on) => route.setQuery({ all: on ? null : 1 })} />
      <span class="space"></span>${others}
    </div>
    <${ComparisonTable} ...${{ data, version, groups, looks, rows, selection, setSelection }} hasAll=${route.query.all === "1"} />
    ${groups.length > MAX_COLUMNS && html`<p class="chart-note">The table has the first ${MAX_COLUMNS} of ${groups.length}.</p>`}
    <${CurveControls} data=${data} settings=${settings} route=${route} isCompared=${true} />
    ${error && html`<${Problem} error=${error} retry=${retry} />`}
    ${groupMetrics(settings.metrics).map(({ chart, metrics }) => html`<${GroupChart} key=${chart} ...${{ data, version, groups, looks, chart, metrics, settings }} />`)}
  </section>`;
}

/** @param {any} props */
function ComparisonTable({ data, groups, looks, rows, hasAll, selection, setSelection }) {
  const shown = /** @type {Group[]} */ (groups.slice(0, MAX_COLUMNS));
  const differing = listDifferences(data, rows);
  const columns = hasAll ? data.columns.filter((/** @type {any} */ column) => column.source === "hparam") : differing;
  const metrics = data.metricNames.filter((/** @type {string} */ name) => !name.startsWith("system/"));
  const remove = (/** @type {Group} */ group) => {
    const next = new Set(selection);
    for (const row of group.rows) next.delete(data.ids[row]);
    setSelection(next);
  };
  return html`<div class="plain-box"><table class="plain comparison">
    <thead><tr><th></th>${shown.map((group) => html`<th scope="col" key=${group.id}>
      <${Swatch} ...${looks.get(group.id)} />
      ${group.rows.length > 1 ? `${group.rows.length} seeds: ` : "Trial "}${group.rows.map((row, i) => html`${i ? ", " : ""}<a href=${`#/trials/${data.ids[row]}`}>${data.ids[row]}</a>`)}
      <${Button} kind="quiet" label=${`Take ${group.name} out`} onClick=${() => remove(group)}>✕<//></th>`)}</tr></thead>
    <tbody>
      <tr><th scope="row">state</th>${shown.map((group) => html`<td>${[...new Set(group.rows.map((row) => data.outcome(row)))].map((state) => html`<${Badge} state=${state} />`)}</td>`)}</tr>
      ${FACTS.map(([key, label]) => html`<tr key=${key}><th scope="row">${label}</th>${shown.map((group) => html`<td>${describeGroup(data, key, group.rows) || "–"}</td>`)}</tr>`)}
    </tbody>
    <tbody><tr class="section"><th scope="rowgroup" colspan=${shown.length + 1}>${hasAll ? "All hyperparameters" : "Hyperparameters that differ"}</th></tr>
      ${!columns.length && html`<tr><td colspan=${shown.length + 1} class="muted">${rows.length > 1 ? "None: these trials differ in the seed only." : "One trial has nothing to differ from."}</td></tr>`}
      ${columns.map((/** @type {any} */ column) => html`<tr key=${column.key} class=${hasAll && differing.includes(column) ? "differs" : ""}><th scope="row" title=${column.path}>${column.label}</th>
        ${shown.map((group) => html`<td>${describeGroup(data, column.key, group.rows) || "–"}</td>`)}</tr>`)}
      <tr><th scope="row">seed</th>${shown.map((group) => html`<td>${group.rows.map((row) => data.value("seed", row) ?? "–").join(", ")}</td>`)}</tr>
    </tbody>
    <tbody><tr class="section"><th scope="rowgroup" colspan=${shown.length + 1}>Metrics${shown.some((group) => group.rows.length > 1) ? ": mean ± standard deviation" : ""}</th></tr>
      ${metrics.map((/** @type {string} */ name) => html`<${MetricRow} key=${name} data=${data} groups=${shown} name=${name} />`)}
    </tbody>
  </table></div>`;
}

/** @param {{data: any, groups: Group[], name: string}} props */
function MetricRow({ data, groups, name }) {
  const values = data.get(name);
  const spreads = groups.map((group) => findSpread(group.rows.map((row) => values[row])));
  const isSmallerBetter = data.isSmallerBetter(name);
  const sign = isSmallerBetter ? 1 : -1;
  const best = Math.min(...spreads.map((spread) => (Number.isFinite(spread.mean) ? sign * spread.mean : Infinity)));
  return html`<tr><th scope="row"><bdi>${name}</bdi> <${ColumnPart} data=${data} of=${name} /></th>
    ${spreads.map((spread, i) => html`<td class=${groups.length > 1 && isSmallerBetter !== null && sign * spread.mean === best ? "best" : ""}>${describeGroup(data, name, groups[i].rows)}</td>`)}</tr>`;
}

/** @param {any} props */
function GroupChart({ data, version, groups, looks, chart, metrics, settings }) {
  const series = useMemo(() => groups.flatMap((/** @type {Group} */ group) => metrics.flatMap((/** @type {string} */ metric) => {
    const lines = group.rows.map((row) => data.curve(data.ids[row], metric)).filter((curve) => curve?.batches.length)
      .map((curve) => ({ x: curve.batches, y: curve.values }));
    if (!lines.length) return [];
    const isTraining = metrics.length > 1 && metric.startsWith("training/");
    const { color, dash } = looks.get(group.id);
    const own = { color, dash: isTraining ? TRAINING_DASH : metrics.length > 1 ? [] : dash, key: nameCurve(group.id, metric) };
    const name = metrics.length > 1 ? `${group.name}, ${metric}` : group.name;
    return [{ ...own, name, ...joinCurves(lines) }];
  })).reverse(), [data, version, groups, looks, metrics.join("\n")]);
  return html`<${Chart} series=${series} xLabel="batches" yLabel=${metrics.length > 1 ? `${chart} ${DASH_NOTE}` : metrics[0]}
    xLog=${settings.xLog} yLog=${settings.yLog} smoothing=${settings.smoothing} hidesOutliers=${settings.hidesOutliers} height=${320} syncKey=${`compare-${data.id}`} />`;
}
