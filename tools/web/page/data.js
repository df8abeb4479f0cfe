// The data of the page: runs, their series at the resolution of the view, and events. The
// server sends them from /api/ and adds new ones from /api/live.

import { get } from "./dom.js";

export const POINTS = 600; // points of a fetched series: lines of one or two pixels
const LIVE_POINTS = 300;   // new points of a series until it is fetched again
const CHAIN = 8;           // maximum runs shown as one: a run and those that it resumed

const NOT_FOUND = 404;

// Properties with a run's beginning and end.
const NEWEST = ["newest_examples", "newest_steps", "newest_time"];
const PLACES = ["first_examples", "first_steps", "first_time", ...NEWEST];

// The layers of a `state` message, of all networks in order.
export function layersIn({ layers, members }) {
  const lists = members && Object.keys(members).length ? Object.values(members).map((one) => one?.layers) : [layers];
  return lists.flatMap((list) => (Array.isArray(list) ? list : []));
}

// The identity of a checkpoint's lineage; the digest in older recordings.
const lineage = (run) => run.compatible || run.digest;

// Points of a run's losses or of a layer: arrays with one entry a point.
export class Series {
  constructor(body) {
    this.examples = body.examples;
    this.steps = body.steps;
    this.time = body.time;
    this.messages = body.messages;
    this.columns = body.columns;
    this.histogram = body.histogram || null;
    this.live = 0;       // points added since the last fetch
    this.generation = Series.generations++;
    for (const column of Object.values(this.columns)) {
      if (column.minimum) continue;
      column.minimum = column.mean.slice();
      column.maximum = column.mean.slice();
      column.missing = column.mean.map((value) => (value === null ? 1 : 0));
    }
  }

  get length() {
    return this.examples.length;
  }

  // Adds a message, with the columns' values at their paths in `source`.
  add(body, source, columns, messages = 1) {
    const last = this.length - 1;
    if (typeof body.time !== "number" || (last >= 0 && body.time <= this.time[last])) return false;
    this.examples.push(body.examples);
    this.steps.push(body.steps);
    this.time.push(body.time);
    this.messages.push(messages);
    for (const { name, path } of columns) {
      const column = this.columns[name];
      if (!column) continue;
      let value = source;
      for (const key of path) value = value === null || value === undefined ? null : value[key];
      if (typeof value !== "number") value = null;
      column.mean.push(value);
      column.minimum.push(value);
      column.maximum.push(value);
      column.missing.push(value === null ? 1 : 0);
    }
    if (this.histogram) this.histogram.push(Array.isArray(source?.histogram) ? source.histogram : []);
    this.live++;
    return true;
  }

  // The index of the last point at or before a position; -1 if it does not exist.
  at(positions, position) {
    let low = -1, high = positions.length;
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (positions[middle] <= position) low = middle;
      else high = middle;
    }
    return low;
  }
}
Series.generations = 1;

export class Store {
  constructor() {
    this.runs = new Map();   // id -> run
    this.series = new Map(); // "id/kind" -> Series; kind: "loss" or a layer's number
    this.events = new Map(); // run id -> events, oldest first
    this.columns = { loss: [], layer: [] }; // from the server: name, path, unit, meaning
    this.wanted = new Map(); // "id/kind" -> number of the newest request
  }

  async fetchColumns() {
    const columns = await get("api/columns");
    for (const kind of ["loss", "layer"])
      this.columns[kind] = columns[kind].map((column) => ({ ...column, path: column.path.split(".") }));
  }

  column(name) {
    return [...this.columns.loss, ...this.columns.layer].find((column) => column.name === name);
  }

  // The `daemons`, and the file name of a `recording` or null.
  fetchDaemons() {
    return get("api/daemons");
  }

  // The streams that have predictions, or the steps of one of them.
  fetchForecasts(query) {
    return get(`api/forecasts?${new URLSearchParams(query)}`);
  }

  // Skill of each column, expert and member of a run's newest `loss`.
  fetchSkill(run) {
    return get(`api/skill?run=${run}`);
  }

  // The anomalies of a run.
  fetchAnomalies(query) {
    return get(`api/anomalies?${new URLSearchParams(query)}`);
  }

  async fetchRuns() {
    const seen = new Set();
    for (const run of (await get("api/runs")).runs) {
      const known = this.runs.get(run.id) || {};
      seen.add(run.id);
      // its first loss is recorded; live messages may be newer
      run.recorded = run.first_time !== null;
      if (!run.recorded && typeof known.first_time === "number")
        for (const place of PLACES) run[place] = known[place];
      // the same, and no message may follow to correct it
      else if (known.newest_time > run.newest_time)
        for (const place of NEWEST) run[place] = known[place];
      this.runs.set(run.id, Object.assign(known, run));
    }
    for (const id of [...this.runs.keys()]) if (!seen.has(id)) this.runs.delete(id);
  }

  // The configuration of a run.
  async fetchConfiguration(run) {
    return (await get(`api/configuration?run=${run}`)).configuration;
  }

