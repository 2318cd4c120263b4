import assert from "node:assert/strict";
import test from "node:test";

import { RunRecords, findDifferences, flatten, groupMetrics, groupRuns, readValues, sortRows, sourceOf } from "../../quintain/server/page/run_data.js";

const columns = (steps, metrics = {}, times = steps.map((step) => 1000 + step)) => ({ steps, times, metrics });
const answer = (training, evaluations, more = {}) => ({
  cursor: "1.1", is_reset: true, is_thinned: false, state: "running", training, evaluations: evaluations ?? columns([]), ...more,
});

test("new records are appended, and metrics that come later begin later", () => {
  const records = new RunRecords();
  assert.equal(records.take(answer(columns([10, 20], { loss: [3, 2] }))), true);
  const isNew = records.take(answer(columns([30], { bleu: [5] }), columns([30], { validation_loss: [4] }, [null]), { is_reset: false, cursor: "2.2" }));

  assert.equal(isNew, true);
  assert.equal(records.cursor, "2.2");
  assert.deepEqual(records.line("loss"), { kind: "training", steps: [10, 20], times: [0, 10], values: [3, 2] });
  assert.deepEqual(records.line("bleu"), { kind: "training", steps: [30], times: [20], values: [5] });
  assert.deepEqual(records.line("validation_loss"), { kind: "evaluation", steps: [30], times: [20], values: [4] });
  assert.equal(records.line("nothing"), null);
});

test("an answer without anything new changes nothing", () => {
  const records = new RunRecords();
  records.take(answer(columns([10], { loss: [3] })));
  const { version } = records;

  assert.equal(records.take(answer(columns([]), columns([]), { is_reset: false })), false);
  assert.equal(records.version, version);
  assert.equal(records.take(answer(columns([]), columns([]), { is_reset: false, state: "ended" })), true);
});

test("a run that was thrown back begins anew", () => {
  const records = new RunRecords();
  records.take(answer(columns([10, 20, 30], { loss: [3, 2, 1] }), columns([30], { validation_loss: [1] })));
  records.take(answer(columns([10], { loss: [3] })));

  assert.deepEqual(records.line("loss").steps, [10]);
  assert.equal(records.line("validation_loss"), null);
});

test("numbers that JSON has not are gaps, missing ones are not there", () => {
  const records = new RunRecords();
  records.take(answer(columns([1, 2, 3], { loss: ["NaN", null, "Infinity"] })));

  assert.deepEqual(records.line("loss").steps, [1, 3]);
  assert.deepEqual(records.line("loss").values, [NaN, Infinity]);
});

test("metrics of training and evaluation share a chart; those about speed come last", () => {
  const charts = groupMetrics(["step_ms", "training_loss", "bleu_score", "validation_loss", "a|training_loss", "tokens_per_second"]);

  assert.deepEqual(charts.map(({ title, names }) => [title, names.length]), [
    ["a|loss", 1], ["loss", 2], ["bleu_score", 1], ["step_ms", 1], ["tokens_per_second", 1],
  ]);
  assert.deepEqual(charts.map((chart) => chart.isAboutSpeed), [false, false, false, true, true]);
});

test("settings are compared leaf by leaf", () => {
  const first = { task: { width: 8, names: ["a"], empty: {} }, seed: 1, nan: null };
  const second = { task: { width: 16, names: ["a"], empty: {} }, nan: null };

  assert.deepEqual([...flatten(first)], [["task.width", 8], ["task.names", ["a"]], ["task.empty", {}], ["seed", 1], ["nan", null]]);
  assert.deepEqual(findDifferences([first, second]), [["task.width", [8, 16]], ["seed", [1, undefined]]]);
  assert.deepEqual(findDifferences([first]), []);
});

test("a field inside of what was set has its source", () => {
  const sources = { "task.data": "a.yaml:3", "task.data.path": "--set", "list[0]": "b.yaml:1" };

  assert.equal(sourceOf(sources, "task.data.path"), "--set");
  assert.equal(sourceOf(sources, "task.data.size"), "a.yaml:3");
  assert.equal(sourceOf(sources, "list[0].x"), "b.yaml:1");
  assert.equal(sourceOf(sources, "toString"), "");
});

test("rows without a value come last in both orders", () => {
  const rows = [{ v: NaN }, { v: 2 }, { v: undefined }, { v: 10 }];
  const order = (isDescending) => sortRows(rows, (row) => row.v, isDescending).map((row) => row.v);

  assert.deepEqual(order(false), [2, 10, NaN, undefined]);
  assert.deepEqual(order(true), [10, 2, NaN, undefined]);
});

test("runs show the smallest loss of evaluations, the last of other metrics, or what is chosen", () => {
  const run = { metrics: { validation_loss: 3, bleu: 20, training_loss: "NaN" }, ranges: { validation_loss: [1, 4], bleu: [10, 30] } };
  const show = (text) => ["validation_loss", "bleu", "training_loss", "gone"].map((name) => readValues([run], text)(run, name));
  assert.deepEqual(show(""), [1, 20, NaN, undefined]);
  assert.deepEqual(show("validation_loss:last,bleu:max"), [3, 30, NaN, undefined]);
});

test("runs of equal settings are grouped unless a link says no; those of unknown settings stand alone", () => {
  const runs = [["a", "1"], ["b", ""], ["c", "1"], ["d", ""]].map(([name, id]) => ({ name, settings_id: id }));
  const names = (query) => groupRuns(runs, query).groups.map((group) => group.map((run) => run.name).join(""));
  assert.deepEqual(names({}), ["ac", "b", "d"]);
  assert.deepEqual([names({ seeds: "0" }), groupRuns(runs, { seeds: "0" }).isSeeded], [["a", "b", "c", "d"], true]);
  assert.equal(groupRuns(runs.slice(0, 2), {}).isSeeded, false);
});
