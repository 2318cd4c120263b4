import assert from "node:assert/strict";
import { test } from "node:test";
import { findNearest, lowerBound, orderPoints, replacePart, smooth, thin } from "../../quintain/server/page/series.js";

test("smoothing has no bias at the beginning", () => {
  assert.deepEqual([...smooth([2, 2, 2], 0.9)].map((value) => Number(value.toFixed(9))), [2, 2, 2]);
  const [first, second] = smooth([1, 3], 0.5);
  assert.equal(first, 1);
  assert.ok(Math.abs(second - (0.25 * 1 + 0.5 * 3) / 0.75) < 1e-12);
  assert.deepEqual([...smooth([1, 5], 0)], [1, 5]);
});

test("smoothing passes over what is not finite", () => {
  const smoothed = smooth([1, NaN, Infinity, 1], 0.6);
  assert.ok(Number.isNaN(smoothed[1]));
  assert.equal(smoothed[2], Infinity);
  assert.ok(Math.abs(smoothed[3] - 1) < 1e-12);
});

test("points are drawn in the order of the axis, though a clock jumped", () => {
  const { x, y } = orderPoints([10, 20, 15, NaN, 5], [1, 2, 3, 4, 5]);
  assert.deepEqual([...x], [5, 10, 15, 20]);
  assert.deepEqual([...y], [5, 1, 3, 2]);
  assert.deepEqual([...orderPoints([0, 1, 2], [7, 8, 9], true).x], [1, 2]);
  const ordered = Float64Array.of(1, 2);
  assert.equal(orderPoints(ordered, ordered).x, ordered);
});

test("thinned curves keep their peaks, ends and gaps", () => {
  const x = Float64Array.from({ length: 100000 }, (_, i) => i);
  const y = Float64Array.from(x, (value) => Math.sin(value / 5000));
  y[54321] = 99;
  y[77777] = -99;
  y[11111] = NaN;
  const thinned = thin({ x, y }, 1000);
  assert.ok(thinned.x.length <= 1004);
  for (const place of [0, 54321, 77777, 11111, 99999]) assert.ok(thinned.x.includes(place), String(place));
  assert.deepEqual(thinned.x, Float64Array.from(thinned.x).sort());
});

test("full points take the place of thinned ones", () => {
  const curve = (batches) => ({ batches: Float64Array.from(batches), values: Float64Array.from(batches), times: Float64Array.from(batches) });
  const joined = replacePart(curve([0, 10, 20, 30, 40]), curve([10, 12, 14, 20]));
  assert.deepEqual([...joined.batches], [0, 10, 12, 14, 20, 30, 40]);
  assert.deepEqual([...joined.times], [0, 10, 12, 14, 20, 30, 40]);
  assert.deepEqual([...replacePart(curve([1, 2]), curve([])).batches], [1, 2]);
});

test("the nearest line is found between its points too", () => {
  const line = (x, y) => ({ x: Float64Array.from(x), y: Float64Array.from(y) });
  const view = { toX: (value) => value, toY: (value) => value, toValueX: (px) => px };
  const lines = [line([0, 100], [0, 0]), line([0, 100], [50, 50]), line([40], [20]), line([], [])];
  assert.deepEqual(findNearest(lines, view, 80, 44, 20), { line: 1, point: 1, distance: 6 });
  assert.equal(findNearest(lines, view, 20, 3, 20).point, 0);
  assert.equal(findNearest(lines, view, 41, 21, 5).line, 2);
  assert.equal(findNearest(lines, view, 80, 25, 5), null);
  assert.equal(findNearest([line([0, 50, 100], [0, NaN, 0])], view, 30, 0, 5), null);
});

test("the lower bound is the first place that is not below", () => {
  assert.deepEqual([0, 1, 2, 5, 9].map((value) => lowerBound([1, 2, 2, 5], value)), [0, 0, 1, 3, 4]);
});
