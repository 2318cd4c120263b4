// @ts-check
// Forms: settings of an experiment, a note, the registration of a model.
import { html, useState } from "./vendor/preact.js";
import { patch, post } from "./api.js";
import { clean } from "./log_lines.js";
import { Button, Dialog, Problem, toast } from "./widgets.js";

/** Returns the changes between the fields of a form and an experiment; only those that differ.
 * @param {any} experiment @param {Record<string, string>} fields @returns {Record<string, unknown>} */
export function findChanges(experiment, fields) {
  const { searcher = {}, resources = {} } = experiment.config ?? {};
  const labels = fields.labels.split(",").map((label) => label.trim()).filter(Boolean);
  const read = (/** @type {string} */ text, /** @type {number} */ empty) => (text.trim() === "" ? empty : Number(text));
  /** @type {Record<string, [unknown, unknown]>} */
  const pairs = {
    description: [experiment.description ?? "", fields.description],
    labels: [[...(experiment.labels ?? [])].sort().join(), [...new Set(labels)].sort().join()],
    priority: [resources.priority ?? NaN, read(fields.priority, NaN)],
    max_slots: [resources.max_slots ?? 0, read(fields.max_slots, 0)],
    weight: [resources.weight ?? 1, read(fields.weight, 1)],
    max_trials: [searcher.max_trials ?? NaN, read(fields.max_trials, NaN)],
  };
  const changed = Object.entries(pairs).filter(([, [before, after]]) => !Object.is(before, after) && !Number.isNaN(after));
  return Object.fromEntries(changed.map(([name, [, after]]) => [name, name === "labels" ? [...new Set(labels)] : after]));
}

/** @param {{experiment: any, onClose: () => void}} props */
export function SettingsForm({ experiment, onClose }) {
  const { searcher = {}, resources = {} } = experiment.config ?? {};
  const [fields, setFields] = useState(() => ({
    description: experiment.description ?? "", labels: (experiment.labels ?? []).join(", "), priority: String(resources.priority ?? ""),
    max_slots: String(resources.max_slots || ""), weight: String(resources.weight ?? ""), max_trials: String(searcher.max_trials ?? ""),
  }));
  const { error, isBusy, submit } = useSubmit(async () => {
    const changes = findChanges(experiment, fields);
    if (Object.keys(changes).length) await patch(`/experiments/${experiment.id}`, changes);
    toast("Saved.");
    onClose();
  });
  const field = (/** @type {keyof typeof fields} */ name, /** @type {any} */ label, /** @type {any} */ more = {}) => html`
    <label class="field"><span>${label}</span><input value=${fields[name]} ...${more} onInput=${(/** @type {any} */ event) => setFields({ ...fields, [name]: event.target.value })} /></label>`;
  return html`<${Dialog} title="Experiment ${experiment.id}" onClose=${onClose}><form onSubmit=${submit}>
    <label class="field"><span>Description, or a note</span>
      <textarea rows="3" value=${fields.description} onInput=${(/** @type {any} */ event) => setFields({ ...fields, description: event.target.value })}></textarea></label>
    ${field("labels", "Labels, with commas between")}
    <div class="field-row">${field("priority", "Priority, 1 to 99; lower is sooner", { type: "number", min: 1, max: 99, placeholder: "42" })}
      ${field("max_slots", "Most slots; empty for no limit", { type: "number", min: 0, placeholder: "no limit" })}</div>
    <div class="field-row">${field("weight", "Share of the slots", { type: "number", min: 0, step: "any", placeholder: "1" })}
      ${"max_trials" in searcher && field("max_trials", "Trials; more make the search longer", { type: "number", min: 1 })}</div>
    ${error && html`<${Problem} error=${error} />`}
    <footer><${Button} onClick=${onClose}>Cancel<//><${Button} kind="main" type="submit" disabled=${isBusy}>Save<//></footer></form><//>`;
}

/** @param {{trial: any, onClose: () => void}} props */
export function NoteForm({ trial, onClose }) {
  const [note, setNote] = useState(trial.note ?? "");
  const { error, isBusy, submit } = useSubmit(async () => {
    await patch(`/trials/${trial.id}`, { note: note.trim() });
    onClose();
  });
  return html`<${Dialog} title="Note on trial ${trial.id}" onClose=${onClose}><form onSubmit=${submit}>
    <label class="field"><span>Your words for it; the table has them as a column, and filters find them</span>
      <textarea rows="4" value=${note} onInput=${(/** @type {any} */ event) => setNote(event.target.value)}></textarea></label>
    ${error && html`<${Problem} error=${error} />`}
    <footer><${Button} onClick=${onClose}>Cancel<//><${Button} kind="main" type="submit" disabled=${isBusy}>Save<//></footer></form><//>`;
}

/** Registers a checkpoint of a trial. @param {{checkpoint: any, onClose: () => void}} props */
export function RegisterForm({ checkpoint, onClose }) {
  const [fields, setFields] = useState({ name: "", alias: "", note: "" });
  const { error, isBusy, submit } = useSubmit(async () => {
    const added = await post(`/models/${encodeURIComponent(fields.name.trim())}/versions`, { checkpoint: checkpoint.uuid, alias: fields.alias.trim(), note: fields.note.trim() });
    toast(`Registered ${added.name}@${added.version}.`);
    onClose();
  });
  const field = (/** @type {keyof typeof fields} */ name, /** @type {string} */ label, /** @type {any} */ more = {}) => html`
    <label class="field"><span>${label}</span><input value=${fields[name]} ...${more} onInput=${(/** @type {any} */ event) => setFields({ ...fields, [name]: event.target.value })} /></label>`;
  return html`<${Dialog} title="Register a model" onClose=${onClose}><form onSubmit=${submit}>
    <p class="muted">Checkpoint ${clean(checkpoint.uuid).slice(0, 8)} becomes the next version, with the hashes of its files, and is kept. <a href="#/models">Models</a> lists them.</p>
    ${field("name", "Name of the model, new or not", { required: true, placeholder: "digits" })}
    ${field("alias", "Alias that names this version; may be empty", { placeholder: "champion" })}
    ${field("note", "Note")}
    ${error && html`<${Problem} error=${error} />`}
    <footer><${Button} onClick=${onClose}>Cancel<//><${Button} kind="main" type="submit" disabled=${isBusy}>Register<//></footer></form><//>`;
}

/** Sends a form once; what went wrong stays in it. @param {() => Promise<void>} send */
export function useSubmit(send) {
  const [error, setError] = useState(/** @type {any} */ (null));
  const [isBusy, setBusy] = useState(false);
  const submit = async (/** @type {Event} */ event) => {
    event.preventDefault();
    if (isBusy) return;
    setBusy(true);
    setError(null);
    try {
      await send();
    } catch (problem) {
      setError(problem);
      setBusy(false);
    }
  };
  return { error, isBusy, submit };
}
