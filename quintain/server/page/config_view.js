// @ts-check
// The config of an experiment, its code, and where it comes from.
import { html, useEffect, useState } from "./vendor/preact.js";
import { address, get } from "./api.js";
import { bytes, time } from "./format.js";
import { clean } from "./log_lines.js";
import { useRoute } from "./route.js";
import { Button, Empty, Loading, Problem, Tabs, download, toast } from "./widgets.js";
import { toYaml } from "./yaml_text.js";

const MOST_SHOWN_BYTES = 400000;

/** Config, code and origin of an experiment, one beside the other. @param {{experiment: any, experimentId?: number}} props */
export function ConfigView({ experiment, experimentId }) {
  const { path, query, setQuery } = useRoute();
  const id = experiment?.id ?? experimentId;
  const [record, setRecord] = useState(experiment?.original_config === undefined ? null : experiment);
  const [error, setError] = useState(/** @type {any} */ (null));
  useEffect(() => {
    if (record === null) get(`/experiments/${id}`).then(setRecord, setError);
  }, [id]);
  const part = query.part ?? "written";
  const hrefOf = (/** @type {string} */ key) => "#" + path + "?" + new URLSearchParams({ ...query, part: key });
  const tabs = [["written", "As written"], ["complete", "Complete"], ["code", "Code"], ["origin", "Where it comes from"]];
  if (error) return html`<${Problem} error=${error} />`;
  if (!record) return html`<${Loading} />`;
  return html`<section aria-label="Config">
    <${Tabs} label="parts of the config" current=${part} hrefOf=${hrefOf} tabs=${tabs.map(([key, label]) => ({ key, label }))} />
    ${part === "written" && html`<${TextFile} name="experiment-${id}.yaml" text=${record.original_config} empty="It was created without a file." />`}
    ${part === "complete" && html`<${TextFile} name="experiment-${id}-complete.yaml" text=${toYaml(record.config)} />`}
    ${part === "code" && html`<${CodeView} experimentId=${id} file=${query.file} onChoose=${(/** @type {string} */ file) => setQuery({ file })} />`}
    ${part === "origin" && html`<${ProvenanceView} experimentId=${id} />`}
  </section>`;
}

/** A text with numbers of lines. @param {{name: string, text: string, empty?: string, href?: string}} props */
export function TextFile({ name, text, empty = "It is empty.", href }) {
  if (!text) return html`<p class="muted">${empty}</p>`;
  const copy = () => navigator.clipboard.writeText(text).then(() => toast("Copied."), (error) => toast(error.message, "bad"));
  const numLines = text.split("\n").length - (text.endsWith("\n") ? 1 : 0);
  return html`<div class="text-file">
    <div class="row text-file-bar"><span class="mono">${clean(name)}</span><span class="space"></span>
      ${navigator.clipboard && html`<${Button} onClick=${copy}>Copy<//>`}
      ${href ? html`<a class="button plain" href=${href} download=${name}>Download</a>`
        : html`<${Button} onClick=${() => download(name, text)}>Download<//>`}</div>
    <div class="text-file-box" tabindex="0">
      <pre class="text-file-numbers" aria-hidden="true">${Array.from({ length: numLines }, (_, at) => at + 1).join("\n")}</pre>
      <pre class="text-file-text">${text.split("\n").map(clean).join("\n")}</pre></div>
  </div>`;
}

/** The files of an experiment's code. @param {{experimentId: number, file?: string, onChoose: (name: string) => void}} props */
export function CodeView({ experimentId, file, onChoose }) {
  const [names, setNames] = useState(/** @type {string[] | null} */ (null));
  const [error, setError] = useState(/** @type {any} */ (null));
  useEffect(() => {
    get(`/experiments/${experimentId}/files`).then(setNames, setError);
  }, [experimentId]);
  if (error?.status === 404) return html`<${Empty} title="No code of its own"><p>${error.message}</p><//>`;
  if (error) return html`<${Problem} error=${error} />`;
  if (!names) return html`<${Loading} />`;
  if (!names.length) return html`<${Empty} title="No code of its own"><p>Its entrypoint is an experiment of Quintain itself.</p><//>`;
  const chosen = file && names.includes(file) ? file : names.find((name) => name.endsWith(".py")) ?? names[0];
  return html`<div class="code">
    <nav class="code-files" aria-label="Files">${names.map((name) => html`
      <button key=${name} type="button" class="menu-item mono" aria-current=${name === chosen ? "true" : undefined} onClick=${() => onChoose(name)}>${clean(name)}</button>`)}
      <a class="button plain" href=${address(`/experiments/${experimentId}/files.tar`)} download>All as .tar</a></nav>
    <${CodeFile} key=${chosen} experimentId=${experimentId} name=${chosen} />
  </div>`;
}

