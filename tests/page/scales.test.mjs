import assert from "node:assert/strict";
import { test } from "node:test";
import {
  buildScale, findExtent, findLogTicks, findTicks, findTimeTicks, findUsualExtent, padExtent, writeDurationTicks, writeLogTicks, writeTicks,
} from "../../quintain/server/page/scales.js";

test("an extent leaves out what has no place on the axis", () => {
  assert.deepEqual(findExtent([[NaN, 3, Infinity], [-1, -Infinity]], false), [-1, 3]);
  assert.deepEqual(findExtent([[0, -5, 0.01, 10]], true), [0.01, 10]);
  assert.equal(findExtent([[NaN, Infinity]], false), null);
  assert.equal(findExtent([[-1, 0]], true), null);
});

test("a few values that are far off do not press the others together", () => {
  const values = Float64Array.from({ length: 1000 }, (_, i) => i / 1000);
  values[500] = 1e30;
  assert.deepEqual(findUsualExtent([values.subarray(0, 500)], false), [0, 0.499]);
  const [lo, hi] = findUsualExtent([values], false);
  assert.ok(lo === 0 && hi > 0.999 && hi < 3);
  const [logLo, logHi] = findUsualExtent([[1e-300, ...values.subarray(1), -1]], true);
  assert.ok(logLo > 1e-4 && logLo <= 1e-2 && logHi < 1e3);
  assert.deepEqual(findUsualExtent([[5, 5, 5, 5, 9]], false), [5, 9]);
  assert.deepEqual(findUsualExtent([[NaN]], false), null);
});

test("a padded extent has room for a single value, and for the largest numbers", () => {
  assert.deepEqual(padExtent([5, 5], false), [4.5, 5.5]);
  assert.deepEqual(padExtent([0, 0], false), [-1, 1]);
  assert.deepEqual(padExtent([8, 8], true), [4, 16]);
  assert.deepEqual(padExtent([1.7e9, 1.7e9], false, 0, 10), [1.7e9 - 10, 1.7e9 + 10]);
  for (const isLog of [false, true]) {
    const [lo, hi] = padExtent([isLog ? 1e-300 : -1.7e308, 1.7e308], isLog);
    assert.ok(Number.isFinite(lo) && Number.isFinite(hi) && lo < hi);
  }
});

test("a scale goes both ways", () => {
  for (const scale of [buildScale(-3, 5), buildScale(1e-5, 10, true)]) {
    for (const unit of [0, 0.25, 1, 1.5]) assert.ok(Math.abs(scale.toUnit(scale.toValue(unit)) - unit) < 1e-9);
  }
  assert.ok(Number.isNaN(buildScale(0.1, 1, true).toUnit(0)));
  assert.ok(Number.isNaN(buildScale(0, 1).toUnit(Infinity)));
  assert.equal(buildScale(2, 2).toUnit(2), 0.5);
  assert.ok(Math.abs(buildScale(-1.7e308, 1.7e308).toUnit(0) - 0.5) < 1e-9);
});

test("ticks are round, within the axis, and written with the digits that tell them apart", () => {
  assert.deepEqual(findTicks(0, 1, 5), [0, 0.2, 0.4, 0.6, 0.8, 1]);
  assert.deepEqual(writeTicks(findTicks(0, 1, 5)), ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]);
  assert.deepEqual(findTicks(1, 4, 8, true), [1, 2, 3, 4]);
  assert.deepEqual(writeTicks(findTicks(0.93121, 0.93129, 4)), ["0.93122", "0.93124", "0.93126", "0.93128"]);
  assert.deepEqual(writeTicks([0, 2e6, 4e6]), ["0", "2e6", "4e6"]);
  for (const [lo, hi] of [[-7.3, 1e9], [3e-9, 8e-9], [0.1, 0.1000001]]) {
    const ticks = findTicks(lo, hi);
    assert.ok(ticks.length >= 2 && ticks.length <= 14, `${lo} ${hi}: ${ticks}`);
    assert.ok(ticks.every((tick) => tick >= lo && tick <= hi));
    assert.equal(new Set(writeTicks(ticks)).size, ticks.length);
  }
});

test("ticks of a logarithmic axis are there at any width", () => {
  assert.deepEqual(findLogTicks(1e-5, 0.1, 6), [1e-5, 1e-4, 1e-3, 1e-2, 0.1]);
  assert.deepEqual(writeLogTicks([1e-5, 0.001, 20]), ["1e-5", "0.001", "20"]);
  assert.ok(findLogTicks(0.91, 0.95, 5).length >= 2);
  assert.ok(findLogTicks(1e-300, 1e300, 6).length <= 8);
  assert.ok(findLogTicks(0.8, 30, 6).length >= 3);
});

test("times are ticked at seconds, minutes, hours and days", () => {
  assert.deepEqual(findTimeTicks(0, 3600, 4), [0, 900, 1800, 2700, 3600]);
  assert.deepEqual(writeDurationTicks([0, 90, 3600, 5400, 90000, -30]), ["0", "1m30s", "1h", "1h30m", "1d1h", "-30s"]);
  const midnight = findTimeTicks(0, 3 * 86400, 3, 7200);
  assert.deepEqual(midnight, [79200, 165600, 252000]);
});
