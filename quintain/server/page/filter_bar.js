// @ts-check
// Chooses which trials all views show: by state, by an expression, by brushes; and says what is selected.
import { html, useEffect, useMemo, useRef, useState } from "./vendor/preact.js";
import { describeRange } from "./brush.js";
import * as format from "./format.js";
import { useKeys } from "./keys.js";
import { countStates } from "./rows.js";
import { Button, Menu } from "./widgets.js";

const STATES = ["ACTIVE", "COMPLETED", "STOPPED", "ERROR", "CANCELED"];
const SIGNS = "< <= > >= == !=";

/** @param {any} props those of a tab, with `numVisible`, `numTrials`, `problem` and `states` */
export function FilterBar(props) {
  const { data, numVisible, numTrials, problem, brush, setBrush, children } = props;
  const brushed = Object.keys(brush ?? {});
  const ranges = brushed.map((key) => `${data.shortName(key)} ${describeRange(brush[key])}`).join(", ");
  const part = numVisible === numTrials ? "" : `${format.number(numVisible)} of `;
  return html`<div class="filter-bar">
    <${Expression} data=${data} problem=${problem} route=${props.route} />
    <${States} ...${props} />
    ${brushed.length > 0 && html`<button type="button" class="chip" aria-pressed="true" title=${`Take the brushes away: ${ranges}`}
      onClick=${() => setBrush({})}>brushed: ${brushed.map((key) => data.shortName(key)).join(", ")} ✕</button>`}
    <span class="filter-count" role="status">${part}${format.number(numTrials)} ${numTrials === 1 ? "trial" : "trials"}</span>
    <${Selected} ...${props} />
    ${children && html`<span class="space"></span>${children}`}
    ${problem && html`<div id="filter-problem" class="filter-problem" role="alert">
      ${problem[0].toUpperCase() + problem.slice(1)} It is not applied.</div>`}
  </div>`;
}

/** @param {{data: any, problem: string, route: import("./route.js").Route}} props */
function Expression({ data, problem, route }) {
  const { query, setQuery } = route;
  const field = useRef();
  const [text, setText] = useState(query.where ?? "");
  useEffect(() => {
    if ((query.where ?? "") !== text.trim()) setText(query.where ?? "");
  }, [query.where]);
  useKeys({ "/": () => field.current?.focus() });
  const onInput = (/** @type {any} */ event) => {
    setText(event.target.value);
    setQuery({ where: event.target.value.trim() });
  };
  const onKeyDown = (/** @type {KeyboardEvent} */ event) => {
    if (event.key === "Escape") field.current?.blur();
  };
  return html`<div class="filter-field">
    <input ref=${field} type="search" spellcheck="false" autocomplete="off" value=${text}
      placeholder=${`Filter, as ${exampleOf(data)}  ( / )`} aria-label="Filter trials by an expression"
      aria-invalid=${String(Boolean(problem))} aria-describedby="filter-problem" onInput=${onInput} onKeyDown=${onKeyDown} />
    <${Menu} label="?" kind="quiet bare" title="How to filter">${() => html`<${FilterHelp} data=${data} />`}<//></div>`;
}

/** @param {any} props */
function States({ data, version, states, route }) {
  const counts = useMemo(() => countStates(data), [data, version]);
  const toggle = (/** @type {string} */ state) => {
    const next = new Set(states);
    if (!next.delete(state)) next.add(state);
    route.setQuery({ state: [...next].join(",") });
  };
  const shown = STATES.filter((state) => counts[state] || states.has(state));
  return html`<div class="chips" role="group" aria-label="states">${shown.map((state) => html`
    <button key=${state} type="button" class="chip" aria-pressed=${String(states.has(state))} onClick=${() => toggle(state)}>
      ${state.toLowerCase()} <span class="count">${format.number(counts[state] ?? 0)}</span></button>`)}</div>`;
}

/** @param {any} props */
function Selected({ selection, setSelection, route }) {
  if (!selection.size) return null;
  const goTo = (/** @type {Record<string, string>} */ place) => (/** @type {Event} */ event) => {
    event.preventDefault();
    route.setQuery(place, { push: true });
  };
  return html`<span class="selected-bar"><b>${format.number(selection.size)}</b> selected
    <a href="#" onClick=${goTo({ tab: "curves", show: "selected" })}>curves</a>
    <a href="#" onClick=${goTo({ tab: "compare" })}>compare</a>
    <${Button} kind="quiet" label="Clear selection" onClick=${() => setSelection([])}>✕<//></span>`;
}

/** @param {{data: any}} props */
function FilterHelp({ data }) {
  const names = data.columnNames().filter((/** @type {string} */ key) => !/\.(last|min|max)$/.test(key));
  return html`<div class="filter-help">
    <p><code>${exampleOf(data)}</code></p>
    <p><code>${SIGNS}</code> compare; <code>~</code> contains; <code>in (a, b)</code>; <code>and or not ( )</code>.
      A missing value fits nothing.</p>
    <p class="muted">A metric means its best value, or its last where none is known to be the best, whatever its column shows; <code>.last</code>,
      <code>.min</code> and <code>.max</code> are the others. Names:</p>
    <p class="names">${names.map((/** @type {string} */ name) => html`<code key=${name} title=${data.column(name).path}>${data.shortName(name)}</code> `)}</p>
  </div>`;
}

/** An expression that means something here. @param {any} data */
function exampleOf(data) {
  const parts = [];
  const hparam = data.hparams.find((/** @type {any} */ one) => one.kind === "log" || one.kind === "double");
  if (hparam) {
    const middle = hparam.kind === "log" ? Math.sqrt(hparam.min * hparam.max) : (hparam.min + hparam.max) / 2;
    parts.push(`${data.shortName(`hparams.${hparam.path}`)} < ${Number(middle.toPrecision(1))}`);
  }
  const metric = data.experiment?.config?.searcher?.metric;
  if (metric) parts.push(`${metric} ${data.isSmallerBetter(data.searchedMetric) ? "<" : ">"} 0.5`);
  return parts.join(" and ") || "state == completed";
}
