// The panel of one rule: what it is, what it did, whom it refused last, and what can be done with it.

import { query, request } from "./api.js";
import { ask } from "./dialog.js";
import { el, setAttr, setText, shown } from "./dom.js";
import { editRule } from "./form.js";
import { age, count, moment, number, time } from "./format.js";
import { Frequent } from "./frequent.js";
import { warning } from "./sources.js";
import { setState } from "./states.js";

const remembered = 5; // refusals of a rule

/** Panels is a list of rules, each with a panel that stays as long as the rule does. heading is the
 * element of its headings, which hangs on what they are below. */
export class Panels {
  constructor(context, heading) {
    Object.assign(this, { context, heading });
    this.panels = new Map();
    this.element = el("div", { class: "panels" });
  }

  /** set shows rules as the API returns them; figures, if a rule has any, are beside. */
  set(rules, now) {
    const left = new Map(this.panels);
    let next = this.element.firstChild;
    for (const rule of rules) {
      const key = rule.kind + " " + query(rule.id, rule.raw);
      const panel = this.panels.get(key) ?? new Panel(this.context, this.heading);
      this.panels.set(key, panel);
      left.delete(key);
      if (panel.element === next) next = next.nextSibling;
      else this.element.insertBefore(panel.element, next);
      panel.set(rule, now);
    }
    for (const [key, panel] of left) {
      // Whoever removes a rule by keyboard goes on from here, not from the top of the page.
      if (panel.element.contains(document.activeElement)) this.element.closest("main")?.focus({ preventScroll: true });
      panel.element.remove();
      this.panels.delete(key);
    }
  }
}