/** @param {{experimentId: number, name: string}} props */
function CodeFile({ experimentId, name }) {
  const [text, setText] = useState(/** @type {string | null} */ (null));
  const [error, setError] = useState(/** @type {any} */ (null));
  const href = address(`/experiments/${experimentId}/files/${name.split("/").map(encodeURIComponent).join("/")}`);
  useEffect(() => {
    const stop = new AbortController();
    readText(href, stop.signal).then(setText, (problem) => problem.name !== "AbortError" && setError(problem));
    return () => stop.abort();
  }, [href]);
  if (error) return html`<div><${Problem} error=${error} /><a class="button plain" href=${href} download=${name}>Download</a></div>`;
  return text === null ? html`<${Loading} />` : html`<${TextFile} name=${name} text=${text} href=${href} />`;
}

/** Returns a file as text, if it is one that can be shown. @param {string} href @param {AbortSignal} signal */
async function readText(href, signal) {
  const answer = await fetch(href, { credentials: "same-origin", signal });
  if (!answer.ok) throw new Error((await answer.json().catch(() => null))?.error?.message ?? `The master answered ${answer.status}.`);
  const content = new Uint8Array(await answer.arrayBuffer());
  if (content.length > MOST_SHOWN_BYTES) throw new Error(`The file has ${bytes(content.length)}, which is too much to show.`);
  try {
    const text = new TextDecoder("utf-8", { fatal: true }).decode(content);
    if (!text.includes("\0")) return text;
  } catch {
    // Said below.
  }
  throw new Error("The file is no text.");
}

/** Where an experiment comes from: command, code, machine, packages. @param {{experimentId: number}} props */
export function ProvenanceView({ experimentId }) {
  const [origin, setOrigin] = useState(/** @type {any} */ (null));
  const [error, setError] = useState(/** @type {any} */ (null));
  useEffect(() => {
    get(`/experiments/${experimentId}/provenance`).then(setOrigin, setError);
  }, [experimentId]);
  if (error?.status === 404) return html`<${Empty} title="Not known"><p>${error.message}</p><//>`;
  if (error) return html`<${Problem} error=${error} />`;
  if (!origin) return html`<${Loading} />`;
  const { git } = origin;
  const packages = Object.entries(origin.packages);
  return html`<div class="origin">
    <${Fields} fields=${[
      ["Forked from", origin.forked_from && html`<a href="#/experiments/${origin.forked_from}">experiment ${origin.forked_from}</a>`],
      ["Created", time(origin.time)],
      ["Command", html`<code>${origin.command.map(quote).map(clean).join(" ")}</code>`],
      ["Directory", html`<code>${clean(origin.working_dir)}</code>`],
      ["Git commit", git ? html`<code>${git.commit}</code> ${git.branch && html`on <code>${clean(git.branch)}</code>`}` : "the code was in no repository"],
      ["Changes", git && describeChanges(git)],
      ["Machine", clean(`${origin.host}, ${origin.platform}`)],
      ["Processor", clean(`${origin.processor}, ${origin.num_cores} cores`)],
      ["Memory", bytes(origin.memory_bytes)],
      ["Python", origin.python],
    ]} />
    ${git?.diff && html`<h3>Changes since the commit</h3><${Diff} text=${git.diff} />
      ${git.is_diff_cut && html`<p class="muted">There were more changes than are kept.</p>`}`}
    <details class="packages"><summary>${packages.length} packages</summary>
      <ul>${packages.map(([name, version]) => html`<li key=${name}><span>${clean(name)}</span> <span class="muted">${clean(String(version))}</span></li>`)}</ul></details>
  </div>`;
}

/** Names with values; those without a value are left out. @param {{fields: [string, any][]}} props */
export function Fields({ fields }) {
  return html`<dl class="fields">${fields.filter(([, value]) => value !== null && value !== undefined && value !== "" && value !== false)
    .map(([name, value]) => html`<div key=${name}><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>`;
}

/** @param {{text: string}} props */
function Diff({ text }) {
  const kinds = { "+": "added", "-": "removed", "@": "place" };
  return html`<pre class="diff" tabindex="0">${text.split("\n").map((line) => {
    const isHead = line.startsWith("+++") || line.startsWith("---") || line.startsWith("diff ");
    return html`<span class=${isHead ? "head" : /** @type {any} */ (kinds)[line[0]] ?? ""}>${clean(line) + "\n"}</span>`;
  })}</pre>`;
}

/** @param {any} git */
function describeChanges(git) {
  const untracked = git.num_untracked ? `, ${git.num_untracked} files that git does not know` : "";
  return (git.is_dirty ? "changed since the commit" : "as committed") + untracked;
}

/** @param {string} word */
function quote(word) {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}
