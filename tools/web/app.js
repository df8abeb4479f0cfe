// The page: it keeps the view (which runs, along which axis, from where to where), draws what is in
// sight when something has come, and turns hands and keys into other views.

import { Store } from "./data.js";
import { eventColor, Plot, readTheme, theme } from "./draw.js";
import { clock, duration, grouped, number, percent, position } from "./format.js";
import { Heat, heatColor } from "./heat.js";
import { HEALTH, HIDDEN, LEARNING, Lines } from "./panels.js";

const DRAW_EVERY = 60;     // ms between two drawings of what comes live, at least,
const DRAW_SHARE = 0.5;    // and of the time at most so much is spent on them
const WRITE_EVERY = 250;   // ms between two figures that somebody could read
const FETCH_AFTER = 120;   // ms after the last move of the view
const EVENTS_LISTED = 200;
const AXES = ["examples", "steps", "time", "elapsed"];
// Told apart also by those who see fewer colours (after Okabe and Ito).
const PALETTES = {
  light: ["#1769aa", "#d55e00", "#00805f", "#a8479b", "#8a6d00", "#3f3fbf", "#b0304a", "#4d6470"],
  dark: ["#6cb6f0", "#ff9b52", "#4fd6ac", "#e58fd6", "#e8cf4a", "#a5a5ff", "#ff8a9d", "#a9bfca"],
};

const $ = (id) => document.getElementById(id);
const make = (tag, properties = {}, ...children) => {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children);
  return element;
};

const store = new Store();
const view = { axis: "examples", from: null, to: null, follow: false, smooth: 0.01, band: true,
  log: false, marks: true, layer: 0, paused: false, heat: null };
const before = [];         // views to go back to
const daemons = [];        // as /api/daemons has them
const shown = new Set();   // ids of runs
const hiddenByHand = new Set();
const colors = new Map();  // run id -> number in the palette
let panels = [];
let cursor = null;         // position of the pointer

// ---- What is shown ----

function palette() {
  return PALETTES[theme.dark ? "dark" : "light"];
}

function shownRuns() {
  return [...shown].filter((id) => store.runs.has(id)).sort((a, b) => a - b).map((id) => {
    const run = store.runs.get(id);
    run.color = palette()[(colors.get(id) ?? id) % palette().length];
    return run;
  });
}

// A daemon's runs are shown from the start: the present one, and those that it goes on from.
function adoptRuns() {
  daemons.forEach((daemon, number) => {
    if (daemon.run_id === null) return;
    for (const id of store.chain(daemon.run_id)) {
      if (!colors.has(id)) colors.set(id, number);
      if (!hiddenByHand.has(id)) shown.add(id);
    }
  });
  // Without a daemon to be seen, the newest recording is better than nothing.
  const newest = Math.max(...store.runs.keys());
  if (!shown.size && !hiddenByHand.size && Number.isFinite(newest)) shown.add(newest);
  let next = daemons.length;
  for (const id of store.runs.keys()) if (!colors.has(id)) colors.set(id, next++);
}

function isCurrent(id) {
  return daemons.some((daemon) => daemon.run_id === id);
}

function name(run) {
  return run.name || run.endpoint;
}

// ---- The view ----

// First and last position of the runs that are shown.
function extent() {
  let low = Infinity, high = -Infinity;
  for (const run of shownRuns()) {
    const origin = view.axis === "elapsed" ? store.origin(run.id) : 0;
    const key = view.axis === "elapsed" ? "time" : view.axis;
    if (run[`first_${key}`] === null || run[`first_${key}`] === undefined) continue;
    low = Math.min(low, run[`first_${key}`] - origin);
    high = Math.max(high, run[`newest_${key}`] - origin);
  }
  if (!(high >= low)) return [0, 1];
  return high > low ? [low, high] : [low, low + 1];
}

function bounds() {
  return view.from === null ? extent() : [view.from, view.to];
}

function remember() {
  before.push({ axis: view.axis, from: view.from, to: view.to, follow: view.follow });
  if (before.length > 50) before.shift();
}

