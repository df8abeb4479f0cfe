// Truth and forecast of one column of a stream, with the 90% band or the fan of its distribution,
// truths outside the band, and the baseline. The axis is data time if the examples have it.

import { abnormal, abnormalAt, makeAnomalies, spansOf, unpick, wantAnomalies } from "./anomalies.js";
import { $, make } from "./dom.js";
import { Plot, theme } from "./draw.js";
import { number, percent, position, skill } from "./format.js";
import { MOST, Multiples } from "./multiples.js";
import { limitOf, Score } from "./score.js";
import { columnName, daemons, loading, name, recording, store, view } from "./state.js";

const FETCH_EVERY = 300;  // minimum ms between two answers
const ALL_EVERY = 1000;   // minimum ms between two answers for all columns
const LIST_EVERY = 3000;  // minimum ms between two lists of streams
const GONE = 410;         // HTTP status: the requested steps are no longer in memory
const MARGIN = 0.01;      // of the chart's width, right of the next forecast
const TINY = 1e-9;        // between two equal levels
const SHOWN = ["target", "prediction", "low", "high", "baseline", "score"];

// The selection. `daemon`: its number, or the id of a recorded run (null = newest). `stream`: null
// = the first. `around`: show the steps around this example, null = the newest.
export const chosen = { daemon: null, stream: null, ahead: 0, column: 0, points: 200, around: null, byHand: false };
let known = null; // the newest list of streams
let steps = null; // the newest steps of the selection
let gone = "";    // the reason if the steps around the selected example are missing
let all = [];     // the newest steps of all columns in order; empty if there is only one
const score = new Score();
const multiples = new Multiples((column) => choose("column", column));
let panel = null, redraw = () => {}, keep = () => {};

// ---- The panel ----

const legend = () => make("p", { className: "legend" },
  ...[["truth", "truth"], ["forecast", "forecast"], ["range", "90% band"], ["miss", "outside 90%"],
    ["baseline", "baseline"], ["next", "next value"], ["abnormal", "abnormal"], ["incident", "incident"]].map(([kind, text]) =>
    make("span", {}, make("i", { className: kind }), text)));

// Creates the panel for charts.js. `soon` draws it, `keepChoice` saves the selection.
export function makeForecast(soon, keepChoice) {
  redraw = soon;
  keep = keepChoice;
  const readout = make("span", { className: "readout" });
  const element = make("article", { className: "panel wide", id: "panel-forecast" },
    make("h3", {}, make("span", { textContent: "Truth and forecast" }), readout), legend(),
    make("div", { className: "plot" }), score.legend, score.element, make("p", { id: "forecast-summary" }));
  const both = make("div", { className: "overview" }, multiples.element, element);
  panel = { spec: { id: "forecast" }, element: both, large: element, readout, shown: [], inSight: false, waits: true, drawn: 0, paint };
  both.panel = panel;
  $("forecasts").prepend(both);
  for (const key of ["daemon", "stream", "column", "ahead", "points"])
    $(`forecast-${key}`).addEventListener("change", ({ target }) => choose(key, target.value));
  $("forecast-newest").addEventListener("click", () => choose("around", null));
  makeAnomalies(showAround);
  return panel;
}

// Shows an entry of the list of anomalies.
function showAround(stream, column, example) {
  Object.assign(chosen, { stream, column: column ?? 0, around: example });
  chooseAgain();
  panel.large.scrollIntoView({ block: "nearest" });
}

function choose(key, value) {
  chosen[key] = key === "stream" || value === null ? value : Number(value);
  if (key === "daemon") Object.assign(chosen, { stream: null, ahead: 0, column: 0 });
  if (key === "daemon") known = null;
  if (key !== "points" && key !== "column") chosen.around = null;
  if (chosen.around === null) unpick();
  chooseAgain();
}

function chooseAgain() {
  chosen.byHand = true;
  steps = null;
  gone = "";
  const same = (answer) => answer.stream === chosen.stream && (answer.daemon ?? answer.run) === chosen.daemon;
  if (!all.every(same)) all = [];
  gathered = -Infinity;
  showChoices();
  keep();
  listed = -Infinity;
  forecastSoon();
  redraw();
}

function openPlot() {
  const element = panel.large.querySelector(".plot");
  panel.plot = new Plot(element);
  for (const place of [element, score.element]) {
    place.addEventListener("pointermove", (event) => point(event.clientX - place.getBoundingClientRect().left));
    place.addEventListener("pointerleave", () => point(null));
  }
}

