// @ts-check
// Named views: what the address says of a page, kept by the master under a name.
import { html, useEffect, useState } from "./vendor/preact.js";
import { del, get, put } from "./api.js";
import { formatPlace, parsePlace } from "./route.js";
import { ANY_PROJECT, useEditProblem } from "./user.js";
import { Button, Loading, Menu, Problem, toast } from "./widgets.js";

/** @param {{route: import("./route.js").Route}} props */
export function SavedViews({ route }) {
  return html`<${Menu} label="Views" title="Saved views" kind="quiet" align="right">${(/** @type {() => void} */ close) => html`
    <${ViewList} route=${route} close=${close} />`}<//>`;
}

/** Views of pages like this one: a view of an experiment can be had of each.
 * @param {{route: import("./route.js").Route, close: () => void}} props */
function ViewList({ route, close }) {
  const [views, setViews] = useState(/** @type {{name: string, address: string}[] | null} */ (null));
  const [error, setError] = useState(/** @type {any} */ (null));
  const [name, setName] = useState("");
  const [doomed, setDoomed] = useState("");
  const problem = useEditProblem(ANY_PROJECT);
  useEffect(() => void get("/views").then(setViews, setError), []);
  const own = (views ?? []).map((view) => ({ ...view, place: parsePlace(view.address) })).filter(({ place }) => kindOf(place) === kindOf(route));
  const given = name.trim();
  const save = (/** @type {Event} */ event) => {
    event.preventDefault();
    if (problem) return; // By the Enter key.
    put("/views", { name: given, address: formatPlace(route.path, route.query).slice(1) })
      .then(() => (toast(`Saved the view “${given}”.`), close()), setError);
  };
  const remove = () => del(`/views?name=${encodeURIComponent(doomed)}`).then(setViews, setError).finally(() => setDoomed(""));
  return html`<div class="saved-views">
    ${!views && !error && html`<${Loading} />`}
    ${own.map(({ name: saved, place }) => html`<div key=${saved} class="row">
      <a class="menu-item" href=${formatPlace(route.path, place.query)} onClick=${close}><bdi>${saved}</bdi></a>
      ${doomed === saved
        ? html`<${Button} kind="danger" label=${`Delete the view ${saved}`} onClick=${remove}>Delete<//>`
        : html`<${Button} kind="quiet" problem=${problem} label=${`Delete ${saved} …`} onClick=${() => setDoomed(saved)}>✕<//>`}</div>`)}
    ${views && !own.length && html`<p class="muted">No views of such pages yet. A view keeps tab, columns, order, filter, grouping and axes.</p>`}
    <form class="row" onSubmit=${save}>
      <input type="text" maxlength="100" placeholder="Name of this view" aria-label="Name of this view" value=${name}
        onInput=${(/** @type {any} */ event) => setName(event.currentTarget.value)} />
      <${Button} type="submit" kind="main" disabled=${!given} problem=${problem}>${(views ?? []).some((view) => view.name === given) ? "Replace" : "Save"}<//>
    </form>
    ${error && html`<${Problem} error=${error} />`}
  </div>`;
}

/** Pages of one kind show each other's views. @param {{parts: string[]}} place */
function kindOf({ parts: [page = "experiments", ...rest] }) {
  return `${page} ${rest.length}`;
}