function setRange(from, to) {
  const [first, last] = extent();
  const least = (last - first) * 1e-6 || 1e-9;
  if (!(to - from > least)) return;
  view.from = from;
  view.to = to;
  view.follow = to >= last - (to - from) * 0.01;
  moved();
}

function showAll() {
  view.from = view.to = null;
  view.follow = false;
  moved();
}

function zoom(factor, centre) {
  const [from, to] = bounds();
  const middle = centre ?? (from + to) / 2;
  remember();
  setRange(middle - (middle - from) * factor, middle + (to - middle) * factor);
}

function pan(share) {
  const [from, to] = bounds(), shift = (to - from) * share;
  remember();
  setRange(from + shift, to + shift);
}

function goBack() {
  const last = before.pop();
  if (!last) return showAll();
  Object.assign(view, last);
  $("axis").value = view.axis;
  return moved();
}

function setAxis(axis) {
  remember();
  Object.assign(view, { axis, from: null, to: null, follow: false });
  $("axis").value = axis;
  moved();
}

let fetchTimer = null;
function moved() {
  draw();
  clearTimeout(fetchTimer);
  fetchTimer = setTimeout(() => {
    keepView();
    fetchSeries().catch(fail);
  }, FETCH_AFTER);
}

// The address holds the view, so that it can be kept and sent.
function keepView() {
  const query = new URLSearchParams();
  if (view.axis !== "examples") query.set("axis", view.axis);
  if (view.from !== null && !view.follow) {
    query.set("from", view.from);
    query.set("to", view.to);
  }
  if (view.smooth !== 0.01) query.set("smooth", view.smooth);
  if (!view.band) query.set("band", 0);
  if (!view.marks) query.set("events", 0);
  if (view.log) query.set("log", 1);
  if (view.layer) query.set("layer", view.layer);
  const byHand = [...shown].filter((id) => !isCurrent(id));
  if (byHand.length) query.set("runs", byHand.join(","));
  const text = query.toString();
  history.replaceState(null, "", text ? `#${text}` : location.pathname);
}

function readView() {
  const query = new URLSearchParams(location.hash.slice(1));
  const value = (key) => (query.has(key) ? Number(query.get(key)) : null);
  if (AXES.includes(query.get("axis"))) view.axis = query.get("axis");
  if (value("from") !== null && value("to") > value("from"))
    Object.assign(view, { from: value("from"), to: value("to") });
  if (value("smooth") >= 0 && query.has("smooth")) view.smooth = Math.min(0.1, value("smooth"));
  view.band = query.get("band") !== "0";
  view.marks = query.get("events") !== "0";
  view.log = query.get("log") === "1";
  view.layer = Math.max(0, Math.floor(value("layer") || 0));
  for (const id of (query.get("runs") || "").split(",").map(Number)) if (id > 0) shown.add(id);
}

// ---- Fetching ----

function layersShown() {
  return Math.max(0, ...shownRuns().map((run) => (run.layers || []).length));
}

async function fetchOne(run, kind) {
  if (await store.load(run.id, kind, view)) drawSoon();
}

async function fetchSeries(events = false) {
  const runs = shownRuns();
  await Promise.all(runs.map((run) => fetchOne(run, "loss")));
  await Promise.all([
    ...runs.filter((run) => (run.layers || []).length > view.layer)
      .map((run) => fetchOne(run, view.layer)),
    ...runs.filter((run) => events || !store.events.has(run.id)).map((run) => store.loadEvents(run.id))]);
  drawSoon();
}

async function refresh() {
  const [list] = await Promise.all([store.fetchDaemons(), store.fetchRuns()]);
  daemons.splice(0, daemons.length, ...list);
  adoptRuns();
  showDaemons();
  showLayers();
  showRuns();
  await fetchSeries(true);
  showEvents();
}

let refreshTimer = null;
function refreshSoon() {
  refreshTimer ??= setTimeout(() => {
    refreshTimer = null;
    refresh().catch(fail);
  }, 300);
}

function fail(error) {
  say(error.message, true);
}

// ---- Live ----

function say(text, bad = false) {
  $("connection").textContent = text;
  $("connection").classList.toggle("bad", bad);
}

