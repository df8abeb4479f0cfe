// Fleets of the daemons (docs/explanation/fleets.md): members, owners of partitions, and waiting
// messages.

import { $, make } from "./dom.js";
import { counted, number } from "./format.js";
import { daemons } from "./state.js";

// Groups with the same name at two brokers are two fleets.
const nameOf = ({ fleet, sockets }) => `${fleet.group} at ${sockets?.examples}`;

// The newest status of each fleet, by its name.
function newest() {
  const named = daemons.map(({ status }) => status).filter((status) => status?.fleet?.members)
    .sort((a, b) => a.time - b.time).map((status) => [nameOf(status), status.fleet]);
  return new Map([...new Map(named)].sort(([a], [b]) => (a < b ? -1 : 1)));
}

const row = (head, ...cells) => make("tr", {}, make("th", { textContent: head, title: head }),
  ...cells.map((textContent) => make("td", { textContent })));

// Partitions whose number of waiting messages (`lag`) is known.
const known = (owners) => owners.filter(({ lag }) => Number.isFinite(lag));
const sum = (owners) => counted(owners.reduce((all, { lag }) => all + lag, 0));
const waiting = (owners) => known(owners).length < owners.length ? "–" : sum(owners);

function heading(name, { daemons: there, of, owners, round }) {
  const reporting = known(owners ?? []), least = reporting.length < of ? "at least " : "";
  return [`${name}: ${counted(there)} ${there === 1 ? "daemon" : "daemons"}`,
    `${counted(of)} ${of === 1 ? "partition" : "partitions"}`,
    ...reporting.length ? [`${least}${sum(reporting)} waiting`] : [],
    ...Number.isFinite(round) ? [`averaging round ${counted(round)}`] : []].join(", ");
}

function memberRow([name, member], owners) {
  const line = row(name, member.state, counted(member.partitions), counted(member.examples),
    number(member.rate), owners ? waiting(owners.filter(({ daemon }) => daemon === name)) : "–");
  line.children[0].className = "name";
  line.children[1].className = member.state === "learning" ? "" : member.state === "gone" ? "bad" : "warn";
  return line;
}

function ownerRow(owner, partition) {
  const line = row(String(partition), owner.daemon ?? "unassigned", counted(owner.committed), waiting([owner]));
  line.children[1].className = owner.daemon === null ? "name warn" : "name";
  return line;
}

const sections = new Map(); // name -> its section and written status

function write(name, fleet, section) {
  section.querySelector(".what").textContent = heading(name, fleet);
  section.querySelector(".members").tBodies[0].replaceChildren(
    ...Object.entries(fleet.members).map((member) => memberRow(member, fleet.owners)));
  section.querySelector(".owners").tBodies[0].replaceChildren(...(fleet.owners ?? []).map(ownerRow));
}

// Creates sections of new fleets, and removes those of lost ones.
function arrange(fleets) {
  const names = [...fleets.keys()];
  if (names.length === sections.size && names.every((name) => sections.has(name))) return;
  sections.clear();
  for (const name of names)
    sections.set(name, { section: $("fleet").content.firstElementChild.cloneNode(true), written: "" });
  $("fleets").replaceChildren(...[...sections.values()].map(({ section }) => section));
  $("fleets").hidden = names.length === 0;
}

export function showFleet() {
  const fleets = newest();
  arrange(fleets);
  for (const [name, fleet] of fleets) {
    const one = sections.get(name), text = JSON.stringify(fleet);
    if (text === one.written) continue;
    one.written = text;
    write(fleets.size > 1 ? name : fleet.group, fleet, one.section);
  }
}
