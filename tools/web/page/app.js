// The start of the page: fetches the history, creates the panels, draws them, and listens for
// messages.

import { draw, drawing, drawSoon, makePanels, panels, whenDrawn } from "./charts.js";
import { control } from "./controls.js";
import { fail, loadCharts } from "./dom.js";
import { theme } from "./draw.js";
import { showNumbers } from "./lists.js";
import { begin, fetchSeries, listen } from "./live.js";
import { bounds, daemons, shown, store, view } from "./state.js";
import { restoreTheme } from "./theme.js";
import { keepView, readView, setRange, showAll, whenMoved } from "./view.js";

const FETCH_AFTER = 120; // ms after the last move of the view
const WRITE_EVERY = 250; // ms between two updates of displayed numbers

// For the console and for tests.
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

// Writes the last numbers before a pause, too.
let written = 0, writeTimer = null;
function write() {
  writeTimer = null;
  written = performance.now();
  showNumbers();
}
whenDrawn(() => {
  writeTimer ??= setTimeout(write, Math.max(0, written + WRITE_EVERY - performance.now()));
});

async function start() {
  restoreTheme();
  readView();
  listen();
  const loaded = begin();
  makePanels();
  control();
  await Promise.all([loaded, loadCharts().then(drawSoon)]);
}

start().catch(fail);
