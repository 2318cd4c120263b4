// @ts-check
// What the page knows of runs of `quintain train`: their records, and how their settings differ. Pure.
import { readParts } from "./curve_choice.js";
import { toNumber } from "./format.js";

/**
 * Values of one metric.
 * @typedef {object} Line
 * @property {"training" | "evaluation"} kind
 * @property {number[]} steps
 * @property {number[]} times  Seconds since the run began, as far as is known.
 * @property {number[]} values
 *
 * @typedef {{steps: number[], times: (number | null)[], metrics: Record<string, unknown[]>}} Columns
 */

/** Metrics of how fast a run is and what it takes, not of how good it is. */
const ABOUT_SPEED = /(^|\|)(step_ms|host_ms|host_memory_gb|input_wait_ms|compute_ms|.*_per_second|learning_rate|.*_norm(\/.*)?|.*memory.*)$/;

/** Loss over all tasks of several, which `training_loss` is, too. */
const DOUBLED = "total_loss|training_loss";

/** The records of a run, which grow while it is looked at. */
export class RunRecords {
  constructor() {
    this.cursor = "";
    this.state = "";
    this.isThinned = false;
    this.version = 0;
    /** @type {Columns} */
    this.training = emptyColumns();
    /** @type {Columns} */
    this.evaluations = emptyColumns();
  }

  /** Takes an answer of `/runs/NAME/curves`, and says whether anything is new.
   * @param {any} answer */
  take(answer) {
    const isNew = answer.is_reset || answer.training.steps.length > 0 || answer.evaluations.steps.length > 0 || answer.state !== this.state;
    if (answer.is_reset) {
      this.training = emptyColumns();
      this.evaluations = emptyColumns();
      this.isThinned = false;
    }
    append(this.training, answer.training);
    append(this.evaluations, answer.evaluations);
    this.isThinned ||= answer.is_thinned;
    this.cursor = answer.cursor;
    this.state = answer.state;
    if (isNew) this.version += 1;
    return isNew;
  }

  /** Names of all metrics. */
  get names() {
    return [...new Set([...Object.keys(this.training.metrics), ...Object.keys(this.evaluations.metrics)])].filter((name) => name !== DOUBLED);
  }

  /** Returns the values of a metric; null if there are none.
   * @param {string} name @returns {Line | null} */
  line(name) {
    const kind = name in this.evaluations.metrics ? "evaluation" : "training";
    const columns = kind === "evaluation" ? this.evaluations : this.training;
    const values = columns.metrics[name];
    if (!values) return null;
    const begin = this.training.times.find((time) => time !== null) ?? 0;
    /** @type {Line} */
    const line = { kind, steps: [], times: [], values: [] };
    values.forEach((value, i) => {
      if (value === null || value === undefined) return;
      line.steps.push(columns.steps[i]);
      line.times.push((columns.times[i] ?? this.timeAt(columns.steps[i])) - begin);
      line.values.push(toNumber(value));
    });
    return line;
  }

  /** Returns when training was at a step, from the records around it.
   * @param {number} step */
  timeAt(step) {
    const { steps, times } = this.training;
    let low = 0;
    let high = steps.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (steps[middle] < step) low = middle + 1;
      else high = middle;
    }
    return times[Math.min(low, steps.length - 1)] ?? NaN;
  }
}

/** Sorts metrics into charts: `training_loss` and `validation_loss` belong together.
 * @param {string[]} names
 * @returns {{title: string, names: string[], isAboutSpeed: boolean}[]} */
export function groupMetrics(names) {
  /** @type {Map<string, string[]>} */
  const groups = new Map();
  for (const name of names) {
    const title = name.replace(/(^|\|)(training|train|validation)_/, "$1");
    groups.set(title, [...(groups.get(title) ?? []), name]);
  }
  const charts = [...groups].map(([title, members]) => ({ title, names: members, isAboutSpeed: ABOUT_SPEED.test(title) }));
  return charts.sort((a, b) => rank(a) - rank(b) || a.title.localeCompare(b.title));
}

/** Returns the leaves of nested settings by their dotted paths.
 * @param {any} settings @param {string} [prefix] @returns {Map<string, unknown>} */
export function flatten(settings, prefix = "") {
  /** @type {Map<string, unknown>} */
  const leaves = new Map();
  const waiting = [[prefix, settings]];
  while (waiting.length) {
    const [path, value] = /** @type {[string, any]} */ (waiting.shift());
    const isGroup = value !== null && typeof value === "object" && !Array.isArray(value) && Object.keys(value).length > 0;
    if (!isGroup) {
      if (path) leaves.set(path, value);
      continue;
    }
    waiting.unshift(...Object.entries(value).map(([name, part]) => /** @type {[string, any]} */ ([path ? `${path}.${name}` : name, part])));
  }
  return leaves;
}

