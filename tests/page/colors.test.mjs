import assert from "node:assert/strict";
import { test } from "node:test";
import { assignLooks, colorOf, dashOf, lightness, listShades, shadeOf } from "../../quintain/server/page/colors.js";

const GROUNDS = [[false, "#ffffff"], [true, "#14171c"]];
const NUM_HUES = 8;
// Linear RGB as seen without one kind of cones (Vienot, Brettel and Mollon, 1999).
const VISIONS = {
  all: [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
  protan: [[0.11238, 0.88762, 0], [0.11238, 0.88762, 0], [0.00401, -0.00401, 1]],
  deutan: [[0.29275, 0.70725, 0], [0.29275, 0.70725, 0], [-0.02234, 0.02234, 1]],
};

const toLinear = (color) => (color.startsWith("#") ? color.slice(1).match(/../g).map((pair) => parseInt(pair, 16)) : color.match(/\d+/g).map(Number))
  .map((value) => value / 255).map((value) => (value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4));
const luminance = (color) => toLinear(color).reduce((sum, value, i) => sum + value * [0.2126, 0.7152, 0.0722][i], 0);
const contrast = (a, b) => (Math.max(luminance(a), luminance(b)) + 0.05) / (Math.min(luminance(a), luminance(b)) + 0.05);

function toLab(linear) {
  const [x, y, z] = [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]
    .map((row, i) => row.reduce((sum, part, c) => sum + part * Math.max(0, linear[c]), 0) / [0.9505, 1, 1.089][i])
    .map((value) => (value > 0.008856 ? Math.cbrt(value) : 7.787 * value + 16 / 116));
  return [116 * y - 16, 500 * (x - y), 200 * (y - z)];
}

test("all colours of trials stand out from the ground", () => {
  for (const [isDark, ground] of GROUNDS) {
    for (let id = 1; id <= NUM_HUES; id++) assert.ok(contrast(colorOf(id, isDark), ground) >= 3, `${colorOf(id, isDark)} on ${ground}`);
  }
});

test("colours of trials are told apart with any kind of colour vision", () => {
  for (const [isDark] of GROUNDS) {
    for (const [name, matrix] of Object.entries(VISIONS)) {
      const seen = Array.from({ length: NUM_HUES }, (_, i) => colorOf(i + 1, isDark))
        .map((color) => [color, toLab(matrix.map((row) => row.reduce((sum, part, c) => sum + part * toLinear(color)[c], 0)))]);
      seen.forEach(([first, a], i) => seen.slice(i + 1).forEach(([second, b]) => {
        const distance = Math.hypot(...a.map((value, c) => value - b[c]));
        assert.ok(distance >= 15, `${first} and ${second} (${name}): ${distance.toFixed(1)}`);
      }));
    }
  }
});

test("a trial has the same looks always, and 24 neighbours differ in colour or dashes", () => {
  const looks = Array.from({ length: 24 }, (_, i) => colorOf(i + 1, false) + dashOf(i + 1).join());
  assert.equal(new Set(looks).size, 24);
  assert.equal(colorOf(1, true), colorOf(1 + NUM_HUES, true));
  assert.match(colorOf(0, false) + colorOf(-5, false), /^#[0-9a-f]{6}#[0-9a-f]{6}$/);
});

test("trials in one chart never look alike, and keep their own colour where they can", () => {
  const eight = assignLooks([85, 157, 5, 140, 51, 26, 14, 2], false);
  assert.equal(new Set([...eight.values()].map((look) => look.color)).size, 8);
  assert.ok([...eight.values()].every((look) => !look.dash.length));
  assert.equal(eight.get(5).color, colorOf(5, false));
  assert.equal(eight.get(51).color, colorOf(51, false));
  const many = assignLooks(Array.from({ length: 24 }, (_, i) => 1 + 24 * i), true);
  assert.equal(new Set([...many.values()].map((look) => look.color + look.dash)).size, 24);
  assert.equal(assignLooks([], true).size, 0);
});

test("the best shade stands out most", () => {
  for (const [isDark, ground] of GROUNDS) {
    for (const isSmallerBetter of [true, false]) {
      const shades = listShades(isDark, isSmallerBetter);
      const [best, worst] = isSmallerBetter ? [shades[0], shades.at(-1)] : [shades.at(-1), shades[0]];
      assert.ok(contrast(best, ground) > 2 * contrast(worst, ground) && contrast(best, ground) > 7);
    }
  }
  assert.deepEqual([shadeOf(NaN), shadeOf(-1), shadeOf(0), shadeOf(1)], [-1, 0, 0, 63]);
  assert.ok(lightness("#fff") > 0.99 && lightness("#14171c") < 0.2);
});
