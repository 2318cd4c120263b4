// @ts-check
/** Scales and ticks of all charts. Pure: no page, no canvas. */

/**
 * Maps values to the range from 0 to 1 and back.
 * @typedef {object} Scale
 * @property {number} lo  Value at 0.
 * @property {number} hi  Value at 1.
 * @property {boolean} isLog
 * @property {(value: number) => number} toUnit  NaN for what has no place on the scale.
 * @property {(unit: number) => number} toValue
 */

const MAX_SAMPLE = 20000;
const SECOND = 1;
const MINUTE = 60;
const HOUR = 3600;
const DAY = 86400;
const TIME_STEPS = [
  ...[1, 2, 5, 10, 15, 30].map((n) => n * SECOND),
  ...[1, 2, 5, 10, 15, 30].map((n) => n * MINUTE),
  ...[1, 2, 3, 6, 12].map((n) => n * HOUR),
  ...[1, 2, 7, 14, 30, 90, 365].map((n) => n * DAY),
];

/**
 * Returns the smallest and the largest value that can be drawn, or null if there is none.
 * @param {Iterable<ArrayLike<number>>} arrays
 * @param {boolean} isLog  Leaves out what has no logarithm.
 * @returns {[number, number] | null}
 */
export function findExtent(arrays, isLog) {
  let lo = Infinity;
  let hi = -Infinity;
  for (const values of arrays) {
    for (let i = 0; i < values.length; i++) {
      const value = values[i];
      if (!Number.isFinite(value) || (isLog && value <= 0)) continue;
      if (value < lo) lo = value;
      if (value > hi) hi = value;
    }
  }
  return lo <= hi ? [lo, hi] : null;
}

/**
 * Returns the extent without values that are far off, as of a training that diverges: they would
 * press all others into one line. Far is more than three times the width of the middle half of all.
 * @param {Iterable<ArrayLike<number>>} arrays
 * @param {boolean} isLog
 * @returns {[number, number] | null}
 */
export function findUsualExtent(arrays, isLog) {
  const lists = [...arrays];
  const extent = findExtent(lists, isLog);
  const sorted = drawSample(lists, isLog);
  if (!extent || !sorted.length) return extent;
  const [low, high] = [0.25, 0.75].map((part) => sorted[Math.floor((sorted.length - 1) * part)]);
  if (low === high) return extent;
  const reach = (high - low) * 3;
  const [from, to] = isLog ? [10 ** (low - reach), 10 ** (high + reach)] : [low - reach, high + reach];
  return [Math.max(extent[0], from), Math.min(extent[1], to)];
}

/** Returns some of the values in order, or their logarithms. @param {ArrayLike<number>[]} lists @param {boolean} isLog */
function drawSample(lists, isLog) {
  const total = lists.reduce((sum, values) => sum + values.length, 0);
  // Not a whole number: curves of equal length are met at different places of theirs.
  const stride = total > MAX_SAMPLE ? total / MAX_SAMPLE + 0.618034 : 1;
  /** @type {number[]} */
  const sample = [];
  let place = 0;
  for (const values of lists) {
    for (; place < values.length; place += stride) {
      const value = values[Math.floor(place)];
      if (!Number.isFinite(value) || (isLog && value <= 0)) continue;
      sample.push(isLog ? Math.log10(value) : value);
    }
    place -= values.length;
  }
  return Float64Array.from(sample).sort();
}

/**
 * Widens an extent, so that nothing is drawn on the frame and a single value has a place.
 * @param {[number, number] | null} extent
 * @param {boolean} isLog
 * @param {number} ratio  Part of the extent that is added at each end.
 * @param {number} [room]  What is added around a single value, if not a tenth of it.
 * @returns {[number, number]}
 */
