// @ts-check
// What can be done with an experiment or a trial; all of it exists as a command, too.
import { html, useState } from "./vendor/preact.js";
import { NoteForm, SettingsForm } from "./action_forms.js";
import { ContinueForm, ForkForm } from "./fork_form.js";
import { address, del, post } from "./api.js";
import { clean } from "./log_lines.js";
import { go } from "./route.js";
import { OpenTensorBoard } from "./tensorboard_button.js";
import { projectOf, useEditProblem } from "./user.js";
import { Button, Confirm, Menu, toast } from "./widgets.js";

const ENDED = new Set(["COMPLETED", "CANCELED", "ERROR", "DELETED"]);

/** Whether an experiment or trial has ended. @param {{state: string}} record */
export function hasEnded({ state }) {
  return ENDED.has(state);
}

/** @typedef {{title: string, action: string, text: any, run: () => Promise<unknown>}} Question */

/** @param {{experiment: any, selection?: Set<number>}} props */
export function ExperimentActions({ experiment, selection = new Set() }) {
  const [dialog, setDialog] = useState("");
  const [question, setQuestion] = useState(/** @type {Question | null} */ (null));
  const { id } = experiment;
  const isOver = hasEnded(experiment);
  const problem = useEditProblem(projectOf(experiment));
  const send = (/** @type {string} */ command) => post(`/experiments/${id}/${command}`);
  /** @type {Record<string, Question>} */
  const questions = {
    cancel: { title: `Cancel experiment ${id}`, action: "Cancel the experiment", run: () => send("cancel"),
      text: "Its trials finish their workload, save themselves and end. It can be continued later." },
    kill: { title: `Kill experiment ${id}`, action: "Kill the experiment", run: () => send("kill"),
      text: "Its trials end at once; what they learned since their last checkpoints is lost." },
    delete: { title: `Delete experiment ${id}`, action: "Delete the experiment", run: () => del(`/experiments/${id}`).then(() => go("/experiments")),
      text: "Its trials, metrics, logs, code and checkpoints will be gone." },
  };
  const close = () => setDialog("");
  return html`<span class="actions row">
    <${PauseButton} experiment=${experiment} />
    <${OpenTensorBoard} ...${selection.size ? { trialIds: [...selection] } : { experimentId: id }} />
    <${Menu} label="Actions" align="right">${(/** @type {() => void} */ closeMenu) => {
      const item = (/** @type {string} */ label, /** @type {() => void} */ act, kind = "") => html`
        <button type="button" class="menu-item ${kind}" disabled=${Boolean(problem)} title=${problem || undefined} onClick=${() => {
          closeMenu();
          act();
        }}>${label}</button>`;
      return html`
        ${item("Description, labels, priority …", () => setDialog("settings"))}
        ${item("Fork with other settings …", () => setDialog("fork"))}
        ${isOver && item("Continue …", () => setDialog("continue"))}
        <a class="menu-item" href="#/audit?experiment=${id}" onClick=${closeMenu}>Who changed what</a>
        <a class="menu-item" href=${address(`/experiments/${id}/table.csv`)} download onClick=${closeMenu}>Export all trials as CSV</a>
        <a class="menu-item" href=${address(`/experiments/${id}/files.tar`)} download onClick=${closeMenu}>Export the code as .tar</a>
        ${isOver && !experiment.is_archived && item("Archive", () => tell(send("archive"), "It is archived: lists leave it out."))}
        ${isOver && experiment.is_archived && item("Take out of the archive", () => tell(send("unarchive"), "It is in lists again."))}
        ${!isOver && item("Cancel …", () => setQuestion(questions.cancel), "danger")}
        ${!isOver && item("Kill …", () => setQuestion(questions.kill), "danger")}
        ${isOver && item("Delete …", () => setQuestion(questions.delete), "danger")}
        ${problem && html`<p class="menu-note muted">${problem}</p>`}`;
    }}<//>
    ${dialog === "settings" && html`<${SettingsForm} experiment=${experiment} onClose=${close} />`}
    ${dialog === "fork" && html`<${ForkForm} experimentId=${id} onClose=${close} />`}
    ${dialog === "continue" && html`<${ContinueForm} experiment=${experiment} onClose=${close} />`}
    ${question && html`<${Ask} question=${question} onClose=${() => setQuestion(null)} />`}
  </span>`;
}

/** Pauses an experiment or lets it go on; nothing for those that do neither. @param {{experiment: any}} props */
export function PauseButton({ experiment }) {
  const { id, state } = experiment;
  const problem = useEditProblem(projectOf(experiment));
  const act = (/** @type {string} */ command, /** @type {string} */ done) => () => tell(post(`/experiments/${id}/${command}`), done);
  return html`${state === "ACTIVE" && html`<${Button} label=${`Pause experiment ${id}`} problem=${problem}
      onClick=${act("pause", "It pauses; its trials save themselves.")}>Pause<//>`}
    ${state === "PAUSED" && html`<${Button} kind="main" label=${`Activate experiment ${id}`} problem=${problem}
      onClick=${act("activate", "It goes on.")}>Activate<//>`}`;
}

/** @param {{trial: any, experiment: any}} props */
export function TrialActions({ trial, experiment }) {
  const [dialog, setDialog] = useState("");
  const [question, setQuestion] = useState(/** @type {Question | null} */ (null));
  const problem = useEditProblem(projectOf(experiment));
  const rerun = async () => {
    const made = await post(`/trials/${trial.id}/rerun`);
    go(`/experiments/${made.id}`);
  };
  const kill = {
    title: `Kill trial ${trial.id}`, action: "Kill the trial", run: () => post(`/trials/${trial.id}/kill`),
    text: `It ends at once. Experiment ${experiment.id} goes on without it${experiment.config?.searcher?.name === "single" ? ", and so ends" : ""}.`,
  };
  return html`<span class="actions row">
    <${OpenTensorBoard} trialIds=${[trial.id]} />
    <${Button} problem=${problem || (trial.latest_checkpoint ? "" : "It has no checkpoint to go on from.")} onClick=${() => setDialog("continue")}>Continue …<//>
    <${Button} title="A new experiment with these hyperparameters and this seed" problem=${problem} onClick=${() => tell(rerun(), "A new experiment runs it again.")}>Run again<//>
    ${!hasEnded(trial) && html`<${Button} kind="danger" problem=${problem} onClick=${() => setQuestion(kill)}>Kill …<//>`}
    <${Button} problem=${problem} onClick=${() => setDialog("note")}>Note …<//>
    ${dialog === "continue" && html`<${ContinueForm} experiment=${experiment} trial=${trial} onClose=${() => setDialog("")} />`}
    ${dialog === "note" && html`<${NoteForm} trial=${trial} onClose=${() => setDialog("")} />`}
    ${question && html`<${Ask} question=${question} onClose=${() => setQuestion(null)} />`}
  </span>`;
}

/** @param {{question: Question, onClose: () => void}} props */
function Ask({ question, onClose }) {
  return html`<${Confirm} title=${question.title} action=${question.action} onDo=${question.run} onClose=${onClose}><p>${question.text}</p><//>`;
}

/** Says how something went. @param {Promise<unknown>} work @param {string} done */
function tell(work, done) {
  return work.then(() => toast(done), (error) => toast(clean(error.message), "bad"));
}
