// @ts-check
// Small parts that every view uses.
import { html, useEffect, useLayoutEffect, useRef, useState } from "./vendor/preact.js";
import { number, outcome, percent } from "./format.js";

/** @param {{onClick?: (event: any) => void, kind?: "plain"|"main"|"danger"|"quiet", title?: string, disabled?: boolean, problem?: string,
 *   label?: string, pressed?: boolean, type?: string, children?: any}} props `problem` says why it can't be used now, as `useEditProblem` finds it */
export function Button({ onClick, kind = "plain", title, disabled, problem, label, pressed, type = "button", children }) {
  return html`<button type=${type} class="button ${kind}" onClick=${onClick} title=${problem || title} disabled=${disabled || Boolean(problem)}
    aria-label=${label} aria-pressed=${pressed === undefined ? undefined : String(pressed)}>${children}</button>`;
}

/** The state of an experiment or trial, told by colour and word; a search ends a trial early at a rung.
 * @param {{state: string, rung?: number}} props */
export function Badge({ state, rung }) {
  const name = outcome(state, rung);
  return html`<span class="badge state-${name.split(/[ ,]/)[0]}">${name}</span>`;
}

/** @param {{share: number, label?: string}} props */
export function Progress({ share, label = "progress" }) {
  const width = Math.max(0, Math.min(1, share || 0));
  return html`<span class="progress" role="progressbar" aria-label=${label}
      aria-valuemin="0" aria-valuemax="100" aria-valuenow=${Math.floor(width * 100)}>
    <span class="progress-track"><span class="progress-bar" style=${{ width: `${width * 100}%` }}></span></span>
    <span class="progress-text">${percent(width)}</span></span>`;
}

/** How far a run is. @param {{run: any}} props */
export function Steps({ run }) {
  if (!["running", "stopping"].includes(run.state) || !run.train_steps) {
    return html`${number(run.step)}${run.train_steps ? html`<span class="muted"> of ${number(run.train_steps)}</span>` : null}`;
  }
  return html`<${Progress} share=${run.step / run.train_steps} label="steps" />`;
}

/** Says what is not there, and what to do next. @param {{title: string, children?: any}} props */
export function Empty({ title, children }) {
  return html`<div class="empty"><h2>${title}</h2>${children}</div>`;
}

/** @param {{text?: string}} props */
export function Loading({ text = "Loading" }) {
  return html`<div class="loading" role="status">${text} …</div>`;
}

/** What went wrong, in the words of the master. @param {{error: any, retry?: () => void}} props */
export function Problem({ error, retry }) {
  return html`<div class="problem" role="alert"><p>${error?.message ?? String(error)}</p>
    ${retry && html`<${Button} onClick=${retry}>Try again<//>`}</div>`;
}

/** Links that look like tabs. A count that is null is not known yet, and has its room.
 * @param {{tabs: {key: string, label: string, count?: string | number | null}[], current: string, hrefOf: (key: string) => string,
 *   label?: string}} props */
export function Tabs({ tabs, current, hrefOf, label = "views" }) {
  const bar = useRef();
  useEffect(() => {
    bar.current?.querySelector("[aria-current]")?.scrollIntoView({ block: "nearest", inline: "nearest" });
  }, [current]);
  return html`<nav class="tabs" ref=${bar} aria-label=${label}>${tabs.map(({ key, label: name, count }) => html`
    <a key=${key} href=${hrefOf(key)} class="tab" aria-current=${key === current ? "page" : undefined}>${name}${
      count === undefined ? null : html`<span class="count">${count}</span>`}</a>`)}</nav>`;
}

/** A button that opens a box below it; ends by Escape or a click elsewhere.
 * @param {{label: any, title?: string, kind?: string, align?: "left"|"right", children?: any}} props `children` may be a function of `close` */
