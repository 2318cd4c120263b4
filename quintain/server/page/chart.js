// @ts-check
/** A chart of curves: the one that all views use. */
import { brief, ChartTable } from "./chart_table.js";
import * as format from "./format.js";
import { paintChosen, paintLines } from "./paint_lines.js";
import { Plot } from "./plot.js";
import { sortRows } from "./run_data.js";
import { findExtent, findUsualExtent, padExtent } from "./scales.js";
import { findNearest, orderPoints, smooth, thin } from "./series.js";
import { html, useMemo, useState } from "./vendor/preact.js";

/**
 * A curve; `x` and `y` are replaced, not changed, when points are added.
 * @typedef {object} Series
 * @property {string} name
 * @property {ArrayLike<number>} x
 * @property {ArrayLike<number>} y
 * @property {string} color
 * @property {number[]} [dash]
 * @property {number} [width]  CSS pixels.
 * @property {number} [alpha]
 * @property {{lo: Float64Array, hi: Float64Array}} [band]  A spread around `y`.
 * @property {boolean} [isNamed]  Whether it stands in the legend; yes if it does not say.
 * @property {Record<string, unknown>} [cells]  What the legend says besides the name, by column.
 * @property {Record<string, string>} [texts]  How it writes some of these.
 * @property {any} [key]  Whatever the caller knows it by.
 *
 * @typedef {{series: Series, x: number, y: number, raw: number}} Hit  `raw` is the value before smoothing.
 */

const HIT_PX = 24;
const MAX_POINTS = 4000;
const MAX_NAMED = 24;
const MAX_RAW = 20;
/** Heading of the names in a legend. */
const CURVE = "curve";
/** Around a point that is alone on an axis of time. */
const SINGLE_SECS = 10;

/**
 * @param {object} props
 * @param {Series[]} props.series  In the order of painting: the last one is on top.
 * @param {string} props.xLabel
 * @param {string} props.yLabel
 * @param {"number" | "duration" | "clock"} [props.xKind]
 * @param {boolean} [props.xLog]
 * @param {boolean} [props.yLog]
 * @param {boolean} [props.hidesOutliers]  Whether the axis leaves out the few values that are far off.
 * @param {number} [props.smoothing]  Weight of the past, from 0 up to 1.
 * @param {(series: Series | null) => void} [props.onHover]
 * @param {(series: Series, event: MouseEvent | KeyboardEvent) => void} [props.onPick]
 * @param {(hit: Hit) => any} [props.tooltip]
 * @param {import("./plot.js").Zoom | null} [props.zoom]
 * @param {(zoom: import("./plot.js").Zoom | null) => void} [props.onZoom]  Without it the chart keeps its zoom itself.
 * @param {[number, number] | null} [props.xExtent]  What the horizontal axis covers, if not the extent of the curves.
 * @param {string} [props.syncKey]
 * @param {number} [props.height]
 * @param {boolean} [props.hasLegend]
 */
