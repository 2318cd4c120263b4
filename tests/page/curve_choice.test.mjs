import assert from "node:assert/strict";
import { test } from "node:test";
import { chartOf, chooseRows, findEpochs, groupMetrics, readAxes, readNames, readParts, readRange, readSettings, toAxis, writeNames, writeParts, writeRange } from "../../quintain/server/page/curve_choice.js";

const columns = { "validation/loss": Float64Array.of(0.3, NaN, 0.1, 0.2), "hparams.global_batch_size": Float64Array.of(32, 32, 64, 64) };
const data = {
  numRows: 4,
  metricNames: ["training/loss", "validation/loss", "validation/accuracy"],
  searchedMetric: "validation/loss",
  experiment: { config: { records_per_epoch: 640 } },
  isSmallerBetter: () => true,
  get: (key) => columns[key],
  column: (key) => columns[key] && { key },
  rowOf: (id) => id - 1,
};

test("the searched metric is shown first, with the same one of training", () => {
  assert.deepEqual(readSettings({}, data).metrics, ["training/loss", "validation/loss"]);
  assert.deepEqual(readSettings({ metrics: "gone,validation/accuracy" }, data).metrics, ["validation/accuracy"]);
});

test("settings of a link that make no sense are left out", () => {
  const { x, show, k, smoothing, range } = readSettings({ x: "moon", show: "", k: "-3", smooth: "7", range: "1:2" }, data);
  assert.deepEqual([x, show, k, smoothing, range], ["batches", "visible", 1, 0.99, null]);
});

test("all pages with curves read their axes alike", () => {
  assert.deepEqual(readAxes({}, ["step", "relative"]), { x: "step", smoothing: 0, xLog: false, yLog: false });
  assert.deepEqual(readAxes({ x: "relative", smooth: "0.5", ylog: "1" }, ["step", "relative"]), { x: "relative", smoothing: 0.5, xLog: false, yLog: true });
});

test("values of metrics come back from a link, and others are left out", () => {
  const parts = { "validation/a,b:c": "last", "training/loss": "max" };
  assert.deepEqual(readParts(writeParts(parts)), parts);
  assert.deepEqual(readParts("loss:median,loss"), {});
});

test("names and ranges come back from a link", () => {
  const names = ["validation/a,b", "training/50%", "plain"];
  assert.deepEqual(readNames(writeNames(names)), names);
  assert.deepEqual(readNames("%"), ["%"]);
  assert.deepEqual(readRange(writeRange([0, 100.5, -1e-5, 2], "a:b")), { zoom: [0, 100.5, -1e-5, 2], chart: "a:b" });
  for (const text of ["5:1:0:1:c", "0:x:0:1:c", ":1:0:1:c", ""]) assert.equal(readRange(text), null);
  assert.equal(writeRange(null, "c"), null);
});

test("training and validation share a chart", () => {
  for (const name of ["val_loss", "validation_loss"]) assert.equal(chartOf(`validation/${name}`), chartOf("training/loss"));
  assert.equal(chartOf("system/cpu_percent"), "system/cpu_percent");
  assert.deepEqual(groupMetrics(["training/loss", "validation/accuracy", "validation/loss"]).map((group) => group.metrics),
    [["training/loss", "validation/loss"], ["validation/accuracy"]]);
});

test("the best trials are chosen by the searched metric", () => {
  const rows = (query, visible, selection = []) => chooseRows(data, readSettings(query, data), visible, new Set(selection));
  assert.deepEqual(rows({}, [0, 1, 3]), [3, 0, 1]);
  assert.deepEqual(rows({ show: "all" }, [0]), [2, 3, 0, 1]);
  assert.deepEqual(rows({ show: "top", k: "2" }, [0, 1, 3]), [3, 0]);
  assert.deepEqual(rows({ show: "selected" }, [], [1, 3, 0]), [2, 0]);
});

test("points stand where the axis says", () => {
  const curve = { batches: Float64Array.of(10, 20), values: Float64Array.of(1, 2), times: Float64Array.of(105, 99) };
  const epochs = findEpochs(data);
  assert.deepEqual([...toAxis(curve, "epochs", { epochs: epochs(2), start: 0 })], [1, 2]);
  assert.deepEqual([...toAxis(curve, "relative", { epochs: NaN, start: 100 })], [5, -1]);
  assert.deepEqual([...toAxis(curve, "relative", { epochs: NaN, start: 500 })], [0, -6]);
  assert.equal(toAxis(curve, "wall", { epochs: NaN, start: 0 }), curve.times);
  assert.equal(findEpochs({ ...data, experiment: { config: { records_per_epoch: 0 } } }), null);
});
