// @ts-check
/** The view of curves: all trials, the best or the chosen ones over each other. */
import { Chart } from "./chart.js";
import { nameCurve, useCurves, useFullPoints, useGroups, useSame, useVersion } from "./chart_data.js";
import { SeedSwitch, ShadeLegend, TrialTip } from "./chart_parts.js";
import { assignLooks, colorOf, DASH_NOTE, listShades, shadeOf, TRAINING_DASH, useTheme } from "./colors.js";
import { describeGroup, joinCurves, listDifferences } from "./comparison.js";
import { CurveControls } from "./curve_controls.js";
import { chooseRows, findEpochs, groupMetrics, readSettings, toAxis, writeRange } from "./curve_choice.js";
import * as format from "./format.js";
import { buildScale, findExtent, findUsualExtent } from "./scales.js";
import { lowerBound, replacePart } from "./series.js";
import { html, useMemo, useRef } from "./vendor/preact.js";
import { Empty, Loading, Problem } from "./widgets.js";

const MANY_CURVES = 300;
const MAX_ASKED_IDS = 200;
const MAX_HUES = 24;
const MAX_DETAILS = 6;
const X_LABELS = { batches: "batches", epochs: "epochs", relative: "time since the start", wall: "time of day" };
const X_KINDS = /** @type {const} */ ({ batches: "number", epochs: "number", relative: "duration", wall: "clock" });

/** @typedef {import("./comparison.js").Group} Group */

/**
 * @param {object} props
 * @param {import("./experiment_data.js").ExperimentData} props.data
 * @param {ArrayLike<number>} props.visible  Rows that the filters leave.
 * @param {Set<number>} props.selection  Ids of trials.
 * @param {(selection: Set<number>) => void} props.setSelection
 * @param {import("./route.js").Route} props.route
 * @param {boolean} [props.isBrief]  Whether what is shown can't be chosen.
 */
