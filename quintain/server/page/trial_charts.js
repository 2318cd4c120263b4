// @ts-check
// The curves of one trial: its metrics, and what its process used of the machine.
import { html, useEffect, useMemo, useState } from "./vendor/preact.js";
import { get } from "./api.js";
import { Chart } from "./chart.js";
import { AxisControls } from "./chart_parts.js";
import { colorOf, TRAINING_DASH, useTheme } from "./colors.js";
import { readAxes } from "./curve_choice.js";
import { bytes, metric as writeMetric, number } from "./format.js";
import { clean } from "./log_lines.js";
import { Button, Empty, toast } from "./widgets.js";

/** @typedef {import("./curve_cache.js").Curve} Curve */
/** @typedef {import("./trial_data.js").TrialData} TrialData */

const MANY_CHARTS = 8;
/** @typedef {"batches" | "relative" | "wall"} XAxis */
/** @type {[XAxis, string][]} */
const AXES = [["batches", "batches"], ["relative", "time since the start"], ["wall", "time of day"]];
const KINDS = /** @type {const} */ ({ batches: "number", relative: "duration", wall: "clock" });
const SYSTEM = {
  cpu_percent: { label: "processor, % of a core", scale: 1 },
  memory_bytes: { label: "memory, MB", scale: 1e-6 },
  gpu_percent: { label: "GPU, %", scale: 1 },
  gpu_memory_bytes: { label: "memory of the GPU, MB", scale: 1e-6 },
};

