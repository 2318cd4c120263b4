// @ts-check
/** The drawing of parallel coordinates, and what a pointer does on it. */
import { setRange } from "./brush.js";
import { toRange, toStretches } from "./axes.js";
import { brief } from "./chart_table.js";
import { findRow, ParallelLayers } from "./parallel_layers.js";
import { html, useEffect, useLayoutEffect, useMemo, useRef, useState } from "./vendor/preact.js";

const HEIGHT_PX = 440;
const TOP_PX = 58;
const BOTTOM_PX = 40;
const SIDE_PX = 100;
const GRAB_PX = 22;
const HIT_PX = 8;
const MIN_DRAG_PX = 4;
const MIN_AXIS_PX = 120;

/**
 * @param {object} props
 * @param {import("./experiment_data.js").ExperimentData} props.data
 * @param {import("./axes.js").Axis[]} props.axes
 * @param {Int32Array} props.rows  The last one is on top.
 * @param {Int32Array | null} props.brushed  Those that the brushes keep; null without brushes.
 * @param {import("./brush.js").Brush} props.brush
 * @param {(brush: import("./brush.js").Brush) => void} props.setBrush
 * @param {Set<number>} props.selection
 * @param {{colors: string[], shades: Int16Array}} props.shading
 * @param {import("./colors.js").Theme} props.theme
 * @param {string} props.edited  Key of the axis whose form is open.
 * @param {(key: string) => void} props.setEdited
 * @param {(key: string, place: number) => void} props.onMove
 * @param {(row: number) => void} props.onPick
 */
export function ParallelCanvas(props) {
  const { data, axes, rows, brushed, brush, selection, shading, theme } = props;
  const host = useRef(/** @type {HTMLElement | null} */ (null));
  const lower = useRef(/** @type {HTMLCanvasElement | null} */ (null));
  const middle = useRef(/** @type {HTMLCanvasElement | null} */ (null));
  const upper = useRef(/** @type {HTMLCanvasElement | null} */ (null));
  const layers = useRef(/** @type {ParallelLayers | null} */ (null));
  const size = useSize(host);
  const [hover, setHover] = useState(/** @type {{row: number, px: number, py: number} | null} */ (null));
  const [moved, setMoved] = useState(/** @type {{key: string, px: number} | null} */ (null));
  const layout = useMemo(() => layOut(size, axes.length), [size.width, size.ratio, axes.length]);
  const lines = useMemo(() => ({ places: axes.map((axis) => axis.places), ...shading, none: theme.muted }), [axes, shading, theme]);

  useEffect(() => {
    if (!layout || !lower.current || !middle.current) return;
    layers.current ??= new ParallelLayers(lower.current, middle.current);
    layers.current.reset(layout, lines, rows);
    layers.current.show(brushed);
  }, [layout, lines, rows]);
  useEffect(() => layers.current?.show(brushed), [brushed]);
  useEffect(() => () => layers.current?.stop(), []);
  useEffect(() => {
    if (!layout || !upper.current) return;
    const chosen = [...selection].map((id) => data.rowOf(id)).filter((row) => row >= 0);
    paintTop(upper.current, { layout, lines, axes, brush, theme, chosen, hover: hover?.row ?? -1 });
  }, [layout, lines, brush, theme, selection, hover?.row]);

  const pointer = usePointer({ props, layout, host, setHover });
  return html`<div class="parallel-scroll"><div class="parallel-host" ref=${host} style=${{ height: `${HEIGHT_PX}px`, minWidth: `${SIDE_PX + MIN_AXIS_PX * axes.length}px` }}>
    <canvas ref=${lower} class="plot-top" aria-hidden="true"></canvas>
    <canvas ref=${middle} class="plot-top" aria-hidden="true"></canvas>
    <canvas ref=${upper} class="parallel-front" role="img" ...${pointer}
      aria-label=${`Parallel coordinates of ${rows.length} trials over ${axes.map((axis) => axis.label).join(", ")}. The table below has the values.`}></canvas>
    ${layout && axes.map((axis, i) => html`<${AxisName} key=${axis.key} axis=${axis} place=${i} layout=${layout} isEdited=${props.edited === axis.key}
      isBrushed=${axis.key in brush} moved=${moved?.key === axis.key ? moved.px : null} setMoved=${setMoved}
      onMove=${props.onMove} onEdit=${() => props.setEdited(props.edited === axis.key ? "" : axis.key)} />`)}
    ${hover && layout && html`<${LineTip} data=${data} axes=${axes} layout=${layout} ...${hover} />`}
  </div></div>`;
}

