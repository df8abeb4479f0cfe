// A chart: lines by Chart.js; bands, marks of events and of missing values by a plugin.

import { number, powers, ticks } from "./format.js";
import { Frame, LEFT, RIGHT, tickRoom } from "./frame.js";
import { fences, FILLED, keepDrawable, limits } from "./range.js";

const MARK_SIZE = 4, MISS_SIZE = 3;
const BAR = 4; // pixels of an anomaly mark
const EDGE = 0.05;  // share of the chart's height that counts as its edge

export const theme = { colors: {} };
export function readTheme() {
  const style = getComputedStyle(document.documentElement);
  for (const name of ["text", "faint", "grid", "line", "bad", "good", "warn", "accent", "card"])
    theme.colors[name] = style.getPropertyValue(`--${name}`).trim();
  theme.version = (theme.version || 0) + 1;
  theme.dark = document.documentElement.dataset.theme === "dark";
}

// The colour of an event's kind; others are faint.
export function eventColor(kind) {
  const { accent, bad, warn, good, faint } = theme.colors;
  return { checkpoint: good, started: accent, resumed: accent, replayed: accent, reset: bad,
    set: warn, paused: warn, skipped_update: bad, rejected: bad, input_scale: bad, stale: bad, gap: bad, disk: bad, drift: bad,
    anomaly: warn, incident: warn, stopping: bad, watch: warn }[kind] || faint;
}

const fade = (color, share) =>
  color + Math.round(255 * share).toString(16).padStart(2, "0");

// Whether a band covers the chart nearly everywhere, and so contains no information.
function fills(scales, { data, low, high }) {
  const { x, y } = scales;
  const edge = EDGE * (y.bottom - y.top);
  const least = y.getValueForPixel(y.bottom - edge), most = y.getValueForPixel(y.top + edge);
  let seen = 0, beyond = 0;
  for (let i = 0; i < data.length; i++) {
    if (low[i] === null || high[i] === null || data[i].x < x.min || data[i].x > x.max) continue;
    seen++;
    if (low[i] <= least && high[i] >= most) beyond++;
  }
  return beyond > FILLED * seen;
}

function drawBand(context, chart, line) {
  const { x, y } = chart.scales;
  const least = y.type === "logarithmic" ? y.min : -Infinity;
  const { data, low, high } = line;
  if (fills(chart.scales, line)) return;
  context.fillStyle = fade(line.color, line.bandShare ?? (theme.dark ? 0.2 : 0.16) / Math.sqrt(chart.runs || 1));
  let i = 0;
  while (i < data.length) {
    if (low[i] === null || high[i] === null) { i++; continue; }
    let end = i;
    while (end < data.length && low[end] !== null && high[end] !== null) end++;
    context.beginPath();
    for (let k = i; k < end; k++)
      context.lineTo(x.getPixelForValue(data[k].x), y.getPixelForValue(Math.max(high[k], least)));
    for (let k = end - 1; k >= i; k--)
      context.lineTo(x.getPixelForValue(data[k].x), y.getPixelForValue(Math.max(low[k], least)));
    if (end - i === 1) { // a single point: a stroke
      const at = x.getPixelForValue(data[i].x);
      context.rect(at - 1, y.getPixelForValue(high[i]), 2,
        y.getPixelForValue(Math.max(low[i], least)) - y.getPixelForValue(high[i]));
    }
    context.fill();
    i = end;
  }
}

// Incidents. An open one reaches the right edge.
function drawSpans(context, chart) {
  const { top, height, right } = chart.chartArea;
  for (const { from, to, silenced } of chart.spans ?? []) {
    const begin = chart.scales.x.getPixelForValue(from), end = Math.min(chart.scales.x.getPixelForValue(to), right);
    context.fillStyle = fade(theme.colors.warn, silenced ? 0.07 : 0.2);
    context.fillRect(begin, top, Math.max(end - begin, 1), height);
  }
}

function drawReference(context, chart) {
  const { left, right } = chart.chartArea;
  const at = Math.round(chart.scales.y.getPixelForValue(chart.reference)) + 0.5;
  context.strokeStyle = theme.colors.bad;
  context.lineWidth = 1;
  context.beginPath();
  context.moveTo(left, at);
  context.lineTo(right, at);
  context.stroke();
}

