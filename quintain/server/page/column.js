// @ts-check
// One column of the table of trials: an array of numbers where all values are numbers, of texts otherwise.
import { isNumber, text, toNumber } from "./format.js";
import { enlarge } from "./curve_cache.js";

/**
 * @typedef {"number" | "text" | "state" | "time" | "duration" | "share"} Kind
 * @typedef {{key: string, label: string, kind: Kind, source: "trial" | "hparam" | "metric", path?: string, log?: boolean,
 *   metric?: string}} Column
 *     Hyperparameters and values of metrics have their whole `path`, and an end of it as the label; `metric` has a value that is chosen.
 */

export class ColumnArray {
  /** @param {Kind} kind @param {unknown[]} values */
  constructor(kind, values) {
    this.kind = kind;
    this.length = 0;
    this.isNumeric = kind !== "text" && kind !== "state";
    this.numbers = new Float64Array(this.isNumeric ? values.length : 0);
    /** @type {string[]} */
    this.texts = [];
    /** @type {Set<number>} Rows without a value, which a NaN is not told from otherwise. */
    this.missing = new Set();
    for (let row = 0; row < values.length; row += 1) this.set(row, values[row]);
  }

  /** @param {number} row @param {unknown} value */
  set(row, value) {
    const isMissing = value === null || value === undefined;
    if (isMissing) this.missing.add(row);
    else if (this.missing.size) this.missing.delete(row);
    if (this.isNumeric && !isMissing && !isNumber(value)) this.#becomeText();
    this.length = Math.max(this.length, row + 1);
    if (!this.isNumeric) {
      this.texts[row] = isMissing ? "" : text(value);
      return;
    }
    if (row >= this.numbers.length) this.numbers = enlarge(this.numbers, Math.max(16, 2 * row));
    this.numbers[row] = isMissing ? NaN : toNumber(value);
  }

  /** All values: `Float64Array` (NaN where there is none) or texts. */
  get values() {
    return this.isNumeric ? this.numbers.subarray(0, this.length) : this.texts;
  }

  /** One value, null where there is none. @param {number} row @returns {number | string | null} */
  value(row) {
    if (row >= this.length || this.missing.has(row)) return null;
    return this.isNumeric ? this.numbers[row] : this.texts[row];
  }

  #becomeText() {
    this.texts = Array.from(this.numbers.subarray(0, this.length), (value, row) => (this.missing.has(row) ? "" : text(value)));
    this.isNumeric = false;
    this.kind = "text";
  }
}
