// @ts-check
// The stream of changes. Those who listen to the same things share one connection: browsers allow six to a host.
import { ApiError, address, get } from "./api.js";

/**
 * @typedef {"connecting" | "live" | "lost" | "signed out"} StreamState
 * @typedef {{
 *   experiment_id?: number, trial_id?: number,
 *   cursor?: string,
 *   onChanges?: (changes: any) => void,
 *   onStatus?: (status: any) => void,
 *   onReset?: () => void,
 *   onState?: (state: StreamState) => void,
 * }} Subscriber
 */

const FIRST_WAIT_MS = 500;
const LONGEST_WAIT_MS = 5000;
const HIDDEN_MS = 2000;
// Browsers give a host six connections, for all windows together: more streams would leave none for answers.
const MOST_STREAMS = 4;
const GUEST_MS = 1000;
const GUEST_PAUSE_MS = 1500;

/** @type {Map<string, Stream>} */
const streams = new Map();
/** @type {Set<(state: StreamState) => void>} */
const watchers = new Set();

/** Calls back for each change; returns how to end that. With `cursor` (of what was fetched before), nothing
 * since then is missed, and a change may come twice. `onReset`: fetch everything anew.
 * @param {Subscriber} subscriber @returns {() => void} */
export function subscribe(subscriber) {
  const { experiment_id, trial_id } = subscriber;
  const key = JSON.stringify([experiment_id ?? null, trial_id ?? null]);
  let stream = streams.get(key);
  if (!stream) {
    stream = new Stream({ experiment_id, trial_id });
    streams.set(key, stream);
  }
  stream.add(subscriber);
  return () => {
    if (stream.remove(subscriber) && streams.get(key) === stream) {
      streams.delete(key);
      tell();
    }
  };
}

/** Calls back when the page loses the master or finds it again: the worst state of all streams.
 * @param {(state: StreamState) => void} watcher @returns {() => void} */
export function watchConnection(watcher) {
  watchers.add(watcher);
  watcher(worst());
  return () => watchers.delete(watcher);
}

/** Returns the number within a cursor, -1 for none. @param {string | undefined} cursor */
export function positionOf(cursor) {
  const found = /-(\d+)$/.exec(cursor ?? "");
  return found ? Number(found[1]) : -1;
}

function worst() {
  /** @type {StreamState[]} */
  const order = ["signed out", "lost", "connecting", "live"];
  const states = [...streams.values()].map((stream) => stream.state);
  return order.find((state) => states.includes(state)) ?? "connecting";
}

function tell() {
  const state = worst();
  for (const watcher of watchers) watcher(state);
}

/** Takes one of the few places for a stream that all windows share; returns how to give it back, null if all are
 * taken. A browser frees the place of a window that is closed. @returns {Promise<(() => void) | null>} */
async function takePlace() {
  for (let place = 0; place < MOST_STREAMS; place += 1) {
    /** @type {(() => void) | null} */
    const leave = await new Promise((resolve) => {
      navigator.locks.request(`quintain stream ${place}`, { ifAvailable: true }, (lock) =>
        lock ? new Promise((end) => resolve(() => end(undefined))) : resolve(null));
    });
    if (leave) return leave;
  }
  return null;
}

class Stream {
  /** @param {{experiment_id?: number, trial_id?: number}} filter */
  constructor(filter) {
    this.filter = filter;
    /** @type {Set<Subscriber>} */
    this.subscribers = new Set();
    /** @type {StreamState} */
    this.state = "connecting";
    this.cursor = "";
    /** @type {any} */
    this.status = null;
    /** @type {EventSource | null} */
    this.source = null;
    this.wait = FIRST_WAIT_MS;
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    this.timer = undefined;
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    this.hiding = undefined;
    /** @type {(() => void) | null} */
    this.leave = null;
    this.onVisibility = () => this.followVisibility();
  }

