// Lists around the charts: cards of daemons, tabs of layers, runs, events.

import { $, make } from "./dom.js";
import { eventColor } from "./draw.js";
import { showFleet } from "./fleet.js";
import { clock, counted, duration, grouped, number, percent, skill, splitNames } from "./format.js";
import { showSettings } from "./settings.js";
import { showSkill } from "./skill.js";
import { colorOf, daemons, dashOf, heatRun, isCurrent, isShare, layersOf, layersShown, name, palette, recording, showRun,
  shown, shownRuns, store, view } from "./state.js";
import { moved } from "./view.js";

const EVENTS_LISTED = 200;
const FIGURES = 8; // figures on a card
const TROUBLE = 3600; // seconds until an unchanged counter is no longer marked
const STATES = { expected: ["no messages yet", "warn"], silent: ["silent", "bad"], gone: ["gone", "bad"] };

// ---- Daemons ----

// Hides the default daemon without messages if there is something else to show.
export const isThere = ({ named, presence }) => named || presence !== "expected" || !(store.runs.size || recording());

export function showDaemons() {
  const parts = labels();
  for (const daemon of daemons) daemon.card = null;
  $("daemons").replaceChildren(...daemons.filter(isThere).map((daemon) => makeCard(daemon, parts)));
  showDaemonNumbers();
}

// Names, split into shared and own part; daemons with the same name also have their endpoint.
function labels() {
  const names = splitNames(daemons.map(({ name }) => name));
  const places = splitNames(daemons.map(({ endpoint }) => endpoint));
  const isDouble = (daemon) => daemons.some((other) => other !== daemon && other.name === daemon.name &&
    other.endpoint !== daemon.name);
  return daemons.map((daemon, i) => [...names[i], isDouble(daemon) ? ` ${places[i][1]}` : ""]);
}

function makeCard(daemon, parts) {
  const number = daemons.indexOf(daemon), [shared, own, place] = parts[number];
  const card = make("button", { type: "button", className: "daemon",
    title: `${daemon.name}, ${daemon.endpoint}: show or hide its run (${number + 1})` });
  card.append(
    make("span", { className: "top" },
      make("span", { className: "name" }, make("span", { className: "shared", textContent: shared }),
        make("span", { className: "own", textContent: own }),
        make("span", { className: "place", textContent: place })),
      make("span", { className: "state" })),
    make("span", { className: "model", textContent: modelOf(daemon), title: modelOf(daemon) }),
    make("span", { className: "model words" }),
    make("dl", {}, ...Array.from({ length: FIGURES }, () => make("div", {}, make("dt"), make("dd")))));
  card.style.setProperty("--color", palette()[number % palette().length]);
  card.addEventListener("click", () => toggleDaemon(number));
  daemon.card = card;
  daemon.lastMessage ??= performance.now() - 1000 * daemon.quiet;
  return card;
}

function modelOf(daemon) {
  const { status } = daemon;
  if (!status) return daemon.endpoint;
  const device = String(status.device).split(",")[0];
  const parameters = status.parameters === 0 ? "no network" : `${number(status.parameters)} parameters`;
  return `${status.model ?? "a network"} · ${parameters} · ${device}`;
}

// For example "host 4 of 20 words, newest db-7" for each vocabulary.
function wordsOf(status) {
  return Object.entries(status?.vocabulary ?? {}).map(([name, { size, capacity, newest }]) =>
    `${name} ${counted(size)} of ${counted(capacity)} words${newest.length ? `, newest ${newest[0] || "\"\""}` : ""}`)
    .join(" · ");
}

function stateOf(daemon) {
  if (daemon.refused) return [daemon.refused, "bad"];
  const quiet = (performance.now() - daemon.lastMessage) / 1000;
  if (daemon.presence === "speaking")
    return daemon.status?.replaying ? ["replaying", "warn"]
      : [daemon.status?.state || "connected", daemon.status?.state === "learning" ? "" : "warn"];
  const [text, kind] = STATES[daemon.presence];
  return [daemon.presence === "expected" ? text : `${text} for ${duration(quiet)}`, kind];
}

function showDaemonNumbers() {
  for (const daemon of daemons) {
    if (!daemon.card) continue;
    const [text, kind] = stateOf(daemon), state = daemon.card.querySelector(".state");
    const words = daemon.card.querySelector(".words"), vocabulary = wordsOf(daemon.status);
    if (words.textContent !== vocabulary) words.textContent = words.title = vocabulary;
    state.textContent = text;
    state.className = `state ${kind}`;
    daemon.card.classList.toggle("off", daemon.run_id !== null && !shown.has(daemon.run_id));
    const cells = daemon.card.querySelector("dl").children;
    figures(daemon).forEach((figure, i) => showFigure(cells[i], figure));
  }
}

function showFigure(cell, [term, value, kind = "", title = ""]) {
  const [dt, dd] = cell.children;
  if (dt.textContent !== term) dt.textContent = term;
  if (dd.textContent !== value) dd.textContent = value;
  dd.className = kind;
  cell.title = title;
}

// The value from the newer message that has it: `status` arrives even when nothing is learned.
function newest(status, loss, key) {
  const [older, newer] = (status?.time ?? 0) > (loss?.time ?? 0) ? [loss, status] : [status, loss];
  return newer?.[key] ?? older?.[key];
}

