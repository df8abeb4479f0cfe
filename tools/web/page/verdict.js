// Commands for the selected alarm, to be copied: the page itself cannot change a daemon.

import { $, make } from "./dom.js";
import { daemons } from "./state.js";

const CONTROL = "tcp://127.0.0.1:5572"; // default of runnel-ctl
const COPIED = 1500; // ms to show "copied"

const plain = (text) => /^[\w.:\/@%+=-]+$/.test(text);
const quote = (text) => (plain(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);

// The option -c, unless the daemon of the run has the default socket.
function connection(run) {
  const control = daemons.find((daemon) => daemon.run_id === run)?.status?.sockets?.control;
  return control && control !== CONTROL ? ` -c ${quote(control)}` : "";
}

// Whether the daemon keeps such an alarm, to mark it as normal.
export const isKept = ({ reason }) => reason === "novelty" || reason === "level";

// Commands for an alarm that has a time or is the newest of its stream.
function commands(row, run, newest) {
  const timed = row.data_time !== null, kept = isKept(row) && row.column !== null;
  if (!(timed || (kept && newest)) || /[\u0000-\u001f\u007f]/.test(row.stream)) return [];
  const begin = `runnel-ctl${connection(run)}`, stream = (row.stream.startsWith("-") ? "-- " : "") + quote(row.stream);
  const at = timed ? ` ${kept ? "--at" : "--from"} @${row.data_time}` : "";
  return [...(kept ? [["Mark as normal", `${begin} normal${row.reason === "level" ? " --reason level" : ""}${at} ${stream}`]] : []),
    [kept ? "Unlearn it" : "Unlearn from this time on", `${begin} abnormal${at} ${stream}`]];
}

function entry([title, command]) {
  const code = make("code", { textContent: command });
  const copy = make("button", { type: "button", textContent: "copy", hidden: !navigator.clipboard });
  copy.setAttribute("aria-label", `Copy: ${command}`);
  copy.addEventListener("click", async () => {
    await navigator.clipboard.writeText(command);
    copy.textContent = "copied";
    setTimeout(() => { copy.textContent = "copy"; }, COPIED);
  });
  return make("p", {}, make("span", { textContent: `${title}:` }), code, copy);
}

// `row`: the selected alarm, null = none; `newest`: whether it is the newest kept alarm of its
// stream.
export function showVerdict(row, run, newest) {
  const found = row ? commands(row, run, newest) : [];
  $("verdict").replaceChildren(...found.map(entry));
  $("verdict").hidden = !found.length;
}
