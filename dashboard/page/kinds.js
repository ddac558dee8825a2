// The kinds of rules, as the server describes them: whatever is registered there appears here.

import { el } from "./dom.js";
import { addRule } from "./form.js";

/** AddButtons are buttons that add a rule, one for each kind; given is what the new rule has. */
export class AddButtons {
  constructor(context, given) {
    Object.assign(this, { context, given });
    this.element = el("div", { class: "adds" });
  }

  update() {
    const { about, store } = this.context;
    this.element.hidden = !about.capabilities.edit;
    if (this.kinds === store.kinds) return;
    this.kinds = store.kinds;
    this.element.replaceChildren(...this.kinds.map((kind) =>
      el("button", { type: "button", class: "add", text: `Add ${kind.name} rule`, onclick: () => addRule(this.context, kind.name, this.given) })));
  }
}
