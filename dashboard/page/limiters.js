// The keyed limiters: decisions, keys, and whom they refuse most.

import { request } from "./api.js";
import { ask } from "./dialog.js";
import { el, setAttr, setText, shown } from "./dom.js";
import { count, share, span } from "./format.js";
import { Frequent } from "./frequent.js";

const figures = [
  ["allowed", "Allowed"], ["refused", "Refused"], ["share", "Refused share"], ["evicted", "Evicted live"], ["expired", "Expired"], ["crowded", "Without a place"],
  ["inFlight", "In flight"], ["wouldRefuse", "Would be refused"], ["degraded", "Decided without the store"], ["coarse", "Joined for memory"],
];
const rare = new Set(["crowded", "inFlight", "wouldRefuse", "degraded", "coarse"]); // which are only shown when they are not 0

/** Limiters is the view of all limiters. */
export class Limiters {
  constructor(context) {
    this.context = context;
    this.title = "Limiters";
    this.panels = [];
    this.list = el("div", { class: "panels limiters" });
    this.none = el("p", { class: "empty", text: "The program shows no limiters here." });
    this.note = el("p", { class: "note" });
    this.show = el("button", { type: "button", id: "show-keys", text: "Show keys", onclick: () => this.#showKeys() });
    this.element = el("div", {}, el("div", { class: "section" }, el("h1", { text: "Limiters" }), this.show), this.note, this.list, this.none);
  }

  close() {}

  update(store) {
    const { hiddenKeys, capabilities } = this.context.about;
    this.none.hidden = store.limiters.length > 0;
    this.note.hidden = !hiddenKeys || store.limiters.length === 0;
    this.show.hidden = this.note.hidden || !capabilities.keys;
    setText(this.note, capabilities.keys ? "Keys, which may tell who a client is, are shown as hashes to those who may not change rules." : "Keys, which may tell who a client is, are shown as hashes here.");
    while (this.panels.length > store.limiters.length) this.panels.pop().element.remove();
    store.limiters.forEach((limiter, i) => {
      if (!this.panels[i]) this.list.append((this.panels[i] = new Panel()).element);
      this.panels[i].set(limiter);
    });
  }

  #showKeys() {
    ask({
      title: "Show keys", verb: "Show", failed: "They stay hidden: ",
      body: [el("p", { class: "note full", text: "Those who may change rules see the keys as they are." })],
      send: () => request("who"),
    }).then((done) => done && this.context.changed("The keys are shown."));
  }
}

class Panel {
  constructor() {
    this.name = el("h2", { class: "clip title" });
    this.away = el("span", { class: "badge away" });
    this.limits = el("p", { class: "note clip" });
    this.figures = Object.fromEntries(figures.map(([key, label]) => {
      const value = el("dd");
      return [key, { value, group: el("div", { class: key === "refused" ? "block" : key }, el("dt", { text: label }), value) }];
    }));
    this.keys = el("p", { class: "last" });
    this.bar = el("i");
    this.offenders = new Frequent("Refused most");
    this.element = el("article", { class: "panel limiter" }, el("header", {}, this.name, this.away), this.limits,
      el("dl", { class: "figures" }, ...Object.values(this.figures).map((f) => f.group)),
      this.keys, el("div", { class: "fill", "aria-hidden": "true" }, this.bar), this.offenders.element);
  }

  set(l) {
    const name = l.limits.map((x) => shown(x.name)).filter(Boolean).join(", ") || "Limiter";
    setText(this.name, name);
    setAttr(this.name, "title", name);
    setText(this.limits, l.limits.map((x) => `${count(x.limit)} ${x.window ? "in " + span(x.window) : "in flight"}${x.burst ? `, ${count(x.burst)} at once` : ""} for each key${x.mode ? ", " + x.mode : ""}`).join(" · "));
    setText(this.away, l.away ? "store away" : l.degraded ? "was degraded" : "");
    this.away.hidden = !this.away.textContent;
    for (const [key] of figures) {
      const { group, value } = this.figures[key];
      group.hidden = rare.has(key) && !l[key];
      group.classList.toggle("some", l[key] > 0);
      setText(value, key === "share" ? share(l.refused, l.allowed + l.refused) : count(l[key] ?? 0));
    }
    setText(this.keys, `${count(l.keys)} of at most ${count(l.maxKeys)} keys kept`);
    this.bar.style.width = Math.min(100, (100 * l.keys) / Math.max(1, l.maxKeys)) + "%";
    this.offenders.set((l.offenders ?? []).map((o) => ({ name: o.key, times: o.refused, excess: o.excess })));
  }
}
