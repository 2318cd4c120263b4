// @ts-check
// Spaces and values of hyperparameters by dotted path.

/** @typedef {{path: string, kind: "const"|"double"|"log"|"int"|"categorical", min: number, max: number, vals: unknown[]}} Hparam */

const KINDS = new Set(["const", "double", "log", "int", "categorical"]);

/** Returns the hyperparameters of a config's space, in its order; bounds of `log` are the values themselves.
 * @param {unknown} space @param {string} [prefix] @returns {Hparam[]} */
export function readSpace(space, prefix = "") {
  if (!isMapping(space)) return [];
  return Object.entries(space).flatMap(([name, leaf]) => {
    const path = prefix + name;
    if (isMapping(leaf) && !KINDS.has(/** @type {string} */ (leaf.type))) return readSpace(leaf, path + ".");
    return [toHparam(path, isMapping(leaf) ? leaf : { type: "const", val: leaf })];
  });
}

/** Returns values by dotted path.
 * @param {unknown} hparams @param {string} [prefix] @returns {Record<string, unknown>} */
export function flatten(hparams, prefix = "") {
  if (!isMapping(hparams)) return {};
  return Object.assign({}, ...Object.entries(hparams).map(([name, value]) =>
    isMapping(value) ? flatten(value, prefix + name + ".") : { [prefix + name]: value }));
}

/** Returns for each path its shortest end that is no end of another one, and none of the taken names.
 * @param {string[]} paths @param {Set<string>} [taken] @returns {Map<string, string>} */
export function shortenPaths(paths, taken = new Set()) {
  /** @type {Map<string, number>} */
  const counts = new Map();
  for (const path of paths) for (const end of listEnds(path)) counts.set(end, (counts.get(end) ?? 0) + 1);
  return new Map(paths.map((path) => [path, listEnds(path).find((end) => counts.get(end) === 1 && !taken.has(end)) ?? path]));
}

/** Returns `c`, `b.c` and `a.b.c` of `a.b.c`. @param {string} path */
function listEnds(path) {
  const parts = path.split(".");
  return parts.map((_, at) => parts.slice(parts.length - 1 - at).join("."));
}

/** @param {string} path @param {Record<string, any>} leaf @returns {Hparam} */
function toHparam(path, leaf) {
  // Rounded, as 10 ** -4 is 0.00009999999999999999 in some browsers.
  const power = (/** @type {number} */ bound) =>
    leaf.type === "log" ? Number(((leaf.base ?? 10) ** bound).toPrecision(15)) : bound;
  const vals = leaf.type === "const" ? [leaf.val] : leaf.vals ?? [];
  return { path, kind: leaf.type, min: power(leaf.minval ?? NaN), max: power(leaf.maxval ?? NaN), vals };
}

/** @param {unknown} value @returns {value is Record<string, any>} */
function isMapping(value) {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
