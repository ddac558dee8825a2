// One rule: what it refuses, what its candidate and mode shadow would have refused beside it, and its panel.

import { Chart } from "./chart.js";
import { el, setAttr, setText, shown } from "./dom.js";
import { count, rate, share } from "./format.js";
import { Gauge, isLimited } from "./limits.js";
import { Panels } from "./panel.js";
import { Past, spans } from "./past.js";
import { query, request } from "./api.js";
import { RuleList } from "./rulelist.js";
import { figures } from "./rules.js";
import { SpanButtons } from "./span.js";

const series = [
  { key: "blocked", label: "refused", class: "block", area: true },
  { key: "wouldBlock", label: "shadow would", class: "p95" },
  { key: "candidateWouldBlock", label: "candidate would", class: "p50" },
];

/** RuleView is the view of one rule. place is its kind and its ID, as they are in the address. */
export class RuleView {
  constructor(context, place) {
    const cut = place.indexOf("/");
    let id = place.slice(cut + 1);
    try {
      id = query(decodeURIComponent(id)); // however it was written
    } catch {
      // not UTF-8
    }
    this.key = decodeURIComponent(place.slice(0, cut)) + " " + id;
    this.context = { ...context, changed: (text) => {
      context.changed(text);
      this.list.load();
      this.#load();
    } };
    this.list = new RuleList(() => this.#show());
    this.heading = el("h1", { class: "two" });
    this.where = el("p", { class: "note" });
    this.shares = el("p", { class: "shares" });
    this.gauge = new Gauge("Use of its limit");
    this.chart = new Chart({ title: "Refused per second", format: rate, least: 2, none: "nothing refused", series });
    this.chart.element.classList.add("wide");
    this.chart.table.before(this.shares, this.gauge.element);
    this.spans = new SpanButtons(() => {
      if (this.past) Object.assign(this.past, { span: this.spans.span, asked: -Infinity });
      this.#load();
      this.#show();
    });
    this.panels = new Panels(this.context, "h2");
    this.gone = el("p", { class: "empty", hidden: true, text: "There is no such rule now." });
    this.body = el("div", {}, el("div", { class: "tools" }, this.spans.element), el("div", { class: "charts" }, this.chart.element), this.panels.element);
    this.element = el("div", {}, el("p", { class: "crumb" }, el("a", { href: "#/rules", text: "← Rules" })),
      el("div", { class: "name-line" }, this.heading), this.gone, this.body);
    this.body.hidden = true;
  }

  close() {
    this.closed = true;
    this.chart.close();
  }

  update(store) {
    this.store = store;
    this.list.update(store);
    this.#load();
    this.#show();
  }

  // load asks for what the one resource of the rule tells of it: what it refused last, and its hour.
  async #load() {
    const { rule } = this;
    if (!rule?.rule || (rule.rule.match ?? "exact") !== "exact" || rule.live === undefined || this.loading) return;
    const key = query(rule.rule.resource);
    if (this.past?.key !== key) {
      this.past = new Past(key, () => this.#show());
      this.past.span = this.spans.span;
    }
    this.loading = true;
    try {
      const answer = await request("resource?name=" + key, { signal: AbortSignal.timeout(5000) });
      if (this.closed) return;
      this.past.take(answer);
      this.bound = answer.rules.find((r) => r.kind + " " + query(r.id, r.raw) === this.key);
      this.#show();
    } catch {
      // The resource may be away, and the stream tells of lost connections.
    } finally {
      this.loading = false;
    }
  }

  #show() {
    if (!this.store || this.closed) return;
    const { store } = this;
    const rule = this.list.all(store).find((r) => r.key === this.key);
    this.gone.hidden = Boolean(rule) || !this.list.version;
    this.body.hidden = !rule;
    this.rule = rule;
    if (!rule) return;
    setText(this.heading, shown(rule.id));
    setAttr(this.heading, "title", shown(rule.id));
    this.title = rule.id;
    const { live } = rule;
    this.panels.set([{ ...rule, figures: { ...figures(rule), ...this.bound?.figures } }], store.now());
    this.spans.offer(this.context.about.capabilities.history && Boolean(this.past));
    const limited = isLimited(rule);
    this.gauge.element.hidden = !limited;
    if (limited) this.gauge.set(live.used, live.effective, live.interval);
    this.#draw(live);
  }

  #draw(live) {
    const { store, past } = this;
    const hour = this.spans.span === "hour" && past;
    const end = hour ? past.end(past.newest) : store.now() - store.at > 1500 ? Math.floor(store.now() / 1000) - 1 : store.second;
    const step = hour ? spans.hour.step : 1;
    const known = (key) => hour ? past.refused(this.key, key, end) : live ? store.past(live, key, end) : new Array(spans.minute.count).fill(null);
    const values = Object.fromEntries(series.map(({ key }) => [key, known(key)]));
    // What neither is nor was tried is not charted, but what it refuses always is.
    for (const { key } of series.slice(1)) if (!values[key].some((v) => v > 0)) values[key] = values[key].map(() => null);
    this.chart.update({ end: end * 1000, step, values });
    const sum = (key) => values[key].reduce((all, v) => all + (v ?? 0) * step, 0);
    const calls = hour ? null : live && store.past(live, "admitted", end).reduce((all, v) => all + (v ?? 0), 0) + sum("blocked");
    const said = series.map(({ key, label }) => [label, Math.round(sum(key))]).filter(([, n], i) => n > 0 || i === 0)
      .map(([label, n]) => `${label} ${count(n)}` + (calls ? ` (${share(n, calls)})` : ""));
    setText(this.shares, `In the last ${hour ? "hour" : "minute"}: ${said.join(", ")}` + (calls ? ` of ${count(calls)} calls.` : "."));
  }
}
