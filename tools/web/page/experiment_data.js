// The data of an experiment from /api/experiment: runs with settings and figures, groups of runs,
// and curves.

import { get } from "./dom.js";

const CURVES_AT_ONCE = 50; // curves of one request

// Returns a number if the text is one, so that 1e-3 sorts before 0.01.
export function valueOf(text) {
  if (typeof text !== "string" || text.trim() === "") return text;
  const number = Number(text);
  return Number.isFinite(number) ? number : text;
}

// Figures of a run that are not measures.
const COUNTS = [["parameters", "parameters"], ["examples", "examples"], ["skipped", "skipped updates"],
  ["seconds", "seconds"]];
const SPARSE = new Set(["weight_norm"]); // not measured at each point: a missing value is not a gap
const STATES = { nonfinite: "not finite" };

export class Experiment {
  constructor() {
    Object.assign(this, { about: null, runs: [], keys: [], figures: [], curves: new Map(), fetching: new Map() });
  }

  async load() {
    this.about = await get("api/experiment");
    this.keys = this.differingKeys();
    this.runs = this.about.runs.map((run) => this.describe(run));
    this.figures = this.chooseFigures();
    const known = new Set(this.runs.map(curveKey));
    for (const key of this.curves.keys()) if (!known.has(key)) this.curves.delete(key);
  }

  // Keys that differ between variants: [{ key, title }], in the order in which variants first set
  // them.
  differingKeys() {
    const values = new Map(), shorts = new Map();
    for (const { settings } of this.about.variants)
      for (const { key, short, value } of settings) {
        if (!values.has(key)) values.set(key, new Set());
        values.get(key).add(value);
        shorts.set(key, short);
      }
    const all = this.about.variants.length;
    const setters = (key) => this.about.variants.filter(({ settings }) => settings.some((one) => one.key === key));
    const double = (short) => [...shorts.values()].filter((other) => other === short).length > 1;
    return [...values.keys()].filter((key) => values.get(key).size > 1 || setters(key).length < all)
      .map((key) => ({ key, title: double(shorts.get(key)) ? key : shorts.get(key) }));
  }

  // `values`: by column, for filters, groups and the table; `texts`: settings as they were written.
  describe(run) {
    const { variants, streams } = this.about;
    const variant = variants.find((one) => one.variant === run.variant);
    const stream = streams.find((one) => one.stream === run.stream);
    const values = { run: run.run, variant: variant?.name ?? String(run.variant),
      stream: stream?.name ?? String(run.stream), seed: run.seed, state: STATES[run.state] ?? run.state };
    const texts = {};
    for (const { key, value } of variant?.settings ?? []) {
      values[key] = valueOf(value);
      texts[key] = value;
    }
    for (const { name } of this.about.measures) values[name] = run[name] ?? null;
    for (const [name] of COUNTS) values[name] = run[name] ?? null;
    return { ...run, values, texts };
  }

  // Figures that at least one run has; counts only if they differ.
  chooseFigures() {
    const has = (name) => this.runs.some(({ values }) => values[name] !== null);
    const differs = (name) => new Set(this.runs.map(({ values }) => values[name]).filter((v) => v !== null)).size > 1;
    return [...this.about.measures.filter(({ name }) => has(name)).map((one) => ({ ...one, better: true })),
      ...COUNTS.filter(([name]) => (name === "seconds" ? has(name) : differs(name)))
        .map(([name, title]) => ({ name, title }))];
  }

  hasSeeds() {
    return new Set(this.runs.map(({ seed }) => seed)).size > 1;
  }

  // The measure that tables compare: that of the experiment, else skill if there is a baseline.
  measure() {
    const has = (name) => this.figures.some((figure) => figure.name === name);
    const { measure } = this.about;
    return measure && has(measure) ? measure : has("skill") ? "skill" : "mean";
  }

  // Whether the variants' names consist of their settings.
  namedBySettings() {
    const parts = (text) => text.split(", ").sort().join();
    return this.keys.length > 0 && this.about.variants.every(({ name, settings }) =>
      parts(name) === parts(settings.map(({ short, value }) => `${short} ${value}`).join(", ")));
  }

  // Groups of runs with equal values of these keys and of the stream, in the order of their first
  // run. Without keys each run is a group.
  groups(runs, keys) {
    const found = new Map(), columns = new Set(this.runs.flatMap(({ values }) => Object.keys(values)));
    for (const run of runs) {
      const id = groupOf(run, keys);
      if (!found.has(id)) found.set(id, { id, runs: [] });
      found.get(id).runs.push(run);
    }
    return [...found.values()].map((group) => this.summarize(group, columns));
  }

  // The number of each group among all groups, which determines its colour whatever the filter.
  places(keys) {
    return new Map([...new Set(this.runs.map((run) => groupOf(run, keys)))].map((id, number) => [id, number]));
  }

  // A value if all runs have the same. For figures the mean and sample deviation over finished
  // runs, or over all runs with a value if none is finished.
  summarize(group, columns) {
    const { runs } = group, values = {}, deviations = {};
    const done = runs.filter(({ state }) => state === "done");
    for (const key of columns) {
      const [first] = runs;
      if (key in first.values && runs.every((run) => run.values[key] === first.values[key]))
        values[key] = first.values[key];
    }
    for (const { name } of this.figures) {
      const known = (done.length ? done : runs).map((run) => run.values[name]).filter((v) => typeof v === "number");
      [values[name], deviations[name]] = meanAndDeviation(known);
    }
    values.state = statesOf(runs);
    return { ...group, values, deviations, done: done.length };
  }

