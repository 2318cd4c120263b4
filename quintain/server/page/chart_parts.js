// @ts-check
/** Small parts of several charts: what is said of a trial, the legend of shades, settings. */
import { brief } from "./chart_table.js";
import { listDifferences } from "./comparison.js";
import { readParts, writeParts } from "./curve_choice.js";
import { PARTS } from "./experiment_data.js";
import * as format from "./format.js";
import { useRoute } from "./route.js";
import { html, useMemo } from "./vendor/preact.js";

const MAX_SETTINGS = 8;
let numLegends = 0;

/**
 * Says which trial is pointed at.
 * @param {object} props
 * @param {import("./experiment_data.js").ExperimentData} props.data
 * @param {number} props.row
 * @param {[string, string][]} props.lines  What is said first: names and values.
 * @param {string} [props.name]  Of a group of trials that it stands for.
 */
export function TrialTip({ data, row, lines, name }) {
  const columns = useMemo(() => listDifferences(data, Array.from({ length: data.numRows }, (_, i) => i)), [data, data.version]);
  const hparams = columns.slice(0, MAX_SETTINGS).map((column) => /** @type {[string, string]} */ ([column.label, brief(data.value(column.key, row))]));
  return html`<div class="trial-tip">
    ${name ? html`<b>${name}</b>` : html`<b>Trial ${data.ids[row]}</b> <span class="muted">${data.outcome(row)}</span>`}
    <dl>${[...lines, ...hparams].map(([name, value]) => html`<dt>${name}</dt><dd>${value}</dd>`)}</dl>
    ${columns.length > MAX_SETTINGS && html`<span class="muted">and ${columns.length - MAX_SETTINGS} more</span>`}
  </div>`;
}

/**
 * Says which shade stands for which number.
 * @param {{label: string, lo: number, hi: number, shades: string[]}} props
 */
