// @ts-check
/** The frame of a chart: axes, zoom, cursor and tooltip by uPlot; what is inside is painted by the caller. */
import { useTheme } from "./colors.js";
import {
  buildScale, findLogTicks, findTicks, findTimeTicks, writeClockTicks, writeDurationTicks, writeLogTicks, writeTicks,
} from "./scales.js";
import { html, useEffect, useLayoutEffect, useRef, useState } from "./vendor/preact.js";

/**
 * @typedef {"number" | "whole" | "log" | "duration" | "clock" | "category"} AxisKind
 * @typedef {{label: string, kind: AxisKind, lo: number, hi: number, categories?: string[]}} PlotAxis
 *
 * The inside of the frame; places are in CSS pixels from its upper left corner.
 * @typedef {object} View
 * @property {number} width
 * @property {number} height
 * @property {(value: number) => number} toX
 * @property {(value: number) => number} toY
 * @property {(px: number) => number} toValueX
 * @property {(py: number) => number} toValueY
 * @property {import("./colors.js").Theme} theme
 *
 * @typedef {[number, number, number, number]} Zoom  Lowest and highest x, lowest and highest y.
 */

/** The library stands before the page's modules in `index.html`. @type {any} */
const uPlot = /** @type {any} */ (globalThis).uPlot;

const MIN_DRAG_PX = 5;
const TICK_WIDTH_PX = 80;
const TICK_HEIGHT_PX = 38;
const CHARACTER_PX = 6.6;

/**
 * Shows a frame in which `paint` draws.
 * @template Hit
 * @param {object} props
 * @param {PlotAxis} props.x
 * @param {PlotAxis} props.y
 * @param {(context: CanvasRenderingContext2D, view: View) => void} props.paint  A new function paints anew.
 * @param {number} [props.count]  How many things it draws; programs see by `data-drawn` of the canvas that they are drawn.
 * @param {(view: View, px: number, py: number) => Hit | null} [props.locate]  What is at a place.
 * @param {(context: CanvasRenderingContext2D, view: View, hit: Hit) => void} [props.paintHit]
 * @param {(hit: Hit) => any} [props.tooltip]
 * @param {(view: View, hit: Hit | null, key: string) => {hit: Hit, px: number, py: number} | null} [props.step]
 *     Where an arrow key leads.
 * @param {(hit: Hit | null) => void} [props.onHover]
 * @param {(hit: Hit, event: MouseEvent | KeyboardEvent) => void} [props.onPick]
 * @param {(zoom: Zoom | null) => void} [props.onZoom]
 * @param {string} [props.syncKey]  Frames of one key show each other's cursor.
 * @param {number} [props.height]  CSS pixels.
 * @param {any} [props.caption]  Instead of the name of the vertical axis; also that of the other one then.
 * @param {string} props.label  What a screen reader says.
 */
export function Plot(props) {
  const theme = useTheme();
  const host = useRef(/** @type {HTMLElement | null} */ (null));
  const plot = useRef(/** @type {any} */ (null));
  const now = useRef({ props, theme });
  now.current = { props, theme };
  const [hover, setHover] = useState(/** @type {{hit: any, px: number, py: number} | null} */ (null));
  const height = props.height ?? 320;

  const show = (/** @type {{hit: any, px: number, py: number} | null} */ next) => {
    setHover((old) => (old?.hit === next?.hit && !next ? old : next));
    if (plot.current) paintTop(plot.current, now.current, next?.hit ?? null);
    now.current.props.onHover?.(next?.hit ?? null);
  };

  useLayoutEffect(() => {
    const element = /** @type {HTMLElement} */ (host.current);
    const made = new uPlot(options(element, height, now, show), [[0, 1], [0, 1]], element);
    plot.current = made;
    const observer = new ResizeObserver(() => {
      if (element.clientWidth && element.clientWidth !== made.width) made.setSize({ width: element.clientWidth, height });
    });
    observer.observe(element);
    return () => {
      observer.disconnect();
      made.destroy();
      plot.current = null;
    };
  }, [height, props.syncKey]);

  useEffect(() => {
    if (!plot.current) return;
    plot.current.redraw(false, true);
    if (!hover) return;
    // What is under the pointer now may be something else: trials come, curves grow.
    const hit = props.locate?.(viewOf(plot.current, now.current), hover.px, hover.py) ?? null;
    show(hit && { ...hover, hit });
  }, [props.paint, props.x, props.y, theme]);

  const onKeyDown = (/** @type {KeyboardEvent} */ event) => {
    if (!plot.current) return;
    if (event.key === "Escape" || event.key === "0") {
      props.onZoom?.(null);
      show(null);
    } else if (event.key === "+" || event.key === "-") {
      props.onZoom?.(zoomBy(props, event.key === "+" ? 0.5 : 2));
    } else if (event.key === "Enter" && hover) {
      props.onPick?.(hover.hit, event);
    } else if (event.key.startsWith("Arrow") && props.step) {
      const next = props.step(viewOf(plot.current, now.current), hover?.hit ?? null, event.key);
      if (next) show(next);
    } else {
      return;
    }
    event.preventDefault();
  };

  return html`<div class="plot" role="group" tabindex="0" aria-label=${props.label} onKeyDown=${onKeyDown}>
    <div class="plot-caption">${props.caption ?? props.y.label}</div>
    <div class="plot-frame">
      <div class="plot-host" ref=${host} style=${{ height: `${height}px` }}></div>
      ${hover && props.tooltip && plot.current && html`<${Tooltip} ...${hover} plot=${plot.current} text=${props.tooltip(hover.hit)} />`}
    </div>
    ${props.caption === undefined && html`<div class="plot-caption plot-caption-x">${props.x.label}</div>`}
  </div>`;
}

