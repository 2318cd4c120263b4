// @ts-check
/** What mattered: how much of a metric's differences each hyperparameter explains. */
import { get } from "./api.js";
import { Choice } from "./chart_parts.js";
import { html, useEffect, useState } from "./vendor/preact.js";
import { Button, Empty, Loading, Problem } from "./widgets.js";

/** @type {[string, string][]} */
const EVALUATORS = [["auto", "automatic"], ["fanova", "fANOVA"], ["ped_anova", "PED-ANOVA"], ["mdi", "mean decrease of impurity"]];
const NAMES = new Map(EVALUATORS);
/** Computed anew when there are so many times more results. */
const GROWTH = 1.25;

/**
 * @param {object} props
 * @param {import("./experiment_data.js").ExperimentData} props.data
 * @param {import("./route.js").Route} props.route
 * @param {boolean} [props.isBrief]  Whether what is shown can't be chosen.
 */
export function ImportanceView({ data, route, isBrief = false }) {
  const { query, setQuery } = route;
  const metrics = data.metricNames.filter((name) => !name.startsWith("system/"));
  const metric = metrics.includes(query.im) ? query.im : metrics.includes(data.searchedMetric) ? data.searchedMetric : metrics[0];
  const evaluator = NAMES.has(query.ie) ? query.ie : "auto";
  const [answer, setAnswer] = useState(/** @type {any} */ (null));
  const [error, setError] = useState(/** @type {any} */ (null));
  const [attempt, setAttempt] = useState(0);
  const [isBusy, setBusy] = useState(false);
  const numResults = metric ? countFinite(/** @type {Float64Array} */ (data.get(metric))) : 0;
  const size = Math.floor(Math.log(Math.max(numResults, 1)) / Math.log(GROWTH));
  useEffect(() => {
    if (!metric) return undefined;
    const control = new AbortController();
    setBusy(true);
    setError(null);
    get(`/experiments/${data.id}/importance`, { metric, evaluator }, { signal: control.signal })
      .then(setAnswer, (problem) => control.signal.aborted || setError(problem))
      .finally(() => control.signal.aborted || setBusy(false));
    return () => control.abort();
  }, [data, metric, evaluator, size, attempt]);

  if (!metric) return html`<${Empty} title="No metrics yet"><p>Importance is estimated from the results of trials.</p><//>`;
  return html`<section class="importance">
    ${!isBrief && html`<div class="chart-controls">
      <${Choice} label="Metric" value=${metric} options=${metrics.map((name) => [name, name])} onChange=${(/** @type {string} */ name) => setQuery({ im: name })} />
      <${Choice} label="Found by" value=${evaluator} options=${EVALUATORS} onChange=${(/** @type {string} */ name) => setQuery({ ie: name === "auto" ? null : name })} />
      <${Button} disabled=${isBusy} onClick=${() => setAttempt(attempt + 1)}>Compute again<//>
      ${answer && !answer.problem && !error && html`<span class="muted" role="status">${isBusy ? "Computing …" : `from ${answer.num_trials.toLocaleString("en")} trials${evaluator === "auto" && answer.evaluator ? ` by ${NAMES.get(answer.evaluator) ?? answer.evaluator}` : ""}`}</span>`}
    </div>`}
    ${error && html`<${Problem} error=${error} retry=${() => setAttempt(attempt + 1)} />`}
    ${!answer && !error && html`<${Loading} text="Computing" />`}
    ${answer?.problem && !error && html`<${Empty} title="Importance is not available yet"><p>${answer.problem}</p><//>`}
    ${answer?.importances?.length > 0 && !answer.problem && !error && html`<${Bars} data=${data} answer=${answer} metric=${metric} isBusy=${isBusy} route=${route} />`}
  </section>`;
}

/** Bars that are a table. @param {{data: any, answer: any, metric: string, isBusy: boolean, route: import("./route.js").Route}} props */
function Bars({ data, answer, metric, isBusy, route }) {
  const largest = Math.max(...answer.importances.map((/** @type {[string, number]} */ [, value]) => value), 1e-9);
  return html`<table class=${`importance-table ${isBusy ? "busy" : ""}`}>
    <caption>Part of what ${metric} differs by that each hyperparameter explains; together 1.</caption>
    <thead class="visually-hidden"><tr><th scope="col">hyperparameter</th><th scope="col">importance</th></tr></thead>
    <tbody>${answer.importances.map((/** @type {[string, number]} */ [path, value]) => html`<tr key=${path}>
      <th scope="row"><a href="#" title=${`${path}: plot against the metric`} onClick=${(/** @type {Event} */ event) => {
        event.preventDefault();
        route.setQuery({ tab: "scatter", sx: `hparams.${path}`, sy: metric }, { push: true });
      }}>${data.column(`hparams.${path}`)?.label ?? path}</a></th>
      <td><span class="importance-track"><span class="importance-bar" style=${{ width: `${Math.max(0, value / largest) * 100}%` }}></span></span></td>
      <td class="importance-value">${value.toFixed(3)}</td>
    </tr>`)}</tbody>
  </table>`;
}

/** @param {Float64Array} values */
function countFinite(values) {
  return values.reduce((count, value) => count + (Number.isFinite(value) ? 1 : 0), 0);
}
