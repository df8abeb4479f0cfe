// The settings of the shown runs as a table of keys, filled when the user opens it.

import { $, make } from "./dom.js";
import { daemons, name, shownRuns, store } from "./state.js";

const known = new Map(); // run id -> { digest, settings } from the recording

// A running daemon's own configuration, which may have changed since it was recorded.
const live = (run) => daemons.find(({ run_id: id }) => id === run.id)?.status?.configuration;

const text = (value) => (typeof value === "string" ? value : JSON.stringify(value));

// Tags become keys such as "tags.site".
function flat(configuration) {
  const { tags, ...keys } = configuration ?? {};
  return Object.fromEntries([...Object.entries(keys), ...Object.entries(tags ?? {}).map(([key, value]) => [`tags.${key}`, value])]
    .map(([key, value]) => [key, text(value)]));
}

async function settingsOf(run) {
  const current = live(run);
  if (current) return flat(current);
  if (known.get(run.id)?.digest !== run.digest)
    known.set(run.id, { digest: run.digest, settings: flat(await store.fetchConfiguration(run.id).catch(() => null)) });
  return known.get(run.id).settings;
}

function isWanted(key, values, search, differences) {
  if (differences && values.every((value) => value === values[0])) return false;
  return !search || [key, ...values].some((word) => (word ?? "").toLowerCase().includes(search));
}

let asked = 0;

export async function showSettings() {
  if (!$("settings").open) return;
  const question = ++asked, runs = shownRuns(), all = await Promise.all(runs.map(settingsOf));
  if (question !== asked) return; // a newer call replaces this one
  const search = $("settings-search").value.trim().toLowerCase();
  const differences = $("settings-differences").checked && runs.length > 1;
  const keys = [...new Set(all.flatMap((settings) => Object.keys(settings)))];
  const rows = keys.map((key) => [key, all.map((settings) => settings[key])])
    .filter(([key, values]) => isWanted(key, values, search, differences));
  $("settings-table").replaceChildren(
    make("thead", {}, make("tr", {}, make("th", { textContent: "key" }),
      ...runs.map((run) => make("th", { textContent: `${name(run)} ${run.run.slice(0, 4)}${run.part ? `.${run.part}` : ""}` })))),
    make("tbody", {}, ...rows.map(([key, values]) => make("tr", {}, make("th", { textContent: key }),
      ...values.map((value) => make("td", { textContent: value ?? "–" }))))));
  $("no-settings").hidden = rows.length > 0;
  $("no-settings").textContent = !keys.length ? "no recorded settings of the selected runs"
    : differences && !search ? "the selected runs have the same settings" : "no key or value contains this text";
}

export function controlSettings() {
  $("settings").addEventListener("toggle", showSettings);
  $("settings-search").addEventListener("input", showSettings);
  $("settings-differences").addEventListener("change", showSettings);
}
