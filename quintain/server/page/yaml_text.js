// @ts-check
// Plain data as YAML that is nice to read, and that YAML 1.2 readers read back.

const PLAIN = /^[A-Za-z_][A-Za-z0-9_./ -]*$/;
const WORDS = /^(null|true|false|yes|no|on|off|y|n|nan|inf|infinity)$/i;

/** Returns mappings, lists, numbers and texts as YAML.
 * @param {unknown} value @returns {string} */
export function toYaml(value) {
  return lines(value, "").join("\n") + "\n";
}

/** @param {unknown} value @param {string} indent @returns {string[]} */
function lines(value, indent) {
  if (Array.isArray(value) && value.length) {
    return value.flatMap((part) => {
      const [first, ...rest] = lines(part, indent + "  ");
      return [`${indent}- ${first.trimStart()}`, ...rest];
    });
  }
  if (isMapping(value) && Object.keys(value).length) {
    return Object.entries(value).flatMap(([name, part]) => {
      const key = indent + scalar(name) + ":";
      return isNested(part) ? [key, ...lines(part, indent + "  ")] : [`${key} ${scalar(part)}`];
    });
  }
  return [indent + scalar(value)];
}

/** @param {unknown} value */
function isNested(value) {
  return typeof value === "object" && value !== null && Object.keys(value).length > 0;
}

/** @param {unknown} value @returns {value is Record<string, unknown>} */
function isMapping(value) {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** @param {unknown} value @returns {string} */
function scalar(value) {
  if (typeof value !== "string") return value === undefined ? "null" : JSON.stringify(value);
  const isPlain = PLAIN.test(value) && !WORDS.test(value) && value.trim() === value;
  return isPlain ? value : JSON.stringify(value);
}
