// All resources as rows, those that need attention first, to be sorted and filtered.

import { choose, chosenIn } from "./address.js";
import { trouble, words, worse } from "./attention.js";
import { trace } from "./chart.js";
import { el, setAttr, setText, shown, svg } from "./dom.js";
import { count, duration, rate, share } from "./format.js";
import { Load } from "./load.js";
import { Rows } from "./rows.js";
import { setState } from "./states.js";

const blockedShare = (r) => (r.blockQPS ? r.blockQPS / (r.passQPS + r.blockQPS) : 0);

// The columns: by what they sort, what they show, and what that is. Text sorts upwards at first, figures downwards.
const columns = [
  { key: "name", label: "Resource", by: (r) => r.name, says: "What is protected, by the name under which calls enter it." },
  { key: "attention", label: "Attention", by: (r) => -r.why.rank, says: `Why somebody should look, the worst first: ${words.join(", ")}. ` +
    "Failing: 2 or more calls had an exception, and 10 % or more of those of the last 5 s. Of less than 5 calls in 5 s, the last ones in the minute are looked at. Blocking: some were refused in the last 5 s. Saturated: 90 % or more of a limit has been in use for 3 s." },
  { key: "spark", label: "Last minute", says: "The passes of each of the last 60 s, the blocks on top of them, the exceptions, and as a dashed line the lowest limit of passes per second." },
  { key: "pass", label: "Pass/s", by: (r) => r.passQPS, show: (r) => rate(r.passQPS), says: "Calls per second that passed, over the last second." },
  { key: "block", label: "Block/s", by: (r) => r.blockQPS, show: (r) => rate(r.blockQPS), says: "Calls per second that were refused, over the last second." },
  { key: "share", label: "Blocked", by: blockedShare, show: (r) => share(r.blockQPS, r.passQPS + r.blockQPS), says: "The share of all calls of the last second that were refused." },
  { key: "exception", label: "Exc./s", by: (r) => r.exceptionQPS, show: (r) => rate(r.exceptionQPS), says: "Calls per second that ended with an exception, over the last second." },
  { key: "avg", label: "Avg RT", by: (r) => r.avgRT, show: (r) => duration(r.avgRT), says: "How long the calls took on average that ended in the last second. Waits before a call began are left out." },
  { key: "p95", label: "p95", by: (r) => r.p95, show: (r) => duration(r.p95), says: "95 of 100 calls that ended in the last 10 s took at most so long." },
  { key: "p99", label: "p99", by: (r) => r.p99, show: (r) => duration(r.p99), says: "99 of 100 calls that ended in the last 10 s took at most so long." },
  { key: "flight", label: "In flight", by: (r) => r.concurrency, show: (r) => count(r.concurrency), says: "Calls that have begun and not ended, now." },
  { key: "waiting", label: "Waiting", by: (r) => r.waiting, show: (r) => count(r.waiting), says: "The queue: calls that wait now for a rule to let them begin." },
];
const figures = columns.filter((c) => c.show);
const [named, needy] = columns;
const says = Object.fromEntries(columns.map((c) => [c.key === "flight" ? "concurrency" : c.key, c.says]));

const most = 8; // resources that are named above the table
const calm = 4900; // ms for which rows stay where they are: frames come every second, more or less
const soon = 1900; // the same when one is to come up that is worse than before
const resting = 10000; // ms after which a pointer is not being moved any more
const other = "other"; // the name of what has no place of its own

// What was chosen holds when the view is left and come back to.
const chosen = { column: needy, descending: true, filter: "" };

// recall takes what the address says, if it says anything.
function recall() {
  const said = chosenIn();
  if (!["sort", "order", "filter"].some((name) => said.has(name))) return;
  chosen.column = columns.find((c) => c.by && c.key === said.get("sort")) ?? needy;
  chosen.descending = said.has("order") ? said.get("order") === "desc" : chosen.column !== named;
  chosen.filter = said.get("filter") ?? "";
}

// remember puts it there, but for what holds anyway.
function remember() {
  const { column, descending, filter } = chosen;
  choose({ sort: column === needy ? "" : column.key, order: descending === (column !== named) ? "" : descending ? "desc" : "asc", filter });
}

