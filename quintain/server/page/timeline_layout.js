// @ts-check
// Where the spans of a timeline lie. No drawing here.

/** @typedef {{slot: number, trial: number, experiment: number, start: number, end: number | null}} Span */
/** @typedef {{from: number, to: number}} Range seconds since the epoch */
/** @typedef {{slot: number, share: number, numSpans: number, trial: number | null}} SlotUse */

/** @param {[number, number, number, number, number | null][]} rows of `/timeline` @returns {Span[]} */
export function toSpans(rows) {
  return rows.map(([slot, trial, experiment, start, end]) => ({ slot, trial, experiment, start, end }));
}

/** Returns the numbers of all slots: those that there are, and former ones that were used.
 * @param {{id: number}[]} slots @param {Span[]} spans @returns {number[]} */
export function listSlots(slots, spans) {
  return [...new Set([...slots.map((slot) => slot.id), ...spans.map((span) => span.slot)])].sort((a, b) => a - b);
}

/** Returns from the first start to the last end, or now while something runs; an hour if nothing ran. @param {Span[]} spans @param {number} now @returns {Range} */
export function findRange(spans, now) {
  const from = spans.reduce((least, span) => Math.min(least, span.start), Infinity);
  // What has ended ends the picture; a clock may have been set back since.
  const to = spans.reduce((most, span) => Math.max(most, span.end ?? Math.max(now, span.start)), -Infinity);
  return Number.isFinite(from) && to > from ? { from, to } : { from: now - 3600, to: now };
}

/** Returns the part of a span that is seen; null if there is none.
 * @param {Span} span @param {Range} range @param {number} now @returns {[number, number] | null} */
export function clip(span, range, now) {
  const start = Math.max(span.start, range.from);
  const end = Math.min(span.end ?? Math.max(now, span.start), range.to);
  return end < start || (end === start && span.end !== span.start) ? null : [start, end];
}

/** Returns for each slot which part of the time it was held, from the first span that is seen.
 * @param {number[]} slots @param {Span[]} spans @param {Range} range @param {number} now @returns {SlotUse[]} */
export function measureUse(slots, spans, range, now) {
  const seen = spans.flatMap((span) => {
    const part = clip(span, range, now);
    return part ? [{ span, start: part[0], end: part[1] }] : [];
  });
  const from = seen.reduce((least, { start }) => Math.min(least, start), Infinity);
  const to = Math.min(range.to, Math.max(now, ...spans.slice(-1).map((span) => span.end ?? now)));
  return slots.map((slot) => {
    const own = seen.filter(({ span }) => span.slot === slot);
    const busy = own.reduce((sum, { start, end }) => sum + end - start, 0);
    const holder = own.find(({ span }) => span.end === null)?.span.trial ?? null;
    return { slot, share: to > from ? Math.min(1, busy / (to - from)) : 0, numSpans: own.length, trial: holder };
  });
}
