// @ts-check
// A table of any number of rows: only those that are seen are in the document, and are used again while scrolling.
import { Component, h, html, useEffect, useLayoutEffect, useRef, useState } from "./vendor/preact.js";
import { ColumnPart, labelOf } from "./chart_parts.js";
import { describeGroup } from "./comparison.js";
import * as format from "./format.js";

/** @typedef {import("./column.js").Column} Column */

const ROW = 30;
const HEAD = 34;
const GROUP_HEAD = 22;
const GROUP_LETTER = 6.5;
const GROUP_EDGE = 20;
const SPARE = 8;
const WIDTHS = { number: 96, share: 88, state: 184, duration: 112, time: 150, text: 140 };
const CHECK = 40;
/** Where the table was left, so that the way back from a trial leads there. */
const left = { place: "", top: 0 };
const SCROLLBAR = 18;
/** On narrower screens rows are cards, of two values a line. */
const PHONE = "(max-width: 599px)";
const CARD_LINE = 22;
const CARD_EDGE = 13;
/** What a finger has to hit. */
const FINGER = 40;

/**
 * @param {{
 *   data: import("./experiment_data.js").ExperimentData, rows: Int32Array, columns: Column[], version: number,
 *   sort: {key: string, descending: boolean}, onSort: (key: string) => void,
 *   selection: Set<number>, onSelect: (ids: number[], isSelected: boolean) => void,
 *   heads: Map<number, import("./comparison.js").Group>, open: Set<number>, idsAt: (at: number) => number[],
 *   phases: Map<number, string>, active: number, onActive: (at: number) => void,
 *   hrefOf: (id: number) => string, onOpen: (at: number) => void, label: string,
 * }} props
 */
export function VirtualTable(props) {
  const { data, rows, heads, open, idsAt, columns, sort, onSort, selection, onSelect, phases, active, onActive, hrefOf, onOpen, label } = props;
  const box = useRef();
  const [first, setFirst] = useState(0);
  const [height, setHeight] = useState(600);
  const [room, setRoom] = useState(0);
  const [isCards, setCards] = useState(() => matchMedia(PHONE).matches);
  const numLines = Math.ceil(columns.length / 2);
  const rowHeight = isCards ? numLines * CARD_LINE + CARD_EDGE : ROW;
  const anchor = useRef(-1);
  useLayoutEffect(() => {
    const measure = () => {
      setHeight(box.current.clientHeight);
      setRoom(box.current.clientWidth);
      setCards(matchMedia(PHONE).matches);
    };
    const observer = new ResizeObserver(measure);
    observer.observe(box.current);
    measure();
    if (left.place === location.hash) box.current.scrollTop = left.top;
    return () => observer.disconnect();
  }, []);
  useEffect(() => reveal(box.current, active, rowHeight, box.current.querySelector(".grid-head").offsetHeight), [active, rowHeight, height]);
  const onScroll = () => {
    if (!box.current) return; // The last event of a table that is gone.
    Object.assign(left, { place: location.hash, top: box.current.scrollTop });
    setFirst(Math.max(0, Math.floor(box.current.scrollTop / rowHeight) - SPARE));
  };
  useLayoutEffect(onScroll, [rowHeight]);
  const numShown = Math.ceil(height / rowHeight) + 2 * SPARE;
  const last = Math.min(rows.length, Math.min(first, Math.max(0, rows.length - 1)) + numShown);
  const groups = groupColumns(columns);
  const head = isCards ? numLines * FINGER + CARD_EDGE : groups.length ? HEAD + GROUP_HEAD : HEAD;
  const width = isCards ? 0 : columns.reduce((sum, column) => sum + widthOf(column), CHECK);
  const toggle = (/** @type {number} */ at, /** @type {boolean} */ isRange) => {
    const isSelected = !idsAt(at).every((id) => selection.has(id));
    onSelect(listIds(idsAt, isRange && anchor.current >= 0 ? anchor.current : at, at), isSelected);
    anchor.current = at;
  };
  const actions = useRef(/** @type {any} */ ({}));
  Object.assign(actions.current, { toggle, onPick: isCards ? onOpen : onActive, hrefOf, onOpen });
  const shown = [];
  for (let at = Math.min(first, Math.max(0, last - numShown)); at < last; at += 1) {
    const row = rows[at];
    const id = data.ids[row];
    const group = heads.get(at);
    shown.push(h(Row, { key: at % numShown, at, row, group, isOpen: group && open.has(id), data, columns, version: props.version, rowHeight,
      isSelected: idsAt(at).every((one) => selection.has(one)),
      phase: phases.get(id), isActive: at === active, actions: actions.current }));
  }
  const style = {
    "--layout": `${CHECK}px ${isCards ? "1fr 1fr" : columns.map(layOut).join(" ")}`,
    "--row": `${rowHeight}px`,
    "--head": `${head}px`,
    "--lines": numLines,
    "--width": `${width}px`,
    "--height": `${rows.length * rowHeight + head + (width > room ? SCROLLBAR : 2)}px`,
  };
  return html`<div class=${isCards ? "grid cards" : "grid"} ref=${box} role="grid" aria-label=${label} aria-multiselectable="true" tabindex="0"
      aria-rowcount=${rows.length + 1} aria-colcount=${columns.length + 1}
      aria-activedescendant=${active >= first && active < last ? `row-${active}` : undefined}
      onScroll=${onScroll} style=${style}>
    <${Head} ...${{ data, rows, idsAt, columns, groups, sort, onSort, selection, onSelect }} />
    <div class="grid-body" role="rowgroup" style=${{ height: `${rows.length * rowHeight}px` }}>${shown}</div>
  </div>`;
}

