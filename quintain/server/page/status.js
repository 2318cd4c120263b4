// @ts-check
// What the master says of itself: lists, or, where there are hundreds of slots, numbers in place of them.
import { useEffect, useState } from "./vendor/preact.js";
import { get } from "./api.js";

/** Returns how many slots there are, and how many are in use. @param {any} status */
export function countSlots(status) {
  const slots = status?.slots ?? [];
  return {
    all: status?.num_slots ?? slots.length,
    busy: status?.num_busy_slots ?? slots.filter((/** @type {any} */ slot) => slot.trial_id !== null).length,
  };
}

/** Returns how many trials of an experiment run, and how many wait for slots. @param {any} [one] its part of the status */
export function countTrials(one) {
  return {
    running: one?.num_running ?? one?.running_trials?.length ?? 0,
    waiting: one?.num_waiting ?? one?.waiting_trials?.length ?? 0,
  };
}

/** Returns what the master says of what goes on in an experiment, and what its running trials do.
 * @param {any} status @param {number | undefined} experimentId @returns {{now: any, work: Map<number, any>}} */
export function findWork(status, experimentId) {
  const now = status?.experiments?.find((/** @type {any} */ one) => one.experiment_id === experimentId);
  return { now, work: new Map((now?.work ?? []).map((/** @type {any} */ one) => [one.trial_id, one])) };
}

/** Returns the slots that a trial holds: those of the status, or else the master is asked for them.
 * @param {any} status @param {number} trialId @returns {any[]} */
export function useSlots(status, trialId) {
  const [asked, setAsked] = useState(/** @type {{trialId: number, slots: any[]}} */ ({ trialId, slots: [] }));
  const isAsked = Boolean(status && !status.slots);
  useEffect(() => {
    let isGone = false;
    if (isAsked) get("/slots", { trial_id: trialId }).then((slots) => isGone || setAsked({ trialId, slots }), () => {});
    return () => {
      isGone = true;
    };
  }, [isAsked, trialId, status?.time]);
  if (isAsked) return asked.trialId === trialId ? asked.slots : [];
  return (status?.slots ?? []).filter((/** @type {any} */ slot) => slot.trial_id === trialId);
}
