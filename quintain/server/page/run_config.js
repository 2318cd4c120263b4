// @ts-check
// The settings of a run with what has set each, and how it was started.
import * as format from "./format.js";
import { flatten, sourceOf } from "./run_data.js";
import { html, useMemo } from "./vendor/preact.js";
import { Empty } from "./widgets.js";

/** @param {{details: any, route: import("./route.js").Route}} props */
export function RunConfig({ details, route }) {
  const { find = "", set = "" } = route.query;
  const starts = details.environment.starts;
  const sources = (Array.isArray(starts) && starts.at(-1)?.sources) || {};
  const leaves = useMemo(() => [...flatten(details.params)], [details]);
  const wanted = find.toLowerCase();
  const shown = leaves.filter(([path, value]) => (`${path} ${JSON.stringify(value)}`).toLowerCase().includes(wanted) && (!set || sourceOf(sources, path)));
  if (!leaves.length) return html`<${Empty} title="No settings"><p>${details.run.problem || "params.yaml is empty."}</p><//>`;
  return html`
    <div class="row run-settings"><input type="search" aria-label="Find a setting" placeholder="Find a setting" value=${find}
        onInput=${(/** @type {any} */ event) => route.setQuery({ find: event.target.value })} />
      <label class="check"><input type="checkbox" checked=${set === "1"} onChange=${(/** @type {any} */ event) => route.setQuery({ set: event.target.checked ? "1" : null })} />Only what was set at the last start</label>
      <span class="muted">${shown.length} of ${leaves.length} settings of ${details.run.experiment || "an unknown experiment"}</span></div>
    <div class="plain-box"><table class="plain cards"><caption class="visually-hidden">Settings</caption>
      <thead><tr><th scope="col">Setting</th><th scope="col">Value</th><th scope="col">Set by</th></tr></thead>
      <tbody>${shown.map(([path, value]) => html`<tr key=${path}><th scope="row" class="name mono">${path}</th><td><code dir="auto">${JSON.stringify(value)}</code></td>
        <td class="muted" data-label="Set by">${sourceOf(sources, path) || "the experiment"}</td></tr>`)}</tbody></table></div>
    ${details.imports.length > 0 && html`<h3>Imports</h3><p class="mono">${details.imports.join(", ")}</p>`}
    ${details.gin && html`<h3>gin</h3><pre><code>${details.gin}</code></pre>`}
    ${details.former_params.length > 0 && html`<p class="muted">The settings were changed; the former ones are in ${details.former_params.join(", ")}.</p>`}`;
}

/** @param {{details: any}} props */
export function RunEnvironment({ details }) {
  const starts = Array.isArray(details.environment.starts) ? details.environment.starts : [];
  if (!starts.length && !details.holder.pid) {
    return html`<${Empty} title="No start information"><p>Runs that were started by older versions, or in a program of your own, leave no <code>environment.json</code>.</p><//>`;
  }
  return html`
    ${details.holder.pid && html`<p>Process ${String(details.holder.pid)} on ${String(details.holder.host)} trains it since ${String(details.holder.since)}.</p>`}
    ${[...starts].reverse().map((start, index) => html`<section key=${index} class="panel run-start">
      <h3>${index === starts.length - 1 ? "Started" : "Gone on with"} ${format.time(start.time)}</h3>
      <pre><code>${String(start.command ?? "")}</code></pre>
      <dl class="run-facts">${listFacts(start).map(([name, value]) => html`<dt key=${`dt ${name}`}>${name}</dt><dd key=${`dd ${name}`}>${value}</dd>`)}</dl>
    </section>`)}`;
}

/** @param {any} start @returns {[string, string][]} */
function listFacts(start) {
  const changed = start.git?.changed_files;
  const commit = start.git?.commit && `${start.git.commit}${Array.isArray(changed) && changed.length ? `, with changes: ${changed.join(", ")}` : ""}`;
  const versions = Object.entries(start.versions ?? {}).map(([name, version]) => `${name} ${version}`).join(", ");
  const { used, instruction_set: instructions, compiler, reason } = start.kernels ?? {};
  const kernels = used && (reason ? `TensorFlow's: ${reason}` : [`native: ${instructions}`, compiler].filter(Boolean).join(", "));
  const facts = [
    ["directory", start.directory], ["commit", commit], ["machine", start.host], ["system", start.platform],
    ["CPUs", start.num_cpus], ["kernels", kernels], ["Python", start.python], ["packages", versions],
  ];
  return facts.filter(([, value]) => value).map(([name, value]) => [name, String(value)]);
}
