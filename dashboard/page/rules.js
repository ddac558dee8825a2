// All rules, whether their resources were called or not.

import { query, request } from "./api.js";
import { el, setText } from "./dom.js";
import { count } from "./format.js";
import { AddButtons } from "./kinds.js";
import { Panels } from "./panel.js";
import { Sources } from "./sources.js";
import { worst } from "./states.js";

const most = 100; // panels at a time; the filter finds the others

/** RulesView is the view of all rules. */
export class RulesView {
  constructor(context) {
    this.title = "Rules";
    this.context = { ...context, changed: (text) => {
      context.changed(text);
      this.version = "";
      this.#load();
    } };
    this.rules = [];
    this.version = "";
    this.sources = new Sources();
    this.panels = new Panels(this.context, "h2");
    this.filter = el("input", { type: "search", placeholder: "Filter rules", "aria-label": "Filter rules by ID or resource", "aria-keyshortcuts": "/", autocomplete: "off", spellcheck: "false", oninput: () => this.#show() });
    this.matched = el("p", { class: "muted" });
    this.adds = new AddButtons(this.context, {});
    this.note = el("p", { class: "note" });
    this.none = el("p", { class: "empty", hidden: true });
    this.element = el("div", {}, el("div", { class: "section" }, el("h1", { text: "Rules" }), this.adds.element), this.note, this.sources.element,
      el("div", { class: "tools" }, el("div", { class: "filter" }, this.filter, el("kbd", { text: "/", "aria-hidden": "true" })), this.matched),
      this.panels.element, this.none);
  }

  close() {}

  find() {
    this.filter.focus();
    this.filter.select();
  }

  update(store) {
    this.store = store;
    this.sources.set(store.ruleSources);
    if (store.rulesVersion !== this.version) this.#load();
    this.#show();
  }

  async #load() {
    if (this.loading) return;
    this.loading = true;
    try {
      ({ rules: this.rules, version: this.version } = await request("rules"));
      this.#show();
    } catch {
      // It is asked again with the next frame.
    } finally {
      this.loading = false;
    }
  }

  #show() {
    if (!this.store) return;
    const known = new Set(this.rules.map((r) => r.kind + " " + query(r.id, r.raw)));
    const { kinds } = this.store;
    const plugged = [...this.store.rules.values()].filter((r) => !known.has(r.key) && kinds.length && !kinds.some((k) => k.name === r.kind));
    const all = [...this.rules, ...plugged];
    const want = this.filter.value.trim().toLowerCase();
    const items = all.filter((r) => !want || (r.id + "\n" + (r.rule?.resource ?? "")).toLowerCase().includes(want));
    this.panels.set(items.slice(0, most).map((r) => ({ ...r, figures: this.#figures(r) })), this.store.now());
    const { edit } = this.context.about.capabilities;
    this.adds.update();
    setText(this.note, edit ? "" : "Rules are read-only here: the program does not let this page change them.");
    this.note.hidden = edit;
    setText(this.matched, items.length > most ? `The first ${most} of ${count(items.length)}` : want ? `${count(items.length)} of ${count(all.length)}` : "");
    this.none.hidden = items.length > 0;
    setText(this.none, want ? "No rule has an ID or a resource like that." : "There are no rules: everything passes, and is counted.");
  }

  #figures(rule) {
    const { states = [], effective, ...figures } = this.store.rules.get(rule.kind + " " + query(rule.id, rule.raw)) ?? {};
    const state = worst(states);
    return { ...figures, effective: effective ?? undefined, state, on: states.filter((s) => s === state).length };
  }
}
