// @ts-check
// Curves of runs of `quintain train`: those of one run, or of several one over another.
import { Chart } from "./chart.js";
import { AxisControls } from "./chart_parts.js";
import { colorOf, TRAINING_DASH, useTheme } from "./colors.js";
import { joinCurves } from "./comparison.js";
import { readAxes } from "./curve_choice.js";
import * as format from "./format.js";
import { groupMetrics } from "./run_data.js";
import { html, useMemo } from "./vendor/preact.js";

/** @type {["step" | "relative", string][]} */
const AXES = [["step", "steps"], ["relative", "time since the start"]];

/** One run, or several seeds of one. @typedef {{label: string, records: import("./run_data.js").RunRecords[]}} Shown */

/**
 * @param {object} props
 * @param {Shown[]} props.runs
 * @param {string} props.version  Changes when there are new records.
 * @param {import("./route.js").Route} props.route
 */
export function RunCharts({ runs, version, route }) {
  const axes = readAxes(route.query, AXES.map(([key]) => key));
  const charts = useMemo(() => groupMetrics([...new Set(runs.flatMap((run) => run.records.flatMap((one) => one.names)))]), [version]);
  const isThinned = runs.some((run) => run.records.some((one) => one.isThinned));
  const shown = { runs, version, ...axes };
  const speed = charts.filter((chart) => chart.isAboutSpeed);
  if (!charts.length) return html`<p class="muted">No metrics yet. The first ones appear after the first training loop.</p>`;
  return html`
    <div class="chart-controls">
      <${AxisControls} across=${AXES} axes=${axes} setQuery=${route.setQuery} />
      ${isThinned && html`<span class="muted">Long curves are thinned to about 2,000 steps.</span>`}
    </div>
    <div class="run-charts">${charts.filter((chart) => !chart.isAboutSpeed).map((chart) => html`<${MetricChart} key=${chart.title} chart=${chart} ...${shown} />`)}</div>
    ${speed.length > 0 && html`<details class="run-speed" open=${route.query.speed === "1"} onToggle=${(/** @type {any} */ event) => route.setQuery({ speed: event.target.open ? "1" : null })}>
      <summary>Speed, memory and learning rate (${speed.length})</summary>
      ${route.query.speed === "1" && html`<div class="run-charts">${speed.map((chart) => html`<${MetricChart} key=${chart.title} chart=${chart} ...${shown} />`)}</div>`}
    </details>`}`;
}

/** @param {{chart: {title: string, names: string[]}, runs: Shown[], version: string, x: "step" | "relative", yLog: boolean, smoothing: number}} props */
function MetricChart({ chart, runs, version, x, yLog, smoothing }) {
  const { isDark } = useTheme();
  // The last one is painted on top, and is the first of the legend.
  const series = useMemo(() => runs.flatMap((run, index) => chart.names.flatMap((name, place) => {
    const lines = run.records.flatMap((one) => one.line(name) ?? []);
    if (!lines.length) return [];
    const isAlone = runs.length === 1;
    return [{
      name: isAlone ? name : chart.names.length > 1 ? `${run.label}: ${name}` : run.label,
      ...joinCurves(lines.map((line) => ({ x: Float64Array.from(x === "relative" ? line.times : line.steps), y: Float64Array.from(line.values) }))),
      color: colorOf((isAlone ? place : index) + 1, isDark),
      dash: lines[0].kind === "training" && chart.names.length > 1 ? TRAINING_DASH : [],
    }];
  })).reverse(), [version, runs.map((run) => run.label).join("\n"), chart.title, chart.names.length, x, isDark]);
  const tooltip = (/** @type {any} */ hit) => html`<b>${hit.series.name}</b><br />${format.number(hit.raw)} at ${
    x === "relative" ? format.duration(hit.x) : `step ${format.number(hit.x)}`}`;
  return html`<section class="panel run-chart" aria-label=${chart.title}>
    <${Chart} series=${series} xLabel=${new Map(AXES).get(x)} xKind=${x === "relative" ? "duration" : "number"}
      yLabel=${chart.title} yLog=${yLog} smoothing=${smoothing} syncKey="runs" height=${240} tooltip=${tooltip} />
  </section>`;
}
