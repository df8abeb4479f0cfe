// Small charts of all columns of a stream: truth, forecast and band. A click shows one of them
// large.

import { make } from "./dom.js";
import { Plot } from "./draw.js";

export const MOST = 12; // charts; the list of columns has all columns

export class Multiples {
  // `choose(column)` is called after a click.
  constructor(choose) {
    this.element = make("article", { className: "panel multiples", id: "panel-multiples", hidden: true });
    this.choose = choose;
    this.charts = [];
  }

  // Adjusts the number of charts.
  arrange(count) {
    while (this.charts.length > count) this.charts.pop().button.remove();
    while (this.charts.length < count) {
      const column = this.charts.length, title = make("span"), place = make("span", { className: "plot" });
      const button = make("button", { type: "button" }, title, place);
      button.addEventListener("click", () => this.choose(column));
      this.element.append(button);
      this.charts.push({ button, title, plot: new Plot(place) });
    }
  }

  // `columns`: name and arguments of Plot.draw. Shows nothing for less than two.
  draw(columns, chosen) {
    const some = columns.length > 1 ? columns : [];
    this.element.hidden = !some.length;
    this.arrange(some.length);
    some.forEach(({ name, ...of }, column) => {
      const { button, title, plot } = this.charts[column];
      title.textContent = name;
      button.setAttribute("aria-pressed", String(column === chosen));
      plot.draw(of);
      plot.canvas.setAttribute("aria-label", `Truth and forecast of ${name}`);
    });
  }
}
