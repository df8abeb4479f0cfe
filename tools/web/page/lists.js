// What is around the charts: the daemons' cards, the layers' tabs, the list of runs, the events.

import { $, make } from "./dom.js";
import { eventColor } from "./draw.js";
import { clock, duration, grouped, number, percent } from "./format.js";
import { colorOf, daemons, heatRun, isCurrent, layersOf, layersShown, name, palette, showRun, shown,
  shownRuns, store, view } from "./state.js";
import { moved } from "./view.js";

const EVENTS_LISTED = 200;
const STATES = { expected: ["waiting for it", "warn"], silent: ["silent", "bad"], gone: ["gone", "bad"] };

// ---- Daemons ----

export function showDaemons() {
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
  return `${status.model ?? "a network"} · ${number(status.parameters)} parameters · ${String(status.device).split(",")[0]}`;
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

export function toggleDaemon(number) {
  const daemon = daemons[number];
  if (!daemon || daemon.run_id === null) return;
  const on = !shown.has(daemon.run_id);
  for (const id of store.chain(daemon.run_id)) showRun(id, on);
  afterRuns();
}

function afterRuns() {
  showLayers();
  showRuns();
  showEvents();
  moved();
}

// ---- Layers ----

const digits = (run) => run.run.slice(0, 4) + (run.part ? `.${run.part}` : "");

export function showLayers() {
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
  const having = runs.filter((run) => layersOf(run) > view.layer);
  $("heat-run-label").hidden = having.length < 2;
  const chosen = heatRun(runs);
  $("heat-run").replaceChildren(...having.map((run) => make("option", { value: run.id,
    textContent: `${name(run)} ${digits(run)}`, selected: run === chosen })));
}

export function setLayer(number) {
  if (number < 0 || number >= layersShown()) return;
  view.layer = number;
  showLayers();
  moved();
}

// ---- Runs and events ----

const reached = new Map(); // run id -> the cell with its number of examples

function showRunNumbers() {
  for (const [id, cell] of reached) {
    const text = grouped(store.runs.get(id)?.newest_examples);
    if (cell.textContent !== text) cell.textContent = text;
  }
}

// What changes with every message, as often as somebody could read it.
export function showNumbers() {
  showDaemonNumbers();
  showRunNumbers();
}

export function showRuns() {
  const runs = [...store.runs.values()].sort((a, b) => b.id - a.id);
  reached.clear();
  $("runs").tBodies[0].replaceChildren(...runs.map((run) => {
    const box = make("input", { type: "checkbox", checked: shown.has(run.id),
      ariaLabel: `show run ${run.run}` });
    box.addEventListener("change", () => { showRun(run.id, box.checked); afterRuns(); });
    const swatch = make("span", { className: "swatch" });
    swatch.style.setProperty("--color", colorOf(run.id));
    const label = make("td", {}, swatch, name(run), " ",
      make("span", { className: "faint", textContent: digits(run) }));
    if (isCurrent(run.id)) label.append(" ", make("span", { className: "now", textContent: "now" }));
    reached.set(run.id, make("td"));
    return make("tr", {}, make("td", {}, box), label, make("td", { className: "faint", textContent: run.model }),
      make("td", { textContent: run.first_time === null ? "–" : clock(run.first_time) }), reached.get(run.id));
  }));
  showRunNumbers();
}

export function showEvents() {
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
