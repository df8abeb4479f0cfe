// The pointer on a chart: a line across all charts with their values, and a selection to zoom.

import { make } from "./dom.js";
import { eventColor } from "./draw.js";
import { number, position } from "./format.js";
import { bounds, eventsInView, shownRuns, view } from "./state.js";
import { remember, setRange, showAll, zoom } from "./view.js";

const NEAR_SHARE = 1 / 60; // of the view: maximum distance to an event

let cursor = null; // position of the pointer

// Handles the pointer on a panel's plot; `panels`: all panels.
export function handle(panel, panels) {
  const { plot } = panel;
  const at = plot.followPointer((x) => {
    cursor = x;
    showCursor(panels);
  }, (range) => {
    remember();
    if (range) setRange(...range);
    else showAll();
  });
  plot.element.addEventListener("wheel", (event) => {
    if (!event.ctrlKey) return;
    event.preventDefault();
    zoom(event.deltaY > 0 ? 1.25 : 0.8, plot.toValue(at(event)));
  }, { passive: false });
}

let visibleBefore = false;
export function showCursor(panels) {
  const [from, to] = bounds();
  const visible = cursor !== null && cursor >= from && cursor <= to;
  if (!visible && !visibleBefore) return;
  visibleBefore = visible;
  for (const panel of panels) {
    if (!panel.inSight || !panel.plot || panel.paint) continue; // has a different axis
    panel.plot.showCursor(visible ? cursor : null);
    panel.readout.replaceChildren(...(visible ? readout(panel, from, to) : []));
  }
}

function readout(panel, from, to) {
  const parts = [make("span", { textContent: position(view.axis, cursor, to - from) })];
  if (panel.heat) return parts;
  for (const line of panel.shown) {
    const index = nearest(line.data, cursor);
    if (index >= 0) parts.push(readoutOf(line, index, panel.spec.format || number));
  }
  const event = nearestEvent((to - from) * NEAR_SHARE);
  if (event) {
    const part = make("span", { textContent: `${event.kind}: ${event.text}` });
    part.style.color = eventColor(event.kind);
    parts.splice(1, 0, part);
  }
  return parts;
}

function readoutOf(line, index, write) {
  const dot = make("i");
  dot.style.setProperty("--color", line.color);
  const { value, raw } = line.data[index], part = make("span", {}, dot);
  if (value === null) {
    part.append(make("span", { className: "bad", textContent: "no finite value" }));
    return part;
  }
  part.append(make("b", { textContent: write(value) }));
  if (line.beyond && raw !== null && (raw < line.beyond.low || raw > line.beyond.high))
    part.append(make("span", { textContent: ` actual ${write(raw)}` }));
  if (line.low && line.low[index] !== null)
    part.append(` ${number(line.low[index])} … ${number(line.high[index])}`);
  return part;
}

function nearest(data, x) {
  let low = -1, high = data.length;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (data[middle].x <= x) low = middle;
    else high = middle;
  }
  if (low >= 0 && low + 1 < data.length && data[low + 1].x - x < x - data[low].x) return low + 1;
  return low >= 0 ? low : data.length ? 0 : -1;
}

function nearestEvent(within) {
  const close = eventsInView(shownRuns()).filter((event) => Math.abs(event.x - cursor) < within);
  return close.sort((a, b) => Math.abs(a.x - cursor) - Math.abs(b.x - cursor))[0];
}
