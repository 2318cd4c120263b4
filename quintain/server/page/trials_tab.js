// @ts-check
// The table of trials with its columns, order and keys.
import { html, useMemo, useRef, useState } from "./vendor/preact.js";
import * as format from "./format.js";
import { useKeys } from "./keys.js";
import { sortRows, toCsv } from "./rows.js";
import { VirtualTable } from "./table.js";
import { Button, Empty, Menu, download } from "./widgets.js";

const MOST_HPARAMS = 8;
const GROUPS = [["trial", "Trial"], ["hparam", "Hyperparameters"], ["metric", "Metrics"]];

/** @param {any} props those of a tab */
export function TrialsTab({ data, experiment, visible, version, status, selection, setSelection, route }) {
  const { query, setQuery, go } = route;
  const [active, setActive] = useState(-1);
  const from = useRef(-1);
  const sort = readSort(query.sort, data);
  const rows = useMemo(() => sortRows(data, visible, sort.key, sort.descending), [data, version, visible, sort.key, sort.descending]);
  const keys = useMemo(() => readColumns(query.cols, data), [query.cols, data, data.columns.length]);
  const columns = useMemo(() => pickColumns(data, keys), [data, data.columns.length, keys]);
  const idAt = (/** @type {number} */ at) => data.ids[rows[at]];
  const phases = useMemo(() => readPhases(status, data.id), [status, data.id]);
  const onSort = (/** @type {string} */ key) => {
    const startsDown = key === "best_metric" ? !isSmallerBest(data) : /\.(best|last|max)$/.test(key);
    const isDown = sort.key === key ? !sort.descending : startsDown;
    setQuery({ sort: (isDown ? "-" : "") + key });
  };
  const onSelect = (/** @type {number[]} */ ids, /** @type {boolean} */ isSelected) => {
    const next = new Set(selection);
    for (const id of ids) next[isSelected ? "add" : "delete"](id);
    setSelection(next);
  };
  const move = (/** @type {number} */ step) => setActive((/** @type {number} */ old) => Math.max(0, Math.min(rows.length - 1, old + step)));
  const select = (/** @type {KeyboardEvent} */ event) => {
    if (active < 0 || active >= rows.length) return;
    const [low, high] = event.shiftKey && from.current >= 0 ? [Math.min(from.current, active), Math.max(from.current, active)] : [active, active];
    onSelect(Array.from(rows.subarray(low, high + 1), (row) => data.ids[row]), event.shiftKey || !selection.has(idAt(active)));
    from.current = active;
  };
  const open = (/** @type {number} */ id) => go(`/trials/${id}`);
  useKeys({
    j: () => move(1), k: () => move(-1), ArrowDown: () => move(1), ArrowUp: () => move(-1), PageDown: () => move(20), PageUp: () => move(-20),
    Home: () => setActive(0), End: () => setActive(rows.length - 1), x: select, X: select,
    Enter: (event) => active >= 0 && !(event.target instanceof HTMLButtonElement) && open(idAt(active)),
    Escape: () => selection.size && setSelection([]),
  });
  if (!data.numRows) return html`<${NoTrials} experiment=${experiment} />`;
  return rows.length
    ? html`<${VirtualTable} data=${data} rows=${rows} columns=${columns} version=${version} sort=${sort} onSort=${onSort} selection=${selection} onSelect=${onSelect} phases=${phases}
          active=${active} onActive=${setActive} hrefOf=${(/** @type {number} */ id) => `#/trials/${id}`} onOpen=${open} label="Trials" />`
    : html`<${Empty} title="No trial fits">
        <p>None of ${format.number(data.numRows)} trials is what the filter asks for.</p><${Button} onClick=${() => setQuery({ where: null, state: null, brush: null })}>Show all trials<//><//>`;
}