// Whether a counter of the run has not changed for a long time.
function isOver(run, column, count, now) {
  const series = store.get(run, "loss");
  const reached = series?.columns[column]?.maximum.findIndex((value) => value !== null && value >= count) ?? -1;
  return reached >= 0 && now - series.time[reached] > TROUBLE;
}

// Always the same number of figures, so that the layout does not move: [term, value, kind, title].
function figures({ status, loss, missed, run_id: run }) {
  const now = (key) => newest(status, loss, key);
  const { rmse, accuracy, bits } = loss?.metric || {};
  const metric = typeof accuracy === "number" ? ["accuracy", percent(accuracy)]
    : typeof bits === "number" ? ["bits", number(bits)] : ["rmse", number(rmse)];
  const trouble = (term, count) => [term, counted(count), count && !isOver(run, term, count, now("time")) ? "bad" : "none"];
  const unfinite = loss && loss.mean === null;
  return [["examples", counted(now("examples"))],
    ["loss", unfinite ? "not finite" : number(loss?.mean), unfinite ? "bad" : ""],
    metric, skillFigure(status, loss), ["ex/s", number(now("examples_per_second"))],
    ["queued", counted(loss?.queued), loss?.queued ? "" : "none"], trouble("rejected", now("rejected")),
    missed && !loss?.skipped ? ["missed", counted(missed)] : trouble("skipped", loss?.skipped)];
}

// Skill over the last tenth if known; below zero the baseline was better.
function skillFigure(status, loss) {
  const recent = loss?.skill_recent, known = typeof recent === "number";
  return ["skill", skill(known ? recent : loss?.skill, isShare(status?.model)), known && recent < 0 ? "bad" : "",
    `${known ? "over the last tenth" : "newest message"}; below zero the baseline is better`];
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
    .filter(Boolean).map(({ member, kind, size }) => `${member ? `${member} ` : ""}${kind} ${size}`))].join(", ");
  $("layers").replaceChildren(...Array.from({ length: count }, (_, number) => {
    const tab = make("button", { type: "button", textContent: `layer ${number}: ${kinds(number)}`,
      role: "tab", ariaSelected: String(number === view.layer) });
    tab.addEventListener("click", () => setLayer(number));
    return tab;
  }));
  const having = runs.filter((run) => layersOf(run) > view.layer);
  $("heat-run-label").hidden = having.length < 2;
  const chosen = heatRun(runs);
  const names = [...new Set(having.map(name))], parts = splitNames(names);
  $("heat-run").replaceChildren(...having.map((run) => {
    const [shared, own] = parts[names.indexOf(name(run))];
    return make("option", { value: run.id, textContent: `${shared ? "…" : ""}${own} ${digits(run)}`,
      title: name(run), selected: run === chosen });
  }));
}

export function setLayer(number) {
  if (number < 0 || number >= layersShown()) return;
  view.layer = number;
  showLayers();
  moved();
}

// ---- Runs and events ----

const reached = new Map(); // run id -> cells with start time and number of examples

function showRunNumbers() {
  for (const [id, cells] of reached) {
    const run = store.runs.get(id), begun = run?.first_time ?? null; // known from its first loss on
    const texts = [begun === null ? "–" : clock(begun), grouped(run?.newest_examples)];
    cells.forEach((cell, i) => { if (cell.textContent !== texts[i]) cell.textContent = texts[i]; });
  }
}

// Numbers that change with every message; called as often as a reader can follow.
export function showNumbers() {
  showDaemonNumbers();
  showFleet();
  showRunNumbers();
  showSkill();
}

export function showRuns() {
  const runs = [...store.runs.values()].sort((a, b) => b.id - a.id);
  reached.clear();
  $("runs").tBodies[0].replaceChildren(...runs.map((run) => {
    const box = make("input", { type: "checkbox", checked: shown.has(run.id),
      ariaLabel: `show run ${run.run}` });
    box.addEventListener("change", () => { showRun(run.id, box.checked); afterRuns(); });
    const swatch = make("span", { className: dashOf(run.id).length ? "swatch dashed" : "swatch" });
    swatch.style.setProperty("--color", colorOf(run.id));
    const label = make("td", {}, swatch, name(run), " ",
      make("span", { className: "faint", textContent: digits(run) }));
    if (isCurrent(run.id)) label.append(" ", make("span", { className: "now", textContent: "now" }));
    const tags = Object.entries(run.tags ?? {}).map(([key, text]) => `${key} ${text}`).join(" · ");
    if (tags) label.append(make("div", { className: "faint", textContent: tags }));
    reached.set(run.id, [make("td"), make("td")]);
    return make("tr", {}, make("td", {}, box), label, make("td", { className: "faint", textContent: run.model }),
      ...reached.get(run.id));
  }));
  $("no-runs").hidden = runs.length > 0;
  showRunNumbers();
  showSettings();
}

export function showEvents() {
  const runs = shownRuns();
  const all = runs.flatMap((run) => (store.events.get(run.id) || []).map((event) => ({ ...event, run })));
  all.sort((a, b) => b.time - a.time);
  $("no-events").hidden = all.length > 0;
  $("events").replaceChildren(...all.slice(0, EVENTS_LISTED).map((event) => {
    const dot = make("span", { className: "dot" });
    dot.style.setProperty("--color", eventColor(event.kind));
    return make("li", {}, dot, make("time", { textContent: clock(event.time) }),
      make("span", { textContent: event.text.startsWith(event.kind) ? event.text : `${event.kind}: ${event.text}` }));
  }));
}
