// @ts-check
/** What a scatter plot shows: columns as axes, ranks, points. Pure: no page, no canvas. */
import { nameOf } from "./brush.js";
import { listCategories } from "./axes.js";
import { listDifferences } from "./comparison.js";
import { findRanks } from "./rank.js";
import { findExtent, padExtent } from "./scales.js";

/**
 * @typedef {import("./experiment_data.js").ExperimentData} ExperimentData
 * @typedef {{axis: import("./plot.js").PlotAxis, values: Float64Array}} Dimension  `values` of all rows; NaN has no place.
 */

const JITTER = 0.22;
const MAX_SCATTERED = 40;

/** @param {ExperimentData} data */
export function listVarying(data) {
  return listDifferences(data, Array.from({ length: data.numRows }, (_, row) => row));
}

/**
 * Lays a column out for a plot.
 * @param {ExperimentData} data
 * @param {string} key
 * @param {ArrayLike<number>} rows
 * @param {{isLog: boolean, isRank: boolean}} options  With `isRank`, 1 is the best of the rows, or the smallest where none is best.
 * @returns {Dimension}
 */
export function layDimension(data, key, rows, { isLog, isRank }) {
  const label = data.column(key)?.label ?? key;
  const values = data.get(key);
  if (!(values instanceof Float64Array)) return layNames(label, values, rows);
  if (isRank) {
    const isLargerBetter = data.isSmallerBetter(key) === false;
    const ranks = findRanks(isLargerBetter ? values.map((value) => -value) : values, rows);
    const [lo, hi] = padExtent(findExtent([ranks], false), false);
    return { axis: { label: `rank by ${label} (1 is ${data.isSmallerBetter(key) === null ? "smallest" : "best"})`, kind: "whole", lo, hi }, values: ranks };
  }
  const shown = Float64Array.from(rows, (row) => values[row]);
  const canLog = isLog && findExtent([shown], true) !== null;
  const [lo, hi] = padExtent(findExtent([shown], canLog), canLog);
  const isWhole = data.hparams.find((each) => `hparams.${each.path}` === key)?.kind === "int";
  const kind = canLog ? "log" : isWhole ? "whole" : "number";
  if (kind !== "whole" || hi - lo > MAX_SCATTERED) return { axis: { label, kind, lo, hi }, values };
  return { axis: { label, kind, lo: Math.ceil(lo) - 0.5, hi: Math.floor(hi) + 0.5 }, values: values.map((value, row) => value + scatter(row)) };
}

/** @param {string} label @param {string[]} values @param {ArrayLike<number>} rows @returns {Dimension} */
function layNames(label, values, rows) {
  const categories = listCategories(Array.from(rows, (row) => values[row]));
  const places = new Map(categories.map((name, i) => [name, i]));
  return {
    axis: { label, kind: "category", lo: -0.5, hi: Math.max(categories.length, 1) - 0.5, categories },
    values: Float64Array.from(values, (value, row) => (places.get(nameOf(value)) ?? NaN) + scatter(row)),
  };
}

/** Moves points of one name or whole number apart, each always by the same. @param {number} row */
function scatter(row) {
  return ((((row + 1) * 0.618034) % 1) - 0.5) * 2 * JITTER;
}

/**
 * Returns the row whose point is nearest to a place, or -1 if none is near.
 * @param {Dimension} x @param {Dimension} y
 * @param {ArrayLike<number>} rows
 * @param {{toX: (value: number) => number, toY: (value: number) => number}} view
 * @param {number} px @param {number} py @param {number} radius
 */
export function findPoint(x, y, rows, view, px, py, radius) {
  let best = -1;
  let distance = radius;
  for (let i = 0; i < rows.length; i++) {
    const away = Math.hypot(view.toX(x.values[rows[i]]) - px, view.toY(y.values[rows[i]]) - py);
    if (away <= distance) {
      distance = away;
      best = rows[i];
    }
  }
  return best;
}