// Shows the numbers under the pointer, or without it those of the selected example.
function point(pixel) {
  const { plot, readout } = panel;
  const data = panel.shown[0]?.data || [];
  const around = chosen.around === null ? -1 : (steps?.example ?? []).findIndex((example) => example >= chosen.around);
  const x = !data.length ? null : pixel !== null ? plot.toValue(pixel) : around < 0 ? null : data[around].x;
  const i = x === null ? -1 : data.reduce((best, { x: at }, k) =>
    (Math.abs(at - x) < Math.abs(data[best].x - x) ? k : best), 0);
  const next = panel.shown[3] && pixel !== null ? nextAt() : null;
  if (next !== null && Math.abs(next - x) < Math.abs(data[i].x - x)) {
    plot.showCursor(next);
    score.showCursor(next);
    readout.replaceChildren(...[position(plot.axis, next, Infinity), "next", ...nextWords()]
      .map((text) => make("span", { textContent: text })));
    return;
  }
  plot.showCursor(i < 0 ? null : data[i].x);
  score.showCursor(i < 0 ? null : data[i].x);
  readout.replaceChildren(...(i < 0 ? [] : [
    position(plot.axis, data[i].x, Infinity), `truth ${number(steps.target[i])}`,
    `forecast ${number(steps.prediction[i])}`, `${number(steps.low[i])} … ${number(steps.high[i])}`,
    `baseline ${number(steps.baseline[i])}`, ...score.words(i)].map((text) => make("span", { textContent: text }))));
}

// ---- Drawing ----

// Bands of a line or of the next forecast: a fan is lighter outwards, and `share` opaque within. The
// outermost one counts for the range of the chart.
const bands = (fan, otherwise, share) => ({ ...(fan[0] ?? otherwise), fan, spec: { band: "interval" },
  bandShare: 1 - (1 - share) ** (1 / (fan.length || 1)) });

const isMiss = (i, of = steps) => of.low[i] !== null && of.high[i] !== null && of.target[i] !== null &&
  (of.target[i] < of.low[i] || of.target[i] > of.high[i]);

function line(of, positions, name, color, more = {}) {
  const data = positions.map((x, i) => ({ x, y: of[name][i], value: of[name][i], raw: of[name][i] }));
  return { spec: {}, data, color, borderColor: color, borderWidth: 1.7, borderDash: [], ...more };
}

// Lines of truth and forecast for the steps of a column.
function both(of, positions) {
  const { text, accent } = theme.colors;
  return [
    line(of, positions, "target", text, { borderWidth: 1.5, misses: positions.map((_, i) => isMiss(i, of)) }),
    line(of, positions, "prediction", accent,
      bands(of.fan, { low: of.low, high: of.high }, of.fan.length ? 0.5 : 0.28))];
}

function lines(positions) {
  return [...both(steps, positions),
    line(steps, positions, "baseline", theme.colors.faint, { borderWidth: 1.2, borderDash: [4, 3] }),
    ...nextLine(positions)];
}

function drawAll() {
  multiples.draw(all.map((of, column) => {
    const isTimed = of.data_time.every((time) => time !== null), positions = isTimed ? of.data_time : of.example;
    const events = abnormalAt(chosen.stream, column, of.example).map((i) => ({ kind: "anomaly", x: positions[i] }));
    const from = positions[0] ?? 0, to = positions[positions.length - 1] ?? 0;
    return { name: columnName(chosen.daemon, column), lines: both(of, positions), axis: isTimed ? "time" : "examples",
      log: false, events, spans: spansOf(chosen.stream, isTimed ? "data_time" : "example"), bounds: [from, to > from ? to : from + 1], robust: true, range: null,
      empty: positions.length ? "" : "no scored forecasts yet" };
  }), chosen.column);
}

// The title of the selection.
const nameShown = () => [chosen.stream, (all.length > 1 || chosen.column > 0 ||
  columnName(chosen.daemon, 0) !== "0") && columnName(chosen.daemon, chosen.column),
chosen.ahead && `${chosen.ahead} ahead`].filter(Boolean).join(" · ") || "Truth and forecast";

// The position of the next forecast, after the last one; null if unknown.
function nextAt() {
  const next = steps?.next;
  return next && next.prediction !== null ? next[timed() ? "data_time" : "example"] : null;
}

