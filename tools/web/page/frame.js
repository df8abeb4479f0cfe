// The frame of a chart: a canvas, elements for the pointer's line and the selection, which move
// without drawing, and a text for an empty chart.

import { make } from "./dom.js";

const DRAG_LEAST = 6; // pixels: a shorter drag is a click
export const LEFT = 56, RIGHT = 10; // pixels beside the plots, equal for all charts

// Pixels of a tick's label.
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

  // Shows a text instead of the chart; "" shows the chart.
  showEmpty(text) {
    if (this.empty.textContent !== text) this.empty.textContent = text;
    this.empty.hidden = !text;
  }

  // Shows the selection between two pixels; equal = none.
  showSelection(from, to) {
    this.place(this.selection, from !== to && this.empty.hidden, Math.min(from, to));
    this.selection.style.width = `${Math.abs(to - from)}px`;
  }

  // Shows the line at a position; null = none.
  showCursor(position) {
    this.place(this.cursor, position !== null && this.empty.hidden, position === null ? 0 : this.toPixel(position));
  }

  // Calls `hover` with the position of the pointer, or null, and `select` with [from, to] of a drag,
  // or null for everything. Returns the function for the pixel of an event.
  followPointer(hover, select) {
    const { element } = this;
    let start = null;
    const at = (event) => {
      const { left, right } = this.area();
      return Math.min(right, Math.max(left, event.clientX - element.getBoundingClientRect().left));
    };
    const drop = () => { start = null; this.showSelection(0, 0); };
    element.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      start = at(event);
      element.setPointerCapture(event.pointerId);
    });
    element.addEventListener("pointermove", (event) => {
      hover(this.toValue(at(event)));
      if (start !== null) this.showSelection(start, at(event));
    });
    element.addEventListener("pointerup", (event) => {
      if (start === null) return;
      const end = at(event), from = Math.min(start, end), to = Math.max(start, end);
      drop();
      if (to - from >= DRAG_LEAST) select([this.toValue(from), this.toValue(to)]);
    });
    element.addEventListener("pointercancel", drop);
    element.addEventListener("pointerleave", () => hover(null));
    element.addEventListener("dblclick", () => select(null));
    return at;
  }

  place({ style }, visible, left) {
    style.display = visible ? "block" : "none";
    if (!visible) return;
    const { top, bottom } = this.area();
    Object.assign(style, { left: `${left}px`, top: `${top}px`, height: `${bottom - top}px` });
  }
}
