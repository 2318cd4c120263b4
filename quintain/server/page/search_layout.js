// @ts-check
// Rungs of a search, and who descends from whom. No drawing here.

/** @typedef {"promoted" | "stopped" | "waiting" | "running" | "done"} Outcome */
/** @typedef {{id: number, metric: number | null, outcome: Outcome}} Entry */

/** Returns the trials of a rung, the best first; those without a number last.
 * @param {[number, number | string | null, Outcome][]} trials @param {boolean} smallerIsBetter @returns {Entry[]} */
export function sortRung(trials, smallerIsBetter) {
  const sign = smallerIsBetter ? 1 : -1;
  const entries = trials.map(([id, metric, outcome]) => ({ id, metric: metric === null ? null : Number(metric), outcome }));
  const isBad = (/** @type {number | null} */ value) => value === null || Number.isNaN(value);
  return entries.sort((a, b) => {
    if (isBad(a.metric) || isBad(b.metric)) return Number(isBad(a.metric)) - Number(isBad(b.metric)) || a.id - b.id;
    return sign * (/** @type {number} */ (a.metric) - /** @type {number} */ (b.metric)) || a.id - b.id;
  });
}

/** Returns how many trials of a rung came to what. @param {Entry[]} entries @returns {Record<Outcome, number>} */
export function countOutcomes(entries) {
  const counts = { promoted: 0, done: 0, waiting: 0, running: 0, stopped: 0 };
  for (const { outcome } of entries) counts[outcome] += 1;
  return counts;
}

/** @typedef {{id: number, parent: number | null, generation: number, row: number}} Node */

/** Returns where trials stand in a tree: parents left of children, and no lines that cross within a family.
 * @param {[number, number][]} lineage pairs of child and parent @param {number[]} ids all trials @returns {Node[]} */
export function layOutTree(lineage, ids) {
  const parents = new Map(lineage.map(([child, parent]) => [child, parent]));
  /** @type {Map<number, number[]>} */
  const children = new Map();
  for (const [child, parent] of [...parents].sort(([a], [b]) => a - b)) children.set(parent, [...(children.get(parent) ?? []), child]);
  const all = [...new Set([...ids, ...lineage.flat()])].sort((a, b) => a - b);
  /** @type {Node[]} */
  const nodes = [];
  const seen = new Set();
  let row = 0;
  // With a list of what is to do instead of recursion: a family may be thousands deep.
  for (const root of all.filter((id) => !parents.has(id))) {
    /** @type {[number, number | null, number, boolean][]} */
    const todo = [[root, null, 0, true]];
    while (todo.length) {
      const [id, parent, generation, isFirst] = /** @type {[number, number | null, number, boolean]} */ (todo.pop());
      if (seen.has(id)) continue;
      seen.add(id);
      if (!isFirst) row += 1;
      nodes.push({ id, parent, generation, row });
      // The first child stands beside its parent, the others below.
      (children.get(id) ?? []).map((child, at) => /** @type {[number, number, number, boolean]} */ ([child, id, generation + 1, at === 0]))
        .reverse().forEach((one) => todo.push(one));
    }
    row += 1;
  }
  return nodes;
}
