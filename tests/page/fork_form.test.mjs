// The forms of a fork and of a continuation, without their page.
import assert from "node:assert/strict";
import { test } from "node:test";
import { findLeaves, fromYaml, readLines, splitProblems } from "../../quintain/server/page/fork_form.js";

test("only values that an override can name have fields", () => {
  assert.deepEqual(findLeaves({ a: { b: 1, "c-d": 2 }, e: [1] }, "s"), [{ path: "s.a.b", value: 1 }, { path: "s.e", value: [1] }]);
});

test("lines of changes are read, and a line that is none is no change", () => {
  assert.deepEqual(readLines(" name=\"a=b\" \n\nsearcher.max_trials=8"), { name: '"a=b"', "searcher.max_trials": "8" });
  assert.equal(readLines("name"), null);
});

test("a field shows what a line changes", () => {
  assert.deepEqual([fromYaml('"a \\"b"', "x"), fromYaml("plain", "x"), fromYaml("[1, 2]", []), fromYaml("null", null), fromYaml("8", 4)], ['a "b', "plain", "1, 2", "", "8"]);
});

test("problems stand at their fields, and the others below", () => {
  assert.deepEqual(splitProblems("2 problems:\na.b: got 3\nall is lost", ["a.b"]), { at: { "a.b": "got 3" }, rest: "all is lost" });
});
