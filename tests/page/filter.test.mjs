// The page's filter means what `quintain/records/views/trial_filter.py` means: both are held to the same vectors.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { findName, parseFilter, shortenName } from "../../quintain/server/page/filter.js";

const VECTORS = JSON.parse(readFileSync(new URL("filter_vectors.json", import.meta.url), "utf8"));

let row = {};
for (const [at, vector] of VECTORS.entries()) {
  row = vector.row ?? row;
  const values = row;
  test(`vector ${at}: ${vector.where.slice(0, 60)}`, () => {
    const run = () => parseFilter(vector.where, Object.keys(values))((key) => values[key]);
    if (vector.error === undefined) return assert.equal(run(), vector.result);
    return assert.throws(run, (error) => error.message.includes(vector.error));
  });
}

test("names of everything that objects inherit are unknown", () => {
  assert.throws(() => parseFilter("constructor > 1", ["id"]), /got 'constructor'/);
  assert.equal(findName("toString", new Set(["id"])), null);
  assert.equal(parseFilter("id == constructor", ["id"])(() => "constructor"), true);
});

test("short names lead back to full ones", () => {
  const known = new Set(["hparams.lr", "validation/accuracy.best", "training/loss.last"]);
  assert.deepEqual([...known].map((name) => findName(shortenName(name), known)), [...known]);
});
