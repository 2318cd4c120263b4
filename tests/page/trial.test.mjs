// The logic of a trial's page: lines of logs, slots over time, rungs, configs, settings.
import assert from "node:assert/strict";
import { test } from "node:test";
import { findChanges } from "../../quintain/server/page/action_forms.js";
import { clean, joinLines, levelOf, shorten, splitFound, toBlocks } from "../../quintain/server/page/log_lines.js";
import { countOutcomes, layOutTree, sortRung } from "../../quintain/server/page/search_layout.js";
import { findRange, listSlots, measureUse, toSpans } from "../../quintain/server/page/timeline_layout.js";
import { findBatches } from "../../quintain/server/page/trial_charts.js";
import { TrialData } from "../../quintain/server/page/trial_data.js";
import { toYaml } from "../../quintain/server/page/yaml_text.js";

const line = (id) => ({ id, trial_id: 1, time: id, source: "stdout", text: `line ${id}` });
const ids = (lines) => lines.map((one) => one.id);

test("what would steer a terminal or reorder a line is shown", () => {
  assert.equal(clean("\x1b[31;1mred\x1b[0m \x1b]0;title\x07 \u202eabc\u2066\r\n<b>"), "red \\x1b]0;title\\x07 \\u202eabc\\u2066\\x0d\n<b>");
  assert.equal(clean("a\tä 😀"), "a\tä 😀");
});

test("a long line is cut, but no character of it", () => {
  assert.equal(shorten("abc", 3), "abc");
  assert.equal(shorten("ab😀d", 3), "ab");
  assert.equal(shorten("x".repeat(1e6)).length, 2000);
});

test("words tell how grave a line is", () => {
  const levels = ["ValueError: no", "Traceback (most recent call last):", "UserWarning: old", "WARN x", "onerror=1 mean_absolute_error: 2", "E0102 03:04:05 x"].map(levelOf);
  assert.deepEqual(levels, ["error", "error", "warning", "warning", "info", "error"]);
});

test("what a search finds stands at odd places", () => {
  assert.deepEqual(splitFound("abcabc", "b"), ["a", "b", "ca", "b", "c"]);
  assert.deepEqual(splitFound("abc", ""), ["abc"]);
});

test("pages of lines are joined in order, each line once", () => {
  assert.deepEqual(ids(joinLines([line(3), line(4)], [line(5)])), [3, 4, 5]);
  assert.deepEqual(ids(joinLines([line(1), line(2)], [line(3)])), [1, 2, 3]);
  assert.deepEqual(ids(joinLines([line(3), line(4)], [line(1)])), [1, 3, 4]);
  assert.deepEqual(ids(joinLines([line(3), line(4)], [line(4), line(5)])), [3, 4, 5]);
});

test("blocks of lines keep their borders when lines come before them", () => {
  const before = toBlocks([line(150), line(201)], 100);
  const after = toBlocks([line(90), line(150), line(201)], 100);
  assert.deepEqual(after.map((block) => block.key), [0, 1, 2]);
  assert.deepEqual(after.slice(1), before);
});

test("the use of slots is measured within what is seen", () => {
  const spans = toSpans([[0, 1, 1, 100, 110], [1, 2, 1, 100, null], [0, 3, 1, 115, 120], [7, 4, 2, 100, 101]]);
  assert.deepEqual(listSlots([{ id: 0 }, { id: 1 }, { id: 2 }], spans), [0, 1, 2, 7]);
  const use = measureUse([0, 1, 2], spans, { from: 100, to: 120 }, 120);
  assert.deepEqual(use.map(({ share, numSpans, trial }) => [share, numSpans, trial]), [[0.75, 2, null], [1, 1, 2], [0, 0, null]]);
});

test("a clock that was set back leaves a range that goes forward", () => {
  const spans = toSpans([[0, 1, 1, 500, 600], [0, 2, 1, 90, null]]);
  assert.deepEqual(findRange(spans, 100), { from: 90, to: 600 });
  assert.deepEqual(findRange([], 5000), { from: 1400, to: 5000 });
});

test("a rung lists the best first and those without a number last", () => {
  const rung = [[1, 0.5, "stopped"], [2, null, "running"], [3, 0.9, "promoted"], [4, "NaN", "stopped"]];
  assert.deepEqual(ids(sortRung(rung, false)), [3, 1, 2, 4]);
  assert.deepEqual(ids(sortRung(rung, true)), [1, 3, 2, 4]);
  assert.equal(countOutcomes(sortRung(rung, true)).stopped, 2);
});