export function padExtent(extent, isLog, ratio = 0.04, room = NaN) {
  if (!extent) return isLog ? [0.1, 1] : [0, 1];
  let [lo, hi] = extent;
  if (isLog) {
    if (lo === hi) return [lo / 2, hi * 2];
    const pad = (Math.log10(hi) - Math.log10(lo)) * ratio;
    return [Math.max(lo * 10 ** -pad, Number.MIN_VALUE), Math.min(hi * 10 ** pad, Number.MAX_VALUE)];
  }
  if (lo === hi) {
    const pad = room || Math.abs(lo) / 10 || 1;
    return [lo - pad, hi + pad];
  }
  const pad = hi * ratio - lo * ratio;
  return [Math.max(lo - pad, -Number.MAX_VALUE), Math.min(hi + pad, Number.MAX_VALUE)];
}

/**
 * @param {number} lo
 * @param {number} hi
 * @param {boolean} isLog
 * @returns {Scale}
 */
export function buildScale(lo, hi, isLog = false) {
  const [from, to] = isLog ? [Math.log10(lo), Math.log10(hi)] : [lo, hi];
  // Halves keep the width of the largest range from becoming infinite.
  const half = to / 2 - from / 2;
  return {
    lo,
    hi,
    isLog,
    toUnit(value) {
      if (!Number.isFinite(value) || (isLog && value <= 0)) return NaN;
      if (half === 0) return 0.5;
      return ((isLog ? Math.log10(value) : value) / 2 - from / 2) / half;
    },
    toValue(unit) {
      const place = from + unit * half * 2;
      return isLog ? 10 ** place : place;
    },
  };
}

/**
 * Returns round numbers between `lo` and `hi`.
 * @param {number} lo
 * @param {number} hi
 * @param {number} count  About how many.
 * @param {boolean} isWhole  Whether only whole numbers are wanted.
 * @returns {number[]}
 */
export function findTicks(lo, hi, count = 6, isWhole = false) {
  const span = hi - lo;
  if (!(span > 0) || !Number.isFinite(span)) return Number.isFinite(lo) ? [lo] : [];
  const rough = span / Math.max(count, 1);
  const power = 10 ** Math.floor(Math.log10(rough));
  const factor = [1, 2, 5, 10].find((each) => each * power >= rough * 0.75) ?? 10;
  const step = isWhole ? Math.max(1, Math.round(factor * power)) : factor * power;
  return multiplesOf(step, lo, hi);
}

/**
 * Returns round numbers at about equal distances on a logarithmic axis.
 * @param {number} lo
 * @param {number} hi
 * @param {number} count
 * @returns {number[]}
 */
export function findLogTicks(lo, hi, count = 6) {
  const from = Math.ceil(Math.log10(lo) - 1e-9);
  const to = Math.floor(Math.log10(hi) + 1e-9);
  const decades = to - from + 1;
  if (decades < 2 && Math.log10(hi / lo) < 1.2) {
    const linear = findTicks(lo, hi, count).filter((tick) => tick > 0);
    if (linear.length >= 2) return linear;
  }
  const stride = Math.max(1, Math.ceil(decades / count));
  const factors = decades * 3 <= count + 2 ? [1, 2, 5] : [1];
  const ticks = [];
  for (let power = from - 1; power <= to; power++) {
    if (factors.length === 1 && (((power % stride) + stride) % stride)) continue;
    for (const factor of factors) {
      const tick = Number(`${factor}e${power}`);
      if (tick >= lo * (1 - 1e-9) && tick <= hi * (1 + 1e-9)) ticks.push(tick);
    }
  }
  return ticks;
}

/**
 * Returns ticks of a duration or of a time of day: multiples of seconds, minutes, hours, days.
 * @param {number} lo  Seconds.
 * @param {number} hi
 * @param {number} count
 * @param {number} offset  Seconds by which local time is ahead, so that days begin at midnight.
 * @returns {number[]}
 */
export function findTimeTicks(lo, hi, count = 6, offset = 0) {
  const rough = (hi - lo) / Math.max(count, 1);
  if (!(rough > 0)) return Number.isFinite(lo) ? [lo] : [];
  if (rough < 0.5) return findTicks(lo, hi, count);
  const step = TIME_STEPS.find((each) => each >= rough) ?? 365 * DAY * Math.ceil(rough / (365 * DAY));
  return multiplesOf(step, lo + offset, hi + offset).map((tick) => tick - offset);
}

