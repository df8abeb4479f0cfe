// Data from the server: fetched when the view needs it, and live messages.

import { drawSoon } from "./charts.js";
import { layersIn } from "./data.js";
import { fail, showConnection } from "./dom.js";
import { forecastSoon, predicted, showChoices, wasAbnormal } from "./forecast.js";
import { isThere, showDaemons, showEvents, showLayers, showRuns } from "./lists.js";
import { showSettings } from "./settings.js";
import { adoptRuns, daemons, layersOf, loading, recording, setRecording, shownRuns, store, view } from "./state.js";
import { chooseAxis } from "./view.js";

const REFRESH_AFTER = 300;    // ms to wait for more messages before fetching
const TRY_AGAIN = 2000;       // ms
const RECORDED_AFTER = 1500;  // ms until a live message is recorded

async function fetchOne(run, kind) {
  if (await store.load(run.id, kind, view)) drawSoon();
}

// The losses first, since users look at them first.
export async function fetchSeries(events = false) {
  const runs = shownRuns();
  await Promise.all(runs.map((run) => fetchOne(run, "loss")));
  await Promise.all([
    ...runs.filter((run) => layersOf(run) > view.layer).map((run) => fetchOne(run, view.layer)),
    ...runs.filter((run) => events || !store.events.has(run.id)).map((run) => store.loadEvents(run.id))]);
  drawSoon();
}

// Live messages wait until the first answers have arrived.
let ready = false;
const early = [];

// Loads the lists of runs and daemons, then the series to show.
export async function load(asked = [store.fetchDaemons(), store.fetchRuns()]) {
  early.length = 0;
  const [{ daemons: list, recording: file }] = await Promise.all(asked);
  daemons.splice(0, daemons.length, ...list);
  setRecording(file);
  chooseAxis();
  adoptRuns();
  loading.runs = false;
  const fetched = fetchSeries(true);
  showDaemons();
  showLayers();
  showRuns();
  showChoices();
  forecastSoon();
  drawSoon();
  await fetched;
  showEvents();
  ready = true;
  for (const act of early.splice(0)) act();
}

let refreshTimer = null;
export function refreshSoon(after = REFRESH_AFTER) {
  refreshTimer ??= setTimeout(() => {
    refreshTimer = null;
    load().catch(failForNow);
  }, after);
}

function failForNow(error) {
  fail(error);
  refreshSoon(TRY_AGAIN);
}

// The first time.
export async function begin() {
  showConnection("loading");
  await load([store.fetchDaemons(), store.fetchRuns(), store.fetchColumns()]).catch(failForNow);
}

let greeted = false, source = null, version = "";

function greet() {
  const what = recording() ? `recording ${recording()}` : daemons.some(isThere) ? "live" : "no daemon connected";
  showConnection(`${what} · version ${version}`);
}

// A browser may keep a page that was left. It must close its connection, since the number of
// connections to a server is limited.
export function listen() {
  connect();
  addEventListener("pagehide", () => source.close());
  addEventListener("pageshow", ({ persisted }) => { if (persisted) connect(); });
}

function connect() {
  source = new EventSource("api/live");
  const on = (event, act) => source.addEventListener(event, (message) => {
    const data = JSON.parse(message.data);
    if (ready) act(data);
    else early.push(() => act(data));
  });
  source.onerror = () => showConnection("runnel-web does not answer; retrying", true);
  on("hello", (hello) => {
    version = hello.version;
    greet();
    if (greeted) refreshSoon(); // messages were lost without a connection
    greeted = true;
  });
  on("lost", () => refreshSoon());
  on("daemon", (daemon) => {
    Object.assign(daemons[daemon.daemon] || {}, daemon, { lastMessage: performance.now() - 1000 * daemon.quiet });
    showDaemons();
    greet();
  });
  on("prediction", ({ daemon }) => predicted(daemon));
  for (const topic of ["status", "loss", "state", "event"]) on(topic, (data) => take(topic, data));
}

// Whether this page has no earlier message of this kind from the run.
function isAhead(run, topic, message) {
  if (topic === "state") return layersIn(message).length > layersOf(run);
  return topic === "loss" && !run.recorded;
}

function take(topic, { daemon: number, run_id: id, merged, message }) {
  const daemon = daemons[number];
  if (!daemon) return;
  daemon[topic] = message;
  daemon.quiet = 0;
  daemon.lastMessage = performance.now();
  const run = store.runs.get(id);
  if (daemon.run_id !== id || !run) {
    daemon.run_id = id;
    refreshSoon();
  } else if (isAhead(run, topic, message)) {
    refreshSoon(RECORDED_AFTER);
  }
  for (const kind of store.take(topic, id, message, merged)) {
    if (run && (kind === "loss" || kind === view.layer)) fetchOne(run, kind).catch(fail);
  }
  if (topic === "event") showEvents();
  if (topic === "status") {
    showSettings();
    showChoices();
  }
  if (topic === "event" && ["anomaly", "incident"].includes(message.kind)) wasAbnormal(id);
  if (!view.paused) drawSoon();
}