function listen() {
  const source = new EventSource("api/live");
  const on = (event, take) => source.addEventListener(event, (message) => take(JSON.parse(message.data)));
  source.onerror = () => say("runnel-web does not answer; trying again", true);
  // What came between the first look and this, or while there was no connection.
  on("hello", ({ version }) => {
    say(`live · version ${version}`);
    refreshSoon();
  });
  on("lost", refreshSoon);
  on("daemon", (daemon) => {
    Object.assign(daemons[daemon.daemon] || {}, daemon, { heardAt: performance.now() });
    showDaemons();
  });
  for (const topic of ["status", "loss", "state", "event"]) on(topic, (data) => take(topic, data));
}

function take(topic, { daemon: number, run_id: id, merged, message }) {
  const daemon = daemons[number];
  if (!daemon) return;
  daemon[topic] = message;
  daemon.quiet = 0;
  daemon.heardAt = performance.now();
  if (daemon.run_id !== id || !store.runs.has(id)) {
    daemon.run_id = id;
    refreshSoon();
  }
  for (const kind of store.take(topic, id, message, merged)) {
    const run = store.runs.get(id);
    if (run && (kind === "loss" || kind === view.layer)) fetchOne(run, kind).catch(fail);
  }
  if (topic === "event") showEvents();
  drawSoon();
}

// ---- Drawing ----

let drawn = 0, written = 0, drawTimer = null;
function drawSoon() {
  if (drawTimer || document.hidden || view.paused) return;
  const pause = Math.max(DRAW_EVERY, runnel.drawTime / DRAW_SHARE);
  const wait = Math.max(0, drawn + pause - performance.now());
  drawTimer = setTimeout(() => requestAnimationFrame(() => {
    drawTimer = null;
    draw();
  }), wait);
}

function advance() {
  if (!view.follow) return;
  const last = extent()[1], span = view.to - view.from;
  if (last <= view.to) return;
  view.to = last;
  view.from = last - span;
}

// Rounded, so that what depends on it is not computed anew for every point that comes.
function roundedSpan([from, to]) {
  return 2 ** (Math.floor(4 * Math.log2(Math.max(to - from, 1e-9))) / 4);
}

function eventsInView(runs) {
  const found = [];
  if (!view.marks) return found;
  for (const run of runs) {
    const origin = view.axis === "elapsed" ? store.origin(run.id) : 0;
    const key = view.axis === "elapsed" ? "time" : view.axis;
    for (const event of store.events.get(run.id) || [])
      found.push({ ...event, run, x: event[key] - origin });
  }
  return found.sort((a, b) => a.x - b.x);
}

function draw() {
  drawn = performance.now();
  advance();
  const runs = shownRuns(), range = bounds(), events = eventsInView(runs);
  const of = { axis: view.axis, band: view.band, smooth: view.smooth, span: roundedSpan(range) };
  const seen = panels.filter((panel) => panel.inSight);
  for (const panel of seen) if (panel.plot) drawPanel(panel, runs, of, range, events);
  openNext(seen.filter((panel) => !panel.plot), runs, of, range, events);
  showRange(range);
  if (cursor !== null) showCursor();
  if (drawn - written > WRITE_EVERY) showDaemonNumbers();
  runnel.drawings++;
  if (!runnel.firstChart && panels[0].shown.some((line) => line.data.length))
    runnel.firstChart = performance.now();
  runnel.drawTime = performance.now() - drawn;
}

// A chart is made when it is first seen, one in a frame: to make all takes longer than to draw them.
function openNext([panel, ...others], ...state) {
  if (!panel) return;
  if (!panel.plot) openPlot(panel);
  drawPanel(panel, ...state);
  requestAnimationFrame(() => openNext(others, ...state));
}

function drawPanel(panel, runs, of, range, events) {
  const kind = panel.isLayer ? view.layer : "loss";
  if (panel.heat) {
    panel.plot.draw({ parts: heatParts(runs), axis: view.axis, bounds: range });
    return;
  }
  chooseColumn(panel, runs);
  const lines = panel.lines.build(store, runs, kind, of);
  panel.shown = lines;
  panel.plot.draw({ lines, axis: view.axis, bounds: range, log: view.log && Boolean(panel.spec.log),
    events, range: panel.spec.choices ? panel.spec.choice.range : panel.spec.range });
  panel.plot.canvas.setAttribute("aria-label", describe(panel, lines));
}

