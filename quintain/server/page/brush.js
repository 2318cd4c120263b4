// @ts-check
/** Brushes: which values of some columns are looked at. Pure: no page, no canvas. */
import * as format from "./format.js";

/**
 * A range of a column of numbers, or texts of values; the text `""` means missing.
 * @typedef {[number, number] | Set<string>} Range
 * @typedef {Record<string, Range>} Brush
 */

/**
 * Returns those rows whose values are in all ranges.
 * @param {{get: (key: string) => ArrayLike<unknown> | undefined}} data
 * @param {Int32Array} rows
 * @param {Brush} brush
 * @returns {Int32Array}
 */
export function applyBrush(data, rows, brush) {
  let kept = rows;
  for (const [key, range] of Object.entries(brush)) {
    const values = data.get(key);
    if (values) kept = kept.filter((row) => isWithin(values[row], range));
  }
  return kept;
}

/**
 * @param {unknown} value
 * @param {Range} range
 */
export function isWithin(value, range) {
  if (range instanceof Set) return range.has(nameOf(value));
  return typeof value === "number" && value >= range[0] && value <= range[1];
}

/**
 * Returns the text by which a value is brushed: `""` for what is missing.
 * @param {unknown} value
 */
export function nameOf(value) {
  if (value === null || value === undefined || Number.isNaN(value)) return "";
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}

/**
 * Returns a brush as the text that stands in the URL; `""` for none.
 * @param {Brush} brush
 */
export function writeBrush(brush) {
  const ranges = Object.entries(brush).map(([key, range]) => [key, range instanceof Set ? { in: [...range] } : range]);
  return ranges.length ? JSON.stringify(Object.fromEntries(ranges)) : "";
}

/**
 * Returns the brush that a URL has. What is no brush is left out: links are typed and cut by people.
 * @param {string | undefined} text
 * @returns {Brush}
 */
export function readBrush(text) {
  let plain;
  try {
    plain = JSON.parse(text || "{}");
  } catch {
    return {};
  }
  if (typeof plain !== "object" || plain === null) return {};
  /** @type {Brush} */
  const brush = {};
  for (const [key, range] of Object.entries(plain)) {
    if (Array.isArray(range) && range.length === 2 && range.every((each) => typeof each === "number")) {
      brush[key] = [range[0], range[1]];
    } else if (Array.isArray(range?.in)) {
      brush[key] = new Set(range.in.map(String));
    }
  }
  return brush;
}

/**
 * Returns the brush with one range changed, or taken away by null.
 * @param {Brush} brush
 * @param {string} key
 * @param {Range | null} range
 * @returns {Brush}
 */
export function setRange(brush, key, range) {
  const { [key]: _, ...others } = brush;
  return range ? { ...others, [key]: range } : others;
}

/**
 * Returns a range as people read it: `0.1 to 0.3`, `adam, sgd`.
 * @param {Range} range
 */
export function describeRange(range) {
  if (!(range instanceof Set)) return `${format.number(range[0], 3)} to ${format.number(range[1], 3)}`;
  const names = [...range].map((name) => name || "missing");
  return names.length > 3 ? `${names.length} values` : names.join(", ");
}