/** @param {{data: TrialData, route: import("./route.js").Route}} props */
export function TrialCharts({ data, route }) {
  const { query, setQuery } = route;
  const [isAll, setAll] = useState(false);
  const charts = data.listCharts();
  if (!charts.length) {
    return data.trial.end_time
      ? html`<${Empty} title="No metrics"><p>The trial ended before its first training result.</p><//>`
      : html`<${Empty} title="No metrics yet"><p>Points appear with the first training results.</p><//>`;
  }
  const axes = readAxes(query, AXES.map(([key]) => key));
  const shown = isAll ? charts : charts.slice(0, MANY_CHARTS);
  return html`<section class="trial-charts" aria-label="Curves">
    <div class="chart-controls"><${AxisControls} across=${AXES} axes=${axes} setQuery=${setQuery} /></div>
    <div class="trial-grid">${shown.map(([short, names]) => html`
      <${MetricChart} key=${short} short=${short} names=${names} data=${data} axis=${axes.x} smoothing=${axes.smoothing} isLog=${axes.yLog} />`)}</div>
    ${charts.length > shown.length && html`<${Button} onClick=${() => setAll(true)}>Show all ${charts.length} metrics<//>`}
  </section>`;
}

/** Training and validation of one metric; zoomed in, with all points that there are.
 * @param {{short: string, names: string[], data: TrialData, axis: XAxis, smoothing: number, isLog: boolean}} props */
function MetricChart({ short, names, data, axis, smoothing, isLog }) {
  const { isDark } = useTheme();
  const [zoom, setZoom] = useState(/** @type {any} */ (null));
  const [details, setDetails] = useState(/** @type {Record<string, Curve>} */ ({}));
  useEffect(() => setZoom(null), [axis, isLog]);
  useEffect(() => {
    setDetails({});
    if (!zoom) return undefined;
    const stop = new AbortController();
    fetchDetails(data, names, axis, zoom, stop.signal).then(setDetails, (error) => error.name !== "AbortError" && toast(error.message, "bad"));
    return () => stop.abort();
  }, [zoom, axis]);
  const curves = names.map((name) => details[name] ?? data.curve(name));
  const series = useMemo(() => names.map((name, at) => {
    const curve = curves[at];
    return {
      name: name.slice(0, name.indexOf("/")),
      x: curve ? findPlaces(curve, axis, data.trial.start_time) : [], y: curve?.values ?? [],
      color: colorOf(name.startsWith("validation/") ? 2 : 1, isDark),
      dash: names.length > 1 && name.startsWith("training/") ? TRAINING_DASH : [],
    };
  }), [axis, isDark, data.trial.start_time, ...curves]);
  const tooltip = (/** @type {import("./chart.js").Hit} */ hit) => html`<b>${hit.series.name}</b> ${writeMetric(hit.y, names[0], data.experiment?.config?.searcher)}`;
  return html`<div class="panel"><${Chart} series=${series} xLabel=${new Map(AXES).get(axis)} xKind=${KINDS[axis]} yLabel=${clean(short)} yLog=${isLog}
    smoothing=${smoothing} zoom=${zoom} onZoom=${setZoom} tooltip=${tooltip} syncKey="trial-${axis}" height=${220} hasLegend=${true} /></div>`;
}

/** @param {TrialData} data @param {string[]} names @param {XAxis} axis @param {number[]} zoom @param {AbortSignal} signal */
async function fetchDetails(data, names, axis, zoom, signal) {
  const found = await Promise.all(names.map((name) => {
    const curve = data.curve(name);
    const [from, to] = curve ? findBatches(curve.batches, findPlaces(curve, axis, data.trial.start_time), zoom) : [0, 0];
    return get(`/trials/${data.id}/points`, { metric: name, from, to }, { signal });
  }));
  return Object.fromEntries(names.map((name, at) => [name, toCurve(found[at])]));
}

/** @param {{batches: number[], values: (number | string)[], times: number[]}} points @returns {Curve} */
function toCurve({ batches, values, times }) {
  return { batches: Float64Array.from(batches), values: Float64Array.from(values, Number), times: Float64Array.from(times) };
}

/** Returns the batches of the last point before a range, and of the first one after it.
 * @param {Float64Array} batches @param {Float64Array} places @param {number[]} range @returns {[number, number]} */
export function findBatches(batches, places, [lo, hi]) {
  const before = places.findLastIndex((place) => place <= lo);
  const after = places.findIndex((place) => place >= hi);
  return [batches[before] ?? 0, batches[after] ?? batches[batches.length - 1] ?? 0];
}

/** @param {Curve} curve @param {XAxis} axis @param {number | null} start */
function findPlaces(curve, axis, start) {
  if (axis === "batches") return curve.batches;
  const origin = axis === "relative" ? (start ?? curve.times[0] ?? 0) : 0;
  return curve.times.map((secs) => secs - origin);
}

/** What the process of a trial used of the machine. @param {{data: TrialData}} props */
export function SystemCharts({ data }) {
  const { isDark } = useTheme();
  const names = data.listSystem();
  if (!names.length) {
    return html`<${Empty} title="No measurements"><p>Processor, memory and GPU use are sampled every ten seconds.
      ${data.trial.end_time ? "This one was too short, or ran where the system does not tell." : "The first numbers come soon after its start."}</p><//>`;
  }
  return html`<section aria-label="System metrics"><div class="trial-grid">${names.map((name) => html`
    <${SystemChart} key=${name} short=${name.slice("system/".length)} curve=${data.curve(name)} isOver=${Boolean(data.trial.end_time)} color=${colorOf(3, isDark)} />`)}</div>
    <p class="muted">Of the trial's process and all that it started, about every ten seconds. Memory that processes share counts for each; of a GPU it is what all programs use.</p></section>`;
}

/** @param {{short: string, curve: Curve | null, isOver: boolean, color: string}} props */
function SystemChart({ short, curve, isOver, color }) {
  const { label, scale } = /** @type {any} */ (SYSTEM)[short] ?? { label: clean(short), scale: 1 };
  const series = useMemo(() => [{ name: label, x: curve?.times ?? [], y: curve ? curve.values.map((value) => value * scale) : [], color }], [curve, color]);
  const latest = curve?.values[curve.values.length - 1] ?? NaN;
  return html`<div class="panel"><div class="muted right">${isOver ? "last" : "now"} ${short.endsWith("_bytes") ? bytes(latest) : `${number(latest, 3)} %`}</div>
    <${Chart} series=${series} xLabel="time of day" xKind="clock" yLabel=${label} syncKey="system" height=${200} hasLegend=${false} /></div>`;
}
