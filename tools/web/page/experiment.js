// The start of the page of an experiment: its view and its controls.

import { $, fail, loadCharts, make, showConnection, showSmooth } from "./dom.js";
import { clock, duration, grouped } from "./format.js";
import { CurveChart, styleOf } from "./experiment_chart.js";
import { Experiment } from "./experiment_data.js";
import { Detail } from "./experiment_detail.js";
import { parseFilter } from "./experiment_filter.js";
import { columnsOf, showTable, sortGroups, textOf } from "./experiment_table.js";
import { nextTheme, offerThemes, restoreTheme } from "./theme.js";

const DRAWN = 20;          // groups without a selection: one for each colour
const REFRESH_LEAST = 1000; // minimum ms between two loads
const COLUMNS = [["mean", "Loss"], ["gradient_norm", "Gradient norm"], ["update_ratio", "Update ratio"],
  ["weight_norm", "Norm of all weights"]];

const experiment = new Experiment();
const view = { filter: "", keys: null, stream: "", sort: null, column: "mean", smooth: 0, band: true, log: false,
  logX: false, range: null };
const selected = new Set(); // ids of groups
let chart = null, detail = null;
const shown = { groups: [], drawn: [], columns: [] };

// For the console and for tests.
window.runnel = { experiment, view, selected, shown, chart: () => chart };

// ---- View ----

// Keys by which runs can be grouped: [{ key, title }].
function groupKeys() {
  return [{ key: "variant", title: "variant" }, ...experiment.keys, ...(experiment.hasSeeds() ? [{ key: "seed", title: "seed" }] : [])];
}

function filterColumns() {
  const plain = ["run", "variant", "stream", "seed", "state"].map((key) => ({ key, title: key }));
  return [...plain, ...experiment.keys, ...experiment.figures.map(({ name }) => ({ key: name, title: name }))];
}

// The name of a group's row and line.
function call(group) {
  const { values, runs } = group, several = experiment.about.streams.length > 1;
  const titles = new Map(experiment.keys.map(({ key, title }) => [key, title]));
  const parts = view.keys.length ? view.keys.map((key) => (key === "variant" ? values.variant
    : `${titles.get(key) ?? key} ${textOf(group, key)}`)) : [values.variant];
  if (several) parts.push(values.stream);
  if (!view.keys.length && experiment.hasSeeds()) parts.push(`seed ${runs[0].seed}`);
  return parts.join(", ");
}

function gather() {
  const { test, problem } = parseFilter(view.filter, filterColumns());
  $("problem").textContent = problem;
  $("filter").setAttribute("aria-invalid", String(Boolean(problem)));
  const inStream = (run) => !view.stream || run.values.stream === view.stream;
  const places = experiment.places(view.keys);
  const runs = experiment.runs.filter((run) => inStream(run) && test(run));
  const groups = experiment.groups(runs, view.keys);
  for (const group of groups) Object.assign(group, { name: call(group), place: places.get(group.id) });
  shown.runs = runs;
  shown.groups = sortGroups(groups, view.sort);
  shown.columns = columnsOf(experiment, groups, view.keys);
  const chosen = shown.groups.filter(({ id }) => selected.has(id));
  shown.drawn = chosen.length ? chosen : shown.groups.filter(hasCurve).slice(0, DRAWN);
  for (const group of shown.drawn) group.style = styleOf(group.place);
}

const hasCurve = ({ runs }) => runs.some(({ state }) => state === "done" || state === "nonfinite");

function showRows() {
  const { about } = experiment;
  const measure = about.measures.find(({ name }) => name === experiment.measure());
  showTable({ columns: shown.columns, groups: shown.groups, keys: view.keys, sort: view.sort, measure, selected,
    drawn: new Map(shown.drawn.map(({ id, style }) => [id, style])), act: { sort: sortBy, choose } });
  const of = shown.runs.length === experiment.runs.length ? "" : ` of ${grouped(experiment.runs.length)}`;
  $("count").textContent = `${grouped(shown.runs.length)}${of} runs` +
    (view.keys.length ? ` in ${grouped(shown.groups.length)} groups` : "");
  $("none").hidden = !selected.size;
}

// The baseline of each drawn stream, from the first run that has one.
function baselines() {
  if (view.column !== "mean") return [];
  const streams = new Map();
  for (const { runs } of shown.drawn)
    for (const run of runs) {
      if (streams.has(run.stream) || run.state === "failed") continue;
      const curve = experiment.curve({ runs: [run] }, "baseline");
      if (curve.mean.some((value) => value !== null)) streams.set(run.stream, curve);
    }
  return [...streams.values()];
}

