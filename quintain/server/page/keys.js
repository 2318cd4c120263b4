// @ts-check
// Keys that work wherever nothing is typed in.
import { html, useLayoutEffect, useRef } from "./vendor/preact.js";
import { Dialog } from "./widgets.js";

const SEQUENCE_MS = 1200;
const KEYS = [
  ["/", "filter"], ["j, k or ↓, ↑", "next or previous row"], ["x", "select the row; with shift all up to it"], ["Enter", "open the row"],
  ["Escape", "leave the field; let go of the selection"], ["g e", "experiments"], ["g r", "runs"], ["g m", "models"], ["g s", "slots"],
  ["1 … 9", "tab of the experiment"], ["t", "dark or light"], ["?", "these keys"]];

/** Calls actions by key, as `{"/": focusFilter, "g e": goHome}`, while the component is there.
 * @param {Record<string, (event: KeyboardEvent) => void>} actions */
export function useKeys(actions) {
  const latest = useRef(actions);
  latest.current = actions;
  // Whoever sees the rows may press a key: later effects would miss it.
  useLayoutEffect(() => {
    let before = "";
    let beforeTime = 0;
    const onKey = (/** @type {KeyboardEvent} */ event) => {
      if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || isTyping(event)) return;
      const pair = Date.now() - beforeTime < SEQUENCE_MS ? `${before} ${event.key}` : "";
      before = event.key;
      beforeTime = Date.now();
      const action = latest.current[pair] ?? latest.current[event.key];
      if (!action) return;
      event.preventDefault();
      action(event);
    };
    document.addEventListener("keydown", onKey);
    return () => document.removeEventListener("keydown", onKey);
  }, []);
}

/** The dialog that lists all keys. @param {{onClose: () => void}} props */
export function KeyHelp({ onClose }) {
  return html`<${Dialog} title="Keys" onClose=${onClose}>
    <dl class="keys">${KEYS.map(([key, what]) => html`<dt key=${key}><kbd>${key}</kbd></dt><dd>${what}</dd>`)}</dl><//>`;
}

/** @param {KeyboardEvent} event */
function isTyping(event) {
  const target = /** @type {HTMLElement} */ (event.target);
  if (document.querySelector("dialog[open]")) return true;
  if (event.key === "Enter" && target.closest("a, button, summary")) return true; // It does what it is there for.
  if (target.tagName === "INPUT") return !["checkbox", "radio", "button", "range"].includes(/** @type {HTMLInputElement} */ (target).type);
  return target.tagName === "TEXTAREA" || target.tagName === "SELECT" || target.isContentEditable;
}
