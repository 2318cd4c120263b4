// @ts-check
// What trials wrote: from the newest line backwards, and on as it comes.
import { Component, html, useEffect, useLayoutEffect, useRef, useState } from "./vendor/preact.js";
import { get } from "./api.js";
import { subscribe } from "./events.js";
import { bytes, time } from "./format.js";
import { SHORT_CHARACTERS, clean, joinLines, levelOf, shorten, splitFound, toBlocks } from "./log_lines.js";
import { useRoute } from "./route.js";
import { Button, Empty, Loading, Problem, toast } from "./widgets.js";

/** @typedef {import("./log_lines.js").Line} Line */

const PAGE_LINES = 400;
const MOST_LINES = 20000;
const BLOCK_LINES = 100;
const NEAR_PX = 40;
const TYPING_MS = 250;
const LEVELS = [["", "all levels"], ["warning", "warnings and errors"], ["error", "errors"]];

/** Lines of one trial, or of all trials of an experiment. @param {{experimentId?: number, trialId?: number}} props */
export function LogsView({ experimentId, trialId }) {
  const { query, setQuery } = useRoute();
  const chosen = Number(query.ltrial) || undefined;
  const shown = trialId ?? chosen;
  const path = shown ? `/trials/${shown}/logs` : `/experiments/${experimentId}/logs`;
  const filter = { contains: query.lq, level: query.level };
  return html`<section class="logs" aria-label="Logs">
    <div class="row logs-bar">
      <${Search} value=${query.lq ?? ""} onSearch=${(/** @type {string} */ text) => setQuery({ lq: text })} />
      <select aria-label="Level" value=${query.level ?? ""} onChange=${(/** @type {any} */ event) => setQuery({ level: event.target.value })}>
        ${LEVELS.map(([key, label]) => html`<option key=${key} value=${key}>${label}</option>`)}</select>
      ${!trialId && html`<label class="row">Trial <input class="logs-trial" type="number" min="1" placeholder="all" value=${query.ltrial ?? ""}
        onChange=${(/** @type {any} */ event) => setQuery({ ltrial: event.target.value })} /></label>`}
      <label class="check"><input type="checkbox" checked=${query.ltime === "1"} onChange=${(/** @type {any} */ event) => setQuery({ ltime: event.target.checked ? 1 : null })} />Times</label>
      <label class="check"><input type="checkbox" checked=${query.lwrap !== "0"} onChange=${(/** @type {any} */ event) => setQuery({ lwrap: event.target.checked ? null : 0 })} />Wrap</label>
    </div>
    <${Lines} key=${JSON.stringify([path, filter])} path=${path} filter=${filter} stream=${trialId ? { trial_id: trialId } : { experiment_id: experimentId }}
      trialId=${shown} hasTimes=${query.ltime === "1"} wraps=${query.lwrap !== "0"} />
  </section>`;
}

/** @param {{value: string, onSearch: (text: string) => void}} props */
function Search({ value, onSearch }) {
  const [text, setText] = useState(value);
  const timer = useRef(/** @type {any} */ (undefined));
  useEffect(() => setText(value), [value]);
  const type = (/** @type {any} */ event) => {
    setText(event.target.value);
    clearTimeout(timer.current);
    timer.current = setTimeout(() => onSearch(event.target.value), TYPING_MS);
  };
  return html`<input type="search" class="logs-search" aria-label="Find in lines" placeholder="Find in lines" value=${text} onInput=${type} />`;
}

/** What is shown of the lines, and how far it goes.
 * @typedef {{lines: Line[], isFirst: boolean}} Shown `isFirst`: there are no older ones */

