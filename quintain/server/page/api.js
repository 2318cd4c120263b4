// @ts-check
// The master's answers. Addresses are relative to the page, so that it works below any path of a proxy.

/** An answer that is an error, or no answer (`kind` is `Unreachable` then). */
export class ApiError extends Error {
  /** @param {string} kind @param {string} message @param {number} [status] */
  constructor(kind, message, status = 0) {
    super(message);
    this.kind = kind;
    this.status = status;
  }
}

/** Returns the address of a route, as `/experiments/1/table`; lists become repeated parameters.
 * @param {string} path @param {Record<string, unknown>} [params] */
export function address(path, params = {}) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(params)) {
    for (const one of Array.isArray(value) ? value : [value]) {
      if (one !== null && one !== undefined && one !== "") query.append(name, String(one));
    }
  }
  const text = query.toString();
  return new URL("api/v1" + path + (text ? "?" + text : ""), document.baseURI).href;
}

/** Returns the JSON of a route.
 * @param {string} path @param {Record<string, unknown>} [params] @param {{signal?: AbortSignal}} [options]
 * @returns {Promise<any>} */
export async function get(path, params, options = {}) {
  return (await ask(address(path, params), options)).json();
}

/** Returns the bytes of a route.
 * @param {string} path @param {Record<string, unknown>} [params]
 * @returns {Promise<ArrayBuffer>} */
export async function getBuffer(path, params) {
  return (await ask(address(path, params))).arrayBuffer();
}

/** @param {string} path @param {unknown} [body] @returns {Promise<any>} */
export const post = (path, body) => send("POST", path, body);

/** @param {string} path @param {unknown} [body] @returns {Promise<any>} */
export const patch = (path, body) => send("PATCH", path, body);

/** @param {string} path @param {unknown} [body] @returns {Promise<any>} */
export const put = (path, body) => send("PUT", path, body);

/** @param {string} path @returns {Promise<any>} */
export const del = (path) => send("DELETE", path);

/** @param {string} method @param {string} path @param {unknown} [body] */
async function send(method, path, body) {
  const options = body === undefined ? {} : { headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) };
  const answer = await ask(address(path), { method, ...options });
  const text = await answer.text();
  return text ? JSON.parse(text) : null;
}

/** @param {string} url @param {RequestInit} [options] */
async function ask(url, options = {}) {
  /** @type {Response} */
  let answer;
  try {
    answer = await fetch(url, { credentials: "same-origin", ...options });
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw new ApiError("Unreachable", "The master does not answer.");
  }
  if (answer.ok) return answer;
  const told = await answer.json().catch(() => null);
  const plain = { kind: "HttpError", message: `The master answered ${answer.status} ${answer.statusText}.` };
  const { kind, message } = told?.error ?? plain;
  throw new ApiError(kind, message, answer.status);
}
