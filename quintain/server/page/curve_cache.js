// @ts-check
// Curves that the page has: one for each trial and metric, as arrays of float64.

/** @typedef {{batches: Float64Array, values: Float64Array, times: Float64Array}} Curve */

/** A curve that grows; `view` shows what is there without copying. */
class GrowingCurve {
  /** @param {Curve} points */
  constructor(points) {
    this.view = points;
    this.room = points;
  }

  /** Adds a point. @param {number} batches @param {number} value @param {number} time */
  push(batches, value, time) {
    const length = this.view.batches.length;
    if (length === this.room.batches.length) this.room = mapCurve(this.view, (array) => enlarge(array, Math.max(16, 2 * length)));
    this.room.batches[length] = batches;
    this.room.values[length] = value;
    this.room.times[length] = time;
    this.view = mapCurve(this.room, (array) => array.subarray(0, length + 1));
  }

  /** Takes away the points after `batches`. @param {number} batches */
  cut(batches) {
    let length = this.view.batches.length;
    while (length && this.view.batches[length - 1] > batches) length -= 1;
    this.view = mapCurve(this.view, (array) => array.subarray(0, length));
    this.room = this.view;
  }
}

export class CurveCache {
  constructor() {
    /** @type {Map<string, Map<number, GrowingCurve>>} */
    this.byName = new Map();
    /** @type {Map<string, Set<number> | "all">} */
    this.loaded = new Map();
  }

  /** @param {number} trialId @param {string} name @returns {Curve | null} */
  get(trialId, name) {
    return this.byName.get(name)?.get(trialId)?.view ?? null;
  }

  /** Whether curves have to be fetched. @param {string} name @param {Iterable<number> | null} trialIds null for all */
  isMissing(name, trialIds) {
    const there = this.loaded.get(name);
    if (there === "all") return false;
    if (!there || trialIds === null) return true;
    return [...trialIds].some((id) => !there.has(id));
  }

  /** Takes over an answer of `/curves`. @param {ArrayBuffer} buffer @param {string[]} names @param {number[] | null} trialIds */
  add(buffer, names, trialIds) {
    for (const [trialId, name, curve] of unpackCurves(buffer)) this.#of(name).set(trialId, new GrowingCurve(curve));
    for (const name of names) {
      const there = this.loaded.get(name);
      if (trialIds === null || there === "all") this.loaded.set(name, "all");
      else this.loaded.set(name, new Set([...(there ?? []), ...trialIds]));
    }
  }

  /** Adds a new point where the curve is kept; what is not newer than all others came before.
   * @param {number} trialId @param {string} name @param {number} batches @param {number} value @param {number} time */
  push(trialId, name, batches, value, time) {
    const loaded = this.loaded.get(name);
    if (!loaded || (loaded !== "all" && !loaded.has(trialId))) return;
    const curves = this.#of(name);
    let curve = curves.get(trialId);
    if (!curve) curves.set(trialId, (curve = new GrowingCurve(emptyCurve())));
    const { batches: known, times } = curve.view;
    const isNew = isSystem(name) ? time > (times.at(-1) ?? -Infinity) : batches > (known.at(-1) ?? -Infinity);
    if (isNew) curve.push(batches, value, time);
  }

  /** Takes away what a rollback took back: not what the machine did. @param {number} trialId @param {number} batches */
  cut(trialId, batches) {
    for (const [name, curves] of this.byName) if (!isSystem(name)) curves.get(trialId)?.cut(batches);
  }

  clear() {
    this.byName.clear();
    this.loaded.clear();
  }

  /** @param {string} name */
  #of(name) {
    let curves = this.byName.get(name);
    if (!curves) this.byName.set(name, (curves = new Map()));
    return curves;
  }
}

/** Returns what an answer of `/curves` holds; the arrays are views of it.
 * @param {ArrayBuffer} buffer @returns {[number, string, Curve][]} */
export function unpackCurves(buffer) {
  const size = new DataView(buffer).getUint32(0, true);
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, size)));
  let at = 4 + size;
  return header.curves.map((/** @type {[number, string, number]} */ [trialId, name, length]) => {
    const take = () => {
      const array = new Float64Array(buffer, at, length);
      at += 8 * length;
      return array;
    };
    return [trialId, name, { batches: take(), values: take(), times: take() }];
  });
}

/** Whether a metric tells of the machine: its batches go back at a rollback, its times don't. @param {string} name */
export function isSystem(name) {
  return name.startsWith("system/");
}

/** @returns {Curve} */
function emptyCurve() {
  return { batches: new Float64Array(0), values: new Float64Array(0), times: new Float64Array(0) };
}

/** @param {Curve} curve @param {(array: Float64Array) => Float64Array} change @returns {Curve} */
function mapCurve(curve, change) {
  return { batches: change(curve.batches), values: change(curve.values), times: change(curve.times) };
}

/** @param {Float64Array} array @param {number} length */
export function enlarge(array, length) {
  const larger = new Float64Array(length);
  larger.set(array);
  return larger;
}
