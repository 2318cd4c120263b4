// @ts-check
// Some runs of `quintain train` beside each other: their curves, and the settings that differ.
import { get } from "./api.js";
import { PartChoice } from "./chart_parts.js";
import * as format from "./format.js";
import { RunCharts } from "./run_charts.js";
import { findDifferences, readValues, usualPart } from "./run_data.js";
import { useRecords } from "./run_live.js";
import { OpenTensorBoard } from "./tensorboard_button.js";
import { html, useEffect, useState } from "./vendor/preact.js";
import { Badge, Button, Loading, Problem, Steps } from "./widgets.js";

/** @param {{runs: any[], route: import("./route.js").Route}} props */
export function RunCompare({ runs, route }) {
  const names = runs.map((run) => run.name);
  const { records, version, error, ask } = useRecords(names);
  const labels = shorten(runs.map((run) => run.label));
  return html`
    <div class="page-head"><h1>${runs.length} runs</h1><span class="space"></span>
      <${OpenTensorBoard} runs=${runs} />
      <${Button} onClick=${() => route.setQuery({ compare: null }, { push: true })}>All runs<//></div>
    ${error && html`<${Problem} error=${error} retry=${ask} />`}
    <${Differences} runs=${runs} labels=${labels} valueOf=${readValues(runs, route.query.agg)} />
    ${records ? html`<${RunCharts} version=${`${names.join()} ${version}`} route=${route}
      runs=${records.map((one, index) => ({ label: labels[index], records: one }))} />` : !error && html`<${Loading} />`}`;
}

/** Which value a metric of runs is shown by, where there is a choice. @param {{runs: any[], metric: string}} props */
export function RunPart({ runs, metric }) {
  const usual = usualPart(runs, metric);
  return usual === null ? null : html`<${PartChoice} metric=${metric} usual=${usual} />`;
}

/** @param {{runs: any[], labels: string[], valueOf: (run: any, metric: string) => number | undefined}} props */
function Differences({ runs, labels, valueOf }) {
  const [details, setDetails] = useState(/** @type {any[] | null} */ (null));
  const [error, setError] = useState(/** @type {any} */ (null));
  const names = runs.map((run) => run.name);
  useEffect(() => {
    let isOver = false;
    setDetails(null);
    setError(null);
    Promise.all(names.map((name) => get(`/runs/${encodeURIComponent(name)}`))).then(
      (found) => isOver || setDetails(found), (problem) => isOver || setError(problem));
    return () => void (isOver = true);
  }, [names.join()]);
  if (error) return html`<${Problem} error=${error} />`;
  if (!details) return html`<${Loading} text="Comparing settings" />`;
  const rows = findDifferences(details.map((one) => one.params));
  const metrics = [...new Set(runs.flatMap((run) => Object.keys(run.metrics)))].sort();
  return html`<div class="plain-box run-differences"><table class="plain">
    <caption class="visually-hidden">Runs, and the settings in which they differ</caption>
    <thead><tr><th scope="col">Setting</th>${runs.map((run, index) => html`<th key=${run.name} scope="col"><a href=${`#/runs/${encodeURIComponent(run.name)}`} title=${run.path}><bdi>${labels[index]}</bdi></a></th>`)}</tr></thead>
    <tbody>
      <tr><th scope="row">state</th>${runs.map((run) => html`<td key=${run.name}><${Badge} state=${run.state} /></td>`)}</tr>
      <tr><th scope="row">step</th>${runs.map((run) => html`<td key=${run.name}><${Steps} run=${run} /></td>`)}</tr>
      ${rows.map(([path, values]) => html`<tr key=${path}><th scope="row" class="mono">${path}</th>${values.map((value, index) => html`<td key=${index}>${
        value === undefined ? html`<span class="muted">none</span>` : html`<code dir="auto">${JSON.stringify(value)}</code>`}</td>`)}</tr>`)}
      ${!rows.length && html`<tr><th scope="row">settings</th><td colspan=${runs.length} class="muted">All settings are the same.</td></tr>`}
    </tbody></table></div>
    <details class="run-speed"><summary>Metrics (${metrics.length})</summary><div class="plain-box"><table class="plain">
      <thead><tr><th scope="col">Metric</th>${runs.map((run, index) => html`<th key=${run.name} scope="col" class="number">${labels[index]}</th>`)}</tr></thead>
      <tbody>${metrics.map((name) => html`<tr key=${name}><th scope="row">${name} <${RunPart} runs=${runs} metric=${name} /></th>${runs.map((run) => html`<td key=${run.name} class="number">${format.number(valueOf(run, name))}</td>`)}</tr>`)}</tbody></table></div></details>`;
}

/** Takes away what all names begin with. @param {string[]} labels */
function shorten(labels) {
  const parts = labels.map((label) => label.split("/"));
  let shared = 0;
  while (parts.every((part) => part.length > shared + 1 && part[shared] === parts[0][shared])) shared += 1;
  const short = parts.map((part) => part.slice(shared).join("/"));
  return new Set(short).size === short.length ? short : labels;
}
