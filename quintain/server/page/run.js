// @ts-check
// One run of `quintain train`.
import { get } from "./api.js";
import * as format from "./format.js";
import { RunCharts } from "./run_charts.js";
import { RunConfig, RunEnvironment } from "./run_config.js";
import { isLive, useRecords, usePolled } from "./run_live.js";
import { RunSamples } from "./run_samples.js";
import { StopRun } from "./run_stop.js";
import { OpenTensorBoard } from "./tensorboard_button.js";
import { html, useEffect, useMemo } from "./vendor/preact.js";
import { Badge, Empty, Loading, Problem, Steps, Tabs } from "./widgets.js";

const MOST_ROWS = 200;

/** @param {{name: string, route: import("./route.js").Route}} props */
export function RunView({ name, route }) {
  const records = useRecords([name]);
  const { answer: details, error, ask } = usePolled(
    () => get(`/runs/${encodeURIComponent(name)}`), (found) => (isLive(found.run) ? 5000 : 20000), [name]);
  const label = details?.run.label;
  useEffect(() => {
    if (label) document.title = `${label} · Quintain`;
  }, [label]);
  if (!details) return error ? html`<${Missing} error=${error} retry=${ask} />` : html`<${Loading} />`;
  const tab = route.query.tab ?? "curves";
  const state = records.records?.[0].state || details.run.state;
  const run = { ...details.run, state, step: Math.max(details.run.step, ...lastSteps(records.records?.[0])) };
  const evaluations = records.records?.[0].evaluations.steps.length ?? null;
  const tabs = [
    { key: "curves", label: "Curves" },
    { key: "evaluations", label: "Evaluations", count: evaluations },
    ...(details.num_sample_files || tab === "samples" ? [{ key: "samples", label: "Translations", count: details.num_sample_files }] : []),
    { key: "config", label: "Config" },
    { key: "checkpoints", label: "Checkpoints", count: details.checkpoints.length },
    { key: "environment", label: "Environment" },
  ];
  const hrefOf = (/** @type {string} */ key) => `#/runs/${encodeURIComponent(name)}${key === "curves" ? "" : `?tab=${key}`}`;
  return html`
    <div class="page-head"><h1 title=${run.path}><bdi>${run.label}</bdi></h1><${Badge} state=${run.state} /><span class="run-steps"><${Steps} run=${run} /></span>
      <span class="muted"><bdi>${run.experiment}</bdi></span><span class="space"></span>
      <span class="muted" title=${format.time(run.time)}>last record ${format.ago(run.time)}</span>
      <${StopRun} run=${run} onStop=${ask} />
      <${OpenTensorBoard} runs=${[run]} />
      <a class="button" href=${`#/runs?sel=${encodeURIComponent(name)}`}>Compare</a></div>
    <p class="mono muted run-path"><bdi>${run.path}</bdi></p>
    ${error && html`<${Problem} error=${error} />`}
    ${run.problem && html`<${Problem} error=${new Error(run.problem)} />`}
    <${Tabs} tabs=${tabs} current=${tab} hrefOf=${hrefOf} label="parts of the run" />
    ${tab === "curves" && html`<${Records} records=${records}>${(/** @type {any} */ one) => html`
      <${RunCharts} runs=${[{ label: run.label, records: [one] }]} version=${`${name} ${records.version}`} route=${route} />`}<//>`}
    ${tab === "evaluations" && html`<${Records} records=${records}>${(/** @type {any} */ one) => html`<${Evaluations} records=${one} version=${records.version} />`}<//>`}
    ${tab === "samples" && html`<${RunSamples} name=${name} numFiles=${details.num_sample_files} route=${route} />`}
    ${tab === "config" && html`<${RunConfig} details=${details} route=${route} />`}
    ${tab === "checkpoints" && html`<${Checkpoints} checkpoints=${details.checkpoints} />`}
    ${tab === "environment" && html`<${RunEnvironment} details=${details} />`}`;
}

/** @param {{error: any, retry: () => void}} props */
function Missing({ error, retry }) {
  if (error.kind !== "NotFoundError") return html`<${Problem} error=${error} retry=${retry} />`;
  return html`<${Empty} title="Run not found"><p>Its directory was moved or deleted, or the folder is not one of <code>--runs</code> any more.</p>
    <p><a href="#/runs">All runs</a></p><//>`;
}

/** @param {{records: ReturnType<typeof useRecords>, children?: any}} props `children` is a function of the records */
function Records({ records, children }) {
  if (!records.records) return records.error ? html`<${Problem} error=${records.error} retry=${records.ask} />` : html`<${Loading} />`;
  return html`${records.error && html`<${Problem} error=${records.error} retry=${records.ask} />`}${children(records.records[0])}`;
}

/** A row for each evaluation, the newest first. @param {{records: import("./run_data.js").RunRecords, version: string}} props */
function Evaluations({ records, version }) {
  const { steps, metrics } = records.evaluations;
  const names = useMemo(() => Object.keys(metrics).sort(), [version]);
  if (!steps.length) return html`<${Empty} title="No evaluation yet"><p>They come every <code>trainer.validation_interval</code> steps.</p><//>`;
  const rows = steps.map((_, index) => index).reverse().slice(0, MOST_ROWS);
  return html`<div class="plain-box"><table class="plain">
    <caption class="visually-hidden">Evaluations, the newest first</caption>
    <thead><tr><th scope="col" class="number">Step</th>${names.map((name) => html`<th key=${name} scope="col" class="number">${name}</th>`)}</tr></thead>
    <tbody>${rows.map((index) => html`<tr key=${steps[index]}><th scope="row" class="number">${format.number(steps[index])}</th>${
      names.map((name) => html`<td key=${name} class="number">${format.number(metrics[name][index])}</td>`)}</tr>`)}</tbody></table></div>
    ${steps.length > MOST_ROWS && html`<p class="muted">Newest ${MOST_ROWS} of ${steps.length}.</p>`}`;
}

/** @param {{checkpoints: any[]}} props */
function Checkpoints({ checkpoints }) {
  if (!checkpoints.length) return html`<${Empty} title="No checkpoint yet"><p>They come every <code>trainer.checkpoint_interval</code> steps.</p><//>`;
  const size = checkpoints.reduce((sum, one) => sum + one.num_bytes, 0);
  return html`<div class="plain-box"><table class="plain"><caption class="visually-hidden">Checkpoints, the newest first</caption>
    <thead><tr><th scope="col">Name</th><th scope="col" class="number">Step</th><th scope="col" class="number">Size</th><th scope="col">Written</th></tr></thead>
    <tbody>${[...checkpoints].reverse().map((one) => html`<tr key=${one.name}><th scope="row" class="mono">${one.name}</th>
      <td class="number">${format.number(one.step)}</td><td class="number">${format.bytes(one.num_bytes)}</td><td title=${format.time(one.time)}>${format.ago(one.time)}</td></tr>`)}</tbody></table></div>
    <p class="muted">${checkpoints.length} checkpoints, ${format.bytes(size)} together.</p>`;
}

/** @param {import("./run_data.js").RunRecords | undefined} records */
function lastSteps(records) {
  if (!records) return [];
  return [records.training, records.evaluations].flatMap(({ steps }) => steps.slice(-1));
}
