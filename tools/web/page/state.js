// What the page is about: what is recorded, the daemons, which runs are shown, and the view of them
// (along which axis, from where to where). Nothing here is drawn.

import { Store } from "./data.js";
import { theme } from "./draw.js";
import { DARK, DASHES, LIGHT } from "./palette.js";

const RECORDED = 8; // daemons of a recording that are shown at first

// Of several daemons time is the axis that they have in common, unless another one is chosen.
export const usualAxis = () => (daemons.length > 1 ? "time" : "examples");

export const AXES = ["examples", "steps", "time", "elapsed"];

export const store = new Store();
export const view = { axis: "examples", axisByHand: false, from: null, to: null, follow: false, smooth: 0.01, band: true,
  log: false, marks: true, layer: 0, paused: false, heat: null };
export const daemons = [];      // as /api/daemons has them
export const shown = new Set(); // ids of runs
export const loading = { runs: true }; // until the first answers have come
const shownRecording = { name: null }; // instead of daemons
const hiddenByHand = new Set();
const colors = new Map();       // run id -> number in the palette

// The file whose runs are shown, when it is a recording; null where daemons are watched.
export function recording() {
  return shownRecording.name;
}

export function setRecording(name) {
  shownRecording.name = name;
}

// The name of a daemon's target (from 0) where its columns have names, else the number.
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

// Of runs beyond as many as there are colours.
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

// A daemon's runs are shown from the start: the present one, and those that it resumed.
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

// Without a daemon to be seen: the newest run; of a recording the newest of each daemon, with those before it.
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

// The run whose histograms are shown: the one that was chosen, or the newest.
export function heatRun(runs) {
  const having = runs.filter((run) => layersOf(run) > view.layer);
  return having.find((run) => run.id === view.heat) ||
    having.filter((run) => isCurrent(run.id)).pop() || having[having.length - 1];
}

// What the losses of these runs are measured in, from the network in words: "real 8 > gru 32 norm >
// squared 8, next". A squared error is no likelihood.
export function lossUnit(runs) {
  const squared = runs.filter((run) => / > squared /.test(run.model)).length;
  if (!runs.length) return "";
  return squared === 0 ? "nats" : squared === runs.length ? "squared error" : "nats or squared error";
}

// Whether a network's skill is a share of the baseline's loss: else it is a difference, in nats.
export function isShare(model) {
  return / > squared /.test(model ?? " > squared ");
}

// ---- Where the view is ----

const key = () => (view.axis === "elapsed" ? "time" : view.axis);
const originOf = (run) => (view.axis === "elapsed" ? store.origin(run.id) : 0);

// First and last position of the runs that are shown.
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

// Whether anything is there to have one.
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
