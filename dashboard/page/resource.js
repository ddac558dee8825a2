// One resource: its last minute in charts, its rules, its totals.

import { Problem, query, request } from "./api.js";
import { Chart } from "./chart.js";
import { el, setText, shown } from "./dom.js";
import { count, duration, rate, share } from "./format.js";
import { AddButtons } from "./kinds.js";
import { strip } from "./overview.js";
import { Panels, changes, lines } from "./panel.js";
import { minute } from "./store.js";

const totals = [["pass", "Pass"], ["block", "Block"], ["success", "Success"], ["exception", "Exception"], ["ignored", "Ignored"], ["wouldBlock", "Would block"], ["occupiedPass", "Occupied pass"], ["waits", "Waits"]];

/** ResourceView is the view of one resource. key is its name as it is in a query. */
export class ResourceView {
  constructor(key, context) {
    this.context = { ...context, changed: (text) => {
      context.changed(text);
      this.#load();
    } };
    try {
      this.title = decodeURIComponent(key.replaceAll("+", " "));
      this.key = query(this.title); // however it was written
    } catch {
      this.title = this.key = key; // not UTF-8
    }
    this.seconds = new Map(); // what is known of each second of the clock
    this.limits = new Map(); // what held at each second, by kind and ID of the rule
    this.marks = new Map(); // the changes of rules that were seen, also those of a server before this one
    this.strip = strip([["pass", "Pass/s"], ["block", "Block/s"], ["share", "Blocked"], ["exception", "Exceptions/s"], ["avg", "Avg RT"], ["p99", "p99"], ["concurrency", "In flight"], ["waiting", "Waiting"], ["waitP95", "Wait p95"]]);
    this.rates = new Chart({ title: "Pass and block per second", format: rate, least: 5, marked: true, series: [
      { key: "pass", label: "pass", class: "pass", area: true }, { key: "block", label: "block", class: "block" },
    ] });
    this.rates.element.classList.add("wide");
    this.latencies = new Chart({ title: "Response time over 10 s", format: duration, least: 0.01, none: "no completed calls", series: [
      { key: "p50", label: "p50", class: "p50" }, { key: "p95", label: "p95", class: "p95" }, { key: "p99", label: "p99", class: "p99" },
    ] });
    this.flight = new Chart({ title: "Calls in flight", format: rate, least: 4, none: "no calls", series: [{ key: "maxConcurrency", label: "in flight", class: "flight", area: true }] });
    this.panels = new Panels(this.context, "h3");
    this.note = el("p", { class: "note" });
    this.adds = new AddButtons(this.context, { resource: this.title });
    this.none = el("p", { class: "note", hidden: true, text: "No rule binds this resource: everything passes, and is counted." });
    this.totals = Object.fromEntries(totals.map(([k]) => [k, el("dd")]));
    this.gone = el("p", { class: "empty", hidden: true });
    const name = shown(this.title);
    this.body = el("div", {}, this.strip.element, el("div", { class: "charts" }, this.rates.element, this.latencies.element, this.flight.element),
      el("div", { class: "section" }, el("h2", { text: "Rules" }), this.adds.element), this.note, this.none, this.panels.element,
      el("div", { class: "section" }, el("h2", { text: "Since the beginning" })),
      el("div", { class: "panel" }, el("dl", { class: "figures" }, ...totals.map(([k, label]) => el("div", {}, el("dt", { text: label }), this.totals[k])))));
    this.element = el("div", {}, el("p", { class: "crumb" }, el("a", { href: "#/", text: "← Resources" })),
      el("div", { class: "name-line" }, el("h1", { class: "two", text: name, title: name })), this.gone, this.body);
  }

  close() {
    this.closed = true;
    for (const chart of [this.rates, this.latencies, this.flight]) chart.close();
  }

  /** update asks for the newest figures; without a connection, the charts go on without them. */
  update(store) {
    if (performance.now() - store.received < 2500) this.#load();
    else this.#draw(Math.floor(store.now() / 1000) - 1);
  }

  async #load() {
    if (this.loading) return;
    this.loading = true;
    try {
      const answer = await request("resource?name=" + this.key, { signal: AbortSignal.timeout(5000) });
      if (this.closed) return;
      this.#take(answer);
      this.gone.hidden = true;
      this.body.hidden = false;
    } catch (error) {
      if (this.closed || !(error instanceof Problem)) return; // the stream tells of lost connections
      this.gone.hidden = false;
      this.body.hidden = error.status === 404;
      setText(this.gone, error.status === 404 ? "There is no such resource now. It appears with its first call; one that was idle gives way if there are too many." : error.message);
    } finally {
      this.loading = false;
    }
  }

  #take(r) {
    const running = Math.floor(Date.parse(r.at) / 1000);
    // Before that, the history has seconds of which the server knows nothing. What was seen of a server
    // before this one stays.
    const since = Math.floor(Date.parse(r.started) / 1000);
    r.history.forEach((entry, i) => {
      const second = running - (r.history.length - 1) + i;
      if (second < running && second >= since) this.seconds.set(second, entry);
    });
    for (const second of this.seconds.keys()) if (second < running - minute || second >= running) this.seconds.delete(second);
    this.rules = r.rules;
    this.limits.set(running - 1, new Map(r.rules.map((rule) => [ruleKey(rule), rule.figures?.effective ?? null])));
    for (const second of this.limits.keys()) if (second < running - minute) this.limits.delete(second);
    for (const mark of changes(r.rules)) this.marks.set(mark.key, mark);
    for (const { key, at } of this.marks.values()) if (at < (running - minute) * 1000 || at > (running + 1) * 1000) this.marks.delete(key);
    const known = this.context.store.resources.get(this.key);
    this.strip.set({
      pass: rate(r.passQPS), block: rate(r.blockQPS), share: share(r.blockQPS, r.passQPS + r.blockQPS), exception: rate(r.exceptionQPS),
      avg: duration(r.avgRT), p99: duration((known ?? r).p99), concurrency: count(r.concurrency),
      waiting: count(r.waiting), waitP95: duration(r.waitP95),
    });
    for (const [k] of totals) setText(this.totals[k], count(r[k]));
    this.panels.set(r.rules, Date.parse(r.at));
    this.none.hidden = r.rules.length > 0;
    const { edit } = this.context.about.capabilities;
    this.adds.update();
    setText(this.note, edit ? "" : "Rules are read-only here: the program does not let this page change them.");
    this.note.hidden = edit;
    this.#draw(running - 1);
  }

  #draw(end) {
    if (!this.rules) return;
    const history = (key) => Array.from({ length: minute }, (_, i) => this.seconds.get(end - minute + 1 + i)?.[key] ?? null);
    const resource = this.context.store.resources.get(this.key);
    const past = (key) => (resource ? this.context.store.past(resource, key, end) : new Array(minute).fill(null));
    const held = (rule) => Array.from({ length: minute }, (_, i) => this.limits.get(end - minute + 1 + i)?.get(ruleKey(rule)) ?? null);
    this.rates.update({ end: end * 1000, values: { pass: history("pass"), block: history("block") }, lines: lines(this.rules, "pass", held), marks: [...this.marks.values()].sort((a, b) => a.at - b.at) });
    this.latencies.update({ end: end * 1000, values: { p50: past("p50"), p95: past("p95"), p99: past("p99") } });
    this.flight.update({ end: end * 1000, values: { maxConcurrency: history("maxConcurrency") }, lines: lines(this.rules, "concurrency", held) });
  }
}

function ruleKey({ kind, id }) {
  return kind + " " + id;
}
