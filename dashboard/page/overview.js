// All resources as rows, to be sorted and filtered.

import { trace } from "./chart.js";
import { el, setAttr, setText, shown, svg } from "./dom.js";
import { count, duration, rate, share } from "./format.js";
import { Load } from "./load.js";
import { Rows } from "./rows.js";
import { setState, trouble, worst } from "./states.js";

const blockedShare = (r) => (r.blockQPS ? r.blockQPS / (r.passQPS + r.blockQPS) : 0);

// The columns: by what they sort, and what they show. Text sorts upwards at first, figures downwards.
const columns = [
  { key: "name", label: "Resource", by: (r) => r.name },
  { key: "spark", label: "Last minute" },
  { key: "pass", label: "Pass/s", by: (r) => r.passQPS, show: (r) => rate(r.passQPS) },
  { key: "block", label: "Block/s", by: (r) => r.blockQPS, show: (r) => rate(r.blockQPS) },
  { key: "share", label: "Blocked", by: blockedShare, show: (r) => share(r.blockQPS, r.passQPS + r.blockQPS) },
  { key: "avg", label: "Avg RT", by: (r) => r.avgRT, show: (r) => duration(r.avgRT) },
  { key: "p95", label: "p95", by: (r) => r.p95, show: (r) => duration(r.p95) },
  { key: "p99", label: "p99", by: (r) => r.p99, show: (r) => duration(r.p99) },
  { key: "flight", label: "In flight", by: (r) => r.concurrency, show: (r) => count(r.concurrency) },
];
const figures = columns.filter((c) => c.show);

const most = 8; // resources that are named above the table

// What was chosen holds when the view is left and come back to.
const chosen = { column: columns[2], descending: true, filter: "" };

/** Overview is the view of all resources. */
export class Overview {
  constructor() {
    this.title = "";
    this.rows = new Rows({ make: makeRow, fill: (row, r, i) => fillRow(row, r, i, this.store) });
    this.strip = strip([["pass", "Pass/s"], ["block", "Block/s"], ["share", "Blocked"], ["concurrency", "In flight"], ["resources", "Resources"]]);
    this.load = new Load();
    this.filter = el("input", {
      type: "search", id: "filter", placeholder: "Filter resources", "aria-label": "Filter resources by name", "aria-keyshortcuts": "/",
      autocomplete: "off", spellcheck: "false", value: chosen.filter, oninput: () => this.#changed(), onkeydown: (e) => this.#escape(e),
    });
    this.matched = el("p", { class: "muted", id: "matched" });
    this.heads = columns.map((c) => el("div", { class: "column " + c.key, role: "columnheader" },
      c.by ? el("button", { type: "button", text: c.label, onclick: () => this.#sort(c) }) : c.label));
    this.table = el("div", { class: "table", role: "table", "aria-label": "Resources" },
      el("div", { role: "rowgroup" }, el("div", { class: "head", role: "row", "aria-rowindex": 1 }, ...this.heads)), this.rows.element);
    this.none = el("p", { class: "empty", hidden: true });
    this.away = el("p", { class: "warning away", hidden: true });
    this.element = el("div", {}, el("h1", { class: "unseen", text: "Resources" }), this.strip.element, this.away, this.load.element,
      el("div", { class: "tools" }, el("div", { class: "filter" }, this.filter, el("kbd", { text: "/", "aria-hidden": "true" })), this.matched),
      this.table, this.none);
  }

  /** update shows the figures of the store. */
  update(store) {
    this.store = store;
    const t = store.totals();
    this.strip.set({
      pass: rate(t.pass), block: rate(t.block), share: share(t.block, t.pass + t.block), concurrency: count(t.concurrency), resources: count(t.resources),
    });
    this.#states();
    this.load.update(store);
    this.#list(this.#held());
  }

  // states names the resources with a breaker that is not closed, wherever their rows are.
  #states() {
    const all = trouble(this.store.resources.values());
    this.away.hidden = all.length === 0;
    const key = all.map(({ resource, state }) => state + resource.key).join("\n");
    if (key === this.named) return;
    this.named = key;
    const links = all.slice(0, most).map(({ resource, state }) => el("span", { class: "where" },
      el("a", { class: "clip", href: "#/resource/" + resource.key, text: shown(resource.name) || "(no name)" }), setState(el("span", { class: "badge state" }), state)));
    this.away.replaceChildren("Breakers not closed:", ...links, all.length > most ? `and ${count(all.length - most)} more` : "");
  }

  close() {
    this.load.close();
    this.rows.close();
  }

  /** find puts the cursor into the filter. */
  find() {
    this.filter.focus();
    this.filter.select();
  }

  // held tells whether the rows should stay where they are: somebody is about to choose one.
  #held() {
    const at = this.rows.element;
    return (matchMedia("(hover: hover)").matches && at.matches(":hover")) || at.contains(document.activeElement);
  }

  #list(hold) {
    const { column, descending, filter } = chosen;
    const want = filter.trim().toLowerCase();
    const all = [...this.store.resources.values()];
    const items = want ? all.filter((r) => r.name.toLowerCase().includes(want)) : all;
    const place = hold ? new Map(this.rows.items.map((r, i) => [r.key, i])) : null;
    const sign = descending ? -1 : 1;
    const byName = (a, b) => (a.key < b.key ? -1 : a.key > b.key ? 1 : 0);
    items.sort(place
      ? (a, b) => (place.get(a.key) ?? Infinity) - (place.get(b.key) ?? Infinity) || byName(a, b)
      : column.key === "name" ? (a, b) => sign * byName({ key: a.name }, { key: b.name }) || byName(a, b)
        : (a, b) => sign * (column.by(a) - column.by(b)) || byName(a, b));
    this.rows.set(items);
    setAttr(this.table, "aria-rowcount", items.length + 1);
    columns.forEach((c, i) => setAttr(this.heads[i], "aria-sort", c === column ? (descending ? "descending" : "ascending") : null));
    setText(this.matched, (want ? `${count(items.length)} of ${count(all.length)}` : "") + (place && items.length > 1 ? (want ? " · " : "") + "Order held while you choose" : ""));
    this.none.hidden = items.length > 0;
    setText(this.none, want ? "No resource has a name like that." : "No resource yet. They appear with their first call.");
  }

  #sort(column) {
    chosen.descending = chosen.column === column ? !chosen.descending : column.key !== "name";
    chosen.column = column;
    if (this.store) this.#list(false);
  }