/** @param {{px: number, py: number, plot: any, text: any}} props */
function Tooltip({ px, py, plot, text }) {
  const isLeft = px > plot.over.clientWidth / 2;
  const isAbove = py > plot.over.clientHeight / 2;
  const left = plot.over.offsetLeft + px + (isLeft ? -14 : 14);
  const top = plot.over.offsetTop + py + (isAbove ? -10 : 10);
  const moved = `translate(${isLeft ? "-100%" : "0"}, ${isAbove ? "-100%" : "0"})`;
  return html`<div class="plot-tooltip" role="status" style=${{ left: `${left}px`, top: `${top}px`, transform: moved }}>${text}</div>`;
}

/** @param {HTMLElement} element @param {number} height @param {any} now @param {any} show */
function options(element, height, now, show) {
  const theme = () => now.current.theme;
  const axis = (/** @type {"x" | "y"} */ name) => ({
    stroke: () => theme().muted,
    grid: { stroke: () => theme().line, width: 1 },
    ticks: { show: false },
    font: "11px system-ui, sans-serif",
    gap: 5,
    size: name === "x" ? 24 : (/** @type {any} */ _, /** @type {string[]} */ texts) => sizeOf(texts),
    splits: (/** @type {any} */ plot) => ticksOf(plot, now.current, name).places,
    values: (/** @type {any} */ plot) => ticksOf(plot, now.current, name).texts,
  });
  const sync = now.current.props.syncKey 
    ? { key: now.current.props.syncKey, scales: ["x", null], setSeries: false, filters: { pub: isMove, sub: isMove } }
    : undefined;
  return {
    width: element.clientWidth || 600,
    height,
    pxAlign: 0,
    padding: [10, 20, 0, 0],
    legend: { show: false },
    scales: { x: { time: false, range: [0, 1] }, y: { range: [0, 1] } },
    series: [{}, { paths: () => null, points: { show: false } }],
    axes: [axis("x"), axis("y")],
    cursor: {
      y: false,
      points: { show: false },
      drag: { x: true, y: true, uni: 24, setScale: false },
      sync,
      bind: { dblclick: () => () => now.current.props.onZoom?.(null) },
    },
    hooks: {
      ready: [(/** @type {any} */ plot) => listen(plot, now, show)],
      draw: [(/** @type {any} */ plot) => paintInside(plot, now.current)],
      setSelect: [(/** @type {any} */ plot) => select(plot, now.current)],
    },
  };
}

/** Other frames show the cursor; what is dragged over is this frame's own. @param {string} type */
function isMove(type) {
  return type === "mousemove" || type === "mouseleave" || type === "mouseenter";
}

/** @param {any} plot @param {any} now @param {any} show */
function listen(plot, now, show) {
  const canvas = document.createElement("canvas");
  canvas.className = "plot-top";
  plot.over.append(canvas);
  const at = (/** @type {MouseEvent} */ event) => {
    const box = plot.over.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };
  const find = (/** @type {MouseEvent} */ event) => {
    const [px, py] = at(event);
    const hit = now.current.props.locate?.(viewOf(plot, now.current), px, py) ?? null;
    return hit && { hit, px, py };
  };
  let frame = 0;
  plot.over.addEventListener("mousemove", (/** @type {MouseEvent} */ event) => {
    cancelAnimationFrame(frame);
    frame = requestAnimationFrame(() => show(event.buttons ? null : find(event)));
  });
  plot.over.addEventListener("mouseleave", () => {
    cancelAnimationFrame(frame);
    show(null);
  });
  let start = [0, 0];
  plot.over.addEventListener("mousedown", (/** @type {MouseEvent} */ event) => (start = at(event)));
  plot.over.addEventListener("mouseup", (/** @type {MouseEvent} */ event) => {
    const [px, py] = at(event);
    if (event.button || Math.hypot(px - start[0], py - start[1]) >= MIN_DRAG_PX) return;
    const found = find(event);
    if (found) now.current.props.onPick?.(found.hit, event);
  });
}

