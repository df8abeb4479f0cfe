// The incidents and alarms of the run whose forecasts are shown: a list, and spans and marks in the
// chart.

import { $, make } from "./dom.js";
import { eventColor } from "./draw.js";
import { clock, duration, grouped, number, percent } from "./format.js";
import { store } from "./state.js";
import { isKept, showVerdict } from "./verdict.js";

const LISTED = 200;       // events in the list
const BLAMED = 3;         // columns of an incident in the list
const FETCH_AFTER = 300;  // ms, since more events may follow

// `version` changes with the rows. `rows` has one row per column: the oldest event first, and within
// an event the most abnormal column first.
export const abnormal = { version: 0, rows: [], incidents: [] };
let run = null, chain = "", timer = null, picked = null, pick = () => {}, nameOf = String;

// `onPick(stream, column, example)`: the user has selected an entry; the column may be null.
export function makeAnomalies(onPick) {
  pick = onPick;
  showList();
}

// Selects a run (null = none, 0 = not recorded yet); fetches if it has changed or `again`. `naming`
// returns a column's name for its number.
export function wantAnomalies(wanted, again = false, naming = nameOf) {
  nameOf = naming;
  const before = chain;
  chain = store.chain(wanted).join();
  if (wanted === run && chain === before && !again) return;
  if (wanted !== run) take([], []);
  run = wanted;
  if (run) timer ??= setTimeout(fetchNow, FETCH_AFTER);
}

async function fetchNow() {
  const asked = run;
  timer = null;
  try {
    const [{ anomalies }, ...found] = await Promise.all([store.fetchAnomalies({ run: asked }),
      ...store.chain(asked).reverse().map((id) => store.fetchEvents({ run: id, kind: "incident" }))]);
    if (asked === run) take(anomalies, found.flatMap(({ events }) => events));
  } catch { /* the next event fetches again */ }
}

const has = ({ streams, group, begin, end }, { stream, examples }) => examples >= begin.example &&
  !(examples > end?.example) && (streams.includes(stream) || (typeof group === "string" && stream.startsWith(group)));

// The newest message of an incident replaces the others. One that is followed by another of its
// stream has lost its end.
function take(rows, events) {
  const known = new Map();
  for (const { id, incident: one } of events)
    if (one?.begin && one.peak && Array.isArray(one.streams) && Array.isArray(one.columns))
      known.set(one.incident, { ...one, id: known.get(one.incident)?.id ?? id });
  const all = [...known.values()];
  for (const [i, one] of all.entries()) if (all.slice(i + 1).some(({ stream }) => stream === one.stream)) one.end ??= one.peak;
  for (const row of rows) {
    row.incident = all.findLast((one) => has(one, row));
    if (row.incident?.streams.includes(row.stream) === false) row.incident.streams.push(row.stream);
  }
  Object.assign(abnormal, { rows, incidents: all });
  abnormal.version++;
  showList();
}

const when = (row) => (row.data_time === null ? `example ${grouped(row.examples)}` : clock(row.data_time));

function what(row) {
  const column = row.column === null ? "" : `, column ${nameOf(row.column)}`;
  const values = row.truth === null ? "" : `: ${number(row.truth)}` +
    (row.forecast === null ? "" : `, forecast ${number(row.forecast)}`);
  return `${row.reason} ${number(row.score)}${column}${values}`;
}

// An incident as a row of the list. Its event is that of its begin.
function rowOf(incident) {
  const { id, begin, end, streams, peak, columns, silenced } = incident;
  const from = { data_time: begin.data_time, examples: begin.example };
  const seconds = end && end.data_time !== null && end.data_time - begin.data_time;
  const lasted = !end ? "" : `, ${typeof seconds === "number" ? duration(seconds) : `${grouped(end.example - begin.example)} examples`}`;
  const shares = columns.slice(0, BLAMED).map(({ column, name, share }) => `, ${name ?? `column ${nameOf(column)}`} ${percent(share)}`);
  return { ...from, event: id, incident, isIncident: true, stream: streams[0], column: columns[0]?.column ?? null,
    note: abnormal.rows.find((row) => row.incident === incident)?.note,
    title: streams.join(", "), when: `${end ? "" : "since "}${when(from)}`,
    what: `${peak.reason}${peak.score === null ? "" : ` ${number(peak.score)}`}${lasted}${shares.join("")}${silenced ? ", silenced" : ""}` };
}

function entry(row) {
  const dot = make("span", { className: "dot" });
  dot.style.setProperty("--color", eventColor("anomaly"));
  const button = make("button", { type: "button", title: "Show in the chart" }, dot,
    make("time", { textContent: row.when ?? when(row) }), make("b", { textContent: (row.title ?? row.stream) || "(no name)" }),
    make("span", { textContent: row.what ?? what(row) }),
    ...(row.note ? [make("span", { className: "note", textContent: row.note })] : []));
  button.setAttribute("aria-pressed", String(row.event === picked));
  button.addEventListener("click", () => {
    picked = row.event;
    showList();
    pick(row.stream, row.column, row.examples);
  });
  return make("li", { className: row.isIncident ? "incident" : row.incident ? "within" : "" }, button);
}

// Newest first, each alarm with its most abnormal column. The alarms of an incident are below it
// while it or one of them is selected.
function showList() {
  const seen = new Set(), alarms = [];
  for (const row of abnormal.rows) {
    if (!seen.has(row.event)) alarms.push(row);
    seen.add(row.event);
  }
  const rows = [...alarms.reverse(), ...abnormal.incidents.map(rowOf)];
  const chosen = rows.find(({ event }) => event === picked) ?? null;
  const shown = rows.filter(({ incident, isIncident }) => !incident || isIncident || incident === chosen?.incident);
  const place = ({ incident, event }) => incident?.id ?? event;
  shown.sort((a, b) => place(b) - place(a) || Boolean(b.isIncident) - Boolean(a.isIncident) || b.event - a.event);
  $("anomalies").replaceChildren(...shown.slice(0, LISTED).map(entry));
  $("no-anomalies").hidden = shown.length > 0;
  const alarm = chosen?.isIncident ? alarms.findLast(({ incident }) => incident === chosen.incident) ?? null : chosen;
  showVerdict(alarm, run, alarm === alarms.find((row) => row.stream === alarm?.stream && isKept(row)));
}

// Clears the selection.
export function unpick() {
  picked = null;
  showList();
}

// The indices of these examples (ascending) at which a stream's column was abnormal.
export function abnormalAt(stream, column, examples) {
  const found = [];
  for (const row of abnormal.rows) {
    if (row.stream !== stream || (row.column !== null && row.column !== column)) continue;
    const i = examples.findIndex((example) => example >= row.examples);
    if (i > 0 || (i === 0 && examples[0] === row.examples)) found.push(i);
  }
  return found;
}

// The spans of a stream's incidents; `place`: "example" or "data_time". Open ones have no end.
export function spansOf(stream, place) {
  return abnormal.incidents.filter(({ streams, begin }) => streams.includes(stream) && begin[place] !== null)
    .map(({ begin, end, silenced }) => ({ from: begin[place], to: end ? end[place] : Infinity, silenced }));
}
