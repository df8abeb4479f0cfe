// The page begins here: it asks for what is recorded, makes the panels, draws what is in sight when
// something has come, and then listens.

import { draw, drawing, drawSoon, makePanels, panels, whenDrawn } from "./charts.js";
import { control } from "./controls.js";
import { make } from "./dom.js";
import { theme } from "./draw.js";
import { showNumbers } from "./lists.js";
import { begin, fail, fetchSeries, listen } from "./live.js";
import { bounds, daemons, shown, store, view } from "./state.js";
import { restoreTheme } from "./theme.js";
import { keepView, readView, setRange, showAll, whenMoved } from "./view.js";

const FETCH_AFTER = 120; // ms after the last move of the view
const WRITE_EVERY = 250; // ms between two figures that somebody could read

// For the console, and for tests of the page.
window.runnel = { store, view, daemons, shown, panels, drawing, draw, setRange, showAll, bounds,
  colors: () => theme.colors };

let fetchTimer = null;
whenMoved(() => {
  drawSoon();
  clearTimeout(fetchTimer);
  fetchTimer = setTimeout(() => {
    keepView();
    fetchSeries().catch(fail);
  }, FETCH_AFTER);
});

// The last of them, too, when nothing comes after it.
let written = 0, writeTimer = null;
function write() {
  writeTimer = null;
  written = performance.now();
  showNumbers();
}
whenDrawn(() => {
  writeTimer ??= setTimeout(write, Math.max(0, written + WRITE_EVERY - performance.now()));
});

// The chart library takes its time to begin: it does so while the first answers are under way.
function chartLibrary() {
  return new Promise((resolve, reject) => {
    const fail = () => reject(new Error("the chart library did not load"));
    document.head.append(make("script", { src: "chart.js", onload: resolve, onerror: fail }));
  });
}

async function start() {
  restoreTheme();
  readView();
  listen();
  const loaded = begin();
  makePanels();
  control();
  const library = chartLibrary().then(() => {
    Chart.defaults.font.family = getComputedStyle(document.body).fontFamily;
    drawSoon();
  });
  await Promise.all([loaded, library]);
}

start().catch(fail);
