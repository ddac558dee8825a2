// The buttons that choose what time charts show, which the address of the page keeps.

import { choose as keep, chosenIn, selected } from "./address.js";
import { el, setAttr } from "./dom.js";

const all = [["minute", "Last minute"], ["hour", "Last hour"]];

/** SpanButtons begin with the span in the address, and call choose with another. */
export class SpanButtons {
  constructor(choose) {
    this.span = chosenIn().get("span") === "hour" ? "hour" : "minute";
    this.buttons = all.map(([value, text]) => el("button", { type: "button", value, text, onclick: () => {
      this.span = value;
      keep({ span: value === "hour" && value });
      this.#show();
      choose(value);
    } }));
    this.element = el("div", { class: "choice", role: "group", "aria-label": "Time that is shown", hidden: true }, ...this.buttons);
    this.#show();
  }

  /** offer shows them, if there is anything to choose. If the second in the address was too long ago for the minute, the
   * hour is chosen at first. */
  offer(on, now) {
    this.element.hidden = !on;
    if (!on || this.offered) return;
    this.offered = true;
    if (selected() !== null && selected() <= now - 61e3 && this.span === "minute") this.buttons.at(-1).click();
  }

  #show() {
    for (const button of this.buttons) setAttr(button, "aria-pressed", String(button.value === this.span));
  }
}
