// @ts-check
/** Paints curves on a canvas: 10,000 of them as quickly as one can look. */
import { number } from "./format.js";

/**
 * A line with its looks.
 * @typedef {import("./series.js").Line & {
 *   color: string, dash?: number[], width?: number, alpha?: number, band?: {lo: Float64Array, hi: Float64Array},
 * }} PaintedLine
 */

const MARK_PX = 2.5;
const FONT = "12px system-ui, sans-serif";
const MAX_MARKED = 12;

/**
 * @param {CanvasRenderingContext2D} context  Scaled to CSS pixels.
 * @param {import("./plot.js").View} view
 * @param {PaintedLine[]} lines
 */
export function paintLines(context, view, lines) {
  const isMany = lines.length > 200;
  context.lineJoin = isMany ? "bevel" : "round";
  for (const line of lines) {
    context.globalAlpha = line.alpha ?? 1;
    if (line.band) paintBand(context, view, line);
    context.strokeStyle = line.color;
    context.lineWidth = line.width ?? (isMany ? 1 : lines.length > 20 ? 1.5 : 2);
    if (!isMany || line.dash?.length) context.setLineDash(isMany ? [] : (line.dash ?? []));
    paintLine(context, view, line);
    if (!isMany && line.x.length <= MAX_MARKED) paintMarks(context, view, line);
    if (lines.length === 1 && line.x.length === 1) paintValue(context, view, line);
  }
  context.globalAlpha = 1;
  context.setLineDash([]);
}

/** Points of a short line are seen each. @param {CanvasRenderingContext2D} context @param {import("./plot.js").View} view @param {PaintedLine} line */
function paintMarks(context, view, { x, y, color }) {
  context.fillStyle = color;
  for (let i = 0; i < x.length; i++) {
    const [px, py] = [view.toX(x[i]), view.toY(y[i])];
    if (Number.isNaN(px + py)) continue;
    context.beginPath();
    context.arc(px, py, MARK_PX, 0, 2 * Math.PI);
    context.fill();
  }
}

/** Says the value of a point that is alone. @param {CanvasRenderingContext2D} context @param {import("./plot.js").View} view @param {PaintedLine} line */
function paintValue(context, view, { x, y }) {
  context.fillStyle = view.theme.fg;
  context.font = FONT;
  context.textAlign = "left";
  context.textBaseline = "middle";
  context.fillText(number(y[0]), view.toX(x[0]) + 4 * MARK_PX, view.toY(y[0]));
}

/** @param {CanvasRenderingContext2D} context @param {import("./plot.js").View} view @param {PaintedLine} line */
function paintLine(context, view, { x, y, color }) {
  context.beginPath();
  let isDown = false;
  for (let i = 0; i < x.length; i++) {
    const py = view.toY(y[i]);
    if (Number.isNaN(py)) {
      isDown = false;
      continue;
    }
    const px = view.toX(x[i]);
    if (isDown) {
      context.lineTo(px, py);
      continue;
    }
    context.moveTo(px, py);
    isDown = true;
    if (i === x.length - 1 || Number.isNaN(view.toY(y[i + 1]))) {
      // A point without neighbours has no line.
      context.fillStyle = color;
      context.fillRect(px - 1.5, py - 1.5, 3, 3);
    }
  }
  context.stroke();
}

/** @param {CanvasRenderingContext2D} context @param {import("./plot.js").View} view @param {PaintedLine} line */
function paintBand(context, view, { x, band, color }) {
  if (!band) return;
  const places = Array.from(x, (_, i) => i).filter((i) => !Number.isNaN(view.toY(band.lo[i]) + view.toY(band.hi[i])));
  const before = context.globalAlpha;
  context.globalAlpha = before * 0.18;
  context.fillStyle = color;
  context.beginPath();
  for (const i of places) context.lineTo(view.toX(x[i]), view.toY(band.hi[i]));
  for (const i of places.reverse()) context.lineTo(view.toX(x[i]), view.toY(band.lo[i]));
  context.closePath();
  context.fill();
  context.globalAlpha = before;
}

/**
 * Paints one line above all others, and a ring around one of its points.
 * @param {CanvasRenderingContext2D} context
 * @param {import("./plot.js").View} view
 * @param {PaintedLine} line
 * @param {number} point
 */
export function paintChosen(context, view, line, point) {
  context.lineJoin = "round";
  context.strokeStyle = view.theme.bg;
  context.lineWidth = 6;
  paintLine(context, view, line);
  context.strokeStyle = line.color;
  context.lineWidth = 2.5;
  context.setLineDash(line.dash ?? []);
  paintLine(context, view, line);
  context.setLineDash([]);
  const [px, py] = [view.toX(line.x[point]), view.toY(line.y[point])];
  if (Number.isNaN(px + py)) return;
  context.fillStyle = view.theme.bg;
  context.lineWidth = 2;
  context.beginPath();
  context.arc(px, py, 4, 0, 2 * Math.PI);
  context.fill();
  context.stroke();
}
