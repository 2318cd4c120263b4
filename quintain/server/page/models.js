// @ts-check
// Registered models: their versions and aliases, where each is from, and the command that serves it.
import { useSubmit } from "./action_forms.js";
import { get, post } from "./api.js";
import { subscribe } from "./events.js";
import * as format from "./format.js";
import { clean } from "./log_lines.js";
import { ALL_PROJECTS, useEditProblem } from "./user.js";
import { html, useEffect, useState } from "./vendor/preact.js";
import { Button, Dialog, Empty, Loading, Problem, toast } from "./widgets.js";

const MOST_METRICS = 4;
const COMMAND = "quintain model register digits --experiment=1 --alias=champion";

export function ModelsView() {
  const { models, error, ask } = useModels();
  const [promoted, setPromoted] = useState(/** @type {any} */ (null));
  const problem = useEditProblem(ALL_PROJECTS);
  if (!models) return error ? html`<${Problem} error=${error} retry=${ask} />` : html`<${Loading} />`;
  return html`<div class="page-head"><h1>Models</h1></div>
    ${error && html`<${Problem} error=${error} />`}
    ${!models.length && html`<${Empty} title="No models yet"><p>Register the checkpoint of a trial (Checkpoints of its page), or on the command line:</p>
      <pre><code>${COMMAND}</code></pre><//>`}
    ${models.map((/** @type {any} */ model) => html`<${Model} key=${model.name} model=${model} problem=${problem} onPromote=${(/** @type {any} */ version) => setPromoted({ model, version })} />`)}
    ${promoted && html`<${PromoteForm} ...${promoted} onDone=${ask} onClose=${() => setPromoted(null)} />`}`;
}

/** Keeps the models as new as the store. */
function useModels() {
  const [models, setModels] = useState(/** @type {any[] | null} */ (null));
  const [error, setError] = useState(/** @type {any} */ (null));
  const ask = () => void get("/models").then((found) => (setModels(found), setError(null)), setError);
  useEffect(() => {
    ask();
    return subscribe({ onReset: ask, onState: (state) => state === "live" && ask(), onChanges: (changes) => changes.models && ask() });
  }, []);
  return { models, error, ask };
}

/** @param {{model: any, problem: string, onPromote: (version: any) => void}} props */
function Model({ model, problem, onPromote }) {
  const { name, aliases, history } = model;
  const versions = model.versions.filter((/** @type {any} */ one) => !one.is_deleted).reverse();
  const [alias] = Object.keys(aliases);
  const reference = `${name}@${alias ?? versions[0]?.version}`;
  return html`<section class="panel model" aria-label=${`Model ${name}`}><h2>${name}</h2>
    ${versions.length > 0 && html`<pre><code>quintain serve-model --model ${reference}</code></pre>`}
    <div class="plain-box"><table class="plain cards"><thead><tr><th scope="col">Version</th><th scope="col">From</th><th scope="col">Metrics</th>
      <th scope="col">Registered</th><th scope="col">SHA-256</th><th scope="col"><span class="visually-hidden">Actions</span></th></tr></thead>
    <tbody>${versions.map((/** @type {any} */ one) => html`<tr key=${one.version}>
      <th scope="row" class="name">${one.version} ${namesOf(aliases, one.version).map((each) => html`<span key=${each} class="label">${each}</span> `)}</th>
      <td class="model-source"><${Source} version=${one} />${one.note && html`<div class="muted">${clean(one.note)}</div>`}</td>
      <td><${Metrics} metrics=${one.metrics} /></td>
      <td class="nowrap" data-label="Registered" title=${format.time(one.time)}>${format.ago(one.time)}</td>
      <td class="mono" data-label="SHA-256" title=${one.sha256}>${one.sha256.slice(0, 8)}</td>
      <td class="right"><${Button} problem=${problem} label=${`Promote version ${one.version} of ${name}`} onClick=${() => onPromote(one)}>Promote<//></td></tr>`)}</tbody></table></div>
    ${history.length > 0 && html`<details class="model-history"><summary>History of its aliases</summary><ul>${[...history].reverse().map((/** @type {any} */ move) => html`
      <li key=${move.id}><span class="muted">${format.time(move.time)}</span> ${move.alias} → version ${move.version}${move.reason && html`<span class="muted"> · ${clean(move.reason)}</span>`}</li>`)}</ul></details>`}
  </section>`;
}

/** @param {{version: any}} props */
function Source({ version }) {
  const { trial_id: trialId, checkpoint, path, machine } = version;
  if (trialId !== null) return html`<a href=${`#/trials/${trialId}?tab=checkpoints`}>trial ${trialId}</a> <span class="muted mono" title=${checkpoint}>${checkpoint.slice(0, 8)}</span>`;
  return html`<bdi class="mono" title=${`on ${machine}`}>${clean(checkpoint ? `${path}/${checkpoint}` : path)}</bdi>`;
}

/** @param {{metrics: Record<string, any>}} props */
function Metrics({ metrics }) {
  const shown = Object.entries(metrics).filter(([, value]) => format.isNumber(value));
  return html`<div title=${shown.map(([name, value]) => `${name} ${format.number(value)}`).join("\n")}>${shown.slice(0, MOST_METRICS).map(([name, value]) => html`
    <div key=${name}>${name} <strong>${format.number(value)}</strong></div>`)}${shown.length > MOST_METRICS && html`<span class="muted">and ${shown.length - MOST_METRICS} more</span>`}</div>`;
}

/** Lets an alias name a version, maybe by a rule. @param {{model: any, version: any, onDone: () => void, onClose: () => void}} props */
function PromoteForm({ model, version, onDone, onClose }) {
  const [alias, setAlias] = useState("champion");
  const [standing, setStanding] = useState("");
  const [metric, setMetric] = useState("");
  const [margin, setMargin] = useState("0");
  const others = Object.keys(model.aliases);
  const { error, isBusy, submit } = useSubmit(async () => {
    const rule = standing ? { not_worse_than: standing, metric, margin: Number(margin) } : {};
    await post(`/models/${encodeURIComponent(model.name)}/versions/${version.version}/promote`, { alias: alias.trim(), ...rule });
    toast(`${model.name}@${alias.trim()} is version ${version.version}.`);
    onDone();
    onClose();
  });
  return html`<${Dialog} title="Promote version ${version.version} of ${model.name}" onClose=${onClose}><form onSubmit=${submit}>
    <label class="field"><span>Alias that names it from now on</span><input required value=${alias} onInput=${(/** @type {any} */ event) => setAlias(event.target.value)} /></label>
    ${others.length > 0 && html`<label class="field"><span>Only if it is not worse, over trials of equal seeds, than</span>
      <select value=${standing} onChange=${(/** @type {any} */ event) => setStanding(event.target.value)}><option value="">no rule</option>
        ${others.map((each) => html`<option key=${each} value=${each}>${each} (version ${model.aliases[each]})</option>`)}</select></label>`}
    ${standing && html`<div class="field-row"><label class="field"><span>Metric; the searched one if empty</span><input value=${metric} onInput=${(/** @type {any} */ event) => setMetric(event.target.value)} /></label>
      <label class="field"><span>Margin by which it may be worse</span><input type="number" min="0" step="any" value=${margin} onInput=${(/** @type {any} */ event) => setMargin(event.target.value)} /></label></div>`}
    ${error && html`<${Problem} error=${error} />`}
    <footer><${Button} onClick=${onClose}>Cancel<//><${Button} kind="main" type="submit" disabled=${isBusy}>Promote<//></footer></form><//>`;
}

/** Returns the aliases that name a version. @param {Record<string, number>} aliases @param {number} version */
function namesOf(aliases, version) {
  return Object.keys(aliases).filter((alias) => aliases[alias] === version);
}
