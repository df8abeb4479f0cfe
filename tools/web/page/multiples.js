// All columns of a stream side by side, small: truth, forecast and band. A click shows one large.

import { make } from "./dom.js";
import { Plot } from "./draw.js";

export const MOST = 12; // columns; the others can be chosen above

export class Multiples {
  // `choose(column)`: one is to be seen large.
  constructor(choose) {
    this.element = make("article", { className: "panel multiples", id: "panel-multiples", hidden: true });
    this.choose = choose;
    this.charts = [];
  }

  // So many charts, made when there are others than before.
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

  // `columns`: of each its name, and what a Plot draws; less than two are none.
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