export function Menu({ label, title, kind = "plain", align = "left", children }) {
  const [isOpen, setOpen] = useState(false);
  const box = useRef();
  const close = () => setOpen(false);
  useLayoutEffect(() => {
    if (!isOpen) return undefined;
    const onPointer = (/** @type {Event} */ event) => !box.current?.contains(event.target) && close();
    const onKey = (/** @type {KeyboardEvent} */ event) => {
      if (event.key !== "Escape") return;
      event.stopPropagation();
      close();
      box.current?.querySelector("button")?.focus();
    };
    document.addEventListener("pointerdown", onPointer);
    document.addEventListener("keydown", onKey, true);
    return () => {
      document.removeEventListener("pointerdown", onPointer);
      document.removeEventListener("keydown", onKey, true);
    };
  }, [isOpen]);
  return html`<span class="menu" ref=${box}>
    <button type="button" class="button ${kind}" title=${title} aria-label=${label === "⋯" ? title : undefined} aria-expanded=${String(isOpen)}
      onClick=${() => setOpen(!isOpen)}>${label}<span class="caret" aria-hidden="true"></span></button>
    ${isOpen && html`<div class="menu-box ${align}">${typeof children === "function" ? children(close) : children}</div>`}
  </span>`;
}

/** A dialog over the page. @param {{title: string, onClose: () => void, children?: any, wide?: boolean}} props */
export function Dialog({ title, onClose, children, wide = false }) {
  const dialog = useRef();
  useLayoutEffect(() => {
    if (!dialog.current.open) dialog.current.showModal();
  }, []);
  return html`<dialog ref=${dialog} class="dialog ${wide ? "wide" : ""}" aria-label=${title} onClose=${onClose}
    onClick=${(/** @type {any} */ event) => event.target === dialog.current && dialog.current.close()}>
    <div class="dialog-body"><header><h2>${title}</h2>
      <${Button} kind="quiet" label="Close" onClick=${() => dialog.current.close()}>✕<//></header>${children}</div>
  </dialog>`;
}

/** Asks once before something that can't be undone.
 * @param {{title: string, children?: any, action: string, onDo: () => void | Promise<unknown>, onClose: () => void}} props */
export function Confirm({ title, children, action, onDo, onClose }) {
  const [error, setError] = useState(/** @type {any} */ (null));
  const [isBusy, setBusy] = useState(false);
  const run = async () => {
    setBusy(true);
    try {
      await onDo();
      onClose();
    } catch (problem) {
      setError(problem);
      setBusy(false);
    }
  };
  return html`<${Dialog} title=${title} onClose=${onClose}>
    <div class="dialog-text">${children}</div>${error && html`<${Problem} error=${error} />`}
    <footer><${Button} onClick=${onClose}>Cancel<//><${Button} kind="danger" disabled=${isBusy} onClick=${run}>${action}<//></footer>
  <//>`;
}

/** @type {Set<(toast: {text: string, kind: string}) => void>} */
const toastListeners = new Set();

/** Shows a short message for some seconds. @param {string} text @param {"good"|"bad"} [kind] */
export function toast(text, kind = "good") {
  for (const listener of toastListeners) listener({ text, kind });
}

/** Where messages of `toast` appear; once in the page. */
export function Toasts() {
  const [shown, setShown] = useState(/** @type {{text: string, kind: string, key: number}[]} */ ([]));
  useLayoutEffect(() => {
    let key = 0;
    const add = (/** @type {{text: string, kind: string}} */ one) => {
      key += 1;
      const added = { ...one, key };
      setShown((old) => [...old.slice(-3), added]);
      setTimeout(() => setShown((old) => old.filter((other) => other !== added)), one.kind === "bad" ? 10000 : 4000);
    };
    toastListeners.add(add);
    return () => void toastListeners.delete(add);
  }, []);
  return html`<div class="toasts" role="status" aria-live="polite">${shown.map(({ text, kind, key }) => html`
    <div key=${key} class="toast ${kind}">${text}</div>`)}</div>`;
}

/** Offers text as a file. @param {string} name @param {string} content @param {string} [type] */
export function download(name, content, type = "text/plain") {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([content], { type }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}
