// Numbers, times and sizes as people read them.
import assert from "node:assert/strict";
import { test } from "node:test";
import * as format from "../../quintain/server/page/format.js";

const cases = (name, convert, pairs) => {
  for (const [given, expected] of pairs) test(`${name}(${JSON.stringify(given) ?? given}) is ${expected}`, () => assert.equal(convert(given), expected));
};

cases("number", (value) => format.number(value), [
  [0, "0"], [-0, "0"], [0.93125, "0.9313"], [1, "1"], [12345, "12,345"], [123456.7, "123,457"], [1.2e-5, "1.2e-5"], [-0.5, "−0.5"], [1e12, "1e+12"],
  [0.1 + 0.2, "0.3"], [99.999, "100"], ["NaN", "NaN"], ["-Infinity", "−∞"], [Infinity, "∞"], [null, ""], ["adam", "adam"]]);
cases("duration", format.duration, [[0, "0 s"], [3.21, "3.2 s"], [59.7, "1 min"], [245, "4 min 5 s"], [7620, "2 h 7 min"], [273600, "3 d 4 h"], [-5, "0 s"], [null, ""], [NaN, ""]]);
cases("bytes", format.bytes, [[0, "0 B"], [999, "999 B"], [1500, "1.5 kB"], [999999, "1 MB"], [3.2e9, "3.2 GB"]]);
cases("percent", format.percent, [[0, "0 %"], [0.999, "99 %"], [1, "100 %"], [0.29, "29 %"], [NaN, ""]]);
cases("text", format.text, [[true, "true"], [[1, 2], "[1,2]"], [undefined, ""], ["<b>", "<b>"]]);

cases("short", (value) => format.short(value, 8), [["a".repeat(1e6), "aaaaaaaa…"], ["a\nb", "a b"], ["\u001b[31m", "�[31m"], ["\u202eabc", "�abc"]]);

test("a time has its date unless it is of today", () => {
  const noon = new Date(2026, 5, 1, 12, 0, 0).getTime();
  assert.equal(format.time(noon / 1000 - 3600, noon), "11:00:00");
  assert.equal(format.time(noon / 1000 - 86400, noon), "2026-05-31 12:00:00");
  assert.deepEqual([5, 300, 7200, 200000].map((secs) => format.ago(noon / 1000 - secs, noon)), ["just now", "5 min ago", "2 h ago", "2026-05-30 04:26"]);
});

test("a path that has no room keeps whole names of its end", () => {
  const path = "trainer.optimizer_config.learning_rate.cosine";
  assert.deepEqual([60, 30, 1].map((most) => format.cutPath(path, most)), [path, "… learning_rate.cosine", "… cosine"]);
});

test("metrics are written in the formats of their experiment", () => {
  const searcher = { formats: { accuracy: ".1%", rate: ".2e", loss: ".3f", top: ".3g" } };
  const write = (value, name) => format.metric(value, name, searcher);
  assert.deepEqual([write(0.96666, "validation/val_accuracy"), write(-0.5, "accuracy"), write("NaN", "accuracy"), write(null, "accuracy")], ["96.7%", "−50.0%", "NaN", ""]);
  assert.deepEqual([write(0.00012, "training/rate"), write(2, "loss"), write(0.12345, "top"), write(0.12345, "other")], ["1.20e-4", "2.000", "0.123", "0.1235"]);
});
