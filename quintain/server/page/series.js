// @ts-check
/** What happens to a curve before it is drawn. Pure: no page, no canvas. */

/**
 * A curve that can be drawn: points in the order of `x`.
 * @typedef {object} Line
 * @property {Float64Array} x
 * @property {Float64Array} y  Values that are not finite are gaps.
 */

/**
 * Returns the exponential moving average with the correction that makes the first values unbiased.
 * Values that are not finite stay as they are and do not spoil what follows.
 * @param {ArrayLike<number>} values
 * @param {number} weight  Of the past, from 0 (no smoothing) up to but not including 1.
 * @returns {Float64Array}
 */
export function smooth(values, weight) {
  const smoothed = Float64Array.from(values);
  if (!(weight > 0)) return smoothed;
  let average = 0;
  let rest = 1;
  for (let i = 0; i < smoothed.length; i++) {
    if (!Number.isFinite(smoothed[i])) continue;
    average = average * weight + smoothed[i] * (1 - weight);
    rest *= weight;
    smoothed[i] = average / (1 - rest);
  }
  return smoothed;
}

/**
 * Returns the points in the order of `x`, without those that have no place on the axis. Points
 * arrive in the order of batches; clocks may have jumped meanwhile.
 * @param {ArrayLike<number>} x
 * @param {ArrayLike<number>} y
 * @param {boolean} isLogX
 * @returns {Line}
 */
export function orderPoints(x, y, isLogX = false) {
  const count = Math.min(x.length, y.length);
  let isOrdered = true;
  for (let i = 0; i < count && isOrdered; i++) {
    isOrdered = Number.isFinite(x[i]) && !(isLogX && x[i] <= 0) && (i === 0 || x[i - 1] <= x[i]);
  }
  if (isOrdered) return { x: toFloats(x, count), y: toFloats(y, count) };
  const places = [];
  for (let i = 0; i < count; i++) {
    if (Number.isFinite(x[i]) && !(isLogX && x[i] <= 0)) places.push(i);
  }
  places.sort((a, b) => x[a] - x[b] || a - b);
  return { x: Float64Array.from(places, (i) => x[i]), y: Float64Array.from(places, (i) => y[i]) };
}

/**
 * Returns at most about `limit` points with the same outline: of each stretch the first, lowest,
 * highest and last one, and a gap if there is one.
 * @param {Line} line
 * @param {number} limit
 * @returns {Line}
 */
export function thin({ x, y }, limit) {
  if (x.length <= limit) return { x, y };
  const width = Math.ceil((x.length * 4) / limit);
  const places = [];
  for (let start = 0; start < x.length; start += width) {
    const end = Math.min(start + width, x.length);
    let low = start;
    let high = start;
    let gap = start;
    for (let i = start; i < end; i++) {
      if (!Number.isFinite(y[i])) gap = i;
      else if (!(y[low] <= y[i])) low = i;
      if (Number.isFinite(y[i]) && !(y[high] >= y[i])) high = i;
    }
    places.push(...[...new Set([start, low, high, gap, end - 1])].sort((a, b) => a - b));
  }
  return { x: Float64Array.from(places, (i) => x[i]), y: Float64Array.from(places, (i) => y[i]) };
}

/**
 * Puts the points of `part` in place of those of `whole` between its first and last `batches`.
 * @param {{batches: Float64Array, values: Float64Array, times: Float64Array}} whole
 * @param {{batches: ArrayLike<number>, values: ArrayLike<number>, times: ArrayLike<number>}} part
 */
export function replacePart(whole, part) {
  if (!part.batches.length) return whole;
  const before = lowerBound(whole.batches, part.batches[0]);
  let after = lowerBound(whole.batches, part.batches[part.batches.length - 1]);
  while (after < whole.batches.length && whole.batches[after] === part.batches[part.batches.length - 1]) after++;
  /** @param {Float64Array} outer @param {ArrayLike<number>} inner */
  const join = (outer, inner) => {
    const joined = new Float64Array(before + inner.length + outer.length - after);
    joined.set(outer.subarray(0, before));
    joined.set(inner, before);
    joined.set(outer.subarray(after), before + inner.length);
    return joined;
  };
  return {
    batches: join(whole.batches, part.batches),
    values: join(whole.values, part.values),
    times: join(whole.times, part.times),
  };
}

/**
 * Returns the first place in an ordered array whose value is not below `value`.
 * @param {ArrayLike<number>} ordered
 * @param {number} value
 */
export function lowerBound(ordered, value) {
  let low = 0;
  let high = ordered.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (ordered[middle] < value) low = middle + 1;
    else high = middle;
  }
  return low;
}

/**
 * Returns the line that passes nearest to a place of the canvas, and its point nearest to it.
 *
 * Lines are looked at where they cross the column of the place, each by one search in its points:
 * 10,000 lines take a millisecond, and no index has to be kept.
 * @param {Line[]} lines
 * @param {{toX: (x: number) => number, toY: (y: number) => number, toValueX: (px: number) => number}} view
 * @param {number} px
 * @param {number} py
 * @param {number} radius  How far off a line may be, in the canvas' units.
 * @returns {{line: number, point: number, distance: number} | null}
 */
export function findNearest(lines, view, px, py, radius) {
  const column = view.toValueX(px);
  let best = null;
  let distance = radius;
  for (let index = 0; index < lines.length; index++) {
    const { x, y } = lines[index];
    const right = lowerBound(x, column);
    const found = measure(x, y, right - 1, right, view, px, py);
    if (!found || found.distance >= distance) continue;
    distance = found.distance;
    best = { line: index, point: found.point, distance };
  }
  return best;
}

/**
 * Distance of a place to the part of a line between two neighbouring points.
 * @param {Float64Array} x @param {Float64Array} y @param {number} from @param {number} to
 * @param {{toX: (x: number) => number, toY: (y: number) => number}} view
 * @param {number} px @param {number} py
 */
function measure(x, y, from, to, view, px, py) {
  const isLeft = from >= 0 && Number.isFinite(y[from]);
  const isRight = to < x.length && Number.isFinite(y[to]);
  const left = isLeft ? [view.toX(x[from]), view.toY(y[from])] : null;
  const right = isRight ? [view.toX(x[to]), view.toY(y[to])] : null;
  if (left && right) {
    const [dx, dy] = [right[0] - left[0], right[1] - left[1]];
    const length = dx * dx + dy * dy;
    const along = length ? ((px - left[0]) * dx + (py - left[1]) * dy) / length : 0;
    const place = Math.min(1, Math.max(0, along));
    const distance = Math.hypot(left[0] + place * dx - px, left[1] + place * dy - py);
    return { distance, point: px - left[0] <= right[0] - px ? from : to };
  }
  if (left) return { distance: Math.hypot(left[0] - px, left[1] - py), point: from };
  if (right) return { distance: Math.hypot(right[0] - px, right[1] - py), point: to };
  return null;
}

/** @param {ArrayLike<number>} values @param {number} count */
function toFloats(values, count) {
  return values instanceof Float64Array && values.length === count
    ? values
    : Float64Array.from({ length: count }, (_, i) => values[i]);
}
