// @ts-check
// Reads runs again and again while they train.
import { get } from "./api.js";
import { RunRecords } from "./run_data.js";
import { useEffect, useRef, useState } from "./vendor/preact.js";

const LIVE_MS = 2000;
const QUIET_MS = 10000;

/** Whether a process has the run, if only to save it. @param {{state: string}} run */
export function isLive({ state }) {
  return state === "running" || state === "stopping";
}

/** Asks for something now, and again after as long as `wait` says; stops when the view is gone. A
 * question that fails is asked again; the last answer stays.
 * @template Answer
 * @param {() => Promise<Answer>} ask @param {(answer: Answer) => number} wait Returns ms. @param {unknown[]} inputs
 * @returns {{answer: Answer | null, error: any, ask: () => void}} */
export function usePolled(ask, wait, inputs) {
  const [state, setState] = useState(/** @type {{answer: any, error: any}} */ ({ answer: null, error: null }));
  const again = useRef(/** @type {() => void} */ (() => {}));
  useEffect(() => {
    let isOver = false;
    let timer = 0;
    const run = async () => {
      clearTimeout(timer);
      let ms = QUIET_MS;
      try {
        const answer = await ask();
        if (isOver) return;
        setState({ answer, error: null });
        ms = wait(answer);
      } catch (error) {
        if (isOver) return;
        setState((old) => ({ answer: old.answer, error }));
      }
      // A page that nobody looks at asks nothing.
      if (!document.hidden) timer = window.setTimeout(run, ms);
    };
    const onShow = () => !document.hidden && run();
    document.addEventListener("visibilitychange", onShow);
    again.current = run;
    setState({ answer: null, error: null });
    run();
    return () => {
      isOver = true;
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", onShow);
    };
  }, inputs);
  return { ...state, ask: () => again.current() };
}

/** Returns all runs, newest first. */
export function useRuns() {
  return usePolled(() => get("/runs"), (runs) => (runs.some(isLive) ? LIVE_MS : QUIET_MS), []);
}

/** Returns the records of some runs, in their order.
 * @param {string[]} names
 * @returns {{records: RunRecords[] | null, version: string, error: any, ask: () => void}} */
export function useRecords(names) {
  const known = useRef(/** @type {Map<string, RunRecords>} */ (new Map()));
  const { answer, error, ask } = usePolled(async () => {
    await Promise.all(names.map(async (name) => {
      const records = known.current.get(name) ?? new RunRecords();
      records.take(await get(`/runs/${encodeURIComponent(name)}/curves`, { after: records.cursor }));
      known.current.set(name, records);
    }));
    return names.map((name) => /** @type {RunRecords} */ (known.current.get(name)));
  }, (records) => (records.some(isLive) ? LIVE_MS : QUIET_MS), [names.join("\n")]);
  return { records: answer, version: answer ? answer.map((one) => one.version).join(",") : "", error, ask };
}
