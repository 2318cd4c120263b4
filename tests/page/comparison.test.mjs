import assert from "node:assert/strict";
import { test } from "node:test";
import {
  averageLines, describeGroup, findSpread, groupBySettings, interpolate, joinCurves, listDifferences, listDifferingPaths, listGroups,
} from "../../quintain/server/page/comparison.js";
import { number } from "../../quintain/server/page/format.js";
import { bestSoFar, findBestRow, findRanks, sortByMetric } from "../../quintain/server/page/rank.js";

const values = { lr: Float64Array.of(0.1, 0.1, 0.2, NaN, NaN), name: ["a", "a", "a", "", ""], seed: Float64Array.of(1, 2, 3, 4, 5) };
const data = {
  columns: [{ key: "lr", label: "lr", source: "hparam" }, { key: "name", label: "name", source: "hparam" }, { key: "seed", label: "seed", source: "trial" }],
  get: (key) => values[key],
};

test("only settings that differ are listed; missing is a value too", () => {
  assert.deepEqual(listDifferences(data, [0, 1]), []);
  assert.deepEqual(listDifferences(data, [0, 2]).map((column) => column.key), ["lr"]);
  assert.deepEqual(listDifferences(data, [0, 3]).map((column) => column.key), ["lr", "name"]);
  assert.deepEqual(listDifferences(data, [3, 4]), []);
});

test("trials that differ in the seed only are one group", () => {
  assert.deepEqual(groupBySettings(data, [0, 1, 2, 3, 4]), [[0, 1], [2], [3, 4]]);
  assert.deepEqual(groupBySettings(data, [2, 0, 1]), [[2], [0, 1]]);
});

test("a group is one curve with a band, and says mean and deviation of metrics, and what differs of the rest", () => {
  const kinds = { acc: { kind: "number", source: "metric" }, seed: { kind: "number", source: "trial" } };
  const known = { acc: [0.5, 0.7, NaN], seed: [1, 2, 2] };
  const table = { ...data, ids: [11, 12, 13], column: (key) => kinds[key], get: (key) => known[key], value: (key, row) => known[key][row], write: (key, value, digits) => number(value, digits) };
  assert.deepEqual(["acc", "seed"].map((key) => describeGroup(table, key, [0, 1])), ["0.6 ± 0.14", "1, 2"]);
  assert.deepEqual([[0, 1, 2], [0, 2], [2, 2]].map((rows) => describeGroup(table, "acc", rows)), ["0.6 ± 0.14 (2)", "0.5 ± – (1)", "–"]);
  assert.deepEqual(listGroups({ ...data, ids: [11, 12, 13] }, [1, 0, 2], true).map(({ name, id }) => [name, id]), [["2 seeds: trials 11, 12", 11], ["Trial 13", 13]]);
  const line = (...y) => ({ x: Float64Array.of(1, 2), y: Float64Array.from(y) });
  assert.equal(joinCurves([line(1, 2)]).band, undefined);
  const { y, band } = joinCurves([line(1, 2), line(1, 4)]);
  assert.deepEqual([[...y], [...band.lo], [...band.hi]], [[1, 3], [1, 3 - Math.SQRT2], [1, 3 + Math.SQRT2]]);
});

test("the spread is of the finite values, with their number", () => {
  assert.deepEqual(findSpread([2, 4, NaN]), { mean: 3, deviation: Math.SQRT2, count: 2 });
  assert.deepEqual(findSpread([7]), { mean: 7, deviation: NaN, count: 1 });
  assert.equal(findSpread([]).count, 0);
  assert.ok(Number.isNaN(findSpread([NaN]).mean));
  assert.equal(findSpread([1.7e308, 1.7e308]).mean, 1.7e308);
});

test("curves of other points are averaged where both are", () => {
  const line = (x, y) => ({ x: Float64Array.from(x), y: Float64Array.from(y) });
  const average = averageLines([line([0, 10], [0, 10]), line([5, 20], [7, 7])]);
  assert.deepEqual([...average.x], [0, 5, 10, 20]);
  assert.deepEqual([...average.mean], [0, 6, 8.5, 7]);
  assert.deepEqual([...average.count], [1, 2, 2, 1]);
  assert.ok(Number.isNaN(average.deviation[0]) && average.deviation[1] > 0);
  assert.ok(Number.isNaN(interpolate(line([0, 1], [0, 1]), 1.5)));
});

test("settings of experiments differ if one has them and another has not", () => {
  assert.deepEqual(listDifferingPaths([{ a: 1, b: [1], c: null }, { a: 1, b: [2] }]), ["b", "c"]);
});

test("the best come first, and what is not finite last", () => {
  const metric = Float64Array.of(0.5, NaN, 0.9, -Infinity, 0.5);
  assert.deepEqual(sortByMetric(metric, [0, 1, 2, 3, 4], false), [2, 0, 4, 1, 3]);
  assert.deepEqual(sortByMetric(metric, [0, 1, 2, 3, 4], true), [0, 4, 2, 1, 3]);
  assert.equal(findBestRow(metric, true), 0);
  assert.equal(findBestRow(Float64Array.of(NaN), true), -1);
});

test("equal values share their rank", () => {
  assert.deepEqual([...findRanks(Float64Array.of(3, 1, 3, NaN, 9), [0, 1, 2, 3])], [2.5, 1, 2.5, NaN, NaN]);
});

test("the best so far goes in steps to the last trial", () => {
  const { x, y } = bestSoFar(Float64Array.of(30, 10, 20, NaN), Float64Array.of(0.1, 0.5, 0.7, 0), true);
  assert.deepEqual([...x], [10, 30, 30]);
  assert.deepEqual([...y], [0.5, 0.5, 0.1]);
  assert.deepEqual([...bestSoFar(Float64Array.of(1, 2), Float64Array.of(5, 9), true).y], [5, 5]);
});