/** The name above an axis: a click opens its range, dragging or arrow keys move it. @param {any} props */
function AxisName({ axis, place, layout, isEdited, isBrushed, moved, setMoved, onMove, onEdit }) {
  const start = useRef(/** @type {{x: number, isDrag: boolean} | null} */ (null));
  const left = moved ?? layout.columns[place];
  const onPointerDown = (/** @type {PointerEvent} */ event) => {
    start.current = { x: event.clientX, isDrag: false };
    /** @type {Element} */ (event.currentTarget).setPointerCapture(event.pointerId);
  };
  const onPointerMove = (/** @type {PointerEvent} */ event) => {
    if (!start.current) return;
    const way = event.clientX - start.current.x;
    start.current.isDrag ||= Math.abs(way) > MIN_DRAG_PX;
    if (start.current.isDrag) setMoved({ key: axis.key, px: layout.columns[place] + way });
  };
  const onPointerUp = (/** @type {PointerEvent} */ event) => {
    const from = start.current;
    start.current = null;
    setMoved(null);
    if (!from?.isDrag) return;
    const px = layout.columns[place] + event.clientX - from.x;
    const others = layout.columns.filter((/** @type {number} */ _, /** @type {number} */ i) => i !== place);
    onMove(axis.key, others.filter((/** @type {number} */ column) => column < px).length);
  };
  const onKeyDown = (/** @type {KeyboardEvent} */ event) => {
    if (event.key !== "ArrowLeft" && event.key !== "ArrowRight") return;
    event.preventDefault();
    onMove(axis.key, place + (event.key === "ArrowLeft" ? -1 : 1));
  };
  const isDragged = () => start.current?.isDrag;
  return html`<button type="button" class="axis-name ${isBrushed ? "brushed" : ""} ${moved === null ? "" : "moved"}" aria-expanded=${String(isEdited)}
    title=${`${axis.path}: click for its range, drag or arrow keys to move it`} style=${{ left: `${left}px`, maxWidth: `${axisWidth(layout)}px` }}
    onPointerDown=${onPointerDown} onPointerMove=${onPointerMove} onPointerUp=${onPointerUp} onPointerCancel=${() => { start.current = null; setMoved(null); }}
    onClick=${() => !isDragged() && moved === null && onEdit()} onKeyDown=${onKeyDown}>${axis.label}</button>`;
}

/** @param {any} props */
function LineTip({ data, axes, layout, row, px, py }) {
  const isLeft = px > layout.width / 2;
  const moved = `translate(${isLeft ? "calc(-100% - 14px)" : "14px"}, ${py > layout.height / 2 ? "-100%" : "0"})`;
  return html`<div class="plot-tooltip" role="status" style=${{ left: `${px}px`, top: `${py}px`, transform: moved }}>
    <div class="trial-tip"><b>Trial ${data.ids[row]}</b> <span class="muted">${data.outcome(row)}</span>
    <dl>${axes.map((/** @type {any} */ axis) => html`<dt>${axis.label}</dt><dd>${brief(data.value(axis.key, row)) || "–"}</dd>`)}</dl></div></div>`;
}

