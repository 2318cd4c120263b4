// @ts-check
// What the page knows of one experiment: its trials as columns, and those curves that were asked for.
// No drawing here, and no network but the two functions that it is given.
import { ColumnArray } from "./column.js";
import { CurveCache } from "./curve_cache.js";
import { cell, heldSecs, isNumber, metric as writeMetric, outcome, toNumber } from "./format.js";
import { flatten, readSpace, shortenPaths } from "./hparams.js";

/** @typedef {import("./column.js").Column} Column */
/** @typedef {import("./curve_cache.js").Curve} Curve */
/** @typedef {{get: (path: string, params?: any) => Promise<any>,
 *   getBuffer: (path: string, params?: any) => Promise<ArrayBuffer>}} Source */

/** @type {Column[]} */
const TRIAL_COLUMNS = [
  { key: "id", label: "trial", kind: "number", source: "trial" },
  { key: "state", label: "state", kind: "state", source: "trial" },
  { key: "best_metric", label: "best", kind: "number", source: "trial" },
  { key: "latest_metric", label: "latest", kind: "number", source: "trial" },
  { key: "total_batches", label: "batches", kind: "number", source: "trial" },
  { key: "progress", label: "progress", kind: "share", source: "trial" },
  { key: "duration", label: "duration", kind: "duration", source: "trial" },
  { key: "start_time", label: "started", kind: "time", source: "trial" },
  { key: "end_time", label: "ended", kind: "time", source: "trial" },
  { key: "restarts", label: "restarts", kind: "number", source: "trial" },
  { key: "seed", label: "seed", kind: "number", source: "trial" },
  { key: "parent_trial_id", label: "parent", kind: "number", source: "trial" },
  { key: "request_id", label: "request", kind: "text", source: "trial" },
  { key: "latest_checkpoint", label: "checkpoint", kind: "text", source: "trial" },
  { key: "reason", label: "reason", kind: "text", source: "trial" },
  { key: "note", label: "note", kind: "text", source: "trial" },
];
/** What a filter does not take for hyperparameters: columns, and headings of theirs. */
const COLUMN_NAMES = [...TRIAL_COLUMNS.map(({ key }) => key), "best", "latest", "batches"];
/** @typedef {"min" | "max" | "last"} Part  The value of a curve by which a trial is shown. */
/** @type {Part[]} */
export const PARTS = ["min", "max", "last"];
const MANY_IDS = 200;

/** Of all experiments, so that what was made of one is not taken for another's. */
let numVersions = 0;

export class ExperimentData {
  /** @param {number} id @param {Source} source */
  constructor(id, source) {
    this.id = id;
    this.source = source;
    /** @type {any} */
    this.experiment = null;
    /** @type {import("./hparams.js").Hparam[]} */
    this.hparams = [];
    /** @type {Column[]} */
    this.columns = TRIAL_COLUMNS;
    /** @type {string[]} */
    this.metricNames = [];
    this.cursor = "";
    this.version = 0;
    this.numRows = 0;
    this.curves = new CurveCache();
    /** @type {Map<string, ColumnArray>} */
    this.arrays = new Map();
    /** @type {Map<number, number>} */
    this.rows = new Map();
    /** @type {Map<string, "min" | "max">} */
    this.bestIs = new Map();
    /** @type {Record<string, Part>} what was chosen for metrics */
    this.parts = {};
    /** @type {Map<number, number>} rungs at which the search stopped trials */
    this.stops = new Map();
    /** @type {Set<() => void>} */
    this.listeners = new Set();
    /** @type {any[][]} points that came while curves were on their way */
    this.held = [];
    this.numFetches = 0;
    /** Loads again and follows the stream from there; who shows the experiment sets it. */
    this.reload = () => this.load();
    this.clear();
  }

  /** Fetches the experiment and its table; curves are fetched again when they are asked for. */
  async load() {
    const [experiment, table] = await Promise.all([
      this.source.get(`/experiments/${this.id}`), this.source.get(`/experiments/${this.id}/table`)]);
    this.clear();
    this.experiment = experiment;
    this.hparams = readSpace(experiment.config?.hyperparameters);
    this.cursor = table.cursor;
    this.#nameMetrics();
    this.#addTable(table);
    this.#changed();
  }

