// Where rules come from: since when what is in force of each source has been, and what is wrong with what
// it holds now.

import { el, setAttr, setText, shown } from "./dom.js";
import { age, count, moment } from "./format.js";

/** refused are the sources that fail. */
export const refused = (sources) => sources.filter((s) => s.errors);

/** trouble says in one line what is wrong with sources; "" if nothing is. */
export function trouble(sources) {
  const bad = refused(sources);
  if (bad.length === 0) return "";
  if (bad.length > 1) return `${count(bad.length)} sources of rules are refused: their latest changes are not in force.`;
  const [{ source, loadedAt, errors: [{ line, message }, ...more] }] = bad;
  const why = ` ${line ? `Line ${line}: ` : ""}${shown(message)}${more.length ? ` (and ${count(more.length)} more)` : ""}.`;
  return (loadedAt ? `${shown(source)} is refused: its latest change is not in force.` : `${shown(source)} is refused: no rules could be loaded from it.`) +
    why + (loadedAt ? ` In force is what was loaded ${age(Date.now() - Date.parse(loadedAt))}.` : "");
}

/** warning is a text for those who are about to change rules of a source: whether saving loses comments, or nothing
 * if it is no source that is shown. set says which source it is. */
export function warning(store) {
  const lost = el("p", { class: "warning" });
  const kept = el("p", { class: "hint" });
  return {
    element: el("div", { class: "full comments", role: "status" }, lost, kept),
    set(name) {
      const source = store.ruleSources.find((s) => s.source === name);
      setText(lost, source?.losesComments ? `Saving will delete comments: ${shown(name)} has some where they cannot be kept.` : "");
      setText(kept, source && !source.losesComments ? `Comments in ${shown(name)} are kept.` : "");
      lost.hidden = !lost.textContent;
      kept.hidden = !kept.textContent;
    },
  };
}

/** Sources is the section of all sources of rules. */
export class Sources {
  constructor() {
    this.list = el("div", { class: "panels" });
    this.panels = [];
    this.element = el("section", { "aria-label": "Rule sources", hidden: true }, el("div", { class: "section" }, el("h2", { text: "Rule sources" })), this.list);
  }

  /** set shows sources as the API returns them. */
  set(sources) {
    this.element.hidden = sources.length === 0;
    while (this.panels.length > sources.length) this.panels.pop().element.remove();
    sources.forEach((source, i) => {
      if (!this.panels[i]) this.list.append((this.panels[i] = new Panel()).element);
      this.panels[i].set(source);
    });
  }
}

class Panel {
  constructor() {
    this.name = el("h3", { class: "clip title" });
    this.state = el("span", { class: "badge" });
    this.loaded = el("p", { class: "note" });
    this.failing = el("p", { class: "note" });
    this.faults = el("ol", { class: "faults" });
    this.element = el("article", { class: "panel source" }, el("header", {}, this.name, this.state), this.failing, this.faults, this.loaded);
  }

  set({ source, rules, loadedAt, failingSince, errors = [] }) {
    setText(this.name, shown(source));
    setAttr(this.name, "title", shown(source));
    const when = (at) => `${moment(Date.parse(at))} (${age(Date.now() - Date.parse(at))})`;
    const fails = errors.length > 0;
    setText(this.state, fails ? "refused" : loadedAt ? "in force" : "not loaded");
    this.state.className = "badge " + (fails ? "away" : loadedAt ? "good" : "");
    const number = `${count(rules)} ${rules === 1 ? "rule" : "rules"}`;
    setText(this.loaded, loadedAt ? `${fails ? "Still in force: " : ""}${number}, loaded ${when(loadedAt)}.` : "No rules have been loaded from it.");
    setText(this.failing, failingSince ? `What it holds has been refused since ${when(failingSince)}:` : "What it holds is refused:");
    this.failing.hidden = !fails;
    this.#faults(errors, source);
  }

  #faults(errors, source) {
    this.faults.hidden = errors.length === 0;
    while (this.faults.children.length > errors.length) this.faults.lastChild.remove();
    errors.forEach(({ file, line, column, message }, i) => {
      if (!this.faults.children[i]) this.faults.append(el("li", {}, el("b"), el("span")));
      const [where, what] = this.faults.children[i].children;
      const parts = [file && file !== source && shown(file), line && `line ${line}, column ${column}`].filter(Boolean);
      setText(where, parts.length ? parts.join(", ") + ": " : "");
      setText(what, shown(message));
    });
  }
}
