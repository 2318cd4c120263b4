// Which trials an expression chooses: asked of the master, once nothing more is typed.
import assert from "node:assert/strict";
import { mock, test } from "node:test";
import { TrialFilter } from "../../quintain/server/page/trial_filter.js";

/** Returns a filter whose questions are answered by `answer`. */
function makeFilter(t, answer) {
  mock.timers.enable({ apis: ["setTimeout"] });
  t.after(() => mock.timers.reset());
  const [asked, told] = [[], []];
  const filter = new TrialFilter(async (where) => {
    asked.push(where);
    return answer(where);
  }, ({ ids, problem }) => told.push([ids && [...ids], problem]));
  return { filter, asked, told };
}

/** Lets time pass, and what was asked be answered. */
async function pass(ms) {
  mock.timers.tick(ms);
  await new Promise((resolve) => setImmediate(resolve));
}

test("an expression is asked for after a pause in typing, one in a link at once", async (t) => {
  const { filter, asked, told } = makeFilter(t, () => [{ id: 3 }]);

  filter.choose("x > 1");
  await pass(0);
  for (const where of ["x > 12", "x > 123"]) {
    filter.choose(where);
    await pass(100);
  }
  await pass(100);

  assert.deepEqual(asked, ["x > 1", "x > 123"]);
  assert.deepEqual(told, [[[3], ""], [[3], ""]]);
});

test("a mistake is shown, and leaves what was chosen", async (t) => {
  const { filter, told } = makeFilter(t, (where) => {
    if (where === "y") throw Object.assign(new Error("where: at position 1: got 'y'."), { status: 400 });
    return [{ id: 1 }];
  });

  filter.choose("x > 1");
  await pass(0);
  filter.choose("y");
  await pass(200);
  filter.choose("");

  assert.deepEqual(told, [[[1], ""], [[1], "at position 1: got 'y'."], [null, ""]]);
});

test("changes of trials are asked for once a second", async (t) => {
  const { filter, asked } = makeFilter(t, () => []);

  filter.refresh();
  filter.choose("x > 1");
  await pass(0);
  for (let at = 0; at < 20; at += 1) {
    filter.refresh();
    await pass(100);
  }
  filter.close();
  await pass(5000);

  assert.equal(asked.length, 3);
});

test("a master that does not answer is asked again", async (t) => {
  let isAway = true;
  const { filter, told } = makeFilter(t, () => {
    if (isAway) throw Object.assign(new Error("The master does not answer."), { status: 0 });
    return [{ id: 1 }];
  });

  filter.choose("x > 1");
  await pass(0);
  isAway = false;
  await pass(1000);

  assert.deepEqual(told, [[null, "The master does not answer."], [[1], ""]]);
});

test("an answer that comes too late is not shown", async (t) => {
  const answers = {};
  const { filter, told } = makeFilter(t, (where) => new Promise((resolve) => (answers[where] = resolve)));

  filter.choose("x > 1");
  await pass(0);
  filter.choose("x > 2");
  await pass(200);
  answers["x > 2"]([{ id: 2 }]);
  answers["x > 1"]([{ id: 1 }]);
  await pass(0);

  assert.deepEqual(told, [[[2], ""]]);
});