/** @param {any} props */
function Head({ data, rows, idsAt, columns, groups, sort, onSort, selection, onSelect }) {
  const check = useRef();
  let numSelected = 0;
  if (selection.size) for (const row of rows) numSelected += Number(selection.has(data.ids[row]));
  const isAll = rows.length > 0 && numSelected === rows.length;
  useLayoutEffect(() => {
    check.current.indeterminate = numSelected > 0 && !isAll;
  });
  const toggleAll = () => onSelect(listIds(idsAt, 0, rows.length - 1), !isAll);
  return html`<div class="grid-head" role="rowgroup">
    ${groups.length > 0 && html`<div class="grid-row grid-groups" role="presentation"><div></div>
      ${groups.map((/** @type {{name: string, size: number, width: number}} */ { name, size, width }, /** @type {number} */ at) => html`
        <div key=${at} class=${name ? "grid-group" : ""} style=${{ gridColumn: `span ${size}` }} title=${name}>${format.cutPath(name, (width - GROUP_EDGE) / GROUP_LETTER)}</div>`)}</div>`}
    <div class="grid-row" role="row" aria-rowindex="1">
    <div class="grid-cell check" role="columnheader">
      <input ref=${check} type="checkbox" checked=${isAll} onChange=${toggleAll} aria-label="Select all shown trials" /></div>
    ${columns.map((/** @type {Column} */ column) => {
      const isSorted = sort.key === column.key;
      return html`<div key=${column.key} class="grid-cell ${alignOf(column)}" role="columnheader" aria-label=${format.short(column.label)}
          aria-sort=${isSorted ? (sort.descending ? "descending" : "ascending") : "none"}>
        <button type="button" title=${`${format.short(column.path ?? column.label)}: sort`} onClick=${() => onSort(column.key)}>
          <span class="grid-label">${labelOf(column, data)}</span>
          ${isSorted && html`<span aria-hidden="true">${sort.descending ? "↓" : "↑"}</span>`}</button><${ColumnPart} data=${data} of=${column.key} /></div>`;
    })}</div></div>`;
}

/** A row; drawn anew only if something of it changed. */
class Row extends Component {
  /** @param {any} next */
  shouldComponentUpdate(next) {
    return Object.keys(next).some((name) => next[name] !== this.props[name]);
  }

  render() {
    const { at, row, rowHeight, group, isOpen, data, columns, phase, isSelected, isActive, actions } = this.props;
    const id = data.ids[row];
    const cells = columns.map((/** @type {Column} */ column, /** @type {number} */ place) => (group
      ? drawGroupCell(column, data, group, { place, isOpen, onFold: () => actions.onOpen(at) })
      : drawCell(column, data, row, { place, phase, hrefOf: actions.hrefOf })));
    const check = h("input", { type: "checkbox", checked: isSelected, tabIndex: -1, "aria-label": `Select ${group ? group.name : `trial ${id}`}`,
      onClick: (/** @type {MouseEvent} */ event) => actions.toggle(at, event.shiftKey) });
    const props = {
      class: `grid-row${isSelected ? " selected" : ""}${isActive ? " active" : ""}`,
      role: "row", id: `row-${at}`, "aria-rowindex": at + 2, "aria-selected": String(isSelected),
      style: { transform: `translateY(${at * rowHeight}px)` },
      onClick: (/** @type {any} */ event) => event.target.closest("label, button") || actions.onPick(at), onDblClick: () => actions.onOpen(at),
    };
    return h("div", props, h("label", { class: "grid-cell check", role: "gridcell" }, check), cells);
  }
}