/** Paints inside of the frame, in CSS pixels. @param {any} plot @param {any} current */
function paintInside(plot, current) {
  const { ctx, bbox } = plot;
  const view = viewOf(plot, current);
  ctx.save();
  ctx.beginPath();
  ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
  ctx.clip();
  ctx.translate(bbox.left, bbox.top);
  ctx.scale(bbox.width / view.width, bbox.height / view.height);
  current.props.paint(ctx, view);
  ctx.restore();
  ctx.canvas.dataset.drawn = String(current.props.count ?? "");
}

/** Paints what is pointed at on a canvas of its own, so that the rest stays. @param {any} plot @param {any} current @param {any} hit */
function paintTop(plot, current, hit) {
  const canvas = plot.over.querySelector("canvas");
  const view = viewOf(plot, current);
  canvas.width = plot.bbox.width;
  canvas.height = plot.bbox.height;
  if (!hit || !current.props.paintHit) return;
  const context = canvas.getContext("2d");
  context.scale(canvas.width / view.width, canvas.height / view.height);
  current.props.paintHit(context, view, hit);
}

/** Turns what was dragged over into a zoom. @param {any} plot @param {any} current */
function select(plot, current) {
  const { left, top, width, height } = plot.select;
  if (width < MIN_DRAG_PX && height < MIN_DRAG_PX) return;
  plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
  const { x, y } = scalesOf(current.props);
  const [across, down] = [plot.over.clientWidth, plot.over.clientHeight];
  current.props.onZoom?.([
    x.toValue(left / across), x.toValue((left + width) / across),
    y.toValue(1 - (top + height) / down), y.toValue(1 - top / down),
  ]);
}

/** @param {any} props @param {number} factor @returns {Zoom} */
function zoomBy(props, factor) {
  const { x, y } = scalesOf(props);
  const [from, to] = [0.5 - factor / 2, 0.5 + factor / 2];
  return [x.toValue(from), x.toValue(to), y.toValue(from), y.toValue(to)];
}

/** @param {{x: PlotAxis, y: PlotAxis}} props */
function scalesOf({ x, y }) {
  return { x: buildScale(x.lo, x.hi, x.kind === "log"), y: buildScale(y.lo, y.hi, y.kind === "log") };
}

/** @param {any} plot @param {any} current @returns {View} */
function viewOf(plot, { props, theme }) {
  const { x, y } = scalesOf(props);
  const [width, height] = [plot.over.clientWidth, plot.over.clientHeight];
  return {
    width,
    height,
    theme,
    toX: (value) => x.toUnit(value) * width,
    toY: (value) => (1 - y.toUnit(value)) * height,
    toValueX: (px) => x.toValue(px / width),
    toValueY: (py) => y.toValue(1 - py / height),
  };
}

/** @param {any} plot @param {any} current @param {"x" | "y"} name */
function ticksOf(plot, { props }, name) {
  const axis = /** @type {PlotAxis} */ (props[name]);
  const size = name === "x" ? plot.bbox.width / (plot.pxRatio ?? devicePixelRatio) : plot.bbox.height / (plot.pxRatio ?? devicePixelRatio);
  const count = Math.max(2, Math.floor(size / (name === "x" ? TICK_WIDTH_PX : TICK_HEIGHT_PX)));
  const [values, texts] = listTicks(axis, count, name === "x" ? size : Infinity);
  const scale = buildScale(axis.lo, axis.hi, axis.kind === "log");
  return { places: values.map(scale.toUnit), texts };
}

/** @param {PlotAxis} axis @param {number} count @param {number} room  CSS pixels for the texts of all categories. @returns {[number[], string[]]} */
function listTicks({ kind, lo, hi, categories = [] }, count, room) {
  if (kind === "category") {
    const stride = Math.ceil(categories.length / (2 * count));
    const shown = categories.map((_, i) => i).filter((i) => i % stride === 0 && i >= lo && i <= hi);
    const length = Math.max(3, Math.floor(room / Math.max(shown.length, 1) / CHARACTER_PX) - 1);
    return [shown, shown.map((i) => shorten(categories[i], Math.min(length, 18)))];
  }
  if (kind === "log") {
    const ticks = findLogTicks(lo, hi, count);
    return [ticks, writeLogTicks(ticks)];
  }
  if (kind === "duration") {
    const ticks = findTimeTicks(lo, hi, count);
    return [ticks, writeDurationTicks(ticks)];
  }
  if (kind === "clock") {
    const ticks = findTimeTicks(lo, hi, count, -new Date(lo * 1000).getTimezoneOffset() * 60);
    return [ticks, writeClockTicks(ticks)];
  }
  const ticks = findTicks(lo, hi, count, kind === "whole");
  return [ticks, writeTicks(ticks)];
}

/** @param {string[] | null} texts  Of the ticks of the vertical axis. */
function sizeOf(texts) {
  const longest = Math.max(4, ...(texts ?? []).map((text) => text.length));
  return Math.min(longest * CHARACTER_PX + 14, 130);
}

/** @param {string} text @param {number} length */
function shorten(text, length) {
  return text.length > length ? `${text.slice(0, length - 1)}…` : text;
}
