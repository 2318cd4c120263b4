// @ts-check
// The fork of an experiment, and its continuation: fields for what may be changed, or text. The model of a fork is a text with
// `PATH=VALUE` changes over it; the master reads it, and answers with the config, with the new text, or with what is wrong where.
import { html, useEffect, useRef, useState } from "./vendor/preact.js";
import { get, post } from "./api.js";
import { number } from "./format.js";
import { clean } from "./log_lines.js";
import { go } from "./route.js";
import { useSubmit } from "./action_forms.js";
import { Button, Dialog, Loading, Problem, toast } from "./widgets.js";

const TYPING_MS = 400;
const SECTIONS = ["name", "description", "project", "labels", "hyperparameters", "searcher", "resources"];
/** What a continuation may change, besides the hyperparameters of a single trial. */
const CONTINUED = ["name", "description", "labels", "searcher", "resources"];
const FIXED = ["searcher.name", "searcher.metric"];
/** What tasks declare of their metrics is in the text only. */
const DECLARED = /^searcher\.(directions|formats)\b/;
const NAME = /^[A-Za-z_]\w*$/;
const RANGES = ["double", "int", "log"];

/** @typedef {Record<string, string>} Edits Values as YAML by their dotted paths. */
/** @typedef {{isChecking: boolean, result: any, error: any}} Check */
/** @typedef {{path: string, value: any}} Leaf */

/** Returns the values of a config that have fields; an override can name no others.
 * @param {any} value @param {string} path @returns {Leaf[]} */
export function findLeaves(value, path) {
  if (DECLARED.test(path)) return [];
  const isMapping = typeof value === "object" && value !== null && !Array.isArray(value);
  if (!isMapping) return [{ path, value }];
  return Object.entries(value).flatMap(([name, part]) => (NAME.test(name) ? findLeaves(part, path ? `${path}.${name}` : name) : []));
}

/** Returns what a message of the master says of each path, and what it says of none of them.
 * @param {string} message @param {string[]} paths @returns {{at: Record<string, string>, rest: string}} */
export function splitProblems(message, paths) {
  /** @type {Record<string, string>} */
  const at = {};
  const lines = message.replace(/^\d+ problems:\n/, "").split("\n");
  const rest = lines.filter((line) => {
    const path = paths.find((each) => line.startsWith(`${each}: `));
    if (path) at[path] = line.slice(path.length + 2);
    return !path;
  });
  return { at, rest: rest.join("\n") };
}

