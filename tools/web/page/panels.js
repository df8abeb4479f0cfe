// The list of charts, and their lines from series.

import { microseconds } from "./format.js";

// unit: replaces the server's unit.
// band: columns of minimum and maximum; "own": of the column itself; "deviation": mean -+ std.
// reference: value of a horizontal line that is always visible.
// robust: outliers are marked and do not extend the range.
export const LEARNING = [
  { id: "loss", title: "Loss", large: true, log: true, missing: true, robust: true,
    lines: [{ column: "mean", band: ["minimum", "maximum"], smooth: true }] },
  { id: "metric", title: "", robust: true, choices: [
    { title: "Error (rmse)", column: "metric_rmse" },
    { title: "Accuracy", column: "metric_accuracy", range: [0, 1] },
    { title: "Bits", column: "metric_bits" },
    { title: "Rank", column: "metric_rank" },
    { title: "Recall at 10", column: "metric_recall_10", range: [0, 1] },
    { title: "Smoothed loss", column: "smoothed" }] },
  { id: "gradient", title: "Gradient norm", unit: "before clipping", log: true, missing: true, robust: true,
    lines: [{ column: "gradient_norm", band: "own", smooth: true }], range: [0, null] },
  { id: "ratio", title: "Update ratio", unit: "change over parameters", log: true, robust: true,
    lines: [{ column: "update_ratio", band: "own", smooth: true }], range: [0, null] },
  { id: "rate", title: "", log: true, choices: [
    { title: "Plasticity", unit: "loss that an update removes", column: "plasticity", range: [0, null] },
    { title: "Learning rate", column: "rate", range: [0, null], stepped: true, band: null, smooth: false }] },
];

export const SKILL = [
  { id: "skill", title: "Skill", unit: "below 0 the baseline is better", robust: true, reference: 0,
    lines: [{ column: "skill", band: "own", smooth: true }] },
];

export const HIDDEN = [
  { id: "heat", title: "Histogram of h", unit: "share of units", heat: true },
  { id: "hidden", title: "Hidden state", unit: "mean ± deviation over the units",
    lines: [{ column: "hidden_mean", band: "deviation", of: "hidden_std", smooth: true }] },
  { id: "norm", title: "Norm of h", range: [0, null],
    lines: [{ column: "hidden_norm", band: "own", smooth: true }] },
  { id: "saturated", title: "Saturated units", unit: "share; dashed: cells", range: [0, 1],
    lines: [{ column: "hidden_saturated", band: "own", smooth: true },
      { column: "cell_saturated", dash: [5, 4], smooth: true }] },
  { id: "dormant", title: "Dormant units", unit: "share; dashed: saturated, over updates", range: [0, 1],
    lines: [{ column: "units_dormant", band: "own", smooth: true },
      { column: "units_saturated", dash: [5, 4], smooth: true }] },
  { id: "rank", title: "Effective rank", unit: "independent units", range: [0, null],
    lines: [{ column: "units_rank", band: "own", smooth: true }] },
  { id: "growth", title: "Growth of weights", unit: "norm over that at the start", log: true, range: [0, null],
    lines: [{ column: "weights_growth" }] },
  { id: "sums", title: "Summed inputs", unit: "mean ± deviation; dashed: recurrent",
    lines: [{ column: "summed_inputs_mean", band: "deviation", of: "summed_inputs_std", smooth: true },
      { column: "summed_recurrent_mean", dash: [5, 4], smooth: true }] },
  { id: "gain", title: "Gain", unit: "mean ± deviation; dashed: bias",
    lines: [{ column: "gain_mean", band: "deviation", of: "gain_std" },
      { column: "bias_mean", dash: [5, 4] }] },
];

export const HEALTH = [
  { id: "speed", title: "Examples per second", unit: "", robust: true, range: [0, null],
    lines: [{ column: "examples_per_second", band: "own", smooth: true }] },
  { id: "latency", title: "Latency", unit: "median, dashed 99%", log: true, robust: true,
    format: microseconds, range: [0, null], lines: [{ column: "latency_us_p50", smooth: true },
      { column: "latency_us_p99", dash: [5, 4], smooth: true }] },
  { id: "queue", title: "Queued", unit: "dashed: rejected, dotted: skipped updates", range: [0, null],
    lines: [{ column: "queued" }, { column: "rejected", dash: [5, 4] },
      { column: "skipped", dash: [1, 3] }] },
];

// A moving average that depends only on earlier points, so that no point moves when later ones
// arrive. A value further away than WILD mean deviations counts as that far, so that an outlier has
// little effect and a new level is reached soon.
const WILD = 10, KNOWN = 5; // number of values without a check for outliers