function drawMissing(context, chart, line) {
  const { x } = chart.scales, top = chart.chartArea.top + MARK_SIZE + 1;
  context.strokeStyle = theme.colors.bad;
  context.lineWidth = 1.6;
  context.beginPath();
  let before = -Infinity;
  for (let i = 0; i < line.data.length; i++) {
    if (!line.missing[i]) continue;
    const at = x.getPixelForValue(line.data[i].x);
    if (at < chart.chartArea.left || at > chart.chartArea.right || at - before < MARK_SIZE) continue;
    before = at;
    context.moveTo(at - MARK_SIZE, top - MARK_SIZE);
    context.lineTo(at + MARK_SIZE, top + MARK_SIZE);
    context.moveTo(at + MARK_SIZE, top - MARK_SIZE);
    context.lineTo(at - MARK_SIZE, top + MARK_SIZE);
  }
  context.stroke();
}

// An arrow at the edge for a value beyond the chart.
function drawWild(context, chart, line) {
  const { x } = chart.scales, { top, bottom, left, right } = chart.chartArea;
  const { low, high } = line.beyond, before = { top: -Infinity, bottom: -Infinity };
  context.fillStyle = line.color;
  for (const point of line.data) {
    if (point.raw === null || (point.raw >= low && point.raw <= high)) continue;
    const up = point.raw > high, edge = up ? "top" : "bottom", at = x.getPixelForValue(point.x);
    if (at < left || at > right || at - before[edge] < MARK_SIZE) continue;
    before[edge] = at;
    const tip = up ? top + 1 : bottom - 1, back = tip + (up ? 2 : -2) * MARK_SIZE;
    context.beginPath();
    context.moveTo(at, tip);
    context.lineTo(at - MARK_SIZE, back);
    context.lineTo(at + MARK_SIZE, back);
    context.fill();
  }
}

// Marks the truths outside a forecast's band.
function drawMisses(context, chart, line) {
  const { x, y } = chart.scales;
  context.fillStyle = theme.colors.bad;
  line.data.forEach((point, i) => {
    if (!line.misses[i]) return;
    context.beginPath();
    context.arc(x.getPixelForValue(point.x), y.getPixelForValue(point.y), MISS_SIZE, 0, 2 * Math.PI);
    context.fill();
  });
}

function drawEvents(context, chart, events) {
  const { top, bottom, left, right } = chart.chartArea;
  const last = new Map(); // kind -> pixel, so that many events do not cover the chart
  for (const event of events) {
    const at = Math.round(chart.scales.x.getPixelForValue(event.x)) + 0.5;
    if (at < left || at > right || at - (last.get(event.kind) ?? -Infinity) < 3) continue;
    last.set(event.kind, at);
    const color = eventColor(event.kind), bar = event.kind === "anomaly", size = (bar ? 1.75 : 1) * MARK_SIZE;
    context.strokeStyle = fade(color, event.kind === "checkpoint" ? 0.25 : bar ? 0.35 : 0.6);
    context.lineWidth = bar ? BAR : 1;
    context.setLineDash(bar ? [] : [2, 3]);
    context.beginPath();
    context.moveTo(at, top);
    context.lineTo(at, bottom);
    context.stroke();
    context.setLineDash([]);
    context.fillStyle = color;
    context.beginPath();
    context.moveTo(at - size, bottom);
    context.lineTo(at + size, bottom);
    context.lineTo(at, bottom - 1.6 * size);
    context.fill();
  }
}

function clipped(chart, draw) {
  const { left, top, width, height } = chart.chartArea, context = chart.ctx;
  context.save();
  context.beginPath();
  context.rect(left, top, width, height);
  context.clip();
  draw(context);
  context.restore();
}