function nextLine(positions) {
  const x = nextAt(), { next, prediction } = steps, last = positions.length - 1;
  if (x === null) return [];
  const data = [[positions[last], prediction[last]], [x, next.prediction]]
    .map(([at, value]) => ({ x: at, y: value, value, raw: value }));
  const color = theme.colors.accent;
  const fan = next.fan.map(({ low, high }, n) =>
    ({ low: [steps.fan[n].low[last], low], high: [steps.fan[n].high[last], high] }));
  return [{ ...bands(fan, { low: [null, next.low], high: [null, next.high] }, 0.6), data, color, borderColor: color,
    borderWidth: 1.2, borderDash: [2, 2], pointRadius: [0, 3.5], pointBackgroundColor: color, pointBorderWidth: 0 }];
}

const timed = () => steps.data_time.every((time) => time !== null);

// The state of the last drawing; the panel is drawn again if it differs.
const painted = { steps: null, all: null, theme: 0, empty: null, abnormal: 0, limit: null };

// The score from which on there is an alarm.
const limit = () => (recording() ? null : daemons[chosen.daemon]?.loss?.anomaly?.threshold) ??
  limitOf(chosen.stream, run());

function paint() {
  if (!panel.plot) openPlot();
  const empty = whyEmpty();
  if (!steps && !gone) forecastSoon();
  if (painted.steps === steps && painted.all === all && painted.theme === theme.version && painted.empty === empty &&
    painted.abnormal === abnormal.version && painted.limit === limit()) return;
  Object.assign(painted, { steps, all, theme: theme.version, empty, abnormal: abnormal.version, limit: limit() });
  drawAll();
  panel.large.querySelector("h3 span").textContent = empty ? "Truth and forecast" : nameShown();
  const shares = (empty ? [] : steps.fan).map(({ share }) => +(100 * share).toFixed(2)).reverse();
  panel.large.querySelector(".legend .range").nextSibling.textContent =
    shares.length ? `${shares.join(", ")}% bands` : "90% band";
  const positions = empty ? [] : timed() ? steps.data_time : steps.example;
  panel.shown = empty ? [] : lines(positions);
  const from = positions[0], last = positions[positions.length - 1], next = panel.shown[3]?.data[1].x ?? -Infinity;
  const to = next > last ? next + MARGIN * (next - from) : last;
  const events = empty ? [] : abnormalAt(chosen.stream, chosen.column, steps.example)
    .map((i) => ({ kind: "anomaly", x: positions[i] }));
  const of = { axis: !empty && timed() ? "time" : "examples", log: false, events,
    spans: empty ? [] : spansOf(chosen.stream, timed() ? "data_time" : "example"), bounds: [from, to > from ? to : from + 1], empty };
  panel.plot.draw({ ...of, lines: panel.shown, robust: true, range: null });
  score.draw(steps, positions, limit(), of);
  if (chosen.around !== null) point(null);
  const summary = empty ? "" : [summarize(), ...(recording() || steps.run === undefined ? [] : ["From the recording."]), ...(panel.shown[3] ? [`Next: ${nextWords().join(", ")}.`] : [])].join(" ");
  if ($("forecast-summary").textContent !== summary) $("forecast-summary").textContent = summary;
  panel.plot.canvas.setAttribute("aria-label", `Truth and forecast: ${empty || summary}`);
}

function whyEmpty() {
  const daemon = daemons[chosen.daemon];
  if (loading.runs) return "loading";
  if (!recording() && !daemon?.status) return "waiting for a daemon";
  if (recording() && !store.runs.size) return "this recording contains no runs";
  if (!recording() && !daemon.status.predictions)
    return `${daemon.name} does not publish predictions: set statistics.predictions: true in its configuration`;
  if (!known) return "loading";
  if (!known.series.length && recording()) return "the recording contains no predictions of this run";
  if (!known.series.length && known["said"]) return whichClass(known["said"]);
  if (!known.series.length)
    return known.wordless ? "no chart: this daemon does not predict numbers"
      : "no scored forecasts yet";
  if (gone) return gone;
  if (!steps) return "loading";
  return steps.example.length ? "" : "no scored forecasts of this column yet";
}