function describe(panel, lines) {
  const newest = lines.map((line) => {
    const last = line.data[line.data.length - 1];
    return last ? `${name(line.run)} ${number(last.y)}` : "";
  });
  return `${panel.title.textContent}: ${newest.filter(Boolean).join(", ") || "nothing yet"}`;
}

// Of several columns the one that the runs have.
function chooseColumn(panel, runs) {
  const { spec } = panel;
  if (!spec.choices) return;
  const has = (choice) => runs.some((run) =>
    store.get(run.id, "loss")?.columns[choice.column]?.mean.some((value) => value !== null));
  const possible = spec.choices.filter(has);
  if (!possible.includes(spec.choice)) spec.choice = possible[0] || spec.choices[0];
  const key = possible.map((choice) => choice.column).join();
  if (panel.choiceKey !== key + spec.choice.column) {
    panel.choiceKey = key + spec.choice.column;
    const list = (possible.length ? possible : [spec.choice]).map((choice) =>
      make("option", { value: choice.column, textContent: choice.title,
        selected: choice === spec.choice }));
    panel.select.replaceChildren(...list);
    panel.title.textContent = list.length > 1 ? "" : spec.choice.title;
    panel.select.hidden = list.length < 2;
    panel.unit.textContent = spec.choice.unit;
  }
}

function showRange([from, to]) {
  const words = { examples: "examples", steps: "steps", time: "", elapsed: "since the start" };
  const text = view.from === null ? "all" : view.follow ? "newest" : "from";
  $("range").textContent = `${text}: ${position(view.axis, from, to - from)} to ` +
    `${position(view.axis, to, to - from)} ${words[view.axis]}${view.paused ? " · stopped" : ""}`;
  $("whole").disabled = view.from === null;
  $("back").disabled = !before.length;
}

// ---- Panels ----

const inSight = new IntersectionObserver((entries) => {
  for (const entry of entries) entry.target.panel.inSight = entry.isIntersecting;
  drawSoon();
}, { rootMargin: "150px" });

function makePanel(spec, isLayer) {
  const title = make("span", { textContent: spec.title });
  const unit = make("span", { className: "unit", textContent: spec.unit || "" });
  const select = make("select", { hidden: true, ariaLabel: "Which figure" });
  const readout = make("span", { className: "readout" });
  const plot = make("div", { className: "plot" });
  const element = make("article", { className: spec.large ? "panel large" : "panel", id: `panel-${spec.id}` },
    make("h3", {}, title, select, unit, readout), plot);
  const panel = { spec, element, title, unit, select, readout, isLayer, heat: spec.heat,
    shown: [], inSight: false };
  element.panel = panel;
  select.addEventListener("change", () => {
    spec.choice = spec.choices.find((choice) => choice.column === select.value);
    draw();
  });
  return panel;
}

function makePanels() {
  const groups = [[LEARNING, "learning", false], [HIDDEN, "hidden", true], [HEALTH, "health", false]];
  panels = groups.flatMap(([specs, place, isLayer]) => specs.map((spec) => {
    const panel = makePanel(spec, isLayer);
    $(place).append(panel.element);
    inSight.observe(panel.element);
    return panel;
  }));
  const heat = panels.find((panel) => panel.heat);
  heat.unit.replaceChildren("share of units", makeRamp(), "20%");
  panels[0].inSight = true; // as soon as there is something to be drawn
}

function openPlot(panel) {
  const plot = panel.element.querySelector(".plot"), { spec } = panel;
  panel.plot = spec.heat ? new Heat(plot) : new Plot(plot);
  panel.plot.format = spec.format;
  panel.lines = spec.heat ? null : new Lines(spec);
  handle(panel, plot);
}

function makeRamp() {
  const canvas = make("canvas", { width: 96, height: 1, className: "ramp" });
  const context = canvas.getContext("2d");
  for (let i = 0; i < 96; i++) {
    context.fillStyle = `rgb(${heatColor(Math.sqrt(i / 95)).join()})`;
    context.fillRect(i, 0, 1, 1);
  }
  return canvas;
}

