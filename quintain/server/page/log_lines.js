// @ts-check
// Lines that programs wrote, as text that only shows itself: no colour codes, no marks of direction.

/** @typedef {{id: number, trial_id: number, time: number, source: string, text: string}} Line */
/** @typedef {"error" | "warning" | "info"} Level */

/** Characters of a line that are shown before one asks for all. */
export const SHORT_CHARACTERS = 2000;

const COLORS = /\x1b\[[0-9;:]*m/g;
const CONTROLS = /[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]/g;
// As `quintain/records/rows/log_levels.py` has them, by which the master filters.
const ERRORS = [/\b(error|exception|traceback|critical|fatal)\b/i, /\b[A-Z]\w*(Error|Exception)\b|^[EF][0-9]{4} /];
const WARNINGS = [/\bwarn(ing)?\b/i, /\b[A-Z]\w*Warning\b|^W[0-9]{4} /];

/** Returns a text without colours; what else would steer a terminal is shown as `\x1b`. Line breaks stay.
 * @param {string} text */
export function clean(text) {
  return text.replace(COLORS, "").replace(CONTROLS, (sign) => {
    const code = sign.charCodeAt(0);
    return code < 256 ? `\\x${code.toString(16).padStart(2, "0")}` : `\\u${code.toString(16).padStart(4, "0")}`;
  });
}

/** Returns the beginning of a long text, never half of a character. @param {string} text @param {number} [length] */
export function shorten(text, length = SHORT_CHARACTERS) {
  if (text.length <= length) return text;
  const code = text.charCodeAt(length - 1);
  return text.slice(0, code >= 0xd800 && code <= 0xdbff ? length - 1 : length);
}

/** Returns how grave a line is, by its words. @param {string} text @returns {Level} */
export function levelOf(text) {
  const start = shorten(text);
  if (ERRORS.some((words) => words.test(start))) return "error";
  return WARNINGS.some((words) => words.test(start)) ? "warning" : "info";
}

/** Splits a text where a search finds something: what stands at odd places is found.
 * @param {string} text @param {string} search @returns {string[]} */
export function splitFound(text, search) {
  if (!search) return [text];
  const parts = [];
  let at = 0;
  for (let next = text.indexOf(search); next >= 0; next = text.indexOf(search, at)) {
    parts.push(text.slice(at, next), search);
    at = next + search.length;
  }
  return [...parts, text.slice(at)];
}

/** Joins pages of lines in order; a line that is there twice is kept once. @param {Line[]} lines @param {Line[]} added */
export function joinLines(lines, added) {
  if (!added.length) return lines;
  if (!lines.length || added[0].id > lines[lines.length - 1].id) return [...lines, ...added];
  if (added[added.length - 1].id < lines[0].id) return [...added, ...lines];
  const known = new Set(lines.map((line) => line.id));
  return [...lines, ...added.filter((line) => !known.has(line.id))].sort((a, b) => a.id - b.id);
}

/** Splits lines into blocks whose borders stay where they are when lines come at either end.
 * @param {Line[]} lines @param {number} size @returns {{key: number, lines: Line[]}[]} */
export function toBlocks(lines, size) {
  /** @type {{key: number, lines: Line[]}[]} */
  const blocks = [];
  for (const line of lines) {
    const key = Math.floor(line.id / size);
    const last = blocks[blocks.length - 1];
    if (last?.key === key) last.lines.push(line);
    else blocks.push({ key, lines: [line] });
  }
  return blocks;
}
