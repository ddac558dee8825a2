// All rules, whether their resources were called or not: a table, and of few the panels too.

import { choose, chosenIn } from "./address.js";
import { el, setAttr, setText, shown, svg } from "./dom.js";
import { age, count, rate } from "./format.js";
import { trace } from "./chart.js";
import { AddButtons } from "./kinds.js";
import { Gauge, isLimited, isLong, scaleOf } from "./limits.js";
import { Panels } from "./panel.js";
import { RuleList } from "./rulelist.js";
import { Rows } from "./rows.js";
import { Sources } from "./sources.js";
import { setState, worst } from "./states.js";

const few = 12; // rules that are shown with their panels
const listed = 10; // rules without a resource that are named

const refuses = ({ live }) => live?.rates.blocked || 0;
const would = ({ live }) => Math.max(live?.rates.wouldBlock || 0, live?.rates.candidateWouldBlock || 0);
const use = ({ live }) => (live?.effective > 0 ? live.used / live.effective : 0);
const mode = (r) => r.rule?.mode ?? "enforce";
const order = (a, b) => (a < b ? -1 : a > b ? 1 : 0);

// The columns, and by what they sort. Text sorts upwards at first, figures downwards.
const columns = [
  { key: "name", label: "Rule", by: (r) => r.id, text: true, title: "The ID of the rule" },
  { key: "kind", label: "Kind", by: (r) => r.kind, text: true, title: "What kind of rule it is" },
  { key: "spark", label: "Last minute", title: "What it let in and what it refused, second by second, with its limit" },
  { key: "block", label: "Refuses/s", by: refuses, title: "Calls that it refused in the last second" },
  { key: "would", label: "Would/s", by: would, title: "Calls that it would have refused in the last second in mode shadow, or with its candidate" },
  { key: "use", label: "Use of its limit", by: use, title: "Of its window now, or in flight: on the resource on which most of it is used" },
  { key: "refusal", label: "Last refusal", by: (r) => r.live?.lastRefusal ?? 0, title: "When it refused a call last" },
  { key: "state", label: "State", by: (r) => worst(r.live?.states ?? []) ?? mode(r), text: true, title: "What it does now, if it is in one of several states; its mode" },
];