  /** Forgets all trials. */
  clear() {
    this.numRows = 0;
    this.metricNames = [];
    this.columns = TRIAL_COLUMNS.slice();
    this.arrays = new Map(TRIAL_COLUMNS.map((column) => [column.key, new ColumnArray(column.kind, [])]));
    this.rows.clear();
    this.curves.clear();
  }

  /** Ids of the trials, by row. */
  get ids() {
    return /** @type {Float64Array} */ (this.get("id"));
  }

  /** Keys of all columns. */
  columnNames() {
    return this.columns.map((column) => column.key);
  }

  /** @param {string} key @returns {Column | undefined} */
  column(key) {
    return this.columns.find((column) => column.key === key);
  }

  /** Returns the shortest name by which a filter knows a column. @param {string} key */
  shortName(key) {
    const column = this.column(key);
    return column?.source === "hparam" ? column.label : key.replace(/^validation\//, "");
  }

  /** All values of a column: numbers (NaN where there is none) or texts, `numRows` of them.
   * @param {string} key @returns {Float64Array | string[]} */
  get(key) {
    return this.arrays.get(key)?.values ?? new Float64Array(this.numRows).fill(NaN);
  }

  /** One value; null where there is none. @param {string} key @param {number} row */
  value(key, row) {
    return this.arrays.get(key)?.value(row) ?? null;
  }

  /** @param {number} trialId @returns {number} row of a trial, or -1 */
  rowOf(trialId) {
    return this.rows.get(trialId) ?? -1;
  }

  /** Name of the metric that is searched, as `validation/accuracy`; "" if there is none. */
  get searchedMetric() {
    const name = this.experiment?.config?.searcher?.metric;
    if (!name) return "";
    return this.metricNames.find((one) => one === `validation/${name}`) ?? `validation/${name}`;
  }

  /** Whether smaller values of a metric, or of a column of one, are better; null if nobody has said it. @param {string} name */
  isSmallerBetter(name) {
    const metric = name.replace(/\.(last|min|max)$/, "");
    if (["best_metric", "latest_metric", this.searchedMetric].includes(metric)) return this.experiment?.config?.searcher?.smaller_is_better ?? true;
    const known = this.bestIs.get(metric);
    return known ? known === "min" : null;
  }

  /** The value by which trials are told apart: the best one, where that means something. @param {string} metric @returns {Part} */
  usualPart(metric) {
    const isSmallerBetter = this.isSmallerBetter(metric);
    return isSmallerBetter === null ? "last" : isSmallerBetter ? "min" : "max";
  }

  /** The value that the column of a metric has. @param {string} metric @returns {Part} */
  partOf(metric) {
    return this.parts[metric] ?? this.usualPart(metric);
  }

  /** Chooses which values the columns of metrics have. @param {Record<string, Part>} parts */
  chooseParts(parts) {
    if (JSON.stringify(parts) === JSON.stringify(this.parts)) return;
    this.parts = parts;
    for (const name of this.metricNames) this.#setPart(name);
    this.#changed();
  }

  /** Takes over at which rung the search stopped each trial early. @param {Map<number, number>} stops */
  setStops(stops) {
    if (JSON.stringify([...stops]) === JSON.stringify([...this.stops])) return;
    this.stops = stops;
    this.#changed();
  }

  /** What became of a trial, in the words of all views. @param {number} row */
  outcome(row) {
    return outcome(this.value("state", row), this.stops.get(this.ids[row]));
  }

  /** A value of a column as text; of a metric in its format. @param {string} key @param {unknown} value @param {number} [digits] of a metric without a format */
  write(key, value, digits) {
    const searcher = this.experiment?.config?.searcher;
    if (key === "best_metric" || key === "latest_metric") return writeMetric(value, searcher?.metric ?? "", searcher, digits);
    const column = this.column(key);
    const name = key.replace(/\.(last|min|max)$/, "");
    return column?.source === "metric" ? writeMetric(value, name, searcher, digits) : cell(value, column?.kind ?? "text");
  }

  /** Key of the column of the searched metric. */
  get searchedKey() {
    return this.column(this.searchedMetric) ? this.searchedMetric : "best_metric";
  }

  /** Fetches curves that are not there yet. @param {string[]} names @param {Iterable<number> | null} [trialIds] null: all */
  async loadCurves(names, trialIds = null) {
    const ids = trialIds === null ? null : [...trialIds];
    const wanted = names.filter((name) => this.curves.isMissing(name, ids));
    if (!wanted.length) return;
    const asked = ids === null || ids.length > MANY_IDS ? null : ids;
    const curves = this.curves;
    this.numFetches += 1;
    try {
      const buffer = await this.source.getBuffer(`/experiments/${this.id}/curves`, { metric: wanted, trial_id: asked });
      curves.add(buffer, wanted, asked);
      for (const point of this.held) this.#addPoints(point);
    } finally {
      this.numFetches -= 1;
      if (!this.numFetches) this.held = [];
    }
    this.#changed();
  }

  /** @param {number} trialId @param {string} name @returns {Curve | null} */
  curve(trialId, name) {
    return this.curves.get(trialId, name);
  }

  /** Calls back after each change; returns how to end that. @param {() => void} listener */
  subscribe(listener) {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  /** Takes over an event of the stream; one that was taken over before does no harm.
   * @param {any} changes @returns {boolean} whether everything has to be loaded again, as metrics came or were taken back */
  applyChanges(changes) {
    for (const summary of changes.experiments ?? []) if (summary.id === this.id) this.#updateExperiment(summary);
    for (const record of changes.trials ?? []) if (record.experiment_id === this.id) this.#setTrial(record);
    let mustReload = false;
    for (const [trialId, batches] of changes.cuts ?? []) {
      this.curves.cut(trialId, batches);
      mustReload ||= this.rows.has(trialId);
    }
    const { length } = this.metricNames;
    for (const point of changes.metrics ?? []) this.#addMetrics(point);
    // The table says which values of new metrics are the best.
    mustReload ||= this.metricNames.length > length;
    if (changes.cursor) this.cursor = changes.cursor;
    this.#changed();
    return mustReload;
  }

  #changed() {
    this.version = ++numVersions;
    for (const listener of [...this.listeners]) listener();
  }

  /** @param {any} summary */
  #updateExperiment(summary) {
    const { config, ...rest } = summary;
    const old = this.experiment?.config ?? {};
    const searcher = { ...old.searcher, ...config?.searcher };
    this.experiment = { ...this.experiment, ...rest, config: { ...old, ...config, searcher } };
  }

