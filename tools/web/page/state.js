// The state of the page: recorded runs, daemons, shown runs, and the view (axis and range).

import { Store } from "./data.js";
import { theme } from "./draw.js";
import { DARK, DASHES, LIGHT } from "./palette.js";

const RECORDED = 8; // daemons of a recording that are shown at first

// Several daemons have only time as a common axis; the user can select another one.
export const usualAxis = () => (daemons.length > 1 ? "time" : "examples");

export const AXES = ["examples", "steps", "time", "elapsed"];

export const store = new Store();
export const view = { axis: "examples", axisByHand: false, from: null, to: null, follow: false, smooth: 0.01, band: true,
  log: false, marks: true, layer: 0, paused: false, heat: null };
export const daemons = [];      // from /api/daemons
export const shown = new Set(); // ids of runs
export const loading = { runs: true }; // until the first answers have arrived
const shownRecording = { name: null }; // name of the recording that is shown instead of daemons
const hiddenByHand = new Set();
const colors = new Map();       // run id -> number in the palette

// The file name of the recording; null when daemons are watched.
export function recording() {
  return shownRecording.name;
}

export function setRecording(name) {
  shownRecording.name = name;
}

// The name of a daemon's target (from 0), else its number.
export function columnName(daemon, number) {
  const names = recording() ? "" : daemons[daemon]?.status?.target_names;
  return (names && names.split(", ")[number]) || String(number);
}

// ---- Runs ----

export function palette() {
  return theme.dark ? DARK : LIGHT;
}

const numberOf = (id) => colors.get(id) ?? id;

export function colorOf(id) {
  return palette()[numberOf(id) % palette().length];
}

// Dashes of runs beyond the number of colours.
export function dashOf(id) {
  return DASHES[Math.floor(numberOf(id) / LIGHT.length) % DASHES.length];
}

export function shownRuns() {
  return [...shown].filter((id) => store.runs.has(id)).sort((a, b) => a - b).map((id) => {
    const run = store.runs.get(id);
    run.color = colorOf(id);
    run.dash = dashOf(id);
    return run;
  });
}

// Shows the present run of each daemon and those that it resumed.
export function adoptRuns() {
  daemons.forEach((daemon, number) => {
    if (daemon.run_id === null) return;
    for (const id of store.chain(daemon.run_id)) {
      if (!colors.has(id)) colors.set(id, number);
      if (!hiddenByHand.has(id)) shown.add(id);
    }
  });
  if (!shown.size && !hiddenByHand.size) showRecorded();
  let next = Math.max(daemons.length, ...[...colors.values()].map((color) => color + 1));
  for (const id of store.runs.keys()) if (!colors.has(id)) colors.set(id, next++);
}

// Without daemons, shows the newest run, or the newest of each daemon of a recording, and those
// that they resumed.
function showRecorded() {
  const newest = new Map();
  for (const run of [...store.runs.values()].sort((a, b) => b.id - a.id)) {
    const daemon = `${run.endpoint} ${run.name}`;
    if (!newest.has(daemon) && newest.size < (recording() ? RECORDED : 1)) newest.set(daemon, run.id);
  }
  [...newest.values()].reverse().forEach((id, number) => {
    for (const before of store.chain(id)) {
      colors.set(before, number);
      shown.add(before);
    }
  });
}

export function showRun(id, on) {
  if (on) {
    shown.add(id);
    hiddenByHand.delete(id);
  } else {
    shown.delete(id);
    hiddenByHand.add(id);
  }
}

export function isCurrent(id) {
  return daemons.some((daemon) => daemon.run_id === id);
}

export function name(run) {
  return run.name || run.endpoint;
}

export function layersOf(run) {
  return (run.layers || []).length;
}

export function layersShown() {
  return Math.max(0, ...shownRuns().map(layersOf));
}

// The run of the histogram: the selected or the newest one.
export function heatRun(runs) {
  const having = runs.filter((run) => layersOf(run) > view.layer);
  return having.find((run) => run.id === view.heat) ||
    having.filter((run) => isCurrent(run.id)).pop() || having[having.length - 1];
}

// The unit of the losses of these runs, from the description of the network: "real 8 > gru 32 norm
// > squared 8, next".
export function lossUnit(runs) {
  const squared = runs.filter((run) => / > squared /.test(run.model)).length;
  if (!runs.length) return "";
  return squared === 0 ? "nats" : squared === runs.length ? "squared error" : "nats or squared error";
}

// Whether a network's skill is a share of the baseline's loss, else a difference in nats.
export function isShare(model) {
  return / > squared /.test(model ?? " > squared ");
}

// ---- Range of the view ----

const key = () => (view.axis === "elapsed" ? "time" : view.axis);
const originOf = (run) => (view.axis === "elapsed" ? store.origin(run.id) : 0);

// First and last position of the shown runs.
export function extent() {
  let low = Infinity, high = -Infinity;
  for (const run of shownRuns()) {
    const first = run[`first_${key()}`];
    if (first === null || first === undefined) continue;
    low = Math.min(low, first - originOf(run));
    high = Math.max(high, run[`newest_${key()}`] - originOf(run));
  }
  if (!(high >= low)) return [0, 1];
  return high > low ? [low, high] : [low, low + 1];
}

// Whether any shown run has a position.
export function hasExtent() {
  return shownRuns().some((run) => typeof run[`first_${key()}`] === "number");
}

export function bounds() {
  return view.from === null ? extent() : [view.from, view.to];
}

export function eventsInView(runs) {
  const found = [];
  if (!view.marks) return found;
  for (const run of runs)
    for (const event of store.events.get(run.id) || [])
      found.push({ ...event, run, x: event[key()] - originOf(run) });
  return found.sort((a, b) => a.x - b.x);
}
