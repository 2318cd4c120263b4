// Addresses: what a link brings back.
import assert from "node:assert/strict";
import { test } from "node:test";
import { formatIds, formatPlace, parseIds, parsePlace } from "../../quintain/server/page/route.js";

test("a place and its address lead to each other", () => {
  const query = { tab: "trials", where: "rate < 1e-3 and name ~ \"ä&=#%\"", sort: "-validation/accuracy" };
  const place = parsePlace(formatPlace("/experiments/1", query));
  assert.deepEqual(place, { path: "/experiments/1", parts: ["experiments", "1"], query });
});

test("settings that say nothing are left out", () => {
  assert.equal(formatPlace("/runs", { a: null, b: undefined, c: "", d: 0 }), "#/runs?d=0");
});

test("a broken address is a place too", () => {
  assert.deepEqual(parsePlace("#/runs/%E0%A4%A?x").parts, ["runs", "%E0%A4%A"]);
  assert.deepEqual(parsePlace(""), { path: "/", parts: [], query: {} });
});

test("ids are written as ranges", () => {
  assert.equal(formatIds([9, 1, 3, 2, 2]), "1-3,9");
  assert.deepEqual(parseIds("1-3,9,x,5-4"), [1, 2, 3, 9]);
  assert.deepEqual(parseIds(undefined), []);
});