function heatRun(runs) {
  const having = runs.filter((run) => (run.layers || []).length > view.layer);
  return having.find((run) => run.id === view.heat) ||
    having.filter((run) => isCurrent(run.id)).pop() || having[having.length - 1];
}

// The histograms of the chosen run, and of those that it went on from.
function heatParts(runs) {
  const run = heatRun(runs);
  return (run ? store.chain(run.id) : []).map((id) => [id, store.get(id, view.layer)])
    .filter(([, series]) => series?.histogram)
    .map(([id, series]) => ({ positions: store.positions(id, series, view.axis),
      histograms: series.histogram }));
}

// ---- Pointer ----

function handle(panel, element) {
  let start = null;
  const at = (event) => event.clientX - element.getBoundingClientRect().left;
  const inside = (pixel) => {
    const { left, right } = panel.plot.area();
    return Math.min(right, Math.max(left, pixel));
  };
  element.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    start = inside(at(event));
    element.setPointerCapture(event.pointerId);
  });
  element.addEventListener("pointermove", (event) => {
    cursor = panel.plot.toValue(inside(at(event)));
    showCursor();
    if (start !== null) showSelection(panel, start, inside(at(event)));
  });
  element.addEventListener("pointerup", (event) => {
    if (start === null) return;
    const end = inside(at(event)), from = Math.min(start, end), to = Math.max(start, end);
    start = null;
    showSelection(panel, 0, 0);
    if (to - from < 6) return;
    const range = [panel.plot.toValue(from), panel.plot.toValue(to)];
    remember();
    setRange(...range);
  });
  element.addEventListener("pointercancel", () => {
    start = null;
    showSelection(panel, 0, 0);
  });
  element.addEventListener("pointerleave", () => {
    cursor = null;
    showCursor();
  });
  element.addEventListener("dblclick", () => { remember(); showAll(); });
  element.addEventListener("wheel", (event) => {
    if (!event.ctrlKey) return;
    event.preventDefault();
    zoom(event.deltaY > 0 ? 1.25 : 0.8, panel.plot.toValue(inside(at(event))));
  }, { passive: false });
}

function showSelection(panel, from, to) {
  const { style } = panel.plot.selection, { top, bottom } = panel.plot.area();
  style.display = from === to ? "none" : "block";
  style.left = `${Math.min(from, to)}px`;
  style.width = `${Math.abs(to - from)}px`;
  style.top = `${top}px`;
  style.height = `${bottom - top}px`;
}

function showCursor() {
  const [from, to] = bounds();
  for (const panel of panels) {
    if (!panel.inSight || !panel.plot) continue;
    const { style } = panel.plot.cursor, visible = cursor !== null && cursor >= from && cursor <= to;
    style.display = visible ? "block" : "none";
    if (visible) {
      const { top, bottom } = panel.plot.area();
      style.left = `${panel.plot.toPixel(cursor)}px`;
      style.top = `${top}px`;
      style.height = `${bottom - top}px`;
    }
    showReadout(panel, visible);
  }
}

function showReadout(panel, visible) {
  if (!visible) return panel.readout.replaceChildren();
  const [from, to] = bounds(), parts = [make("span", { textContent: position(view.axis, cursor, to - from) })];
  if (panel.heat) return panel.readout.replaceChildren(...parts);
  for (const line of panel.shown) {
    const index = nearest(line.data, cursor);
    if (index >= 0) parts.push(readoutOf(line, index, panel.spec.format || number));
  }
  const event = nearestEvent((to - from) / 60);
  if (event) {
    const part = make("span", { textContent: `${event.kind}: ${event.text}` });
    part.style.color = eventColor(event.kind);
    parts.splice(1, 0, part);
  }
  return panel.readout.replaceChildren(...parts);
}

function readoutOf(line, index, write) {
  const dot = make("i");
  dot.style.setProperty("--color", line.color);
  const value = line.data[index].y, part = make("span", {}, dot);
  if (value === null) {
    part.append(make("span", { className: "bad", textContent: "no finite value" }));
    return part;
  }
  part.append(make("b", { textContent: write(value) }));
  if (line.low && line.low[index] !== null)
    part.append(` ${number(line.low[index])} … ${number(line.high[index])}`);
  return part;
}

