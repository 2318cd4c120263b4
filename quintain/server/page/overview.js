// @ts-check
// What an experiment came to, without a click: its best trial and how to use it, progress, curves, what mattered, what failed.
import { html, useEffect, useMemo, useState } from "./vendor/preact.js";
import { get } from "./api.js";
import { brief } from "./chart_table.js";
import { listDifferences } from "./comparison.js";
import { CurvesView } from "./curves.js";
import * as format from "./format.js";
import { ImportanceView } from "./importance.js";
import { clean, shorten } from "./log_lines.js";
import { findBestRow } from "./rank.js";
import { useStandings } from "./search_data.js";
import { countTrials } from "./status.js";
import { Empty, Progress } from "./widgets.js";

const NUM_CURVES = 10;
const MOST_FAILED = 5;
const MOST_SETTINGS = 12;

/** @param {any} props those of a tab */
export function OverviewView(props) {
  const { data, version, route } = props;
  const rows = useMemo(() => Int32Array.from({ length: data.numRows }, (_, row) => row), [data.numRows]);
  const luckiest = useMemo(() => findBestRow(/** @type {Float64Array} */ (data.get("best_metric")), data.isSmallerBetter("best_metric")), [data, version]);
  const standings = useStandings(data, version);
  const best = standings.length ? data.rowOf(standings[0].trial_ids[0]) : luckiest;
  if (!data.numRows) return html`<${Empty} title="No trials yet"><p>The search creates them as slots become free; they appear here by themselves.</p><//>`;
  const query = { show: "top", k: String(NUM_CURVES), metrics: data.searchedMetric, range: route.query.range };
  return html`<section class="overview" aria-label="Overview">
    <${Best} ...${{ data, row: best, rows }} />
    <${Standing} ...${props} />
    ${standings.length > 0 && html`<${FurtherSeeds} ...${{ data, standings }} />`}
    <section class="panel wide" aria-label="Curves of the best trials"><h2>Curves of the best ${Math.min(NUM_CURVES, data.numRows)}</h2>
      <${CurvesView} ...${props} visible=${rows} selection=${new Set()} route=${{ ...route, query }} isBrief /></section>
    <section class="panel" aria-label="What mattered"><h2>What mattered</h2><${ImportanceView} data=${data} route=${route} isBrief /></section>
    <${Failed} ...${props} />
  </section>`;
}