export function CurvesView({ data, visible, selection, setSelection, route, isBrief = false }) {
  const theme = useTheme();
  const shown = useSame(visible);
  const settings = useMemo(() => readSettings(route.query, data), [JSON.stringify(route.query), data, data.metricNames.length]);
  const version = useVersion(data, shown.length * settings.metrics.length > MANY_CURVES);
  const rows = useSame(useMemo(() => chooseRows(data, settings, shown, selection), [data, version, settings, shown, selection]));
  const ids = rows.length > MAX_ASKED_IDS ? null : rows.map((row) => data.ids[row]);
  const { isLoading, error, retry } = useCurves(data, settings.metrics, ids);
  const { groups, isSeeded, isGrouped } = useGroups(data, rows, route.query);
  const tint = settings.tint || (groups.length > MAX_HUES ? "metric" : "trial");
  const shades = useMemo(() => findShades(data, rows, settings.metrics, theme.isDark), [data, rows, version, settings, theme]);
  const wanted = useMemo(() => listZoomed(data, rows, settings), [data, rows, version, settings]);
  const { parts, error: zoomError } = useFullPoints(wanted);
  const charts = useMemo(() => groupMetrics(settings.metrics).map((group) => ({
    ...group, series: buildSeries({ data, rows, groups, metrics: group.metrics, settings, selection, theme, tint, shades, parts }),
  })), [data, version, groups, settings, selection, theme, tint, shades, parts, isLoading]);
  // While curves are fetched anew, as after the master was away, those stay that are shown.
  const isEmpty = isLoading && charts.every(({ series }) => !series.length);
  const kept = useRef(charts);
  if (!isEmpty) kept.current = charts;
  const xLog = settings.xLog && settings.x !== "wall";
  const xExtent = useMemo(() => findExtent(kept.current.flatMap(({ series }) => series.map((one) => one.x)), xLog), [kept.current, xLog]);

  if (!data.numRows) return html`<${Empty} title="No trials yet"><p>Curves appear with the first metrics.</p><//>`;
  if (!data.metricNames.length) return html`<${Empty} title="No metrics yet"><p>Curves appear as soon as a trial reports.</p><//>`;
  const pick = (/** @type {import("./chart.js").Series} */ series) => {
    const { ids } = series.key;
    const next = new Set(selection);
    const isAdded = !ids.every((/** @type {number} */ id) => selection.has(id));
    for (const id of ids) next[isAdded ? "add" : "delete"](id);
    setSelection(next);
  };
  return html`<section class="curves">
    ${!isBrief && html`<${CurveControls} data=${data} settings=${settings} route=${route} numSelected=${selection.size}>
      <${SeedSwitch} isSeeded=${isSeeded} isGrouped=${isGrouped} /><//>`}
    ${error && html`<${Problem} error=${error} retry=${retry} />`}
    ${zoomError && html`<p class="chart-note">These are not all points: ${zoomError.message}</p>`}
    ${tint === "metric" && groups.length > 1 && html`<${ShadeLegend} ...${shades} />`}
    ${!rows.length && html`<${Empty} title=${settings.show === "selected" ? "No trial is selected" : "No trial passes the filter"}>
      <p>${settings.show === "selected" ? "Select trials in the table, or click a curve." : "Widen the filter, or show all trials."}</p><//>`}
    ${rows.length > 0 && (kept.current.every(({ series }) => !series.length) && isLoading
      ? html`<${Loading} text="Loading the curves" />`
      : kept.current.map((chart) => html`<${MetricChart} key=${chart.chart} ...${chart} ...${{ data, settings, xLog, xExtent, pick, route }}
          height=${isBrief || kept.current.length > 1 ? 280 : 420} />`))}
  </section>`;
}

/** One chart: all metrics of a name, as of training and validation. @param {any} props */
function MetricChart(props) {
  const { data, chart, metrics, series, settings, xLog, xExtent, pick, route, height } = props;
  const zoom = useMemo(() => zoomOf(settings, chart, series), [settings.range, chart, series]);
  const onZoom = (/** @type {import("./plot.js").Zoom | null} */ next) => route.setQuery({ range: writeRange(next, chart) });
  const tooltip = (/** @type {import("./chart.js").Hit} */ hit) => html`<${TrialTip} data=${data} row=${data.rowOf(hit.series.key.id)} name=${hit.series.key.ids.length > 1 ? hit.series.name : ""}
    lines=${[
      [hit.series.key.metric, settings.smoothing ? `${data.write(hit.series.key.metric, hit.raw)} (smoothed ${data.write(hit.series.key.metric, hit.y)})` : data.write(hit.series.key.metric, hit.y)],
      [X_LABELS[/** @type {import("./curve_choice.js").XAxis} */ (settings.x)], writeX(settings.x, hit.x)],
    ]} />`;
  return html`<${Chart} series=${series} yLabel=${metrics.length > 1 ? `${chart} ${DASH_NOTE}` : metrics[0]}
    xLabel=${X_LABELS[/** @type {import("./curve_choice.js").XAxis} */ (settings.x)]}
    xKind=${X_KINDS[/** @type {import("./curve_choice.js").XAxis} */ (settings.x)]}
    xLog=${xLog} xExtent=${xExtent} yLog=${settings.yLog} smoothing=${settings.smoothing}
    hidesOutliers=${settings.hidesOutliers} zoom=${zoom} onZoom=${onZoom} onPick=${pick} tooltip=${tooltip}
    syncKey=${`curves-${data.id}`} height=${height} />`;
}

/** Returns the curves of one chart, the best and the selected ones last. @param {any} props @returns {import("./chart.js").Series[]} */
function buildSeries({ data, rows, groups, metrics, settings, selection, theme, tint, shades, parts }) {
  const epochs = findEpochs(data);
  const starts = data.get("start_time");
  const differing = listDifferences(data, rows).slice(0, MAX_DETAILS);
  const isDimmed = selection.size > 0 && settings.show !== "selected";
  const isChosen = (/** @type {Group} */ group) => group.ids.some((id) => selection.has(id));
  const looks = tint === "trial" || isDimmed
    ? assignLooks((groups.length > MAX_HUES ? groups.filter(isChosen) : groups).map((/** @type {Group} */ group) => group.id), theme.isDark) : new Map();
  /** @type {import("./chart.js").Series[]} */
  const series = [];
  const alpha = groups.length > 1000 ? 0.35 : groups.length > 100 ? 0.6 : 1;
  for (const group of [...groups].reverse()) {
    const { id, ids } = group;
    const isMarked = isChosen(group);
    const shade = tint === "metric" ? shadeOf(shades.unit(group.rows[0])) : -1;
    const own = tint === "trial" || (isMarked && isDimmed) ? looks.get(id) : undefined;
    const color = own?.color ?? (tint === "trial" ? colorOf(id, theme.isDark) : shade < 0 ? theme.muted : shades.shades[shade]);
    for (const metric of metrics) {
      const lines = group.rows.flatMap((/** @type {number} */ row) => {
        const kept = data.curve(data.ids[row], metric);
        if (!kept?.batches.length) return [];
        const curve = mergePart(kept, parts.get(nameCurve(data.ids[row], metric)));
        return [{ x: toAxis(curve, settings.x, { epochs: epochs ? epochs(row) : NaN, start: Number(starts[row]) }), y: curve.values }];
      });
      if (!lines.length) continue;
      const isTraining = metrics.length > 1 && metric.startsWith("training/");
      const value = [data.column(metric)?.label ?? metric, ids.length > 1 ? describeGroup(data, metric, group.rows) : data.value(metric, group.rows[0])];
      series.push({
        name: metrics.length > 1 ? `${group.name}, ${metric}` : group.name,
        texts: { [value[0]]: ids.length > 1 ? value[1] : data.write(metric, value[1]) },
        cells: Object.fromEntries([value, ...differing.map(({ key, label }) => [label, data.value(key, group.rows[0])])]),
        ...joinCurves(lines),
        color,
        dash: isTraining ? TRAINING_DASH : metrics.length === 1 ? (own?.dash ?? []) : [],
        width: isMarked ? 2.5 : undefined,
        alpha: isDimmed && !isMarked ? alpha * 0.25 : isMarked ? 1 : alpha,
        isNamed: isDimmed ? isMarked : tint === "trial",
        key: { id, ids, metric },
      });
    }
  }
  if (!isDimmed) return series;
  const isOnTop = (/** @type {import("./chart.js").Series} */ one) => Number(one.key.ids.some((/** @type {number} */ id) => selection.has(id)));
  return series.sort((a, b) => isOnTop(a) - isOnTop(b));
}

/** @param {import("./curve_cache.js").Curve} curve @param {any} part */
function mergePart(curve, part) {
  if (!part) return curve;
  // The trial may have been taken back since the points were fetched.
  const length = lowerBound(part.batches, curve.batches[curve.batches.length - 1] + 1);
  const cut = (/** @type {number[]} */ values) => values.slice(0, length);
  return replacePart(curve, { batches: cut(part.batches), values: cut(part.values), times: cut(part.times) });
}

/**
 * Returns where each row stands between the worst and the best of the first metric.
 * @param {any} data @param {number[]} rows @param {string[]} metrics @param {boolean} isDark
 */
function findShades(data, rows, metrics, isDark) {
  const name = (metrics.includes(data.searchedMetric) ? data.searchedMetric : metrics[0]) ?? "";
  const values = name ? data.get(name) : new Float64Array(0);
  const [lo, hi] = findUsualExtent([rows.map((row) => values[row])], false) ?? [0, 1];
  const scale = buildScale(lo, hi);
  const shades = listShades(isDark, data.isSmallerBetter(name));
  return { label: data.column(name)?.label ?? name, lo, hi, shades, unit: (/** @type {number} */ row) => clamp(scale.toUnit(values[row])) };
}

/** Returns the zoom of a chart: its own, or the horizontal one of another chart. @param {any} settings @param {string} chart @param {import("./chart.js").Series[]} series */
function zoomOf(settings, chart, series) {
  if (!settings.range) return null;
  const [x0, x1, y0, y1] = settings.range.zoom;
  if (settings.range.chart === chart) return settings.range.zoom;
  let [lo, hi] = [Infinity, -Infinity];
  for (const { x, y } of series) {
    for (let i = 0; i < x.length; i++) {
      if (x[i] < x0 || x[i] > x1 || !Number.isFinite(y[i]) || (settings.yLog && y[i] <= 0)) continue;
      lo = Math.min(lo, y[i]);
      hi = Math.max(hi, y[i]);
    }
  }
  return lo < hi ? [x0, x1, lo, hi] : [x0, x1, y0, y1];
}

/** Returns the stretches of curves that are zoomed into. @param {any} data @param {number[]} rows @param {any} settings */
function listZoomed(data, rows, settings) {
  if (!settings.range || rows.length * settings.metrics.length > 16) return [];
  const [x0, x1] = settings.range.zoom;
  const epochs = findEpochs(data);
  const starts = data.get("start_time");
  return rows.flatMap((row) => settings.metrics.flatMap((/** @type {string} */ metric) => {
    const curve = data.curve(data.ids[row], metric);
    if (!curve?.batches.length) return [];
    const x = toAxis(curve, settings.x, { epochs: epochs ? epochs(row) : NaN, start: Number(starts[row]) });
    const inside = Array.from(x, (_, i) => i).filter((i) => x[i] >= x0 && x[i] <= x1);
    const first = Math.max(0, (inside[0] ?? lowerBound(x, x0)) - 1);
    const last = Math.min(x.length - 1, (inside[inside.length - 1] ?? first) + 1);
    if (last - first > x.length * 0.8) return [];
    return [{ trialId: data.ids[row], metric, from: curve.batches[first], to: curve.batches[last], numPoints: x.length }];
  }));
}

/** @param {string} x @param {number} value */
function writeX(x, value) {
  if (x === "relative") return format.duration(value);
  return x === "wall" ? format.time(value) : format.number(value);
}

/** @param {number} unit */
function clamp(unit) {
  return Math.min(1, Math.max(0, unit));
}