/** What a pointer does: brush an axis, take a brush away by a click, name and pick lines. @param {any} given */
function usePointer({ props, layout, host, setHover }) {
  const drag = useRef(/** @type {{index: number, from: number, isDrag: boolean} | null} */ (null));
  const frame = useRef(0);
  const { axes, rows, brushed, brush, setBrush, onPick } = props;
  if (!layout) return {};
  const at = (/** @type {PointerEvent} */ event) => {
    const box = /** @type {HTMLElement} */ (host.current).getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };
  const toUnit = (/** @type {number} */ py) => (layout.bottom - py) / (layout.bottom - layout.top);
  const nearest = (/** @type {number} */ px) => layout.columns.findIndex((/** @type {number} */ column) => Math.abs(column - px) < GRAB_PX);
  const hit = (/** @type {number} */ px, /** @type {number} */ py) =>
    findRow(layout, axes.map((/** @type {any} */ axis) => axis.places), brushed ?? rows, px, py, HIT_PX);
  const isMissingLane = (/** @type {number} */ py) => Math.abs(py - layout.missing) < 10;
  return {
    onPointerDown(/** @type {PointerEvent} */ event) {
      const [px, py] = at(event);
      const index = nearest(px);
      if (index < 0 || event.button) return;
      drag.current = { index, from: py, isDrag: false };
      /** @type {Element} */ (event.currentTarget).setPointerCapture(event.pointerId);
      setHover(null);
    },
    onPointerMove(/** @type {PointerEvent} */ event) {
      const [px, py] = at(event);
      cancelAnimationFrame(frame.current);
      frame.current = requestAnimationFrame(() => {
        const current = drag.current;
        if (!current) {
          const row = event.buttons ? -1 : hit(px, py);
          setHover(row < 0 ? null : { row, px, py });
          return;
        }
        current.isDrag ||= Math.abs(py - current.from) > MIN_DRAG_PX;
        if (current.isDrag) setBrush(setRange(brush, axes[current.index].key, toRange(axes[current.index], toUnit(current.from), toUnit(py))));
      });
    },
    onPointerUp(/** @type {PointerEvent} */ event) {
      const [px, py] = at(event);
      const current = drag.current;
      drag.current = null;
      cancelAnimationFrame(frame.current);
      const axis = current && axes[current.index];
      if (current?.isDrag) {
        setBrush(setRange(brush, axis.key, toRange(axis, toUnit(current.from), toUnit(py))));
      } else if (axis && isMissingLane(py) && axis.numMissing && !(axis.key in brush)) {
        setBrush(setRange(brush, axis.key, new Set([""])));
      } else if (axis && axis.key in brush) {
        setBrush(setRange(brush, axis.key, null));
      } else {
        const row = hit(px, py);
        if (row >= 0) onPick(row);
      }
    },
    onPointerLeave() {
      cancelAnimationFrame(frame.current);
      setHover(null);
    },
    onPointerCancel: () => (drag.current = null),
  };
}

/** Axes, brushes, selected lines and the one that is pointed at. @param {HTMLCanvasElement} canvas @param {any} scene */
function paintTop(canvas, { layout, lines, axes, brush, theme, chosen, hover }) {
  canvas.width = Math.round(layout.width * layout.ratio);
  canvas.height = Math.round(layout.height * layout.ratio);
  const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
  context.setTransform(layout.ratio, 0, 0, layout.ratio, 0, 0);
  for (const row of hover >= 0 ? [...chosen, hover] : chosen) {
    markRow(context, layout, lines, row, theme.bg, 5);
    markRow(context, layout, lines, row, row === hover ? theme.fg : theme.accent, 2.5);
  }
  context.font = "11px system-ui, sans-serif";
  context.textBaseline = "middle";
  const hasMissing = axes.some((/** @type {any} */ axis) => axis.numMissing);
  axes.forEach((/** @type {import("./axes.js").Axis} */ axis, /** @type {number} */ i) => {
    paintAxis(context, layout, axis, layout.columns[i], brush[axis.key], theme, hasMissing);
  });
  if (!hasMissing) return;
  context.fillStyle = theme.muted;
  context.textAlign = "left";
  context.fillText("missing", 6, layout.missing);
}