  #changed() {
    chosen.filter = this.filter.value;
    if (this.store) this.#list(false);
  }

  #escape(event) {
    if (event.key === "Escape" && this.filter.value) {
      this.filter.value = "";
      this.#changed();
    } else if (event.key === "Escape") this.filter.blur();
    else if (event.key === "ArrowDown") this.rows.goTo(0);
    else return;
    event.preventDefault();
  }
}

/** strip shows some figures in a line: fields are [[key, label]]. */
export function strip(fields) {
  const values = Object.fromEntries(fields.map(([key]) => [key, el("dd", { id: "total-" + key, text: "–" })]));
  return {
    element: el("dl", { class: "strip" }, ...fields.map(([key, label]) => el("div", { class: key }, el("dt", { text: label }), values[key]))),
    set(texts) {
      for (const [key, text] of Object.entries(texts)) {
        setText(values[key], text);
        values[key].parentNode.classList.toggle("some", !/^(0|–)/.test(text));
      }
    },
  };
}

function makeRow(resource) {
  const link = el("a", { class: "clip", href: "#/resource/" + resource.key });
  const name = shown(resource.name) || "(no name)";
  link.textContent = name;
  const spark = svg("svg", { viewBox: "0 0 112 28", "aria-hidden": "true", preserveAspectRatio: "none" },
    svg("path", { class: "area pass" }), svg("path", { class: "spark-line pass" }), svg("path", { class: "spark-line block" }));
  const cells = figures.map((c) => {
    const value = el("span");
    const cell = el("div", { class: "cell " + c.key, role: "cell" }, el("span", { class: "unit", "aria-hidden": "true", text: c.label }), value);
    return Object.assign(cell, { value });
  });
  const state = el("span", { class: "badge state" });
  const row = el("div", { class: "row", role: "row", onclick: (e) => { if (!e.target.closest("a") && !String(getSelection())) location.hash = link.hash; } },
    el("div", { class: "cell name clip", role: "cell", title: name }, link, state), el("div", { class: "cell spark", role: "cell" }, spark), ...cells);
  return Object.assign(row, { cells, state, spark: spark.children });
}

function fillRow(row, resource, index, store) {
  setAttr(row, "aria-rowindex", index + 2);
  setState(row.state, worst(resource.states));
  figures.forEach((c, i) => {
    const cell = row.cells[i];
    setText(cell.value, c.show(resource));
    const v = c.by(resource);
    cell.classList.toggle("quiet", !v);
    cell.classList.toggle("some", v > 0);
  });
  sparkline(row, resource, store);
}

function sparkline(row, resource, store) {
  if (row.drawn === store.second) return;
  row.drawn = store.second;
  const pass = store.past(resource, "passQPS", store.second);
  const block = store.past(resource, "blockQPS", store.second);
  const top = Math.max(1, ...pass, ...block);
  const x = (i) => 1 + (i / 59) * 110;
  const y = (v) => 26 - (v / top) * 24;
  const { line, area } = trace(pass, x, y, 26);
  row.spark[0].setAttribute("d", area);
  row.spark[1].setAttribute("d", line);
  row.spark[2].setAttribute("d", block.some((v) => v > 0) ? trace(block, x, y, 26).line : "");
}
