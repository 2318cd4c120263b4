// @ts-check
/** Canvases of parallel coordinates: the lines of all trials, and above them those that a brush keeps. */

/**
 * What is drawn, in CSS pixels.
 * @typedef {object} Layout
 * @property {number} width
 * @property {number} height
 * @property {number} ratio  Pixels of the device in one of CSS.
 * @property {number[]} columns  Where each axis stands.
 * @property {number} top  Of the axes.
 * @property {number} bottom
 * @property {number} missing  Height of the lane for what is missing.
 *
 * @typedef {object} Lines
 * @property {Float32Array[]} places  Of each axis: of each row, from 0 to 1 or NaN.
 * @property {Int16Array} shades  Of each row; -1 for none.
 * @property {string[]} colors
 * @property {string} none  Colour of rows without a shade.
 */

const FIRST_ROWS = 300;
const QUICK_FRAME_MS = 22;
const SLOW_FRAME_MS = 34;
const MAX_HAIRLINE_ROWS = 300;

/**
 * Two canvases over each other, each with how many lines it has in `data-drawn` when all are drawn: the lower one keeps the lines of all rows and becomes pale while there
 * is a brush; the upper one has the rows that the brush keeps. Those are drawn in several frames, the
 * best first and the others beneath them, so that a brush follows the pointer however many there are.
 */
export class ParallelLayers {
  /** @param {HTMLCanvasElement} all @param {HTMLCanvasElement} kept */
  constructor(all, kept) {
    this.all = all;
    this.kept = kept;
    this.frame = 0;
    this.numRows = FIRST_ROWS;
  }

  /**
   * Draws all rows anew.
   * @param {Layout} layout
   * @param {Lines} lines
   * @param {ArrayLike<number>} rows  The last one is on top.
   */
  reset(layout, lines, rows) {
    this.stop();
    this.layout = layout;
    this.lines = lines;
    for (const canvas of [this.all, this.kept]) {
      canvas.width = Math.round(layout.width * layout.ratio);
      canvas.height = Math.round(layout.height * layout.ratio);
    }
    paintRows(prepare(this.all, layout), layout, lines, rows, looksOf(rows.length));
    this.all.dataset.drawn = String(rows.length);
  }

  /**
   * Shows the rows that a brush keeps; null for all.
   * @param {ArrayLike<number> | null} rows  The last one is on top.
   */
  show(rows) {
    this.stop();
    this.all.classList.toggle("pale", rows !== null);
    if (!this.layout) return;
    const context = prepare(this.kept, this.layout);
    context.clearRect(0, 0, this.layout.width, this.layout.height);
    delete this.kept.dataset.drawn;
    if (!rows) return;
    context.globalCompositeOperation = "destination-over";
    this.#showBefore(rows, rows.length, performance.now() - QUICK_FRAME_MS);
  }

  /** Ends what is still drawn. */
  stop() {
    cancelAnimationFrame(this.frame);
  }

  /** Draws the rows before `end`, as many as fit in a frame. @param {ArrayLike<number>} rows @param {number} end @param {number} before */
  #showBefore(rows, end, before) {
    const now = performance.now();
    // Browsers paint after this returns: only the time between frames says how long it took.
    if (now - before < QUICK_FRAME_MS) this.numRows *= 1.5;
    else if (now - before > SLOW_FRAME_MS) this.numRows = Math.max(50, this.numRows / 2);
    const start = Math.max(0, Math.floor(end - this.numRows));
    const part = Array.prototype.slice.call(rows, start, end).reverse();
    const { layout, lines } = this;
    if (!layout || !lines) return;
    paintRows(/** @type {CanvasRenderingContext2D} */ (this.kept.getContext("2d")), layout, lines, part, looksOf(rows.length));
    if (start > 0) this.frame = requestAnimationFrame(() => this.#showBefore(rows, start, now));
    else this.kept.dataset.drawn = String(rows.length);
  }
}

/**
 * Draws rows one after the other.
 * @param {CanvasRenderingContext2D} context
 * @param {Layout} layout
 * @param {Lines} lines
 * @param {ArrayLike<number>} rows
 * @param {{alpha: number, width: number}} looks
 */
export function paintRows(context, layout, { places, shades, colors, none }, rows, { alpha, width }) {
  const { columns, top, bottom, missing } = layout;
  const height = bottom - top;
  context.lineWidth = width;
  context.globalAlpha = alpha;
  let shade = -2;
  for (let i = 0; i < rows.length; i++) {
    const row = rows[i];
    if (shades[row] !== shade) {
      shade = shades[row];
      context.strokeStyle = shade < 0 ? none : colors[shade];
    }
    context.beginPath();
    for (let axis = 0; axis < columns.length; axis++) {
      const place = places[axis][row];
      const y = place === place ? bottom - place * height : missing;
      if (axis) context.lineTo(columns[axis], y);
      else context.moveTo(columns[axis], y);
    }
    context.stroke();
  }
  context.globalAlpha = 1;
}

/**
 * Returns the row whose line is nearest to a place, or -1 if none is near.
 * @param {Layout} layout
 * @param {Float32Array[]} places
 * @param {ArrayLike<number>} rows
 * @param {number} px
 * @param {number} py
 * @param {number} radius
 */
export function findRow(layout, places, rows, px, py, radius) {
  const { columns, top, bottom, missing } = layout;
  let right = columns.findIndex((column) => column >= px);
  if (right < 0) right = columns.length - 1;
  const left = Math.max(0, right - 1);
  const part = columns[right] > columns[left] ? (px - columns[left]) / (columns[right] - columns[left]) : 0;
  if (part < -0.1 || part > 1.1) return -1;
  const toY = (/** @type {number} */ place) => (place === place ? bottom - place * (bottom - top) : missing);
  let best = -1;
  let distance = radius;
  // From the top: of lines that are equally near, the one that is seen.
  for (let i = rows.length - 1; i >= 0; i--) {
    const row = rows[i];
    const y = toY(places[left][row]) * (1 - part) + toY(places[right][row]) * part;
    if (Math.abs(y - py) < distance) {
      distance = Math.abs(y - py);
      best = row;
    }
  }
  return best;
}

/** Lines of many trials lie over each other: pale, they show where many are. @param {number} count */
function looksOf(count) {
  const alpha = count > 3000 ? 0.15 : count > 500 ? 0.3 : count > 100 ? 0.6 : 0.95;
  return { alpha, width: count > MAX_HAIRLINE_ROWS ? 1 : count > 20 ? 1.4 : 2 };
}

/** @param {HTMLCanvasElement} canvas @param {Layout} layout */
function prepare(canvas, layout) {
  const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
  context.setTransform(layout.ratio, 0, 0, layout.ratio, 0, 0);
  context.globalCompositeOperation = "source-over";
  context.lineJoin = "bevel";
  return context;
}
