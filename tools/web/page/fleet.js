// The fleet that a daemon is in (docs/fleets.md): who is there, who has which partition, what waits.

import { $, make } from "./dom.js";
import { counted, number } from "./format.js";
import { daemons } from "./state.js";

// Of those that say so, what the newest has said.
function newest() {
  return daemons.map(({ status }) => status).filter((status) => status?.fleet?.members)
    .sort((a, b) => b.time - a.time)[0]?.fleet;
}

const row = (head, ...cells) => make("tr", {}, make("th", { textContent: head, title: head }),
  ...cells.map((textContent) => make("td", { textContent })));

function lagOf(owners, name) {
  const lags = (owners ?? []).filter(({ daemon }) => daemon === name).map(({ lag }) => lag);
  return lags.includes(null) ? "–" : counted(lags.reduce((sum, lag) => sum + lag, 0));
}

function memberRow([name, member], owners) {
  const line = row(name, member.state, counted(member.partitions), counted(member.examples),
    number(member.rate), owners ? lagOf(owners, name) : "–");
  line.children[1].className = member.state === "learning" ? "" : member.state === "gone" ? "bad" : "warn";
  return line;
}

const ownerRow = ({ daemon, committed, lag }, partition) =>
  row(String(partition), daemon ?? "nobody", counted(committed), lag === null ? "–" : counted(lag));

let written = "";

export function showFleet() {
  const fleet = newest();
  $("fleet").hidden = !fleet;
  const said = fleet ? JSON.stringify([fleet.members, fleet.owners]) : "";
  if (!fleet || said === written) return;
  written = said;
  $("fleet-name").textContent = `${fleet.group}: ${counted(fleet.daemons)} there, ${counted(fleet.of)} partitions`;
  $("fleet-members").tBodies[0].replaceChildren(
    ...Object.entries(fleet.members).map((member) => memberRow(member, fleet.owners)));
  $("fleet-owners").tBodies[0].replaceChildren(...(fleet.owners ?? []).map(ownerRow));
}