function nearest(data, x) {
  let low = -1, high = data.length;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (data[middle].x <= x) low = middle;
    else high = middle;
  }
  if (low >= 0 && low + 1 < data.length && data[low + 1].x - x < x - data[low].x) return low + 1;
  return low >= 0 ? low : data.length ? 0 : -1;
}

function nearestEvent(within) {
  const close = eventsInView(shownRuns()).filter((event) => Math.abs(event.x - cursor) < within);
  return close.sort((a, b) => Math.abs(a.x - cursor) - Math.abs(b.x - cursor))[0];
}

// ---- Daemons, layers, runs, events ----

const STATES = { expected: ["waiting for it", "warn"], silent: ["silent", "bad"], gone: ["gone", "bad"] };

function showDaemons() {
  $("daemons").replaceChildren(...daemons.map((daemon, number) => {
    const card = make("button", { type: "button", className: "daemon",
      title: `show or hide its run (${number + 1})` });
    card.append(
      make("span", { className: "top" }, make("span", { className: "name", textContent: daemon.name }),
        make("span", { className: "state" })),
      make("span", { className: "model", textContent: modelOf(daemon), title: modelOf(daemon) }),
      make("dl"));
    card.style.setProperty("--color", palette()[number % palette().length]);
    card.addEventListener("click", () => toggleDaemon(number));
    daemon.card = card;
    daemon.heardAt ??= performance.now() - 1000 * daemon.quiet;
    return card;
  }));
  showDaemonNumbers();
}

function modelOf(daemon) {
  const { status } = daemon;
  if (!status) return daemon.endpoint;
  return `${status.model} · ${number(status.parameters)} parameters · ${String(status.device).split(",")[0]}`;
}

function stateOf(daemon) {
  if (daemon.refused) return [daemon.refused, "bad"];
  const quiet = (performance.now() - daemon.heardAt) / 1000;
  if (daemon.presence === "speaking")
    return daemon.status?.replaying ? ["learning again", "warn"]
      : [daemon.status?.state || "speaking", daemon.status?.state === "learning" ? "" : "warn"];
  const [text, kind] = STATES[daemon.presence];
  return [daemon.presence === "expected" ? text : `${text} for ${duration(quiet)}`, kind];
}

function showDaemonNumbers() {
  written = performance.now();
  for (const daemon of daemons) {
    if (!daemon.card) continue;
    const [text, kind] = stateOf(daemon), state = daemon.card.querySelector(".state");
    state.textContent = text;
    state.className = `state ${kind}`;
    daemon.card.classList.toggle("off", daemon.run_id !== null && !shown.has(daemon.run_id));
    const list = daemon.card.querySelector("dl");
    const entries = figures(daemon);
    list.replaceChildren(...entries.map(([term, value, bad]) => make("div", {},
      make("dt", { textContent: term }), make("dd", { textContent: value, className: bad ? "bad" : "" }))));
  }
}

function figures({ status, loss, missed }) {
  const all = [["examples", grouped((loss || status)?.examples)]];
  if (!loss) return all;
  all.push(["loss", loss.mean === null ? "no finite value" : number(loss.mean), loss.mean === null]);
  const { rmse, accuracy } = loss.metric || {};
  if (typeof rmse === "number") all.push(["rmse", number(rmse)]);
  if (typeof accuracy === "number") all.push(["accuracy", percent(accuracy)]);
  all.push(["ex/s", number(loss.examples_per_second)]);
  if (loss.queued) all.push(["queued", grouped(loss.queued)]);
  if (loss.rejected) all.push(["rejected", grouped(loss.rejected), true]);
  if (loss.skipped) all.push(["skipped updates", grouped(loss.skipped), true]);
  if (missed) all.push(["missed", grouped(missed)]);
  return all;
}

function toggleDaemon(number) {
  const daemon = daemons[number];
  if (!daemon || daemon.run_id === null) return;
  const on = !shown.has(daemon.run_id);
  for (const id of store.chain(daemon.run_id)) showRun(id, on);
  afterRuns();
}