export class Average {
  constructor() {
    Object.assign(this, { value: 0, deviation: 0, count: 0, last: 0 });
  }

  // `tau`: memory along x; 0 = none.
  take(value, x, tau) {
    if (this.count++ === 0) {
      this.value = value;
    } else {
      const weight = x - this.last < 30 * tau ? 1 - Math.exp(-Math.max(0, x - this.last) / tau) : 1;
      let away = value - this.value;
      const most = WILD * this.deviation;
      if (this.count > KNOWN && most > 0) away = Math.min(most, Math.max(-most, away));
      this.value += weight * away;
      this.deviation += weight * (Math.abs(away) - this.deviation);
    }
    this.last = x;
    return this.value;
  }
}

// A dataset for Chart.js that follows a series; `extend` adds new points. `value` is the value to
// show, `raw` the original one, and `y` the value limited to a drawable range.
class Line {
  constructor(spec, run, color, kind) {
    Object.assign(this, { spec, run, kind, color, borderColor: color, data: [], generation: 0 });
    this.borderWidth = 1.7;
    this.stepped = spec.stepped ? "before" : false;
  }

  reset(generation, key) {
    Object.assign(this, { generation, key, data: [], missing: [], average: new Average(), known: false });
    this.lows = this.spec.band ? [] : null;
    this.highs = this.spec.band ? [] : null;
  }

  // `smooth`: the memory as a share of the examples before a point, and of the `width` of a zoomed
  // view. `start`: beginning of the run.
  extend(series, positions, { smooth, width, start }, key) {
    if (this.generation !== series.generation || this.key !== key) this.reset(series.generation, key);
    const column = series.columns[this.spec.column];
    for (let i = this.data.length; column && i < positions.length; i++) {
      const raw = column.mean[i], x = positions[i];
      const tau = smooth * Math.min(width, x - start);
      const value = raw === null || !smooth ? raw : this.average.take(raw, x, tau);
      this.known ||= raw !== null;
      this.missing.push(column.missing[i]);
      this.data.push({ x, y: value, value, raw });
      if (this.lows) this.addBand(series, i, raw);
    }
  }

  addBand(series, i, value) {
    const { band, column, of } = this.spec, { columns } = series;
    if (band === "deviation") {
      const deviation = columns[of] ? columns[of].mean[i] : null;
      const known = value !== null && deviation !== null;
      this.lows.push(known ? value - deviation : null);
      this.highs.push(known ? value + deviation : null);
    } else if (band === "own") {
      this.lows.push(columns[column].minimum[i]);
      this.highs.push(columns[column].maximum[i]);
    } else {
      this.lows.push(columns[band[0]].minimum[i]);
      this.highs.push(columns[band[1]].maximum[i]);
    }
  }
}

// The lines of a panel, kept between drawings.
export class Lines {
  constructor(panel) {
    this.panel = panel;
    this.kept = new Map();
  }

  specs() {
    const { panel } = this;
    if (!panel.choices) return panel.lines;
    return [{ band: "own", smooth: true, ...panel.choice }];
  }

  // Datasets for the shown runs; `view` has axis, band, smooth, width.
  build(store, runs, kind, view) {
    const found = [], used = new Set();
    for (const run of runs) {
      const series = store.get(run.id, kind);
      if (!series) continue;
      const positions = store.positions(run.id, series, view.axis);
      for (const spec of this.specs()) {
        const name = `${run.id}/${kind}/${spec.column}`, line = this.line(name, spec, run, kind);
        const smooth = spec.smooth ? view.smooth : 0;
        const start = Math.min(store.start(run.id, view.axis) ?? Infinity, positions[0] ?? Infinity);
        used.add(name);
        line.extend(series, positions, { smooth, width: view.width, start },
          `${view.axis}/${smooth}/${view.width}/${start}`);
        found.push(this.dressed(line, view, run));
      }
    }
    for (const name of this.kept.keys()) if (!used.has(name)) this.kept.delete(name);
    return found;
  }

  line(name, spec, run, kind) {
    let line = this.kept.get(name);
    if (!line) this.kept.set(name, (line = new Line(spec, run, run.color, kind)));
    line.run = run;
    return line;
  }

  // Adjusts the style of a line, without its band if bands are off.
  dressed(line, view, run) {
    const banded = view.band || line.spec.band === "deviation";
    line.color = line.borderColor = run.color;
    line.borderDash = line.spec.dash || run.dash;
    line.low = banded ? line.lows : null;
    line.high = banded ? line.highs : null;
    line.marksMissing = Boolean(this.panel.missing) && line.known; // else not measured
    return line;
  }
}
