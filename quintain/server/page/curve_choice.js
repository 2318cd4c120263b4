// @ts-check
/** Which curves are shown, and by what. Pure: no page, no canvas. */
import { PARTS } from "./experiment_data.js";
import { sortByMetric } from "./rank.js";

/**
 * @typedef {import("./experiment_data.js").ExperimentData} ExperimentData
 * @typedef {import("./experiment_data.js").Part} Part
 * @typedef {import("./curve_cache.js").Curve} Curve
 * @typedef {"batches" | "epochs" | "relative" | "wall"} XAxis
 * @typedef {"all" | "visible" | "top" | "selected"} Shown
 *
 * What a link says of the view of curves.
 * @typedef {object} OwnSettings
 * @property {string[]} metrics
 * @property {Shown} show
 * @property {number} k  How many of the best.
 * @property {boolean} hidesOutliers
 * @property {"" | "trial" | "metric"} tint  What colours say; "" for what suits the number of curves.
 * @property {{zoom: import("./plot.js").Zoom, chart: string} | null} range
 *
 * @typedef {OwnSettings & Axes<XAxis>} Settings
 */
/**
 * @template {string} X
 * @typedef {{x: X, smoothing: number, xLog: boolean, yLog: boolean}} Axes
 */

/** @type {XAxis[]} */
const X_AXES = ["batches", "epochs", "relative", "wall"];
const SHOWN = ["all", "visible", "top", "selected"];

/**
 * @param {Record<string, string>} query
 * @param {ExperimentData} data
 * @returns {Settings}
 */
export function readSettings(query, data) {
  const named = readNames(query.metrics).filter((name) => data.metricNames.includes(name));
  return {
    metrics: named.length ? named : chooseMetrics(data),
    ...readAxes(query, X_AXES),
    show: oneOf(query.show, SHOWN, "visible"),
    k: Math.max(1, Math.floor(Number(query.k)) || 10),
    hidesOutliers: query.outliers === "hide",
    tint: oneOf(query.tint, ["trial", "metric"], ""),
    range: readRange(query.range),
  };
}

/**
 * Returns what a link says of the axes of curves.
 * @template {string} X
 * @param {Record<string, string>} query
 * @param {X[]} known  Horizontal axes; the first is the usual one.
 * @returns {Axes<X>}
 */
export function readAxes(query, known) {
  return {
    x: oneOf(query.x, known, known[0]),
    smoothing: Math.min(0.99, Math.max(0, Number(query.smooth) || 0)),
    xLog: query.xlog === "1",
    yLog: query.ylog === "1",
  };
}

/** @param {string | undefined} text @returns {string[]} */
export function readNames(text) {
  return (text ?? "").split(",").filter(Boolean).map((name) => {
    try {
      return decodeURIComponent(name);
    } catch {
      return name;
    }
  });
}

/** @param {string[]} names */
export function writeNames(names) {
  return names.map((name) => name.replace(/[%,]/g, encodeURIComponent)).join(",");
}

/**
 * Returns which value each metric is shown by, where a link says so.
 * @param {string | undefined} text  As `validation/loss:last`.
 * @returns {Record<string, Part>}
 */
export function readParts(text) {
  const pairs = readNames(text).map((pair) => [pair.slice(0, pair.lastIndexOf(":")), pair.slice(pair.lastIndexOf(":") + 1)]);
  return Object.fromEntries(pairs.filter(([, part]) => PARTS.includes(/** @type {Part} */ (part))));
}

/** @param {Record<string, Part>} parts */
export function writeParts(parts) {
  return writeNames(Object.entries(parts).map((pair) => pair.join(":")));
}

/** @param {string | undefined} text @returns {Settings["range"]} */
export function readRange(text) {
  const parts = (text ?? "").split(":");
  const numbers = parts.slice(0, 4).map((part) => (part.trim() ? Number(part) : NaN));
  if (parts.length < 5 || !numbers.every(Number.isFinite) || numbers[0] >= numbers[1] || numbers[2] >= numbers[3]) return null;
  const [x0, x1, y0, y1] = numbers;
  return { zoom: [x0, x1, y0, y1], chart: parts.slice(4).join(":") };
}

