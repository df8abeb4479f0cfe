// The chart of an experiment: for each group of runs a line with the mean over its seeds and a band
// with the deviation, and dashed baselines. The legend below it shows the values under the pointer.

import { $, make } from "./dom.js";
import { Plot, theme } from "./draw.js";
import { grouped, number } from "./format.js";
import { DARK, DASHES, LIGHT } from "./palette.js";
import { Average } from "./panels.js";

const BAND_LEAST = 0.1; // of the mean: lower end of a band on a logarithmic axis
const BASELINE_DASH = [6, 4];

// The style of the n-th group, as in runnel-plot and reports.
export function styleOf(number) {
  const colors = theme.dark ? DARK : LIGHT;
  return { color: colors[number % colors.length], dash: DASHES[Math.floor(number / colors.length) % DASHES.length] };
}

// { data, low, high } of a curve. Smoothing uses only earlier points: the given share of the
// examples before a point.
function smoothed({ x, mean, deviation }, smooth, log, band) {
  const means = new Average(), deviations = new Average(), data = [], low = [], high = [];
  x.forEach((at, i) => {
    const tau = smooth * (at - (x[0] ?? 0)), known = mean[i] !== null;
    const value = !known || !smooth ? mean[i] : means.take(mean[i], at, tau);
    const wide = deviation[i] === null || !known ? null
      : smooth ? deviations.take(deviation[i], at, tau) : deviation[i];
    data.push({ x: at, y: value, value, raw: mean[i] });
    low.push(wide === null ? null : log ? Math.max(value - wide, BAND_LEAST * value) : value - wide);
    high.push(wide === null ? null : value + wide);
  });
  return { data, low: band ? low : null, high: band ? high : null };
}

function lineOf(curve, { color, dash }, id, view) {
  const line = smoothed(curve, view.smooth, view.log, view.band);
  return { ...line, spec: { band: "deviation" }, run: id, color, borderColor: color, borderDash: dash,
    borderWidth: 1.7, missing: [], marksMissing: false };
}

export class CurveChart {
  // `moved` is called with [from, to] of a zoom, or null for everything.
  constructor(element, legend, moved) {
    Object.assign(this, { plot: new Plot(element), legend, moved, lines: [], all: [0, 1], shown: [0, 1], cursor: null });
    this.plot.followPointer((x) => { this.cursor = x; this.showCursor(); }, moved);
  }

  // `groups`: with name, style and curve; `baselines`: curves; `view`: smooth, band, log, logX,
  // range.
  draw({ groups, baselines, view, empty }) {
    const { faint } = theme.colors;
    const lines = groups.map((group) => ({ ...lineOf(group.curve, group.style, group.id, view), group }));
    for (const curve of baselines)
      lines.push(lineOf({ ...curve, deviation: curve.x.map(() => null) }, { color: faint, dash: BASELINE_DASH },
        "baseline", view));
    const positions = lines.flatMap(({ data }) => (data.length ? [data[0].x, data[data.length - 1].x] : []));
    this.lines = lines;
    this.all = positions.length ? [Math.min(...positions), Math.max(...positions)] : [0, 1];
    if (!(this.all[1] > this.all[0])) this.all[1] = this.all[0] + 1;
    this.shown = view.range ?? this.all;
    this.plot.draw({ lines, axis: "examples", bounds: this.shown, log: view.log, logX: view.logX && this.shown[0] > 0,
      events: [], robust: true, empty: empty || (lines.length ? "" : "no finished run selected") });
    this.plot.canvas.setAttribute("aria-label", `${groups.length} curves: ${groups.map(({ name }) => name).join("; ")}`);
    this.showLegend(baselines.length > 0);
  }

  showLegend(withBaseline) {
    const entries = this.lines.filter(({ group }) => group);
    if (withBaseline) entries.push(this.lines[this.lines.length - 1]);
    this.legend.replaceChildren(...entries.map((line) => {
      const stroke = make("i", { className: line.borderDash.length ? "dashed" : "" });
      stroke.style.setProperty("--color", line.color);
      line.readout = make("b");
      return make("span", {}, stroke, line.group?.name ?? "baseline", " ", line.readout);
    }));
    this.showCursor();
  }

  showCursor() {
    const { cursor } = this;
    this.plot.showCursor(cursor);
    $("curves-at").textContent = cursor === null ? "" : `${grouped(cursor)} examples`;
    for (const line of this.lines)
      if (line.readout) line.readout.textContent = cursor === null ? "" : number(valueAt(line.data, cursor));
  }
}

// The value of the last point at or before a position.
function valueAt(data, position) {
  let found;
  for (const point of data) {
    if (point.x > position) break;
    found = point.value;
  }
  return found;
}
