// The panels with their charts. A frame draws only a few, so that the page responds at once and the
// loss is up to date, however many charts are visible.

import { $, make } from "./dom.js";
import { Plot } from "./draw.js";
import { makeForecast } from "./forecast.js";
import { counted, duration, number, position } from "./format.js";
import { Heat, heatColor } from "./heat.js";
import { HEALTH, HIDDEN, LEARNING, Lines, SKILL } from "./panels.js";
import { handle, showCursor } from "./pointer.js";
import { bounds, daemons, eventsInView, hasExtent, heatRun, layersOf, loading, lossUnit, name,
  recording, shownRuns, store, view } from "./state.js";
import { advance, canGoBack, keepView } from "./view.js";

const FRAME_BUDGET = 8; // ms of a frame for charts; the rest waits
const DRAW_SHARE = 0.6; // maximum share of time spent on drawing

export const panels = [];
// For the console and for tests: number of drawings, and time of the first one.
export const drawing = { count: 0, firstChart: 0 };

// ---- Panels ----

const inSight = new IntersectionObserver((entries) => {
  for (const entry of entries) entry.target.panel.inSight = entry.isIntersecting;
  drawSoon();
}, { rootMargin: "150px" });

function makePanel(spec, isLayer) {
  const title = make("span", { textContent: spec.title });
  const unit = make("span", { className: "unit", textContent: spec.heat ? "" : " " });
  const select = make("select", { hidden: true, ariaLabel: "Figure" });
  const readout = make("span", { className: "readout" });
  const element = make("article", { className: spec.large ? "panel large" : "panel", id: `panel-${spec.id}` },
    make("h3", {}, title, select, unit, readout), make("div", { className: "plot" }));
  const panel = { spec, element, title, unit, select, readout, isLayer, heat: spec.heat,
    shown: [], inSight: false, waits: true, drawn: 0 };
  element.panel = panel;
  select.addEventListener("change", () => {
    spec.choice = spec.choices.find((choice) => choice.column === select.value);
    drawSoon();
  });
  return panel;
}

export function makePanels() {
  const groups = [[LEARNING, "learning", false], [SKILL, "skill", false], [HIDDEN, "hidden", true],
    [HEALTH, "health", false]];
  for (const [specs, place, isLayer] of groups)
    for (const spec of specs) {
      const panel = makePanel(spec, isLayer);
      panels.push(panel);
      if (place === "skill") $(place).prepend(panel.element);
      else $(place).append(panel.element);
      inSight.observe(panel.element);
    }
  const forecast = makeForecast(drawSoon, keepView);
  panels.push(forecast);
  inSight.observe(forecast.element);
  const heat = panels.find((panel) => panel.heat);
  heat.unit.replaceChildren("share of units", makeRamp(), "20%");
  panels[0].inSight = true; // draw it as soon as possible
}

