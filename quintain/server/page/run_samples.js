// @ts-check
// What a run's evaluations made of sentences.
import { get } from "./api.js";
import * as format from "./format.js";
import { usePolled } from "./run_live.js";
import { html } from "./vendor/preact.js";
import { Button, Empty, Loading, Problem } from "./widgets.js";

const PAGE = 50;

/** @param {{name: string, numFiles: number, route: import("./route.js").Route}} props */
export function RunSamples({ name, numFiles, route }) {
  const { file = "", find = "" } = route.query;
  const offset = Math.max(0, Number(route.query.from) || 0);
  const params = { file, contains: find, offset, limit: PAGE };
  const { answer, error, ask } = usePolled(
    () => get(`/runs/${encodeURIComponent(name)}/samples`, params), () => 3600_000, [name, file, find, offset, numFiles]);
  if (error) return html`<${Problem} error=${error} retry=${ask} />`;
  if (!answer) return html`<${Loading} />`;
  if (!answer.files.length) {
    return html`<${Empty} title="No translations"><p>Evaluations of translation keep theirs here; they come every <code>trainer.validation_interval</code> steps.</p><//>`;
  }
  const chosen = answer.files.find((/** @type {any} */ one) => one.name === answer.name);
  const scores = Object.entries(chosen.scores).filter(([key]) => key.endsWith("_score") || key === "exact_match");
  return html`
    <div class="row run-settings">
      <label>Evaluation <select value=${answer.name} onChange=${(/** @type {any} */ event) => route.setQuery({ file: event.target.value, from: null })}>
        ${[...answer.files].reverse().map((/** @type {any} */ one) => html`<option key=${one.name} value=${one.name}>${one.name.replace("step-", "step ")}</option>`)}</select></label>
      <input type="search" aria-label="Find a sentence" placeholder="Find a sentence" value=${find}
        onChange=${(/** @type {any} */ event) => route.setQuery({ find: event.target.value, from: null })} />
      ${scores.map(([key, value]) => html`<span key=${key} class="muted">${key.replace("_score", "")} <b>${format.number(value)}</b></span>`)}
      <span class="space"></span><${Pages} offset=${offset} total=${answer.num_rows} route=${route} /></div>
    ${answer.is_cut && html`<p class="muted">The file is large: its first 16 MB are looked at.</p>`}
    ${answer.rows.length ? html`<div class="plain-box"><table class="plain run-samples"><caption class="visually-hidden">Translations at ${answer.name}</caption>
      <thead><tr><th scope="col">Source</th><th scope="col">Reference</th><th scope="col">Translation</th></tr></thead>
      <tbody>${answer.rows.map((/** @type {string[]} */ [source, reference, hypothesis], /** @type {number} */ index) => html`<tr key=${offset + index}>
        <td dir="auto">${source}</td><td dir="auto">${reference}</td><td dir="auto" class=${reference === hypothesis ? "run-exact" : ""}>${hypothesis}</td></tr>`)}</tbody></table></div>`
      : html`<p class="muted">${find ? `No sentence has “${find}”.` : "The file has no sentences."}</p>`}`;
}

/** @param {{offset: number, total: number, route: import("./route.js").Route}} props */
function Pages({ offset, total, route }) {
  if (!total) return null;
  const go = (/** @type {number} */ from) => route.setQuery({ from: from > 0 ? from : null });
  return html`<span class="muted">${offset + 1} to ${Math.min(offset + PAGE, total)} of ${format.number(total)}</span>
    <${Button} label="Page before" disabled=${offset === 0} onClick=${() => go(Math.max(0, offset - PAGE))}>←<//>
    <${Button} label="Next page" disabled=${offset + PAGE >= total} onClick=${() => go(offset + PAGE)}>→<//>`;
}
