// @ts-check
/** What can be chosen of parallel coordinates: axes, colour, and the range of one axis by its numbers. */
import { Check, ColumnChoice, ColumnPart, labelOf } from "./chart_parts.js";
import { brief } from "./chart_table.js";
import { readNames, writeNames } from "./curve_choice.js";
import { html, useState } from "./vendor/preact.js";
import { Button, Menu } from "./widgets.js";

const MIN_SEARCHED = 14;

/**
 * @param {object} props
 * @param {import("./experiment_data.js").ExperimentData} props.data
 * @param {string[]} props.keys  Of the axes.
 * @param {string} props.color
 * @param {(keys: string[]) => void} props.setKeys
 * @param {import("./route.js").Route} props.route
 */
export function ParallelControls({ data, keys, color, setKeys, route }) {
  const numeric = data.columns.filter((column) => column.key !== "id" && data.get(column.key) instanceof Float64Array);
  return html`<div class="chart-controls">
    <${Menu} label=${keys.length === 1 ? "1 axis" : `${keys.length} axes`} title="Choose axes">
      <${AxisList} columns=${data.columns.filter((column) => column.key !== "id")} keys=${keys} setKeys=${setKeys} />
    <//>
    <${ColumnChoice} label="Colour" data=${data} value=${color} columns=${numeric} onChange=${(/** @type {string} */ key) => route.setQuery({ color: key })} />
  </div>`;
}

/** @param {{columns: any[], keys: string[], setKeys: (keys: string[]) => void}} props */
function AxisList({ columns, keys, setKeys }) {
  const [text, setText] = useState("");
  const shown = columns.filter((column) => (column.path ?? column.label).toLowerCase().includes(text.toLowerCase()));
  const toggle = (/** @type {string} */ key) => {
    const next = keys.includes(key) ? keys.filter((each) => each !== key) : [...keys, key];
    if (next.length) setKeys(next);
  };
  return html`<div class="metric-list">
    ${columns.length >= MIN_SEARCHED && html`<input type="search" placeholder="Find a column" aria-label="Find a column" value=${text}
      onInput=${(/** @type {any} */ event) => setText(event.currentTarget.value)} />`}
    ${shown.map((column) => html`<${Check} key=${column.key} label=${column.label} title=${column.path} checked=${keys.includes(column.key)} onChange=${() => toggle(column.key)} />`)}
  </div>`;
}

/**
 * The range of one axis in numbers or names: brushing without a pointer.
 * @param {object} props
 * @param {import("./experiment_data.js").ExperimentData} props.data
 * @param {import("./axes.js").Axis} props.axis
 * @param {import("./brush.js").Range | undefined} props.range
 * @param {string} props.logs
 * @param {import("./route.js").Route} props.route
 * @param {(range: import("./brush.js").Range | null) => void} props.onChange
 * @param {() => void} props.onClose
 */
export function RangeForm({ data, axis, range, logs, route, onChange, onClose }) {
  const switched = readNames(logs);
  const flip = () => {
    const next = switched.includes(axis.key) ? switched.filter((key) => key !== axis.key) : [...switched, axis.key];
    route.setQuery({ alog: writeNames(next) });
  };
  return html`<form class="range-form" aria-label=${`Range of ${axis.label}`} onSubmit=${(/** @type {Event} */ event) => event.preventDefault()}>
    <b title=${axis.path}>${labelOf(/** @type {any} */ (data.column(axis.key)), data)}</b><${ColumnPart} data=${data} of=${axis.key} />
    ${axis.categories.length
      ? html`<${CategoryRange} axis=${axis} range=${range} onChange=${onChange} />`
      : html`<${NumberRange} axis=${axis} range=${range} onChange=${onChange} />
        <${Check} label="Log" checked=${axis.isLog} onChange=${flip} />`}
    ${axis.numMissing > 0 && html`<${Check} label=${`Only the ${axis.numMissing} missing`} checked=${range instanceof Set && range.has("")}
      onChange=${(/** @type {boolean} */ on) => onChange(on ? new Set([""]) : null)} />`}
    ${range && html`<${Button} kind="quiet" onClick=${() => onChange(null)}>All<//>`}
    <span class="space"></span><${Button} kind="quiet" label="Close" onClick=${onClose}>✕<//>
  </form>`;
}

/** @param {{axis: import("./axes.js").Axis, range: any, onChange: (range: any) => void}} props */
function NumberRange({ axis, range, onChange }) {
  const [lo, hi] = Array.isArray(range) ? range : [axis.lo, axis.hi];
  const change = (/** @type {number} */ low, /** @type {number} */ high) => onChange(Number.isFinite(low + high) ? [Math.min(low, high), Math.max(low, high)] : null);
  return html`
    <label class="choice">from <input class="range-number" type="number" step="any" value=${round(lo)}
      onChange=${(/** @type {any} */ event) => change(event.currentTarget.valueAsNumber, hi)} /></label>
    <label class="choice">to <input class="range-number" type="number" step="any" value=${round(hi)}
      onChange=${(/** @type {any} */ event) => change(lo, event.currentTarget.valueAsNumber)} /></label>`;
}

/** @param {{axis: import("./axes.js").Axis, range: any, onChange: (range: any) => void}} props */
function CategoryRange({ axis, range, onChange }) {
  const chosen = range instanceof Set ? range : new Set(axis.categories);
  const toggle = (/** @type {string} */ name) => {
    const next = new Set(axis.categories.filter((each) => chosen.has(each) !== (each === name)));
    onChange(next.size && next.size < axis.categories.length ? next : null);
  };
  return axis.categories.slice(0, 40).map((name) => html`<${Check} key=${name} label=${brief(name)} checked=${chosen.has(name)} onChange=${() => toggle(name)} />`);
}

/** @param {number} value */
function round(value) {
  return Number(value.toPrecision(4));
}
