// The filter: words and comparisons, all of which must be true for a run:
//   layer norm=none rate<=1e-3 state!=done variant="gain 0.1"

import { valueOf } from "./experiment_data.js";

const TERM = /\s*(?:([\w.-]+)\s*(<=|>=|!=|=|<|>)\s*("[^"]*"|[^\s"]+)|"([^"]+)"|(\S+))/gy;

// The column with this key, title or end of a key.
function columnOf(name, columns) {
  const lower = name.toLowerCase();
  return columns.find(({ key, title }) => key.toLowerCase() === lower || title.toLowerCase() === lower) ||
    columns.find(({ key }) => key.toLowerCase().endsWith(`.${lower}`));
}

// Whether a text matches the pattern, where * matches any text.
function isLike(text, pattern) {
  const parts = pattern.split("*").map((part) => part.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
  return new RegExp(`^${parts.join(".*")}$`, "i").test(text);
}

function holds(value, sign, wanted) {
  const known = value !== null && value !== undefined;
  const same = known && (typeof value === "number" && typeof wanted === "number" ? value === wanted
    : isLike(String(value), String(wanted)));
  if (sign === "=") return same;
  if (sign === "!=") return !same;
  if (!known || typeof value !== typeof wanted) return false;
  return { "<": value < wanted, "<=": value <= wanted, ">": value > wanted, ">=": value >= wanted }[sign];
}

// { test: a function of a run, problem: the error in the text or "" }. `columns`: [{ key, title }].
export function parseFilter(text, columns) {
  const tests = [];
  TERM.lastIndex = 0;
  for (let term; TERM.lastIndex < text.length && (term = TERM.exec(text));) {
    const [, name, sign, value, quoted, word] = term;
    if (!name) {
      const part = (quoted ?? word).toLowerCase();
      tests.push((run) => Object.values(run.values).some((one) => String(one ?? "").toLowerCase().includes(part)));
      continue;
    }
    const column = columnOf(name, columns);
    if (!column)
      return { test: () => true, problem: `unknown column “${name}”; known columns: ${columns.map((one) => one.title).join(", ")}` };
    const wanted = valueOf(value.replace(/^"|"$/g, ""));
    tests.push((run) => holds(run.values[column.key], sign, wanted));
  }
  return { test: (run) => tests.every((test) => test(run)), problem: "" };
}