/** What can be done with the whole table. @param {any} props */
export function TableTools({ data, visible, route }) {
  const { query, setQuery } = route;
  const save = () => {
    const { key, descending } = readSort(query.sort, data);
    download(`experiment-${data.id}.csv`, toCsv(data, sortRows(data, visible, key, descending), data.columnNames()), "text/csv");
  };
  return html`<span class="row"><${Columns} data=${data} keys=${readColumns(query.cols, data)} setQuery=${setQuery} isChosen=${Boolean(query.cols)} />
    <${Button} onClick=${save} title="All trials that fit the filter, with all columns">CSV<//></span>`;
}

/** @param {{experiment: any}} props */
function NoTrials({ experiment }) {
  return html`<${Empty} title="No trials yet"><p>${experiment.state === "PAUSED"
    ? html`The experiment is paused. It begins by <code>quintain experiment activate ${experiment.id}</code>, or by Activate above.`
    : "The search creates them as slots become free; they appear here by themselves."}</p><//>`;
}

/** @param {{data: any, keys: string[], setQuery: any, isChosen: boolean}} props */
function Columns({ data, keys, setQuery, isChosen }) {
  const [find, setFind] = useState("");
  const toggle = (/** @type {string} */ key) => {
    const next = keys.includes(key) ? keys.filter((one) => one !== key) : [...keys, key];
    setQuery({ cols: (next.length ? next : ["id"]).join(",") });
  };
  const fits = (/** @type {any} */ column) => column.label.toLowerCase().includes(find.toLowerCase());
  return html`<${Menu} label="Columns" align="right">
    <input type="search" class="wide" placeholder="Find a column" aria-label="Find a column" value=${find} onInput=${(/** @type {any} */ event) => setFind(event.target.value)} />
    ${GROUPS.map(([source, title]) => {
      const columns = data.columns.filter((/** @type {any} */ column) => column.source === source && fits(column));
      return columns.length > 0 && html`<div key=${source} role="group" aria-label=${title}><div class="menu-title">${title}</div>${columns.map((/** @type {any} */ column) => html`
        <label key=${column.key} class="check menu-item"><input type="checkbox" checked=${keys.includes(column.key)} onChange=${() => toggle(column.key)} />${column.label}</label>`)}</div>`;
    })}
    ${isChosen && html`<${Button} onClick=${() => setQuery({ cols: null })}>Usual columns<//>`}
  <//>`;
}

/** The columns of some keys, or the usual ones where there are none of them. @param {any} data @param {string[]} keys @returns {any[]} */
function pickColumns(data, keys) {
  const picked = data.columns.filter((/** @type {any} */ column) => keys.includes(column.key));
  return picked.length ? picked : pickColumns(data, chooseColumns(data));
}

/** Which of the active trials run, and which wait for slots. @param {any} status @param {number} id */
function readPhases(status, id) {
  const now = status?.experiments?.find((/** @type {any} */ one) => one.experiment_id === id);
  const name = (/** @type {number[]} */ trials, /** @type {string} */ phase) => (trials ?? []).map((trial) => /** @type {[number, string]} */ ([trial, phase]));
  return new Map([...name(now?.waiting_trials, "waiting"), ...name(now?.running_trials, "running")]);
}

/** @param {string | undefined} text @param {any} data @returns {string[]} */
function readColumns(text, data) {
  return text ? text.split(",") : chooseColumns(data);
}

/** What the table shows until somebody chooses: what the search varies, and how it went. @param {any} data @returns {string[]} */
function chooseColumns(data) {
  const kinds = new Map(data.hparams.map((/** @type {any} */ one) => [one.path, one.kind]));
  const varied = data.columns.filter((/** @type {any} */ column) => column.source === "hparam" && kinds.get(column.label) !== "const");
  return ["id", "state", "best_metric", "latest_metric", "total_batches", "duration", ...varied.slice(0, MOST_HPARAMS).map((/** @type {any} */ column) => column.key)];
}

/** @param {string | undefined} text @param {any} data */
function readSort(text, data) {
  const key = (text ?? "").replace(/^-/, "");
  return data.column(key) ? { key, descending: text?.startsWith("-") ?? false } : { key: "id", descending: false };
}

/** @param {any} data */
function isSmallerBest(data) {
  return data.experiment?.config?.searcher?.smaller_is_better ?? true;
}
