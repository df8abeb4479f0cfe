// Changes of the view: zoom, shift, axis, and earlier views. The address contains the view, so that
// it can be saved and sent.

import { $ } from "./dom.js";
import { chosen } from "./forecast.js";
import { AXES, bounds, extent, isCurrent, shown, usualAxis, view } from "./state.js";

const SMOOTH = 0.01, SMOOTH_MOST = 0.1;
const before = []; // earlier views

// Called when the view has changed; see app.js.
let act = () => {};
export function whenMoved(action) {
  act = action;
}

export function moved() {
  act();
}

export function canGoBack() {
  return before.length > 0;
}

export function remember() {
  before.push({ axis: view.axis, from: view.from, to: view.to, follow: view.follow });
  if (before.length > 50) before.shift();
}

export function setRange(from, to) {
  const [first, last] = extent();
  const least = (last - first) * 1e-6 || 1e-9;
  if (!(to - from > least)) return;
  view.from = from;
  view.to = to;
  view.follow = to >= last - (to - from) * 0.01;
  moved();
}

export function showAll() {
  view.from = view.to = null;
  view.follow = false;
  moved();
}

export function zoom(factor, centre) {
  const [from, to] = bounds();
  const middle = centre ?? (from + to) / 2;
  remember();
  setRange(middle - (middle - from) * factor, middle + (to - middle) * factor);
}

export function pan(share) {
  const [from, to] = bounds(), shift = (to - from) * share;
  remember();
  setRange(from + shift, to + shift);
}

export function goBack() {
  const last = before.pop();
  if (!last) return showAll();
  Object.assign(view, last);
  $("axis").value = view.axis;
  return moved();
}

export function setAxis(axis) {
  remember();
  Object.assign(view, { axis, axisByHand: true, from: null, to: null, follow: false });
  $("axis").value = axis;
  moved();
}

// Sets the default axis of the daemons, unless the user has changed axis or view.
export function chooseAxis() {
  if (view.axisByHand || view.from !== null) return;
  view.axis = $("axis").value = usualAxis();
}

// A zoom that ends at the newest value follows new values.
export function advance() {
  if (!view.follow) return;
  const last = extent()[1], span = view.to - view.from;
  if (last <= view.to) return;
  view.to = last;
  view.from = last - span;
}

export function keepView() {
  const query = new URLSearchParams();
  if (view.axisByHand) query.set("axis", view.axis);
  if (view.from !== null && !view.follow) {
    query.set("from", view.from);
    query.set("to", view.to);
  }
  if (view.smooth !== SMOOTH) query.set("smooth", view.smooth);
  if (!view.band) query.set("band", 0);
  if (!view.marks) query.set("events", 0);
  if (view.log) query.set("log", 1);
  if (view.layer) query.set("layer", view.layer);
  if (chosen.byHand) {
    query.set("of", chosen.daemon);
    if (chosen.stream !== null) query.set("stream", chosen.stream);
    if (chosen.ahead) query.set("ahead", chosen.ahead);
    query.set("column", chosen.column);
    query.set("newest", chosen.points);
  }
  const byHand = [...shown].filter((id) => !isCurrent(id));
  if (byHand.length) query.set("runs", byHand.join(","));
  const text = query.toString();
  history.replaceState(null, "", text ? `#${text}` : location.pathname);
}

export function readView() {
  const query = new URLSearchParams(location.hash.slice(1));
  const value = (key) => (query.has(key) ? Number(query.get(key)) : null);
  if (AXES.includes(query.get("axis"))) Object.assign(view, { axis: query.get("axis"), axisByHand: true });
  if (value("from") !== null && value("to") > value("from"))
    Object.assign(view, { from: value("from"), to: value("to") });
  if (value("smooth") >= 0 && query.has("smooth"))
    view.smooth = Math.min(SMOOTH_MOST, value("smooth"));
  view.band = query.get("band") !== "0";
  view.marks = query.get("events") !== "0";
  view.log = query.get("log") === "1";
  view.layer = Math.max(0, Math.floor(value("layer") || 0));
  readChosen(query, value);
  for (const id of (query.get("runs") || "").split(",").map(Number)) if (id > 0) shown.add(id);
}

// Reads the selected forecasts.
function readChosen(query, value) {
  if (!query.has("of")) return;
  const whole = (key, most) => Math.min(most, Math.max(0, Math.floor(value(key) || 0)));
  Object.assign(chosen, { byHand: true, daemon: whole("of", Infinity), stream: query.get("stream"),
    ahead: whole("ahead", Infinity), column: whole("column", Infinity) });
  const points = String(value("newest"));
  if ([...$("forecast-points").options].some((option) => option.value === points)) chosen.points = Number(points);
  $("forecast-points").value = chosen.points;
}
