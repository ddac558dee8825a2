// The buttons that choose what time charts show, which the address of the page keeps.

import { el, setAttr } from "./dom.js";

const all = [["minute", "Last minute"], ["hour", "Last hour"]];

/** parts are those of what follows a view's name in the address: the rest, and what was chosen. */
export function parts(rest) {
  const [name, chosen = ""] = rest.split("?");
  return [name, new URLSearchParams(chosen)];
}

/** keep writes what was chosen into the address, without another step to go back. */
export function keep(name, value) {
  const [rest, chosen] = parts(location.hash);
  if (value) chosen.set(name, value);
  else chosen.delete(name);
  history.replaceState(null, "", rest + (chosen.size ? "?" + chosen : ""));
}

/** SpanButtons begin with a span, and call choose with another. */
export class SpanButtons {
  constructor(span, choose) {
    this.span = span === "hour" ? "hour" : "minute";
    this.buttons = all.map(([value, text]) => el("button", { type: "button", value, text, onclick: () => {
      this.span = value;
      keep("span", value === "hour" && value);
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
