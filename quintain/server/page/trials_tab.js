// @ts-check
// The table of trials with its columns, order and keys.
import { html, useMemo, useRef, useState } from "./vendor/preact.js";
import { useGroups } from "./chart_data.js";
import { SeedSwitch } from "./chart_parts.js";
import * as format from "./format.js";
import { useKeys } from "./keys.js";
import { layGroups, sortRows, toCsv } from "./rows.js";
import { findWork } from "./status.js";
import { listIds, VirtualTable } from "./table.js";
import { Button, Empty, Menu, download } from "./widgets.js";

/** @typedef {import("./column.js").Column} Column */
/** @typedef {import("./experiment_data.js").ExperimentData} ExperimentData */

const MOST_HPARAMS = 8;
const GROUPS = [["trial", "Trial"], ["hparam", "Hyperparameters"], ["metric", "Metrics"]];
const PAGE = 20;

/** @param {any} props those of a tab */
export function TrialsTab({ data, experiment, visible, version, status, selection, setSelection, route }) {
  const { query, setQuery, go } = route;
  const [active, setActive] = useState(-1);
  const { key, descending } = readSort(query.sort, data);
  const { groups, isGrouped } = useGroups(data, visible, query);
  const [open, setOpen] = useState(/** @type {Set<number>} */ (new Set()));
  const { rows, heads } = useMemo(() => (isGrouped ? layGroups(data, groups, key, descending, open) : { rows: sortRows(data, visible, key, descending), heads: new Map() }),
    [data, version, visible, groups, isGrouped, open, key, descending]);
  const columns = useMemo(() => pickColumns(data, query.cols), [data, version, query.cols]);
  const phases = useMemo(() => readPhases(status, data.id), [status, data.id]);
  const onSort = (/** @type {string} */ next) => {
    const isDown = next === key ? !descending : isBestFirst(next, data);
    setQuery({ sort: (isDown ? "-" : "") + next });
  };
  const onSelect = (/** @type {number[]} */ ids, /** @type {boolean} */ isSelected) => {
    const next = new Set(selection);
    for (const id of ids) next[isSelected ? "add" : "delete"](id);
    setSelection(next);
  };
  const idsAt = (/** @type {number} */ at) => heads.get(at)?.ids ?? [data.ids[rows[at]]];
  const onOpen = (/** @type {number} */ at) => {
    const group = heads.get(at);
    if (!group) return go(`/trials/${data.ids[rows[at]]}`);
    const next = new Set(open);
    if (!next.delete(group.id)) next.add(group.id);
    return setOpen(next);
  };
  useTableKeys({ rows, idsAt, active, setActive, selection, setSelection, onSelect, onOpen });
  if (!data.numRows) return html`<${NoTrials} experiment=${experiment} />`;
  if (!rows.length) return html`<${NoneFits} data=${data} setQuery=${setQuery} />`;
  const props = { data, rows, heads, open, idsAt, columns, version, sort: { key, descending }, onSort, selection, onSelect, phases, active, onOpen };
  return html`<${VirtualTable} ...${props} onActive=${setActive} hrefOf=${hrefOf} label="Trials" />`;
}

/** What can be done with the whole table. @param {any} props */
export function TableTools({ data, visible, route }) {
  const { query, setQuery } = route;
  const save = () => {
    const { key, descending } = readSort(query.sort, data);
    // All values of a metric have columns of their own.
    const keys = data.columnNames().filter((/** @type {string} */ name) => !data.metricNames.includes(name));
    const text = toCsv(data, sortRows(data, visible, key, descending), keys);
    download(`experiment-${data.id}.csv`, text, "text/csv");
  };
  return html`<span class="row"><${SeedSwitch} ...${useGroups(data, visible, query)} /><${Columns} data=${data} chosen=${query.cols} setQuery=${setQuery} />
    <${Button} onClick=${save} title="All filtered trials, with all columns">CSV<//></span>`;
}

/** Walks and selects rows by keys. @param {any} table */
function useTableKeys({ rows, idsAt, active, setActive, selection, setSelection, onSelect, onOpen }) {
  const from = useRef(-1);
  const go = (/** @type {number} */ at) => setActive(Math.max(0, Math.min(rows.length - 1, at)));
  const by = (/** @type {number} */ step) => () => go(active + step);
  const isThere = active >= 0 && active < rows.length;
  const select = (/** @type {KeyboardEvent} */ event) => {
    if (!isThere) return;
    const start = event.shiftKey && from.current >= 0 ? from.current : active;
    onSelect(listIds(idsAt, start, active), event.shiftKey || !idsAt(active).every((/** @type {number} */ id) => selection.has(id)));
    from.current = active;
  };
  useKeys({
    j: by(1), k: by(-1), ArrowDown: by(1), ArrowUp: by(-1), PageDown: by(PAGE), PageUp: by(-PAGE),
    Home: () => go(0), End: () => go(rows.length - 1), x: select, X: select,
    Enter: () => isThere && onOpen(active),
    Escape: () => selection.size && setSelection([]),
  });
}

