// @ts-check
/** Parallel coordinates: an axis for each hyperparameter and for the metric, a line for each trial. */
import { buildAxis, moveKey } from "./axes.js";
import { applyBrush, setRange } from "./brush.js";
import { useSame, useVersion } from "./chart_data.js";
import { ShadeLegend } from "./chart_parts.js";
import { ChartTable } from "./chart_table.js";
import { listShades, shadeOf, useTheme } from "./colors.js";
import { listDifferences } from "./comparison.js";
import { readNames, writeNames } from "./curve_choice.js";
import { ParallelCanvas } from "./parallel_canvas.js";
import { ParallelControls, RangeForm } from "./parallel_controls.js";
import { sortByMetric } from "./rank.js";
import { buildScale, findUsualExtent } from "./scales.js";
import { html, useMemo, useState } from "./vendor/preact.js";
import { Empty } from "./widgets.js";

const MANY_ROWS = 2000;
const MAX_AXES = 14;

/**
 * @param {object} props
 * @param {import("./experiment_data.js").ExperimentData} props.data
 * @param {Int32Array} props.visible  Rows that the filters leave, before the brush.
 * @param {import("./brush.js").Brush} props.brush
 * @param {(brush: import("./brush.js").Brush) => void} props.setBrush
 * @param {Set<number>} props.selection  Ids of trials.
 * @param {(selection: Set<number>) => void} props.setSelection
 * @param {import("./route.js").Route} props.route
 */
export function ParallelView({ data, visible, brush, setBrush, selection, setSelection, route }) {
  const theme = useTheme();
  const rows = useSame(visible);
  const version = useVersion(data, rows.length > MANY_ROWS);
  const [edited, setEdited] = useState("");
  const keys = useSame(useMemo(() => chooseKeys(data, route.query), [data, version, route.query.axes, route.query.color]));
  const logs = route.query.alog ?? "";
  const axes = useMemo(() => keys.map((key) => layAxis(data, key, logs)), [data, version, keys, logs]);
  const color = colorKey(data, route.query.color);
  const shading = useMemo(() => shade(data, color, theme.isDark), [data, version, color, theme]);
  const ordered = useMemo(() => orderRows(data, color, rows), [data, version, color, rows]);
  const brushed = useMemo(() => (Object.keys(brush).length ? applyBrush(data, ordered, brush) : null), [data, version, ordered, brush]);

  if (!data.numRows) return html`<${Empty} title="No trials yet"><p>Axes appear with the first trial.</p><//>`;
  const setKeys = (/** @type {string[]} */ next) => route.setQuery({ axes: writeNames(next) });
  const pick = (/** @type {number} */ row) => {
    const next = new Set(selection);
    const id = data.ids[row];
    if (!next.delete(id)) next.add(id);
    setSelection(next);
  };
  const axis = axes.find((each) => each.key === edited);
  return html`<section class="parallel">
    <${ParallelControls} data=${data} keys=${keys} color=${color} setKeys=${setKeys} route=${route} />
    ${shading.lo < shading.hi && html`<${ShadeLegend} label=${data.column(color)?.label ?? color} lo=${shading.lo} hi=${shading.hi} shades=${shading.colors} />`}
    ${axes.length < 2
      ? html`<${Empty} title="Too few axes"><p>Choose more axes above.</p><//>`
      : html`<${ParallelCanvas} ...${{ data, axes, rows: ordered, brushed, brush, setBrush, selection, shading, theme, edited, setEdited }}
          onMove=${(/** @type {string} */ key, /** @type {number} */ place) => setKeys(moveKey(keys, key, place))} onPick=${pick} />`}
    ${axis && html`<${RangeForm} key=${axis.key} data=${data} axis=${axis} range=${brush[axis.key]} logs=${logs} route=${route}
      onChange=${(/** @type {import("./brush.js").Range | null} */ range) => setBrush(setRange(brush, axis.key, range))}
      onClose=${() => setEdited("")} />`}
    <${ChartTable} caption="Trials that the brushes keep, the best first" columns=${["trial", ...axes.map((each) => each.label)]}
      rows=${() => Array.from(brushed ?? ordered).reverse().slice(0, 201).map((row) => [data.ids[row], ...keys.map((key) => data.value(key, row))])} />
  </section>`;
}

/**
 * Returns the axes that the link names, or those hyperparameters that differ and the metric.
 * @param {import("./experiment_data.js").ExperimentData} data
 * @param {Record<string, string>} query
 * @returns {string[]}
 */
function chooseKeys(data, query) {
  const named = readNames(query.axes).filter((key) => data.column(key));
  if (named.length) return [...new Set(named)];
  const differing = listDifferences(data, Array.from({ length: data.numRows }, (_, row) => row));
  const shown = differing.length ? differing : data.columns.filter((column) => column.source === "hparam");
  const metric = colorKey(data, query.color);
  return [...shown.map((column) => column.key).filter((key) => key !== metric).slice(0, MAX_AXES), metric].filter((key) => data.column(key));
}

/** @param {import("./experiment_data.js").ExperimentData} data @param {string | undefined} named */
function colorKey(data, named) {
  if (named && data.get(named) instanceof Float64Array && data.column(named)) return named;
  return data.searchedKey;
}

/** @param {import("./experiment_data.js").ExperimentData} data @param {string} key @param {string} logs  What the link says of log axes. */
function layAxis(data, key, logs) {
  const column = /** @type {import("./experiment_data.js").Column} */ (data.column(key));
  const kind = column.source === "hparam" ? data.hparams.find((each) => each.path === column.path)?.kind : "";
  const switched = readNames(logs).includes(key);
  const isLog = (kind === "log") !== switched;
  return buildAxis(column, data.get(key), { kind: isWholeColumn(kind, data.get(key)) ? "int" : kind, isLog });
}

/** @param {string | undefined} kind @param {ArrayLike<unknown>} values */
function isWholeColumn(kind, values) {
  return kind === "int" || (kind === "" && values instanceof Float64Array && values.every((value) => Number.isNaN(value) || Number.isInteger(value)));
}

/** @param {import("./experiment_data.js").ExperimentData} data @param {string} key @param {boolean} isDark */
function shade(data, key, isDark) {
  const values = /** @type {Float64Array} */ (data.get(key));
  const [lo, hi] = findUsualExtent([values], false) ?? [0, 1];
  const { toUnit } = buildScale(lo, hi);
  const colors = listShades(isDark, data.isSmallerBetter(key));
  return { lo, hi, colors, shades: Int16Array.from(values, (value) => shadeOf(toUnit(value))) };
}

/** The best last, so that it is on top. @param {import("./experiment_data.js").ExperimentData} data @param {string} key @param {ArrayLike<number>} rows */
function orderRows(data, key, rows) {
  return Int32Array.from(sortByMetric(/** @type {Float64Array} */ (data.get(key)), rows, data.isSmallerBetter(key))).reverse();
}
