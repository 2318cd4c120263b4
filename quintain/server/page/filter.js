// @ts-check
// Expressions that choose trials, as `accuracy > 0.9 and optimizer in (adam, lamb)`. The grammar and its meaning are
// those of `quintain/records/views/trial_filter.py`; `tests/page/filter_vectors.json` holds both to it.
import { toNumber } from "./format.js";

/**
 * @typedef {(read: (key: string) => unknown) => boolean} Filter says whether a row is chosen, whose values `read` gives
 * @typedef {{kind: string, text: string, shown: string, position: number}} Token
 */

const MAX_LENGTH = 4000;
const MAX_DEPTH = 50;
const KINDS = [
  /(?<number>[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?(?![\p{L}\p{N}_./:+-]))/u,
  /(?<text>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')/u,
  /(?<name>`[^`]+`)/u,
  /(?<sign><=|>=|==|!=|&&|\|\||[<>=!~(),])/u,
  /(?<word>[+-]?[\p{L}\p{N}_][\p{L}\p{N}_./:+-]*)/u,
];
const TOKEN = new RegExp(`\\s*(?:${KINDS.map((kind) => kind.source).join("|")})`, "uy");
const NUMBER = /^[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[+-]?[0-9]+)?$/;
/** @type {Record<string, string>} */
const SIGNS = { and: "&&", or: "||", not: "!", in: "in" };
/** @type {Record<string, (a: any, b: any) => boolean>} */
const ORDERS = { "<": (a, b) => a < b, "<=": (a, b) => a <= b, ">": (a, b) => a > b, ">=": (a, b) => a >= b };
const COMPARISONS = new Set([...Object.keys(ORDERS), "==", "=", "!=", "~"]);
/** @type {Record<string, number>} */
const NUMBERS = {
  nan: NaN, inf: Infinity, "+inf": Infinity, "-inf": -Infinity,
  infinity: Infinity, "+infinity": Infinity, "-infinity": -Infinity,
};
/** @type {Record<string, string>} */
const ALIASES = { best: "best_metric", latest: "latest_metric", batches: "total_batches" };
const FORMS = ["{}", "hparams.{}", "{}.best", "validation/{}.best", "validation/{}", "training/{}.best", "training/{}"];

/** A mistake in an expression. */
export class FilterError extends Error {
  /** @param {number} position from 1 @param {string} problem */
  constructor(position, problem) {
    super(`at position ${position}: ${problem}`);
  }
}

/** Returns what an expression asks; an empty one chooses all rows.
 * @param {string} text @param {Iterable<string>} known full names of what there is @returns {Filter} */
export function parseFilter(text, known) {
  if (text.length > MAX_LENGTH) throw new FilterError(1, `got ${text.length} characters, expected at most 4,000.`);
  const parser = new Parser(tokenize(text), new Set(known));
  return parser.ahead.kind === "end" ? () => true : parser.readWhole();
}

/** Returns the full name that a name stands for, or null. @param {string} name @param {Set<string>} known */
export function findName(name, known) {
  const full = FORMS.map((form) => form.replace("{}", () => name)).find((one) => known.has(one));
  const alias = Object.hasOwn(ALIASES, name) ? ALIASES[name] : "";
  return full ?? (known.has(alias) ? alias : null);
}

/** Returns the shortest usual form of a full name. @param {string} full */
export function shortenName(full) {
  return full.replace(/^hparams\./, "").replace(/^validation\//, "").replace(/\.best$/, "");
}

/** @param {string} text @returns {Token[]} */
function tokenize(text) {
  const tokens = [];
  let at = 0;
  while (text.slice(at).trim()) {
    TOKEN.lastIndex = at;
    const match = TOKEN.exec(text);
    if (!match) {
      const start = at + text.slice(at).search(/\S/);
      const mark = text[start];
      const isOpen = "\"'`".includes(mark);
      const problem = isOpen ? `${show(text.slice(start, start + 20))} has no closing ${mark}.` : `${show(mark)} means nothing here.`;
      throw new FilterError(start + 1, problem);
    }
    tokens.push(toToken(/** @type {Record<string, string>} */ (match.groups), at + match[0].length));
    at += match[0].length;
  }
  return [...tokens, { kind: "end", text: "", shown: "", position: text.length + 1 }];
}

/** @param {Record<string, string>} groups @param {number} end @returns {Token} */
function toToken(groups, end) {
  const [kind, shown] = /** @type {[string, string]} */ (Object.entries(groups).find(([, found]) => found !== undefined));
  const position = end - shown.length + 1;
  if (kind === "text") return { kind, text: shown.slice(1, -1).replace(/\\(.)/g, "$1"), shown, position };
  if (kind === "name") return { kind, text: shown.slice(1, -1), shown, position };
  const word = shown.toLowerCase();
  if (kind === "word" && Object.hasOwn(SIGNS, word)) return { kind: "sign", text: SIGNS[word], shown, position };
  return { kind, text: shown, shown, position };
}

/** Reads tokens from the left, and builds what they ask. */
class Parser {
  /** @param {Token[]} tokens @param {Set<string>} known */
  constructor(tokens, known) {
    this.tokens = tokens;
    this.known = known;
    this.next = 0;
    this.depth = 0;
  }

  get ahead() {
    return this.tokens[this.next];
  }

  readWhole() {
    const found = this.readEither();
    if (this.ahead.kind !== "end") this.refuse("'and', 'or' or the end");
    return found;
  }

  /** @returns {Filter} */
  readEither() {
    const parts = [this.readBoth()];
    while (this.take("||")) parts.push(this.readBoth());
    return parts.length === 1 ? parts[0] : (read) => parts.some((part) => part(read));
  }

