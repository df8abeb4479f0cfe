// The table of an experiment's runs or groups, with sortable columns and selectable rows.

import { $, make } from "./dom.js";
import { holm, pairedTest } from "./experiment_data.js";
import { grouped, number } from "./format.js";

const COUNTED = new Set(["parameters", "examples", "skipped"]);
const HIDDEN = new Set(["baseline_recent"]); // columns that the table leaves out
const LIKELY = 0.05; // a difference with a smaller p is significant
const MINUS = "−";

// The columns of the table as [{ key, title, kind }]: kind is "text" or "figure".
export function columnsOf(experiment, groups, keys) {
  const { about } = experiment, some = (key) => groups.some(({ values }) => key in values);
  const text = (key, title = key) => ({ key, title, kind: "text" });
  const varies = (key) => new Set(experiment.runs.map(({ values }) => values[key])).size > 1;
  const columns = [];
  if (!keys.length) columns.push(text("run"));
  if ((!experiment.namedBySettings() || !experiment.keys.length) && some("variant")) columns.push(text("variant"));
  columns.push(...experiment.keys.filter(({ key }) => some(key)).map(({ key, title }) => text(key, title)));
  if (about.streams.length > 1) columns.push(text("stream"));
  if (varies("seed") && some("seed")) columns.push(text("seed"));
  columns.push({ key: "state", title: keys.length ? "runs" : "state", kind: "text" });
  const measure = experiment.measure(), first = ({ name }) => (name === measure ? 0 : 1);
  columns.push(...experiment.figures.filter(({ name }) => !HIDDEN.has(name)).sort((a, b) => first(a) - first(b))
    .map((figure) => ({ ...figure, key: figure.name, kind: "figure" })));
  return columns;
}

const order = new Intl.Collator("en", { numeric: true });

// Groups without a value are last in both directions.
export function sortGroups(groups, { key, down }) {
  const rank = (group) => group.values[key];
  const known = (value) => value !== null && value !== undefined;
  const compare = (a, b) => (typeof a === "number" && typeof b === "number" ? a - b : order.compare(String(a), String(b)));
  return [...groups].sort((one, other) => {
    const a = rank(one), b = rank(other);
    if (!known(a) || !known(b)) return Number(known(b)) - Number(known(a));
    return down ? compare(b, a) : compare(a, b);
  });
}

// For the groups of a stream: the one with the best mean if it differs from each other (`id`), or
// why none is marked (`verdict`).
function findBest(groups, { name, larger_better: larger }) {
  const done = groups.filter((group) => group.done && typeof group.values[name] === "number");
  if (done.length < 2) return {};
  const [first] = [...done].sort((a, b) => a.place - b.place);
  const lost = ({ runs }) => runs.some(({ state }) => state === "failed" || state === "nonfinite");
  const better = (a, b) => (larger ? a.values[name] > b.values[name] : a.values[name] < b.values[name]);
  const leader = done.filter((group) => !lost(group)).reduce((best, group) => (best && !better(group, best) ? best : group), null);
  if (!leader) return {};
  const differ = (from) => holm(done.filter((group) => group !== from).map((group) => pairedTest(group, from, name)))
    .map((p) => p !== null && p < LIKELY);
  if (differ(leader).every(Boolean)) return { id: leader.id };
  return { verdict: differ(first).some(Boolean) ? "no variant differs from all others" : "no variant differs from the first" };
}

// Compares the groups of each stream. Single runs are not compared.
function findAllBest(groups, keys, measure) {
  const streams = [...new Set(groups.map(({ values }) => values.stream))];
  if (!keys.length) return { ids: new Set(), verdict: "" };
  const all = streams.map((stream) => [stream, findBest(groups.filter(({ values }) => values.stream === stream), measure)]);
  const verdicts = all.filter(([, { verdict }]) => verdict)
    .map(([stream, { verdict }]) => (streams.length > 1 ? `${stream}: ${verdict}` : verdict));
  return { ids: new Set(all.map(([, { id }]) => id).filter((id) => id !== undefined)), verdict: verdicts.join("; ") };
}