/** Overview is the view of all resources. */
export class Overview {
  constructor() {
    this.title = "";
    recall();
    remember();
    this.rows = new Rows({ make: makeRow, reuse: nameRow, fill: (row, r, i) => fillRow(row, r, i, this.store) });
    this.pointed = -Infinity; // when a mouse was moved over the rows last
    this.rows.element.addEventListener("pointermove", (e) => { if (e.pointerType === "mouse") this.pointed = performance.now(); });
    this.ranks = new Map(); // by key, when the rows were sorted last
    this.moved = -Infinity; // when rows moved last
    this.strip = strip([
      ["pass", "Pass/s"], ["block", "Block/s"], ["share", "Blocked"], ["exception", "Exc./s"], ["concurrency", "In flight"], ["waiting", "Waiting"],
      ["resources", "Resources", "How many resources there are."], ["sources", "Sources", "Where rules come from, and whether what they hold is in force."],
    ]);
    this.load = new Load();
    this.filter = el("input", {
      type: "search", id: "filter", placeholder: "Filter resources", "aria-label": "Filter resources by name", "aria-keyshortcuts": "/",
      autocomplete: "off", spellcheck: "false", value: chosen.filter, oninput: () => this.#changed(), onkeydown: (e) => this.#escape(e),
    });
    this.matched = el("p", { class: "muted", id: "matched" });
    this.again = el("button", { type: "button", id: "sort-now", text: "Sort now", title: "Rows move every 5 s at most, and not while you choose one.", onclick: () => this.#list(true) });
    this.heads = columns.map((c) => el("div", { class: "column " + c.key, role: "columnheader", title: c.says },
      c.by ? el("button", { type: "button", text: c.label, onclick: () => this.#sort(c) }) : c.label));
    this.table = el("div", { class: "table", role: "table", "aria-label": "Resources" },
      el("div", { role: "rowgroup" }, el("div", { class: "head", role: "row", "aria-rowindex": 1 }, ...this.heads)), this.rows.element);
    this.none = el("p", { class: "empty", hidden: true });
    this.away = el("p", { class: "warning away", hidden: true });
    const meanings = el("details", { class: "meanings" }, el("summary", { text: "What the columns say" }), el("dl", {},
      ...columns.flatMap((c) => [el("dt", { text: c.label }), el("dd", { text: c.says })]), el("dt", { text: other }), el("dd", { text: beyond })));
    this.element = el("div", {}, el("h1", { class: "unseen", text: "Resources" }), this.strip.element, this.away, this.load.element,
      el("div", { class: "tools" }, el("div", { class: "filter" }, this.filter, el("kbd", { text: "/", "aria-hidden": "true" })), this.again, this.matched, meanings),
      this.table, this.none);
  }

  /** update shows the figures of the store. */
  update(store) {
    this.store = store;
    const t = store.totals();
    const [sources, bad] = [store.ruleSources.length, store.ruleSources.filter((s) => s.errors).length];
    this.strip.set({
      pass: rate(t.pass), block: rate(t.block), share: share(t.block, t.pass + t.block), exception: rate(t.exception),
      concurrency: count(t.concurrency), waiting: count(t.waiting), resources: count(t.resources),
      sources: sources ? (bad ? `${count(bad)} refused` : `${count(sources)} good`) : null,
    });
    this.#trouble();
    this.load.update(store);
    this.#list(false);
  }

  // trouble names the resources in grave trouble, wherever their rows are.
  #trouble() {
    const all = trouble(this.store.resources.values());
    this.away.hidden = all.length === 0;
    const key = all.map((r) => r.why.word + r.key).join("\n");
    if (key === this.named) return;
    this.named = key;
    const links = all.slice(0, most).map((r) => el("span", { class: "where" },
      el("a", { class: "clip", href: "#/resource/" + r.key, text: shown(r.name) || "(no name)" }), setState(el("span", { class: "badge state" }), r.why.word)));
    this.away.replaceChildren("In trouble:", ...links, all.length > most ? `and ${count(all.length - most)} more` : "");
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

  // held reports whether the rows should stay where they are: somebody is about to choose one. A pointer that
  // was left lying there chooses nothing.
  #held() {
    const at = this.rows.element;
    return (performance.now() - this.pointed < resting && at.matches(":hover")) || at.contains(document.activeElement);
  }

  // due reports whether rows may move again: not while somebody reads them, unless one is worse than it was.
  #due(all) {
    const since = performance.now() - this.moved;
    return since >= calm || since >= soon && chosen.column === needy && all.some((r) => r.why.rank < (this.ranks.get(r.key) ?? words.length));
  }

  // list shows the rows, in another order if it is time for that, or if somebody wants it now.
  #list(now) {
    const { column, descending, filter } = chosen;
    const want = filter.trim().toLowerCase();
    const all = [...this.store.resources.values()];
    const byName = (a, b) => (a.key < b.key ? -1 : a.key > b.key ? 1 : 0);
    const wanted = new Set(want ? all.filter((r) => r.name.toLowerCase().includes(want)) : all);
    let items = this.rows.items.filter((r) => wanted.delete(r)).concat([...wanted].sort(byName)); // where they are, and what is new
    const held = !now && this.#held();
    if (now || !held && this.#due(all)) {
      const sign = descending ? -1 : 1;
      const sorted = items.toSorted(column === needy ? (a, b) => -sign * worse(a, b)
        : column === named ? (a, b) => sign * byName({ key: a.name }, { key: b.name }) || byName(a, b)
          : (a, b) => sign * (column.by(a) - column.by(b)) || byName(a, b));
      if (now || sorted.some((r, i) => r !== items[i])) this.moved = performance.now();
      this.ranks = new Map(all.map((r) => [r.key, r.why.rank]));
      items = sorted;
    }
    this.rows.set(items);
    setAttr(this.table, "aria-rowcount", items.length + 1);
    columns.forEach((c, i) => setAttr(this.heads[i], "aria-sort", c === column ? (descending ? "descending" : "ascending") : null));
    setText(this.matched, (want ? `${count(items.length)} of ${count(all.length)}` : "") + (held && items.length > 1 ? (want ? " · " : "") + "Order held while you choose" : ""));
    this.none.hidden = items.length > 0;
    setText(this.none, want ? "No resource has a name like that." : "No resource yet. They appear with their first call.");
  }

  #sort(column) {
    chosen.descending = chosen.column === column ? !chosen.descending : column !== named;
    chosen.column = column;
    remember();
    if (this.store) this.#list(true);
  }

  #changed() {
    chosen.filter = this.filter.value;
    remember();
    if (this.store) this.#list(true);
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

const beyond = "Calls under names for which there was no room are counted and limited together.";

/** strip shows some figures in a line: fields are [[key, label, title]], with the title of a column if they have none. What
 * is null is not there. */
export function strip(fields) {
  const values = Object.fromEntries(fields.map(([key]) => [key, el("dd", { id: "total-" + key, text: "–" })]));
  return {
    element: el("dl", { class: "strip" }, ...fields.map(([key, label, title]) => el("div", { class: key, title: title ?? says[key] }, el("dt", { text: label }), values[key]))),
    set(texts) {
      for (const [key, text] of Object.entries(texts)) {
        values[key].parentNode.hidden = text === null;
        if (text === null) continue;
        setText(values[key], text);
        values[key].parentNode.classList.toggle("some", !/^(0|–)/.test(text));
      }
    },
  };
}

function makeRow(resource) {
  const link = el("a", { class: "clip" });
  const drawn = ["area pass", "spark-line limit", "spark-line block", "spark-line pass", "spark-line exception"].map((c) => svg("path", { class: c }));
  const spark = svg("svg", { viewBox: "0 0 200 28", "aria-hidden": "true", preserveAspectRatio: "none" }, ...drawn);
  const cells = figures.map((c) => {
    const value = el("span");
    const cell = el("div", { class: "cell " + c.key, role: "cell" }, el("span", { class: "unit", "aria-hidden": "true", text: c.label }), value);
    return Object.assign(cell, { value });
  });
  const [state, detail] = [el("span", { class: "badge state" }), el("span", { class: "detail clip" })];
  const name = el("div", { class: "cell name clip", role: "cell" }, link);
  const why = el("div", { class: "cell attention", role: "cell" }, state, detail);
  const row = el("div", { class: "row", role: "row", onclick: (e) => { if (!e.target.closest("a") && !String(getSelection())) location.hash = link.hash; } },
    name, why, el("div", { class: "cell spark", role: "cell" }, spark), ...cells);
  nameRow(Object.assign(row, { name, link, cells, why, state, detail, paths: drawn }), resource);
  return row;
}

// nameRow makes a row that of a resource.
function nameRow(row, resource) {
  const name = shown(resource.name) || "(no name)";
  setText(row.link, name);
  setAttr(row.link, "href", "#/resource/" + resource.key);
  setAttr(row.name, "title", resource.name === other ? beyond : name);
  row.drawn = undefined;
}

function fillRow(row, resource, index, store) {
  const { word, detail, text } = resource.why;
  setAttr(row, "aria-rowindex", index + 2);
  setAttr(row, "data-why", word || null);
  setState(row.state, word);
  setText(row.detail, detail);
  setAttr(row.why, "title", text || null);
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
  const [pass, block, exceptions] = ["passQPS", "blockQPS", "exceptionQPS"].map((key) => store.past(resource, key, store.second));
  const wanted = pass.map((v, i) => (v === null ? null : v + block[i]));
  const high = Math.max(1, ...wanted);
  const limit = resource.limit > 0 && resource.limit <= 2 * high ? resource.limit : 0; // a far one would flatten all else
  const top = Math.max(high, limit);
  const x = (i) => 1 + (i / 59) * 198;
  const y = (v) => 26 - (v / top) * 24;
  const { line, area } = trace(pass, x, y, 26);
  const some = (values, drawn) => (values.some((v) => v > 0) ? trace(drawn, x, y, 26).line : "");
  const all = [area, limit ? `M1 ${y(limit)}H199` : "", some(block, wanted), line, some(exceptions, exceptions)];
  all.forEach((d, i) => row.paths[i].setAttribute("d", d));
}
