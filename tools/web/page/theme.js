// The theme: light, dark or that of the system.

import { $ } from "./dom.js";
import { readTheme } from "./draw.js";

const THEMES = ["system", "light", "dark"];
const darkSystem = matchMedia("(prefers-color-scheme: dark)");

function setTheme(choice) {
  const dark = choice === "dark" || (choice === "system" && darkSystem.matches);
  document.documentElement.dataset.theme = dark ? "dark" : "light";
  document.documentElement.dataset.choice = choice;
  $("theme").textContent = { light: "☀ light", dark: "☾ dark", system: "◐ system" }[choice];
  try { localStorage.setItem("theme", choice); } catch { /* then it lasts for this visit */ }
  readTheme();
}

export function restoreTheme() {
  let choice = "system";
  try { choice = localStorage.getItem("theme") || choice; } catch { /* the system's theme */ }
  setTheme(THEMES.includes(choice) ? choice : "system");
}

// Called after a change of the theme.
let redraw = () => {};

function changeTheme(choice) {
  setTheme(choice);
  redraw();
}

export function nextTheme() {
  changeTheme(THEMES[(THEMES.indexOf(document.documentElement.dataset.choice) + 1) % THEMES.length]);
}

export function offerThemes(action) {
  redraw = action;
  $("theme").addEventListener("click", nextTheme);
  darkSystem.addEventListener("change", () => changeTheme(document.documentElement.dataset.choice));
}
