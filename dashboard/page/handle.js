// The handle of a line in a chart, by which it is dragged up and down with pointer or finger, and moved
// with the arrow keys.

import { el, setAttr } from "./dom.js";

/** A Handle is put beside its line with set. valueAt says what a place on the screen means on the chart's axis; hold is
 * called when the handle is taken and when it is let go.
 *
 * drag, in set, says what is dragged: {key, label, value, text, step, scale, move, stop}. value is that of the rule, of
 * which the axis shows scale times as much; move is called with another one, and stop when the try is given up. */
export class Handle {
  constructor({ valueAt, hold }) {
    const end = () => {
      if (!this.taken) return;
      this.taken = false;
      hold(false);
    };
    this.element = el("div", {
      class: "handle", tabindex: "0", role: "slider", "aria-orientation": "vertical", "aria-valuemin": 0,
      onpointerdown: (e) => {
        this.taken = true;
        hold(true);
        this.element.setPointerCapture(e.pointerId);
        this.element.focus({ preventScroll: true });
        e.preventDefault();
      },
      onpointermove: (e) => this.taken && this.#move(valueAt(e.clientY) / this.drag.scale),
      onpointerup: end, onpointercancel: end, onlostpointercapture: end,
      onkeydown: (e) => this.#key(e),
    });
  }

  set(drag, y) {
    this.drag = drag;
    setAttr(this.element, "aria-label", drag.label);
    setAttr(this.element, "aria-valuenow", drag.value);
    setAttr(this.element, "aria-valuetext", drag.text);
    setAttr(this.element, "title", drag.label + ": drag it, or use the arrow keys, to see how many calls exceeded another limit");
    this.element.style.top = y + "px";
  }

  #move(value) {
    const { step, move } = this.drag;
    const to = Math.max(0, Math.round(value / step) * step);
    if (to !== this.drag.value) move(to);
  }

  #key(event) {
    if (event.ctrlKey || event.altKey || event.metaKey) return;
    const { value, step, stop } = this.drag;
    const by = event.shiftKey ? 1 : step;
    const to = { ArrowUp: value + by, ArrowRight: value + by, ArrowDown: value - by, ArrowLeft: value - by, PageUp: value + 10 * step, PageDown: value - 10 * step, Home: 0 }[event.key];
    if (event.key === "Escape") stop();
    else if (to === undefined) return;
    else this.drag.move(Math.max(0, to));
    event.preventDefault();
    event.stopPropagation();
  }
}