function showRun(id, on) {
  if (on) {
    shown.add(id);
    hiddenByHand.delete(id);
  } else {
    shown.delete(id);
    hiddenByHand.add(id);
  }
}

function afterRuns() {
  showLayers();
  showRuns();
  showEvents();
  moved();
}

function showLayers() {
  const count = layersShown(), runs = shownRuns();
  if (view.layer >= count) view.layer = Math.max(0, count - 1);
  const kinds = (number) => [...new Set(runs.map((run) => (run.layers || [])[number])
    .filter(Boolean).map((layer) => `${layer.kind} ${layer.size}`))].join(", ");
  $("layers").replaceChildren(...Array.from({ length: count }, (_, number) => {
    const tab = make("button", { type: "button", textContent: `layer ${number}: ${kinds(number)}`,
      role: "tab", ariaSelected: String(number === view.layer) });
    tab.addEventListener("click", () => setLayer(number));
    return tab;
  }));
  const having = runs.filter((run) => (run.layers || []).length > view.layer);
  $("heat-run-label").hidden = having.length < 2;
  const chosen = heatRun(runs);
  $("heat-run").replaceChildren(...having.map((run) => make("option", { value: run.id,
    textContent: `${name(run)} ${run.run.slice(0, 4)}${run.part ? `.${run.part}` : ""}`,
    selected: run === chosen })));
}

function setLayer(number) {
  if (number < 0 || number >= layersShown()) return;
  view.layer = number;
  showLayers();
  moved();
}

function showRuns() {
  const runs = [...store.runs.values()].sort((a, b) => b.id - a.id);
  for (const run of runs) run.color = palette()[(colors.get(run.id) ?? run.id) % palette().length];
  $("runs").tBodies[0].replaceChildren(...runs.map((run) => {
    const box = make("input", { type: "checkbox", checked: shown.has(run.id),
      ariaLabel: `show run ${run.run}` });
    box.addEventListener("change", () => { showRun(run.id, box.checked); afterRuns(); });
    const swatch = make("span", { className: "swatch" });
    swatch.style.setProperty("--color", run.color);
    const label = make("td", {}, swatch, name(run), " ",
      make("span", { className: "faint", textContent: run.run.slice(0, 4) + (run.part ? `.${run.part}` : "") }));
    if (isCurrent(run.id)) label.append(" ", make("span", { className: "now", textContent: "now" }));
    return make("tr", {}, make("td", {}, box), label, make("td", { className: "faint", textContent: run.model }),
      make("td", { textContent: run.first_time === null ? "–" : clock(run.first_time) }),
      make("td", { textContent: grouped(run.newest_examples) }));
  }));
}

function showEvents() {
  const runs = shownRuns();
  const all = runs.flatMap((run) => (store.events.get(run.id) || []).map((event) => ({ ...event, run })));
  all.sort((a, b) => b.time - a.time);
  $("events").replaceChildren(...all.slice(0, EVENTS_LISTED).map((event) => {
    const dot = make("span", { className: "dot" });
    dot.style.setProperty("--color", eventColor(event.kind));
    return make("li", {}, dot, make("time", { textContent: clock(event.time) }),
      make("span", { textContent: event.text.startsWith(event.kind) ? event.text : `${event.kind}: ${event.text}` }));
  }));
}

// ---- Controls ----

function setTheme(choice) {
  const dark = choice === "dark" ||
    (choice === "system" && matchMedia("(prefers-color-scheme: dark)").matches);
  document.documentElement.dataset.theme = dark ? "dark" : "light";
  document.documentElement.dataset.choice = choice;
  $("theme").textContent = { light: "☀ light", dark: "☾ dark", system: "◐ system" }[choice];
  try { localStorage.setItem("theme", choice); } catch { /* it is then for this visit */ }
  readTheme();
}

function nextTheme() {
  const choices = ["system", "light", "dark"];
  setTheme(choices[(choices.indexOf(document.documentElement.dataset.choice) + 1) % 3]);
  showDaemons();
  showRuns();
  showEvents();
  draw();
}

