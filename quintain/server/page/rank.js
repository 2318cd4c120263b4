// @ts-check
/** Which trials come first by a metric. Pure. */

/**
 * Returns the rows from the best to the worst; those without a finite value last.
 * @param {ArrayLike<number>} values  Of all rows.
 * @param {ArrayLike<number>} rows
 * @param {boolean | null} isSmallerBetter
 * @returns {number[]}
 */
export function sortByMetric(values, rows, isSmallerBetter) {
  const sign = isSmallerBetter ? 1 : -1;
  const key = (/** @type {number} */ row) => (Number.isFinite(values[row]) ? sign * values[row] : Infinity);
  return Array.from(rows).sort((a, b) => (key(a) === key(b) ? a - b : key(a) - key(b)));
}

/**
 * Returns the rank of each row by its value, from 1; equal values have their mean rank, NaN has none.
 * @param {ArrayLike<number>} values
 * @param {ArrayLike<number>} rows
 * @returns {Float64Array}  As long as `values`; NaN for other rows.
 */
export function findRanks(values, rows) {
  const ranks = new Float64Array(values.length).fill(NaN);
  const ordered = Array.from(rows).filter((row) => !Number.isNaN(values[row])).sort((a, b) => values[a] - values[b] || 0);
  for (let start = 0; start < ordered.length; ) {
    let end = start;
    while (end < ordered.length && values[ordered[end]] === values[ordered[start]]) end++;
    for (let i = start; i < end; i++) ranks[ordered[i]] = (start + end + 1) / 2;
    start = end;
  }
  return ranks;
}

/**
 * Returns the row of the best finite value, or -1 if there is none.
 * @param {ArrayLike<number>} values
 * @param {boolean | null} isSmallerBetter
 */
export function findBestRow(values, isSmallerBetter) {
  let best = -1;
  for (let row = 0; row < values.length; row++) {
    if (!Number.isFinite(values[row])) continue;
    if (best < 0 || (isSmallerBetter ? values[row] < values[best] : values[row] > values[best])) best = row;
  }
  return best;
}

/**
 * Returns the best value that there was at each time, as steps.
 * @param {Float64Array} times  Of each row, when its value was there.
 * @param {Float64Array} values
 * @param {boolean | null} isSmallerBetter
 * @returns {{x: Float64Array, y: Float64Array}}
 */
export function bestSoFar(times, values, isSmallerBetter) {
  const rows = Array.from(times, (_, row) => row).filter((row) => Number.isFinite(times[row]) && Number.isFinite(values[row]));
  rows.sort((a, b) => times[a] - times[b]);
  /** @type {number[]} */
  const x = [];
  /** @type {number[]} */
  const y = [];
  rows.forEach((row, i) => {
    const best = y[y.length - 1];
    const isBetter = i === 0 || (isSmallerBetter ? values[row] < best : values[row] > best);
    if (!isBetter && i < rows.length - 1) return;
    if (i > 0) {
      x.push(times[row]);
      y.push(best);
    }
    if (isBetter) {
      x.push(times[row]);
      y.push(values[row]);
    }
  });
  return { x: Float64Array.from(x), y: Float64Array.from(y) };
}