// Classes have no chart: the newest truth and the most probable classes as text.
function whichClass({ stream, came, chance, prediction }) {
  const name = (word) => word ?? "unknown", of = stream ? ` of ${stream}` : "";
  const classes = prediction.words.map((word, i) => `${name(word)} ${percent(prediction.probabilities[i])}`);
  const likely = chance === undefined ? "" : ` (${number(100 * chance)}%)`;
  return `${came === undefined ? "" : `newest class${of}: ${name(came)}${likely}; `}forecast${came === undefined ? of : ""}: ${classes.join(", ")}`;
}

const nextWords = () => {
  const { prediction, low, high } = steps.next;
  return [`forecast ${number(prediction)}`, ...(low === null ? [] : [`${number(low)} … ${number(high)}`])];
};

// The share of truths in the band, and the root mean square errors over the same steps.
function summarize() {
  let seen = 0, held = 0, count = 0, ours = 0, theirs = 0;
  for (let i = 0; i < steps.example.length; i++) {
    const { target, prediction, baseline, low } = steps;
    if (target[i] === null) continue;
    if (low[i] !== null) {
      seen++;
      held += !isMiss(i);
    }
    if (prediction[i] === null || baseline[i] === null) continue;
    count++;
    ours += (prediction[i] - target[i]) ** 2;
    theirs += (baseline[i] - target[i]) ** 2;
  }
  const coverage = recording() ? null : daemons[chosen.daemon]?.loss?.coverage;
  const late = steps.fan.some(isBand) ? coverage?.levels?.[1] : coverage?.recent;
  const all = typeof late === "number" ? `; all columns recently ${percent(late)}` : "";
  const band = seen ? `The 90% band contains ${held} of ${seen} truths (${(100 * held / seen).toFixed(0)}%)${all}.`
    : "No band yet.";
  if (!count) return band;
  const errors = `rmse ${number(Math.sqrt(ours / count))}, baseline ${number(Math.sqrt(theirs / count))}`;
  return `${band} Over ${count} steps: ${errors}${theirs > 0 ? `, skill ${skill(1 - ours / theirs, true)}` : ""}.`;
}

// ---- Choices ----

// Fills a list; hides it with fewer than `least` entries.
function fill(id, entries, current, least = 2) {
  const list = $(id), key = JSON.stringify(entries);
  if (list.dataset.key !== key) {
    list.dataset.key = key;
    list.replaceChildren(...entries.map(([value, text]) => make("option", { value, textContent: text })));
  }
  if (list.value !== String(current)) list.value = current;
  list.parentElement.hidden = entries.length < least;
}

// Newest first.
const recordedRuns = () => [...store.runs.values()].sort((a, b) => b.id - a.id)
  .map((run) => [run.id, `${name(run)} ${run.run.slice(0, 4)}`]);

export function showChoices() {
  const sources = recording() ? recordedRuns() : daemons.map(({ name }, number) => [number, name]);
  if (!sources.some(([value]) => value === chosen.daemon)) chosen.daemon = sources[0]?.[0] ?? null;
  $("forecast-what").textContent = recording() ? "run" : "daemon";
  fill("forecast-daemon", sources, chosen.daemon);
  const series = known ? known.series : [];
  const streams = [...new Set(series.map(({ stream }) => stream))].sort();
  if (!streams.includes(chosen.stream)) chosen.stream = streams[0] ?? chosen.stream;
  const of = series.filter(({ stream }) => stream === chosen.stream).sort((a, b) => a.ahead - b.ahead);
  const one = of.find(({ ahead }) => ahead === chosen.ahead) || of[0];
  if (one) Object.assign(chosen, { ahead: one.ahead, column: Math.min(chosen.column, one.columns - 1) });
  fill("forecast-stream", streams.map((stream) => [stream, stream || "(no name)"]), chosen.stream, 1);
  fill("forecast-ahead", of.map(({ ahead }) => [ahead, ahead]), chosen.ahead);
  fill("forecast-column", Array.from({ length: one?.columns || 0 }, (_, i) => [i, columnName(chosen.daemon, i)]),
    chosen.column);
  $("forecast-points").parentElement.hidden = !series.length;
  $("forecast-newest").hidden = chosen.around === null;
  wantAnomalies(run(), false, (column) => columnName(chosen.daemon, column));
}

// The run of the anomalies.
const run = () => (recording() ? chosen.daemon : daemons[chosen.daemon]?.run_id ?? null);