/**
 * Writes the ticks of one axis: all with as many digits as tell neighbours apart.
 * @param {number[]} ticks
 * @returns {string[]}
 */
export function writeTicks(ticks) {
  // A single one has no neighbour to be told from: it is written as the value that it is.
  if (ticks.length === 1) return writeLogTicks([Number(ticks[0].toPrecision(4))]);
  const largest = Math.max(...ticks.map(Math.abs));
  const step = ticks.length > 1 ? Math.min(...ticks.slice(1).map((tick, i) => tick - ticks[i])) : largest;
  if (largest >= 1e6 || (largest > 0 && largest < 1e-3) || (step > 0 && step < 1e-6)) {
    const digits = step > 0 ? Math.ceil(Math.log10(largest / step) - 0.3) : 0;
    return ticks.map((tick) => writePower(tick, Math.min(Math.max(digits, 0), 8)));
  }
  const digits = step > 0 ? Math.min(Math.max(0, Math.ceil(-Math.log10(step) - 1e-9)), 8) : 0;
  return ticks.map((tick) => tick.toFixed(digits));
}

/**
 * Writes the ticks of a logarithmic axis, each for itself.
 * @param {number[]} ticks
 * @returns {string[]}
 */
export function writeLogTicks(ticks) {
  return ticks.map((tick) =>
    tick === 0 || (Math.abs(tick) >= 1e-3 && Math.abs(tick) < 1e5) ? String(Number(tick.toPrecision(6))) : writePower(tick, 6),
  );
}

/**
 * Writes durations: `0`, `30s`, `5m`, `1h30m`, `2d`.
 * @param {number[]} ticks  Seconds.
 * @returns {string[]}
 */
export function writeDurationTicks(ticks) {
  return ticks.map((tick) => {
    const sign = tick < 0 ? "-" : "";
    const secs = Math.abs(tick);
    if (secs === 0) return "0";
    if (secs < MINUTE) return `${sign}${Number(secs.toPrecision(3))}s`;
    const whole = Math.round(secs);
    const units = /** @type {[number, string][]} */ ([[DAY, "d"], [HOUR, "h"], [MINUTE, "m"], [1, "s"]]);
    let rest = whole;
    const parts = [];
    for (const [size, name] of units) {
      if (rest >= size) parts.push(`${Math.floor(rest / size)}${name}`);
      rest %= size;
    }
    return sign + parts.slice(0, 2).join("");
  });
}

/**
 * Writes times of day, and the date where a day begins.
 * @param {number[]} ticks  Seconds since the epoch.
 * @returns {string[]}
 */
export function writeClockTicks(ticks) {
  const step = ticks.length > 1 ? ticks[1] - ticks[0] : HOUR;
  const two = (/** @type {number} */ number) => String(number).padStart(2, "0");
  let day = "";
  return ticks.map((tick) => {
    const date = new Date(tick * 1000);
    const today = `${two(date.getMonth() + 1)}-${two(date.getDate())}`;
    const clock = `${two(date.getHours())}:${two(date.getMinutes())}`;
    const isNew = today !== day;
    day = today;
    if (step >= DAY) return step >= 90 * DAY ? `${date.getFullYear()}-${today}` : today;
    const text = step < MINUTE ? `${clock}:${two(date.getSeconds())}` : clock;
    return isNew ? `${today} ${text}` : text;
  });
}

/** @param {number} step @param {number} lo @param {number} hi */
function multiplesOf(step, lo, hi) {
  const first = Math.ceil(lo / step - 1e-9);
  const last = Math.floor(hi / step + 1e-9);
  const ticks = [];
  // Whole multiples, rounded to their digits: sums of 0.1 drift.
  for (let i = first; i <= last && ticks.length < 1000; i++) ticks.push(Number((i * step).toPrecision(12)) || 0);
  return ticks;
}

/** @param {number} value @param {number} digits  At most so many after the point. */
function writePower(value, digits) {
  if (value === 0) return "0";
  const [head, power] = value.toExponential(digits).split("e");
  return `${head.includes(".") ? head.replace(/\.?0+$/, "") : head}e${Number(power)}`;
}
