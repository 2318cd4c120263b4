// @ts-check
// Numbers, sizes and times as text.

/** Signs that are not seen, and turn or move what is. */
const UNSEEN = /[\u0000-\u001f\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069]+/g;

/** Returns a number as JSON carries it: NaN and infinities are texts there. NaN for what is none.
 * @param {unknown} value @returns {number} */
export function toNumber(value) {
  if (typeof value === "number") return value;
  if (value === "Infinity") return Infinity;
  if (value === "-Infinity") return -Infinity;
  return NaN;
}

/** Whether JSON means a number by a value.
 * @param {unknown} value */
export function isNumber(value) {
  return typeof value === "number" || value === "NaN" || value === "Infinity" || value === "-Infinity";
}

/** Returns a number with at most `digits` significant digits: `0.9312`, `12,345`, `1.2e-5`.
 * @param {unknown} value @param {number} [digits] */
export function number(value, digits = 4) {
  if (value === null || value === undefined) return "";
  if (!isNumber(value)) return text(value);
  const x = toNumber(value);
  if (Number.isNaN(x)) return "NaN";
  if (!Number.isFinite(x)) return x > 0 ? "∞" : "−∞";
  if (x === 0) return "0";
  const size = Math.abs(x);
  if (Number.isInteger(x) && size < 1e9) return minus(size < 1e4 ? String(x) : x.toLocaleString("en"));
  if (size < 1e-3 || size >= 1e9) return minus(trim(x.toExponential(Math.max(0, digits - 2))));
  if (size >= 1e4) return minus(Math.round(x).toLocaleString("en"));
  return minus(trim(x.toPrecision(digits)));
}

/** Returns a value of a metric, in the format that the experiment's searcher has for it, as `.1%`.
 * @param {unknown} value @param {string} name with or without its group @param {any} [searcher] of the config
 * @param {number} [digits] of `number`, where it has none */
export function metric(value, name, searcher, digits) {
  const bare = name.slice(name.indexOf("/") + 1);
  const form = searcher?.formats?.[bare] ?? searcher?.formats?.[bare.replace(/^val_/, "")];
  const [, places, kind] = /^\.(\d)([%feg])$/.exec(form ?? "") ?? [];
  const x = toNumber(value);
  if (!kind || !Number.isFinite(x)) return number(value, digits);
  if (kind === "%") return minus(`${(x * 100).toFixed(Number(places))}%`);
  return minus(kind === "f" ? x.toFixed(Number(places)) : kind === "e" ? x.toExponential(Number(places)) : String(Number(x.toPrecision(Number(places) || 1))));
}

/** Returns a part of a whole, 0 to 1, as `42 %`.
 * @param {number} share */
export function percent(share) {
  return Number.isFinite(share) ? `${Math.floor(share * 100 + 1e-9)} %` : "";
}

/** Returns seconds as `3.2 s`, `4 min 5 s`, `2 h 7 min`, `3 d 4 h`.
 * @param {number | null | undefined} secs */
export function duration(secs) {
  if (secs === null || secs === undefined || !Number.isFinite(secs)) return "";
  if (secs < 0) return "0 s";
  if (secs < 9.95) return `${trim(secs.toFixed(1))} s`;
  const whole = Math.round(secs);
  if (whole < 60) return `${whole} s`;
  if (whole < 3600) return pair(whole, 60, "min", "s");
  if (whole < 86400) return pair(Math.floor(whole / 60), 60, "h", "min");
  return pair(Math.floor(whole / 3600), 24, "d", "h");
}

/** Returns the seconds for which a trial held slots until now; null if it never did.
 * @param {number | null | undefined} secs in launches that have ended @param {number | null | undefined} since when the present one began */
export function heldSecs(secs, since) {
  if (since === null || since === undefined) return secs || null;
  return (secs ?? 0) + Math.max(0, Date.now() / 1000 - since);
}

/** Returns a size as `512 B`, `1.5 kB`, `3.2 GB`.
 * @param {number | null | undefined} size */