/** @param {{experimentId: number, onClose: () => void}} props */
export function ForkForm({ experimentId, onClose }) {
  const [text, setText] = useState(/** @type {string | null} */ (null));
  const [edits, setEdits] = useState(/** @type {Edits} */ ({}));
  const [config, setConfig] = useState(/** @type {any} */ (null));
  const [isText, setIsText] = useState(false);
  const [problem, setProblem] = useState(/** @type {any} */ (null));
  const check = useCheck(text, edits, experimentId);
  const isKnown = !check.isChecking && !check.error;
  useEffect(() => {
    get(`/experiments/${experimentId}`).then(async (record) => {
      const asked = { config_text: record.original_config, overrides: [], parent_id: experimentId };
      const { config: complete } = await post("/experiments/check", asked).catch(() => record);
      setText(record.original_config);
      setConfig(complete);
    }).catch(setProblem);
  }, [experimentId]);
  const written = Object.keys(edits).length ? check.result?.config_text : text;
  const { error, isBusy, submit } = useSubmit(async () => {
    if (!isKnown) return;
    const made = await post(`/experiments/${experimentId}/fork`, { config_text: written, overrides: [] });
    toast(`Experiment ${made.id} was created.`);
    onClose();
    go(`/experiments/${made.id}`);
  });
  const change = () => {
    setText(written);
    setEdits({});
    setConfig(check.result.config);
    setIsText(!isText);
  };
  const leaves = SECTIONS.filter((name) => config && name in config).flatMap((name) => findLeaves(config[name], name));
  const paths = [...leaves.map(({ path }) => path), ...Object.keys(edits)];
  const problems = isText || !check.error ? { at: {}, rest: check.error?.message } : splitProblems(check.error.message, paths);
  const onKey = (/** @type {KeyboardEvent} */ event) => (event.ctrlKey || event.metaKey) && event.key === "Enter" && submit(event);
  return html`<${Dialog} title="A new experiment from experiment ${experimentId}" onClose=${onClose} wide=${true}>
    ${problem ? html`<${Problem} error=${problem} />` : text === null ? html`<${Loading} />` : html`<form onSubmit=${submit} onKeyDown=${onKey} noValidate>
      <div class="row"><p class="muted">It has the same code. The command line changes what has no field here. Ctrl+Enter creates it.</p><span class="space"></span>
        <${Button} pressed=${isText} disabled=${!isKnown} title="The config as YAML" onClick=${change}>Text<//></div>
      ${isText ? html`<textarea class="yaml mono" rows="20" spellcheck="false" autocomplete="off" aria-label="Config, YAML" value=${text}
        onInput=${(/** @type {any} */ event) => setText(event.target.value)}></textarea>`
        : html`<${FieldSets} leaves=${leaves} edits=${edits} setEdits=${setEdits} problems=${problems.at} />`}
      ${check.error && problems.rest && html`<${Problem} error=${problems.rest} />`}
      ${!check.error && html`<${CheckResult} check=${check} />`}
      ${error && html`<${Problem} error=${error} />`}
      <footer><${Button} onClick=${onClose}>Cancel<//><${Button} kind="main" type="submit" disabled=${isBusy || !isKnown}>Create<//></footer></form>`}<//>`;
}

/** Goes on with an experiment under its number, or with a trial in a new experiment.
 * @param {{experiment: any, trial?: any, onClose: () => void}} props */
export function ContinueForm({ experiment, trial, onClose }) {
  const [batches, setBatches] = useState(trial ? String(trial.total_batches || "") : "");
  const [edits, setEdits] = useState(/** @type {Edits} */ ({}));
  const [text, setText] = useState(/** @type {string | null} */ (null));
  const { error, isBusy, submit } = useSubmit(async () => {
    const lines = text === null ? writeLines(edits) : splitLines(text);
    if (trial && batches) lines.unshift(`searcher.max_length=${batches}`);
    const path = trial ? `/trials/${trial.id}/continue` : `/experiments/${experiment.id}/continue`;
    const made = await post(path, { overrides: lines });
    toast(trial ? `Experiment ${made.id} goes on with trial ${trial.id}.` : `Experiment ${made.id} goes on.`);
    onClose();
    go(`/experiments/${made.id}`);
  });
  const read = text === null ? null : readLines(text);
  const change = () => {
    if (read) setEdits(read);
    setText(text === null ? writeLines(edits).join("\n") : null);
  };
  const { config } = experiment;
  const sections = trial ? CONTINUED.filter((name) => name !== "searcher") : config.searcher?.name === "single" ? ["hyperparameters", ...CONTINUED] : CONTINUED;
  const leaves = sections.filter((name) => name in config).flatMap((name) => findLeaves(config[name], name)).filter(({ path }) => !FIXED.includes(path));
  const problems = error && text === null ? splitProblems(error.message, leaves.map(({ path }) => path)) : { at: {}, rest: error?.message };
  return html`<${Dialog} title=${trial ? `Continue trial ${trial.id}` : `Continue experiment ${experiment.id}`} onClose=${onClose} wide=${true}><form onSubmit=${submit} noValidate>
    <div class="row"><p class="muted continue-about">${trial
      ? "A new experiment of one trial begins with the weights and the optimizer of its newest checkpoint; hyperparameters and seed are the same."
      : "Trials that its end interrupted go on from their checkpoints, and a larger search or a longer training is taken up."}</p><span class="space"></span>
      <${Button} pressed=${text !== null} disabled=${text !== null && !read} title="The changes as PATH=VALUE, one a line" onClick=${change}>Text<//></div>
    ${trial && html`<label class="field"><span>Further batches</span><input type="number" min="1" value=${batches} onInput=${(/** @type {any} */ event) => setBatches(event.target.value)} /></label>`}
    ${text === null ? html`<${FieldSets} leaves=${leaves} edits=${edits} setEdits=${setEdits} problems=${problems.at} />`
      : html`<textarea class="mono" rows="8" spellcheck="false" aria-label="Changes of the config, one PATH=VALUE a line"
        placeholder=${trial ? "name=longer" : "searcher.max_trials=64"} value=${text} onInput=${(/** @type {any} */ event) => setText(event.target.value)}></textarea>`}
    ${problems.rest && html`<${Problem} error=${problems.rest} />`}
    <footer><${Button} onClick=${onClose}>Cancel<//><${Button} kind="main" type="submit" disabled=${isBusy}>Continue<//></footer></form><//>`;
}

