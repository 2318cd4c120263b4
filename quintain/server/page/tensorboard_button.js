// @ts-check
// Opens TensorBoard in a window of its own.
import { post } from "./api.js";
import { html, useState } from "./vendor/preact.js";
import { ALL_PROJECTS, useEditProblem } from "./user.js";
import { Button, Problem } from "./widgets.js";

/** Opens TensorBoard on some runs and trials, or on all trials of an experiment.
 * @param {{runs?: any[], trialIds?: number[], experimentId?: number}} props */
export function OpenTensorBoard({ runs = [], trialIds = [], experimentId }) {
  const [error, setError] = useState(/** @type {any} */ (null));
  const [isBusy, setBusy] = useState(false);
  const open = async () => {
    // Browsers open a window for a click only, not for an answer that comes later.
    const opened = window.open("", "_blank");
    setBusy(true);
    setError(null);
    try {
      const { url } = await post("/tensorboard", { runs: runs.map((run) => run.name), trial_ids: trialIds, experiment_id: experimentId ?? null });
      if (!opened) return void (location.href = url);
      opened.opener = null;
      opened.location.href = url;
    } catch (problem) {
      opened?.close();
      setError(problem);
    }
    setBusy(false);
  };
  const isEmpty = !runs.length && !trialIds.length && experimentId === undefined;
  const problem = useEditProblem(ALL_PROJECTS) || (isEmpty ? "Choose what to open" : "");
  return html`<${Button} disabled=${isBusy} problem=${problem} onClick=${open} title="Open in TensorBoard">${isBusy ? "Starting TensorBoard …" : "TensorBoard"}<//>
    ${error && html`<${Problem} error=${error} />`}`;
}