export function Chart(props) {
  const { xLabel, yLabel, xKind = "number", xLog = false, yLog = false, smoothing = 0 } = props;
  const [hidden, setHidden] = useState(/** @type {Set<string>} */ (new Set()));
  const shown = useMemo(() => props.series.filter(({ name }) => !hidden.has(name)), [props.series, hidden]);
  const series = shown.length ? shown : props.series;
  const [ownZoom, setOwnZoom] = useState(/** @type {import("./plot.js").Zoom | null} */ (null));
  const zoom = props.onZoom ? (props.zoom ?? null) : ownZoom;
  const lines = useMemo(() => series.map((one) => prepare(one, xLog, smoothing)), [series, xLog, smoothing]);
  const bounds = useMemo(() => findBounds(lines, xKind, xLog, yLog, props.hidesOutliers ?? false, props.xExtent ?? null),
    [lines, xKind, xLog, yLog, props.hidesOutliers, props.xExtent?.[0], props.xExtent?.[1]]);
  const [x0, x1, y0, y1] = zoom ?? bounds;
  const [pointed, setPointed] = useState("");
  const [hovered, setHovered] = useState("");
  const x = useMemo(() => axis(xLabel, xLog ? "log" : xKind, x0, x1), [xLabel, xLog, xKind, x0, x1]);
  const y = useMemo(() => axis(yLabel, yLog ? "log" : "number", y0, y1), [yLabel, yLog, y0, y1]);
  const paint = useMemo(() => (/** @type {CanvasRenderingContext2D} */ context, /** @type {import("./plot.js").View} */ view) => {
    const isPointed = lines.map((_, i) => series[i].name === pointed);
    const dimmed = isPointed.includes(true)
      ? lines.map((line, i) => (isPointed[i] ? { ...line, width: 3, alpha: 1 } : { ...line, alpha: (line.alpha ?? 1) * 0.2 }))
      : lines;
    if (smoothing > 0 && lines.length <= MAX_RAW) paintLines(context, view, dimmed.map(toPale));
    paintLines(context, view, dimmed);
  }, [lines, smoothing, pointed]);

  const at = (/** @type {{line: number, point: number}} */ { line, point }) => ({
    series: series[line], x: lines[line].x[point], y: lines[line].y[point], raw: lines[line].raw[point],
  });
  const locate = (/** @type {import("./plot.js").View} */ view, /** @type {number} */ px, /** @type {number} */ py) =>
    findNearest(lines, view, px, py, HIT_PX);
  const tooltip = props.tooltip ?? ((/** @type {Hit} */ hit) => html`<b>${hit.series.name}</b> ${format.number(hit.y)}`);
  const isEmpty = !lines.some((line) => line.x.length);

  if (isEmpty) return html`<div class="plot plot-empty"><div class="plot-caption">${yLabel}</div><p>No points yet.</p></div>`;
  return html`<div class="chart">
    <${Plot}
      x=${x} y=${y} paint=${paint} count=${lines.length} locate=${locate} step=${step(lines)} syncKey=${props.syncKey} height=${props.height}
      paintHit=${(/** @type {any} */ context, /** @type {any} */ view, /** @type {any} */ hit) => lines[hit.line] && paintChosen(context, view, lines[hit.line], hit.point)}
      tooltip=${(/** @type {any} */ hit) => lines[hit.line] && tooltip(at(hit))}
      onHover=${(/** @type {any} */ hit) => {
        setHovered(hit ? (series[hit.line]?.name ?? "") : "");
        props.onHover?.(hit && series[hit.line]);
      }}
      onPick=${(/** @type {any} */ hit, /** @type {any} */ event) => props.onPick?.(series[hit.line], event)}
      onZoom=${props.onZoom ?? setOwnZoom}
      label=${`${yLabel} by ${xLabel}: ${series.length} curves. Arrow keys go from point to point, plus and minus zoom.`} />
    ${props.hasLegend !== false && html`<${Legend} series=${props.series} hidden=${hidden} setHidden=${setHidden} hovered=${hovered} setPointed=${setPointed} />`}
    <${Notes} lines=${lines} yLog=${yLog} />
    <${ChartTable} caption=${`${yLabel} by ${xLabel}`} columns=${["curve", "points", "last at", "last", "lowest", "highest"]}
      rows=${() => lines.map((line, i) => summarize(series[i].name, line)).reverse()} />
  </div>`;
}

/** Names curves, with what tells them apart; a click hides one, or shows it again. @param {{series: Series[], hidden: Set<string>,
 *   setHidden: (names: Set<string>) => void, hovered: string, setPointed: (name: string) => void}} props */
function Legend({ series, hidden, setHidden, hovered, setPointed }) {
  const [sort, setSort] = useState("");
  const named = series.filter((one) => one.isNamed ?? true).reverse();
  if (!named.length || named.length > MAX_NAMED) return null;
  const columns = [...new Set(named.flatMap((one) => Object.keys(one.cells ?? {})))];
  const key = sort.replace(/^-/, "");
  const rows = key ? sortRows(named, (one) => (key === CURVE ? one.name : one.cells?.[key]), sort.startsWith("-")) : named;
  const toggle = (/** @type {string} */ name) => {
    const next = new Set(hidden);
    if (!next.delete(name)) next.add(name);
    setHidden(series.some((one) => !next.has(one.name)) ? next : new Set());
  };
  const head = (/** @type {string} */ name) => html`<th key=${name} scope="col"
    aria-sort=${name === key ? (sort.startsWith("-") ? "descending" : "ascending") : undefined}>
    <button type="button" title="Sort" onClick=${() => setSort(sort === name ? `-${name}` : name)}>${name}${name === key ? (sort.startsWith("-") ? " ↓" : " ↑") : ""}</button></th>`;
  return html`<div class="chart-legend-box"><table class="chart-legend" aria-label="Curves">
    ${columns.length > 0 && html`<thead><tr>${[CURVE, ...columns].map(head)}</tr></thead>`}
    <tbody>${rows.map((one) => html`<tr key=${one.name} class=${one.name === hovered ? "hovered" : ""}
        onMouseEnter=${() => setPointed(one.name)} onMouseLeave=${() => setPointed("")} onFocusIn=${() => setPointed(one.name)} onFocusOut=${() => setPointed("")}>
      <th scope="row"><button type="button" title="Hide or show it" aria-pressed=${String(!hidden.has(one.name))} onClick=${() => toggle(one.name)}>
        <svg width="22" height="8" aria-hidden="true"><line x1="0" y1="4" x2="22" y2="4" stroke=${one.color} stroke-width="2"
          stroke-dasharray=${one.dash?.join(" ") ?? ""} /></svg>${one.name}</button></th>
      ${columns.map((name) => html`<td key=${name}>${one.texts?.[name] ?? brief(one.cells?.[name])}</td>`)}</tr>`)}</tbody></table></div>`;
}