  // Fetches missing curves of these runs. Returns true if any arrived.
  async fetchCurves(runs) {
    const wanted = runs.filter((run) => run.state !== "waiting" && !this.curves.has(curveKey(run)) &&
      !this.fetching.has(curveKey(run)));
    for (const run of wanted) this.fetching.set(curveKey(run), true);
    try {
      for (let i = 0; i < wanted.length; i += CURVES_AT_ONCE) {
        const some = wanted.slice(i, i + CURVES_AT_ONCE);
        const { curves } = await get(`api/experiment/curves?runs=${some.map(({ run }) => run).join()}`);
        curves.forEach((curve, k) => this.curves.set(curveKey(some[k]), curve));
      }
    } finally {
      for (const run of wanted) this.fetching.delete(curveKey(run));
    }
    return wanted.length > 0;
  }

  // Mean and deviation of a column over the runs of a group at each point: { x, mean, deviation }
  // of arrays, null if no run has a value.
  curve(group, column) {
    const done = group.runs.filter(({ state }) => state === "done");
    const curves = (done.length ? done : group.runs).map((run) => this.curves.get(curveKey(run))).filter(Boolean);
    const points = new Map();
    for (const curve of curves)
      curve.examples.forEach((x, i) => {
        if (!points.has(x)) points.set(x, []);
        if (curve[column][i] !== null) points.get(x).push(curve[column][i]);
      });
    const has = (at) => !SPARSE.has(column) || points.get(at).length > 0;
    const x = [...points.keys()].filter(has).sort((a, b) => a - b);
    const both = x.map((at) => meanAndDeviation(points.get(at)));
    return { x, mean: both.map(([mean]) => mean), deviation: both.map(([, deviation]) => deviation) };
  }

  fetchRun(id) {
    return get(`api/experiment/run?run=${id}`);
  }
}

const groupOf = (run, keys) =>
  (keys.length ? [...keys, "stream"] : ["run"]).map((key) => `${key} ${run.values[key]}`).join("\n");

// A run that is repeated has a new key.
const curveKey = ({ run, started, state }) => `${run}/${started}/${state}`;

// [mean, sample deviation]: null without values, deviation null for one value. For equal values the
// deviation is 0 in spite of rounding.
export function meanAndDeviation(values) {
  if (!values.length) return [null, null];
  const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
  if (values.length < 2) return [mean, null];
  if (values.every((value) => value === values[0])) return [values[0], 0];
  const squares = values.reduce((sum, value) => sum + (value - mean) ** 2, 0);
  return [mean, Math.sqrt(squares / (values.length - 1))];
}

// P(|T| >= |t|) of Student's distribution, as a sum for whole degrees of freedom (Abramowitz and
// Stegun, 26.7.3-4).
export function student(t, degrees) {
  const angle = Math.atan(Math.abs(t) / Math.sqrt(degrees)), square = Math.cos(angle) ** 2, odd = degrees % 2;
  let term = odd ? Math.cos(angle) : 1, sum = degrees > 1 ? term : 0;
  for (let k = odd ? 3 : 2; k < degrees; k += 2) sum += term *= square * (k - 1) / k;
  return 1 - (odd ? (angle + Math.sin(angle) * sum) * 2 / Math.PI : Math.sin(angle) * sum);
}

// The p of Student's t-test of two groups, paired by seed. Null with less than two pairs or equal
// differences. Several runs of a seed count as their mean.
export function pairedTest(one, other, name) {
  const bySeed = ({ runs }, seed) => meanAndDeviation(runs.filter((run) => run.seed === seed && run.state === "done")
    .map(({ values }) => values[name]).filter((value) => typeof value === "number"))[0];
  const pairs = [...new Set(one.runs.map(({ seed }) => seed))].map((seed) => [bySeed(one, seed), bySeed(other, seed)])
    .filter((pair) => !pair.includes(null));
  const [mean, deviation] = meanAndDeviation(pairs.map(([a, b]) => a - b));
  if (!deviation) return deviation === 0 && mean === 0 ? 1 : null;
  return student(mean / (deviation / Math.sqrt(pairs.length)), pairs.length - 1);
}

// Holm's adjustment; null values are not tests.
export function holm(all) {
  const order = all.map((p, i) => [p, i]).filter(([p]) => p !== null).sort(([a], [b]) => a - b);
  const adjusted = all.map(() => null);
  order.reduce((least, [p, i], k) => (adjusted[i] = Math.max(least, Math.min(1, (order.length - k) * p))), 0);
  return adjusted;
}

// "3 done", or several states: "2 done, 1 not finite".
function statesOf(runs) {
  if (runs.length === 1) return runs[0].values.state;
  const counts = new Map();
  for (const { values } of runs) counts.set(values.state, (counts.get(values.state) ?? 0) + 1);
  return [...counts].map(([state, count]) => `${count} ${state}`).join(", ");
}