function showCurves() {
  if (!window.Chart) return;
  chart ??= new CurveChart($("panel-curves").querySelector(".plot"), $("curves-legend"), zoom);
  const groups = shown.drawn.map((group) => ({ ...group, curve: experiment.curve(group, view.column) }))
    .filter(({ curve }) => curve.x.length);
  const waits = !groups.length && experiment.fetching.size > 0;
  chart.draw({ groups, baselines: baselines(), view, empty: waits ? "loading" : "" });
  const many = shown.groups.length > shown.drawn.length;
  $("curves-of").textContent = !many ? "" : selected.size ? `${shown.drawn.length} selected`
    : `first ${shown.drawn.length} of ${shown.groups.length} rows; click rows to select`;
}

function showProgress() {
  const { total, over, nonfinite, failed, started, finished, name, version, device } = experiment.about;
  const bad = [[nonfinite, "not finite"], [failed, "failed"]].filter(([count]) => count).map(([count, word]) => `${count} ${word}`);
  $("over").max = Math.max(1, total);
  $("over").value = over;
  $("over-text").textContent = [`${grouped(over)} of ${grouped(total)} runs`, ...bad,
    typeof finished === "number" && typeof started === "number" && over >= total ? `took ${duration(finished - started)}`
      : typeof started === "number" ? `started ${clock(started)}` : ""].filter(Boolean).join(" · ");
  $("name").textContent = name ?? "experiment";
  document.title = `${name ?? "experiment"} · runnel`;
  showConnection(["experiment", device, version && `version ${version}`].filter(Boolean).join(" · "));
}

function show() {
  gather();
  showRows();
  showCurves();
  keepView();
  experiment.fetchCurves(shown.drawn.flatMap(({ runs }) => runs)).then((some) => { if (some) showCurves(); }, fail);
}

let soon = false;
function showSoon() {
  if (soon) return;
  soon = true;
  requestAnimationFrame(() => { soon = false; show(); });
}

// ---- Actions ----

function sortBy({ key, kind, better, larger_better: larger }) {
  const first = kind === "figure" && better ? Boolean(larger) : false;
  view.sort = { key, down: view.sort.key === key ? !view.sort.down : first, byHand: true };
  show();
}

const runToShow = (group) => group.runs.find(({ state }) => state === "done") ?? group.runs[0];

function choose(group) {
  if (selected.has(group.id)) selected.delete(group.id);
  else selected.add(group.id);
  show();
  const chosen = shown.groups.filter(({ id }) => selected.has(id)).map(runToShow);
  const shows = selected.has(group.id) ? runToShow(group) : chosen[0];
  const other = chosen.length === 2 ? chosen.find((run) => run !== shows) : undefined;
  detail.choose(...(other ? chosen : [shows])).catch(fail);
}

function zoom(range) {
  view.range = range;
  showCurves();
}

function groupBy(key) {
  view.keys = view.keys.includes(key) ? view.keys.filter((one) => one !== key) : [...view.keys, key];
  selected.clear();
  showGroupKeys();
  show();
}

function showGroupKeys() {
  const [label] = $("groups").children;
  $("groups").replaceChildren(label, ...groupKeys().map(({ key, title }) => {
    const button = make("button", { type: "button", textContent: title, title: key });
    button.dataset.key = key;
    button.setAttribute("aria-pressed", String(view.keys.includes(key)));
    button.addEventListener("click", () => groupBy(key));
    return button;
  }));
}

function offerStreams() {
  const names = experiment.about.streams.map(({ name }) => name);
  $("stream-label").hidden = names.length < 2;
  if (!names.includes(view.stream)) view.stream = "";
  $("stream").replaceChildren(...["", ...names].map((name) =>
    make("option", { value: name, textContent: name || "all", selected: name === view.stream })));
}

// ---- View in the address ----

function keepView() {
  const query = new URLSearchParams();
  if (view.filter) query.set("filter", view.filter);
  query.set("groups", view.keys.join(","));
  if (experiment.about.streams.length > 1) query.set("stream", view.stream);
  if (view.sort.byHand) query.set("sort", `${view.sort.down ? "-" : ""}${view.sort.key}`);
  for (const key of ["log", "logX"]) if (view[key]) query.set(key, 1);
  if (!view.band) query.set("band", 0);
  if (view.smooth) query.set("smooth", view.smooth);
  if (view.column !== "mean") query.set("column", view.column);
  history.replaceState(null, "", `#${query}`);
}