/** @param {Edits} edits */
function writeLines(edits) {
  return Object.entries(edits).map(([path, yaml]) => `${path}=${yaml}`);
}

/** @param {string} text */
function splitLines(text) {
  return text.split("\n").map((line) => line.trim()).filter(Boolean);
}

/** Returns what `PATH=VALUE` lines change; null if one is none. @param {string} text @returns {Edits | null} */
export function readLines(text) {
  const pairs = splitLines(text).map((line) => /^([^=]+)=(.*)$/.exec(line));
  return pairs.includes(null) ? null : Object.fromEntries(pairs.map((pair) => /** @type {string[]} */ (pair).slice(1)));
}

/** @param {{leaves: Leaf[], edits: Edits, setEdits: (edits: Edits) => void, problems: Record<string, string>}} props */
function FieldSets({ leaves, edits, setEdits, problems }) {
  const sectionOf = (/** @type {Leaf} */ { path }) => (path.includes(".") ? path.split(".")[0] : "experiment");
  const known = new Set(leaves.map(({ path }) => path));
  const edit = (/** @type {Leaf} */ { path, value }, /** @type {string} */ yaml) => {
    const { [path]: _, ...next } = edits;
    if (yaml !== toOverride(value)) next[path] = yaml;
    const base = path.replace(/\.type$/, ".base");
    if (isRange({ path, value }) && !known.has(base)) {
      delete next[base];
      if (yaml === '"log"') next[base] = "10";
    }
    setEdits(next);
  };
  // A range that becomes logarithmic gets a base.
  const shown = leaves.flatMap((leaf) => {
    const base = leaf.path.replace(/\.type$/, ".base");
    return isRange(leaf) && base in edits && !known.has(base) ? [leaf, { path: base, value: 10 }] : [leaf];
  });
  return html`${[...new Set(leaves.map(sectionOf))].map((section) => html`<fieldset key=${section} class="fork-section"><legend>${section}</legend>
    <div class="field-row">${shown.filter((leaf) => sectionOf(leaf) === section).map((leaf) => html`
      <${Field} key=${leaf.path} leaf=${leaf} yaml=${edits[leaf.path]} onEdit=${(/** @type {string} */ yaml) => edit(leaf, yaml)} problem=${problems[leaf.path]} />`)}</div></fieldset>`)}`;
}