class Panel {
  constructor(context, heading) {
    this.context = context;
    this.id = el(heading, { class: "clip title" });
    this.kind = el("span", { class: "badge" });
    this.mode = el("span", { class: "badge" });
    this.state = el("span", { class: "badge state" });
    this.turned = el("span", { class: "badge turned" });
    this.owner = el("span", { class: "badge" });
    this.toggle = el("button", { type: "button", onclick: () => this.#toggle() });
    this.acts = el("div", { class: "acts" },
      el("button", { type: "button", class: "edit", text: "Edit", onclick: () => editRule(this.context, this.rule) }), this.toggle,
      el("button", { type: "button", class: "danger remove", text: "Remove", onclick: () => this.#remove() }));
    this.switch = el("div", { class: "switch", role: "group" });
    this.what = el("span");
    this.where = el("a");
    this.about = el("p", { class: "note two" }, this.what, this.where);
    const names = [["threshold", "Threshold"], ["admitted", "Admitted"], ["blocked", "Blocked"], ["would", "Would block"], ["candidate", ""], ["without", "Without the argument"], ["shed", "Blocked, by criticality"]];
    this.figures = Object.fromEntries(names.map(([key, label]) => {
      const value = el("dd");
      const name = el("dt", { text: label });
      return [key, { name, value, group: el("div", { class: key === "blocked" ? "block" : key }, name, value) }];
    }));
    this.seen = []; // refusals, the newest first: the server knows the last of them alone
    this.busiest = new Frequent("Busiest");
    this.refusedMost = new Frequent("Refused most");
    this.change = el("p", { class: "change" });
    this.changes = new Unfolded("changes", "Changes before it");
    this.last = el("p", { class: "last" });
    this.earlier = new Unfolded("earlier", "Refusals before it that this page has seen");
    this.element = el("article", { class: "panel rule" },
      el("header", {}, this.id, this.kind, this.mode, this.state, this.turned, this.owner, this.acts), this.about, this.switch,
      el("dl", { class: "figures" }, ...Object.values(this.figures).map((f) => f.group)), this.change, this.changes.element, this.last, this.earlier.element,
      this.busiest.element, this.refusedMost.element);
  }

  set(rule, now) {
    this.rule = rule;
    const editing = this.context.about.capabilities.edit;
    const figures = rule.figures ?? {};
    const mode = figures.mode ?? rule.rule?.mode ?? "enforce";
    this.current = mode;
    setText(this.id, shown(rule.id));
    setAttr(this.id, "title", shown(rule.id));
    setText(this.kind, shown(rule.kind));
    setText(this.mode, mode);
    this.mode.className = "badge " + mode;
    const owner = rule.source ? shown(rule.source) : "";
    setText(this.owner, !editing || rule.editable ? owner : owner ? `read-only: kept in ${owner}` : "read-only");
    setAttr(this.owner, "title", rule.source ? `This rule belongs to ${owner}` + (rule.editable ? "" : "; change it there") : null);
    this.owner.hidden = !this.owner.textContent;
    const known = this.context.store.kinds.find((k) => k.name === rule.kind);
    this.acts.hidden = !editing || !rule.editable || !known;
    setText(this.toggle, mode === "enforce" ? "Put into shadow" : "Enforce");
    this.#switch(rule, known?.fields.find((field) => field.switch));
    this.#describe(rule);
    this.#figures(figures, rule.rule ?? {}, known);
    this.#state(figures, now);
    this.#refusals(figures, now);
  }

  // refusals shows the last refusal, and those that were the last when they were seen.
  #refusals(figures, now) {
    const last = figures.lastRefusal;
    if (last && last.at !== this.seen[0]?.at) this.seen = [last, ...this.seen].slice(0, remembered);
    this.last.hidden = !("mode" in figures);
    setText(this.last, last ? "Last refusal " + tell(last, now) : "No refusal yet.");
    this.earlier.set((last ? this.seen.slice(1) : this.seen).map((refusal) => tell(refusal, now)));
  }

  // switch shows where the operator's switch of the rule is, and has a button for each of its positions.
  #switch({ rule }, field) {
    const at = field && rule ? rule[field.name] ?? field.options[0] : "";
    this.turned.hidden = !at || at === field.options[0];
    setText(this.turned, this.turned.hidden ? "" : `${field.label.toLowerCase()}: ${at}`);
    this.switch.hidden = !at || this.acts.hidden;
    if (this.switch.hidden) return;
    if (this.switch.children.length === 0) {
      setAttr(this.switch, "aria-label", field.label);
      this.switch.append(el("span", { text: field.label, "aria-hidden": "true" }), ...field.options.map((option) =>
        el("button", { type: "button", value: option, text: option, onclick: () => this.#turn(field, option) })));
    }
    for (const button of this.switch.querySelectorAll("button")) setAttr(button, "aria-pressed", button.value === at);
  }

  // turn asks why, and turns the switch.
  #turn(field, option) {
    const given = this.rule;
    const { id, rule, source } = given;
    const [none] = field.options;
    if (option === (rule[field.name] ?? none)) return;
    const does = option === none ? "From now on the rule decides by itself again." : field.hint + " It stays so until somebody changes it.";
    const idle = this.current === "enforce" ? "" : ` The rule is in mode ${this.current}, and blocks nothing.`;
    ask({
      title: `${field.label} ${shown(id)}: ${option}?`,
      body: [el("p", { class: "note full", text: does + idle }), this.#warning(source)],
      verb: `${field.label}: ${option}`, danger: option !== none, who: this.context.about.who, reason: "required",
      send: (why) => put(given, { [field.name]: option === none ? undefined : option }, why),
    }).then((done) => done && this.context.changed(`${field.label} of the rule is ${option}.`));
  }

  // state shows the state that the rule is in, since when, and why. On so many resources, where it binds several.
  #state({ state, on = 1, since, changes, lastChanges }, now) {
    setState(this.state, state, on > 1 ? ` on ${count(on)} resources` : "");
    this.changes.set(lastChanges?.slice(0, -1).reverse().map((c) => `${tellTime(c.at, now)}: ${tellChange(c)}`) ?? []);
    const last = lastChanges?.at(-1);
    setText(this.change, last ? `${last.from} → ${last.to} ${age(now - Date.parse(since))}${last.reason ? ": " + shown(last.reason) : ""} · changes: ${count(changes)}` : "");
    this.change.hidden = !last;
  }

  // describe says in one line what the rule is, with a link to the resource if it is for one.
  #describe(given) {
    const { rule } = given;
    const exact = rule?.resource && (rule.match ?? "exact") === "exact" && !rule.resource.includes("\ufffd");
    setText(this.what, describe(given, this.context.store.kinds));
    setText(this.where, exact ? shown(rule.resource) : "");
    setAttr(this.where, "href", exact ? "#/resource/" + query(rule.resource) : null);
    setAttr(this.about, "title", this.about.textContent);
    this.about.hidden = !this.about.textContent;
  }

  #figures(f, rule, kind) {
    const show = (key, text) => {
      this.figures[key].group.hidden = text === null;
      if (text !== null) setText(this.figures[key].value, text);
      this.figures[key].group.classList.toggle("some", text !== "0");
    };
    const required = rule[kind?.fields.find((field) => field.required)?.name];
    const threshold = f.threshold ?? (typeof required === "string" ? rule.threshold : required);
    const moved = f.effective !== undefined && f.effective !== (f.threshold === undefined ? threshold : f.threshold);
    show("threshold", moved ? `${number(f.effective)} now${f.effective < threshold ? `, of ${number(threshold)}` : ""}` : threshold === undefined ? null : number(threshold));
    show("admitted", count(f.admitted ?? 0));
    show("blocked", count(f.blocked ?? 0));
    show("would", this.current === "shadow" || f.wouldBlock ? count(f.wouldBlock ?? 0) : null);
    const candidate = f.candidate || rule.candidate;
    if (candidate) setText(this.figures.candidate.name, `Would block at ${number(candidate)}`);
    show("candidate", candidate ? count(f.candidateWouldBlock ?? 0) : null);
    const never = !f.admitted && !f.blocked && !f.wouldBlock && !f.values && !f.busiest;
    show("without", f.withoutArgument ? (never ? "all " : "") + count(f.withoutArgument) : null);
    const shed = Object.entries(f.shed ?? {}).filter(([, n]) => n > 0);
    show("shed", shed.length ? shed.map(([criticality, n]) => `${criticality} ${count(n)}`).join(", ") : null);
    const frequent = (list = []) => list.map((v) => ({ name: v.value, times: v.count, excess: v.excess }));
    this.busiest.set(frequent(f.busiest));
    this.refusedMost.set(frequent(f.refusedMost));
  }

  #toggle() {
    const given = this.rule;
    const { id, source } = given;
    const shadow = this.current === "enforce";
    ask({
      title: shadow ? `Put ${shown(id)} into shadow?` : `Enforce ${shown(id)}?`,
      body: [el("p", { class: "note full", text: shadow ? "It goes on deciding and counting what it would block, but it blocks nothing." : "From now on what it refuses is blocked." }), this.#warning(source)],
      verb: shadow ? "Put into shadow" : "Enforce", who: this.context.about.who, reason: "optional",
      send: (why) => put(given, { mode: shadow ? "shadow" : "enforce" }, why),
    }).then((done) => done && this.context.changed(shadow ? "The rule is in shadow." : "The rule is enforced."));
  }

  #warning(source) {
    const warn = warning(this.context.store);
    warn.set(source);
    return warn.element;
  }

  #remove() {
    const { kind, id, raw, version, source } = this.rule;
    ask({
      title: `Remove ${shown(id)}?`,
      body: [el("p", { class: "note full", text: "Its calls pass again, unless other rules refuse them, and its counts are gone." + (source ? ` It is also taken out of ${shown(source)}, with its comments.` : "") }), this.#warning(source)],
      verb: "Remove", danger: true, who: this.context.about.who, reason: "optional",
      send: (why) => request(`rule?kind=${query(kind)}&id=${query(id, raw)}${why}`, { method: "DELETE", version }),
    }).then((done) => done && this.context.changed("The rule is removed."));
  }
}

/** put changes fields of a rule as the API has given it. */
export function put({ kind, id, raw, version, rule }, fields, why) {
  return request(`rule?kind=${query(kind)}&id=${query(id, raw)}${why}`, { method: "PUT", version, body: { ...rule, ...fields } });
}

// Unfolded are lines that are shown to those who want them.
class Unfolded {
  constructor(name, summary) {
    this.list = el("ol");
    this.element = el("details", { class: name }, el("summary", { text: summary }), this.list);
  }

  set(lines) {
    this.element.hidden = !lines.length;
    while (this.list.children.length > lines.length) this.list.lastChild.remove();
    lines.forEach((line, i) => setText(this.list.children[i] ?? this.list.appendChild(el("li")), line));
  }
}

// tellTime says when something was, with the day if that was long ago.
function tellTime(at, now) {
  const ms = Date.parse(at);
  return now - ms < 12 * 3600e3 ? time(ms) : moment(ms);
}

function tellChange({ from, to, reason }) {
  return `${from} → ${to}${reason ? ": " + shown(reason) : ""}`;
}

/** changes are those of the states of rules, as marks for a chart. */
export function changes(rules) {
  return rules.flatMap(({ kind, id, figures: f }) => (f.lastChanges ?? []).map((c) => ({
    key: `${kind} ${id} ${c.at} ${c.to}`, at: Date.parse(c.at), label: c.to, text: `${shown(id)}: ${tellChange(c)}`, quiet: f.mode !== "enforce",
  })));
}

// tell says when, of whom and why a call was refused.
function tell({ at, origin, reason }, now) {
  return `${age(now - Date.parse(at))}${origin ? ", of " + shown(origin) : ""}: ${shown(reason)}`;
}

// describe says what a rule is, up to the name of its resource.
function describe({ kind, summary, rule }, kinds) {
  if (!rule) return !kinds.length || kinds.some((k) => k.name === kind) ? "" : "A rule of a guard that the program brought.";
  const pattern = `on all that match ${shown(rule.resource ?? "")}`;
  const where = { glob: pattern, regexp: pattern, default: "on all that no rule names", all: "on all" };
  return `${shown(summary[0].toUpperCase() + summary.slice(1))} · ${where[rule.match] ?? (rule.resource?.includes("\ufffd") ? "on " + shown(rule.resource) : "on ")}`;
}
