// One resource: its past in charts, its rules, its totals.

import { Problem, query, request } from "./api.js";
import { Chart } from "./chart.js";
import { el, setText, shown } from "./dom.js";
import { count, duration, rate, share } from "./format.js";
import { AddButtons } from "./kinds.js";
import { Gauges, lines } from "./limits.js";
import { strip } from "./overview.js";
import { Panels, changes } from "./panel.js";
import { Past, ruleKey, spans } from "./past.js";
import { SpanButtons } from "./span.js";
import { Trial } from "./trial.js";

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
    const again = () => this.#draw(this.past.newest);
    this.past = new Past(this.key, again);
    this.versions = new Map(); // of the rules, when they were seen last
    this.marks = new Map(); // the changes of rules that were seen, also those of a server before this one
    this.strip = strip([["pass", "Pass/s"], ["block", "Block/s"], ["share", "Blocked"], ["exception", "Exc./s"], ["avg", "Avg RT"], ["p99", "p99"], ["concurrency", "In flight"], ["waiting", "Waiting"],
      ["waitP95", "Wait p95", "95 of 100 calls that began in the last 10 s after a wait had waited at most so long."]]);
    this.rates = new Chart({ title: "Demand per second", format: rate, least: 5, marked: true, stacked: "wanted", series: [
      { key: "pass", label: "pass", class: "pass", area: true }, { key: "block", label: "block", class: "block", area: true },
      { key: "exception", label: "exceptions", class: "exception", rare: true },
    ] });
    this.rates.element.classList.add("wide");
    this.latencies = new Chart({ title: "Response time over 10 s", format: duration, least: 0.01, none: "no completed calls", series: [
      { key: "p50", label: "p50", class: "p50" }, { key: "p95", label: "p95", class: "p95" }, { key: "p99", label: "p99", class: "p99" },
      { key: "waitP95", label: "wait p95", class: "waiting", rare: true },
    ] });
    this.flight = new Chart({ title: "Calls in flight", format: rate, least: 4, none: "no calls", series: [
      { key: "maxConcurrency", label: "in flight", class: "flight", area: true }, { key: "waiting", label: "waiting", class: "waiting", rare: true },
    ] });
    this.trial = new Trial(this.key, this.context, again);
    this.gauges = new Gauges();
    this.rates.stage.after(this.trial.element, this.gauges.element);
    this.spans = new SpanButtons((span) => this.show(span));
    this.past.span = this.spans.span;
    this.panels = new Panels(this.context, "h3");
    this.note = el("p", { class: "note" });
    this.adds = new AddButtons(this.context, { resource: this.title });
    this.none = el("p", { class: "note", hidden: true, text: "No rule binds this resource: everything passes, and is counted." });
    this.totals = Object.fromEntries(totals.map(([k]) => [k, el("dd")]));
    this.gone = el("p", { class: "empty", hidden: true });
    const name = shown(this.title);
    this.body = el("div", {}, this.strip.element, el("div", { class: "tools" }, this.spans.element), el("div", { class: "charts" }, this.rates.element, this.latencies.element, this.flight.element),
      el("div", { class: "section" }, el("h2", { text: "Rules" }), this.adds.element), this.note, this.none, this.panels.element,
      el("div", { class: "section" }, el("h2", { text: "Since the beginning" })),
      el("div", { class: "panel" }, el("dl", { class: "figures" }, ...totals.map(([k, label]) => el("div", {}, el("dt", { text: label }), this.totals[k])))));
    this.element = el("div", {}, el("p", { class: "crumb" }, el("a", { href: "#/", text: "← Resources" })),
      el("div", { class: "name-line" }, el("h1", { class: "two", text: name, title: name })), this.gone, this.body);
  }

  /** show shows the minute or the hour. */
  show(span) {
    this.past.span = span;
    this.past.asked = -Infinity;
    this.#draw(this.past.newest);
    this.#load();
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
    this.past.take(r);
    this.rules = r.rules;
    for (const mark of [...this.#edits(r), ...changes(r.rules)]) this.marks.set(mark.key, mark);
    const now = this.past.newest * 1000;
    for (const { key, at } of this.marks.values()) if (at < now - 3600e3 || at > now + 2000) this.marks.delete(key);
    const known = this.context.store.resources.get(this.key);
    this.strip.set({
      pass: rate(r.passQPS), block: rate(r.blockQPS), share: share(r.blockQPS, r.passQPS + r.blockQPS), exception: rate(r.exceptionQPS),
      avg: duration(r.avgRT), p99: duration((known ?? r).p99), concurrency: count(r.concurrency),
      waiting: count(r.waiting), waitP95: r.waits > 0 ? duration(r.waitP95) : null,
    });
    for (const [k] of totals) setText(this.totals[k], count(r[k]));
    this.panels.set(r.rules, Date.parse(r.at));
    this.none.hidden = r.rules.length > 0;
    const { edit, history } = this.context.about.capabilities;
    this.adds.update();
    setText(this.note, edit ? "" : "Rules are read-only here: the program does not let this page change them.");
    this.note.hidden = edit;
    this.spans.offer(history, this.context.store.now());
    this.gauges.set(r.rules);
    this.#draw(this.past.newest);
  }

  // edits are the changes of rules that were made on a page like this, and those that this one has noticed, as marks.
  #edits({ rules, edits = [], at, started }) {
    if (started !== this.started) this.versions.clear(); // those of another process mean nothing
    this.started = started;
    const marks = edits.map(({ at, kind, id, action, who, source, what }) => ({
      key: `${at} ${kind} ${id}`, at: Date.parse(at), label: "edit", minor: true, text: `${shown(id)}: ${shown(what || action)}${who || source ? ", by " + shown(who || source) : ""}`, quiet: true,
    }));
    for (const rule of rules) {
      const before = this.versions.get(ruleKey(rule));
      this.versions.set(ruleKey(rule), rule.version);
      const told = edits.some((e) => e.kind === rule.kind && e.id === rule.id && Date.parse(at) - Date.parse(e.at) < 5000);
      if (before === undefined || before === rule.version || told) continue;
      marks.push({ key: `${rule.version} ${ruleKey(rule)}`, at: Date.parse(at), label: "change", minor: true, text: `${shown(rule.id)}: changed by ${rule.source ? shown(rule.source) : "the program"}`, quiet: true });
    }
    return marks;
  }

  // before are the changes of states in the hour that were before those that the rules tell of, as marks.
  #before() {
    const { step } = spans.hour;
    return this.rules.flatMap((rule) => {
      const { kind, id, figures: f } = rule;
      const first = Math.min(...(f.lastChanges ?? []).map(({ at }) => Date.parse(at)));
      if (!f.states || !(f.changes > f.lastChanges?.length)) return [];
      return [...this.past.rules.hour].filter(([at, all]) => all.get(ruleKey(rule))?.changes > 0 && (at + step) * 1000 <= first).map(([at, all]) => {
        const { changes, state } = all.get(ruleKey(rule));
        return { key: `${kind} ${id} ${at}`, at: at * 1000, label: f.states[state], text: `${shown(id)}: ${count(changes)} ${changes === 1 ? "change" : "changes"}, then ${f.states[state]}`, quiet: f.mode !== "enforce" };
      });
    });
  }

  #draw(second) {
    if (!this.rules) return;
    const { past } = this;
    const end = past.end(second);
    const { step } = spans[past.span];
    const resource = this.context.store.resources.get(this.key);
    // What the page has seen of it in other views.
    const seen = (key) => (resource && past.span === "minute" ? this.context.store.past(resource, key, end) : []);
    const sampled = (key) => {
      const before = seen(key);
      return past.values(key, end).map((v, i) => v ?? before[i] ?? null);
    };
    const held = (rule, figure) => past.held(rule, figure, end);
    const at = { end: end * 1000, step };
    const marks = [...this.marks.values(), ...this.#before()].sort((a, b) => a.at - b.at);
    this.rates.update({ ...at, marks, lines: this.trial.lines(lines(this.rules, "pass", held)),
      values: { pass: past.values("pass", end, true), block: past.values("block", end, true), exception: past.values("exception", end, true) } });
    this.latencies.update({ ...at, values: { p50: sampled("p50"), p95: sampled("p95"), p99: sampled("p99"), waitP95: past.values("waitP95", end) } });
    this.flight.update({ ...at, values: { maxConcurrency: past.values("maxConcurrency", end), waiting: sampled("waiting") }, lines: lines(this.rules, "concurrency", held) });
  }
}
