// The stream of changes: shared, resumed where it broke off, and given up while nobody looks.
import assert from "node:assert/strict";
import { afterEach, beforeEach, mock, test } from "node:test";

const sources = [];
let answer;
let onVisibility;

class FakeSource extends EventTarget {
  static CLOSED = 2;

  constructor(url) {
    super();
    this.query = new URL(url).searchParams;
    this.isClosed = false;
    sources.push(this);
  }

  close() {
    this.isClosed = true;
  }

  send(kind, data, lastEventId) {
    this.dispatchEvent(new MessageEvent(kind, { data: JSON.stringify(data), lastEventId }));
  }
}

globalThis.EventSource = FakeSource;
globalThis.document = {
  baseURI: "http://127.0.0.1:1/secret/", hidden: false,
  addEventListener: (_, listener) => (onVisibility = listener), removeEventListener: () => {},
};
globalThis.fetch = async () => answer();
const { positionOf, subscribe, watchConnection } = await import("../../quintain/server/page/events.js");

const open = () => sources.filter((source) => !source.isClosed);
const settle = async () => {
  for (let turn = 0; turn < 60; turn += 1) await Promise.resolve();
};
let stops = [];
const listen = (subscriber) => stops.push(subscribe(subscriber));

beforeEach(() => {
  mock.timers.enable({ apis: ["setTimeout"] });
  answer = () => new Response("{}");
});

afterEach(() => {
  for (const stop of stops) stop();
  stops = [];
  assert.equal(open().length, 0);
  sources.length = 0;
  document.hidden = false;
  mock.timers.reset();
});

test("those who listen to the same things share a connection, below the page's address", () => {
  const heard = [];
  listen({ experiment_id: 3, onChanges: (changes) => heard.push(["first", changes]) });
  listen({ experiment_id: 3, onChanges: (changes) => heard.push(["second", changes]) });
  assert.equal(open().length, 1);
  assert.equal(open()[0].query.get("experiment_id"), "3");
  open()[0].send("changes", { trials: [] }, "abcdefgh-9");
  assert.deepEqual(heard, [["first", { trials: [] }], ["second", { trials: [] }]]);
});

test("who fetched something older is told all that came since", () => {
  listen({ experiment_id: 3 });
  open()[0].send("changes", {}, "abcdefgh-9");
  listen({ experiment_id: 3, cursor: "abcdefgh-12" });
  assert.equal(open()[0].query.get("cursor"), null);
  listen({ experiment_id: 3, cursor: "abcdefgh-7" });
  assert.equal(open().length, 1);
  assert.equal(open()[0].query.get("cursor"), "abcdefgh-7");
});

test("a broken stream goes on where it was as soon as the master answers", async () => {
  const states = [];
  listen({ onState: (state) => states.push(state) });
  open()[0].onopen();
  open()[0].send("changes", {}, "abcdefgh-9");
  answer = () => Promise.reject(new TypeError("refused"));
  open()[0].onerror();
  mock.timers.tick(500);
  await settle();
  assert.equal(open().length, 0);
  answer = () => new Response("{}");
  mock.timers.tick(5000);
  await settle();
  assert.equal(open()[0].query.get("cursor"), "abcdefgh-9");
  open()[0].onopen();
  assert.deepEqual(states, ["connecting", "live", "lost", "live"]);
});

test("who is signed out is told so", async () => {
  let state = "";
  const unwatch = watchConnection((next) => (state = next));
  listen({});
  answer = () => new Response('{"error": {"kind": "UnauthorizedError", "message": "no"}}', { status: 401 });
  open()[0].onerror();
  mock.timers.tick(500);
  await settle();
  assert.equal(state, "signed out");
  unwatch();
});

test("a page that nobody looks at gives its connection back, and takes up what it missed", () => {
  listen({});
  open()[0].send("reset", {}, "abcdefgh-20");
  document.hidden = true;
  onVisibility();
  mock.timers.tick(1900);
  assert.equal(open().length, 1);
  mock.timers.tick(100);
  assert.equal(open().length, 0);
  const look = onVisibility;
  listen({ trial_id: 3 });
  assert.equal(open().length, 0);
  document.hidden = false;
  look();
  assert.equal(open()[0].query.get("cursor"), "abcdefgh-20");
});

test("a cursor has a place", () => {
  assert.deepEqual(["abcdefgh-12", "", undefined, "x"].map(positionOf), [12, -1, -1, -1]);
});

test("of what was deleted nothing more is asked, and the master is not said to be away", async () => {
  const states = [];
  listen({ trial_id: 7, onState: (state) => states.push(state) });
  const asked = [];
  globalThis.fetch = async (url) => {
    asked.push(new URL(url).pathname);
    return answer();
  };
  answer = () => Response.json({ error: { kind: "UsageError", message: "There is no trial 7." } }, { status: 404 });
  open()[0].readyState = FakeSource.CLOSED;
  open()[0].onerror();
  mock.timers.tick(500);
  await settle();
  mock.timers.tick(60_000);
  await settle();
  assert.deepEqual(asked, ["/secret/api/v1/trials/7"]);
  assert.deepEqual(states, ["connecting", "live"]);
});

test("of many windows four keep a connection; the others come again and again for what is new", async () => {
  const taken = new Set();
  const locks = {
    request: async (name, options, use) => {
      if (taken.has(name)) return use(null);
      taken.add(name);
      return use({ name }).then(() => taken.delete(name));
    },
  };
  Object.defineProperty(globalThis, "navigator", { value: { locks }, configurable: true });
  for (let id = 1; id <= 6; id += 1) listen({ trial_id: id });
  await settle();
  mock.timers.tick(1000);
  assert.deepEqual(open().map((source) => source.query.get("trial_id")), ["1", "2", "3", "4"]);
  mock.timers.tick(1500);
  assert.equal(open().length, 6);
  await settle();
  stops.shift()();
  await settle();
  mock.timers.tick(1000);
  mock.timers.tick(1500);
  await settle();
  mock.timers.tick(1000);
  assert.deepEqual(open().map((source) => source.query.get("trial_id")), ["2", "3", "4", "5"]);
  Object.defineProperty(globalThis, "navigator", { value: {}, configurable: true });
});