/** @param {{leaf: Leaf, yaml?: string, onEdit: (yaml: string) => void, problem?: string}} props */
function Field({ leaf, yaml, onEdit, problem }) {
  const { path, value } = leaf;
  const [typed, setTyped] = useState(() => (yaml === undefined ? toTyped(value) : fromYaml(yaml, value)));
  const name = path.split(".").slice(path.includes(".") ? 1 : 0).join(".");
  const set = (/** @type {string} */ next) => {
    setTyped(next);
    onEdit(fromTyped(next, value));
  };
  const onInput = (/** @type {any} */ event) => set(event.target.value);
  const about = { "aria-label": path, "aria-invalid": problem ? "true" : undefined, title: path };
  return html`<label class="field"><span>${clean(name)}</span>${
    typeof value === "boolean" ? html`<input type="checkbox" role="switch" ...${about} checked=${(yaml ?? String(value)) === "true"}
      onChange=${(/** @type {any} */ event) => onEdit(String(event.target.checked))} />`
    : isRange(leaf) ? html`<select ...${about} value=${typed} onChange=${onInput}>${
      (value === "log" ? ["log"] : RANGES).map((each) => html`<option key=${each} value=${each}>${each}</option>`)}</select>`
    : html`<input type=${typeof value === "number" ? "number" : "text"} step="any" ...${about} value=${typed} onInput=${onInput}
      placeholder=${value === null ? "none" : Array.isArray(value) ? "with commas between" : ""} />`}
    ${problem && html`<small class="bad" role="alert">${problem}</small>`}</label>`;
}

/** Whether a value is the type of a range. @param {Leaf} leaf */
const isRange = ({ path, value }) => path.startsWith("hyperparameters.") && path.endsWith(".type") && RANGES.includes(value);

/** Returns a value as an override has it. @param {any} value */
const toOverride = (value) => fromTyped(toTyped(value), value);

/** Returns a value as a field shows it; the parts of a list with commas between. @param {any} value */
function toTyped(value) {
  if (Array.isArray(value)) return JSON.stringify(value).slice(1, -1).replaceAll(",", ", ").replace(/"([A-Za-z_][\w-]*)"/g, "$1");
  return String(value ?? "");
}

/** Returns an override as a field shows it: what `fromTyped` takes back. @param {string} yaml @param {any} before */
export function fromYaml(yaml, before) {
  if (Array.isArray(before)) return yaml.replace(/^\[|\]$/g, "");
  if (typeof before === "string" && /^"([^"\\]|\\["\\n])*"$/.test(yaml)) return JSON.parse(yaml);
  return yaml === "null" ? "" : yaml;
}

/** Returns what was typed as YAML; the value before tells of which type it is. @param {string} typed @param {any} before */
function fromTyped(typed, before) {
  if (Array.isArray(before)) return `[${typed}]`;
  if (typeof before === "string") return JSON.stringify(typed);
  return typed.trim() || "null";
}

/** Lets the master look at a config; the last one typed counts.
 * @param {string | null} text @param {Edits} edits @param {number} parentId @returns {Check} */
function useCheck(text, edits, parentId) {
  const [check, setCheck] = useState(/** @type {Check} */ ({ isChecking: true, result: null, error: null }));
  const latest = useRef(0);
  useEffect(() => {
    if (text === null) return undefined;
    latest.current += 1;
    const own = latest.current;
    const keep = (/** @type {Check} */ next) => own === latest.current && setCheck(next);
    setCheck((old) => ({ ...old, isChecking: true }));
    const timer = setTimeout(() => {
      post("/experiments/check", { config_text: text, overrides: writeLines(edits), parent_id: parentId }).then(
        (result) => keep({ isChecking: false, result, error: null }), (error) => keep({ isChecking: false, result: null, error }));
    }, TYPING_MS);
    return () => clearTimeout(timer);
  }, [text, edits, parentId]);
  return check;
}

/** @param {{check: Check}} props */
function CheckResult({ check }) {
  if (!check.result) return html`<p class="check-result muted" role="status">Checking …</p>`;
  const { num_trials: trials } = check.result;
  const words = trials === undefined || trials === null ? "The config is fine." : `The config is fine: ${number(trials)} ${trials === 1 ? "trial" : "trials"}.`;
  return html`<p class="check-result ${check.isChecking ? "muted" : "good"}" role="status">${words}</p>`;
}
