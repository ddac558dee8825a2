// Two resources side by side.

import { el, shown } from "./dom.js";
import { ResourceView } from "./resource.js";
import { SpanButtons } from "./span.js";

/** Beside is the view of the resources of two keys. */
export class Beside {
  constructor(key, context, other) {
    this.views = [key, other].map((one) => new ResourceView(one, context, true));
    for (const named of this.views[1].element.querySelectorAll("[id]")) named.removeAttribute("id"); // those of the first hold
    this.title = this.views.map((view) => view.title).join(" and ");
    this.spans = new SpanButtons((span) => this.views.forEach((view) => view.show(span)));
    this.context = context;
    this.element = el("div", {}, el("p", { class: "crumb" }, el("a", { href: "#/", text: "← Resources" })),
      el("h1", { class: "unseen", text: shown(this.title) }), el("div", { class: "tools" }, this.spans.element),
      el("div", { class: "two-sides" }, ...this.views.map((view) => view.element)));
  }

  update(store) {
    this.spans.offer(this.context.about.capabilities.history, store.now());
    for (const view of this.views) view.update(store);
  }

  close() {
    for (const view of this.views) view.close();
  }
}
