// The frame of every chart: a canvas, above it the pointer's line and the selection as elements of
// their own, so that moving draws nothing, and the text shown while there is nothing.

import { make } from "./dom.js";

export const LEFT = 56, RIGHT = 10; // of the plots, so that all of them line up

// Pixels that the label of a tick takes.
export const tickRoom = (axis) => (axis === "time" || axis === "elapsed" ? 80 : 60);

export class Frame {
  constructor(element) {
    this.element = element;
    this.canvas = make("canvas");
    this.canvas.setAttribute("role", "img");
    this.cursor = make("div", { className: "cursor" });
    this.selection = make("div", { className: "selection" });
    this.empty = make("div", { className: "empty" });
    element.append(this.canvas, this.selection, this.cursor, this.empty);
  }

  // Instead of a chart; "" = there is one.
  sayEmpty(text) {
    if (this.empty.textContent !== text) this.empty.textContent = text;
    this.empty.hidden = !text;
  }

  // Between two pixels; the same = none.
  showSelection(from, to) {
    this.place(this.selection, from !== to && this.empty.hidden, Math.min(from, to));
    this.selection.style.width = `${Math.abs(to - from)}px`;
  }

  // At a position; null = nowhere.
  showCursor(position) {
    this.place(this.cursor, position !== null && this.empty.hidden, position === null ? 0 : this.toPixel(position));
  }

  place({ style }, visible, left) {
    style.display = visible ? "block" : "none";
    if (!visible) return;
    const { top, bottom } = this.area();
    Object.assign(style, { left: `${left}px`, top: `${top}px`, height: `${bottom - top}px` });
  }
}
