// @ts-check
// The audit log: who changed what.
import { html, useEffect, useState } from "./vendor/preact.js";
import { get } from "./api.js";
import * as format from "./format.js";
import { clean } from "./log_lines.js";
import { Empty, Loading, Problem } from "./widgets.js";

const MOST = 1000;

/** @param {{route: import("./route.js").Route}} props */
export function AuditView({ route }) {
  const { experiment = "", user = "" } = route.query;
  const [entries, setEntries] = useState(/** @type {any[] | null} */ (null));
  const [error, setError] = useState(/** @type {any} */ (null));
  const ask = () => {
    setError(null);
    get("/audit", { experiment_id: experiment, user, limit: MOST }).then(setEntries, setError);
  };
  useEffect(ask, [experiment, user]);
  const filter = (/** @type {string} */ name, /** @type {string} */ label, /** @type {string} */ value) => html`
    <input type="search" placeholder=${label} aria-label=${label} value=${value}
      onChange=${(/** @type {any} */ event) => route.setQuery({ [name]: event.target.value.trim() || null })} />`;
  return html`
    <div class="page-head"><h1>Audit log</h1><span class="muted">who changed what, the newest first</span><span class="space"></span>
      ${filter("user", "User", user)}${filter("experiment", "Experiment", experiment)}</div>
    ${error ? html`<${Problem} error=${error} retry=${ask} />` : !entries ? html`<${Loading} />`
      : entries.length ? html`<${Entries} entries=${entries} />` : html`<${Empty} title="No changes"><p>Nobody has changed anything${experiment || user ? " like that" : ""} yet.</p><//>`}
    ${entries?.length === MOST && html`<p class="muted">These are the newest ${MOST}; <code>quintain audit --since</code> shows more.</p>`}`;
}

/** @param {{entries: any[]}} props */
function Entries({ entries }) {
  return html`<div class="plain-box"><table class="plain cards"><thead><tr><th scope="col">Time</th><th scope="col">User</th>
      <th scope="col" class="number">Experiment</th><th scope="col">Call</th><th scope="col">What</th><th scope="col">From</th></tr></thead>
    <tbody>${[...entries].reverse().map((one) => html`<tr key=${one.id}>
      <td class="name nowrap" title=${format.ago(one.time)}>${format.time(one.time)}</td>
      <td data-label="User"><bdi>${one.user_name}</bdi></td>
      <td class="number" data-label=${one.experiment_id ? "Experiment" : undefined}>${one.experiment_id && html`<a href=${`#/experiments/${one.experiment_id}`}>${one.experiment_id}</a>`}</td>
      <td class="nowrap">${one.call.replaceAll("_", " ")}</td>
      <td>${clean(describe(one.arguments))}</td>
      <td class="mono" data-label="From">${one.address || "here"}</td></tr>`)}</tbody></table></div>`;
}

/** @param {Record<string, unknown>} given */
function describe(given) {
  return Object.entries(given).filter(([name]) => name !== "experiment_id")
    .map(([name, value]) => `${name}: ${typeof value === "object" ? JSON.stringify(value) : value}`).join(", ");
}