/** @param {Column} column @param {any} data @param {number} row
 * @param {{place: number, phase?: string, hrefOf: (id: number) => string}} how */
function drawCell(column, data, row, { place, phase, hrefOf }) {
  const value = data.value(column.key, row);
  const props = { key: place, role: "gridcell", class: `grid-cell ${alignOf(column)}`, "data-label": labelOf(column, data), title: undefined };
  if (column.key === "id") return h("div", props, h("a", { href: hrefOf(value), tabIndex: -1 }, value));
  if (column.kind === "state") {
    const state = (value === "ACTIVE" && phase) || data.outcome(row);
    const reason = format.short(data.value("reason", row), 1000);
    return h("div", props, h("span", { class: `badge state-${state.split(/[ ,]/)[0]}`, title: reason || undefined }, state));
  }
  const took = column.key === "duration" ? format.heldSecs(data.value("held_secs", row), data.value("held_since", row)) : value;
  const text = data.write(column.key, took);
  const isWhole = column.kind !== "text" && column.kind !== "number";
  return h("div", { ...props, title: isWhole ? undefined : format.short(value, 1000) || undefined }, text);
}

/** A cell of the row of several seeds, which unfolds. @param {Column} column @param {any} data @param {import("./comparison.js").Group} group
 * @param {{place: number, isOpen: boolean, onFold: () => void}} how */
function drawGroupCell(column, data, { rows, ids, name }, { place, isOpen, onFold }) {
  const props = { key: place, role: "gridcell", class: `grid-cell ${alignOf(column)}`, "data-label": labelOf(column, data) };
  if (column.key === "id") {
    return h("div", props, h("button", { type: "button", class: "seeds", tabIndex: -1, "aria-expanded": String(isOpen), title: name, onClick: onFold },
      `${isOpen ? "▾" : "▸"} n = ${ids.length}`));
  }
  const text = column.kind === "state" ? [...new Set(rows.map((row) => data.outcome(row)))].join("; ") : describeGroup(data, column.key, rows);
  return h("div", { ...props, title: text }, text);
}

/** Returns the trials of rows from one place to another, either way. @param {(at: number) => number[]} idsAt @param {number} from @param {number} to */
export function listIds(idsAt, from, to) {
  const [first, last] = [Math.min(from, to), Math.max(from, to)];
  return Array.from({ length: last - first + 1 }, (_, at) => idsAt(first + at)).flat();
}

/** @param {Column} column */
function alignOf(column) {
  return column.kind === "text" || column.kind === "state" || column.kind === "time" ? "" : "number";
}

/** @param {Column} column */
function widthOf(column) {
  return Math.min(240, Math.max(column.key === "id" ? 72 : WIDTHS[column.kind], column.label.length * 7.2 + 44));
}

/** Returns columns side by side that have the same path before their labels, and how wide they are; none if no column has one.
 * @param {Column[]} columns @returns {{name: string, size: number, width: number}[]} */
function groupColumns(columns) {
  /** @type {{name: string, size: number, width: number}[]} */
  const groups = [];
  for (const column of columns) {
    const name = column.path?.slice(0, -column.label.length - 1) ?? "";
    const last = groups[groups.length - 1];
    if (last?.name !== name) groups.push({ name, size: 0, width: 0 });
    groups[groups.length - 1].size += 1;
    groups[groups.length - 1].width += widthOf(column);
  }
  return groups.some(({ name }) => name) ? groups : [];
}

/** Width of a column for the grid: most become wider where there is room. @param {Column} column */
function layOut(column) {
  const width = `${widthOf(column)}px`;
  return column.key === "id" || column.kind === "state" ? width : `minmax(${width}, 1fr)`;
}

/** Scrolls so that a row is seen. @param {HTMLElement} box @param {number} at @param {number} rowHeight @param {number} head  Its height. */
function reveal(box, at, rowHeight, head) {
  if (at < 0) return;
  const top = at * rowHeight;
  if (top < box.scrollTop) box.scrollTop = top;
  else if (top + rowHeight > box.scrollTop + box.clientHeight - head - 12) box.scrollTop = top + rowHeight + head + 12 - box.clientHeight;
}