/** @param {{path: string, filter: any, stream: any, trialId?: number, hasTimes: boolean, wraps: boolean}} props */
function Lines({ path, filter, stream, trialId, hasTimes, wraps }) {
  const [shown, setShown] = useState(/** @type {Shown | null} */ (null));
  const [error, setError] = useState(/** @type {any} */ (null));
  const [isPinned, setPinned] = useState(true);
  const [numNew, setNumNew] = useState(0);
  const box = useRef(/** @type {HTMLElement | null} */ (null));
  const follower = useRef(/** @type {Follower | null} */ (null));
  const pinned = useRef(true);
  pinned.current = isPinned;
  useEffect(() => {
    const made = new Follower(path, filter, (next, numAdded) => {
      setShown(next);
      setError(null);
      if (!pinned.current) setNumNew((old) => old + numAdded);
    }, setError);
    follower.current = made;
    made.start();
    const stop = subscribe({
      ...stream,
      onChanges: (changes) => {
        const concerns = (changes.logs ?? []).some((/** @type {number[]} */ [id]) => !trialId || id === trialId);
        if (concerns) made.fetchNewer();
      },
      onReset: () => made.start(),
    });
    return () => {
      stop();
      made.isStopped = true;
    };
  }, []);
  const heightBefore = useRef(0);
  const firstBefore = useRef(0);
  useLayoutEffect(() => {
    const element = box.current;
    if (!element || !shown) return;
    const first = shown.lines[0]?.id ?? 0;
    if (pinned.current) element.scrollTop = element.scrollHeight;
    else if (first < firstBefore.current) element.scrollTop += element.scrollHeight - heightBefore.current;
    heightBefore.current = element.scrollHeight;
    firstBefore.current = first;
  }, [shown, isPinned]);
  const hasLines = Boolean(shown?.lines.length);
  useEffect(() => {
    const element = box.current;
    if (!element) return undefined;
    // Blocks get their true height when they are drawn.
    const observer = new ResizeObserver(() => {
      if (pinned.current) element.scrollTop = element.scrollHeight;
    });
    observer.observe(/** @type {Element} */ (element.firstElementChild));
    return () => observer.disconnect();
  }, [hasLines]);
  if (error && !shown) return html`<${Problem} error=${error} retry=${() => follower.current?.start()} />`;
  if (!shown) return html`<${Loading} />`;
  if (!shown.lines.length) return html`<${Nothing} filter=${filter} />`;
  const onScroll = () => {
    const element = box.current;
    if (!element) return;
    const isAtEnd = element.scrollHeight - element.scrollTop - element.clientHeight < NEAR_PX;
    if (isAtEnd) setNumNew(0);
    if (isAtEnd !== pinned.current) setPinned(isAtEnd);
    heightBefore.current = element.scrollHeight;
    if (element.scrollTop < NEAR_PX) follower.current?.fetchOlder();
  };
  const toEnd = () => {
    setPinned(true);
    setNumNew(0);
  };
  return html`<div class="logs-frame">
    <div class="logs-box ${wraps ? "wraps" : ""}" ref=${box} tabindex="0" role="log" aria-label="Lines" aria-live="off" onScroll=${onScroll}><div>
      <div class="logs-start muted">${shown.isFirst
        ? "The first line."
        : html`<${Button} kind="quiet" onClick=${() => follower.current?.fetchOlder()}>Older lines<//>`}</div>
      ${toBlocks(shown.lines, BLOCK_LINES).map((block) => html`<${Block} key=${block.key} lines=${block.lines} search=${filter.contains ?? ""}
        hasTimes=${hasTimes} hasTrials=${!trialId} />`)}
    </div></div>
    <div class="logs-foot row"><span class="muted">${shown.lines.length.toLocaleString("en")} lines</span>
      ${isPinned ? html`<span class="muted">following</span>` : html`<${Button} onClick=${toEnd}>To the end${numNew ? `, ${numNew} new` : ""} ↓<//>`}
      ${error && html`<span class="bad" role="alert">${error.message}</span>`}</div>
  </div>`;
}

/** @param {{filter: any}} props */
function Nothing({ filter }) {
  return filter.contains || filter.level
    ? html`<${Empty} title="No matching lines"><p>The search is case-sensitive. Clear the search or the level to see all lines.</p><//>`
    : html`<${Empty} title="No lines yet"><p>The output of trials and messages of the master appear here.</p><//>`;
}

/** Fetches lines, one request at a time. */
class Follower {
  /** @param {string} path @param {any} filter @param {(shown: Shown, numAdded: number) => void} onLines @param {(error: any) => void} onError */
  constructor(path, filter, onLines, onError) {
    this.path = path;
    this.filter = filter;
    this.onLines = onLines;
    this.onError = onError;
    /** @type {Shown} */
    this.shown = { lines: [], isFirst: false };
    this.isStopped = false;
    this.isStarted = false;
    /** @type {Promise<void>} */
    this.queue = Promise.resolve();
    this.isNewerWanted = false;
    this.isOlderWanted = false;
  }