function openPlot(panel) {
  const element = panel.element.querySelector(".plot"), { spec } = panel;
  panel.plot = spec.heat ? new Heat(element) : new Plot(element);
  panel.plot.format = spec.format;
  panel.lines = spec.heat ? null : new Lines(spec);
  handle(panel, panels);
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

// ---- Scheduling ----

let scheduled = false, rest = 0, written = () => {};

// `action` writes the numbers beside the charts after each drawing.
export function whenDrawn(action) {
  written = action;
}

// Draws all visible panels in one of the next frames.
export function drawSoon() {
  for (const panel of panels) panel.waits ||= panel.inSight;
  schedule();
}

function schedule() {
  if (scheduled || document.hidden || !window.Chart) return;
  scheduled = true;
  const wait = rest - performance.now();
  if (wait > 0) setTimeout(requestAnimationFrame, wait, drawFrame);
  else requestAnimationFrame(drawFrame);
}

// Draws the loss first, then the panels that have waited longest. A new panel has a separate
// frame, since creating a chart is slower than drawing it.
function drawFrame() {
  const begun = performance.now();
  scheduled = false;
  const state = look(), [first, ...others] = panels;
  const waiting = [first, ...others.sort((a, b) => a.drawn - b.drawn)]
    .filter((panel) => panel.waits && panel.inSight);
  for (const panel of waiting) {
    const opened = !panel.plot;
    drawPanel(panel, state);
    if (opened || performance.now() - begun > FRAME_BUDGET) break;
  }
  finish(state);
  rest = begun + (performance.now() - begun) / DRAW_SHARE;
  if (waiting.some((panel) => panel.waits)) schedule();
}

// Draws all visible panels now.
export function draw() {
  const state = look();
  for (const panel of panels) if (panel.inSight && window.Chart) drawPanel(panel, state);
  finish(state);
}

// State that all panels of one drawing share.
function look() {
  advance();
  const runs = shownRuns(), range = bounds();
  return { runs, range, events: eventsInView(runs),
    of: { axis: view.axis, band: view.band, smooth: view.smooth,
      width: view.from === null ? Infinity : roundedWidth(range) } };
}

// Rounded, so that dependent values are not computed for every step of a zoom.
function roundedWidth([from, to]) {
  return 2 ** (Math.floor(4 * Math.log2(Math.max(to - from, 1e-9))) / 4);
}

function finish({ range }) {
  showRange(range);
  showCursor(panels);
  written();
  drawing.count++;
  if (!drawing.firstChart && panels[0].shown.some((line) => line.data.length))
    drawing.firstChart = performance.now();
}

// ---- Drawing ----

function drawPanel(panel, { runs, range, events, of }) {
  const kind = panel.isLayer ? view.layer : "loss";
  panel.waits = false;
  panel.drawn = performance.now();
  if (panel.paint) {
    panel.paint();
    return;
  }
  if (!panel.plot) openPlot(panel);
  if (panel.heat) {
    const parts = heatParts(runs);
    panel.plot.draw({ parts, axis: view.axis, bounds: range,
      empty: parts.some(({ positions }) => positions.length) ? "" : whyEmpty(runs, kind) });
    return;
  }
  chooseColumn(panel, runs);
  const lines = panel.lines.build(store, runs, kind, of);
  panel.shown = lines;
  showUnit(panel, runs);
  const some = lines.some((line) => line.known || (line.marksMissing && line.data.length));
  const empty = some ? "" : whyEmpty(runs, kind);
  panel.plot.draw({ lines, axis: view.axis, bounds: range, log: view.log && Boolean(panel.spec.log),
    events, empty, robust: panel.spec.robust, reference: panel.spec.reference,
    range: panel.spec.choices ? panel.spec.choice.range : panel.spec.range });
  panel.plot.canvas.setAttribute("aria-label", describe(panel, lines, empty));
}

// The reason why a panel is empty.
function whyEmpty(runs, kind) {
  if (loading.runs) return "loading";
  if (!runs.length)
    return store.runs.size ? "no run selected"
      : recording() ? "this recording contains no runs"
        : daemons.some(({ presence }) => presence === "speaking") ? "no examples learned yet"
          : "waiting for a daemon";
  const having = kind === "loss" ? runs : runs.filter((run) => layersOf(run) > kind);
  if (!having.length) return "no layer statistics yet";
  const all = having.map((run) => store.get(run.id, kind));
  if (all.some((series) => !series)) return "loading";
  if (all.some((series) => series.length)) return "no values for this chart";
  return view.from === null ? `no loss yet${whenLoss(runs)}` : "no values in this range";
}

function whenLoss(runs) {
  const daemon = daemons.find(({ run_id, status }) => status && runs.some(({ id }) => id === run_id));
  if (!daemon?.status.every) return "";
  const { every, every_seconds: seconds } = daemon.status;
  return `: one every ${counted(every)} examples${seconds > 0 ? ` or ${duration(seconds)}` : ""}`;
}

// The server's unit of the column, unless the panel has its own. The unit of losses depends on the
// runs.
function showUnit({ spec, title, unit }, runs) {
  const of = spec.choices ? spec.choice : spec;
  const columns = (of.lines || [of]).map(({ column }) => store.column(column)).filter(Boolean);
  const text = of.unit ?? columns[0]?.unit ?? "";
  const shown = text === "nats" ? lossUnit(runs) : text;
  if (unit.textContent !== shown) unit.textContent = shown;
  title.title = columns.map(({ meaning }) => meaning).join("\n");
}

function describe(panel, lines, empty) {
  const newest = lines.map((line) => {
    const last = line.data[line.data.length - 1];
    return last ? `${name(line.run)} ${number(last.value)}` : "";
  });
  return `${panel.title.textContent}: ${empty || newest.filter(Boolean).join(", ")}`;
}

// Chooses the first column that the runs have.
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
  }
}

// The histograms of the chosen run and the runs that it resumed.
function heatParts(runs) {
  const run = heatRun(runs);
  return (run ? store.chain(run.id) : []).map((id) => [id, store.get(id, view.layer)])
    .filter(([, series]) => series?.histogram)
    .map(([id, series]) => ({ positions: store.positions(id, series, view.axis),
      histograms: series.histogram }));
}

function showRange([from, to]) {
  const words = { examples: "examples", steps: "steps", time: "", elapsed: "since the start" };
  const text = view.from === null ? "all" : view.follow ? "newest" : "zoom";
  $("range").textContent = !hasExtent() ? "" : `${text}: ${position(view.axis, from, to - from)} to ` +
    `${position(view.axis, to, to - from)} ${words[view.axis]}${view.paused ? " · paused" : ""}`;
  $("whole").disabled = view.from === null;
  $("back").disabled = !canGoBack();
}
