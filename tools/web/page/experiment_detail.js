// The configuration of a run, or the differences between two.

import { $, make } from "./dom.js";
import { clock, grouped, number } from "./format.js";

const AROUND = 2; // lines shown around a difference

// [[sign, line]] of the shortest edit between two texts: " " in both, "-" only in the first, "+"
// only in the second.
export function difference(one, other) {
  const a = one.split("\n"), b = other.split("\n");
  const common = Array.from({ length: a.length + 1 }, () => new Uint16Array(b.length + 1));
  for (let i = a.length - 1; i >= 0; i--)
    for (let k = b.length - 1; k >= 0; k--)
      common[i][k] = a[i] === b[k] ? common[i + 1][k + 1] + 1 : Math.max(common[i + 1][k], common[i][k + 1]);
  const lines = [];
  let i = 0, k = 0;
  while (i < a.length || k < b.length) {
    if (i < a.length && k < b.length && a[i] === b[k]) {
      lines.push([" ", a[i++]]);
      k++;
    } else if (k < b.length && (i >= a.length || common[i][k + 1] > common[i + 1][k])) lines.push(["+", b[k++]]);
    else lines.push(["-", a[i++]]);
  }
  return lines;
}

// Leaves out lines far from any difference.
function shorten(lines) {
  const near = lines.map((_, i) => lines.slice(Math.max(0, i - AROUND), i + AROUND + 1).some(([sign]) => sign !== " "));
  return lines.flatMap((line, i) => (near[i] ? [line] : i && near[i - 1] ? [["", "…"]] : []));
}

const KINDS = { "+": "added", "-": "removed" };

function show(lines) {
  $("configuration").replaceChildren(...lines.map(([sign, line]) =>
    make("span", { className: KINDS[sign] ?? "", textContent: `${sign === "" ? "" : `${sign} `}${line}\n` })));
}

function facts(run, about) {
  const rows = [["state", about.values.state], ["error", run.error], ["seed", about.seed], ["examples", grouped(about.examples)],
    ["parameters", grouped(about.parameters)], ["seconds", about.seconds === undefined ? null : number(about.seconds)],
    ["started", about.started ? clock(about.started) : null], ["version", run.version], ["device", run.device],
    ["configuration digest", run.digest], ["data digest", run.data], ["loss digest", run.losses_digest],
    ["parameter digest", run.parameters_digest],
    ...run.experts.map((one) => [`${one.name}: loss, weight`, `${number(one.mean)}, ${number(one.weight)}`]),
    ...run.columns.map((one) => [`column ${one.name || one.column}: rmse, mae, skill`,
      `${number(one.rmse)}, ${number(one.mae)}, ${number(one.skill)}`])];
  return rows.filter(([, value]) => value !== null && value !== undefined && value !== "–")
    .map(([term, value]) => make("div", {}, make("dt", { textContent: term }), make("dd", { textContent: String(value) })));
}

export class Detail {
  constructor(experiment) {
    Object.assign(this, { experiment, asked: 0 });
    for (const id of ["run-one", "run-other"]) $(id).addEventListener("change", () => this.show().catch(fail));
  }

  // Fills the lists of runs in the given order.
  offer(runs, nameOf) {
    const options = (chosen) => runs.map((run) =>
      make("option", { value: run.run, textContent: `${run.run}: ${nameOf(run)}`, selected: String(run.run) === chosen }));
    for (const id of ["run-one", "run-other"]) {
      const chosen = $(id).value, none = make("option", { value: "", textContent: "–" });
      $(id).replaceChildren(none, ...options(chosen));
    }
  }

  choose(one, other) {
    $("run-one").value = one?.run ?? "";
    $("run-other").value = other?.run ?? "";
    return this.show();
  }

  async show() {
    const asked = ++this.asked, [one, other] = ["run-one", "run-other"].map((id) => $(id).value);
    if (!one) return this.clear("Select a run above or a row of the table.");
    const found = await Promise.all([one, other].filter(Boolean).map((id) => this.experiment.fetchRun(id)));
    if (asked !== this.asked) return undefined; // another run was selected meanwhile
    const about = this.experiment.runs.find(({ run }) => run === Number(one));
    $("facts").replaceChildren(...facts(found[0], about));
    const [a, b] = found.map(({ configuration }) => configuration);
    if (!a || (other && !b)) return this.clear("This run has not started. Its configuration appears with its results.", true);
    const lines = other ? shorten(difference(a, b)) : a.split("\n").map((line) => ["", line]);
    show(lines.length ? lines : [["", "Both runs have the same configuration."]]);
    return undefined;
  }

  clear(sentence, keepsFacts = false) {
    if (!keepsFacts) $("facts").replaceChildren();
    show([["", sentence]]);
  }
}

function fail(error) {
  show([["", error.message]]);
}
