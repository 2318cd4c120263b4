// @ts-check
/** The table that each chart has, for those who do not see it or want the numbers. */
import * as format from "./format.js";
import { html, useState } from "./vendor/preact.js";

const MAX_ROWS = 200;
const MAX_CHARACTERS = 80;

/**
 * Returns a value of any length as a short text.
 * @param {unknown} value
 */
export function brief(value) {
  const text = format.number(value);
  return text.length > MAX_CHARACTERS ? `${text.slice(0, MAX_CHARACTERS - 1)}…` : text;
}

/**
 * @param {object} props
 * @param {string} props.caption
 * @param {string[]} props.columns
 * @param {() => unknown[][]} props.rows  Called when the table is opened.
 */
export function ChartTable({ caption, columns, rows }) {
  const [isOpen, setOpen] = useState(false);
  const all = isOpen ? rows() : [];
  return html`<details class="chart-table" onToggle=${(/** @type {any} */ event) => setOpen(event.currentTarget.open)}>
    <summary>Table</summary>
    ${isOpen && html`<div class="chart-table-scroll"><table>
      <caption>${caption}${all.length > MAX_ROWS ? ` (the first ${MAX_ROWS} of ${format.number(all.length)})` : ""}</caption>
      <thead><tr>${columns.map((column) => html`<th scope="col">${column}</th>`)}</tr></thead>
      <tbody>${all.slice(0, MAX_ROWS).map((row) => html`<tr>
        ${row.map((value, i) => (i ? html`<td>${brief(value)}</td>` : html`<th scope="row">${brief(value)}</th>`))}
      </tr>`)}</tbody>
    </table></div>`}
  </details>`;
}
