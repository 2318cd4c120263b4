// @ts-check
// Chooses which trials all views show: by state, by an expression, by brushes; and says what is selected.
import { html, useEffect, useMemo, useRef, useState } from "./vendor/preact.js";
import { shortenName } from "./filter.js";
import * as format from "./format.js";
import { useKeys } from "./keys.js";
import { Button, Menu } from "./widgets.js";

const STATES = ["ACTIVE", "COMPLETED", "ERROR", "CANCELED"];

/** @param {any} props those of a tab, with `numVisible`, `numTrials`, `problem` and `states` */
export function FilterBar({ data, version, numVisible, numTrials, problem, states, selection, setSelection, brush, setBrush, route, children }) {
  const { query, setQuery } = route;
  const field = useRef();
  const [text, setText] = useState(query.where ?? "");
  useEffect(() => {
    if ((query.where ?? "") !== text.trim()) setText(query.where ?? "");
  }, [query.where]);
  useKeys({ "/": () => field.current?.focus() });
  const type = (/** @type {string} */ next) => {
    setText(next);
    setQuery({ where: next.trim() });
  };
  const onKey = (/** @type {KeyboardEvent} */ event) => {
    if (event.key === "Escape") field.current?.blur();
  };
  const counts = useMemo(() => countStates(data), [data, version]);
  const toggleState = (/** @type {string} */ state) => {
    const next = new Set(states);
    if (!next.delete(state)) next.add(state);
    setQuery({ state: [...next].join(",") });
  };
  const brushed = Object.keys(brush ?? {});
  return html`<div class="filter-bar">
    <div class="filter-field"><input ref=${field} type="search" spellcheck="false" autocomplete="off" placeholder=${`Filter, as ${exampleOf(data)}  ( / )`} value=${text} aria-label="Filter trials by an expression"
        aria-invalid=${String(Boolean(problem))} aria-describedby="filter-problem" onInput=${(/** @type {any} */ event) => type(event.target.value)} onKeyDown=${onKey} />
      <${Menu} label="?" kind="quiet bare" title="How to filter">${() => html`<${FilterHelp} data=${data} />`}<//></div>
    <div class="chips" role="group" aria-label="states">${STATES.filter((state) => counts[state] || states.has(state)).map((state) => html`
      <button key=${state} type="button" class="chip" aria-pressed=${String(states.has(state))} onClick=${() => toggleState(state)}>${state.toLowerCase()} <span class="count">${format.number(counts[state] ?? 0)}</span></button>`)}</div>
    ${brushed.length > 0 && html`<button type="button" class="chip" aria-pressed="true" title="Take the brushes away" onClick=${() => setBrush({})}>brushed: ${brushed.map(shortenName).join(", ")} ✕</button>`}
    <span class="filter-count" role="status">${numVisible === numTrials ? "" : `${format.number(numVisible)} of `}${format.number(numTrials)} trials</span>
    ${selection.size > 0 && html`<span class="selected-bar"><b>${format.number(selection.size)}</b> selected
      <a href="#" onClick=${goTo(setQuery, "curves", { show: "selected" })}>curves</a><a href="#" onClick=${goTo(setQuery, "compare", {})}>compare</a>
      <${Button} kind="quiet" label="Let go of the selection" onClick=${() => setSelection([])}>✕<//></span>`}
    ${children && html`<span class="space"></span>${children}`}
    ${problem && html`<div id="filter-problem" class="filter-problem" role="alert">${problem[0].toUpperCase() + problem.slice(1)} It is not applied.</div>`}
  </div>`;
}

/** @param {any} setQuery @param {string} tab @param {Record<string, string>} more */
function goTo(setQuery, tab, more) {
  return (/** @type {Event} */ event) => {
    event.preventDefault();
    setQuery({ tab, ...more }, { push: true });
  };
}

/** @param {{data: any}} props */
function FilterHelp({ data }) {
  const names = data.columns.map((/** @type {any} */ column) => column.key).filter((/** @type {string} */ key) => !/\.(last|min|max)$/.test(key));
  return html`<div class="filter-help">
    <p><code>${exampleOf(data)}</code></p>
    <p><code>${"< <= > >= == !="}</code> compare; <code>~</code> contains; <code>in (a, b)</code>; <code>and or not ( )</code>. A missing value fits nothing.</p>
    <p class="muted">A metric means its best value; <code>.last</code>, <code>.min</code> and <code>.max</code> are the others. Names:</p>
    <p class="names">${names.map((/** @type {string} */ name) => html`<code key=${name}>${shortenName(name)}</code> `)}</p></div>`;
}

/** An expression that means something here. @param {any} data */
export function exampleOf(data) {
  const hparam = data.hparams.find((/** @type {any} */ one) => one.kind === "log" || one.kind === "double");
  const middle = hparam && (hparam.kind === "log" ? Math.sqrt(hparam.min * hparam.max) : (hparam.min + hparam.max) / 2);
  const metric = data.experiment?.config?.searcher?.metric;
  const parts = [hparam && `${hparam.path} < ${Number(middle.toPrecision(1))}`, metric && `${metric} ${data.isSmallerBetter(data.searchedMetric) ? "<" : ">"} 0.5`];
  return parts.filter(Boolean).join(" and ") || "state == completed";
}

/** @param {any} data */
function countStates(data) {
  /** @type {Record<string, number>} */
  const counts = {};
  for (const state of data.get("state")) counts[state] = (counts[state] ?? 0) + 1;
  return counts;
}