export function ShadeLegend({ label, lo, hi, shades }) {
  const id = useMemo(() => `shades-${(numLegends += 1)}`, []);
  return html`<div class="shade-legend">
    <span>${label}</span><span class="shade-end">${format.number(lo)}</span>
    <svg class="shade-bar" aria-hidden="true">
      <linearGradient id=${id}>${shades.map((color, i) => html`<stop offset=${i / (shades.length - 1)} stop-color=${color} />`)}</linearGradient>
      <rect width="100%" height="100%" fill=${`url(#${id})`} /></svg>
    <span class="shade-end">${format.number(hi)}</span>
  </div>`;
}

/**
 * A list to choose from, with its name.
 * @param {object} props
 * @param {string} props.label
 * @param {string} props.value
 * @param {[string, string][]} props.options  Values and what is shown for them.
 * @param {(value: string) => void} props.onChange
 */
export function Choice({ label, value, options, onChange }) {
  return html`<label class="choice">${label}
    <select value=${value} onChange=${(/** @type {any} */ event) => onChange(event.currentTarget.value)}>
      ${options.map(([key, text]) => html`<option key=${key} value=${key} selected=${key === value}>${text}</option>`)}
    </select></label>`;
}

/** @param {{label: string, title?: string, checked: boolean, onChange: (checked: boolean) => void}} props */
export function Check({ label, title, checked, onChange }) {
  return html`<label class="check" title=${title}><input type="checkbox" checked=${checked}
    onChange=${(/** @type {any} */ event) => onChange(event.currentTarget.checked)} />${label}</label>`;
}

/**
 * How curves are drawn, as `readAxes` finds it in the URL.
 * @param {object} props
 * @param {[string, string][]} props.across  Horizontal axes, the usual one first; none if it can't be chosen.
 * @param {import("./curve_choice.js").Axes<string>} props.axes
 * @param {(patch: Record<string, unknown>) => void} props.setQuery
 * @param {boolean} [props.hasXLog]
 */
export function AxisControls({ across, axes, setQuery, hasXLog = false }) {
  // A zoom is of the axes as they were.
  const check = (/** @type {string} */ label, /** @type {string} */ name, /** @type {boolean} */ checked) => html`
    <${Check} label=${label} checked=${checked} onChange=${(/** @type {boolean} */ on) => setQuery({ [name]: on ? 1 : null, range: null })} />`;
  return html`
    ${across.length > 1 && html`<${Choice} label="Across" value=${axes.x} options=${across}
      onChange=${(/** @type {string} */ x) => setQuery({ x: x === across[0][0] ? null : x, range: null })} />`}
    <label class="choice">Smoothing <input type="range" min="0" max="0.99" step="0.01" value=${axes.smoothing}
      onInput=${(/** @type {any} */ event) => setQuery({ smooth: Number(event.currentTarget.value) || null })} />
      <output class="short-output">${axes.smoothing || "off"}</output></label>
    ${hasXLog && check("Log x", "xlog", axes.xLog)}
    ${check("Log y", "ylog", axes.yLog)}`;
}

/**
 * Which value a metric is shown by, as its smallest; it stands in the URL, and all views follow.
 * @param {{metric: string, usual: import("./experiment_data.js").Part, isField?: boolean}} props `isField`: beside other fields, not within a text
 */
export function PartChoice({ metric, usual, isField = false }) {
  const { query, setQuery } = useRoute();
  const { [metric]: chosen = usual, ...others } = readParts(query.agg);
  return html`<select class=${isField ? "" : "part"} aria-label=${`Value of ${metric}`} title="Change which value is shown" value=${chosen}
    onChange=${(/** @type {any} */ event) => setQuery({ agg: writeParts(event.currentTarget.value === usual ? others : { ...others, [metric]: event.currentTarget.value }) })}>
    ${PARTS.map((part) => html`<option key=${part} value=${part} selected=${part === chosen}>${isField ? part : `(${part})`}</option>`)}</select>`;
}

/** The same for a column, if it is one of a metric. @param {{data: import("./experiment_data.js").ExperimentData, of: string, isField?: boolean}} props */
export function ColumnPart({ data, of: key, isField }) {
  const metric = data.column(key)?.metric;
  return metric === undefined ? null : html`<${PartChoice} metric=${metric} usual=${data.usualPart(metric)} isField=${isField} />`;
}

/** The name of a column where the value of its metric is chosen beside it. @param {import("./column.js").Column} column @param {any} data */
export function labelOf(column, data) {
  return format.short(column.metric ? data.shortName(column.key) : column.label);
}

/** A choice among columns, and of a metric also which value. @param {{data: any, label: string, value: string, columns: import("./column.js").Column[],
 *   others?: [string, string][], onChange: (key: string) => void}} props */
export function ColumnChoice({ data, label, value, columns, others = [], onChange }) {
  return html`<span class="choice"><${Choice} label=${label} value=${value} onChange=${onChange}
    options=${[...others, ...columns.map((column) => [column.key, labelOf(column, data)])]} /><${ColumnPart} data=${data} of=${value} isField /></span>`;
}

/** Whether trials that differ in the seed only are one, where there are some. @param {{isSeeded: boolean, isGrouped: boolean}} props */
export function SeedSwitch({ isSeeded, isGrouped }) {
  const { setQuery } = useRoute();
  return isSeeded && html`<${Check} label="Group seeds" title="Shows trials whose settings differ by the seed only as one: mean ± standard deviation"
    checked=${isGrouped} onChange=${(/** @type {boolean} */ on) => setQuery({ seeds: on ? null : 0 })} />`;
}

/** @param {{color: string, dash: number[]}} props */
export function Swatch({ color, dash }) {
  return html`<svg class="swatch" width="18" height="8" aria-hidden="true"><line x1="0" y1="4" x2="18" y2="4" stroke=${color} stroke-width="3" stroke-dasharray=${dash.join(" ")} /></svg>`;
}