/** RulesView is the view of all rules. */
export class RulesView {
  constructor(context) {
    const chosen = chosenIn();
    this.title = "Rules";
    this.context = { ...context, changed: (text) => {
      context.changed(text);
      this.list.load();
    } };
    this.list = new RuleList(() => this.#show());
    this.column = columns.find((c) => c.by && c.key === chosen.get("sort")) ?? columns[3];
    this.descending = chosen.has("order") ? chosen.get("order") !== "asc" : !this.column.text;
    this.sources = new Sources();
    this.panels = new Panels(this.context, "h2");
    this.rows = new Rows({ make: makeRow, fill: (row, rule, i) => fillRow(row, rule, i, this.store) });
    this.filter = el("input", { type: "search", placeholder: "Filter rules", "aria-label": "Filter rules by ID or resource", "aria-keyshortcuts": "/", autocomplete: "off", spellcheck: "false", value: chosen.get("filter") ?? "", oninput: () => {
      choose({ filter: this.filter.value.trim() });
      this.#show();
    } });
    this.matched = el("p", { class: "muted" });
    this.heads = columns.map((c) => el("div", { class: "column " + c.key, role: "columnheader", title: c.title },
      c.by ? el("button", { type: "button", text: c.label, onclick: () => this.#sort(c) }) : c.label));
    this.table = el("div", { class: "table of-rules", role: "table", "aria-label": "Rules" },
      el("div", { role: "rowgroup" }, el("div", { class: "head", role: "row", "aria-rowindex": 1 }, ...this.heads)), this.rows.element);
    this.adds = new AddButtons(this.context, {});
    this.note = el("p", { class: "note" });
    this.none = el("p", { class: "empty", hidden: true });
    this.unbound = el("p", { class: "note", id: "unbound", hidden: true });
    this.element = el("div", {}, el("div", { class: "section" }, el("h1", { text: "Rules" }), this.adds.element), this.note, this.unbound, this.sources.element,
      el("div", { class: "tools" }, el("div", { class: "filter" }, this.filter, el("kbd", { text: "/", "aria-hidden": "true" })), this.matched),
      this.table, this.none, this.panels.element);
  }

  close() {
    this.rows.close();
  }

  find() {
    this.filter.focus();
    this.filter.select();
  }

  update(store) {
    this.store = store;
    this.sources.set(store.ruleSources);
    this.list.update(store);
    this.#show();
  }

  #sort(column) {
    this.descending = this.column === column ? !this.descending : !column.text;
    this.column = column;
    choose({ sort: column.key, order: this.descending ? "desc" : "asc" });
    this.#show(true);
  }

  // Rows stay where they are while somebody is about to choose one.
  #held() {
    const at = this.rows.element;
    return (matchMedia("(hover: hover)").matches && at.matches(":hover")) || at.contains(document.activeElement);
  }

  #show(sorted = false) {
    if (!this.store) return;
    const all = this.list.all(this.store);
    const want = this.filter.value.trim().toLowerCase();
    const items = all.filter((r) => !want || (r.id + "\n" + (r.rule?.resource ?? "")).toLowerCase().includes(want));
    const panels = items.length <= few ? items : [];
    this.panels.set(panels.map((r) => ({ ...r, figures: figures(r) })), this.store.now());
    const place = !sorted && this.#held() ? new Map(this.rows.items.map((r, i) => [r.key, i])) : null;
    const sign = this.descending ? -1 : 1;
    const { by, text } = this.column;
    items.sort(place
      ? (a, b) => (place.get(a.key) ?? Infinity) - (place.get(b.key) ?? Infinity) || order(a.key, b.key)
      : (a, b) => sign * (text ? order(by(a), by(b)) : by(a) - by(b)) || order(a.key, b.key));
    this.rows.set(items);
    const unbound = all.filter((r) => !r.live?.resources && mode(r) !== "off");
    this.unbound.hidden = unbound.length === 0;
    setText(this.unbound, `${unbound.length === 1 ? "This rule binds" : "These rules bind"} no resource now, and so protect${unbound.length === 1 ? "s" : ""} nothing: ` +
      unbound.slice(0, listed).map((r) => shown(r.id)).join(", ") + (unbound.length > listed ? " and others." : "."));
    setAttr(this.table, "aria-rowcount", items.length + 1);
    columns.forEach((c, i) => setAttr(this.heads[i], "aria-sort", c === this.column ? (this.descending ? "descending" : "ascending") : null));
    this.table.hidden = items.length === 0;
    const { edit } = this.context.about.capabilities;
    this.adds.update();
    const { known } = this.context.about;
    setText(this.note, edit || !known ? "" : "Rules are read-only here: the program does not let this page change them.");
    this.note.hidden = edit || !known;
    setText(this.matched, (want ? `${count(items.length)} of ${count(all.length)}` : "") + (place && items.length > 1 ? (want ? " · " : "") + "Order held while you choose" : ""));
    this.none.hidden = items.length > 0;
    setText(this.none, want && this.list.state === "known" ? "No rule has an ID or a resource like that." : none[this.list.state]);
  }
}

// none says why there are no rules to be seen, by the state of the list.
const none = {
  asked: "The rules are being read …",
  failed: "The rules could not be read. They are asked for again.",
  known: "There are no rules: everything passes, and is counted.",
};

/** figures are those of a rule for its panel. */
export function figures({ live }) {
  const { admitted, blocked, wouldBlock, candidateWouldBlock, effective, moved, states = [] } = live ?? {};
  const state = worst(states);
  return { admitted, blocked, wouldBlock, candidateWouldBlock, effective: moved ? effective : undefined, state, on: states.filter((s) => s === state).length };
}

/** ruleLink is where the page of a rule is. */
export function ruleLink(rule) {
  return "#/rule/" + encodeURIComponent(rule.kind) + "/" + rule.key.slice(rule.kind.length + 1);
}

const [width, height] = [200, 28]; // of a sparkline

function makeRow(rule) {
  const name = shown(rule.id);
  const link = el("a", { class: "clip", href: ruleLink(rule), text: name });
  const cells = Object.fromEntries(columns.slice(1).map((c) => [c.key, el("div", { class: "cell " + c.key, role: "cell" })]));
  const spark = svg("svg", { viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true", preserveAspectRatio: "none" },
    svg("path", { class: "area pass" }), svg("path", { class: "area block" }), svg("path", { class: "spark-line pass" }), svg("path", { class: "spark-line block" }), svg("path", { class: "spark-line limit" }));
  cells.spark.append(spark);
  const gauge = new Gauge("Use of the limit of " + name);
  cells.use.append(gauge.element);
  const unit = (c) => el("span", { class: "unit", "aria-hidden": "true", text: columns.find(({ key }) => key === c).label });
  const texts = {};
  for (const key of ["block", "would", "refusal"]) cells[key].append(unit(key), texts[key] = el("span"));
  const state = el("span", { class: "badge state" });
  const shadow = el("span", { class: "badge" });
  cells.state.append(state, shadow);
  const row = el("div", { class: "row", role: "row", onclick: (e) => { if (!e.target.closest("a") && !String(getSelection())) location.hash = link.hash; } },
    el("div", { class: "cell name clip", role: "cell", title: name }, link), ...Object.values(cells));
  setText(cells.kind, shown(rule.kind));
  return Object.assign(row, { cells, texts, gauge, state, shadow, spark: spark.children });
}

function fillRow(row, rule, index, store) {
  const { live } = rule;
  setAttr(row, "aria-rowindex", index + 2);
  setText(row.texts.block, live ? rate(refuses(rule)) : "–");
  setText(row.texts.would, mode(rule) === "shadow" || rule.rule?.candidate ? rate(would(rule)) : "–");
  setText(row.texts.refusal, live?.lastRefusal ? age(store.now() - live.lastRefusal) : "–");
  row.cells.block.classList.toggle("some", refuses(rule) > 0);
  row.cells.refusal.classList.toggle("quiet", !live?.lastRefusal);
  const limited = isLimited(rule);
  row.gauge.element.hidden = !limited;
  if (limited) row.gauge.short(live.used, live.effective);
  setState(row.state, worst(live?.states ?? []));
  setText(row.shadow, mode(rule));
  row.shadow.className = "badge " + mode(rule);
  if (live) sparkline(row, rule, store);
}

function sparkline(row, { live, bounds }, store) {
  if (row.drawn === store.second) return;
  row.drawn = store.second;
  const past = (key) => store.past(live, key, store.second);
  const admitted = past("admitted");
  const blocked = past("blocked");
  const wanted = admitted.map((v, i) => v === null ? null : v + blocked[i]);
  // The limit of one resource: of several, they would be added up.
  const limit = bounds && live.interval && !isLong(live) && live.resources === 1 ? live.effective * scaleOf(live) : 0;
  const top = Math.max(1, ...wanted, limit <= 2.5 * Math.max(...wanted) ? limit : 0);
  const x = (i) => 1 + (i / 59) * (width - 2);
  const y = (v) => height - 2 - (v / top) * (height - 4);
  const pass = trace(admitted, x, y, height - 2);
  const refused = trace(wanted.map((v, i) => (blocked[i] > 0 || blocked[i + 1] > 0 || blocked[i - 1] > 0 ? v : null)), x, y, height - 2, admitted);
  row.spark[0].setAttribute("d", pass.area);
  row.spark[1].setAttribute("d", refused.area);
  row.spark[2].setAttribute("d", pass.line);
  row.spark[3].setAttribute("d", refused.line);
  row.spark[4].setAttribute("d", limit && limit <= top ? `M1 ${y(limit)}H${width - 1}` : "");
}