  /** Says in the labels which metric is meant. */
  #nameMetrics() {
    const metric = this.experiment.config?.searcher?.metric;
    const named = (/** @type {Column} */ column) => ({ ...column, label: `${column.label} ${metric}` });
    if (metric) this.columns = this.columns.map((column) => (column.key.endsWith("_metric") ? named(column) : column));
  }

  /** @param {any} table */
  #addTable(table) {
    this.numRows = table.num_trials;
    for (const { key, kind } of TRIAL_COLUMNS) {
      if (key !== "duration") this.arrays.set(key, new ColumnArray(kind, table.columns[key] ?? Array(this.numRows).fill(null)));
    }
    const { held_secs: held, held_since: since } = table.columns;
    for (const key of ["duration", "held_secs", "held_since"]) this.arrays.set(key, new ColumnArray("duration", []));
    for (let row = 0; row < this.numRows; row += 1) this.#setHeld(row, held?.[row], since?.[row]);
    table.columns.id.forEach((/** @type {number} */ id, /** @type {number} */ row) => this.rows.set(id, row));
    const order = new Map(this.hparams.map(({ path }, at) => [path, at]));
    const paths = Object.keys(table.hparams).sort((a, b) => (order.get(a) ?? 1e9) - (order.get(b) ?? 1e9));
    for (const path of paths) this.#addHparam(path, table.hparams[path]);
    for (const name of Object.keys(table.metrics)) this.#addMetric(name, table.metrics[name]);
    this.#nameHparams();
  }

  /** Labels hyperparameters by the shortest ends of their paths that mean nothing else. */
  #nameHparams() {
    const columns = this.columns.filter(({ source }) => source === "hparam");
    const taken = new Set([...COLUMN_NAMES, ...this.metricNames.map((name) => name.slice(name.indexOf("/") + 1))]);
    const labels = shortenPaths(columns.map(({ path }) => /** @type {string} */ (path)), taken);
    for (const column of columns) column.label = labels.get(/** @type {string} */ (column.path)) ?? column.label;
  }

  /** @param {string} path @param {unknown[]} values */
  #addHparam(path, values) {
    const array = new ColumnArray(values.every((value) => value === null || isNumber(value)) ? "number" : "text", values);
    const log = this.hparams.find((one) => one.path === path)?.kind === "log";
    this.columns.push({ key: `hparams.${path}`, label: path, path, kind: array.kind, source: "hparam", log });
    this.arrays.set(`hparams.${path}`, array);
  }

  /** @param {string} name @param {any} parts */
  #addMetric(name, parts) {
    this.metricNames.push(name);
    if (parts.best_is) this.bestIs.set(name, parts.best_is);
    const short = name.replace(/^validation\//, "");
    this.columns.push({ key: name, label: short, kind: "number", source: "metric", metric: name });
    for (const part of PARTS) {
      this.columns.push({ key: `${name}.${part}`, label: `${short} ${part}`, kind: "number", source: "metric", path: `${name} ${part}` });
      this.arrays.set(`${name}.${part}`, new ColumnArray("number", parts[part] ?? Array(this.numRows).fill(null)));
    }
    this.#setPart(name);
  }

  /** @param {string} name */
  #setPart(name) {
    const part = this.partOf(name);
    this.arrays.set(name, /** @type {ColumnArray} */ (this.arrays.get(`${name}.${part}`)));
    const column = /** @type {Column} */ (this.column(name));
    column.label = `${this.shortName(name)} (${part})`;
  }

  /** Sets what a trial took; that of one which runs grows. @param {number} row @param {number | null} [secs] @param {number | null} [since] */
  #setHeld(row, secs, since) {
    this.arrays.get("held_secs")?.set(row, secs);
    this.arrays.get("held_since")?.set(row, since);
    this.arrays.get("duration")?.set(row, (since ?? null) === null ? heldSecs(secs, since) : null);
  }

  /** @param {any} record */
  #setTrial(record) {
    let row = this.rows.get(record.id);
    if (row === undefined) {
      row = this.numRows;
      this.numRows += 1;
      this.rows.set(record.id, row);
      for (const array of this.arrays.values()) array.set(row, null);
    }
    for (const { key } of TRIAL_COLUMNS) if (key in record) this.arrays.get(key)?.set(row, record[key]);
    this.#setHeld(row, record.held_secs, record.held_since);
    for (const [path, value] of Object.entries(flatten(record.hparams))) {
      if (!this.arrays.has(`hparams.${path}`)) {
        this.#addHparam(path, Array(this.numRows).fill(null));
        this.#nameHparams();
      }
      const array = /** @type {ColumnArray} */ (this.arrays.get(`hparams.${path}`));
      array.set(row, value);
      const column = this.column(`hparams.${path}`);
      if (column) column.kind = array.kind;
    }
  }

  /** @param {any[]} point of an event */
  #addMetrics(point) {
    const [trialId, group, , , metrics] = point;
    const row = this.rows.get(trialId);
    if (row === undefined) return;
    if (this.numFetches) this.held.push(point);
    for (const [short, value] of Object.entries(metrics)) {
      if (isNumber(value)) this.#updateMetric(`${group}/${short}`, row, toNumber(value));
    }
    this.#addPoints(point);
  }

  /** @param {any[]} point of an event */
  #addPoints([trialId, group, batches, time, metrics]) {
    for (const [short, value] of Object.entries(metrics)) {
      if (isNumber(value)) this.curves.push(trialId, `${group}/${short}`, batches, toNumber(value), time);
    }
  }

  /** @param {string} name @param {number} row @param {number} value */
  #updateMetric(name, row, value) {
    if (!this.arrays.has(`${name}.last`)) {
      this.#addMetric(name, {});
      this.#nameHparams();
    }
    const part = (/** @type {string} */ which) => /** @type {ColumnArray} */ (this.arrays.get(`${name}.${which}`));
    const better = (/** @type {ColumnArray} */ array, /** @type {boolean} */ smaller) => {
      const old = toNumber(array.value(row));
      if (Number.isNaN(old) || (smaller ? value < old : value > old)) array.set(row, value);
    };
    part("last").set(row, value);
    better(part("min"), true);
    better(part("max"), false);
  }
}
