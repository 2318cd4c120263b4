// @ts-check
// The search itself: rungs with who went on and who was stopped, and who descends from whom.
import { html, useMemo, useState } from "./vendor/preact.js";
import { colorOf, useTheme } from "./colors.js";
import { number } from "./format.js";
import { useSearch } from "./search_data.js";
import { countOutcomes, layOutTree, sortRung } from "./search_layout.js";
import { Button, Empty, Loading, Problem } from "./widgets.js";

const MOST_SHOWN = 24;
const MOST_NODES = 1000;
const COLUMN_PX = 110;
const ROW_PX = 24;
/** @type {[import("./search_layout.js").Outcome, string][]} */
const OUTCOMES = [["promoted", "promoted"], ["done", "at the end"], ["running", "on the way"], ["waiting", "waiting"], ["stopped", "stopped"]];
const WORDS = {
  single: "One trial with fixed hyperparameters.",
  random: "Every trial is trained to the end, at points that are drawn at random.",
  grid: "Every point of the grid is trained to the end.",
};

/** @param {{data: any, experiment: any}} props */
export function SearchView({ data, experiment }) {
  const { search, error, reload } = useSearch(data);
  if (error && !search) return html`<${Problem} error=${error} retry=${reload} />`;
  if (!search) return html`<${Loading} />`;
  const { searcher = {} } = experiment.config ?? {};
  const hasRungs = search.brackets.some((/** @type {any} */ one) => one.rungs.length > 0);
  return html`<section class="search-view" aria-label="The search">
    <p>Searched by <b>${searcher.name}</b> for the ${searcher.smaller_is_better ? "smallest" : "largest"} <b>${searcher.metric}</b>.
      ${!hasRungs && !search.lineage.length && ` ${/** @type {any} */ (WORDS)[search.kind] ?? "It has no rungs and no lineage."}`}</p>
    ${search.brackets.map((/** @type {any} */ bracket, /** @type {number} */ at) => bracket.rungs.length > 0 && html`
      <${Bracket} key=${at} bracket=${bracket} name=${search.brackets.length > 1 ? `Bracket ${at + 1}` : "Rungs"} smallerIsBetter=${searcher.smaller_is_better ?? true} />`)}
    ${search.lineage.length > 0 && html`<${Lineage} lineage=${search.lineage} data=${data} />`}
  </section>`;
}

/** @param {{bracket: any, name: string, smallerIsBetter: boolean}} props */
function Bracket({ bracket, name, smallerIsBetter }) {
  return html`<section class="bracket" aria-label=${name}><h2>${name}</h2>
    <div class="rungs">${bracket.rungs.map((/** @type {any} */ rung, /** @type {number} */ at) => html`
      <${Rung} key=${at} rung=${rung} number=${at} smallerIsBetter=${smallerIsBetter} />`)}</div></section>`;
}

/** @param {{rung: any, number: number, smallerIsBetter: boolean}} props */
function Rung({ rung, number: at, smallerIsBetter }) {
  const [isAll, setAll] = useState(false);
  const entries = useMemo(() => sortRung(rung.trials, smallerIsBetter), [rung, smallerIsBetter]);
  const counts = countOutcomes(entries);
  const shown = isAll ? entries : entries.slice(0, MOST_SHOWN);
  return html`<section class="rung panel" aria-label="Rung ${at}">
    <header><b>Rung ${at}</b><span class="muted">${number(rung.batches)} batches, ${entries.length} ${entries.length === 1 ? "trial" : "trials"}</span></header>
    <div class="rung-bar" aria-hidden="true">${OUTCOMES.map(([key]) => counts[key] > 0 && html`
      <span key=${key} class=${key} style=${{ flexGrow: counts[key] }}></span>`)}</div>
    <ul class="rung-counts">${OUTCOMES.map(([key, label]) => counts[key] > 0 && html`<li key=${key} class=${key}>${counts[key]} ${label}</li>`)}</ul>
    ${entries.length === 0 ? html`<p class="muted">No trial has reached this rung.</p>` : html`<ol class="rung-trials">${shown.map(({ id, metric, outcome }) => html`
      <li key=${id} class=${outcome}><a href="#/trials/${id}" title=${`Trial ${id}: ${outcome}`}>${id}</a><span class="number">${metric === null ? "" : number(metric)}</span><span class="rung-outcome">${outcome}</span></li>`)}</ol>`}
    ${entries.length > shown.length && html`<${Button} kind="quiet" onClick=${() => setAll(true)}>Show all ${entries.length}<//>`}
  </section>`;
}

/** @param {{lineage: [number, number][], data: any}} props */
function Lineage({ lineage, data }) {
  const theme = useTheme();
  const nodes = useMemo(() => layOutTree(lineage, [...data.ids]), [lineage, data.numRows]);
  const shown = nodes.slice(0, MOST_NODES);
  const places = new Map(shown.map((node) => [node.id, node]));
  const width = COLUMN_PX * (1 + Math.max(0, ...shown.map((node) => node.generation))) + 40;
  const height = ROW_PX * (1 + Math.max(0, ...shown.map((node) => node.row))) + 10;
  const x = (/** @type {any} */ node) => 20 + node.generation * COLUMN_PX;
  const y = (/** @type {any} */ node) => 18 + node.row * ROW_PX;
  if (!shown.length) return html`<${Empty} title="No trial has a parent yet" />`;
  return html`<section aria-label="Lineage"><h2>Lineage</h2>
    <p class="muted">Each column is a generation: a trial begins with what its parent, left of it, had learned.</p>
    <div class="lineage" tabindex="0"><svg width=${width} height=${height} role="img" aria-label="Lineage of trials">
      ${shown.map((node) => {
        const parent = node.parent === null ? undefined : places.get(node.parent);
        return parent && html`<path key=${`line ${node.id}`} class="lineage-line" d=${`M${x(parent) + 6} ${y(parent)} C${x(parent) + 50} ${y(parent)} ${x(node) - 50} ${y(node)} ${x(node) - 6} ${y(node)}`} />`;
      })}
      ${shown.map((node) => {
        const best = data.value("best_metric", data.rowOf(node.id));
        return html`<a key=${node.id} href="#/trials/${node.id}" aria-label=${`Trial ${node.id}`}>
          <circle cx=${x(node)} cy=${y(node)} r="6" fill=${colorOf(node.id, theme.isDark)} />
          <text class="lineage-text" x=${x(node) + 11} y=${y(node) - 5}>${node.id}${best === null ? "" : `: ${number(best, 3)}`}</text></a>`;
      })}</svg></div>
    ${nodes.length > shown.length && html`<p class="muted">The first ${MOST_NODES} of ${nodes.length} trials.</p>`}</section>`;
}
