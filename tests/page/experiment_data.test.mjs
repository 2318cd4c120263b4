// What the page knows of an experiment: the table, changes that come, and curves.
import assert from "node:assert/strict";
import { test } from "node:test";
import { ExperimentData } from "../../quintain/server/page/experiment_data.js";

const EXPERIMENT = {
  id: 1, state: "ACTIVE",
  config: {
    searcher: { name: "random", metric: "accuracy", smaller_is_better: false },
    hyperparameters: { rate: { type: "log", minval: -4, maxval: -1, base: 10 }, model: { units: { type: "int", minval: 1, maxval: 8 } }, size: 3 },
  },
};

function makeTable() {
  return {
    cursor: "abcdefgh-7", num_trials: 2,
    columns: {
      id: [1, 2], state: ["ACTIVE", "ERROR"], best_metric: [0.5, "NaN"], latest_metric: [0.5, null], total_batches: [20, 0],
      start_time: [100, 100], end_time: [null, 130], held_secs: [5, 30], held_since: [110, null],
    },
    hparams: { "model.units": [4, 8], rate: [0.1, "Infinity"] },
    metrics: { "validation/accuracy": { last: [0.4, null], min: [0.4, null], max: [0.5, null] }, "training/score": { best_is: "min", last: [2, 3], min: [1, 3], max: [2, 4] } },
  };
}

function packCurves(curves) {
  let header = JSON.stringify({ cursor: "abcdefgh-7", curves: curves.map(([id, name, points]) => [id, name, points.length]) });
  header += " ".repeat((8 - ((4 + header.length) % 8)) % 8);
  const numbers = curves.flatMap(([, , points]) => [0, 1, 2].flatMap((place) => points.map((point) => point[place])));
  const buffer = new ArrayBuffer(4 + header.length + 8 * numbers.length);
  new DataView(buffer).setUint32(0, header.length, true);
  new Uint8Array(buffer, 4, header.length).set(new TextEncoder().encode(header));
  new Float64Array(buffer, 4 + header.length).set(numbers);
  return buffer;
}

async function loadData(curves = []) {
  const asked = [];
  const source = {
    get: async (path) => (path.endsWith("/table") ? makeTable() : EXPERIMENT),
    getBuffer: async (path, params) => {
      asked.push(params);
      return packCurves(curves);
    },
  };
  const data = new ExperimentData(1, source);
  await data.load();
  return { data, asked, source };
}

test("hyperparameters are labelled by the shortest ends of their paths that mean nothing else", async () => {
  const { data } = await loadData();
  assert.deepEqual([data.column("hparams.model.units").label, data.column("hparams.model.units").path], ["units", "model.units"]);
  const trial = { id: 3, experiment_id: 1, state: "ACTIVE", hparams: { head: { units: 2, rate: 1, seed: 5, score: 6 } } };
  data.applyChanges({ trials: [trial] });
  const paths = ["model.units", "head.units", "rate", "head.rate", "head.seed", "head.score"];
  assert.deepEqual(paths.map((path) => data.shortName(`hparams.${path}`)), paths);
});

test("columns are numbers where all values are, and tell NaN from what is missing", async () => {
  const { data } = await loadData();
  assert.deepEqual([...data.get("best_metric")], [0.5, NaN]);
  assert.deepEqual([data.value("best_metric", 1), data.value("latest_metric", 1)], [NaN, null]);
  assert.equal(data.value("hparams.rate", 1), Infinity);
  assert.deepEqual(data.get("state"), ["ACTIVE", "ERROR"]);
  assert.deepEqual([data.value("duration", 0), data.value("duration", 1)], [null, 30]);
  assert.deepEqual([data.rowOf(2), data.rowOf(9)], [1, -1]);
});

test("hyperparameters come in the order of the config, with bounds of log as values", async () => {
  const { data } = await loadData();
  assert.deepEqual(data.columns.filter((column) => column.source === "hparam").map((column) => [column.key, column.log]),
    [["hparams.rate", true], ["hparams.model.units", false]]);
  assert.deepEqual(data.hparams.map(({ path, kind, min, max, vals }) => [path, kind, min, max, vals]),
    [["rate", "log", 1e-4, 0.1, []], ["model.units", "int", 1, 8, []], ["size", "const", NaN, NaN, [3]]]);
});

