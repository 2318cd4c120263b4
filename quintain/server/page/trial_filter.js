// @ts-check
// Which trials an expression chooses: the master's answer, asked for after a pause in typing and again as trials change.

/**
 * @typedef {{ids: Set<number> | null, problem: string}} Chosen `ids` is null for all trials
 * @typedef {(where: string, signal: AbortSignal) => Promise<{id: number}[]>} Ask
 */

const TYPING_MS = 200;
const REFRESH_MS = 1000;
/** A refresh waits for so many times as the master took to answer, so that it has most of its time for others. */
const TIMES_TAKEN = 10;

/** @type {Chosen} */
export const ALL = { ids: null, problem: "" };

export class TrialFilter {
  /** @param {Ask} ask @param {(chosen: Chosen) => void} onChange */
  constructor(ask, onChange) {
    this.ask = ask;
    this.onChange = onChange;
    this.chosen = ALL;
    /** @type {string | null} null at first */
    this.where = null;
    this.isStale = false;
    this.refreshMs = REFRESH_MS;
    /** @type {ReturnType<typeof setTimeout> | null} */
    this.timer = null;
    /** @type {AbortController | null} */
    this.asking = null;
  }

  /** Chooses by an expression, once nothing more is typed; an empty one chooses all. @param {string} where */
  choose(where) {
    if (where === this.where) return;
    this.close();
    const isTyped = this.where !== null;
    this.where = where;
    if (where) this.timer = setTimeout(() => this.#ask(where), isTyped ? TYPING_MS : 0);
    else this.#tell(ALL);
  }

  /** Asks again soon, as trials have changed. */
  refresh() {
    const where = this.where;
    if (!where) return;
    this.isStale = true;
    if (!this.asking) this.timer ??= setTimeout(() => this.#ask(where), this.refreshMs);
  }

  /** Ends what is under way. */
  close() {
    clearTimeout(this.timer ?? undefined);
    this.asking?.abort();
    this.timer = this.asking = null;
  }

  /** @param {string} where */
  async #ask(where) {
    const asking = (this.asking = new AbortController());
    const start = performance.now();
    this.timer = null;
    this.isStale = false;
    /** @type {Chosen} */
    let chosen;
    try {
      chosen = { ids: new Set((await this.ask(where, asking.signal)).map(({ id }) => id)), problem: "" };
    } catch (error) {
      // Half an expression that is being typed does not make the table jump.
      chosen = { ids: this.chosen.ids, problem: /** @type {Error} */ (error).message.replace(/^where: /, "") };
      this.isStale ||= /** @type {{status?: number}} */ (error).status === 0;
    }
    if (this.asking !== asking) return;
    this.asking = null;
    this.refreshMs = Math.max(REFRESH_MS, TIMES_TAKEN * (performance.now() - start));
    this.#tell(chosen);
    if (this.isStale) this.refresh();
  }

  /** @param {Chosen} chosen */
  #tell(chosen) {
    this.chosen = chosen;
    this.onChange(chosen);
  }
}