/** Says what the axes leave out. @param {{lines: ReturnType<typeof prepare>[], yLog: boolean}} props */
function Notes({ lines, yLog }) {
  const endless = lines.filter((line) => line.isEndless).length;
  const negative = yLog ? lines.filter((line) => line.isNegative).length : 0;
  const name = (/** @type {number} */ count) => (count === 1 ? "1 curve has" : `${count} curves have`);
  return html`${endless > 0 && html`<p class="chart-note">${name(endless)} values that are not finite (NaN or infinite): gaps.</p>`}
    ${negative > 0 && html`<p class="chart-note">${name(negative)} values of 0 or less, which a logarithmic axis cannot show.</p>`}`;
}

/** @param {Series} series @param {boolean} xLog @param {number} smoothing */
function prepare(series, xLog, smoothing) {
  const ordered = orderPoints(series.x, series.y, xLog);
  const line = series.band ? ordered : thin(ordered, MAX_POINTS);
  const y = smoothing > 0 ? smooth(line.y, smoothing) : line.y;
  const { color, dash, width, alpha } = series;
  const alike = (/** @type {Float64Array} */ values) => smooth(orderPoints(series.x, values, xLog).y, smoothing);
  const band = series.band && { lo: alike(series.band.lo), hi: alike(series.band.hi) };
  const isEndless = line.y.some((value) => !Number.isFinite(value));
  const isNegative = line.y.some((value) => value <= 0);
  return { x: line.x, y, raw: line.y, color, dash, width, alpha, band, isEndless, isNegative };
}

/** @param {ReturnType<typeof prepare>} line */
function toPale(line) {
  return { ...line, y: line.raw, alpha: (line.alpha ?? 1) * 0.25, width: 1, band: undefined };
}

/** @param {ReturnType<typeof prepare>[]} lines @param {string} xKind @param {boolean} xLog @param {boolean} yLog @param {boolean} hidesOutliers @param {[number, number] | null} xExtent */
function findBounds(lines, xKind, xLog, yLog, hidesOutliers, xExtent) {
  const values = lines.flatMap((line) => (line.band ? [line.band.lo, line.band.hi, line.y] : [line.y]));
  const across = padExtent(xExtent ?? findExtent(lines.map((line) => line.x), xLog), xLog, 0.01, xKind === "number" ? NaN : SINGLE_SECS);
  const up = padExtent(hidesOutliers ? findUsualExtent(values, yLog) : findExtent(values, yLog), yLog);
  return /** @type {import("./plot.js").Zoom} */ ([...across, ...up]);
}

/** @param {string} label @param {import("./plot.js").AxisKind} kind @param {number} lo @param {number} hi */
function axis(label, kind, lo, hi) {
  // A zoom from a link may be a range that this axis does not have.
  return { label, kind: kind === "log" && lo <= 0 ? /** @type {const} */ ("number") : kind, lo, hi };
}

/** Lets arrow keys go along a curve, and to the next one above or below. @param {ReturnType<typeof prepare>[]} lines */
function step(lines) {
  return (/** @type {import("./plot.js").View} */ view, /** @type {any} */ hit, /** @type {string} */ key) => {
    const at = hit ?? { line: lines.length - 1, point: -1 };
    let { line, point } = at;
    if (key === "ArrowLeft") point = Math.max(0, point - 1);
    if (key === "ArrowRight") point = Math.min(lines[line].x.length - 1, point + 1);
    if (key === "ArrowUp") line = (line + 1) % lines.length;
    if (key === "ArrowDown") line = (line + lines.length - 1) % lines.length;
    point = Math.max(0, Math.min(point, lines[line].x.length - 1));
    if (!lines[line].x.length) return null;
    return { hit: { line, point }, px: view.toX(lines[line].x[point]), py: view.toY(lines[line].y[point]) || 0 };
  };
}

/** @param {string} name @param {ReturnType<typeof prepare>} line */
function summarize(name, line) {
  const extent = findExtent([line.raw], false);
  const last = line.x.length - 1;
  return [name, line.x.length, line.x[last], line.raw[last], extent?.[0] ?? null, extent?.[1] ?? null];
}
