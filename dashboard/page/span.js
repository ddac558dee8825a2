// The buttons that choose what time charts show, which the address of the page keeps.

import { choose as keep, chosenIn } from "./address.js";
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

  /** offer shows them, if there is anything to choose. */
  offer(on) {
    this.element.hidden = !on;
  }

  #show() {
    for (const button of this.buttons) setAttr(button, "aria-pressed", String(button.value === this.span));
  }
}