/** The best trial, its settings, and the command to use it. @param {{data: any, row: number, rows: Int32Array}} props */
function Best({ data, row, rows }) {
  const id = row < 0 ? 0 : data.ids[row];
  const latest = row < 0 ? "" : data.value("latest_checkpoint", row);
  const best = useBestCheckpoint(data, id, latest);
  const metric = data.experiment.config?.searcher?.metric;
  if (row < 0) return html`<section class="panel" aria-label="Best trial"><h2>Best trial</h2><p class="muted">No trial has been validated yet.</p></section>`;
  const differing = listDifferences(data, rows).slice(0, MOST_SETTINGS);
  return html`<section class="panel" aria-label="Best trial">
    <h2>Best: <a href=${`#/trials/${id}`}>trial ${id}</a></h2>
    <p class="overview-value">${data.write("best_metric", data.value("best_metric", row))} <span class="muted">${metric} after ${format.number(best?.total_batches ?? data.value("total_batches", row))} batches</span></p>
    <dl class="overview-settings">${differing.map((column) => html`<div key=${column.key}><dt title=${column.path}>${column.label}</dt><dd>${brief(data.value(column.key, row)) || "–"}</dd></div>`)}</dl>
    ${best
      ? html`<p class="muted">To use it:</p><pre>quintain checkpoint export ${best.uuid} --output=best</pre>`
      : html`<p class="muted">It has no checkpoint yet.</p>`}
  </section>`;
}

/** What further seeds say about the finalists. @param {{data: any, standings: any[]}} props */
function FurtherSeeds({ data, standings }) {
  const write = (/** @type {number | null} */ value) => (value === null ? "–" : data.write("best_metric", value));
  const lead = standings[0].lead;
  return html`<section class="panel wide" aria-label="Further seeds"><h2>Further seeds</h2>
    ${lead && html`<p>Trial ${standings[0].trial_ids[0]} is ${lead.text} (than trial ${lead.trial_id}).</p>`}
    <div class="plain-box"><table class="plain"><thead><tr><th>Trial</th><th class="number">Seeds</th><th class="number">Mean</th><th class="number">95 % interval</th><th>Trained again as</th></tr></thead>
      <tbody>${standings.map((one) => html`<tr key=${one.trial_ids[0]}><td><a href=${`#/trials/${one.trial_ids[0]}`}>${one.trial_ids[0]}</a></td>
        <td class="number">${one.num_seeds}</td><td class="number">${write(one.mean)}</td>
        <td class="number">${one.low === null ? "–" : `${write(one.low)} to ${write(one.high)}`}</td>
        <td>${one.trial_ids.slice(1).map((/** @type {number} */ id, /** @type {number} */ at) => html`${at ? ", " : ""}<a href=${`#/trials/${id}`}>${id}</a>`)}</td></tr>`)}</tbody></table></div>
  </section>`;
}

/** Returns the checkpoint of a trial's best validation, the first of equal ones, or else its newest one. @param {any} data @param {number} trialId @param {unknown} latest */
function useBestCheckpoint(data, trialId, latest) {
  const [found, setFound] = useState({ trialId: 0, checkpoint: /** @type {any} */ (null) });
  useEffect(() => {
    let isGone = false;
    const sign = data.isSmallerBetter("best_metric") ? 1 : -1;
    const key = (/** @type {any} */ one) => (Number.isFinite(one.metric) ? sign * one.metric : Infinity);
    const choose = (/** @type {any[]} */ all) => all.filter((one) => one.state === "COMPLETED")
      .sort((a, b) => (key(a) - key(b) || (a.total_batches - b.total_batches) * (Number.isFinite(a.metric) ? 1 : -1)))[0] ?? null;
    if (trialId) get(`/trials/${trialId}/checkpoints`).then((all) => isGone || setFound({ trialId, checkpoint: choose(all) }), () => {}); // Its page says what is wrong.
    return () => {
      isGone = true;
    };
  }, [data, trialId, latest]);
  return found.trialId === trialId ? found.checkpoint : null;
}

/** How far the search is: how many trials came to what. @param {any} props */
function Standing({ data, version, experiment, status }) {
  const now = status?.experiments?.find((/** @type {any} */ one) => one.experiment_id === experiment.id);
  const counts = useMemo(() => countOutcomes(data), [data, version]);
  const { running, waiting } = countTrials(now);
  const isOver = experiment.end_time !== null && experiment.end_time !== undefined;
  const eta = format.duration(now?.eta_secs);
  return html`<section class="panel" aria-label="Progress"><h2>Progress</h2>
    <${Progress} share=${isOver ? experiment.progress : now?.progress ?? experiment.progress} label="progress of the search" />
    <p class="muted">${isOver ? `Ended after ${format.duration(experiment.end_time - experiment.start_time)}.`
      : `${running} running${waiting ? `, ${waiting} waiting` : ""}${eta ? `; about ${eta} left` : ""}.`}</p>
    <ul class="overview-counts">${[...counts].map(([name, count]) => html`<li key=${name}><b>${format.number(count)}</b> ${name}</li>`)}</ul>
  </section>`;
}

/** @param {any} data @returns {Map<string, number>} */
function countOutcomes(data) {
  const counts = new Map();
  for (let row = 0; row < data.numRows; row += 1) counts.set(data.outcome(row), (counts.get(data.outcome(row)) ?? 0) + 1);
  return new Map([...counts].sort(([a], [b]) => (a < b ? -1 : 1)));
}

/** @param {any} props */
function Failed({ data, version, route }) {
  const failed = useMemo(() => [...data.ids].filter((id) => data.value("state", data.rowOf(id)) === "ERROR"), [data, version]);
  return html`<section class="panel" aria-label="What failed"><h2>What failed</h2>
    ${!failed.length && html`<p class="muted">No trial has failed.</p>`}
    <ul class="overview-failed">${failed.slice(0, MOST_FAILED).map((id) => html`<li key=${id}><a href=${`#/trials/${id}`}>Trial ${id}</a>:
      ${" "}<bdi>${clean(shorten(data.value("reason", data.rowOf(id)) || "see its logs", 300))}</bdi> <a href=${`#/trials/${id}?tab=logs`}>logs</a></li>`)}</ul>
    ${failed.length > MOST_FAILED && html`<a href="#" onClick=${(/** @type {Event} */ event) => {
      event.preventDefault();
      route.setQuery({ tab: "trials", state: "ERROR" }, { push: true });
    }}>All ${format.number(failed.length)} failed trials</a>`}
  </section>`;
}
