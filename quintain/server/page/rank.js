// @ts-check
/** Which trials come first by a metric. Pure. */

/**
 * Returns the rows from the best to the worst; those without a finite value last.
 * @param {ArrayLike<number>} values  Of all rows.
 * @param {ArrayLike<number>} rows
 * @param {boolean} isSmallerBetter
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
