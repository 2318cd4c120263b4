// @ts-check
// Which rows of an experiment are shown, and in what order.

import { findSpread } from "./comparison.js";

/** @typedef {import("./experiment_data.js").ExperimentData} ExperimentData */

/** Returns how many trials came to what, by the first words of their outcomes: one that was stopped at any rung is `STOPPED`.
 * @param {ExperimentData} data @returns {Record<string, number>} */
export function countStates(data) {
  /** @type {Record<string, number>} */
  const counts = {};
  for (let row = 0; row < data.numRows; row += 1) counts[stateOf(data, row)] = (counts[stateOf(data, row)] ?? 0) + 1;
  return counts;
}

/** @param {ExperimentData} data @param {number} row */
function stateOf(data, row) {
  return data.outcome(row).split(",")[0].toUpperCase();
}

/** Returns the rows in the given states (all if none are given) of the given trials (all if null).
 * @param {ExperimentData} data @param {Set<string>} states @param {Set<number> | null} ids @returns {Int32Array} */
export function filterRows(data, states, ids) {
  const rows = new Int32Array(data.numRows);
  let length = 0;
  const idOf = data.ids;
  for (let row = 0; row < data.numRows; row += 1) {
    if ((!states.size || states.has(stateOf(data, row))) && (!ids || ids.has(idOf[row]))) rows[length++] = row;
  }
  return rows.subarray(0, length);
}

/** Returns rows in the order of a column. Both directions: numbers or texts, then NaN, then missing ones; ties by trial.
 * @param {ExperimentData} data @param {Int32Array} rows @param {string} key @param {boolean} descending @returns {Int32Array} */
export function sortRows(data, rows, key, descending) {
  const values = data.get(key);
  const keys = values instanceof Float64Array ? values : toRanks(values);
  const missing = data.arrays.get(key)?.missing ?? new Set();
  const sign = descending ? -1 : 1;
  const [good, nan, none] = [[], [], []].map(() => /** @type {number[]} */ ([]));
  for (const row of rows) {
    if (missing.has(row)) none.push(row);
    else if (Number.isNaN(keys[row])) nan.push(row);
    else good.push(row);
  }
  const ids = data.ids;
  good.sort((a, b) => (keys[a] < keys[b] ? -sign : keys[a] > keys[b] ? sign : ids[a] - ids[b]));
  return Int32Array.from([...good, ...nan, ...none]);
}

/** Returns groups in the order of a column, each as its first row, and below that its members if it is open.
 * @param {ExperimentData} data @param {import("./comparison.js").Group[]} groups @param {string} key @param {boolean} descending
 * @param {Set<number>} open ids of groups
 * @returns {{rows: Int32Array, heads: Map<number, import("./comparison.js").Group>}} `heads`: of places in `rows` that stand for several rows */
export function layGroups(data, groups, key, descending, open) {
  const values = data.get(key);
  const missing = data.arrays.get(key)?.missing ?? new Set();
  const meanOf = (/** @type {number[]} */ rows) => (rows.length > 1 ? findSpread(rows.map((row) => Number(values[row]))).mean : Number(values[rows[0]]));
  const means = values instanceof Float64Array ? Float64Array.from(groups, ({ rows }) => meanOf(rows)) : groups.map(({ rows }) => values[rows[0]]);
  const lacking = groups.flatMap(({ rows }, at) => (rows.every((row) => missing.has(row)) ? [at] : []));
  const table = { ids: Float64Array.from(groups, ({ id }) => id), get: () => means, arrays: new Map([[key, { missing: new Set(lacking) }]]) };
  const order = sortRows(/** @type {any} */ (table), Int32Array.from(groups.keys()), key, descending);
  /** @type {number[]} */
  const rows = [];
  const heads = new Map();
  for (const group of Array.from(order, (at) => groups[at])) {
    if (group.rows.length > 1) heads.set(rows.length, group);
    rows.push(group.rows[0]);
    if (group.rows.length > 1 && open.has(group.id)) rows.push(...sortRows(data, Int32Array.from(group.rows), key, descending));
  }
  return { rows: Int32Array.from(rows), heads };
}

/** Numbers texts by their order, so that each is compared as a text only once. @param {string[]} values */
function toRanks(values) {
  const sorted = [...new Set(values)].sort(compareTexts);
  const ranks = new Map(sorted.map((value, rank) => [value, rank]));
  return Float64Array.from(values, (value) => /** @type {number} */ (ranks.get(value)));
}

/** @param {string} a @param {string} b */
function compareTexts(a, b) {
  const [x, y] = [a.toLowerCase(), b.toLowerCase()];
  return x < y ? -1 : x > y ? 1 : a < b ? -1 : Number(a > b);
}

/** Returns a table of rows as CSV: numbers in full, texts quoted where they have to be.
 * @param {ExperimentData} data @param {Int32Array} rows @param {string[]} keys */
export function toCsv(data, rows, keys) {
  const lines = [keys.map(quote).join(",")];
  for (const row of rows) lines.push(keys.map((key) => quote(data.value(key, row))).join(","));
  return lines.join("\r\n") + "\r\n";
}

/** A text that a spreadsheet would take for a formula gets a `'` before it. @param {unknown} value */
function quote(value) {
  if (value === null || value === undefined) return "";
  if (typeof value === "number") return String(value);
  const text = /^[=+\-@\t\r]/.test(String(value)) ? "'" + value : String(value);
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