  /** @returns {Filter} */
  readBoth() {
    const parts = [this.readSingle()];
    while (this.take("&&")) parts.push(this.readSingle());
    return parts.length === 1 ? parts[0] : (read) => parts.every((part) => part(read));
  }

  /** @returns {Filter} */
  readSingle() {
    this.depth += 1;
    if (this.depth > MAX_DEPTH) throw new FilterError(this.ahead.position, `is nested deeper than ${MAX_DEPTH} levels.`);
    /** @type {Filter} */
    let found;
    if (this.take("!")) {
      const part = this.readSingle();
      found = (read) => !part(read);
    } else if (this.take("(")) {
      found = this.readEither();
      this.expect(")");
    } else {
      found = this.readComparison();
    }
    this.depth -= 1;
    return found;
  }

  /** @returns {Filter} */
  readComparison() {
    const token = this.ahead;
    if (token.kind !== "word" && token.kind !== "name") this.refuse("a name");
    this.next += 1;
    const key = findName(token.text, this.known);
    if (key === null) throw new FilterError(token.position, describeUnknown(token.text, this.known));
    const sign = this.ahead;
    if (sign.kind === "sign" && COMPARISONS.has(sign.text)) {
      this.next += 1;
      const test = buildTest(sign.text, this.readValue());
      return (read) => test(read(key));
    }
    const isNegated = this.take("!");
    if (!this.take("in")) this.refuse("one of <, <=, >, >=, ==, !=, ~, in");
    this.expect("(");
    const tests = [buildTest("==", this.readValue())];
    while (this.take(",")) tests.push(buildTest("==", this.readValue()));
    this.expect(")");
    return (read) => {
      const value = read(key);
      return value !== null && value !== undefined && tests.some((test) => test(value)) !== isNegated;
    };
  }

  readValue() {
    const token = this.ahead;
    if (!["number", "text", "word"].includes(token.kind)) this.refuse("a number, a text in quotes or a word");
    this.next += 1;
    return token.text;
  }

  /** Returns whether a sign comes next, and goes on behind it. @param {string} sign */
  take(sign) {
    const isThere = this.ahead.kind === "sign" && this.ahead.text === sign;
    if (isThere) this.next += 1;
    return isThere;
  }

  /** @param {string} sign */
  expect(sign) {
    if (!this.take(sign)) this.refuse(`'${sign}'`);
  }

  /** @param {string} expected @returns {never} */
  refuse(expected) {
    const { kind, shown, position } = this.ahead;
    throw new FilterError(position, `got ${kind === "end" ? "the end" : show(shown)}, expected ${expected}.`);
  }
}

/** Returns what says of a value whether a comparison holds. @param {string} sign @param {string} written @returns {(value: any) => boolean} */
function buildTest(sign, written) {
  const text = written.toLowerCase();
  const number = Object.hasOwn(NUMBERS, text) ? NUMBERS[text] : NUMBER.test(text) ? Number(text) : null;
  if (sign === "~") return (value) => (value ?? null) !== null && typeof value !== "number" && toText(value).includes(text);
  const isNegated = sign === "!=";
  const order = ORDERS[sign];
  return (given) => {
    if (given === null || given === undefined) return false;
    const value = given === "NaN" || given === "Infinity" || given === "-Infinity" ? toNumber(given) : given;
    if (typeof value === "number" || (typeof value === "boolean" && number !== null)) {
      if (number === null) return isNegated;
      if (order) return order(Number(value), number);
      return (Number(value) === number || (Number.isNaN(value) && Number.isNaN(number))) !== isNegated;
    }
    if (order) return number === null && order(toText(value), text);
    return (toText(value) === text) !== isNegated;
  };
}

/** @param {unknown} value */
function toText(value) {
  return (typeof value === "string" ? value : JSON.stringify(value)).toLowerCase();
}

/** @param {string} name @param {Set<string>} known */
function describeUnknown(name, known) {
  const names = [...new Set([...known].map(shortenName))].sort();
  const near = findNearest(name, names);
  const hint = near ? ` Did you mean '${near}'?` : ` There are: ${names.slice(0, 20).join(", ")}${names.length > 20 ? ` and ${names.length - 20} more` : ""}.`;
  return `got ${show(name)}, expected a hyperparameter, metric or column.${hint}`;
}

/** Returns the name with the fewest letters to change, if that is at most a third. @param {string} name @param {string[]} names */
function findNearest(name, names) {
  let best = "";
  let fewest = Math.max(1, Math.floor(name.length / 3)) + 1;
  for (const other of names) {
    const changes = countChanges(name.toLowerCase(), other.toLowerCase());
    if (changes < fewest) [best, fewest] = [other, changes];
  }
  return best;
}

/** Letters to add, take away, replace, or swap with the next. @param {string} a @param {string} b */
function countChanges(a, b) {
  if (Math.abs(a.length - b.length) > 20 || a.length > 100) return Infinity;
  let older = /** @type {number[]} */ ([]);
  let old = Array.from({ length: b.length + 1 }, (_, at) => at);
  for (let i = 1; i <= a.length; i += 1) {
    const line = [i];
    for (let j = 1; j <= b.length; j += 1) {
      line[j] = Math.min(old[j] + 1, line[j - 1] + 1, old[j - 1] + Number(a[i - 1] !== b[j - 1]));
      if (i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1]) line[j] = Math.min(line[j], older[j - 2] + 1);
    }
    [older, old] = [old, line];
  }
  return old[b.length];
}

/** @param {string} text */
function show(text) {
  return text.includes("'") ? `"${text}"` : `'${text}'`;
}
