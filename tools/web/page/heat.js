// The histogram of a layer's hidden units over time: a column for each point, a row for each bin,
// -1 at the bottom. Its width is that of other charts.

import { theme } from "./draw.js";
import { ticks } from "./format.js";
import { Frame, LEFT, RIGHT, tickRoom } from "./frame.js";

const BOTTOM = 24, TOP = 4, BINS = 20;
// Colours for shares of units (viridis); 0 is transparent.
const STOPS = [[68, 1, 84], [59, 82, 139], [33, 145, 140], [94, 201, 98], [253, 231, 37]];

export function heatColor(share) {
  const at = Math.min(1, Math.max(0, share)) * (STOPS.length - 1);
  const low = Math.min(STOPS.length - 2, Math.floor(at)), part = at - low;
  return STOPS[low].map((value, i) => Math.round(value + part * (STOPS[low + 1][i] - value)));
}

const RAMP = Array.from({ length: 256 }, (_, i) => heatColor(i / 255));

export class Heat extends Frame {
  constructor(element) {
    super(element);
    this.image = document.createElement("canvas");
    this.bounds = [0, 1];
  }

  area() {
    const { clientWidth, clientHeight } = this.element;
    return { left: LEFT, right: clientWidth - RIGHT, top: TOP, bottom: clientHeight - BOTTOM };
  }

  toPixel(value) {
    const { left, right } = this.area(), [from, to] = this.bounds;
    return left + (right - left) * (value - from) / (to - from);
  }

  toValue(pixel) {
    const { left, right } = this.area(), [from, to] = this.bounds;
    return from + (to - from) * (pixel - left) / (right - left);
  }

  // `parts`: consecutive runs, each with `positions` and `histograms`, one entry a point.
  draw({ parts, axis, bounds, empty }) {
    this.bounds = bounds;
    this.showEmpty(empty);
    const { clientWidth: width, clientHeight: height } = this.element;
    const dense = window.devicePixelRatio || 1;
    if (!width) return;
    this.canvas.width = Math.round(width * dense);
    this.canvas.height = Math.round(height * dense);
    const context = this.canvas.getContext("2d");
    context.scale(dense, dense);
    for (const { positions, histograms } of parts)
      if (positions.length) this.drawCells(context, positions, histograms, dense);
    this.drawAxes(context, axis);
  }

  drawCells(context, positions, histograms, dense) {
    const { left, right, top, bottom } = this.area();
    const columns = Math.max(1, Math.round((right - left) * dense));
    const image = new ImageData(columns, BINS), pixels = image.data;
    let point = 0;
    for (let column = 0; column < columns; column++) {
      const at = this.toValue(left + (column + 0.5) / dense);
      // A point summarizes the messages since the previous point.
      while (point < positions.length && positions[point] < at) point++;
      const row = histograms[point];
      if (point >= positions.length || (point === 0 && at < positions[0] - this.gap(positions)) || !row)
        continue;
      let sum = 0;
      for (const count of row) sum += count || 0;
      for (let bin = 0; bin < BINS && sum > 0; bin++) {
        const share = (row[bin] || 0) / sum;
        if (share <= 0) continue;
        // The root makes small shares visible; a share of 20% is the brightest.
        const color = RAMP[Math.min(255, Math.round(255 * Math.sqrt(share / 0.2)))];
        const place = 4 * ((BINS - 1 - bin) * columns + column);
        pixels[place] = color[0];
        pixels[place + 1] = color[1];
        pixels[place + 2] = color[2];
        pixels[place + 3] = 255;
      }
    }
    this.image.width = columns;
    this.image.height = BINS;
    this.image.getContext("2d").putImageData(image, 0, 0);
    context.imageSmoothingEnabled = false;
    context.drawImage(this.image, left, top, right - left, bottom - top);
  }

  gap(positions) {
    return positions.length > 1 ? positions[1] - positions[0] : 0;
  }

  drawAxes(context, axis) {
    const { left, right, top, bottom } = this.area(), { faint, line } = theme.colors;
    context.font = "11px " + Chart.defaults.font.family;
    context.fillStyle = faint;
    context.textBaseline = "middle";
    context.textAlign = "right";
    for (const value of [-1, -0.5, 0, 0.5, 1])
      context.fillText(String(value), left - 6, top + 4 + (bottom - top - 8) * (1 - value) / 2);
    context.strokeStyle = line;
    context.strokeRect(left + 0.5, top + 0.5, right - left - 1, bottom - top - 1);
    context.textBaseline = "top";
    context.textAlign = "center";
    const most = Math.max(2, (right - left) / tickRoom(axis));
    for (const tick of ticks(axis, this.bounds[0], this.bounds[1], most)) {
      const at = this.toPixel(tick.value), last = right + RIGHT - context.measureText(tick.label).width / 2;
      if (at >= left && at <= right + 1) context.fillText(tick.label, Math.min(at, last), bottom + 7);
    }
  }
}
