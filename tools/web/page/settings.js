// What the runs that are shown were configured to: a table of keys, folded until somebody opens it.

import { $, make } from "./dom.js";
import { daemons, name, shownRuns, store } from "./state.js";

const known = new Map(); // run id -> { digest, settings }: what the recording has of it

// Of a run that goes on what its daemon says, which may have been set a moment ago.
const live = (run) => daemons.find(({ run_id: id }) => id === run.id)?.status?.configuration;

const text = (value) => (typeof value === "string" ? value : JSON.stringify(value));

// "tags.site" is a key as all others.
function flat(configuration) {
  const { tags, ...keys } = configuration ?? {};
  return Object.fromEntries([...Object.entries(keys), ...Object.entries(tags ?? {}).map(([key, value]) => [`tags.${key}`, value])]
    .map(([key, value]) => [key, text(value)]));
}

async function settingsOf(run) {
  const said = live(run);
  if (said) return flat(said);
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
  if (question !== asked) return; // there is a newer one
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
  $("no-settings").textContent = !keys.length ? "nothing is recorded of the runs that are shown"
    : differences && !search ? "the runs that are shown have the same settings" : "no key or value has this in it";
}

export function controlSettings() {
  $("settings").addEventListener("toggle", showSettings);
  $("settings-search").addEventListener("input", showSettings);
  $("settings-differences").addEventListener("change", showSettings);
}
