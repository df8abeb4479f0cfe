// Numbers, times and ticks as text.

const BETWEEN = /[-_.:/ ]/; // between the words of a name
const PREFIXES = [[1e9, "G"], [1e6, "M"], [1e3, "k"]];

// About 4 digits: 0.0123 12.35 1.23e-5 12.3k
export function number(value) {
  if (typeof value !== "number" || Number.isNaN(value)) return "–";
  const size = Math.abs(value);
  if (size === 0) return "0";
  if (size >= 1e12 || size < 1e-3) return value.toExponential(2);
  for (const [unit, letter] of PREFIXES)
    if (size >= (letter === "k" ? 10 : 1) * unit) return shorten(value / unit, 4) + letter;
  return shorten(value, 4);
}

function shorten(value, digits) {
  const text = value.toPrecision(digits);
  return text.includes(".") ? text.replace(/\.?0+$/, "") : String(Number(text));
}

export function microseconds(value) {
  if (typeof value !== "number") return "–";
  if (value >= 1e6) return `${shorten(value / 1e6, 3)} s`;
  return value >= 1e3 ? `${shorten(value / 1e3, 3)} ms` : `${shorten(value, 3)} µs`;
}

export function grouped(value) {
  return typeof value !== "number" ? "–" : Math.round(value).toLocaleString("en");
}

// A count in at most nine characters: 9,999,999 12.35M
export function counted(value) {
  return value >= 1e7 ? number(value) : grouped(value);
}

export function percent(value) {
  return typeof value !== "number" ? "–" : (100 * value).toFixed(1) + "%";
}

// Skill with its sign: a share of the baseline's loss, or a difference of likelihoods.
export function skill(value, isShare) {
  if (typeof value !== "number") return "–";
  const sign = value < 0 ? "−" : "+";
  return sign + (isShare ? percent(Math.abs(value)) : number(Math.abs(value)));
}

export function duration(seconds) {
  const s = Math.max(0, Math.round(seconds));
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min ${s % 60 ? `${s % 60} s` : ""}`.trim();
  if (s < 86400) return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`;
  return `${Math.floor(s / 86400)} d ${Math.floor((s % 86400) / 3600)} h`;
}

// Splits each name into the words that it shares with others, and the rest.
export function splitNames(names) {
  return names.map((name, i) => {
    const shared = names.map((other, k) => (k === i ? 0 : sharedWords(name, other))).filter(Boolean);
    const end = shared.length ? Math.min(...shared) : 0;
    return [name.slice(0, end), name.slice(end)];
  });
}

// The length of the common beginning in whole words, without the last word of the name.
function sharedWords(name, other) {
  let i = 0;
  while (i < name.length && name[i] === other[i]) i++;
  if (i < name.length && BETWEEN.test(name[i])) i++;
  return name.slice(0, i).search(/[^-_.:/ ]*$/);
}

const pad = (value) => String(value).padStart(2, "0");

// Local time, with the date unless it is today's.
export function clock(unix, withDay = true) {
  const date = new Date(unix * 1000);
  const time = `${pad(date.getHours())}:${pad(date.getMinutes())}:${pad(date.getSeconds())}`;
  const today = new Date().toDateString() === date.toDateString();
  return today || !withDay ? time : `${day(date)} ${time}`;
}

function day(date) {
  return `${date.getFullYear()}-${pad(date.getMonth() + 1)}-${pad(date.getDate())}`;
}

// A position on an axis as text. `span` of the view determines the resolution.
export function position(axis, value, span = Infinity) {
  if (axis === "time") return clock(value);
  if (axis === "elapsed") return elapsed(value, span);
  return grouped(value);
}

function elapsed(seconds, span) {
  const s = Math.max(0, seconds);
  if (span < 5) return `${s.toFixed(2)} s`;
  const hours = Math.floor(s / 3600), minutes = Math.floor((s % 3600) / 60);
  const rest = pad(Math.floor(s % 60));
  return hours ? `${hours}:${pad(minutes)}:${rest}` : `${minutes}:${rest}`;
}

const TIME_STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600,
  43200, 86400, 172800, 259200, 604800, 1209600, 2592000];

// Positions and labels of ticks.
export function ticks(axis, from, to, most) {
  const span = to - from;
  const timed = axis === "time" || axis === "elapsed";
  const step = (timed && span > most && TIME_STEPS.find((one) => span / one <= most)) ||
    niceStep(span / most);
  // Full hours and days of local time, not of UTC.
  const shift = axis === "time" ? new Date(from * 1000).getTimezoneOffset() * 60 : 0;
  const found = [];
  for (let at = Math.ceil((from - shift) / step) * step + shift; at <= to; at += step)
    found.push({ value: at, label: tickLabel(axis, at, step) });
  return found;
}

// The same for a logarithmic axis: powers of ten, with 2 and 5 of each if there is room.
export function powers(from, to, most) {
  const decades = Math.log10(to / from), leads = 3 * decades <= most ? [1, 2, 5] : [1];
  const every = Math.max(1, Math.ceil(decades / most)), found = [];
  for (let power = Math.floor(Math.log10(from)); 10 ** power <= to; power += every)
    for (const lead of leads) {
      const value = lead * 10 ** power;
      if (value >= from && value <= to) found.push({ value, label: number(value) });
    }
  return found.length > 1 ? found : ticks("examples", from, to, most); // for a narrow view
}

function niceStep(least) {
  const power = 10 ** Math.floor(Math.log10(least));
  return power * [1, 2, 5, 10].find((one) => one * power >= least * 0.999);
}

function tickLabel(axis, value, step) {
  if (axis === "elapsed") return elapsed(value, step);
  if (axis !== "time") return number(value);
  const date = new Date(value * 1000);
  if (step >= 86400 || (date.getHours() === 0 && date.getMinutes() === 0 && step >= 60))
    return day(date).slice(5);
  const minutes = `${pad(date.getHours())}:${pad(date.getMinutes())}`;
  if (step >= 60) return minutes;
  const seconds = date.getSeconds() + date.getMilliseconds() / 1000;
  return `${minutes}:${step < 1 ? seconds.toFixed(1).padStart(4, "0") : pad(Math.floor(seconds))}`;
}
