// The anomalies of the run whose forecasts are shown: a list, and marks in the chart.

import { $, make } from "./dom.js";
import { eventColor } from "./draw.js";
import { clock, grouped, number } from "./format.js";
import { store } from "./state.js";
import { isKept, showVerdict } from "./verdict.js";

const LISTED = 200;       // events in the list
const FETCH_AFTER = 300;  // ms, since more events may follow

// `version` changes with the rows. `rows` has one row per column: the oldest event first, and within
// an event the most abnormal column first.
export const abnormal = { version: 0, rows: [] };
let run = null, timer = null, picked = null, pick = () => {}, nameOf = String;

// `onPick(stream, column, example)`: the user has selected an entry; the column may be null.
export function makeAnomalies(onPick) {
  pick = onPick;
  showList();
}

// Selects a run (null = none); fetches if it has changed or `again`. `naming` returns a column's
// name for its number.
export function wantAnomalies(wanted, again = false, naming = nameOf) {
  nameOf = naming;
  if (wanted === run && !again) return;
  if (wanted !== run) take([]);
  run = wanted;
  if (run !== null) timer ??= setTimeout(fetchNow, FETCH_AFTER);
}

async function fetchNow() {
  const asked = run;
  timer = null;
  try {
    const { anomalies } = await store.fetchAnomalies({ run: asked });
    if (asked === run) take(anomalies);
  } catch { /* the next event fetches again */ }
}

function take(rows) {
  abnormal.rows = rows;
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

function entry(row) {
  const dot = make("span", { className: "dot" });
  dot.style.setProperty("--color", eventColor("anomaly"));
  const button = make("button", { type: "button", title: "Show in the chart" }, dot,
    make("time", { textContent: when(row) }), make("b", { textContent: row.stream || "(no name)" }),
    make("span", { textContent: what(row) }),
    ...(row.note ? [make("span", { className: "note", textContent: row.note })] : []));
  button.setAttribute("aria-pressed", String(row.event === picked));
  button.addEventListener("click", () => {
    picked = row.event;
    showList();
    pick(row.stream, row.column, row.examples);
  });
  return make("li", {}, button);
}

// Newest first, each event with its most abnormal column.
function showList() {
  const seen = new Set(), first = [];
  for (const row of abnormal.rows) {
    if (!seen.has(row.event)) first.push(row);
    seen.add(row.event);
  }
  $("anomalies").replaceChildren(...first.reverse().slice(0, LISTED).map(entry));
  $("no-anomalies").hidden = first.length > 0;
  const chosen = first.find(({ event }) => event === picked) ?? null;
  showVerdict(chosen, run, chosen === first.find((row) => row.stream === chosen?.stream && isKept(row)));
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