test("a new trial, a new metric and a hyperparameter of a new kind find their places", async () => {
  const { data } = await loadData();
  const record = { id: 9, experiment_id: 1, state: "ACTIVE", hparams: { rate: "fast", model: { units: 2 } }, total_batches: 5, start_time: 1, end_time: null };
  const mustReload = data.applyChanges({ trials: [record], metrics: [[9, "training", 5, 10, { loss: 2.5, words: "x" }], [9, "training", 6, 11, { loss: "NaN" }], [9, "training", 7, 12, { loss: 3 }]] });
  assert.deepEqual([data.numRows, data.rowOf(9), data.value("hparams.model.units", 2)], [3, 2, 2]);
  assert.deepEqual(data.get("hparams.rate"), ["0.1", "Infinity", "fast"]);
  assert.equal(data.column("hparams.rate").kind, "text");
  assert.deepEqual(["last", "min", "max"].map((part) => data.value(`training/loss.${part}`, 2)), [3, 2.5, 3]);
  assert.equal(mustReload, true, "the table says which value of the new metric is the best");
  assert.equal(data.value("training/loss.last", 0), null);
  assert.equal(data.column("training/words.last"), undefined);
});

test("a metric is shown by the value that its direction says, or by the one that is chosen", async () => {
  const { data } = await loadData();
  data.applyChanges({ metrics: [[1, "validation", 40, 9, { accuracy: 0.45 }], [1, "validation", 60, 10, { accuracy: 0.7 }]] });
  assert.deepEqual(["last", "min", "max"].map((part) => data.value(`validation/accuracy.${part}`, 0)), [0.7, 0.4, 0.7]);
  assert.deepEqual(["validation/accuracy", "training/loss", "training/bleu", "training/score"].map((name) => data.isSmallerBetter(name)), [false, null, null, true]);
  data.applyChanges({ metrics: [[1, "training", 60, 10, { loss: 1.5 }]] });
  const labels = () => ["validation/accuracy", "training/score", "training/loss"].map((name) => data.column(name).label);
  assert.deepEqual(labels(), ["accuracy (max)", "training/score (min)", "training/loss (last)"]);
  assert.deepEqual([[...data.get("training/score")], data.searchedKey], [[1, 3], "validation/accuracy"]);
  data.chooseParts({ "validation/accuracy": "min", "training/score": "last" });
  assert.deepEqual(labels(), ["accuracy (min)", "training/score (last)", "training/loss (last)"]);
  data.applyChanges({ metrics: [[1, "validation", 80, 11, { accuracy: 0.1 }]] });
  assert.deepEqual([data.value("validation/accuracy", 0), data.isSmallerBetter("validation/accuracy")], [0.1, false]);
});

test("curves are fetched once, grow by changes that may come twice, and are cut", async () => {
  const { data, asked } = await loadData([[1, "validation/accuracy", [[10, 0.3, 101], [20, 0.4, 102]]]]);
  await data.loadCurves(["validation/accuracy"], [1]);
  await data.loadCurves(["validation/accuracy"], [1]);
  assert.deepEqual(asked, [{ metric: ["validation/accuracy"], trial_id: [1] }]);
  const changes = { metrics: [[1, "validation", 30, 103, { accuracy: 0.6 }]] };
  data.applyChanges(changes);
  data.applyChanges(changes);
  assert.deepEqual([...data.curve(1, "validation/accuracy").batches], [10, 20, 30]);
  assert.deepEqual([...data.curve(1, "validation/accuracy").values], [0.3, 0.4, 0.6]);
  const mustReload = data.applyChanges({ cuts: [[1, 10]], metrics: [[1, "validation", 20, 104, { accuracy: 0.9 }]] });
  assert.equal(mustReload, true);
  assert.deepEqual([...data.curve(1, "validation/accuracy").values], [0.3, 0.9]);
  assert.equal(data.curve(2, "validation/accuracy"), null);
});

test("a point that comes while its curve is on the way is not lost", async () => {
  const { data, source } = await loadData();
  let answer;
  source.getBuffer = () => new Promise((resolve) => (answer = resolve));
  const fetched = data.loadCurves(["validation/accuracy"]);
  data.applyChanges({ metrics: [[1, "validation", 30, 103, { accuracy: 0.6 }]] });
  answer(packCurves([[1, "validation/accuracy", [[20, 0.4, 102]]]]));
  await fetched;
  assert.deepEqual([...data.curve(1, "validation/accuracy").batches], [20, 30]);
});

test("listeners hear of each change until they stop", async () => {
  const { data } = await loadData();
  let heard = 0;
  const stop = data.subscribe(() => (heard += 1));
  data.applyChanges({ experiments: [{ id: 1, state: "PAUSED", config: { searcher: { max_trials: 9 } } }] });
  stop();
  data.applyChanges({});
  assert.equal(heard, 1);
  assert.deepEqual([data.experiment.state, data.experiment.config.searcher.metric, data.experiment.config.searcher.max_trials], ["PAUSED", "accuracy", 9]);
});

test("no state of one experiment is taken for one of another", async () => {
  const [first, second] = [(await loadData()).data, (await loadData()).data];
  assert.notEqual(first.version, second.version);
});
