// @ts-check
/** Colours of charts: told apart with any kind of colour vision, in the light and the dark theme. */
import { useEffect, useState } from "./vendor/preact.js";

/** Near to the hues of Okabe and Ito (2008), with a contrast of 3 or more on their ground. */
const LIGHT = ["#067acd", "#df6d01", "#00805e", "#b3519b", "#795800", "#2298cf", "#793c9b", "#515863"];
const DARK = ["#3b96c4", "#f0803c", "#2cbf93", "#ffb2e5", "#e6b000", "#93b9ff", "#9787f2", "#959fad"];
const DASHES = [[], [6, 3], [2, 3]];
/** Of training, where a chart has validation beside it; `DASH_NOTE` says so. */
export const TRAINING_DASH = [5, 3];
export const DASH_NOTE = "(solid: validation, dashed: training)";

/** Ends of viridis that are too pale or too dark for their ground are left out. */
const VIRIDIS = [
  [68, 1, 84], [72, 40, 120], [62, 74, 137], [49, 104, 142], [38, 130, 142],
  [31, 158, 137], [53, 183, 121], [110, 206, 88], [181, 222, 43], [253, 231, 37],
];
const NUM_SHADES = 64;

/**
 * What charts need to know of the theme.
 * @typedef {{isDark: boolean, fg: string, muted: string, line: string, bg: string, accent: string}} Theme
 */

/**
 * Returns the colour of a trial, the same in all charts.
 * @param {number} trialId
 * @param {boolean} [isDark]  As the page is now, if not given.
 */
export function colorOf(trialId, isDark = readTheme().isDark) {
  const colors = isDark ? DARK : LIGHT;
  return colors[wrap(trialId - 1, colors.length)];
}

/** Returns colours by which a few kinds of things are told apart. @param {boolean} isDark */
export function listHues(isDark) {
  return isDark ? DARK : LIGHT;
}

/**
 * Returns the dashes of a trial's line: trials of one colour differ in them.
 * @param {number} trialId
 * @returns {number[]}
 */
export function dashOf(trialId) {
  return DASHES[wrap(Math.floor((trialId - 1) / LIGHT.length), DASHES.length)];
}

/**
 * Returns looks by which a few trials in one chart are told apart: each its own colour where no other
 * one has it, and dashes only when there are more trials than colours.
 * @param {number[]} trialIds
 * @param {boolean} isDark
 * @returns {Map<number, {color: string, dash: number[]}>}
 */
export function assignLooks(trialIds, isDark) {
  const colors = isDark ? DARK : LIGHT;
  const looks = new Map();
  const waiting = [...new Set(trialIds)].sort((a, b) => a - b);
  for (let round = 0; waiting.length; round++) {
    const free = new Set(colors.keys());
    const turn = waiting.splice(0, colors.length);
    const give = (/** @type {number} */ id, /** @type {number} */ hue) => {
      free.delete(hue);
      looks.set(id, { color: colors[hue], dash: DASHES[round % DASHES.length] });
    };
    const others = turn.filter((id) => {
      const hue = wrap(id - 1, colors.length);
      if (!free.has(hue)) return true;
      give(id, hue);
      return false;
    });
    for (const id of others) give(id, [...free][0]);
  }
  return looks;
}

/**
 * Returns the shades for numbers, from the lowest to the highest; the best ones, or the highest, stand out most from the ground.
 * @param {boolean} isDark
 * @param {boolean | null} isSmallerBetter
 * @returns {string[]}
 */
export function listShades(isDark, isSmallerBetter) {
  const [from, to] = isDark ? [0.3, 1] : [0, 0.84];
  const shades = Array.from({ length: NUM_SHADES }, (_, i) => {
    const place = (from + ((to - from) * i) / (NUM_SHADES - 1)) * (VIRIDIS.length - 1);
    const left = Math.min(Math.floor(place), VIRIDIS.length - 2);
    const mixed = VIRIDIS[left].map((value, c) => Math.round(value + (VIRIDIS[left + 1][c] - value) * (place - left)));
    return `rgb(${mixed.join(",")})`;
  });
  return isDark === Boolean(isSmallerBetter) ? shades.reverse() : shades;
}

/**
 * Returns the number of the shade for a place between 0 and 1; -1 for what has none.
 * @param {number} unit
 */
export function shadeOf(unit) {
  if (!Number.isFinite(unit)) return -1;
  return Math.min(NUM_SHADES - 1, Math.max(0, Math.floor(unit * NUM_SHADES)));
}

/** Returns the theme as the style sheet has it now. @returns {Theme} */
export function readTheme() {
  const style = getComputedStyle(document.documentElement);
  const read = (/** @type {string} */ name, /** @type {string} */ other) => style.getPropertyValue(name).trim() || other;
  const bg = read("--bg", "#ffffff");
  return {
    bg,
    isDark: lightness(bg) < 0.5,
    fg: read("--fg", "#1a1a1a"),
    muted: read("--muted", "#666666"),
    line: read("--line", "#dddddd"),
    accent: read("--accent", "#0072b2"),
  };
}

/** Returns the theme, and draws anew when it changes. @returns {Theme} */
export function useTheme() {
  const [theme, setTheme] = useState(readTheme);
  useEffect(() => {
    const update = () => setTheme(readTheme());
    const observer = new MutationObserver(update);
    observer.observe(document.documentElement, { attributes: true });
    const media = matchMedia("(prefers-color-scheme: dark)");
    media.addEventListener("change", update);
    return () => {
      observer.disconnect();
      media.removeEventListener("change", update);
    };
  }, []);
  return theme;
}

/**
 * Returns how light a colour of the form `#rgb` or `#rrggbb` is, from 0 to 1.
 * @param {string} color
 */
export function lightness(color) {
  const digits = color.replace("#", "");
  const pairs = digits.length === 3 ? [...digits].map((digit) => digit + digit) : digits.match(/../g) ?? ["ff", "ff", "ff"];
  const [red, green, blue] = pairs.map((pair) => parseInt(pair, 16) / 255);
  return 0.299 * red + 0.587 * green + 0.114 * blue;
}

/** @param {number} index @param {number} length */
function wrap(index, length) {
  return ((index % length) + length) % length;
}
