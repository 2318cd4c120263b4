// @ts-check
// What a trial saved.
import { html, useEffect, useState } from "./vendor/preact.js";
import { RegisterForm } from "./action_forms.js";
import { address, del, get, post } from "./api.js";
import { bytes, metric as writeMetric, number, time } from "./format.js";
import { clean } from "./log_lines.js";
import { projectOf, useEditProblem } from "./user.js";
import { Badge, Button, Confirm, Empty, toast } from "./widgets.js";

/** @param {{data: import("./trial_data.js").TrialData}} props */
export function CheckpointsView({ data }) {
  const [isAll, setAll] = useState(false);
  const [chosen, setChosen] = useState(/** @type {any} */ (null));
  const [registered, setRegistered] = useState(/** @type {any} */ (null));
  const problem = useEditProblem(projectOf(data.experiment));
  const { checkpoints, trial } = data;
  const { versions, ask } = useVersions();
  const metric = data.experiment.config?.searcher?.metric ?? "metric";
  if (!checkpoints.length) {
    return html`<${Empty} title="No checkpoints yet"><p>A trial is saved when its search asks for it, when it is paused, and at its end.</p><//>`;
  }
  const shown = checkpoints.filter((one) => isAll || one.state !== "DELETED");
  const numDeleted = checkpoints.filter((one) => one.state === "DELETED").length;
  return html`<section aria-label="Checkpoints">
    ${shown.length ? html`<div class="plain-box"><table class="plain cards">
      <thead><tr><th scope="col">Checkpoint</th><th scope="col" class="number">Batches</th><th scope="col" class="number">${metric}</th>
        <th scope="col" class="number">Size</th><th scope="col">Saved</th><th scope="col">State</th><th scope="col"><span class="visually-hidden">Actions</span></th></tr></thead>
      <tbody>${shown.map((one) => html`<${Row} key=${one.uuid} checkpoint=${one} metric=${metric} value=${writeMetric(one.metric, metric, data.experiment.config?.searcher)} versions=${versions.get(one.uuid) ?? []} problem=${problem} isLatest=${one.uuid === trial.latest_checkpoint} onRegister=${() => setRegistered(one)} onDelete=${() => setChosen(one)} />`)}</tbody>
    </table></div>` : html`<p class="muted">The files of all ${checkpoints.length} were deleted; checkpoint_storage in the config says which are kept.</p>`}
    ${numDeleted > 0 && html`<p><label class="check"><input type="checkbox" checked=${isAll} onChange=${() => setAll(!isAll)} />Also the ${numDeleted} whose files were deleted</label></p>`}
    ${registered && html`<${RegisterForm} checkpoint=${registered} onClose=${() => (setRegistered(null), ask())} />`}
    ${chosen && html`<${Confirm} title="Delete a checkpoint" action="Delete" onClose=${() => setChosen(null)} onDo=${() => remove(data, chosen)}>
      <p>The files of <code>${clean(chosen.uuid)}</code> (${bytes(sizeOf(chosen))}) will be gone.</p><//>`}
  </section>`;
}

/** Returns which versions of models point at checkpoints: `digits@1` by UUID. The master refuses to delete these. */
function useVersions() {
  const [models, setModels] = useState(/** @type {any[]} */ ([]));
  const ask = () => void get("/models").then(setModels, () => {});
  useEffect(ask, []);
  /** @type {Map<string, string[]>} */
  const versions = new Map();
  for (const { name, version, checkpoint, is_deleted: isDeleted } of models.flatMap((model) => model.versions)) {
    if (!isDeleted) versions.set(checkpoint, [...(versions.get(checkpoint) ?? []), `${name}@${version}`]);
  }
  return { versions, ask };
}

/** @param {{checkpoint: any, metric: string, value: string, versions: string[], problem: string, isLatest: boolean, onRegister: () => void, onDelete: () => void}} props `problem` says why nothing may be changed */
function Row({ checkpoint, metric, value, versions, problem, isLatest, onRegister, onDelete }) {
  const [isOpen, setOpen] = useState(false);
  const { uuid, state } = checkpoint;
  const files = Object.entries(checkpoint.files ?? {}).filter(([name]) => !name.endsWith("/"));
  return html`<tr>
      <th scope="row" class="name"><button type="button" class="link mono" title=${clean(uuid)} aria-expanded=${String(isOpen)} onClick=${() => setOpen(!isOpen)}>${clean(uuid).slice(0, 8)}</button>
        ${isLatest && html` <span class="label">newest</span>`}${versions.map((each) => html` <a key=${each} class="label" href="#/models">${each}</a>`)}</th>
      <td class="number" data-label="Batches">${number(checkpoint.total_batches)}</td><td class="number" data-label=${metric}>${value}</td>
      <td class="number" data-label="Size">${bytes(sizeOf(checkpoint))}</td><td class="nowrap" data-label="Saved">${time(checkpoint.time)}</td><td><${Badge} state=${state} /></td>
      <td class="right checkpoint-actions">${state === "COMPLETED" && html`<a class="button plain" href=${address(`/checkpoints/${encodeURIComponent(uuid)}/archive.tar`)} download>Download</a>
        ${" "}<${ExportModel} uuid=${uuid} problem=${problem} /> <${Button} problem=${problem} title="Register it as a version of a model" onClick=${onRegister}>Register<//> <${Button} kind="quiet" problem=${problem || (versions.length ? `Registered as ${versions.join(", ")}; delete that first (quintain model delete).` : "")} onClick=${onDelete}>Delete<//>`}</td></tr>
    ${isOpen && html`<tr class="files"><td colspan="7"><p class="mono">${clean(uuid)}</p>
      <ul>${files.map(([name, size]) => html`<li key=${name}>${state === "COMPLETED"
        ? html`<a href=${fileAddress(uuid, name)} download>${clean(name)}</a>` : clean(name)} <span class="muted">${bytes(/** @type {number} */ (size))}</span></li>`)}</ul></td></tr>`}`;
}

/** Exports the models of a checkpoint, which takes a while, and offers them. @param {{uuid: string, problem: string}} props */
function ExportModel({ uuid, problem }) {
  const [isBusy, setBusy] = useState(false);
  const [made, setMade] = useState(/** @type {{directory: string} | null} */ (null));
  const path = `/checkpoints/${encodeURIComponent(uuid)}/export`;
  const run = () => {
    setBusy(true);
    post(path).then((found) => {
      setMade(found);
      toast(`The model lies in ${found.directory}.`);
    }, (error) => toast(clean(error.message), "bad")).finally(() => setBusy(false));
  };
  if (made) return html`<a class="button plain" href=${address(`${path}.tar`)} title=${made.directory} download>Download the model</a>`;
  return html`<${Button} disabled=${isBusy} problem=${problem} title="Export the model as SavedModel or .keras" onClick=${run}>${isBusy ? "Exporting …" : "Export"}<//>`;
}

/** @param {import("./trial_data.js").TrialData} data @param {any} checkpoint */
async function remove(data, checkpoint) {
  const deleted = await del(`/checkpoints/${encodeURIComponent(checkpoint.uuid)}`);
  data.applyChanges({ checkpoints: [deleted] });
  toast("The checkpoint was deleted.");
}

/** @param {any} checkpoint */
function sizeOf(checkpoint) {
  return Object.values(checkpoint.files ?? {}).reduce((/** @type {number} */ sum, /** @type {any} */ size) => sum + size, 0);
}

/** @param {string} uuid @param {string} name */
function fileAddress(uuid, name) {
  return address(`/checkpoints/${encodeURIComponent(uuid)}/files/${name.split("/").map(encodeURIComponent).join("/")}`);
}