const plugin = {
  id: "runnel",
  beforeDatasetsDraw(chart) {
    clipped(chart, (context) => {
      drawSpans(context, chart);
      if (chart.reference !== undefined) drawReference(context, chart);
      for (const line of chart.data.datasets)
        for (const band of line.fan?.length ? line.fan : [line]) if (band.low) drawBand(context, chart, { ...line, ...band });
    });
  },
  afterDatasetsDraw(chart) {
    clipped(chart, (context) => {
      drawEvents(context, chart, chart.events || []);
      for (const line of chart.data.datasets) {
        if (line.marksMissing) drawMissing(context, chart, line);
        if (line.misses) drawMisses(context, chart, line);
        if (line.beyond) drawWild(context, chart, line);
      }
    });
  },
};

function options(plot) {
  return {
    animation: false, parsing: false, normalized: true, responsive: true, maintainAspectRatio: false,
    events: [], resizeDelay: 60,
    layout: { padding: { right: RIGHT, top: 2 } },
    plugins: { legend: { display: false }, tooltip: { enabled: false } },
    elements: { point: { radius: 0 }, line: { borderJoinStyle: "round", tension: 0 } },
    scales: {
      x: {
        type: "linear",
        afterBuildTicks: (scale) => {
          const most = Math.max(2, scale.width / tickRoom(plot.axis));
          scale.ticks = scale.type === "logarithmic" ? powers(scale.min, scale.max, most)
            : ticks(plot.axis, scale.min, scale.max, most);
        },
        ticks: { callback: (value, index, all) => all[index].label, maxRotation: 0, autoSkip: false },
      },
      y: {
        type: "linear",
        afterFit: (scale) => { scale.width = LEFT; },
        ticks: { maxTicksLimit: 6, includeBounds: false, callback: (value) => yLabel(plot, value) },
      },
    },
  };
}

// A logarithmic axis labels 1, 2 and 5 of each power, or only powers if there are many.
function yLabel(plot, value) {
  const write = plot.format || number;
  if (!plot.isLog) return write(value);
  const { min, max } = plot.chart.scales.y;
  const lead = Math.round(value / 10 ** Math.floor(Math.log10(value) + 1e-9));
  const allowed = max / min > 1e3 ? [1] : [1, 2, 5];
  return allowed.includes(lead) ? write(value) : "";
}

export class Plot extends Frame {
  constructor(element) {
    super(element);
    this.axis = "examples";
    this.isLog = false;
    this.chart = new Chart(this.canvas, {
      type: "line", data: { datasets: [] }, options: options(this), plugins: [plugin],
    });
  }

  // `lines`: datasets with data, low, high, missing and color. `bounds`: [from, to] of x. `empty`:
  // the text of an empty chart. `robust`: outliers do not extend the range. `reference`: a value
  // that a horizontal line marks, always visible. `logX`: x is logarithmic.
  draw({ lines, axis, bounds, log, logX, events, spans, range, robust, reference, empty }) {
    const { chart } = this;
    this.axis = axis;
    Object.assign(chart, { events, spans });
    chart.runs = new Set(lines.map((line) => line.run)).size;
    chart.data.datasets = lines;
    this.showEmpty(empty);
    if (empty) return;
    const [low, high, isLog] = limits(lines, bounds, log, range, robust, reference);
    chart.reference = reference;
    this.isLog = isLog;
    for (const line of lines) {
      line.beyond = robust ? fences(line, bounds, low, high) : null;
      keepDrawable(line.data, low, high);
    }
    Object.assign(chart.options.scales.x,
      { type: logX ? "logarithmic" : "linear", min: bounds[0], max: bounds[1] });
    Object.assign(chart.options.scales.y,
      { type: isLog ? "logarithmic" : "linear", min: low, max: high });
    if (this.dressed !== theme.version) this.dress();
    chart.update("none");
  }

  dress() {
    const { colors, version } = theme;
    this.dressed = version;
    for (const scale of Object.values(this.chart.options.scales)) {
      scale.grid = { color: colors.grid, borderColor: colors.line, drawTicks: false };
      scale.ticks.color = colors.faint;
      scale.ticks.padding = 5;
      scale.ticks.font = { size: 11 };
    }
  }

  area() {
    return this.chart.chartArea;
  }

  toPixel(value) {
    return this.chart.scales.x.getPixelForValue(value);
  }

  toValue(pixel) {
    return this.chart.scales.x.getValueForPixel(pixel);
  }
}