test("children stand right of their parents, families below each other", () => {
  const nodes = layOutTree([[3, 1], [4, 1], [5, 3], [2, 9]], [1, 2, 3, 4, 5, 6]);
  const places = Object.fromEntries(nodes.map(({ id, generation, row }) => [id, [generation, row]]));
  assert.deepEqual(places, { 1: [0, 0], 3: [1, 0], 5: [2, 0], 4: [1, 1], 6: [0, 2], 9: [0, 3], 2: [1, 3] });
});

test("a family of ten thousand generations is laid out", () => {
  const lineage = Array.from({ length: 10000 }, (_, at) => [at + 2, at + 1]);
  assert.equal(layOutTree(lineage, []).at(-1).generation, 10000);
});

test("plain data becomes YAML that reads back", () => {
  const config = { name: "yes", "a b": [1, [2, { x: null }], {}], empty: [], text: "a: b\n", deep: { rate: 0.1, on: true }, path: "model_def:Digits" };
  assert.equal(toYaml(config), `name: "yes"
a b:
  - 1
  - - 2
    - x: null
  - {}
empty: []
text: "a: b\\n"
deep:
  rate: 0.1
  "on": true
path: "model_def:Digits"
`);
});

test("only settings that were changed are sent", () => {
  const experiment = { description: "d", labels: ["b", "a"], config: { searcher: { max_trials: 4 }, resources: { priority: null, max_slots: 2, weight: 1 } } };
  const fields = { description: "d", labels: "a, b", priority: "", max_slots: "2", weight: "1", max_trials: "4" };
  assert.deepEqual(findChanges(experiment, fields), {});
  const changed = { ...fields, description: "", labels: "c,, c", priority: "7", max_slots: "", max_trials: "8" };
  assert.deepEqual(findChanges(experiment, changed), { description: "", labels: ["c"], priority: 7, max_slots: 0, max_trials: 8 });
});

/** An answer of `/curves` without points. */
function packNames(names) {
  let header = JSON.stringify({ cursor: "abcdefgh-7", curves: names.map((name) => [5, name, 0]) });
  header += " ".repeat((8 - ((4 + header.length) % 8)) % 8);
  const bytes = new Uint8Array(4 + header.length);
  new DataView(bytes.buffer).setUint32(0, header.length, true);
  bytes.set(new TextEncoder().encode(header), 4);
  return bytes.buffer;
}

async function loadTrial(names) {
  const answers = {
    "/trials/5": { id: 5, experiment_id: 1 }, "/trials/5/checkpoints": [{ uuid: "a", total_batches: 10, time: 1, state: "COMPLETED" }],
    "/experiments/1": { id: 1, state: "ACTIVE", config: { searcher: { metric: "val_accuracy" }, hyperparameters: {} } },
  };
  const data = new TrialData(5, { get: async (path) => answers[path], getBuffer: async () => packNames(names) }, () => {});
  await data.load();
  return data;
}

test("training and validation of a metric share a chart, the searched one first", async () => {
  const data = await loadTrial(["training/loss", "training/accuracy", "validation/val_accuracy", "validation/val_loss", "system/cpu_percent"]);
  assert.deepEqual(data.listCharts(), [["accuracy", ["training/accuracy", "validation/val_accuracy"]], ["loss", ["training/loss", "validation/val_loss"]]]);
  assert.deepEqual(data.listSystem(), ["system/cpu_percent"]);
  assert.equal(data.cursor, "abcdefgh-7");
});

test("a range of time is one of batches, up to the points around it", () => {
  const batches = Float64Array.of(10, 20, 30, 40);
  const secs = Float64Array.of(1, 2, 3, 4);
  assert.deepEqual(findBatches(batches, secs, [2.2, 2.8]), [20, 30]);
  assert.deepEqual(findBatches(batches, secs, [2, 3]), [20, 30]);
  assert.deepEqual(findBatches(batches, secs, [0, 9]), [0, 40]);
});

test("changes of a trial are taken over, those of others are not", async () => {
  const data = await loadTrial([]);
  data.applyChanges({ metrics: [[5, "training", 10, 1, { loss: 1 }], [5, "training", 20, 2, { loss: "NaN" }], [6, "training", 10, 1, { loss: 3 }]] });
  assert.deepEqual([...data.curve("training/loss").values], [1, NaN]);
  data.applyChanges({ cuts: [[5, 10]], metrics: [[5, "system", 10, 3, { cpu_percent: 5 }]] });
  assert.deepEqual([...data.curve("training/loss").batches], [10]);
  assert.deepEqual([...data.curve("system/cpu_percent").values], [5]);
  data.applyChanges({ checkpoints: [{ trial_id: 5, uuid: "b", total_batches: 5, time: 2 }, { trial_id: 6, uuid: "c" }], trials: [{ id: 5, state: "COMPLETED" }] });
  assert.deepEqual(data.checkpoints.map((one) => one.uuid), ["b", "a"]);
  assert.equal(data.trial.state, "COMPLETED");
});
