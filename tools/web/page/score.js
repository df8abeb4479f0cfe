// Anomaly scores of the steps, below truth and forecast on the same axis, and the limit of an
// alarm.

import { abnormal } from "./anomalies.js";
import { make } from "./dom.js";
import { Plot, theme } from "./draw.js";
import { number } from "./format.js";
import { store } from "./state.js";

export class Score {
  constructor() {
    this.legend = make("p", { className: "legend", hidden: true },
      ...[["score", "anomaly score"], ["limit", "alarm"]].map(([kind, text]) =>
        make("span", {}, make("i", { className: kind }), text)));
    this.element = make("div", { className: "plot low", hidden: true });
    this.plot = null;
    this.shown = null; // drawn scores
  }

  // `of`: axis, bounds and events of the chart above; `threshold` null = unknown.
  draw(steps, positions, threshold, of) {
    const some = !of.empty && steps.score.some((score) => score !== null);
    this.shown = some ? steps.score : null;
    this.element.hidden = this.legend.hidden = !some;
    if (!some) return;
    this.plot ??= new Plot(this.element);
    const color = theme.colors.warn;
    const data = positions.map((x, i) => ({ x, y: steps.score[i], value: steps.score[i], raw: steps.score[i] }));
    this.plot.draw({ ...of, lines: [{ spec: {}, data, color, borderColor: color, borderWidth: 1.5, borderDash: [] }],
      range: [0, null], robust: false, reference: threshold ?? undefined });
    const greatest = Math.max(...steps.score);
    this.plot.canvas.setAttribute("aria-label",
      `Anomaly score: at most ${number(greatest)}${threshold === null ? "" : `, alarm at ${number(threshold)}`}`);
  }

  showCursor(x) {
    if (this.shown) this.plot.showCursor(x);
  }

  words(i) {
    return this.shown ? [`score ${number(this.shown[i])}`] : [];
  }
}

// The limit of a stream's score, from the run or from its alarms.
export function limitOf(stream, run) {
  const threshold = store.get(run, "loss")?.columns.anomaly_threshold?.mean.filter((value) => value !== null).pop();
  return threshold ?? abnormal.rows.filter((row) => row.stream === stream && row.reason === "novelty").pop()?.threshold ?? null;
}