// Sorted by the measure, which may change with the first run that has a baseline.
function bestFirst() {
  const key = experiment.measure();
  return { key, down: experiment.about.measures.find(({ name }) => name === key).larger_better };
}

// Reads the view from the address; missing and unknown parts have defaults.
function readView() {
  const query = new URLSearchParams(location.hash.slice(1));
  const keys = groupKeys().map(({ key }) => key);
  view.filter = $("filter").value = query.get("filter") ?? "";
  view.keys = query.has("groups") ? query.get("groups").split(",").filter((key) => keys.includes(key))
    : experiment.hasSeeds() ? ["variant"] : [];
  view.stream = query.get("stream") ?? (experiment.about.streams[1] ? experiment.about.streams[0].name : "");
  const sort = query.get("sort") ?? "", key = sort.replace(/^-/, "");
  const sortable = filterColumns().some((column) => column.key === key);
  if (sortable) view.sort = { key, down: sort.startsWith("-"), byHand: true };
  view.smooth = Math.min(0.2, Math.max(0, Number(query.get("smooth")) || 0));
  Object.assign(view, { band: query.get("band") !== "0", log: query.get("log") === "1", logX: query.get("logX") === "1" });
  if (COLUMNS.some(([name]) => name === query.get("column"))) view.column = query.get("column");
}

// ---- Messages from the server ----

let loaded = 0, timer = null;

async function load() {
  loaded = performance.now();
  await experiment.load();
  if (!view.keys) begin();
  if (!view.sort?.byHand) view.sort = bestFirst();
  offerStreams();
  showProgress();
  detail.offer(experiment.runs, (run) => [run.values.variant,
    experiment.about.streams.length > 1 ? run.values.stream : "", `seed ${run.seed}`].filter(Boolean).join(", "));
  show();
}

function loadSoon() {
  timer ??= setTimeout(() => {
    timer = null;
    load().catch(fail);
  }, Math.max(0, loaded + REFRESH_LEAST - performance.now()));
}

function listen() {
  let greeted = false, source = null;
  const connect = () => {
    source = new EventSource("api/live");
    source.onerror = () => showConnection("runnel-web does not answer; retrying", true);
    source.addEventListener("hello", () => { if (greeted) loadSoon(); greeted = true; });
    for (const event of ["experiment", "lost"]) source.addEventListener(event, loadSoon);
  };
  connect();
  addEventListener("pagehide", () => source.close());
  addEventListener("pageshow", ({ persisted }) => { if (persisted) { connect(); loadSoon(); } });
}

// ---- Start ----

function setSmooth(value) {
  view.smooth = value;
  showSmooth(value);
}

// Called when the experiment is loaded.
function begin() {
  readView();
  showGroupKeys();
  setSmooth(view.smooth);
  for (const [id, key] of [["band", "band"], ["log", "log"], ["log-x", "logX"]]) $(id).checked = view[key];
  $("column").value = view.column;
}

function control() {
  $("column").replaceChildren(...COLUMNS.map(([value, textContent]) => make("option", { value, textContent })));
  $("filter").addEventListener("input", () => { view.filter = $("filter").value; showSoon(); });
  $("stream").addEventListener("change", () => { view.stream = $("stream").value; show(); });
  $("column").addEventListener("change", () => { view.column = $("column").value; show(); });
  $("smooth").addEventListener("input", () => { setSmooth($("smooth").value / 100); showSoon(); });
  for (const [id, key] of [["band", "band"], ["log", "log"], ["log-x", "logX"]])
    $(id).addEventListener("change", () => { view[key] = $(id).checked; show(); });
  $("whole").addEventListener("click", () => zoom(null));
  $("none").addEventListener("click", () => { selected.clear(); show(); });
  offerThemes(show);
  document.addEventListener("keydown", ({ key, target, ctrlKey, altKey, metaKey }) => {
    if (ctrlKey || altKey || metaKey || ["INPUT", "SELECT"].includes(target.tagName)) return;
    if (key === "d") nextTheme();
    if (key === "0") zoom(null);
    if (key === "l") $("log").click();
    if (key === "b") $("band").click();
  });
}

async function start() {
  restoreTheme();
  detail = new Detail(experiment);
  control();
  listen();
  const library = loadCharts();
  await load();
  await library;
  showCurves();
  detail.clear("Select a run above or a row of the table.");
}

start().catch(fail);
