// Weighs the page: all that a browser may load of it, as one gzip stream. Comments and types are for
// people, and may be as long as they have to be: they are not served.
import { readFileSync, readdirSync } from "node:fs";
import { gzipSync } from "node:zlib";

const PAGE = new URL("../../quintain/server/page/", import.meta.url);
const MOST_BYTES = 150_000;
const FOR_PEOPLE = /\.(md|d\.ts)$/;
const BLOCK_COMMENT = /^[ \t]*\/\*\*(?:(?!\*\/).)*\*\/[ \t]*$/gms;
const LINE_COMMENT = /^[ \t]*\/\/.*$/gm;

const names = readdirSync(PAGE, { recursive: true, withFileTypes: true })
  .filter((entry) => entry.isFile() && !FOR_PEOPLE.test(entry.name))
  .map((entry) => `${entry.parentPath}/${entry.name}`).sort();
const weigh = (change) => gzipSync(names.map((name) => change(readFileSync(name, "utf8"))).join(""), { level: 9 }).length;
const whole = weigh((text) => text);
const run = weigh((text) => text.replace(BLOCK_COMMENT, "").replace(LINE_COMMENT, ""));

console.log(`The page's ${names.length} files: ${run} bytes of gzip without comments (${MOST_BYTES} at most), ${whole} with them.`);
process.exitCode = run > MOST_BYTES ? 1 : 0;
