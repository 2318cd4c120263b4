// @ts-check
/** Slices and scatter plots: hyperparameters against the metric, or against each other. */
import { useSame, useVersion } from "./chart_data.js";
import { Check, ColumnChoice, ShadeLegend, Swatch, TrialTip } from "./chart_parts.js";
import { listCategories } from "./axes.js";
import { nameOf } from "./brush.js";
import { ChartTable } from "./chart_table.js";
import { listHues, listShades, shadeOf, useTheme } from "./colors.js";
import { readRange, writeRange } from "./curve_choice.js";
import { Plot } from "./plot.js";
import { sortByMetric } from "./rank.js";
import { findPoint, layDimension, listVarying } from "./scatter_choice.js";
import { buildScale, findUsualExtent } from "./scales.js";
import { html, useMemo } from "./vendor/preact.js";
import { Button, Empty } from "./widgets.js";

const MANY_ROWS = 2000;
const MAX_SLICES = 12;
const HIT_PX = 14;

/**
 * @param {object} props
 * @param {import("./experiment_data.js").ExperimentData} props.data
 * @param {Int32Array} props.visible
 * @param {Set<number>} props.selection
 * @param {(selection: Set<number>) => void} props.setSelection
 * @param {import("./route.js").Route} props.route
 */
export function ScatterView({ data, visible, selection, setSelection, route }) {
  const theme = useTheme();
  const shown = useSame(visible);
  const version = useVersion(data, shown.length > MANY_ROWS);
  const { query, setQuery } = route;
  const varying = useMemo(() => listVarying(data), [data, version]);
  const x = data.column(query.sx) ? query.sx : "";
  const y = data.column(query.sy) ? query.sy : data.searchedKey;
  const isMetric = data.column(y)?.source !== "hparam";
  const isPaired = x !== "" && !isMetric;
  const isNumeric = (/** @type {string} */ key) => data.column(key) !== undefined && data.get(key) instanceof Float64Array;
  const color = data.column(query.sc) ? query.sc : query.sc !== "none" && isPaired ? data.searchedKey : "";
  const shading = useMemo(() => shade(data, color, theme), [data, version, color, theme]);
  const rows = useMemo(() => (isNumeric(color) ? sortByMetric(/** @type {Float64Array} */ (data.get(color)), shown, data.isSmallerBetter(color)).reverse() : Array.from(shown)),
    [data, version, shown, color]);
  const pick = (/** @type {number} */ row) => {
    const next = new Set(selection);
    if (!next.delete(data.ids[row])) next.add(data.ids[row]);
    setSelection(next);
  };
  if (!data.numRows) return html`<${Empty} title="No trials yet"><p>A point for each trial appears here.</p><//>`;
  const across = x ? [x] : varying.map((column) => column.key).filter((key) => key !== y).slice(0, MAX_SLICES);
  const shared = { data, version, rows, y, color, shading, selection, theme, pick, route };
  return html`<section class="scatter">
    <${Controls} data=${data} varying=${varying} x=${x} y=${y} color=${color} isMetric=${isMetric} route=${route} />
    ${color && (shading.names ? html`<${NameLegend} label=${data.column(color)?.label ?? color} ...${shading} />`
      : html`<${ShadeLegend} label=${data.column(color)?.label ?? color} ...${shading} />`)}
    ${!rows.length && html`<${Empty} title="No trial passes the filter"><p>Widen the filter to see points.</p><//>`}
    ${rows.length > 0 && !across.length && html`<${Empty} title="No variation"><p>All trials have the same hyperparameters. Choose an x axis above.</p><//>`}
    ${!x && html`<${Hidden} count=${countHidden(data.get(y), rows)} />`}
    ${rows.length > 0 && html`<div class=${x ? "" : "slices"}>${across.map((key) => html`<${Slice} key=${key} ...${shared} x=${key} isSmall=${!x}
      onChoose=${x ? undefined : () => setQuery({ sx: key }, { push: true })} />`)}</div>`}
    <${ChartTable} caption="Points" columns=${["trial", ...across.map((key) => data.column(key)?.label ?? key), data.column(y)?.label ?? y]}
      rows=${() => [...rows].reverse().slice(0, 201).map((row) => [data.ids[row], ...[...across, y].map((key) => data.value(key, row))])} />
  </section>`;
}

/** @param {any} props */
function Controls({ data, varying, x, y, color, isMetric, route }) {
  const { query, setQuery } = route;
  const others = data.columns.filter((/** @type {any} */ column) => column.source !== "hparam" && data.get(column.key) instanceof Float64Array);
  const colors = data.columns.filter((/** @type {any} */ column) => data.get(column.key) instanceof Float64Array || column.source === "hparam" || column.key === "state");
  const isLog = (/** @type {"x" | "y"} */ name) => isLogAxis(data, name === "x" ? x : y, query, name);
  return html`<div class="chart-controls">
    <${ColumnChoice} label="Across" data=${data} value=${x} others=${[["", "each hyperparameter"]]} columns=${[...varying, ...others]}
      onChange=${(/** @type {string} */ key) => setQuery({ sx: key || null, sxlog: null, sz: null })} />
    <${ColumnChoice} label="Up" data=${data} value=${y} columns=${[...others, ...varying]} onChange=${(/** @type {string} */ key) => setQuery({ sy: key, sylog: null, sz: null })} />
    <${ColumnChoice} label="Colour" data=${data} value=${color || "none"} others=${[["none", "none"]]} columns=${colors} onChange=${(/** @type {string} */ key) => setQuery({ sc: key })} />
    ${x && html`<${Check} label="Log x" checked=${isLog("x")} onChange=${(/** @type {boolean} */ on) => setQuery({ sxlog: on ? 1 : 0, sz: null })} />`}
    <${Check} label="Log y" checked=${isLog("y")} onChange=${(/** @type {boolean} */ on) => setQuery({ sylog: on ? 1 : 0, sz: null })} />
    ${isMetric && html`<${Check} label="Rank" title="Plot ranks instead of values, so that outliers do not compress the rest" checked=${query.rank === "1"}
      onChange=${(/** @type {boolean} */ on) => setQuery({ rank: on ? 1 : null, sz: null })} />`}
    ${x && readRange(query.sz) && html`<${Button} kind="quiet" onClick=${() => setQuery({ sz: null })}>Reset zoom<//>`}
  </div>`;
}

/** One plot. @param {any} props */
function Slice({ data, version, rows, x, y, color, shading, selection, theme, pick, route, isSmall, onChoose }) {
  const { query, setQuery } = route;
  const isRank = query.rank === "1" && data.column(y)?.source !== "hparam";
  const across = useMemo(() => layDimension(data, x, rows, { isLog: isLogAxis(data, x, query, "x"), isRank: false }), [data, version, x, rows, query.sxlog]);
  const up = useMemo(() => layDimension(data, y, rows, { isLog: isLogAxis(data, y, query, "y"), isRank }), [data, version, y, rows, query.sylog, isRank]);
  const zoom = isSmall ? null : readRange(query.sz)?.zoom;
  const axisX = useMemo(() => (zoom ? { ...across.axis, lo: zoom[0], hi: zoom[1] } : across.axis), [across, query.sz, isSmall]);
  const axisY = useMemo(() => (zoom ? { ...up.axis, lo: zoom[2], hi: zoom[3] } : up.axis), [up, query.sz, isSmall]);
  const paint = useMemo(() => (/** @type {CanvasRenderingContext2D} */ context, /** @type {import("./plot.js").View} */ view) =>
    paintPoints(context, view, { x: across, y: up, rows, shading, hasColor: color !== "", isSmall, chosen: selection, ids: data.ids }),
  [across, up, rows, shading, color, selection]);
  const numHidden = countHidden(rows.map((/** @type {number} */ row) => across.values[row] + up.values[row]), [...rows.keys()]);
  const locate = (/** @type {import("./plot.js").View} */ view, /** @type {number} */ px, /** @type {number} */ py) => {
    const row = findPoint(across, up, rows, view, px, py, HIT_PX);
    return row < 0 ? null : { row };
  };
  const label = data.column(x)?.label ?? x;
  return html`<div class="slice">
    <${Plot} caption=${onChoose && html`<button type="button" class="slice-name" title=${`${data.column(x)?.path ?? label}: enlarge`} onClick=${onChoose}>${label}</button>`} x=${axisX} y=${axisY} paint=${paint} count=${rows.length} locate=${locate} height=${isSmall ? 220 : 460}
      paintHit=${(/** @type {any} */ context, /** @type {any} */ view, /** @type {any} */ hit) => paintRing(context, view.toX(across.values[hit.row]), view.toY(up.values[hit.row]), theme.fg)}
      tooltip=${(/** @type {any} */ hit) => html`<${TrialTip} data=${data} row=${hit.row} lines=${[[data.column(y)?.label ?? y, data.write(y, data.value(y, hit.row))]]} />`}
      onPick=${(/** @type {any} */ hit) => pick(hit.row)}
      onZoom=${isSmall ? undefined : (/** @type {any} */ next) => setQuery({ sz: writeRange(next, "scatter") })}
      label=${`${data.column(y)?.label ?? y} by ${label}, ${rows.length} trials`} />
    ${!isSmall && html`<${Hidden} count=${numHidden} />`}
  </div>`;
}

/** @param {{count: number}} props */
function Hidden({ count }) {
  return html`${count > 0 && html`<p class="chart-note">${count.toLocaleString("en")} ${count === 1 ? "trial has" : "trials have"} no finite value here.</p>`}`;
}

/** @param {CanvasRenderingContext2D} context @param {import("./plot.js").View} view @param {any} scene */
function paintPoints(context, view, { x, y, rows, shading, hasColor, isSmall, chosen, ids }) {
  const isMany = rows.length > 1500;
  const radius = isMany ? 1.5 : isSmall || rows.length > 300 ? 2.5 : 4;
  context.globalAlpha = isMany ? (isSmall ? 0.3 : 0.6) : rows.length > 300 ? 0.65 : 0.85;
  let color = "";
  for (const row of rows) {
    const [px, py] = [view.toX(x.values[row]), view.toY(y.values[row])];
    if (Number.isNaN(px + py)) continue;
    const next = !hasColor ? view.theme.accent : shading.rowShades[row] < 0 ? view.theme.muted : shading.shades[shading.rowShades[row]];
    if (next !== color) context.fillStyle = color = next;
    if (isMany) {
      context.fillRect(px - radius, py - radius, 2 * radius, 2 * radius);
      continue;
    }
    context.beginPath();
    context.arc(px, py, radius, 0, 2 * Math.PI);
    context.fill();
  }
  context.globalAlpha = 1;
  for (const row of rows) {
    if (chosen.has(ids[row])) paintRing(context, view.toX(x.values[row]), view.toY(y.values[row]), view.theme.fg);
  }
}

/** @param {CanvasRenderingContext2D} context @param {number} px @param {number} py @param {string} color */
function paintRing(context, px, py, color) {
  context.strokeStyle = color;
  context.lineWidth = 2;
  context.beginPath();
  context.arc(px, py, 6, 0, 2 * Math.PI);
  context.stroke();
}

/** @param {ArrayLike<unknown>} values @param {number[]} rows */
function countHidden(values, rows) {
  return rows.filter((row) => typeof values[row] === "number" && !Number.isFinite(values[row])).length;
}

/** @param {any} data @param {string} key @param {Record<string, string>} query @param {"x" | "y"} name */
function isLogAxis(data, key, query, name) {
  const said = query[`s${name}log`];
  return said === undefined ? data.column(key)?.log === true : said === "1";
}

/** The colours of names; those without a colour of their own are together. @param {{label: string, names: string[], shades: string[]}} props */
function NameLegend({ label, names, shades }) {
  return html`<div class="name-legend" role="img" aria-label=${`Colours of ${label}`}><span>${label}</span>
    ${shades.map((color, i) => html`<span class="nowrap"><${Swatch} color=${color} dash=${[]} /> <bdi>${names[i]}</bdi></span>`)}
    ${names.length > shades.length && html`<span class="muted">and ${names.length - shades.length} more in grey</span>`}</div>`;
}

/** @param {any} data @param {string} key @param {import("./colors.js").Theme} theme */
function shade(data, key, theme) {
  const values = key ? data.get(key) : new Float64Array(0);
  if (!(values instanceof Float64Array)) {
    const names = listCategories(values);
    const shades = listHues(theme.isDark).slice(0, names.length);
    const places = new Map(names.slice(0, shades.length).map((name, i) => [name, i]));
    return { lo: 0, hi: 1, names, shades, rowShades: Int16Array.from(values, (/** @type {unknown} */ value) => places.get(nameOf(value)) ?? -1) };
  }
  const [lo, hi] = findUsualExtent([values], false) ?? [0, 1];
  const { toUnit } = buildScale(lo, hi);
  return { lo, hi, shades: listShades(theme.isDark, data.isSmallerBetter(key)), rowShades: Int16Array.from(values, (value) => shadeOf(toUnit(value))) };
}
