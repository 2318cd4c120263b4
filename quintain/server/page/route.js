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

/** Goes to a place.
 * @param {string} path
 * @param {Record<string, unknown>} [query] */
export function go(path, query) {
  location.hash = formatPlace(path, query);
}

/** Changes settings of this place; null takes one away. Typing does not fill the history unless `push`.
 * @param {Record<string, unknown>} patch
 * @param {{push?: boolean}} [options] */
export function setQuery(patch, options = {}) {
  const place = parsePlace(location.hash);
  const hash = formatPlace(place.path, { ...place.query, ...patch });
  if (hash === location.hash) return;
  history[options.push ? "pushState" : "replaceState"](null, "", hash);
  window.dispatchEvent(new HashChangeEvent("hashchange"));
}

/** Returns where the page is, and draws anew when that changes.
 * @returns {Route} */
export function useRoute() {
  const [place, setPlace] = useState(() => parsePlace(location.hash));
  useEffect(() => {
    const follow = () => setPlace(parsePlace(location.hash));
    window.addEventListener("hashchange", follow);
    follow();
    return () => window.removeEventListener("hashchange", follow);
  }, []);
  return { ...place, setQuery, go };
}

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
