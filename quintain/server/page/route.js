// @ts-check
// Where the page is: everything that a link has to bring back is in the part after `#`.
import { useEffect, useState } from "./vendor/preact.js";

/**
 * @typedef {{path: string, parts: string[], query: Record<string, string>}} Place
 * @typedef {Place & {
 *   setQuery: (patch: Record<string, unknown>, options?: {push?: boolean}) => void,
 *   go: (path: string, query?: Record<string, unknown>) => void,
 * }} Route
 */

const WRITE_MS = 200;
const MOST_IDS = 100000;

/** Returns the place that a hash names, as `#/experiments/1?tab=trials`.
 * @param {string} hash
 * @returns {Place} */
export function parsePlace(hash) {
  const text = hash.replace(/^#/, "");
  const [path, query] = split(text, "?");
  const parts = path.split("/").filter(Boolean).map(decode);
  return { path: "/" + parts.map(encodeURIComponent).join("/"), parts, query: Object.fromEntries(new URLSearchParams(query)) };
}

/** Returns the hash of a place; settings that are null, undefined or empty are left out.
 * @param {string} path
 * @param {Record<string, unknown>} [query] */
export function formatPlace(path, query = {}) {
  const kept = Object.entries(query).filter(([, value]) => value !== null && value !== undefined && value !== "");
  const text = new URLSearchParams(kept.map(([name, value]) => [name, String(value)])).toString();
  return "#" + path + (text ? "?" + text : "");
}

/** Returns ids as `1-3,9`. @param {Iterable<number>} ids */
export function formatIds(ids) {
  /** @type {[number, number][]} */
  const ranges = [];
  for (const id of [...ids].sort((a, b) => a - b)) {
    const last = ranges.at(-1);
    if (last && id <= last[1] + 1) last[1] = id;
    else ranges.push([id, id]);
  }
  return ranges.map(([first, last]) => (first === last ? `${first}` : `${first}-${last}`)).join(",");
}

/** Returns the ids of `1-3,9`; what is no id is left out. @param {string | undefined} text @returns {number[]} */
export function parseIds(text) {
  return (text ?? "").split(",").flatMap((part) => {
    const found = /^(\d+)(?:-(\d+))?$/.exec(part.trim());
    if (!found) return [];
    const [first, last] = [Number(found[1]), Number(found[2] ?? found[1])];
    return Array.from({ length: Math.max(0, Math.min(last - first + 1, MOST_IDS)) }, (_, at) => first + at);
  });
}

/** @type {Place} */
let current = parsePlace(globalThis.location?.hash ?? "");
/** @type {Set<() => void>} */
const listeners = new Set();
/** @type {ReturnType<typeof setTimeout> | undefined} */
let timer;

/** Goes to a place.
 * @param {string} path
 * @param {Record<string, unknown>} [query] */
export function go(path, query) {
  flush();
  location.hash = formatPlace(path, query);
}

/** Changes settings of this place; null takes one away. Listeners hear it at once; the address follows, as browsers
 * refuse to write it at each frame. It makes no step in the history unless `push`.
 * @param {Record<string, unknown>} patch
 * @param {{push?: boolean}} [options] */
export function setQuery(patch, options = {}) {
  const hash = formatPlace(current.path, { ...current.query, ...patch });
  if (hash === formatPlace(current.path, current.query)) return;
  if (options.push) {
    flush();
    history.pushState(null, "", hash);
  }
  current = parsePlace(hash);
  clearTimeout(timer);
  timer = setTimeout(flush, WRITE_MS);
  for (const listener of [...listeners]) listener();
}

/** Returns where the page is, and draws anew when that changes.
 * @returns {Route} */
export function useRoute() {
  const [place, setPlace] = useState(current);
  useEffect(() => {
    const follow = () => setPlace(current);
    listeners.add(follow);
    follow();
    return () => void listeners.delete(follow);
  }, []);
  return { ...place, setQuery, go };
}

/** Writes the address. */
function flush() {
  clearTimeout(timer);
  const hash = formatPlace(current.path, current.query);
  if (location.hash !== hash && timer !== undefined) history.replaceState(null, "", hash);
  timer = undefined;
}

globalThis.window?.addEventListener("hashchange", () => {
  clearTimeout(timer);
  timer = undefined;
  current = parsePlace(location.hash);
  for (const listener of [...listeners]) listener();
});
globalThis.window?.addEventListener("popstate", () => window.dispatchEvent(new HashChangeEvent("hashchange")));
globalThis.window?.addEventListener("pagehide", flush);

/** @param {string} text @param {string} mark */
function split(text, mark) {
  const at = text.indexOf(mark);
  return at < 0 ? [text, ""] : [text.slice(0, at), text.slice(at + 1)];
}

/** @param {string} part */
function decode(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}