export const signed = (value) => number(value).replace(/^-/, MINUS);

function figureCell(group, { key }, isBest) {
  const value = group.values[key], deviation = group.deviations[key];
  const text = COUNTED.has(key) ? grouped(value) : signed(value);
  const cell = make("td", { className: isBest ? "number best" : "number", textContent: text });
  if (deviation > 0)
    cell.append(make("span", { className: "faint", textContent: ` ±${number(Number(deviation.toPrecision(2)))}` }));
  if (typeof value === "number") cell.title = String(value) + (typeof deviation === "number" ? ` ± ${deviation}` : "");
  return cell;
}

function stateCell(group) {
  const bad = group.runs.filter(({ state }) => state === "failed" || state === "nonfinite");
  const waits = group.runs.every(({ state }) => state === "waiting");
  return make("td", { className: bad.length ? "bad" : waits ? "faint" : "", textContent: group.values.state,
    title: bad.map(({ run, error }) => `run ${run}: ${error ?? "a loss was not finite"}`).join("\n") });
}

// The text that all runs of a group have: "–" if none has one, "…" if they differ.
export function textOf(group, key) {
  const value = group.values[key];
  if (value !== undefined && value !== null) return group.runs[0].texts[key] ?? String(value);
  return group.runs.some((run) => (run.values[key] ?? null) !== null) ? "…" : "–";
}

function cellOf(group, column, best) {
  if (column.kind === "figure") return figureCell(group, column, column.key === best.measure && best.ids.has(group.id));
  if (column.key === "state") return stateCell(group);
  const text = textOf(group, column.key);
  return make("td", { className: text.length > 1 || !"–…".includes(text) ? "" : "faint", textContent: text, title: text });
}

// `act`: { sort(key), choose(group) }.
function rowOf(group, columns, best, { selected, drawn, act }) {
  const box = make("input", { type: "checkbox", checked: selected.has(group.id), ariaLabel: `show ${nameOf(group)}` });
  const swatch = make("i", { className: "swatch" });
  const style = drawn.get(group.id);
  if (style) {
    swatch.style.setProperty("--color", style.color);
    swatch.classList.toggle("dashed", style.dash.length > 0);
  }
  const row = make("tr", { className: selected.has(group.id) ? "chosen" : "" },
    make("td", { className: "pick" }, box, swatch), ...columns.map((column) => cellOf(group, column, best)));
  row.dataset.group = group.id;
  row.addEventListener("click", () => act.choose(group));
  return row;
}

export function nameOf(group) {
  return group.name ?? group.id.replace(/\n/g, ", ");
}

export function showTable({ columns, groups, keys, sort, measure, ...of }) {
  const { ids, verdict } = findAllBest(groups, keys, measure), best = { measure: measure.name, ids };
  $("verdict").textContent = verdict && `${measure.title}: ${verdict} (p < ${LIKELY})`;
  $("results-head").replaceChildren(make("tr", {}, make("th"), ...columns.map((column) => {
    const sorts = sort.key === column.key;
    const button = make("button", { type: "button", textContent: column.title,
      title: column.key === column.title ? "sort" : `${column.key}: sort` });
    button.addEventListener("click", () => of.act.sort(column));
    const head = make("th", { className: column.kind === "figure" ? "number" : "" }, button);
    if (sorts) head.setAttribute("aria-sort", sort.down ? "descending" : "ascending");
    return head;
  })));
  // Keeps the focus, although all rows are new.
  const focused = document.activeElement?.closest?.("#results tr")?.dataset.group;
  $("results-body").replaceChildren(...groups.map((group) => rowOf(group, columns, best, of)));
  if (focused !== undefined)
    [...$("results-body").rows].find((row) => row.dataset.group === focused)?.querySelector("input").focus();
  $("no-results").hidden = groups.length > 0;
}
