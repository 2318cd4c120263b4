// @ts-check
/** Canvas of parallel coordinates: all trials pale on a layer that is kept, the brushed ones on top. */

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

const FRAME_MS = 9;
const CHUNK = 64;
const PALE_ALPHA = 0.1;

/**
 * Draws rows in several frames, so that none takes long; a new call ends the one before.
 */
export class ParallelLayers {
  /** @param {HTMLCanvasElement} canvas */
  constructor(canvas) {
    this.canvas = canvas;
    this.pale = document.createElement("canvas");
    this.full = document.createElement("canvas");
    this.frame = 0;
    /** @type {(() => void) | null} */
    this.whenDone = null;
  }

  /**
   * Draws all rows anew, on the layers that are kept.
   * @param {Layout} layout
   * @param {Lines} lines
   * @param {ArrayLike<number>} rows  The last one is on top.
   */
  reset(layout, lines, rows) {
    cancelAnimationFrame(this.frame);
    this.layout = layout;
    this.lines = lines;
    for (const canvas of [this.canvas, this.pale, this.full]) {
      canvas.width = Math.round(layout.width * layout.ratio);
      canvas.height = Math.round(layout.height * layout.ratio);
    }
    paintRows(prepare(this.full, layout), layout, lines, rows, alphaFor(rows.length));
    const pale = context2d(this.pale);
    pale.globalAlpha = PALE_ALPHA;
    pale.drawImage(this.full, 0, 0);
  }

  /**
   * Shows the rows that a brush keeps; null for all.
   * @param {ArrayLike<number> | null} rows  The last one is on top.
   */
  show(rows) {
    cancelAnimationFrame(this.frame);
    const { layout, lines } = this;
    if (!layout || !lines) return;
    const context = context2d(this.canvas);
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.clearRect(0, 0, this.canvas.width, this.canvas.height);
    context.drawImage(rows ? this.pale : this.full, 0, 0);
    if (!rows) return;
    prepare(this.canvas, layout);
    this.#showFrom(rows, 0);
  }

  /** Ends what is still drawn. */
  stop() {
    cancelAnimationFrame(this.frame);
  }

  /** @param {ArrayLike<number>} rows @param {number} from */
  #showFrom(rows, from) {
    const layout = /** @type {Layout} */ (this.layout);
    const lines = /** @type {Lines} */ (this.lines);
    const context = context2d(this.canvas);
    const start = performance.now();
    let next = from;
    while (next < rows.length && performance.now() - start < FRAME_MS) {
      const end = Math.min(next + CHUNK, rows.length);
      paintRows(context, layout, lines, Array.prototype.slice.call(rows, next, end), alphaFor(rows.length));
      next = end;
    }
    if (next < rows.length) this.frame = requestAnimationFrame(() => this.#showFrom(rows, next));
  }
}

/**
 * Draws rows one after the other.
 * @param {CanvasRenderingContext2D} context
 * @param {Layout} layout
 * @param {Lines} lines
 * @param {ArrayLike<number>} rows
 * @param {number} alpha
 */
export function paintRows(context, layout, { places, shades, colors, none }, rows, alpha) {
  const { columns, top, bottom, missing } = layout;
  const height = bottom - top;
  context.lineWidth = rows.length > 300 ? 1 : 1.3;
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
function alphaFor(count) {
  return count > 3000 ? 0.35 : count > 500 ? 0.5 : count > 100 ? 0.7 : 0.95;
}

/** @param {HTMLCanvasElement} canvas @param {Layout} layout */
function prepare(canvas, layout) {
  const context = context2d(canvas);
  context.setTransform(layout.ratio, 0, 0, layout.ratio, 0, 0);
  context.lineJoin = "bevel";
  return context;
}

/** @param {HTMLCanvasElement} canvas */
function context2d(canvas) {
  return /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
}
