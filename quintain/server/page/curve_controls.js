// @ts-check
/** What can be chosen of the view of curves; all of it stands in the URL. */
import { AxisControls, Check, Choice, ColumnPart } from "./chart_parts.js";
import { findEpochs, writeNames } from "./curve_choice.js";
import { html, useState } from "./vendor/preact.js";
import { Button, Menu } from "./widgets.js";

const MIN_SEARCHED = 12;

/**
 * @param {object} props
 * @param {import("./experiment_data.js").ExperimentData} props.data
 * @param {import("./curve_choice.js").Settings} props.settings
 * @param {import("./route.js").Route} props.route
 * @param {number} [props.numSelected]
 * @param {any} [props.children]  Further controls.
 * @param {boolean} [props.isCompared]  Whether trials, their axis and colours are chosen elsewhere.
 */
export function CurveControls({ data, settings, route, numSelected = 0, isCompared = false, children }) {
  const set = (/** @type {Record<string, unknown>} */ patch) => route.setQuery(patch);
  /** @type {[string, string][]} */
  const axes = [["batches", "batches"], ["relative", "time since the start"], ["wall", "time of day"]];
  if (findEpochs(data)) axes.splice(1, 0, ["epochs", "epochs"]);
  return html`<div class="chart-controls">
    <${Menu} label=${settings.metrics.length === 1 ? settings.metrics[0] : `${settings.metrics.length} metrics`} title="Choose metrics">
      <${MetricList} data=${data} names=${data.metricNames} chosen=${settings.metrics}
        onChange=${(/** @type {string[]} */ names) => set({ metrics: writeNames(names), range: null })} />
    <//>
    ${!isCompared && html`<${Choice} label="Trials" value=${settings.show} onChange=${(/** @type {string} */ show) => set({ show: show === "visible" ? null : show })}
      options=${[["visible", "filtered"], ["top", "the best"], ["selected", `selected (${numSelected})`], ["all", "all"]]} />`}
    ${!isCompared && settings.show === "top" && html`<label class="choice">How many <input class="short-number" type="number" min="1" value=${settings.k}
      onChange=${(/** @type {any} */ event) => set({ k: event.currentTarget.value })} /></label>`}
    ${!isCompared && html`<${Choice} label="Colour" value=${settings.tint} onChange=${(/** @type {string} */ tint) => set({ tint: tint || null })}
      options=${[["", "auto"], ["trial", "trial"], ["metric", "metric"]]} />`}
    <${AxisControls} across=${isCompared ? [] : axes} axes=${settings} setQuery=${set} hasXLog />
    <${Check} label="Hide outliers" title="Hides values more than three interquartile ranges outside the middle half" checked=${settings.hidesOutliers}
      onChange=${(/** @type {boolean} */ on) => set({ outliers: on ? "hide" : null, range: null })} />
    ${children}
    ${!isCompared && settings.range && html`<${Button} kind="quiet" onClick=${() => set({ range: null })}>Reset zoom<//>`}
  </div>`;
}

/** @param {{data: any, names: string[], chosen: string[], onChange: (names: string[]) => void}} props */
function MetricList({ data, names, chosen, onChange }) {
  const [text, setText] = useState("");
  const shown = names.filter((name) => name.toLowerCase().includes(text.toLowerCase()));
  const toggle = (/** @type {string} */ name) => {
    const next = names.filter((each) => chosen.includes(each) !== (each === name));
    if (next.length) onChange(next);
  };
  return html`<div class="metric-list">
    ${names.length >= MIN_SEARCHED && html`<input type="search" placeholder="Find a metric" aria-label="Find a metric" value=${text}
      onInput=${(/** @type {any} */ event) => setText(event.currentTarget.value)} />`}
    ${shown.map((name) => html`<span key=${name} class="row"><${Check} label=${name} checked=${chosen.includes(name)} onChange=${() => toggle(name)} /><${ColumnPart} data=${data} of=${name} /></span>`)}
  </div>`;
}