/** @param {{experiment: any}} props */
function NoTrials({ experiment }) {
  const command = `quintain experiment activate ${experiment.id}`;
  return html`<${Empty} title="No trials yet"><p>${experiment.state === "PAUSED"
    ? html`The experiment is paused. It begins by <code>${command}</code>, or by Activate above.`
    : "The search creates them as slots become free; they appear here by themselves."}</p><//>`;
}

/** @param {{data: ExperimentData, setQuery: any}} props */
function NoneFits({ data, setQuery }) {
  const showAll = () => setQuery({ where: null, state: null, brush: null });
  return html`<${Empty} title="No matching trials">
    <p>None of ${format.number(data.numRows)} trials matches the filter.</p>
    <${Button} onClick=${showAll}>Show all trials<//><//>`;
}

/** @param {{data: ExperimentData, chosen: string | undefined, setQuery: any}} props */
function Columns({ data, chosen, setQuery }) {
  const [find, setFind] = useState("");
  const keys = pickColumns(data, chosen).map((column) => column.key);
  const toggle = (/** @type {string} */ key) => {
    const next = keys.includes(key) ? keys.filter((one) => one !== key) : [...keys, key];
    setQuery({ cols: (next.length ? next : ["id"]).join(",") });
  };
  const fits = (/** @type {Column} */ column) => (column.path ?? column.label).toLowerCase().includes(find.toLowerCase());
  const item = (/** @type {Column} */ { key, label, path }) => html`<label key=${key} class="check menu-item" title=${path}>
    <input type="checkbox" checked=${keys.includes(key)} onChange=${() => toggle(key)} />${format.short(label)}</label>`;
  return html`<${Menu} label="Columns" align="right">
    <input type="search" class="wide" placeholder="Find a column" aria-label="Find a column" value=${find}
      onInput=${(/** @type {any} */ event) => setFind(event.target.value)} />
    ${GROUPS.map(([source, title]) => {
      const columns = data.columns.filter((column) => column.source === source && fits(column));
      if (!columns.length) return null;
      return html`<div key=${source} role="group" aria-label=${title}>
        <div class="menu-title">${title}</div>${columns.map(item)}</div>`;
    })}
    ${chosen && html`<${Button} onClick=${() => setQuery({ cols: null })}>Usual columns<//>`}
  <//>`;
}

/** The columns that were chosen; if none of them is there, what the search varies and how it went.
 * @param {ExperimentData} data @param {string | undefined} chosen @returns {Column[]} */
function pickColumns(data, chosen) {
  const keys = new Set((chosen ?? "").split(","));
  const picked = data.columns.filter((column) => keys.has(column.key));
  if (picked.length) return picked;
  const fixed = new Set(data.hparams.filter(({ kind }) => kind === "const").map(({ path }) => path));
  const varied = data.columns.filter(({ source, path }) => source === "hparam" && !fixed.has(/** @type {string} */ (path)));
  const usual = ["id", "state", data.searchedKey, "latest_metric", "total_batches", "duration"].flatMap((key) => data.column(key) ?? []);
  return [...usual, ...varied.slice(0, MOST_HPARAMS)];
}

/** What the active trials do, and which wait for slots. @param {any} status @param {number} id */
function readPhases(status, id) {
  /** @type {Map<number, string>} */
  const phases = new Map();
  const { now, work } = findWork(status, id);
  for (const trial of now?.waiting_trials ?? []) phases.set(trial, "waiting");
  for (const [trial, { doing }] of work) phases.set(trial, doing);
  return phases;
}

/** @param {string | undefined} text @param {ExperimentData} data */
function readSort(text, data) {
  const key = (text ?? "").replace(/^-/, "");
  if (data.column(key)) return { key, descending: text?.startsWith("-") ?? false };
  return { key: data.searchedKey, descending: isBestFirst(data.searchedKey, data) };
}

/** Whether the first click on a column puts large values first: those of metrics that are better so.
 * @param {string} key @param {ExperimentData} data */
function isBestFirst(key, data) {
  return data.isSmallerBetter(key) === false;
}

/** @param {number} id */
function hrefOf(id) {
  return `#/trials/${id}`;
}
