// @ts-check
// The list of runs of `quintain train`, and the comparison of those that are chosen.
import { Choice, SeedSwitch } from "./chart_parts.js";
import { writeSpread } from "./comparison.js";
import * as format from "./format.js";
import { RunCompare, RunPart } from "./run_compare.js";
import { groupRuns, readValues, sortRows } from "./run_data.js";
import { isLive, useRuns } from "./run_live.js";
import { StopRun } from "./run_stop.js";
import { OpenTensorBoard } from "./tensorboard_button.js";
import { html, useState } from "./vendor/preact.js";
import { Badge, Button, Empty, Loading, Problem, Steps } from "./widgets.js";

const MOST_COMPARED = 8; // There are as many colours.
const COMMAND = "quintain train --experiment=translation/local --model-dir=runs/local";

/** @type {{key: string, label: string, isNumber?: boolean, value: (run: any) => any}[]} */
const COLUMNS = [
  { key: "label", label: "Run", value: (run) => run.label },
  { key: "experiment", label: "Experiment", value: (run) => run.experiment },
  { key: "state", label: "State", value: (run) => run.state },
  { key: "step", label: "Step", isNumber: true, value: (run) => run.step },
  { key: "time", label: "Last record", value: (run) => run.time },
];

/** @param {{route: import("./route.js").Route}} props */
export function RunsView({ route }) {
  const { answer: runs, error, ask } = useRuns();
  if (!runs) return error ? html`<${Problem} error=${error} retry=${ask} />` : html`<${Loading} />`;
  if (!runs.length) return html`<${NoRuns} />`;
  const chosen = readChosen(route, runs);
  if (route.query.compare === "1" && chosen.length > 1) return html`<${RunCompare} runs=${chosen} route=${route} />`;
  return html`
    <div class="page-head"><h1>Runs</h1><span class="muted">${runs.length} of <code>quintain train</code></span><span class="space"></span>
      <input type="search" placeholder="Find a run" aria-label="Find a run" value=${route.query.find ?? ""}
        onInput=${(/** @type {any} */ event) => route.setQuery({ find: event.target.value })} />
      <${OpenTensorBoard} runs=${chosen} />
      <${Button} kind="main" disabled=${chosen.length < 2} title=${chosen.length < 2 ? "Choose two runs or more" : ""}
        onClick=${() => route.setQuery({ compare: "1" }, { push: true })}>Compare${chosen.length > 1 ? ` ${chosen.length} runs` : ""}<//></div>
    ${error && html`<${Problem} error=${error} />`}
    <${RunTable} runs=${runs} chosen=${chosen} route=${route} ask=${ask} />`;
}

