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

// Messages in the broker that are not learned yet, as the partitions' owners say (`lag`).
const known = (owners) => owners.filter(({ lag }) => Number.isFinite(lag));
const sum = (owners) => counted(owners.reduce((all, { lag }) => all + lag, 0));
const waiting = (owners) => known(owners).length < owners.length ? "–" : sum(owners);

function heading({ group, daemons: there, of, owners, round }) {
  const told = known(owners ?? []), least = told.length < of ? "at least " : "";
  return [`${group}: ${counted(there)} ${there === 1 ? "daemon is" : "daemons are"} there`,
    `${counted(of)} ${of === 1 ? "partition" : "partitions"}`,
    ...told.length ? [`${least}${sum(told)} waiting`] : [],
    ...Number.isFinite(round) ? [`round ${counted(round)} of averages`] : []].join(", ");
}

function memberRow([name, member], owners) {
  const line = row(name, member.state, counted(member.partitions), counted(member.examples),
    number(member.rate), owners ? waiting(owners.filter(({ daemon }) => daemon === name)) : "–");
  line.children[0].className = "name";
  line.children[1].className = member.state === "learning" ? "" : member.state === "gone" ? "bad" : "warn";
  return line;
}

function ownerRow(owner, partition) {
  const line = row(String(partition), owner.daemon ?? "nobody", counted(owner.committed), waiting([owner]));
  line.children[1].className = owner.daemon === null ? "name warn" : "name";
  return line;
}

let written = "";

export function showFleet() {
  const fleet = newest();
  $("fleet").hidden = !fleet;
  const said = fleet ? JSON.stringify(fleet) : "";
  if (!fleet || said === written) return;
  written = said;
  $("fleet-name").textContent = heading(fleet);
  $("fleet-members").tBodies[0].replaceChildren(
    ...Object.entries(fleet.members).map((member) => memberRow(member, fleet.owners)));
  $("fleet-owners").tBodies[0].replaceChildren(...(fleet.owners ?? []).map(ownerRow));
}
