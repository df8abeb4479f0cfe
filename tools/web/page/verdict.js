// What to say of the alarm that is chosen in the list: the page changes nothing in a daemon, so that it shows
// the commands to copy.

import { $, make } from "./dom.js";
import { daemons } from "./state.js";

const CONTROL = "tcp://127.0.0.1:5572"; // what runnel-ctl asks by itself
const COPIED = 1500; // ms for which the button says so

const plain = (text) => /^[\w.:\/@%+=-]+$/.test(text);
const quote = (text) => (plain(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);

// Of the daemon whose run it is, unless it is found without.
function connection(run) {
  const control = daemons.find((daemon) => daemon.run_id === run)?.status?.sockets?.control;
  return control && control !== CONTROL ? ` -c ${quote(control)}` : "";
}

// Of an alarm that can be named: by its time, or as the newest of its stream.
function commands(row, run, newest) {
  const timed = row.data_time !== null, kept = row.reason === "novelty" && row.column !== null;
  if (!(timed || (kept && newest)) || /[\u0000-\u001f\u007f]/.test(row.stream)) return [];
  const begin = `runnel-ctl${connection(run)}`, stream = (row.stream.startsWith("-") ? "-- " : "") + quote(row.stream);
  const at = timed ? ` ${kept ? "--at" : "--from"} @${row.data_time}` : "";
  return [...(kept ? [["It was none", `${begin} normal${at} ${stream}`]] : []),
    [kept ? "Do not learn it" : "Do not learn from then on", `${begin} abnormal${at} ${stream}`]];
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

// `row`: the alarm that is chosen, null: none; `newest`: whether it is the newest of novelty of its stream.
export function showVerdict(row, run, newest) {
  const found = row ? commands(row, run, newest) : [];
  $("verdict").replaceChildren(...found.map(entry));
  $("verdict").hidden = !found.length;
}