  /** Begins with the newest lines. */
  start() {
    this.#run(async () => {
      const lines = await this.#fetch({ last: PAGE_LINES, limit: PAGE_LINES });
      this.isStarted = true;
      this.#show({ lines, isFirst: lines.length < PAGE_LINES }, 0);
    });
  }

  fetchNewer() {
    if (this.isNewerWanted) return;
    this.isNewerWanted = true;
    this.#run(async () => {
      this.isNewerWanted = false;
      if (!this.isStarted) return;
      for (;;) {
        const after = this.shown.lines[this.shown.lines.length - 1]?.id ?? 0;
        const lines = await this.#fetch({ after, limit: PAGE_LINES });
        if (lines.length) this.#show(this.#trim(joinLines(this.shown.lines, lines)), lines.length);
        if (lines.length < PAGE_LINES || this.isStopped) return;
      }
    });
  }

  fetchOlder() {
    if (this.isOlderWanted || this.shown.isFirst || !this.shown.lines.length) return;
    this.isOlderWanted = true;
    this.#run(async () => {
      this.isOlderWanted = false;
      const lines = await this.#fetch({ before: this.shown.lines[0].id, limit: PAGE_LINES });
      this.#show({ lines: joinLines(lines, this.shown.lines), isFirst: lines.length < PAGE_LINES }, 0);
    });
  }

  /** @param {Record<string, number>} place @returns {Promise<Line[]>} */
  #fetch(place) {
    return get(this.path, { ...this.filter, ...place });
  }

  /** @param {Line[]} lines @returns {Shown} */
  #trim(lines) {
    const isLong = lines.length > MOST_LINES;
    return { lines: isLong ? lines.slice(-MOST_LINES) : lines, isFirst: this.shown.isFirst && !isLong };
  }

  /** @param {Shown} shown @param {number} numAdded */
  #show(shown, numAdded) {
    if (this.isStopped) return;
    this.shown = shown;
    this.onLines(shown, numAdded);
  }

  /** @param {() => Promise<void>} work */
  #run(work) {
    this.queue = this.queue.then(work).catch((error) => {
      if (!this.isStopped) this.onError(error);
    });
  }
}

/** Lines that are drawn once. */
class Block extends Component {
  /** @param {any} next */
  shouldComponentUpdate(next) {
    const { lines, search, hasTimes, hasTrials } = /** @type {any} */ (this.props);
    return next.lines.length !== lines.length || next.lines[0] !== lines[0] || next.search !== search
      || next.hasTimes !== hasTimes || next.hasTrials !== hasTrials;
  }

  render() {
    const { lines, search, hasTimes, hasTrials } = /** @type {any} */ (this.props);
    return html`<div class="logs-block">${lines.map((/** @type {Line} */ line) => html`
      <${LogLine} key=${line.id} line=${line} search=${search} hasTime=${hasTimes} hasTrial=${hasTrials} />`)}</div>`;
  }
}

/** @param {{line: Line, search?: string, hasTime?: boolean, hasTrial?: boolean}} props */
export function LogLine({ line, search = "", hasTime = false, hasTrial = false }) {
  const [isWhole, setWhole] = useState(false);
  const isLong = line.text.length > SHORT_CHARACTERS;
  const text = clean(isWhole ? line.text : shorten(line.text));
  return html`<div class="log-line ${levelOf(line.text)} ${line.source}">
    ${hasTrial && html`<a class="log-trial" href=${`#/trials/${line.trial_id}?tab=logs`} title="Trial ${line.trial_id}">${line.trial_id}</a>`}
    ${hasTime && html`<time class="log-time">${time(line.time)}</time>`}
    <span class="log-text">${splitFound(text, search).map((part, at) => (at % 2 ? html`<mark>${part}</mark>` : part))}${
      isLong && html` <button type="button" class="log-more" onClick=${() => setWhole(!isWhole)}>${isWhole ? "show less" : `… show all (${bytes(line.text.length)})`}</button>`}</span>
  </div>`;
}

/** The last lines of a trial, for a failed one. @param {{trialId: number, count?: number}} props */
export function LastLines({ trialId, count = 20 }) {
  const [lines, setLines] = useState(/** @type {Line[]} */ ([]));
  useEffect(() => {
    get(`/trials/${trialId}/logs`, { last: count, limit: count }).then(setLines, (error) => toast(error.message, "bad"));
  }, [trialId, count]);
  const box = useRef(/** @type {HTMLElement | null} */ (null));
  useLayoutEffect(() => {
    if (box.current) box.current.scrollTop = box.current.scrollHeight;
  }, [lines]);
  if (!lines.length) return null;
  return html`<div class="logs-box wraps short" ref=${box} tabindex="0" role="log" aria-label="Last lines">
    ${lines.map((line) => html`<${LogLine} key=${line.id} line=${line} />`)}</div>`;
}
