// @ts-check
// One trial: what it is, how it goes, what it left.
import { html, useEffect, useReducer, useRef, useState } from "./vendor/preact.js";
import { TrialActions } from "./actions.js";
import { get, getBuffer } from "./api.js";
import { subscribe } from "./events.js";
import { ConfigView, Fields } from "./config_view.js";
import { duration, heldSecs, metric as writeMetric, number, time } from "./format.js";
import { flatten, readSpace, shortenPaths } from "./hparams.js";
import { clean, shorten } from "./log_lines.js";
import { LastLines, LogsView } from "./logs.js";
import { useStop } from "./search_data.js";
import { findWork, useSlots } from "./status.js";
import { CheckpointsView } from "./trial_checkpoints.js";
import { SystemCharts, TrialCharts } from "./trial_charts.js";
import { TrialData } from "./trial_data.js";
import { Badge, Loading, Problem, Progress, Tabs } from "./widgets.js";

/** @param {{trialId: number, route: import("./route.js").Route, status: any}} props */
export function TrialView({ trialId, route, status }) {
  const [, redraw] = useReducer((/** @type {number} */ count) => count + 1, 0);
  const [error, setError] = useState(/** @type {any} */ (null));
  const kept = useRef(/** @type {TrialData | null} */ (null));
  if (kept.current?.id !== trialId) kept.current = new TrialData(trialId, { get, getBuffer }, () => redraw(null));
  const data = kept.current;
  const [attempt, setAttempt] = useState(0);
  const slots = useSlots(status, trialId);
  const rung = useStop(data.trial, data.experiment);
  useEffect(() => {
    let stop = () => {};
    let isGone = false;
    const follow = () => {
      stop();
      // From where the curves end, so that no point is missed.
      stop = subscribe({ trial_id: trialId, cursor: data.cursor, onChanges: (changes) => data.applyChanges(changes), onReset: load });
    };
    const load = () => data.load().then(() => isGone || follow(), setError);
    setError(null);
    load();
    return () => {
      isGone = true;
      stop();
    };
  }, [trialId, attempt]);
  useEffect(() => {
    document.title = `Trial ${trialId} · Quintain`;
  }, [trialId]);
  if (error) return html`<${Problem} error=${error} retry=${() => setAttempt(attempt + 1)} />`;
  if (!data.trial) return html`<${Loading} />`;
  const tab = route.query.tab ?? "curves";
  const hrefOf = (/** @type {string} */ key) => "#" + route.path + "?" + new URLSearchParams({ ...route.query, tab: key });
  const saved = data.checkpoints.filter((one) => one.state === "COMPLETED").length;
  return html`<article class="trial">
    <${Head} data=${data} status=${status} slots=${slots} rung=${rung} />
    <${Facts} data=${data} slots=${slots} />
    ${data.trial.note && html`<p class="trial-note" aria-label="Note">${clean(shorten(data.trial.note, 5000))}</p>`}
    <${Failure} trial=${data.trial} hasLines=${tab !== "logs"} />
    <${Tabs} label="parts of the trial" current=${tab} hrefOf=${hrefOf} tabs=${[
      { key: "curves", label: "Curves" }, { key: "checkpoints", label: "Checkpoints", count: saved }, { key: "logs", label: "Logs" },
      { key: "system", label: "System" }, { key: "config", label: "Code and config" }]} />
    ${tab === "curves" && html`<div class="trial-body"><${Hparams} data=${data} /><${TrialCharts} data=${data} route=${route} /></div>`}
    ${tab === "checkpoints" && html`<${CheckpointsView} data=${data} />`}
    ${tab === "logs" && html`<${LogsView} trialId=${trialId} />`}
    ${tab === "system" && html`<${SystemCharts} data=${data} />`}
    ${tab === "config" && html`<${ConfigView} experiment=${data.experiment} />`}
  </article>`;
}

