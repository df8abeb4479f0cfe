// The range of a chart's y axis, and outliers: a single outlier must not flatten all other values.

export const FILLED = 0.5; // a band that fills the chart at a larger share of points is not drawn
const TENTH = 0.1;
const FENCE = 3;  // times the width of the middle eight tenths: values further away are outliers
const NEWEST = 5; // last points of a line, whose median is always visible
const REACH = 9;  // chart heights beyond the range, to which a line is drawn
const EVEN = 0.05; // minimum width of nearly equal values, as a share of their size

function quantile(values, share) {
  const sorted = Float64Array.from(values).sort();
  return sorted[Math.round(share * (sorted.length - 1))];
}

function extremes(values) {
  let least = Infinity, greatest = -Infinity;
  for (const value of values) { least = Math.min(least, value); greatest = Math.max(greatest, value); }
  return [least, greatest];
}

// Minimum and maximum of a line's values without outliers; always includes the newest values.
function usual(values) {
  const [least, greatest] = extremes(values);
  const low = quantile(values, TENTH), high = quantile(values, 1 - TENTH);
  const width = Math.max(high - low, EVEN * Math.abs(low));
  if (!(width > 0)) return [least, greatest];
  const newest = quantile(values.slice(-NEWEST), 0.5);
  return [Math.min(Math.max(least, low - FENCE * width), newest),
    Math.max(Math.min(greatest, high + FENCE * width), newest)];
}

// Limits beyond which the values of a line are marked as outliers.
export function fences({ data }, [from, to], low, high) {
  const raws = [];
  for (const { x, raw } of data) if (x >= from && x <= to && raw !== null) raws.push(raw);
  if (!raws.length) return null;
  const [least, greatest] = usual(raws);
  return { low: Math.min(low, least), high: Math.max(high, greatest) };
}

// A canvas cannot draw to 1e30.
export function keepDrawable(data, low, high) {
  const height = high - low, least = low - REACH * height, most = high + REACH * height;
  for (const point of data)
    point.y = point.value === null ? null : Math.min(most, Math.max(least, point.value));
}

// Values of the lines in the view, ends of deviation bands, which are shown whole, and ends of
// bands from minimum to maximum. A forecast's interval counts as two lines.
function inSight(lines, [from, to]) {
  const found = { values: [], whole: [], lows: [], highs: [] };
  for (const line of lines) {
    const values = [], ends = [[], []];
    for (let i = 0; i < line.data.length; i++) {
      const { x, value } = line.data[i];
      if (x < from || x > to) continue;
      if (value !== null && Number.isFinite(value)) values.push(value);
      if (line.low && line.low[i] !== null && line.high[i] !== null) addBand(found, line, i, ends);
    }
    found.values.push(...[values, ...ends].filter((all) => all.length));
  }
  return found;
}

function addBand({ whole, lows, highs }, line, i, ends) {
  if (line.spec.band === "interval") {
    ends[0].push(line.low[i]);
    ends[1].push(line.high[i]);
  } else if (line.spec.band === "deviation") {
    whole.push(line.low[i], line.high[i]);
  } else {
    lows.push(line.low[i]);
    highs.push(line.high[i]);
  }
}

// Bands from minimum to maximum extend the range by at most half of it on each side, without the
// outermost twentieth, and not at all if they would fill the chart.
export function limits(lines, bounds, log, range, robust, reference) {
  const { values, whole, lows, highs } = inSight(lines, bounds);
  if (!values.length) return [log ? 0.1 : 0, 1, log];
  const isLog = log && values.every((all) => all.every((value) => value > 0));
  const forward = isLog ? Math.log10 : (value) => value;
  const back = isLog ? (value) => 10 ** value : (value) => value;
  const ends = values.flatMap((all) => (robust ? usual : extremes)(all.map(forward)));
  let [bottom, top] = extremes([...ends, ...whole.map(forward), ...(reference === undefined ? [] : [reference])]);
  const room = Math.max((top - bottom) / 2, 1e-9 * Math.max(Math.abs(top), 1e-300));
  const filling = lows.filter((low, i) => (isLog && low <= 0 ? -Infinity : forward(low)) <= bottom - room &&
    forward(highs[i]) >= top + room).length;
  if (lows.length && filling <= FILLED * lows.length) {
    const positive = isLog ? lows.filter((value) => value > 0) : lows;
    if (positive.length) bottom = Math.min(bottom, Math.max(forward(quantile(positive, 0.05)), bottom - room));
    const most = quantile(highs, 0.95);
    if (!isLog || most > 0) top = Math.max(top, Math.min(forward(most), top + room));
  }
  [bottom, top] = withMargin(bottom, top, isLog);
  if (range && !isLog) {
    if (range[0] !== null) bottom = Math.max(bottom, range[0]);
    if (range[1] !== null) top = Math.min(top, range[1]);
    if (!(top > bottom)) top = bottom + 1;
  }
  return [back(bottom), back(top), isLog];
}

function withMargin(bottom, top, isLog) {
  let margin = 0.06 * (top - bottom);
  if (!(margin > 1e-12 * Math.max(Math.abs(top), Math.abs(bottom)))) margin = isLog ? 0.3 : Math.abs(top) / 10 || 0.5;
  const floor = !isLog && bottom >= 0 ? 0 : -Infinity;
  return [Math.max(bottom - margin, floor), top + margin];
}
