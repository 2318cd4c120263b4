// @ts-check
/** Axes of values of trials: numbers, whole numbers, powers, categories. Pure: no page, no canvas. */
import { nameOf } from "./brush.js";
import * as format from "./format.js";
import { buildScale, findExtent, findLogTicks, findTicks, writeLogTicks, writeTicks } from "./scales.js";

const MAX_TICKED_CATEGORIES = 30;
/** Ticks nearer to an end of an axis would stand over the value of the end. */
const MIN_TICK_PLACE = 0.05;

/**
 * @typedef {object} Column
 * @property {string} key
 * @property {string} label
 * @property {string} [path]
 * @property {string} [kind]
 * @property {string} [source]
 *
 * @typedef {object} Axis
 * @property {string} key
 * @property {string} label
 * @property {string} path  The whole name.
 * @property {boolean} isLog
 * @property {string[]} categories  Texts of the values, from the bottom up; empty for numbers.
 * @property {number} lo  Lowest value; -0.5 for categories.
 * @property {number} hi
 * @property {Float32Array} places  Of each row, from 0 to 1; NaN for what is missing or not finite.
 * @property {number} numMissing
 * @property {{place: number, text: string}[]} ticks
 * @property {(place: number) => number} toValue
 * @property {(value: number) => number} toUnit
 */

/**
 * Lays a column out as an axis.
 * @param {Column} column
 * @param {ArrayLike<unknown>} values  Of all rows.
 * @param {{kind?: string, isLog?: boolean, numTicks?: number}} [options]  The kind that the search has
 *     for it (`log`, `int`, `double`, `categorical`); `isLog` decides over it.
 * @returns {Axis}
 */
export function buildAxis(column, values, { kind = "", isLog, numTicks = 6 } = {}) {
  const isNumeric = values instanceof Float64Array && kind !== "categorical";
  const axis = isNumeric
    ? layNumbers(values, { kind, isLog: isLog ?? kind === "log", numTicks })
    : layCategories(values);
  let numMissing = 0;
  for (const place of axis.places) if (Number.isNaN(place)) numMissing++;
  return { key: column.key, label: column.label, path: column.path ?? column.label, numMissing, ...axis };
}

/** @param {Float64Array} values @param {{kind: string, isLog: boolean, numTicks: number}} options */
function layNumbers(values, { kind, isLog: wantsLog, numTicks }) {
  const positive = wantsLog ? findExtent([values], true) : null;
  const isLog = positive !== null;
  const extent = positive ?? findExtent([values], false);
  const [lo, hi] = extent ?? [0, 1];
  const scale = buildScale(lo, hi, isLog);
  const numbers = lo === hi ? [lo] : isLog ? findLogTicks(lo, hi, numTicks) : findTicks(lo, hi, numTicks, kind === "int");
  const texts = isLog && lo < hi ? writeLogTicks(numbers) : writeTicks(numbers);
  const inner = numbers.map((number, i) => ({ place: scale.toUnit(number), text: texts[i] }));
  const ends = [{ place: 0, text: format.number(lo) }, { place: 1, text: format.number(hi) }];
  return {
    isLog,
    lo,
    hi,
    /** @type {string[]} */
    categories: [],
    places: Float32Array.from(values, scale.toUnit),
    ticks: !extent ? [] : lo === hi ? inner : [ends[0], ...inner.filter(({ place }) => Math.min(place, 1 - place) > MIN_TICK_PLACE), ends[1]],
    toValue: scale.toValue,
    toUnit: scale.toUnit,
  };
}

/** @param {ArrayLike<unknown>} values */
function layCategories(values) {
  const categories = listCategories(values);
  const places = new Map(categories.map((name, i) => [name, (i + 0.5) / categories.length]));
  const stride = Math.ceil(categories.length / MAX_TICKED_CATEGORIES);
  const scale = buildScale(-0.5, categories.length - 0.5);
  return {
    isLog: false,
    lo: -0.5,
    hi: categories.length - 0.5,
    categories,
    places: Float32Array.from({ length: values.length }, (_, i) => places.get(nameOf(values[i])) ?? NaN),
    ticks: categories
      .map((name, i) => ({ place: (i + 0.5) / categories.length, text: name }))
      .filter((_, i) => i % stride === 0),
    toValue: scale.toValue,
    toUnit: scale.toUnit,
  };
}

/**
 * Returns the texts of all values that there are, numbers in their order and texts in theirs.
 * @param {ArrayLike<unknown>} values
 * @returns {string[]}
 */
export function listCategories(values) {
  const names = new Set();
  for (let i = 0; i < values.length; i++) names.add(nameOf(values[i]));
  names.delete("");
  const collator = new Intl.Collator("en", { numeric: false });
  return [...names].sort((a, b) => {
    const [left, right] = [Number(a), Number(b)];
    if (!Number.isNaN(left) && !Number.isNaN(right)) return left - right;
    return collator.compare(a, b);
  });
}

/**
 * Returns what a brush from one place of an axis to another keeps: a range of numbers, or the
 * categories between them. Null if that is nothing.
 * @param {Axis} axis
 * @param {number} from  From 0 to 1, or beyond.
 * @param {number} to
 * @returns {import("./brush.js").Range | null}
 */
export function toRange(axis, from, to) {
  const [low, high] = from < to ? [from, to] : [to, from];
  if (!axis.categories.length) {
    // Ends of the axis are its values themselves: rounding must not lose the best trial.
    return [low <= 0 ? axis.lo : axis.toValue(low), high >= 1 ? axis.hi : axis.toValue(high)];
  }
  const count = axis.categories.length;
  const kept = axis.categories.filter((_, i) => i / count < high && (i + 1) / count > low);
  return kept.length ? new Set(kept) : null;
}

/**
 * Returns the stretches of an axis that a brush covers, each from 0 to 1.
 * @param {Axis} axis
 * @param {import("./brush.js").Range | undefined} range
 * @returns {[number, number][]}
 */
export function toStretches(axis, range) {
  if (!range) return [];
  if (range instanceof Set) {
    const count = axis.categories.length;
    return axis.categories.flatMap((name, i) => (range.has(name) ? [/** @type {[number, number]} */ ([i / count, (i + 1) / count])] : []));
  }
  const ends = range.map((value) => Math.min(1, Math.max(0, axis.toUnit(value))));
  if (ends.some(Number.isNaN)) return axis.isLog && range[0] <= 0 && ends[1] >= 0 ? [[0, ends[1]]] : [];
  return [[ends[0], ends[1]]];
}

/**
 * Returns the keys with one moved to another place.
 * @param {string[]} keys
 * @param {string} key
 * @param {number} place
 */
export function moveKey(keys, key, place) {
  const others = keys.filter((each) => each !== key);
  const at = Math.min(Math.max(place, 0), others.length);
  return [...others.slice(0, at), key, ...others.slice(at)];
}