/** @param {{runs: any[], chosen: any[], route: import("./route.js").Route, ask: () => void}} props */
function RunTable({ runs, chosen, route, ask }) {
  const { find = "", sort = "-time" } = route.query;
  const metric = route.query.metric ?? chooseMetric(runs);
  const names = [...new Set(runs.flatMap((run) => Object.keys(run.metrics)))].sort();
  const valueOf = readValues(runs, route.query.agg);
  const columns = [...COLUMNS.slice(0, 4), { key: "metric", label: metric, isNumber: true, value: (/** @type {any} */ run) => valueOf(run, metric) }, COLUMNS[4]];
  const key = sort.replace(/^-/, "");
  const column = columns.find((one) => one.key === key) ?? COLUMNS[4];
  const wanted = find.toLowerCase();
  const isLiveOnly = route.query.live === "1";
  const shown = sortRows(runs.filter((run) => (!isLiveOnly || isLive(run)) && `${run.label} ${run.experiment} ${run.path}`.toLowerCase().includes(wanted)), column.value, sort.startsWith("-"));
  const { groups, isSeeded, isGrouped } = groupRuns(shown, route.query);
  const [open, setOpen] = useState(/** @type {Set<string>} */ (new Set()));
  const fold = (/** @type {string} */ id) => setOpen(new Set(open.has(id) ? [...open].filter((one) => one !== id) : [...open, id]));
  /** @type {{run: any, group?: any[]}[]} rows: a run, or the seeds of one, and below them those that are unfolded */
  const laid = groups.flatMap((group) => (group.length === 1 ? [{ run: group[0] }]
    : [{ run: group[0], group }, ...(open.has(group[0].settings_id) ? group.map((run) => ({ run })) : [])]));
  const choose = (/** @type {string[]} */ names, /** @type {boolean} */ isChosen) => {
    const others = chosen.map((run) => run.name).filter((other) => !names.includes(other));
    route.setQuery({ sel: (isChosen ? [...others, ...names] : others).slice(-MOST_COMPARED).join(",") });
  };
  const header = (/** @type {any} */ one) => html`<th key=${one.key} scope="col" class=${one.isNumber ? "number" : ""}
    aria-sort=${one.key === key ? (sort.startsWith("-") ? "descending" : "ascending") : undefined}>
    <button type="button" class="run-sort" onClick=${() => route.setQuery({ sort: sort === one.key ? `-${one.key}` : one.key })}>${one.label}${
      one.key === key ? (sort.startsWith("-") ? " ↓" : " ↑") : ""}</button>${one.key === "metric" && html` <${RunPart} runs=${runs} metric=${metric} />`}</th>`;
  return html`
    <div class="row run-settings"><label class="check"><input type="checkbox" checked=${isLiveOnly}
      onChange=${(/** @type {any} */ event) => route.setQuery({ live: event.target.checked ? 1 : null })} />Hide ended runs</label>
    <${SeedSwitch} isSeeded=${isSeeded} isGrouped=${isGrouped} />
    ${names.length > 1 && html`<${Choice} label="Metric" value=${metric} options=${names.map((name) => [name, name])} onChange=${(/** @type {string} */ name) => route.setQuery({ metric: name })} />`}</div>
    <div class="plain-box"><table class="plain cards run-table"><thead><tr><th scope="col"><span class="visually-hidden">compare</span></th>${columns.map(header)}</tr></thead>
    <tbody>${laid.map(({ run, group }) => (group ? html`<tr key=${`seeds ${run.name}`} class="run-seeds">
      <td><label class="hit"><input type="checkbox" aria-label=${`Choose ${group.length} seeds of ${run.label}`} checked=${group.every((one) => chosen.includes(one))}
        onChange=${(/** @type {any} */ event) => choose(group.map((one) => one.name), event.target.checked)} /></label></td>
      <td class="name"><button type="button" class="run-sort" aria-expanded=${String(open.has(run.settings_id))} onClick=${() => fold(run.settings_id)}>${open.has(run.settings_id) ? "▾" : "▸"} n = ${group.length}</button>
        <bdi class="muted">${group.map((one) => one.label).join(", ")}</bdi></td>
      <td><bdi>${run.experiment}</bdi></td>
      <td class="state">${[...new Set(group.map((one) => one.state))].map((state) => html`<${Badge} state=${state} />`)}</td><td class="number"></td>
      <td class="number" data-label=${metric}>${writeSpread(group.map((one) => valueOf(one, metric)))}</td>
      <td class="nowrap" data-label="Last record">${format.ago(Math.max(...group.map((one) => one.time)))}</td></tr>` : html`<tr key=${run.name}>
      <td><label class="hit"><input type="checkbox" aria-label=${`Choose ${run.label}`} checked=${chosen.includes(run)} onChange=${(/** @type {any} */ event) => choose([run.name], event.target.checked)} /></label></td>
      <td class="name"><a href=${`#/runs/${encodeURIComponent(run.name)}`} title=${run.path}><bdi>${run.label}</bdi></a></td>
      <td><bdi>${run.experiment}</bdi>${run.problem && html`<span class="run-problem" title=${run.problem}>settings can't be read</span>`}</td>
      <td class="state"><${Badge} state=${run.state} /><${StopRun} run=${run} onStop=${ask} /></td>
      <td class="number"><${Steps} run=${run} /></td>
      <td class="number" data-label=${metric}>${format.number(valueOf(run, metric))}</td>
      <td class="nowrap" data-label="Last record" title=${format.time(run.time)}>${format.ago(run.time)}</td></tr>`))}</tbody></table></div>
    ${!shown.length && html`<p class="muted">${find ? `No ${isLiveOnly ? "running " : ""}run has “${find}” in its name.` : "No run is running."}</p>`}`;
}

function NoRuns() {
  return html`<div class="page-head"><h1>Runs</h1></div><${Empty} title="No runs yet">
    <p>Here are trainings that were started on this machine, and those below folders that the master was given:</p>
    <pre><code>${COMMAND}\nquintain ui --runs runs</code></pre><//>`;
}

/** @param {import("./route.js").Route} route @param {any[]} runs */
function readChosen(route, runs) {
  const names = (route.query.sel ?? "").split(",").filter(Boolean);
  return names.map((name) => runs.find((run) => run.name === name)).filter(Boolean);
}

/** @param {any[]} runs */
function chooseMetric(runs) {
  const names = new Set(runs.flatMap((run) => Object.keys(run.metrics)));
  return ["validation_loss", "training_loss"].find((name) => names.has(name)) ?? [...names].sort()[0] ?? "metric";
}
