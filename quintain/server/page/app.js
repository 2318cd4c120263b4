// @ts-check
// The frame of the page: what is always there, and the view that the address names.
import { html, render, useEffect, useState } from "./vendor/preact.js";
import { post } from "./api.js";
import { subscribe, watchConnection } from "./events.js";
import { useKeys, KeyHelp } from "./keys.js";
import { LazyView } from "./lazy.js";
import { useRoute } from "./route.js";
import { SavedViews } from "./saved_views.js";
import { countSlots } from "./status.js";
import { UserName, nameRoles, useUser } from "./user.js";
import { Empty, Menu, Toasts, toast } from "./widgets.js";

/** First part of the address -> module and component. Modules load when they are first looked at.
 * @type {Record<string, {module: string, name: string, title: string}>} */
const VIEWS = {
  experiments: { module: "./experiments.js", name: "ExperimentsView", title: "Experiments" },
  experiment: { module: "./experiment.js", name: "ExperimentView", title: "Experiment" },
  trials: { module: "./trial.js", name: "TrialView", title: "Trial" },
  compare: { module: "./compare_experiments.js", name: "CompareExperimentsView", title: "Compare" },
  slots: { module: "./timeline.js", name: "TimelineView", title: "Slots" },
  runs: { module: "./runs.js", name: "RunsView", title: "Runs" },
  models: { module: "./models.js", name: "ModelsView", title: "Models" },
  run: { module: "./run.js", name: "RunView", title: "Run" },
  audit: { module: "./audit.js", name: "AuditView", title: "Audit log" },
};
const LINKS = [["experiments", "Experiments"], ["runs", "Runs"], ["models", "Models"], ["slots", "Slots"]];

/** @param {string[]} parts of the address @returns {[string, Record<string, unknown>]} view and what it shows */
function chooseView(parts) {
  const [place = "experiments", name] = parts;
  if (place === "runs" && name) return ["run", { name }];
  if (!name) return [place === "trials" ? "" : place, {}];
  if (place === "experiments" && isId(name)) return ["experiment", { experimentId: Number(name) }];
  if (place === "trials" && isId(name)) return ["trials", { trialId: Number(name) }];
  return ["", {}];
}

function App() {
  const route = useRoute();
  const [status, setStatus] = useState(/** @type {any} */ (null));
  const [experimentId, trialId] = [watchedExperiment(route.parts), watchedTrial(route.parts)];
  useEffect(() => subscribe({ experiment_id: experimentId, trial_id: trialId, onStatus: setStatus }), [experimentId, trialId]);
  const goTo = (/** @type {string} */ page) => () => route.go(`/${page}`);
  useKeys({ "g e": goTo("experiments"), "g r": goTo("runs"), "g m": goTo("models"), "g s": goTo("slots"), t: toggleTheme });
  const [view, props] = chooseView(route.parts);
  useEffect(() => {
    if (Object.hasOwn(VIEWS, view)) document.title = `${VIEWS[view].title} · Quintain`;
  }, [view, route.path]);
  return html`
    <a class="skip" href="#main" onClick=${skip}>Skip to the content</a>
    <header class="top">
      <a class="brand" href="#/experiments" aria-label="Quintain"><img src="static/favicon.svg" alt="" width="22" height="22" /><span>Quintain</span></a>
      <nav aria-label="pages">${LINKS.map(([key, label]) => html`
        <a key=${key} href="#/${key}" aria-current=${isWithin(view, key) ? "page" : undefined}>${label}</a>`)}</nav>
      <span class="space"></span>
      <${UserName} />
      <${SavedViews} route=${route} />
      <${Slots} status=${status} />
      <${Connection} />
      <button type="button" class="button quiet wide-only" aria-label="Toggle theme" title="Toggle theme (t)"
        onClick=${toggleTheme}>◐</button>
      <${More} />
    </header>
    ${status?.problem && html`<div class="banner bad" role="alert">No work is handed out: ${status.problem}</div>`}
    ${(status?.experiments ?? []).filter((/** @type {any} */ one) => one.waits_for).map((/** @type {any} */ one) => html`
      <div key=${one.experiment_id} class="banner warn" role="status">Experiment ${one.experiment_id}: ${one.waits_for}</div>`)}
    <main id="main" tabindex="-1">
      ${Object.hasOwn(VIEWS, view)
        ? html`<${LazyView} key=${view} ...${VIEWS[view]} props=${{ ...props, route, status }} />`
        : html`<${Empty} title="Page not found"><p>Go to the <a href="#/experiments">experiments</a>.</p><//>`}
    </main>
    <${Toasts} />`;
}

/** Whether the page is in touch with the master. */
function Connection() {
  const [state, setState] = useState("connecting");
  useEffect(() => watchConnection(setState), []);
  const words = { live: "live", connecting: "connecting", lost: "The master does not answer; going on by itself when it is back.",
    "signed out": "Signed out: run quintain ui for a new link." }[state];
  return html`<span class="connection ${state.replace(" ", "-")}" role="status">${words}</span>`;
}

/** What is wanted seldom. */
function More() {
  const [areKeysShown, showKeys] = useState(false);
  const user = useUser();
  useKeys({ "?": () => showKeys(true) });
  const signOut = () => post("/master/sign-out").then(() => location.replace("./"), (error) => toast(error.message, "bad"));
  return html`<${Menu} label="⋯" title="More" kind="quiet bare" align="right">${(/** @type {() => void} */ close) => html`
      <button type="button" class="menu-item" onClick=${() => (close(), showKeys(true))}>Keys <kbd>?</kbd></button>
      <button type="button" class="menu-item" onClick=${toggleTheme}>Toggle theme <kbd>t</kbd></button>
      <a class="menu-item" href="#/audit" onClick=${close}>Audit log</a>
      <button type="button" class="menu-item" onClick=${() => (close(), signOut())}>Sign out</button>
      ${user && html`<p class="menu-note muted">You are <bdi>${user.name}</bdi>, ${nameRoles(user)}.</p>`}`}<//>
    ${areKeysShown && html`<${KeyHelp} onClose=${() => showKeys(false)} />`}`;
}

/** @param {{status: any}} props */
function Slots({ status }) {
  const { all, busy } = countSlots(status);
  return all > 0 && html`<a class="slots" href="#/slots" title="Slots in use">${busy} of ${all} slots</a>`;
}

/** @param {string} name */
function isId(name) {
  return /^\d{1,15}$/.test(name);
}

/** @param {string[]} parts */
function watchedExperiment([place, id]) {
  return place === "experiments" && id && isId(id) ? Number(id) : undefined;
}

/** @param {string[]} parts */
function watchedTrial([place, id]) {
  return place === "trials" && id && isId(id) ? Number(id) : undefined;
}

/** @param {string} view @param {string} page */
function isWithin(view, page) {
  return view === page || view + "s" === page || (page === "experiments" && (view === "trials" || view === "compare"));
}

function toggleTheme() {
  const root = document.documentElement;
  const isDark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = isDark ? "light" : "dark";
  try {
    localStorage.setItem("quintain-theme", root.dataset.theme);
  } catch {
    // A browser that keeps nothing.
  }
  window.dispatchEvent(new Event("themechange"));
}

/** @param {Event} event */
function skip(event) {
  event.preventDefault();
  document.getElementById("main")?.focus();
}

// A link from elsewhere arrives with a mark that nobody needs any more.
if (location.search === "?arrived") history.replaceState(null, "", "./" + location.hash);
render(html`<${App} />`, /** @type {Element} */ (document.getElementById("app")));