/** Returns the settings in which some runs differ: the path, and the value in each (undefined if it has none).
 * @param {any[]} settings of each run
 * @returns {[string, unknown[]][]} */
export function findDifferences(settings) {
  const all = settings.map((one) => flatten(one));
  const paths = new Set(all.flatMap((leaves) => [...leaves.keys()]));
  /** @type {[string, unknown[]][]} */
  const found = [];
  for (const path of paths) {
    const values = all.map((leaves) => leaves.get(path));
    if (values.some((value) => JSON.stringify(value) !== JSON.stringify(values[0]))) found.push([path, values]);
  }
  return found;
}

/** The value by which a metric of runs is shown: only of evaluations more than the last ones are known.
 * @param {any[]} runs @param {string} metric @returns {import("./experiment_data.js").Part | null} null if there is no choice */
export function usualPart(runs, metric) {
  if (!runs.some((run) => run.ranges[metric])) return null;
  return /loss$/.test(metric) ? "min" : "last";
}

/** Returns what gives the value of a metric of a run that a link chooses; undefined where there is none.
 * @param {any[]} runs @param {string | undefined} text of the link @returns {(run: any, metric: string) => number | undefined} */
export function readValues(runs, text) {
  const chosen = readParts(text);
  return (run, metric) => {
    const part = chosen[metric] ?? usualPart(runs, metric) ?? "last";
    const value = part === "last" ? run.metrics[metric] : run.ranges[metric]?.[part === "min" ? 0 : 1];
    return value === undefined || value === null ? undefined : toNumber(value);
  };
}

/** Returns runs in groups whose settings differ by the seed only, unless a link says that they are not grouped.
 * @param {any[]} runs @param {Record<string, string>} query
 * @returns {{groups: any[][], isSeeded: boolean, isGrouped: boolean}} */
export function groupRuns(runs, query) {
  /** @type {Map<string, any[]>} */
  const found = new Map();
  for (const run of runs) found.set(run.settings_id || run.name, [...(found.get(run.settings_id || run.name) ?? []), run]);
  const isSeeded = found.size < runs.length;
  const isGrouped = isSeeded && query.seeds !== "0";
  return { groups: isGrouped ? [...found.values()] : runs.map((run) => [run]), isSeeded, isGrouped };
}

/** Returns which source set a field: its own, or that of what contains it; empty for the registered experiment.
 * @param {Record<string, string>} sources @param {string} path */
export function sourceOf(sources, path) {
  for (let name = path; name; name = name.slice(0, Math.max(name.lastIndexOf("."), name.lastIndexOf("["), 0))) {
    if (Object.hasOwn(sources, name)) return sources[name];
  }
  return "";
}

/** Orders rows by a column; what has no value comes last either way.
 * @template Row
 * @param {Row[]} rows @param {(row: Row) => any} value @param {boolean} isDescending */
export function sortRows(rows, value, isDescending) {
  const has = (/** @type {any} */ one) => one !== null && one !== undefined && one !== "" && !Number.isNaN(one);
  return [...rows].sort((left, right) => {
    const [a, b] = [value(left), value(right)];
    if (!has(a) || !has(b)) return Number(has(b)) - Number(has(a));
    const order = typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b), "en", { numeric: true });
    return isDescending ? -order : order;
  });
}

/** @returns {Columns} */
function emptyColumns() {
  return { steps: [], times: [], metrics: {} };
}

/** @param {Columns} columns @param {Columns} more */
function append(columns, more) {
  const before = columns.steps.length;
  const count = more.steps.length;
  if (!count) return;
  const names = new Set([...Object.keys(columns.metrics), ...Object.keys(more.metrics)]);
  columns.metrics = Object.fromEntries([...names].map((name) => [
    name, [...(columns.metrics[name] ?? Array(before).fill(null)), ...(more.metrics[name] ?? Array(count).fill(null))],
  ]));
  columns.steps = [...columns.steps, ...more.steps];
  columns.times = [...columns.times, ...more.times];
}

/** @param {{title: string, names: string[], isAboutSpeed: boolean}} chart */
function rank({ title, names, isAboutSpeed }) {
  if (isAboutSpeed) return 3;
  if (/(^|\|)loss$/.test(title)) return 0;
  return names.length > 1 ? 1 : 2;
}
