// @ts-check
// Some runs of `quintain train` beside each other: their curves, and the settings that differ.
import { get } from "./api.js";
import { PartChoice, SeedSwitch } from "./chart_parts.js";
import { writeSpread } from "./comparison.js";
import { RunCharts } from "./run_charts.js";
import { findDifferences, groupRuns, readValues, usualPart } from "./run_data.js";
import { useRecords } from "./run_live.js";
import { OpenTensorBoard } from "./tensorboard_button.js";
import { html, useEffect, useState } from "./vendor/preact.js";
import { Badge, Button, Loading, Problem, Steps } from "./widgets.js";

/** @param {{runs: any[], route: import("./route.js").Route}} props */
export function RunCompare({ runs, route }) {
  const names = runs.map((run) => run.name);
  const { records, version, error, ask } = useRecords(names);
  const { groups, isSeeded, isGrouped } = groupRuns(runs, route.query);
  const labels = new Map(shorten(runs.map((run) => run.label)).map((label, at) => [names[at], label]));
  const labelOf = (/** @type {any[]} */ group) => `${group.length > 1 ? `${group.length} seeds: ` : ""}${group.map((run) => labels.get(run.name)).join(", ")}`;
  return html`
    <div class="page-head"><h1>${runs.length} runs</h1><${SeedSwitch} isSeeded=${isSeeded} isGrouped=${isGrouped} /><span class="space"></span>
      <${OpenTensorBoard} runs=${runs} />
      <${Button} onClick=${() => route.setQuery({ compare: null }, { push: true })}>All runs<//></div>
    ${error && html`<${Problem} error=${error} retry=${ask} />`}
    <${Differences} runs=${runs} groups=${groups} labelOf=${labelOf} valueOf=${readValues(runs, route.query.agg)} />
    ${records ? html`<${RunCharts} version=${`${names.join()} ${version} ${isGrouped}`} route=${route}
      runs=${groups.map((group) => ({ label: labelOf(group), records: group.map((run) => records[runs.indexOf(run)]) }))} />` : !error && html`<${Loading} />`}`;
}

/** Which value a metric of runs is shown by, where there is a choice. @param {{runs: any[], metric: string}} props */
export function RunPart({ runs, metric }) {
  const usual = usualPart(runs, metric);
  return usual === null ? null : html`<${PartChoice} metric=${metric} usual=${usual} />`;
}

/** @param {{runs: any[], groups: any[][], labelOf: (group: any[]) => string, valueOf: (run: any, metric: string) => number | undefined}} props */
function Differences({ runs, groups, labelOf, valueOf }) {
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
    <thead><tr><th scope="col">Setting</th>${groups.map((group) => html`<th key=${group[0].name} scope="col"><a href=${`#/runs/${encodeURIComponent(group[0].name)}`} title=${group[0].path}><bdi>${labelOf(group)}</bdi></a></th>`)}</tr></thead>
    <tbody>
      <tr><th scope="row">state</th>${groups.map((group) => html`<td key=${group[0].name}>${[...new Set(group.map((run) => run.state))].map((state) => html`<${Badge} state=${state} />`)}</td>`)}</tr>
      <tr><th scope="row">step</th>${groups.map((group) => html`<td key=${group[0].name}>${group.map((run) => html`<div><${Steps} run=${run} /></div>`)}</td>`)}</tr>
      ${rows.map(([path, values]) => html`<tr key=${path}><th scope="row" class="mono">${path}</th>${groups.map((group) => html`<td key=${group[0].name}>${
        [...new Set(group.map((run) => JSON.stringify(values[runs.indexOf(run)])))].map((text) => (text === undefined ? html`<span class="muted">none</span> ` : html`<code dir="auto">${text}</code> `))}</td>`)}</tr>`)}
      ${!rows.length && html`<tr><th scope="row">settings</th><td colspan=${groups.length} class="muted">All settings are the same.</td></tr>`}
    </tbody></table></div>
    <details class="run-speed"><summary>Metrics (${metrics.length})</summary><div class="plain-box"><table class="plain">
      <thead><tr><th scope="col">Metric</th>${groups.map((group) => html`<th key=${group[0].name} scope="col" class="number">${labelOf(group)}</th>`)}</tr></thead>
      <tbody>${metrics.map((name) => html`<tr key=${name}><th scope="row">${name} <${RunPart} runs=${runs} metric=${name} /></th>${groups.map((group) => html`<td key=${group[0].name} class="number">${writeSpread(group.map((run) => valueOf(run, name)))}</td>`)}</tr>`)}</tbody></table></div></details>`;
}

/** Takes away what all names begin with. @param {string[]} labels */
function shorten(labels) {
  const parts = labels.map((label) => label.split("/"));
  let shared = 0;
  while (parts.every((part) => part.length > shared + 1 && part[shared] === parts[0][shared])) shared += 1;
  const short = parts.map((part) => part.slice(shared).join("/"));
  return new Set(short).size === short.length ? short : labels;
}
