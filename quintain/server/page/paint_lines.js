// @ts-check
/** Paints curves on a canvas: 10,000 of them as quickly as one can look. */

/**
 * A line with its looks.
 * @typedef {import("./series.js").Line & {
 *   color: string, dash?: number[], width?: number, alpha?: number, band?: {lo: Float64Array, hi: Float64Array},
 * }} PaintedLine
 */

const MARK_PX = 3;

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
    paintLine(context, view, line, !isMany);
  }
  context.globalAlpha = 1;
  context.setLineDash([]);
}

/**
 * @param {CanvasRenderingContext2D} context @param {import("./plot.js").View} view @param {PaintedLine} line
 * @param {boolean} hasMarks  Whether a point without neighbours is marked.
 */
function paintLine(context, view, { x, y, color }, hasMarks) {
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
      if (hasMarks || x.length === 1) {
        context.fillStyle = color;
        context.fillRect(px - MARK_PX / 2, py - MARK_PX / 2, MARK_PX, MARK_PX);
      }
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
  paintLine(context, view, line, true);
  context.strokeStyle = line.color;
  context.lineWidth = 2.5;
  context.setLineDash(line.dash ?? []);
  paintLine(context, view, line, true);
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