/** @param {CanvasRenderingContext2D} context @param {any} layout @param {any} lines @param {number} row @param {string} color @param {number} width */
function markRow(context, layout, { places }, row, color, width) {
  context.strokeStyle = color;
  context.lineWidth = width;
  context.beginPath();
  layout.columns.forEach((/** @type {number} */ column, /** @type {number} */ i) => {
    const place = places[i][row];
    context.lineTo(column, Number.isNaN(place) ? layout.missing : layout.bottom - place * (layout.bottom - layout.top));
  });
  context.stroke();
}

/**
 * @param {CanvasRenderingContext2D} context @param {any} layout @param {import("./axes.js").Axis} axis @param {number} px
 * @param {import("./brush.js").Range | undefined} range @param {import("./colors.js").Theme} theme @param {boolean} hasMissing
 */
function paintAxis(context, layout, axis, px, range, theme, hasMissing) {
  const { top, bottom, missing } = layout;
  const toY = (/** @type {number} */ place) => bottom - place * (bottom - top);
  context.strokeStyle = theme.fg;
  context.globalAlpha = 0.7;
  context.lineWidth = 1;
  context.beginPath();
  context.moveTo(px, top);
  context.lineTo(px, bottom);
  if (hasMissing) {
    context.moveTo(px - 5, missing);
    context.lineTo(px + 5, missing);
  }
  context.stroke();
  context.globalAlpha = 1;
  context.textAlign = "left";
  context.lineWidth = 3;
  context.strokeStyle = theme.bg;
  context.lineJoin = "round";
  for (const { place, text } of axis.ticks) {
    context.strokeText(cut(text), px + 6, toY(place));
    context.fillStyle = theme.fg;
    context.fillText(cut(text), px + 6, toY(place));
    context.fillRect(px - 3, toY(place) - 0.5, 6, 1);
  }
  const stretches = range instanceof Set && range.has("") ? [...toStretches(axis, range), null] : toStretches(axis, range);
  for (const stretch of stretches) {
    const [low, high] = stretch ? [toY(stretch[0]), toY(stretch[1])] : [missing + 7, missing - 7];
    context.fillStyle = theme.accent;
    context.globalAlpha = 0.25;
    context.fillRect(px - 8, high, 16, Math.max(low - high, 2));
    context.globalAlpha = 1;
    context.strokeStyle = theme.accent;
    context.lineWidth = 1.5;
    context.strokeRect(px - 8, high, 16, Math.max(low - high, 2));
  }
}

/** @param {{width: number, ratio: number}} size @param {number} count @returns {import("./parallel_layers.js").Layout | null} */
function layOut({ width, ratio }, count) {
  if (!width) return null;
  const step = count > 1 ? (width - 2 * SIDE_PX) / (count - 1) : 0;
  return {
    width,
    height: HEIGHT_PX,
    ratio,
    columns: Array.from({ length: count }, (_, i) => SIDE_PX + i * step),
    top: TOP_PX,
    bottom: HEIGHT_PX - BOTTOM_PX,
    missing: HEIGHT_PX - 14,
  };
}

/** @param {import("./parallel_layers.js").Layout} layout */
function axisWidth(layout) {
  return Math.min(2 * SIDE_PX - 8, layout.columns.length > 1 ? layout.columns[1] - layout.columns[0] - 8 : 200);
}

/** Returns the width of an element and the pixels of the device, as they are now. @param {{current: HTMLElement | null}} host */
function useSize(host) {
  const [size, setSize] = useState({ width: 0, ratio: devicePixelRatio });
  useLayoutEffect(() => {
    const element = /** @type {HTMLElement} */ (host.current);
    const update = () => setSize({ width: element.clientWidth, ratio: devicePixelRatio });
    const observer = new ResizeObserver(update);
    observer.observe(element);
    window.addEventListener("resize", update);
    update();
    return () => {
      observer.disconnect();
      window.removeEventListener("resize", update);
    };
  }, []);
  return size;
}

/** @param {string} text */
function cut(text) {
  return text.length > 16 ? `${text.slice(0, 15)}…` : text;
}
