// @ts-check
// Slots over time: which trial held which, and when nobody did.
import { html, useEffect, useLayoutEffect, useMemo, useRef, useState } from "./vendor/preact.js";
import { get } from "./api.js";
import { colorOf, useTheme } from "./colors.js";
import { duration, percent, time } from "./format.js";
import { clean } from "./log_lines.js";
import { go } from "./route.js";
import { findTimeTicks, writeClockTicks } from "./scales.js";
import { countTrials } from "./status.js";
import { clip, findRange, listSlots, measureUse, toSpans } from "./timeline_layout.js";
import { Button, Empty, Loading, Problem } from "./widgets.js";

/** @typedef {import("./timeline_layout.js").Span} Span */
/** @typedef {import("./timeline_layout.js").Range} Range */

const ROW_PX = 30;
const BAR_PX = 22;
const LABEL_PX = 64;
const AXIS_PX = 22;
const MIN_DRAG_PX = 5;
const FETCH_MS = 15000;
const TICK_MS = 2000;
const RANGES = [["900", "15 minutes"], ["3600", "hour"], ["21600", "6 hours"], ["86400", "day"], ["", "everything"]];

/** @param {{route: import("./route.js").Route, status: any, experiment?: any}} props */
export function TimelineView({ route, status, experiment }) {
  const { query, setQuery } = route;
  const { spans, slots, error } = useTimeline(experiment, status);
  const now = useNow();
  if (error) return html`<${Problem} error=${error} />`;
  if (!spans) return html`<${Loading} />`;
  const numbers = listSlots(slots, spans);
  const nodes = nameNodes(slots);
  const own = experiment ? spans.filter((span) => span.experiment === experiment.id) : spans;
  const range = chooseRange(query, own, now);
  const heading = experiment ? null : html`<div class="page-head"><h1>Slots</h1><span class="muted">trials by slot; pale is idle</span></div>`;
  if (!own.length) {
    return html`<section>${heading}<${Empty} title="Nothing has run yet">
      <p>${numbers.length} ${numbers.length === 1 ? "slot waits" : "slots wait"} for trials. A slot is a share of the machine that a trial holds while it runs.</p><//></section>`;
  }
  const secs = query.tfrom ? "zoom" : query.tsecs ?? "";
  const zoom = (/** @type {Range | null} */ chosen) => setQuery({ tfrom: chosen?.from.toFixed(1), tto: chosen?.to.toFixed(1) }, { push: true });
  return html`<section class="timeline" aria-label="Timeline of slots">${heading}
    <div class="row timeline-bar" role="group" aria-label="Time">
      ${RANGES.map(([key, label]) => html`<${Button} key=${key} pressed=${key === secs} onClick=${() => setQuery({ tsecs: key, tfrom: null, tto: null })}>${label}<//>`)}
      ${secs === "zoom" && html`<${Button} kind="quiet" onClick=${() => zoom(null)}>Zoom out<//>`}
      <span class="muted">Drag to zoom in.</span></div>
    <${Lanes} spans=${spans} slots=${numbers} nodes=${nodes} range=${range} now=${now} ownId=${experiment?.id} onZoom=${zoom} />
    <${UseTable} slots=${slots} nodes=${nodes} use=${measureUse(numbers, spans, range, now)} status=${status} />
  </section>`;
}

/** Fetches who ran where (trial 0 is another project's, which one may not read); again when slots change hands. @param {any} experiment @param {any} status */
function useTimeline(experiment, status) {
  const [found, setFound] = useState(/** @type {{spans: Span[] | null, slots: any[], error: any}} */ ({ spans: null, slots: [], error: null }));
  const holders = JSON.stringify((status?.slots ?? []).map((/** @type {any} */ slot) => [slot.id, slot.trial_id]));
  useEffect(() => {
    let isGone = false;
    const fetchAll = () => get("/timeline", { since: experiment?.start_time }).then(
      (answer) => isGone || setFound({ spans: toSpans(answer.spans), slots: answer.slots, error: null }),
      (error) => isGone || setFound((old) => ({ ...old, error: old.spans ? null : error })));
    fetchAll();
    const timer = setInterval(fetchAll, FETCH_MS);
    return () => {
      isGone = true;
      clearInterval(timer);
    };
  }, [holders, experiment?.id]);
  return found;
}

/** Returns the time, every other second. */
function useNow() {
  const [now, setNow] = useState(() => Date.now() / 1000);
  useEffect(() => {
    const timer = setInterval(() => document.hidden || setNow(Date.now() / 1000), TICK_MS);
    return () => clearInterval(timer);
  }, []);
  return now;
}

/** @param {Record<string, string>} query @param {Span[]} spans @param {number} now @returns {Range} */
function chooseRange(query, spans, now) {
  const zoomed = { from: Number(query.tfrom), to: Number(query.tto) };
  if (query.tfrom && zoomed.to > zoomed.from) return zoomed;
  const secs = Number(query.tsecs);
  const all = findRange(spans, now);
  return secs > 0 ? { from: all.to - secs, to: all.to } : all;
}

/** @param {{spans: Span[], slots: number[], nodes: Map<number, string>, range: Range, now: number, ownId?: number, onZoom: (range: Range | null) => void}} props */
function Lanes({ spans, slots, nodes, range, now, ownId, onZoom }) {
  const theme = useTheme();
  const canvas = useRef(/** @type {HTMLCanvasElement | null} */ (null));
  const [width, setWidth] = useState(800);
  const [hover, setHover] = useState(/** @type {{span: Span, x: number, y: number} | null} */ (null));
  const [drag, setDrag] = useState(/** @type {[number, number] | null} */ (null));
  const start = useRef(0);
  const height = AXIS_PX + slots.length * ROW_PX;
  const inner = Math.max(50, width - LABEL_PX);
  const toX = (/** @type {number} */ secs) => LABEL_PX + ((secs - range.from) / (range.to - range.from)) * inner;
  const toSecs = (/** @type {number} */ x) => range.from + ((Math.max(LABEL_PX, x) - LABEL_PX) / inner) * (range.to - range.from);
  const bars = useMemo(() => placeBars(spans, slots, range, now, toX), [spans, slots.join(), range.from, range.to, now, width]);
  useLayoutEffect(() => {
    const element = /** @type {HTMLCanvasElement} */ (canvas.current);
    const observer = new ResizeObserver(() => setWidth(element.parentElement?.clientWidth || 800));
    observer.observe(/** @type {Element} */ (element.parentElement));
    return () => observer.disconnect();
  }, []);
  useLayoutEffect(() => {
    const context = prepare(/** @type {HTMLCanvasElement} */ (canvas.current), width, height);
    if (!context) return;
    paintGround(context, { slots, range, width, inner, toX, theme });
    for (const bar of bars) paintBar(context, bar, theme, ownId, bar.span === hover?.span);
    if (drag) {
      context.fillStyle = theme.accent;
      context.globalAlpha = 0.2;
      context.fillRect(Math.min(...drag), AXIS_PX, Math.abs(drag[1] - drag[0]), height - AXIS_PX);
      context.globalAlpha = 1;
    }
  }, [bars, theme, hover?.span, drag, width, height]);
  const place = (/** @type {any} */ event) => {
    const box = /** @type {HTMLCanvasElement} */ (canvas.current).getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };
  const find = (/** @type {number} */ x, /** @type {number} */ y) =>
    // The one that is drawn last is seen.
    bars.findLast((bar) => x >= bar.x - 2 && x <= bar.x + bar.width + 2 && y >= bar.y && y <= bar.y + BAR_PX)?.span;
  const onDown = (/** @type {PointerEvent} */ event) => {
    if (event.button) return;
    canvas.current?.setPointerCapture(event.pointerId);
    start.current = place(event)[0];
    setDrag([start.current, start.current]);
  };
  const onMove = (/** @type {PointerEvent} */ event) => {
    const [x, y] = place(event);
    if (drag) return setDrag([start.current, x]);
    const span = find(x, y);
    return setHover(span ? { span, x, y } : null);
  };
  const onUp = (/** @type {PointerEvent} */ event) => {
    const [x, y] = place(event);
    setDrag(null);
    if (Math.abs(x - start.current) >= MIN_DRAG_PX) {
      const ends = [toSecs(start.current), toSecs(x)].sort((a, b) => a - b);
      if (ends[1] - ends[0] > 0.5) onZoom({ from: ends[0], to: ends[1] });
      return;
    }
    const span = find(x, y);
    if (span?.trial) go(`/trials/${span.trial}`);
  };
  return html`<div class="timeline-frame">
    <canvas ref=${canvas} class=${hover ? "points" : ""} role="img" aria-label="Slots and their trials over time; the table below has the numbers"
      onPointerDown=${onDown} onPointerMove=${onMove} onPointerUp=${onUp} onPointerLeave=${() => setHover(null)} onPointerCancel=${() => setDrag(null)} onDblClick=${() => onZoom(null)}></canvas>
    ${hover && !drag && html`<${Hint} ...${hover} node=${nodes.get(hover.span.slot)} now=${now} width=${width} />`}
  </div>`;
}

/** @param {{span: Span, node?: string, x: number, y: number, now: number, width: number}} props */
function Hint({ span, node, x, y, now, width }) {
  const isRight = x > width / 2;
  return html`<div class="timeline-hint" role="status" style=${{ left: `${x + (isRight ? -12 : 12)}px`, top: `${y + 16}px`, transform: isRight ? "translateX(-100%)" : "none" }}>
    ${span.trial ? html`<b>Trial ${span.trial}</b> of experiment ${span.experiment}` : html`<b>In use</b> by another project`}<br />slot ${span.slot}${node ? ` of ${node}` : ""}, ${time(span.start)}, ${span.end === null ? `for ${duration(now - span.start)} now` : `for ${duration(span.end - span.start)}`}</div>`;
}

/** @typedef {{span: Span, x: number, y: number, width: number}} Bar */

/** @param {Span[]} spans @param {number[]} slots @param {Range} range @param {number} now @param {(secs: number) => number} toX @returns {Bar[]} */
function placeBars(spans, slots, range, now, toX) {
  const rows = new Map(slots.map((slot, row) => [slot, row]));
  return spans.flatMap((span) => {
    const part = clip(span, range, now);
    if (!part) return [];
    const x = toX(part[0]);
    return [{ span, x, y: AXIS_PX + (rows.get(span.slot) ?? 0) * ROW_PX + (ROW_PX - BAR_PX) / 2, width: Math.max(1, toX(part[1]) - x) }];
  });
}

/** @param {HTMLCanvasElement} canvas @param {number} width @param {number} height */
function prepare(canvas, width, height) {
  const ratio = window.devicePixelRatio || 1;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const context = canvas.getContext("2d");
  context?.scale(ratio, ratio);
  return context;
}

/** Slots, times, and the ground of idle time. @param {CanvasRenderingContext2D} context @param {any} place */
function paintGround(context, { slots, range, width, inner, toX, theme }) {
  const height = AXIS_PX + slots.length * ROW_PX;
  context.font = "12px system-ui, sans-serif";
  context.textBaseline = "middle";
  slots.forEach((/** @type {number} */ slot, /** @type {number} */ row) => {
    const y = AXIS_PX + row * ROW_PX;
    context.fillStyle = theme.fg;
    context.textAlign = "left";
    context.fillText(`slot ${slot}`, 0, y + ROW_PX / 2);
    context.fillStyle = theme.line;
    context.globalAlpha = 0.45;
    context.fillRect(LABEL_PX, y + (ROW_PX - BAR_PX) / 2, inner, BAR_PX);
    context.globalAlpha = 1;
  });
  context.textAlign = "center";
  context.font = "11px system-ui, sans-serif";
  const offset = -new Date(range.from * 1000).getTimezoneOffset() * 60;
  const marks = findTimeTicks(range.from, range.to, Math.max(2, inner / 110), offset);
  const words = writeClockTicks(marks);
  marks.forEach((mark, at) => {
    const x = toX(mark);
    context.fillStyle = theme.line;
    context.fillRect(x, AXIS_PX - 4, 1, height - AXIS_PX + 4);
    context.fillStyle = theme.muted;
    if (x > LABEL_PX + 20 && x < width - 40) context.fillText(words[at], x, 9);
  });
}

/** Paints a trial in a colour of its own, or, where all experiments are shown, of its experiment.
 * @param {CanvasRenderingContext2D} context @param {Bar} bar @param {any} theme @param {number | undefined} ownId @param {boolean} isChosen */
function paintBar(context, bar, theme, ownId, isChosen) {
  const isOther = !bar.span.trial || (ownId !== undefined && bar.span.experiment !== ownId);
  context.fillStyle = isOther ? theme.muted : colorOf(ownId === undefined ? bar.span.experiment : bar.span.trial, theme.isDark);
  context.globalAlpha = isOther ? 0.35 : 1;
  // A gap, so that one trial after the other is seen as two.
  context.fillRect(bar.x, bar.y, Math.max(1, bar.width - (bar.width > 4 ? 1 : 0)), BAR_PX);
  context.globalAlpha = 1;
  if (isChosen) {
    context.strokeStyle = theme.fg;
    context.lineWidth = 2;
    context.strokeRect(bar.x, bar.y, bar.width, BAR_PX);
  }
  const text = bar.span.trial ? String(bar.span.trial) : "in use";
  if (bar.width < 12 + 7 * text.length) return;
  context.fillStyle = isOther ? theme.fg : theme.bg;
  context.textAlign = "left";
  context.font = "600 11px system-ui, sans-serif";
  context.fillText(text, bar.x + 6, bar.y + BAR_PX / 2 + 0.5);
}

/** Names the machines of slots, if there are others than the master's. @param {any[]} slots @returns {Map<number, string>} */
function nameNodes(slots) {
  return new Map(slots.some((slot) => slot.node) ? slots.map((slot) => [slot.id, clean(slot.node || "master")]) : []);
}

/** @param {{slots: any[], nodes: Map<number, string>, use: import("./timeline_layout.js").SlotUse[], status: any}} props */
function UseTable({ slots, nodes, use, status }) {
  const kinds = new Map(slots.map((slot) => [slot.id, slot.device ? `${slot.kind} ${slot.device}` : slot.kind]));
  const hasNodes = nodes.size > 0;
  const waiting = (status?.experiments ?? []).reduce((/** @type {number} */ sum, /** @type {any} */ one) => sum + countTrials(one).waiting, 0);
  return html`<div class="plain-box"><table class="plain"><caption class="visually-hidden">Use of the slots in this time</caption>
    <thead><tr><th scope="col">Slot</th>${hasNodes && html`<th scope="col">Machine</th>`}<th scope="col">Kind</th><th scope="col" class="number">In use</th><th scope="col" class="number">Runs</th><th scope="col">Now</th></tr></thead>
    <tbody>${use.map(({ slot, share, numSpans, trial }) => html`<tr key=${slot}><th scope="row">${slot}</th>${hasNodes && html`<td>${nodes.get(slot) ?? ""}</td>`}<td>${kinds.get(slot) ?? "former slot"}</td>
      <td class="number">${percent(share)}</td><td class="number">${numSpans}</td>
      <td>${trial === null ? html`<span class="muted">idle</span>` : trial === 0 ? "in use" : html`<a href="#/trials/${trial}">trial ${trial}</a>`}</td></tr>`)}</tbody></table></div>
    ${waiting > 0 && html`<p class="muted">${waiting} ${waiting === 1 ? "trial waits" : "trials wait"} for a slot.</p>`}`;
}
