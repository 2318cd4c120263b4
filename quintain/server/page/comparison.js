// @ts-check
/** What differs between trials, and what those have in common that differ in the seed only. Pure. */
import { nameOf } from "./brush.js";
import * as format from "./format.js";
import { lowerBound } from "./series.js";

/**
 * @typedef {{key: string, label: string, path?: string, source?: string}} Column
 * @typedef {{columns: Column[], get: (key: string) => ArrayLike<unknown>}} Table
 * @typedef {{mean: number, deviation: number, count: number}} Spread
 */

/**
 * Returns the hyperparameters whose values are not the same in all rows.
 * @param {Table} data
 * @param {ArrayLike<number>} rows
 * @returns {Column[]}
 */
export function listDifferences(data, rows) {
  return data.columns.filter((column) => {
    if (column.source !== "hparam") return false;
    const values = data.get(column.key);
    const first = nameOf(values[rows[0]]);
    return Array.prototype.some.call(rows, (row) => nameOf(values[row]) !== first);
  });
}

/**
 * Returns the rows in groups of equal hyperparameters: within a group trials differ in the seed only.
 * @param {Table} data
 * @param {ArrayLike<number>} rows
 * @returns {number[][]}  In the order of their first rows.
 */
export function groupBySettings(data, rows) {
  const columns = data.columns.filter((column) => column.source === "hparam").map((column) => data.get(column.key));
  /** @type {Map<string, number[]>} */
  const groups = new Map();
  for (const row of Array.from(rows)) {
    const name = JSON.stringify(columns.map((values) => nameOf(values[row])));
    const group = groups.get(name);
    if (group) group.push(row);
    else groups.set(name, [row]);
  }
  return [...groups.values()];
}

/**
 * Trials that are shown as one: one trial, or several that differ in the seed only.
 * @typedef {{name: string, rows: number[], id: number, ids: number[]}} Group  `id` is the first of `ids`.
 */

/**
 * Returns rows in groups, or each alone.
 * @param {Table & {ids: ArrayLike<number>}} data
 * @param {ArrayLike<number>} rows
 * @param {boolean} isGrouped
 * @returns {Group[]}
 */
export function listGroups(data, rows, isGrouped) {
  const groups = isGrouped ? groupBySettings(data, rows) : Array.from(rows, (row) => [row]);
  return groups.map((group) => {
    group.sort((a, b) => a - b);
    const ids = group.map((row) => data.ids[row]);
    return { rows: group, id: ids[0], ids, name: ids.length > 1 ? `${ids.length} seeds: trials ${ids.join(", ")}` : `Trial ${ids[0]}` };
  });
}

/**
 * Returns what a group has in a column: mean and standard deviation of a metric (with the number of trials that have it, if not
 * all do), the range of times, the different values of anything else.
 * @param {any} data
 * @param {string} key
 * @param {number[]} rows
 * @returns {string}
 */
export function describeGroup(data, key, rows) {
  const { kind = "text", source } = data.column(key) ?? {};
  if (rows.length === 1) return data.write(key, data.value(key, rows[0]));
  if (source === "metric" || key.endsWith("_metric")) {
    const values = data.get(key);
    return writeSpread(rows.map((row) => values[row]), (value, digits) => data.write(key, value, digits));
  }
  if (["duration", "share", "time"].includes(kind)) {
    const known = rows.map((row) => data.value(key, row)).filter(Number.isFinite);
    const ends = new Set([Math.min(...known), Math.max(...known)]);
    return known.length ? [...ends].map((value) => format.cell(value, kind)).join(" to ") : "–";
  }
  const different = [...new Set(rows.map((row) => format.cell(data.value(key, row), kind)))].filter(Boolean);
  return different.length > 4 ? `${different.slice(0, 4).join(", ")}, …` : different.join(", ") || "–";
}

/**
 * Returns a value, or mean and standard deviation of several, with the number of those that are finite if not all are.
 * @param {(number | undefined)[]} values
 * @param {(value: unknown, digits?: number) => string} [write]
 * @returns {string}
 */
export function writeSpread(values, write = format.number) {
  if (values.length === 1) return write(values[0]);
  const { mean, deviation, count } = findSpread(values.map(Number));
  if (!count) return "–";
  return `${write(mean)} ± ${Number.isNaN(deviation) ? "–" : write(deviation, 2)}${count < values.length ? ` (${count})` : ""}`;
}

/**
 * Returns the curve of a group: that of its only trial, or the mean with a band of one standard deviation.
 * @param {import("./series.js").Line[]} lines
 * @returns {import("./series.js").Line & {band?: {lo: Float64Array, hi: Float64Array}}}
 */
export function joinCurves(lines) {
  if (lines.length === 1) return lines[0];
  const { x, mean, deviation } = averageLines(lines);
  const spread = deviation.map((value) => (Number.isNaN(value) ? 0 : value));
  return { x, y: mean, band: { lo: mean.map((value, i) => value - spread[i]), hi: mean.map((value, i) => value + spread[i]) } };
}

/**
 * Returns mean and sample standard deviation of the finite values; the deviation of a single one is NaN.
 * @param {Iterable<number>} values
 * @returns {Spread}
 */
export function findSpread(values) {
  const finite = [...values].filter(Number.isFinite);
  const count = finite.length;
  const mean = count ? finite.reduce((sum, value) => sum + value / count, 0) : NaN;
  const squares = finite.reduce((sum, value) => sum + (value - mean) ** 2, 0);
  return { mean, deviation: count > 1 ? Math.sqrt(squares / (count - 1)) : NaN, count };
}

/**
 * Returns mean and standard deviation of several curves at each place where one of them has a point.
 * Between two points of a curve its value is interpolated; beyond its ends it does not count.
 * @param {import("./series.js").Line[]} lines
 * @returns {{x: Float64Array, mean: Float64Array, deviation: Float64Array, count: Float64Array}}
 */
export function averageLines(lines) {
  const x = Float64Array.from(new Set(lines.flatMap((line) => Array.from(line.x)))).sort();
  const spreads = Array.from(x, (place) => findSpread(lines.map((line) => interpolate(line, place))));
  return {
    x,
    mean: Float64Array.from(spreads, (spread) => spread.mean),
    deviation: Float64Array.from(spreads, (spread) => spread.deviation),
    count: Float64Array.from(spreads, (spread) => spread.count),
  };
}

/**
 * Returns the settings of which not all experiments have the same value.
 * @param {Record<string, unknown>[]} settings  Of each experiment, by dotted path.
 * @returns {string[]}
 */
export function listDifferingPaths(settings) {
  const paths = new Set(settings.flatMap((each) => Object.keys(each)));
  return [...paths].filter((path) => new Set(settings.map((each) => (path in each ? JSON.stringify(each[path]) : ""))).size > 1);
}

/**
 * Returns a curve's value at a place; NaN outside of it.
 * @param {import("./series.js").Line} line
 * @param {number} place
 */
export function interpolate({ x, y }, place) {
  const right = lowerBound(x, place);
  if (right < x.length && x[right] === place) return y[right];
  if (right === 0 || right === x.length) return NaN;
  const part = (place - x[right - 1]) / (x[right] - x[right - 1]);
  return y[right - 1] * (1 - part) + y[right] * part;
}