/** @param {{data: TrialData, status: any, slots: any[], rung?: number}} props */
function Head({ data, status, slots, rung }) {
  const { trial, experiment } = data;
  const { now, work } = findWork(status, experiment.id);
  const mine = work.get(trial.id);
  const name = shorten(experiment.config?.name || experiment.description?.split("\n")[0] || "", 200);
  return html`<div class="page-head">
    <h1>Trial ${trial.id}</h1><${Badge} state=${findState(trial, now, mine, slots)} rung=${rung} />
    ${!trial.end_time && html`<${Progress} share=${mine?.progress ?? trial.progress} label="progress of the trial" />`}
    <a class="trial-owner" href="#/experiments/${experiment.id}" title=${clean(name)}>experiment ${experiment.id}${name && `: ${clean(name)}`}</a>
    <span class="space"></span><${TrialActions} trial=${trial} experiment=${experiment} />
  </div>`;
}

/** @param {{data: TrialData, slots: any[]}} props */
function Facts({ data, slots }) {
  const { trial, experiment } = data;
  const held = slots.map((slot) => (slot.node ? `${slot.id} (${clean(slot.node)})` : slot.id));
  const metric = experiment.config?.searcher?.metric ?? "metric";
  const write = (/** @type {unknown} */ value) => writeMetric(value, metric, experiment.config?.searcher);
  return html`<${Fields} fields=${[
    [`Best ${metric}`, write(trial.best_metric)], [`Latest ${metric}`, write(trial.latest_metric)],
    ["Batches", number(trial.total_batches)], ["Started", time(trial.start_time)], ["Took", duration(heldSecs(trial.held_secs, trial.held_since))],
    ["Slots", held.join(", ")], ["Restarts", trial.restarts || ""], ["Seed", String(trial.seed)],
    ["Began with", trial.parent_trial_id && html`<a href="#/trials/${trial.parent_trial_id}">trial ${trial.parent_trial_id}</a>`],
  ]} />`;
}

/** What an active trial does, or that it waits for a slot; of many trials the master says only which run.
 * @param {any} trial @param {any} now @param {any} mine @param {any[]} slots */
function findState(trial, now, mine, slots) {
  if (trial.state !== "ACTIVE") return trial.state;
  if (mine || slots.length) return mine?.doing ?? "RUNNING";
  return now?.waiting_trials?.includes(trial.id) ? "WAITING" : trial.state;
}

/** Why it ended, with the last lines if it failed. @param {{trial: any, hasLines: boolean}} props */
function Failure({ trial, hasLines }) {
  if (!trial.reason) return null;
  const reason = clean(shorten(trial.reason, 5000));
  if (trial.state !== "ERROR") return html`<p class="trial-reason">${reason}</p>`;
  return html`<section class="trial-failure" aria-label="Error">
    <div class="problem" role="alert">${reason}</div>
    ${hasLines && html`<h3>Last log lines</h3><${LastLines} trialId=${trial.id} />`}
  </section>`;
}

/** @param {{data: TrialData}} props */
function Hparams({ data }) {
  const values = flatten(data.trial.hparams);
  const space = new Map(readSpace(data.experiment.config?.hyperparameters).map((one) => [one.path, one]));
  const paths = Object.keys(values);
  const labels = shortenPaths(paths);
  if (!paths.length) return html`<p class="muted">No hyperparameters.</p>`;
  return html`<section class="trial-hparams" aria-label="Hyperparameters"><div class="plain-box"><table class="plain">
    <caption class="visually-hidden">Hyperparameters</caption>
    <thead><tr><th scope="col">Hyperparameter</th><th scope="col">Value</th><th scope="col">Range</th></tr></thead>
    <tbody>${paths.map((path) => html`<tr key=${path}><th scope="row" class="mono" title=${clean(path)}>${clean(labels.get(path) ?? path)}</th>
      <td class="mono">${show(values[path])}</td><td class="muted">${describeRange(space.get(path))}</td></tr>`)}</tbody></table></div></section>`;
}

/** @param {unknown} value */
function show(value) {
  return typeof value === "number" ? number(value, 6) : clean(typeof value === "string" ? value : JSON.stringify(value)).slice(0, 2000);
}

/** @param {import("./hparams.js").Hparam | undefined} hparam */
function describeRange(hparam) {
  if (!hparam || hparam.kind === "const") return "";
  if (hparam.kind === "categorical") return hparam.vals.map(show).join(", ").slice(0, 500);
  return `${number(hparam.min)} to ${number(hparam.max)}${hparam.kind === "log" ? ", logarithmic" : ""}`;
}
