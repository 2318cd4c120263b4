import assert from "node:assert/strict";
import { test } from "node:test";
import { buildAxis, listCategories, moveKey, toRange, toStretches } from "../../quintain/server/page/axes.js";
import { applyBrush, describeRange, isWithin, readBrush, setRange, writeBrush } from "../../quintain/server/page/brush.js";

const COLUMN = { key: "k", label: "k" };
const near = (a, b) => assert.ok(Math.abs(a - b) < 1e-6, `${a} ${b}`);

test("a logarithmic axis places powers evenly, and what has no logarithm is missing", () => {
  const axis = buildAxis(COLUMN, Float64Array.of(1e-4, 1e-2, 1, 0, NaN, Infinity), { kind: "log" });
  [0, 0.5, 1].forEach((place, i) => near(axis.places[i], place));
  assert.equal(axis.numMissing, 3);
  assert.deepEqual(axis.ticks.map((tick) => tick.text), ["1e-4", "0.001", "0.01", "0.1", "1"]);
  assert.equal(buildAxis(COLUMN, Float64Array.of(-1, 0), { kind: "log" }).isLog, false);
});

test("an axis says the values of its ends, and no tick beside them", () => {
  const ends = (values, kind) => buildAxis(COLUMN, Float64Array.from(values), { kind }).ticks.map(({ place, text }) => [Number(place.toFixed(2)), text]);
  assert.deepEqual(ends([0.123, 1.02], "double"), [[0, "0.123"], [0.09, "0.2"], [0.31, "0.4"], [0.53, "0.6"], [0.75, "0.8"], [1, "1.02"]]);
  assert.deepEqual(ends([3e-5, 0.02], "log").at(0), [0, "3e-5"]);
});

test("whole numbers have whole ticks", () => {
  assert.deepEqual(buildAxis(COLUMN, Float64Array.of(1, 3), { kind: "int" }).ticks.map((tick) => tick.text), ["1", "2", "3"]);
});

test("categories stand in order, numbers among them by size", () => {
  assert.deepEqual(listCategories(["b", "", "a", "b"]), ["a", "b"]);
  assert.deepEqual(listCategories(Float64Array.of(128, 32, NaN, 64)), ["32", "64", "128"]);
  const axis = buildAxis(COLUMN, ["sgd", "adam", ""]);
  near(axis.places[0], 0.75);
  near(axis.places[1], 0.25);
  assert.equal(axis.numMissing, 1);
});

test("an axis of one value or none can be drawn", () => {
  near(buildAxis(COLUMN, Float64Array.of(3, 3)).places[0], 0.5);
  const textOf = (value, kind) => buildAxis(COLUMN, Float64Array.of(value), { kind }).ticks.map((tick) => tick.text);
  assert.deepEqual([textOf(0.92431, "double"), textOf(0.003102, "log"), textOf(-2, "int"), textOf(0, "double")], [["0.9243"], ["0.003102"], ["-2"], ["0"]]);
  assert.equal(buildAxis(COLUMN, Float64Array.of(NaN)).ticks.length, 0);
  assert.equal(buildAxis(COLUMN, [""]).categories.length, 0);
});

test("a brush to the end of an axis keeps the last value", () => {
  const values = Float64Array.of(0.1, 0.7, 0.3);
  for (const kind of ["double", "log"]) {
    const axis = buildAxis(COLUMN, values, { kind });
    assert.deepEqual(toRange(axis, -0.2, 1.3), [0.1, 0.7]);
    const [stretch] = toStretches(axis, toRange(axis, 0.8, 0.4));
    near(stretch[0], 0.4);
    near(stretch[1], 0.8);
  }
});

test("a brush over categories keeps those that it touches", () => {
  const axis = buildAxis(COLUMN, ["a", "b", "c"]);
  assert.deepEqual(toRange(axis, 0.1, 0.4), new Set(["a", "b"]));
  assert.equal(toRange(axis, 1.2, 1.3), null);
  assert.deepEqual(toStretches(axis, new Set(["c"])), [[2 / 3, 1]]);
});

test("brushes filter by all of their ranges", () => {
  const columns = { lr: Float64Array.of(0.1, 0.2, 0.3, NaN), name: ["a", "b", "b", ""] };
  const data = { get: (key) => columns[key] };
  const rows = Int32Array.of(0, 1, 2, 3);
  assert.deepEqual([...applyBrush(data, rows, { lr: [0.2, 1] })], [1, 2]);
  assert.deepEqual([...applyBrush(data, rows, { lr: [0, 0.2], name: new Set(["b"]) })], [1]);
  assert.deepEqual([...applyBrush(data, rows, { lr: new Set([""]) })], [3]);
  assert.deepEqual([...applyBrush(data, rows, { unknown: [0, 1] })], [0, 1, 2, 3]);
  assert.equal(isWithin(NaN, [0, 1]), false);
});

test("a brush comes back from its link, and what is no brush is left out", () => {
  const brush = { lr: [1e-5, 0.1], "a,b": new Set(["x", ""]) };
  assert.deepEqual(readBrush(writeBrush(brush)), brush);
  assert.equal(writeBrush({}), "");
  for (const text of [undefined, "{", "null", "3", '{"a": [1]}', '{"a": ["x", "y"]}', '{"a": {"in": 3}}']) assert.deepEqual(readBrush(text), {});
  assert.deepEqual(setRange(brush, "lr", null), { "a,b": new Set(["x", ""]) });
  assert.deepEqual([describeRange([0.1, 20]), describeRange(new Set(["a", ""]))], ["0.1 to 20", "a, missing"]);
});

test("an axis moves to its new place", () => {
  assert.deepEqual(moveKey(["a", "b", "c"], "a", 1), ["b", "a", "c"]);
  assert.deepEqual(moveKey(["a", "b", "c"], "c", -1), ["c", "a", "b"]);
  assert.deepEqual(moveKey(["a", "b", "c"], "a", 9), ["b", "c", "a"]);
});
