// @ts-check
/** Hooks by which charts follow the data of an experiment. */
import { get } from "./api.js";
import { listGroups } from "./comparison.js";
import { useEffect, useMemo, useRef, useState } from "./vendor/preact.js";

const MANY_PAUSE_MS = 400;
const ZOOM_PAUSE_MS = 150;
/** A curve of fewer points has never been thinned: the store halves it at 128. */
const MIN_THINNED_POINTS = 60;
const MAX_FULL_CURVES = 16;

/**
 * Returns the version of the data to draw: each one, or some a second where drawing takes longer.
 * @param {import("./experiment_data.js").ExperimentData} data
 * @param {boolean} isMany
 * @returns {number}
 */
export function useVersion(data, isMany) {
  const [version, setVersion] = useState(data.version);
  useEffect(() => {
    /** @type {any} */
    let timer = null;
    const stop = data.subscribe(() => {
      timer ??= setTimeout(() => {
        timer = null;
        setVersion(data.version);
      }, isMany ? MANY_PAUSE_MS : 16);
    });
    setVersion(data.version);
    return () => {
      stop();
      clearTimeout(timer);
    };
  }, [data, isMany]);
  return version;
}

/**
 * Returns the same array as before while its content is the same.
 * @template {ArrayLike<unknown>} T
 * @param {T} values
 * @returns {T}
 */
export function useSame(values) {
  const kept = useRef(values);
  const old = kept.current;
  if (old !== values && (old.length !== values.length || Array.prototype.some.call(values, (value, i) => value !== old[i]))) {
    kept.current = values;
  }
  return kept.current;
}

/**
 * Returns rows in groups that differ in the seed only, unless a link says that they are not grouped.
 * @param {import("./experiment_data.js").ExperimentData} data
 * @param {ArrayLike<number>} rows
 * @param {Record<string, string>} query
 * @returns {{groups: import("./comparison.js").Group[], isSeeded: boolean, isGrouped: boolean}}
 */
export function useGroups(data, rows, query) {
  const same = useSame(rows);
  // Hyperparameters of a trial stay as they are.
  const grouped = useMemo(() => listGroups(data, same, true), [data, same, data.columns]);
  const isSeeded = grouped.length < same.length;
  const isGrouped = isSeeded && query.seeds !== "0";
  const groups = useMemo(() => (isGrouped || !isSeeded ? grouped : listGroups(data, same, false)), [grouped, isGrouped]);
  return { groups, isSeeded, isGrouped };
}

/**
 * Fetches curves as they are needed.
 * @param {import("./experiment_data.js").ExperimentData} data
 * @param {string[]} metrics
 * @param {number[] | null} trialIds  null for all.
 * @returns {{isLoading: boolean, error: any, retry: () => void}}
 */
export function useCurves(data, metrics, trialIds) {
  const [state, setState] = useState(/** @type {{isLoading: boolean, error: any}} */ ({ isLoading: true, error: null }));
  const [attempt, setAttempt] = useState(0);
  // Also after the experiment was fetched anew, which forgets all curves.
  const isMissing = metrics.some((name) => data.curves.isMissing(name, trialIds));
  useEffect(() => {
    let isOver = false;
    setState({ isLoading: isMissing, error: null });
    const done = (/** @type {any} */ error) => !isOver && setState({ isLoading: false, error: error ?? null });
    data.loadCurves(metrics, trialIds).then(() => done(null), done);
    return () => void (isOver = true);
  }, [data, attempt, isMissing, metrics.join("\n"), trialIds?.join() ?? "all"]);
  return { error: state.error, isLoading: state.isLoading || (isMissing && !state.error), retry: () => setAttempt(attempt + 1) };
}

/**
 * Fetches all points of a few curves between some batches.
 * @param {{trialId: number, metric: string, from: number, to: number, numPoints: number}[]} wanted
 * @returns {{parts: Map<string, {batches: number[], values: number[], times: number[]}>, error: any}}  By trial and metric (`nameCurve`).
 */
export function useFullPoints(wanted) {
  const [parts, setParts] = useState(/** @type {Map<string, any>} */ (new Map()));
  const [error, setError] = useState(/** @type {any} */ (null));
  const thinned = wanted.length <= MAX_FULL_CURVES ? wanted.filter((one) => one.numPoints >= MIN_THINNED_POINTS) : [];
  const key = JSON.stringify(thinned.map(({ trialId, metric, from, to }) => [trialId, metric, from, to]));
  useEffect(() => {
    setError(null);
    if (!thinned.length) {
      setParts((old) => (old.size ? new Map() : old));
      return undefined;
    }
    let isOver = false;
    const timer = setTimeout(() => {
      const fetched = thinned.map(async ({ trialId, metric, from, to }) =>
        /** @type {[string, any]} */ ([nameCurve(trialId, metric), toNumbers(await get(`/trials/${trialId}/points`, { metric, from, to }))]));
      Promise.all(fetched).then((pairs) => !isOver && setParts(new Map(pairs)), (problem) => !isOver && setError(problem));
    }, ZOOM_PAUSE_MS);
    return () => {
      isOver = true;
      clearTimeout(timer);
    };
  }, [key]);
  return { parts, error };
}

/** @param {number} trialId @param {string} metric */
export function nameCurve(trialId, metric) {
  return `${trialId} ${metric}`;
}

/** JSON has NaN and infinities as texts. @param {Record<string, any[]>} points */
function toNumbers({ batches, values, times }) {
  return { batches: batches.map(Number), values: values.map(Number), times: times.map(Number) };
}
