// Which trials are shown, in what order, and as CSV.
import assert from "node:assert/strict";
import { test } from "node:test";
import { ColumnArray } from "../../quintain/server/page/column.js";
import { countStates, filterRows, layGroups, sortRows, toCsv } from "../../quintain/server/page/rows.js";

function makeData(columns) {
  const arrays = new Map(Object.entries(columns).map(([key, values]) => [key, new ColumnArray(values.some((value) => typeof value === "string" && value !== "NaN") ? "text" : "number", values)]));
  return {
    arrays, numRows: columns.id.length, ids: arrays.get("id").values, get: (key) => arrays.get(key).values,
    value: (key, row) => arrays.get(key).value(row), outcome: (row) => (row === 3 ? "stopped, rung 0" : arrays.get("state").value(row).toLowerCase()),
  };
}

const DATA = makeData({ id: [1, 2, 3, 4, 5], x: [3, null, "NaN", 1, 3], name: ["b", "B", "a", null, "c,\"d\""], state: ["ACTIVE", "ERROR", "ACTIVE", "COMPLETED", "CANCELED"] });
const ALL = Int32Array.from([0, 1, 2, 3, 4]);

test("NaN comes last and missing values after it, whichever the direction; ties by trial", () => {
  assert.deepEqual([...sortRows(DATA, ALL, "x", false)], [3, 0, 4, 2, 1]);
  assert.deepEqual([...sortRows(DATA, ALL, "x", true)], [0, 4, 3, 2, 1]);
  assert.deepEqual([...sortRows(DATA, ALL, "name", false)], [2, 1, 0, 4, 3]);
});

test("groups stand in the order of their means, and those that are open before their members", () => {
  const groups = [[0, 3], [1], [2, 4]].map((rows) => ({ rows, id: DATA.ids[rows[0]], ids: rows.map((row) => DATA.ids[row]), name: "" }));
  const lay = (key, descending, open = []) => {
    const { rows, heads } = layGroups(DATA, groups, key, descending, new Set(open));
    return [[...rows], [...heads].map(([at, { id }]) => [at, id])];
  };
  assert.deepEqual(lay("x", false), [[0, 2, 1], [[0, 1], [1, 3]]]);
  assert.deepEqual(lay("x", true, [1]), [[2, 0, 0, 3, 1], [[0, 3], [1, 1]]]);
  assert.deepEqual(lay("name", false)[0], [2, 1, 0]);
});

test("rows are chosen by state and by trial", () => {
  assert.deepEqual([...filterRows(DATA, new Set(["ACTIVE"]), null)], [0, 2]);
  assert.deepEqual([...filterRows(DATA, new Set(["STOPPED"]), null)], [3]);
  assert.deepEqual(countStates(DATA), { ACTIVE: 2, ERROR: 1, STOPPED: 1, CANCELED: 1 });
  assert.deepEqual([...filterRows(DATA, new Set(), new Set([1, 5, 9]))], [0, 4]);
});

test("CSV has numbers in full, quotes what needs it, and no formulas", () => {
  const data = makeData({ id: [1, 2], x: [0.1 + 0.2, "NaN"], name: ["=1+1", 'a,"b"'] });
  assert.equal(toCsv(data, Int32Array.from([1, 0]), ["id", "x", "name"]), 'id,x,name\r\n2,NaN,"a,""b"""\r\n1,0.30000000000000004,\'=1+1\r\n');
});