// An event `anomaly` or `incident` of this run has arrived.
export function wasAbnormal(id) {
  if (id === run()) wantAnomalies(id, true);
}

// ---- Fetching ----

let timer = null, busy = false, fetched = -Infinity, listed = -Infinity, gathered = -Infinity;

// The server reports new predictions of a daemon.
export function predicted(number) {
  if (number === chosen.daemon && !view.paused && chosen.around === null) forecastSoon();
}

export function forecastSoon() {
  if (timer || busy || !panel?.inSight || chosen.daemon === null) return;
  timer = setTimeout(fetchNow, Math.max(0, fetched + FETCH_EVERY - performance.now()));
}

const source = () => (recording() ? { run: chosen.daemon } : { daemon: chosen.daemon });

async function fetchNow() {
  timer = null;
  busy = true;
  const { daemon, stream, ahead, column, points, around } = chosen;
  try {
    if (!known || known["said"] || performance.now() - listed > LIST_EVERY) {
      const list = await store.fetchForecasts(source());
      if (daemon === chosen.daemon) known = list;
      listed = performance.now();
      showChoices();
    }
    if (chosen.stream !== null && known?.series.length) await fetchSteps();
    if (steps && performance.now() - gathered > ALL_EVERY) await fetchAll();
  } catch (error) { // missing steps stay missing; else the next message fetches again
    if (error.status === GONE && around === chosen.around && stream === chosen.stream) gone = error.message;
  }
  busy = false;
  fetched = performance.now();
  if (stream !== chosen.stream || ahead !== chosen.ahead || column !== chosen.column || points !== chosen.points ||
    daemon !== chosen.daemon || around !== chosen.around) forecastSoon();
  redraw();
}

async function fetchSteps() {
  const { daemon, stream, ahead, column, points, around } = chosen;
  const place = around === null ? {} : { around };
  const answer = await store.fetchForecasts({ ...source(), stream, ahead, column, points, ...place });
  const still = daemon === chosen.daemon && stream === chosen.stream && ahead === chosen.ahead &&
    column === chosen.column && points === chosen.points && around === chosen.around;
  if (still && SHOWN.every((name) => Array.isArray(answer[name]))) steps = withFan(inOrder(answer));
}

// Fetches the steps of all columns.
async function fetchAll() {
  const { daemon, stream, ahead, points, around } = chosen;
  const one = known.series.find((series) => series.stream === stream && series.ahead === ahead);
  const columns = Array.from({ length: Math.min(MOST, one?.columns ?? 0) }, (_, column) => column);
  const place = around === null ? {} : { around };
  gathered = performance.now();
  const answers = columns.length < 2 ? [] : await Promise.all(columns.map((column) =>
    store.fetchForecasts({ ...source(), stream, ahead, column, points, ...place })));
  const still = daemon === chosen.daemon && stream === chosen.stream && ahead === chosen.ahead &&
    points === chosen.points && around === chosen.around;
  if (still) all = answers.map((answer) => withFan(inOrder(answer)));
}

// Adds `fan`: the bands between quantiles at levels p and 1 - p, outermost first. That of 90%
// replaces the interval.
function withFan(answer) {
  const { levels = [], quantiles, next } = answer, pairs = [];
  levels.forEach((level, i) => {
    const k = levels.findIndex((other) => Math.abs(level + other - 1) < TINY);
    if (k > i) pairs.push([1 - 2 * level, i, k]);
  });
  for (const [of, from] of [[answer, quantiles], ...(next ? [[next, next.quantiles]] : [])]) {
    of.fan = pairs.map(([share, i, k]) => ({ share, low: from[i], high: from[k] }));
    const { low, high } = of.fan.find(isBand) ?? of;
    Object.assign(of, { low, high });
  }
  return answer;
}

const isBand = ({ share }) => Math.abs(share - 0.9) < TINY;

// Sorts by data time if all steps have one; earlier values may have arrived later.
function inOrder(answer) {
  const { data_time: times } = answer;
  if (times.some((time) => time === null) || times.every((time, i) => i === 0 || time >= times[i - 1])) return answer;
  const order = times.map((_, i) => i).sort((a, b) => times[a] - times[b]);
  const sort = (values) => order.map((i) => values[i]);
  for (const name of [...SHOWN, "example", "data_time"]) answer[name] = sort(answer[name]);
  answer.quantiles = answer.quantiles?.map(sort);
  return answer;
}
