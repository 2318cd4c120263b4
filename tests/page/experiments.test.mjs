import assert from "node:assert/strict";
import { test } from "node:test";
import { arrange } from "../../quintain/server/page/experiments.js";

test("experiments lie below those that they were made from, as far as these are listed", () => {
  const parents = [[9, 3], [8, null], [7, 5], [5, 3], [4, 1], [3, null]];
  const depths = arrange(parents.map(([id, parent_id]) => ({ id, parent_id })));
  assert.deepEqual([...depths].map(([one, depth]) => [one.id, depth]), [[8, 0], [4, 0], [3, 0], [9, 1], [5, 1], [7, 2]]);
});