  // A run and those that it resumed, newest first.
  chain(id) {
    const found = [];
    const all = [...this.runs.values()].sort((a, b) => b.id - a.id);
    let run = this.runs.get(id);
    while (run && found.length < CHAIN) {
      found.push(run.id);
      const one = run;
      run = one.resumed && one.part === 0
        ? all.find((other) => other.id < one.id && other.endpoint === one.endpoint &&
          lineage(other) === lineage(one))
        : undefined;
    }
    return found;
  }

  // The start of a run's axis, from which positions of `elapsed` count.
  origin(id) {
    const run = this.runs.get(id);
    return run && run.first_time !== null ? run.first_time : 0;
  }

  // The position of a run's first message on an axis; null before the first message.
  start(id, axis) {
    return axis === "elapsed" ? 0 : this.runs.get(id)?.[`first_${axis}`] ?? null;
  }

  positions(id, series, axis) {
    if (axis !== "elapsed") return series[axis];
    const origin = this.origin(id);
    if (series.elapsed?.origin !== origin || series.elapsed.generation !== series.generation)
      series.elapsed = { origin, generation: series.generation, values: [] };
    const values = series.elapsed.values;
    while (values.length < series.length) values.push(series.time[values.length] - origin);
    return values;
  }

  get(id, kind) {
    return this.series.get(`${id}/${kind}`);
  }

  query(id, view) {
    const shift = view.axis === "elapsed" ? this.origin(id) : 0;
    const query = new URLSearchParams({ run: id, points: POINTS });
    query.set("axis", view.axis === "elapsed" ? "time" : view.axis);
    if (view.from !== null) {
      // A margin, so that lines leave the chart at its edges and short moves show no gap.
      const margin = (view.to - view.from) / 4;
      query.set("from", view.from - margin + shift);
      query.set("to", view.to + margin + shift);
    }
    return query;
  }

  // Fetches a series for a view, and drops an answer that a newer request has overtaken. A run that
  // was deleted has no series until the list of runs is fetched again.
  async load(id, kind, view) {
    const key = `${id}/${kind}`, number = (this.wanted.get(key) || 0) + 1;
    const query = this.query(id, view);
    if (kind !== "loss") query.set("layer", kind);
    this.wanted.set(key, number);
    const body = await get(`api/series?${query}`).catch((error) => {
      if (error.status !== NOT_FOUND) throw error;
      return null;
    });
    if (!body || this.wanted.get(key) !== number) return false;
    const before = this.series.get(key);
    const series = new Series(body);
    // Live messages that arrived during the request.
    if (before && view.from === null) this.keepTail(before, series);
    if (kind === "loss" && view.from === null) this.placeRun(this.runs.get(id), series);
    this.series.set(key, series);
    return true;
  }

  // The beginning of a new run is not in the server's list yet: uses that of its series.
  placeRun(run, series) {
    if (!run || run.first_time !== null || !series.length) return;
    for (const axis of ["examples", "steps", "time"]) {
      run[`first_${axis}`] = series[axis][0];
      run[`newest_${axis}`] = series[axis][series.length - 1];
    }
  }

  keepTail(before, series) {
    const newest = series.length ? series.time[series.length - 1] : -Infinity;
    for (let i = 0; i < before.length; i++) {
      if (!(before.time[i] > newest) || i < before.length - before.live) continue;
      for (const axis of ["examples", "steps", "time", "messages"]) series[axis].push(before[axis][i]);
      for (const [name, column] of Object.entries(series.columns))
        for (const part of ["mean", "minimum", "maximum", "missing"])
          column[part].push(before.columns[name] ? before.columns[name][part][i] : null);
      if (series.histogram) series.histogram.push(before.histogram?.[i] || []);
      series.live++;
    }
  }

  fetchEvents(query) {
    return get(`api/events?${new URLSearchParams({ points: 500, ...query })}`);
  }

  async loadEvents(run) {
    this.events.set(run, (await this.fetchEvents({ run })).events);
  }

  // Takes a live message. Returns the kinds of the series to fetch again. The run ends at its last
  // point, since events may belong to earlier examples.
  take(topic, id, body, merged) {
    const run = this.runs.get(id), stale = [];
    if (run && (topic === "loss" || topic === "state") && body.time > (run.newest_time || 0)) {
      run.newest_time = body.time;
      run.newest_examples = body.examples;
      run.newest_steps = body.steps;
      if (run.first_time === null)
        for (const axis of ["examples", "steps", "time"]) run[`first_${axis}`] = body[axis];
    }
    if (topic === "loss") this.addTo(id, "loss", body, body, this.columns.loss, merged, stale);
    else if (topic === "state")
      layersIn(body).forEach((layer, number) =>
        this.addTo(id, number, body, layer, this.columns.layer, merged, stale));
    else if (topic === "event" && this.events.has(id))
      this.events.get(id).push({ examples: body.examples, steps: body.steps, time: body.time,
        kind: String(body.kind ?? ""), text: String(body.text ?? "") });
    return stale;
  }

  addTo(id, kind, body, source, columns, merged, stale) {
    const series = this.get(id, kind);
    if (series && series.add(body, source, columns, merged) && series.live === LIVE_POINTS)
      stale.push(kind);
  }
}
