// Controls beside the charts: switches, buttons, keys.

import { draw, drawSoon } from "./charts.js";
import { $, showSmooth } from "./dom.js";
import { setLayer, showDaemons, showEvents, showNumbers, showRuns, toggleDaemon } from "./lists.js";
import { controlSettings } from "./settings.js";
import { AXES, view } from "./state.js";
import { nextTheme, offerThemes } from "./theme.js";
import { goBack, keepView, pan, remember, setAxis, showAll, zoom } from "./view.js";

function redraw() {
  showDaemons();
  showRuns();
  showEvents();
  draw();
}

// ---- Switches ----

function setPaused(paused) {
  view.paused = paused;
  $("pause").setAttribute("aria-pressed", String(paused));
  $("pause").textContent = paused ? "continue" : "pause";
  draw();
}

function setSmooth(value) {
  view.smooth = value;
  showSmooth(value);
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

// ---- Keys ----

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
  if (tagName === "SELECT" || type === "range" || type === "search") return;
  if (event.key === " " && (tagName === "BUTTON" || tagName === "INPUT")) return;
  const act = KEYS[event.key] ||
    (/^[1-9]$/.test(event.key) ? () => toggleDaemon(Number(event.key) - 1) : null);
  if (!act) return;
  event.preventDefault();
  act();
}

export function control() {
  $("axis").value = view.axis;
  $("axis").addEventListener("change", () => setAxis($("axis").value));
  setSmooth(view.smooth);
  $("smooth").addEventListener("input", () => { setSmooth($("smooth").value / 100); keepView(); drawSoon(); });
  for (const key of ["band", "log", "marks"]) {
    $(key).checked = view[key];
    $(key).addEventListener("change", () => setSwitch(key, $(key).checked));
  }
  $("back").addEventListener("click", goBack);
  $("whole").addEventListener("click", () => { remember(); showAll(); });
  $("pause").addEventListener("click", () => setPaused(!view.paused));
  offerThemes(redraw);
  $("help-open").addEventListener("click", () => $("help").showModal());
  $("heat-run").addEventListener("change", () => { view.heat = Number($("heat-run").value); drawSoon(); });
  controlSettings();
  document.addEventListener("keydown", onKey);
  document.addEventListener("visibilitychange", drawSoon);
  addEventListener("resize", drawSoon);
  setInterval(showNumbers, 1000);
}