  /** @param {Subscriber} subscriber */
  add(subscriber) {
    const isFirst = this.subscribers.size === 0;
    this.subscribers.add(subscriber);
    subscriber.onState?.(this.state);
    if (this.status) subscriber.onStatus?.(this.status);
    const isOlder = subscriber.cursor && (!this.cursor || positionOf(subscriber.cursor) < positionOf(this.cursor));
    if (isOlder) this.cursor = /** @type {string} */ (subscriber.cursor);
    if (isFirst) document.addEventListener("visibilitychange", this.onVisibility);
    if (isFirst || isOlder) this.open();
  }

  /** @param {Subscriber} subscriber @returns {boolean} whether nobody listens any more */
  remove(subscriber) {
    this.subscribers.delete(subscriber);
    if (this.subscribers.size) return false;
    document.removeEventListener("visibilitychange", this.onVisibility);
    clearTimeout(this.hiding);
    this.close();
    return true;
  }

  open() {
    this.close();
    if (document.hidden) return;
    const source = new EventSource(address("/events", { ...this.filter, cursor: this.cursor }));
    this.source = source;
    source.onopen = () => {
      this.wait = FIRST_WAIT_MS;
      this.become("live");
    };
    source.onerror = () => this.retry(source.readyState === EventSource.CLOSED);
    source.addEventListener("changes", (event) => {
      this.note(event);
      const changes = JSON.parse(event.data);
      for (const one of [...this.subscribers]) one.onChanges?.(changes);
    });
    source.addEventListener("status", (event) => {
      this.status = JSON.parse(event.data);
      for (const one of [...this.subscribers]) one.onStatus?.(this.status);
    });
    source.addEventListener("reset", (event) => {
      this.note(event);
      for (const one of [...this.subscribers]) one.onReset?.();
    });
    if (globalThis.navigator?.locks) this.share(source);
  }

  close() {
    clearTimeout(this.timer);
    this.source?.close();
    this.source = null;
    this.leave?.();
    this.leave = null;
  }

  /** Keeps the connection if few windows have one, else takes what is new and comes again soon.
   * @param {EventSource} source */
  async share(source) {
    const leave = await takePlace();
    if (this.source !== source) return leave?.();
    this.leave = leave;
    if (leave) return undefined;
    this.timer = setTimeout(() => {
      this.close();
      this.timer = setTimeout(() => this.open(), GUEST_PAUSE_MS);
    }, GUEST_MS);
    return undefined;
  }

  /** Tries again by itself: the browser gives up at answers like 502 of a proxy. Of what does not exist
   * (any more) there is nothing to hear. @param {boolean} wasAnswered whether the master, or a proxy, refused */
  retry(wasAnswered = false) {
    this.close();
    if (this.state !== "signed out" && !wasAnswered) this.become("lost");
    this.timer = setTimeout(async () => {
      const problem = await get(this.path()).catch((error) => error);
      if (!this.subscribers.size || this.source) return;
      if (!(problem instanceof ApiError)) {
        this.open();
      } else if (problem.status === 404) {
        this.become("live");
      } else {
        if (problem.status === 401 || problem.status === 403) this.become("signed out");
        this.retry();
      }
    }, this.wait);
    this.wait = Math.min(LONGEST_WAIT_MS, this.wait * 1.5);
  }

  /** Where to ask whether there is what the stream is about. */
  path() {
    const { experiment_id, trial_id } = this.filter;
    if (trial_id !== undefined) return `/trials/${trial_id}`;
    return experiment_id === undefined ? "/master" : `/experiments/${experiment_id}`;
  }

  /** A hidden page gives its connection back, and takes up where it was when it is looked at. */
  followVisibility() {
    if (document.hidden) {
      this.hiding = setTimeout(() => this.close(), HIDDEN_MS);
    } else {
      clearTimeout(this.hiding);
      if (!this.source) this.open();
    }
  }

  /** @param {MessageEvent} event */
  note(event) {
    if (event.lastEventId) this.cursor = event.lastEventId;
  }

  /** @param {StreamState} state */
  become(state) {
    if (this.state === state) return;
    this.state = state;
    for (const one of [...this.subscribers]) one.onState?.(state);
    tell();
  }
}
