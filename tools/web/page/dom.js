// What both pages share: finds elements by id, creates elements, requests data.

export const $ = (id) => document.getElementById(id);

export const make = (tag, properties = {}, ...children) => {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children);
  return element;
};

export async function get(path) {
  const response = await fetch(path, { cache: "no-store" });
  const body = await response.json();
  if (!response.ok)
    throw Object.assign(new Error(body.error || response.statusText), { status: response.status });
  return body;
}

export function showConnection(text, bad = false) {
  $("connection").textContent = text;
  $("connection").classList.toggle("bad", bad);
}

export function fail(error) {
  showConnection(error.message, true);
}

// The chart library loads during the first requests.
export async function loadCharts() {
  await new Promise((resolve, reject) => {
    const missing = () => reject(new Error("cannot load the chart library"));
    document.head.append(make("script", { src: "chart.js", onload: resolve, onerror: missing }));
  });
  Chart.defaults.font.family = getComputedStyle(document.body).fontFamily;
}

export function showSmooth(value) {
  $("smooth").value = Math.round(100 * value);
  $("smooth-value").textContent = value ? `${Math.round(100 * value)}%` : "off";
}
