// @ts-check
// What the search of an experiment knows, fetched again as trials change.
import { useEffect, useMemo, useRef, useState } from "./vendor/preact.js";
import { get } from "./api.js";

const PAUSE_MS = 3000;
/** A search waits for so many times as the master took to answer, so that it has most of its time for others. */
const TIMES_TAKEN = 10;
const MOST_FINALISTS = 8;
const WITHOUT_RUNGS = ["single", "random", "grid", "pbt", "gp"];

/** Fetches the search; again after changes, but not all the time. @param {any} data @param {boolean} [isWanted] */
export function useSearch(data, isWanted = true) {
  const [found, setFound] = useState(/** @type {{search: any, error: any}} */ ({ search: null, error: null }));
  const timer = useRef(/** @type {any} */ (undefined));
  const pause = useRef(PAUSE_MS);
  const reload = () => {
    const start = performance.now();
    return get(`/experiments/${data.id}/search`).then((search) => setFound({ search, error: null }), (error) => setFound((old) => ({ ...old, error })))
      .finally(() => {
        timer.current = undefined;
        pause.current = Math.max(PAUSE_MS, TIMES_TAKEN * (performance.now() - start));
      });
  };
  useEffect(() => {
    if (!isWanted) return undefined;
    reload();
    const stop = data.subscribe(() => {
      timer.current ??= setTimeout(reload, pause.current);
    });
    return () => {
      stop();
      clearTimeout(timer.current);
      timer.current = undefined;
    };
  }, [data, isWanted]);
  return { ...found, reload };
}

/** Lets the data know the rung at which each trial was stopped early. @param {any} data @param {any} experiment */
export function useStops(data, experiment) {
  const { search } = useSearch(data, hasRungs(experiment));
  useEffect(() => data.setStops(findStops(search)), [data, search]);
}

/** Returns the rung at which a trial was stopped early, if it was. @param {any} trial @param {any} experiment @returns {number | undefined} */
export function useStop(trial, experiment) {
  const [rung, setRung] = useState(/** @type {number | undefined} */ (undefined));
  useEffect(() => {
    let isGone = false;
    setRung(undefined);
    if (trial?.state === "COMPLETED" && hasRungs(experiment)) {
      get(`/experiments/${experiment.id}/search`)
        .then((search) => isGone || setRung(findStops(search).get(trial.id)), () => {}); // The search's own view says what is wrong.
    }
    return () => {
      isGone = true;
    };
  }, [trial?.id, trial?.state]);
  return rung;
}

/** @param {any} experiment */
function hasRungs(experiment) {
  return Boolean(experiment) && !WITHOUT_RUNGS.includes(experiment.config?.searcher?.name);
}

/** @param {any} search @returns {Map<number, number>} */
export function findStops(search) {
  const stops = new Map();
  for (const { rungs } of search?.brackets ?? []) {
    rungs.forEach((/** @type {any} */ rung, /** @type {number} */ at) => {
      for (const [id, , outcome] of rung.trials) if (outcome === "stopped") stops.set(id, at);
    });
  }
  return stops;
}

/** Returns the places of the finalists that have further seeds; they are asked for anew with each result of such a seed. @param {any} data @param {number} version @returns {any[]} */
export function useStandings(data, version) {
  const [found, setFound] = useState(/** @type {any[]} */ ([]));
  const numResults = useMemo(() => {
    const metrics = data.get("best_metric");
    return Array.from(data.get("request_id")).filter((name, row) => String(name).includes("+") && Number.isFinite(metrics[row])).length;
  }, [data, version]);
  useEffect(() => {
    let isGone = false;
    const isNew = (/** @type {any} */ one) => one.trial_ids.length > 1;
    if (numResults) get(`/experiments/${data.id}/best`, { top: String(MOST_FINALISTS) }).then((all) => isGone || setFound(all.filter(isNew)), () => {}); // The best single trial stays.
    return () => {
      isGone = true;
    };
  }, [data, numResults]);
  return found;
}
