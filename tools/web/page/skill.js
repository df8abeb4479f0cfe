// Tables of the newest `loss`: skill of each column, loss and weight of experts and members; and the
// histogram of its PITs.

import { $, make } from "./dom.js";
import { chosen } from "./forecast.js";
import { number, percent, skill } from "./format.js";
import { columnName, daemons, recording, store } from "./state.js";

const ROWS = 200; // maximum rows of a table

// Shows a table with these rows, and recreates it only if they have changed. `write` fills the
// cells of a row.
function showTable(id, head, keys, why, write) {
  const place = $(id).querySelector(".rows"), key = JSON.stringify([head, keys, why]);
  if (place.dataset.key !== key) {
    place.dataset.key = key;
    const rows = keys.slice(0, ROWS).map((name) => make("tr", {}, make("th", { scope: "row", textContent: name }),
      ...head.slice(1).map(() => make("td"))));
    const more = `${keys.length - ROWS} more`;
    const all = keys.length > ROWS ? [make("p", { className: "empty", textContent: more })] : [];
    place.replaceChildren(...(keys.length ? [make("table", {},
      make("thead", {}, make("tr", {}, ...head.map((text) => make("th", { textContent: text })))),
      make("tbody", {}, ...rows)), ...all] : [make("p", { className: "empty", textContent: why })]));
  }
  place.querySelectorAll("tbody tr").forEach((row, i) => write(keys[i], [...row.children].slice(1), i));
}

function put(cell, text, kind = "") {
  if (cell.textContent !== text) cell.textContent = text;
  cell.className = kind;
}

// The values of a recorded run are fetched whenever the run has grown.
const asked = { run: null, reached: null, loss: null };

function recordedLoss(run) {
  if (run && (asked.run !== run.id || asked.reached !== run.newest_examples)) {
    Object.assign(asked, { run: run.id, reached: run.newest_examples, loss: asked.run === run.id ? asked.loss : null });
    store.fetchSkill(run.id).then((answer) => {
      if (answer.run === asked.run) asked.loss = answer;
      showSkill();
    }).catch(() => { asked.reached = null; }); // the next second fetches again
  }
  return run && asked.loss;
}

const INTERVALS = [50, 90, 99, 99.9]; // percent, of coverage.levels

function showCalibration(loss) {
  const panel = $("panel-calibration"), pit = loss?.pit;
  panel.hidden = !Array.isArray(pit);
  if (panel.hidden) return;
  const bars = panel.querySelector(".pit"), held = loss.coverage?.levels ?? [];
  if (bars.children.length !== pit.length) bars.replaceChildren(...pit.map(() => make("i")));
  bars.style.setProperty("--most", Math.max(0.1, ...pit));
  pit.forEach((share, i) => bars.children[i].style.setProperty("--share", share));
  const [sentence, ...figures] = panel.querySelectorAll("p");
  put(sentence, loss.calibration ?? "too few true values yet", loss.calibration?.startsWith("calibrated") ? "" : "bad");
  put(figures[0], `Shares within: ${held.map((share, i) => `${INTERVALS[i]}% band ${percent(share)}`).join(", ")}.`);
  put(figures[1], `CRPS ${number(loss.crps?.mean)}, skill ${skill(loss.crps?.skill, true)}.`);
  bars.setAttribute("aria-label", `Histogram of true values in their distributions: ${sentence.textContent}`);
}

export function showSkill() {
  const loss = recording() ? recordedLoss(store.runs.get(chosen.daemon)) : daemons[chosen.daemon]?.loss;
  showCalibration(loss);
  const none = recording() && loss ? "not recorded for this run: no baseline, or an older version"
    : loss ? "not published by this daemon: no baseline, or an older version" : "no values yet";
  const columns = Array.isArray(loss?.columns) ? loss.columns : [];
  const scored = columns.some((column) => typeof column.crps === "number") ? ["crps"] : [];
  showTable("panel-columns", ["column", "rmse", "mae", ...scored, "skill"],
    columns.map((_, i) => columnName(chosen.daemon, i)), none, (_, [rmse, mae, ...more], i) => {
      const column = columns[i] || {};
      put(rmse, number(column.rmse));
      put(mae, number(column.mae));
      if (scored.length) put(more[0], number(column.crps));
      put(more[more.length - 1], skill(column.skill, true), column.skill < 0 ? "bad" : "");
    });
  const experts = loss?.experts && typeof loss.experts === "object" ? loss.experts : {};
  showTable("panel-experts", ["name", "mean loss", "weight"], Object.keys(experts),
    loss ? "no experts: they require scale: forecast or preset: symbols" : none, (name, [mean, weight]) => {
      const expert = experts[name] || {};
      put(mean, number(expert.mean));
      put(weight, percent(expert.weight), "weight");
      weight.style.setProperty("--share", Math.min(1, Math.max(0, expert.weight || 0)));
    });
}