export function bytes(size) {
  if (size === null || size === undefined || !Number.isFinite(size)) return "";
  const units = ["B", "kB", "MB", "GB", "TB", "PB"];
  let unit = 0;
  let value = size;
  while (Math.abs(value) >= 999.5 && unit < units.length - 1) {
    value /= 1000;
    unit += 1;
  }
  return `${unit ? trim(value.toPrecision(3)) : value} ${units[unit]}`;
}

/** Returns seconds since the epoch as `14:05:09` if that was today, with the date otherwise.
 * @param {number | null | undefined} secs @param {number} [now] in ms */
export function time(secs, now = Date.now()) {
  if (secs === null || secs === undefined || !Number.isFinite(secs)) return "";
  const when = new Date(secs * 1000);
  const clock = `${two(when.getHours())}:${two(when.getMinutes())}:${two(when.getSeconds())}`;
  if (when.toDateString() === new Date(now).toDateString()) return clock;
  return `${when.getFullYear()}-${two(when.getMonth() + 1)}-${two(when.getDate())} ${clock}`;
}

/** Returns how long ago something was: `just now`, `5 min ago`, or the date.
 * @param {number | null | undefined} secs @param {number} [now] in ms */
export function ago(secs, now = Date.now()) {
  if (secs === null || secs === undefined || !Number.isFinite(secs)) return "";
  const since = now / 1000 - secs;
  if (since < 10) return "just now";
  if (since < 3600) return `${duration(since).split(" ").slice(0, 2).join(" ")} ago`;
  if (since < 86400) return `${Math.floor(since / 3600)} h ago`;
  return time(secs, now).slice(0, 16);
}

/** Returns any value as a text.
 * @param {unknown} value */
export function text(value) {
  if (value === null || value === undefined) return "";
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}

/** Returns the beginning of a text of others; what would move or turn what stands around it is shown as a sign.
 * @param {unknown} value @param {number} [most] characters */
export function short(value, most = 200) {
  const whole = text(value);
  const part = whole.length > most ? whole.slice(0, most) + "…" : whole;
  return part.replace(UNSEEN, (found) => (/^\s+$/.test(found) ? " " : "�"));
}

/** Returns the last names of a dotted path that have room, the last one in any case: `… learning_rate.cosine`.
 * @param {string} path @param {number} most characters */
export function cutPath(path, most) {
  const names = path.split(".");
  let first = 0;
  const cut = () => (first ? "… " : "") + names.slice(first).join(".");
  while (first < names.length - 1 && cut().length > most) first += 1;
  return cut();
}

/** Returns a value of a column as text, by the kind of the column.
 * @param {unknown} value @param {string} kind */
export function cell(value, kind) {
  if (value === null || value === undefined || (typeof value === "number" && Number.isNaN(value) && kind !== "number")) return "";
  if (kind === "number") return number(value);
  if (kind === "time") return time(/** @type {number} */ (value));
  if (kind === "duration") return duration(/** @type {number} */ (value));
  if (kind === "share") return percent(/** @type {number} */ (value));
  return short(value);
}

/** Returns the word for a state; a trial that its search stopped at a rung is not called completed.
 * @param {unknown} state @param {number} [rung] */
export function outcome(state, rung) {
  return state === "COMPLETED" && rung !== undefined ? `stopped, rung ${rung}` : text(state).toLowerCase().replace("_", " ");
}

/** @param {string} digits */
function trim(digits) {
  if (!digits.includes(".")) return digits;
  return digits.replace(/\.?0+(e|$)/, "$1");
}

/** @param {string} digits */
function minus(digits) {
  return digits.startsWith("-") ? "−" + digits.slice(1) : digits;
}

/** @param {number} whole @param {number} step @param {string} large @param {string} small */
function pair(whole, step, large, small) {
  const rest = whole % step;
  return `${Math.floor(whole / step)} ${large}${rest ? ` ${rest} ${small}` : ""}`;
}

/** @param {number} value */
function two(value) {
  return String(value).padStart(2, "0");
}