function setPaused(paused) {
  view.paused = paused;
  $("pause").setAttribute("aria-pressed", String(paused));
  $("pause").textContent = paused ? "go on" : "pause";
  draw();
}

function setSmooth(value) {
  view.smooth = value;
  $("smooth").value = Math.round(value * 100);
  $("smooth-value").textContent = value ? `${Math.round(value * 100)}%` : "off";
}

function setSwitch(key, on) {
  view[key] = on;
  $(key).checked = on;
  keepView();
  draw();
}

let smoothBefore = 0.01;
function toggleSmooth() {
  if (view.smooth) smoothBefore = view.smooth;
  setSmooth(view.smooth ? 0 : smoothBefore);
  keepView();
  draw();
}

const KEYS = {
  ArrowLeft: () => pan(-0.25), ArrowRight: () => pan(0.25),
  "+": () => zoom(0.5), "=": () => zoom(0.5), "-": () => zoom(2), "−": () => zoom(2),
  0: () => { remember(); showAll(); }, Backspace: goBack,
  a: () => setAxis(AXES[(AXES.indexOf(view.axis) + 1) % AXES.length]),
  s: toggleSmooth, b: () => setSwitch("band", !view.band), l: () => setSwitch("log", !view.log),
  e: () => setSwitch("marks", !view.marks), d: nextTheme, " ": () => setPaused(!view.paused),
  ",": () => setLayer(view.layer - 1), ".": () => setLayer(view.layer + 1),
  "?": () => $("help").showModal(),
};

function onKey(event) {
  if (event.ctrlKey || event.altKey || event.metaKey || $("help").open) return;
  const { tagName, type } = event.target;
  if (tagName === "SELECT" || type === "range") return;
  if (event.key === " " && (tagName === "BUTTON" || tagName === "INPUT")) return;
  const act = KEYS[event.key] ||
    (/^[1-9]$/.test(event.key) ? () => toggleDaemon(Number(event.key) - 1) : null);
  if (!act) return;
  event.preventDefault();
  act();
}

function control() {
  $("axis").value = view.axis;
  $("axis").addEventListener("change", () => setAxis($("axis").value));
  setSmooth(view.smooth);
  $("smooth").addEventListener("input", () => { setSmooth($("smooth").value / 100); keepView(); draw(); });
  for (const key of ["band", "log", "marks"]) {
    $(key).checked = view[key];
    $(key).addEventListener("change", () => setSwitch(key, $(key).checked));
  }
  $("back").addEventListener("click", goBack);
  $("whole").addEventListener("click", () => { remember(); showAll(); });
  $("pause").addEventListener("click", () => setPaused(!view.paused));
  $("theme").addEventListener("click", nextTheme);
  $("help-open").addEventListener("click", () => $("help").showModal());
  $("heat-run").addEventListener("change", () => { view.heat = Number($("heat-run").value); draw(); });
  document.addEventListener("keydown", onKey);
  document.addEventListener("visibilitychange", drawSoon);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () =>
    setTheme(document.documentElement.dataset.choice));
  addEventListener("resize", drawSoon);
  setInterval(showDaemonNumbers, 1000);
}

// For the console, and for whoever tests the page.
const runnel = { store, view, daemons, shown, get panels() { return panels; }, drawings: 0, drawTime: 0, firstChart: 0,
  draw, setRange, showAll, bounds };
window.runnel = runnel;

async function start() {
  let choice = "system";
  try { choice = localStorage.getItem("theme") || "system"; } catch { /* as the system */ }
  setTheme(["light", "dark", "system"].includes(choice) ? choice : "system");
  if (!window.Chart) return say("the chart library did not load", true);
  Chart.defaults.font.family = getComputedStyle(document.body).fontFamily;
  const asked = [store.fetchColumns(), store.fetchDaemons(), store.fetchRuns()];
  readView();
  makePanels();
  control();
  const [, list] = await Promise.all(asked);
  daemons.push(...list);
  adoptRuns();
  const fetched = fetchSeries();
  showDaemons();
  showLayers();
  await fetched;
  listen();
  showRuns();
  showEvents();
  return undefined;
}

start().catch(fail);
