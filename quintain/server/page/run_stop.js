// @ts-check
// Asks a run of `quintain train` to stop, and says how it goes on.
import { post } from "./api.js";
import { html, useState } from "./vendor/preact.js";
import { ALL_PROJECTS, useEditProblem } from "./user.js";
import { Button, Confirm, Dialog } from "./widgets.js";

/** A button, if the run can be stopped from here. @param {{run: any, onStop: () => void}} props */
export function StopRun({ run, onStop }) {
  const [isOpen, setOpen] = useState(false);
  const [command, setCommand] = useState("");
  const problem = useEditProblem(ALL_PROJECTS);
  const close = () => {
    setOpen(false);
    setCommand("");
  };
  const stop = async () => {
    setCommand((await post(`/runs/${encodeURIComponent(run.name)}/stop`)).command);
    onStop();
  };
  return html`${run.can_stop && html`<${Button} kind="danger" problem=${problem} label=${`Stop ${run.label}`} onClick=${() => setOpen(true)}>Stop …<//>`}
    ${isOpen && !command && html`<${Confirm} title=${`Stop ${run.label}`} action="Stop the run" onDo=${stop}
      onClose=${() => setOpen(false)}><p>It ends after its step, with a checkpoint, as on Ctrl-C. It can go on from there.</p><//>`}
    ${command && html`<${Dialog} title=${`${run.label} stops`} onClose=${close}>
      <p>It saves a checkpoint and ends. To go on with it:</p><pre class="run-command"><code>${command}</code></pre>
      <footer><${Button} kind="main" onClick=${close}>Close<//></footer><//>`}`;
}
