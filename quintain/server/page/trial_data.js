// @ts-check
// What the page knows of one trial. No drawing here, and no network but the functions that it is given.
import { CurveCache, unpackCurves } from "./curve_cache.js";
import { chartOf } from "./curve_choice.js";
import { isNumber, toNumber } from "./format.js";

/** @typedef {import("./curve_cache.js").Curve} Curve */
/** @typedef {import("./experiment_data.js").Source} Source */

export class TrialData {
  /** @param {number} id @param {Source} source @param {() => void} onChange */
  constructor(id, source, onChange) {
    this.id = id;
    this.source = source;
    this.onChange = onChange;
    /** @type {any} */
    this.trial = null;
    /** @type {any} */
    this.experiment = null;
    /** @type {any[]} */
    this.checkpoints = [];
    this.curves = new CurveCache();
    /** @type {string[]} */
    this.names = [];
    /** Of the stream, when the curves were read. */
    this.cursor = "";
  }

  /** Fetches everything. */
  async load() {
    const trial = await this.source.get(`/trials/${this.id}`);
    const [experiment, checkpoints, buffer] = await Promise.all([
      this.source.get(`/experiments/${trial.experiment_id}`),
      this.source.get(`/trials/${this.id}/checkpoints`),
      this.source.getBuffer(`/experiments/${trial.experiment_id}/curves`, { trial_id: this.id }),
    ]);
    Object.assign(this, { trial, experiment, checkpoints });
    this.#setCurves(buffer);
    this.onChange();
  }

  /** @param {string} name @returns {Curve | null} */
  curve(name) {
    return this.curves.get(this.id, name);
  }

  /** Metrics by their short names, the one that is searched first: `loss` -> `training/loss`, `validation/val_loss`.
   * @returns {[string, string[]][]} */
  listCharts() {
    /** @type {Map<string, string[]>} */
    const found = new Map();
    for (const name of this.names.filter((one) => !one.startsWith("system/"))) {
      const short = chartOf(name);
      found.set(short, [...(found.get(short) ?? []), name].sort());
    }
    const searched = chartOf(`validation/${this.experiment?.config?.searcher?.metric}`);
    return [...found].sort(([a], [b]) => Number(b === searched) - Number(a === searched));
  }

  /** Metrics of the machine. */
  listSystem() {
    return this.names.filter((name) => name.startsWith("system/"));
  }

  /** Takes over an event of the stream. @param {any} changes */
  applyChanges(changes) {
    for (const record of changes.trials ?? []) if (record.id === this.id) this.trial = record;
    for (const summary of changes.experiments ?? []) {
      if (summary.id === this.experiment?.id) this.experiment = { ...this.experiment, ...summary, config: this.experiment.config };
    }
    for (const [trialId, batches] of changes.cuts ?? []) this.curves.cut(trialId, batches);
    for (const [trialId, group, batches, time, metrics] of changes.metrics ?? []) {
      if (trialId !== this.id) continue;
      for (const [short, value] of Object.entries(metrics)) {
        if (isNumber(value)) this.#push(`${group}/${short}`, batches, toNumber(value), time);
      }
    }
    for (const one of changes.checkpoints ?? []) if (one.trial_id === this.id) this.#setCheckpoint(one);
    this.onChange();
  }

  /** @param {ArrayBuffer} buffer */
  #setCurves(buffer) {
    this.names = unpackCurves(buffer).map(([, name]) => name);
    this.cursor = readCursor(buffer);
    this.curves.clear();
    this.curves.add(buffer, this.names, [this.id]);
  }

  /** @param {string} name @param {number} batches @param {number} value @param {number} time */
  #push(name, batches, value, time) {
    if (!this.names.includes(name)) {
      this.names = [...this.names, name];
      this.curves.loaded.set(name, new Set([this.id]));
    }
    this.curves.push(this.id, name, batches, value, time);
  }

  /** @param {any} checkpoint */
  #setCheckpoint(checkpoint) {
    const others = this.checkpoints.filter((one) => one.uuid !== checkpoint.uuid);
    this.checkpoints = [...others, checkpoint].sort((a, b) => a.total_batches - b.total_batches || a.time - b.time);
  }
}

/** Returns the cursor in an answer of `/curves`. @param {ArrayBuffer} buffer @returns {string} */
function readCursor(buffer) {
  const size = new DataView(buffer).getUint32(0, true);
  return JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, size))).cursor;
}
