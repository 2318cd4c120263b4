// What the page needs of the files of others.
import assert from "node:assert/strict";
import { test } from "node:test";
import { html } from "../../quintain/server/page/vendor/preact.js";

test("templates keep no elements: those would hold all trees that they were in", () => {
  const draw = () => html`<p class=${1}><b>always the same</b></p>`;
  assert.notEqual(draw().props.children, draw().props.children);
});
