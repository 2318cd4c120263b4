// @ts-check
// Who looks at the page, and what their roles let them do.
import { html, useEffect, useState } from "./vendor/preact.js";
import { get } from "./api.js";

const ROLES = ["viewer", "editor", "admin"];
/** In place of a project. */
export const ALL_PROJECTS = "";
export const ANY_PROJECT = "*";

/** @typedef {{name: string, roles: Record<string, string>, has_token: boolean}} User `roles` are by project; "" stands for all */

/** @type {Promise<User | null> | null} */
let asked = null;

/** Who looks, once that is known. @returns {User | null} */
export function useUser() {
  const [user, setUser] = useState(/** @type {User | null} */ (null));
  useEffect(() => {
    asked ??= get("/whoami").catch(() => (asked = null));
    asked.then(setUser);
  }, []);
  return user;
}

/** Returns why somebody may not do what needs a role over a project, or an empty text.
 * @param {User | null} user @param {string} role @param {string} [project] one, all or any */
export function findProblem(user, role, project = ALL_PROJECTS) {
  if (!user) return "";
  const has = (/** @type {string | undefined} */ held) => held !== undefined && ROLES.indexOf(held) >= ROLES.indexOf(role);
  const held = project === ANY_PROJECT ? Object.values(user.roles) : [user.roles[ALL_PROJECTS], user.roles[project]];
  if (held.some(has)) return "";
  const place = { [ALL_PROJECTS]: "all projects", [ANY_PROJECT]: "a project" }[project] ?? `project ${project}`;
  return `This is for ${role}s of ${place}; you are ${nameRoles(user)}.`;
}

/** Returns why the user may not edit things of a project, or an empty text. Each button that changes something asks for it.
 * @param {string} project one, all or any */
export function useEditProblem(project) {
  return findProblem(useUser(), "editor", project);
}

/** The project of an experiment. @param {any} experiment @returns {string} */
export function projectOf(experiment) {
  return experiment?.config?.project || "default";
}

/** @param {User} user */
export function nameRoles(user) {
  const held = Object.entries(user.roles).map(([project, role]) => (project ? `${role} of project ${project}` : role));
  return held.join(", ") || "without a role";
}

/** The user's name, for all but the owner, who is alone with the master mostly. */
export function UserName() {
  const user = useUser();
  return user && user.name !== "owner" && html`<span class="muted user-name" title=${`You are ${user.name}: ${nameRoles(user)}`}>
    <bdi>${user.name}</bdi> · ${nameRoles(user)}</span>`;
}