/** @param {import("./plot.js").Zoom | null} zoom @param {string} chart */
export function writeRange(zoom, chart) {
  return zoom && [...zoom.map((value) => String(Number(value.toPrecision(10)))), chart].join(":");
}

/**
 * Returns the searched metric and its likes of the other group, or the first that there is.
 * @param {ExperimentData} data
 * @returns {string[]}
 */
function chooseMetrics(data) {
  const known = data.metricNames.filter((name) => !name.startsWith("system/"));
  const first = known.includes(data.searchedMetric) ? data.searchedMetric : known[0];
  return known.filter((name) => name === first || chartOf(name) === chartOf(first));
}

/**
 * Returns the name of the chart in which a metric is drawn: training and validation share one.
 * @param {string} metric  As `validation/val_loss`.
 */
export function chartOf(metric) {
  const slash = metric.indexOf("/");
  const name = metric.slice(slash + 1);
  if (metric.startsWith("training/")) return name;
  return metric.startsWith("validation/") ? name.replace(/^val(idation)?_/, "") : metric;
}

/**
 * @param {string[]} metrics
 * @returns {{chart: string, metrics: string[]}[]}
 */
export function groupMetrics(metrics) {
  /** @type {Map<string, string[]>} */
  const charts = new Map();
  for (const metric of metrics) charts.set(chartOf(metric), [...(charts.get(chartOf(metric)) ?? []), metric]);
  return [...charts].map(([chart, names]) => ({ chart, metrics: names }));
}

/**
 * Returns the rows whose curves are shown, the best first.
 * @param {ExperimentData} data
 * @param {Settings} settings
 * @param {ArrayLike<number>} visible  Rows that the filters leave.
 * @param {Set<number>} selection  Ids of trials.
 * @returns {number[]}
 */
export function chooseRows(data, { show, k, metrics }, visible, selection) {
  const ranked = metrics.includes(data.searchedMetric) ? data.searchedMetric : metrics[0];
  const order = (/** @type {ArrayLike<number>} */ rows) =>
    ranked ? sortByMetric(/** @type {Float64Array} */ (data.get(ranked)), rows, data.isSmallerBetter(ranked)) : Array.from(rows);
  if (show === "all") return order(Array.from({ length: data.numRows }, (_, row) => row));
  if (show === "selected") return order([...selection].map((id) => data.rowOf(id)).filter((row) => row >= 0));
  const rows = order(visible);
  return show === "top" ? rows.slice(0, k) : rows;
}

/**
 * Returns how many epochs a batch is, by row; null if the experiment does not say.
 * @param {ExperimentData} data
 * @returns {((row: number) => number) | null}
 */
export function findEpochs(data) {
  const records = Number(data.experiment?.config?.records_per_epoch);
  const sizes = data.column("hparams.global_batch_size") && data.get("hparams.global_batch_size");
  if (!(records > 0) || !(sizes instanceof Float64Array)) return null;
  return (row) => sizes[row] / records;
}

/**
 * Returns where the points of a curve stand on an axis.
 * @param {Curve} curve
 * @param {XAxis} x
 * @param {{epochs: number, start: number}} trial  Epochs of a batch; seconds since the epoch, when it began.
 * @returns {Float64Array}
 */
export function toAxis(curve, x, { epochs, start }) {
  if (x === "epochs") return curve.batches.map((batches) => batches * epochs);
  if (x === "wall") return curve.times;
  if (x === "relative") {
    // A clock that was set back may say that the trial began after its first point.
    const zero = Number.isFinite(start) && start <= curve.times[0] ? start : curve.times[0];
    return curve.times.map((time) => time - zero);
  }
  return curve.batches;
}

/** @template {string} T @param {string | undefined} text @param {string[]} known @param {T} other @returns {T} */
function oneOf(text, known, other) {
  return /** @type {T} */ (known.includes(text ?? "") ? text : other);
}
