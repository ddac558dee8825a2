// One rule: what it refuses, what its candidate and mode shadow would have refused beside it, and its panel.

import { Chart } from "./chart.js";
import { el, setAttr, setText, shown } from "./dom.js";
import { age, count, lately, rate, share } from "./format.js";
import { Gauge, isLimited } from "./limits.js";
import { Panels } from "./panel.js";
import { spans } from "./past.js";
import { query, request } from "./api.js";
import { RuleList } from "./rulelist.js";
import { figures } from "./rules.js";
import { SpanButtons } from "./span.js";
import { setState } from "./states.js";

const series = [
  { key: "blocked", label: "refused", class: "block", area: true },
  { key: "wouldBlock", label: "shadow would", class: "p95", unsure: true },
  { key: "candidateWouldBlock", label: "candidate would", class: "p50", unsure: true },
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
      this.asked = -Infinity;
      this.#load();
      this.#show();
    });
    this.bound = { total: 0, resources: [] };
    this.hour = { end: 0, steps: new Map() }; // what it refused, by the second in which a step began
    this.asked = -Infinity; // when the hour was
    this.resources = new Resources();
    this.panels = new Panels(this.context, "h2");
    this.gone = el("p", { class: "empty", hidden: true, text: "There is no such rule now." });
    this.body = el("div", {}, el("div", { class: "tools" }, this.spans.element), el("div", { class: "charts" }, this.chart.element), this.panels.element, this.resources.element);
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

  // load asks for what the rule did on each of its resources, and in the hour.
  async #load() {
    const { rule } = this;
    if (!rule || this.loading) return;
    const hour = this.spans.span === "hour" && performance.now() - this.asked > 4500;
    this.loading = true;
    try {
      const answer = await request(`bound?kind=${query(rule.kind)}&id=${query(rule.id, rule.raw)}${hour ? "&hour=1" : ""}`, { signal: AbortSignal.timeout(5000) });
      if (this.closed) return;
      this.bound = answer;
      if (answer.hour) {
        this.asked = performance.now();
        const steps = new Map(answer.hour.rows.map(([at, ...figures]) => [at, figures]));
        this.hour = { end: answer.hour.rows.at(-1)?.[0] ?? 0, steps };
      }
      this.#show();
    } catch {
      // The stream tells of lost connections.
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
    const { total, resources: [first] } = this.bound;
    // Of several resources, the first is the one on which it refused last.
    const told = first && (total === 1 ? first.figures : { mode: first.figures.mode, lastRefusal: first.figures.lastRefusal });
    this.panels.set([{ ...rule, figures: { ...figures(rule), ...told } }], store.now());
    this.resources.set(this.bound, store.now());
    this.spans.offer(this.context.about.capabilities.history, store.now());
    const limited = isLimited(rule);
    this.gauge.element.hidden = !limited;
    if (limited) this.gauge.set(live.used, live.effective, live.interval);
    this.#draw(live);
  }

  #draw(live) {
    const { store, hour: { steps } } = this;
    const hour = this.spans.span === "hour" && steps.size > 0;
    const end = hour ? this.hour.end : store.now() - store.at > 1500 ? Math.floor(store.now() / 1000) - 1 : store.second;
    const { step, count: length } = spans[hour ? "hour" : "minute"];
    const known = (key, k) => hour ? Array.from({ length }, (_, i) => { const v = steps.get(end - (length - 1 - i) * step)?.[k]; return v === undefined ? null : v / step; })
      : live ? store.past(live, key, end) : new Array(length).fill(null);
    const values = Object.fromEntries(series.map(({ key }, k) => [key, known(key, k)]));
    const seconds = values.blocked.filter((v) => v !== null).length * step;
    const sum = (list) => list.reduce((all, v) => all + (v ?? 0) * step, 0);
    const calls = hour || !live ? 0 : sum(store.past(live, "admitted", end)) + sum(values.blocked);
    const said = series.map(({ key, label }) => [label, Math.round(sum(values[key]))]).filter(([, n], i) => n > 0 || i === 0)
      .map(([label, n]) => `${label} ${count(n)}` + (calls ? ` (${share(n, calls)})` : ""));
    setText(this.shares, seconds ? `In the last ${lately(seconds)}: ${said.join(", ")}` + (calls ? ` of ${count(calls)} calls.` : ".") : "");
    // What neither is nor was tried is not charted, but what it refuses always is.
    for (const { key } of series.slice(1)) if (!values[key].some((v) => v > 0)) values[key] = values[key].map(() => null);
    this.chart.update({ end: end * 1000, step, values });
  }
}

// Resources are those that a rule binds, if they are several.
class Resources {
  constructor() {
    this.rows = el("tbody");
    this.more = el("p", { class: "note" });
    this.element = el("section", { class: "panel bound", "aria-label": "Resources that it binds", hidden: true }, el("h2", { text: "Resources that it binds" }),
      el("table", {}, el("thead", {}, el("tr", {}, ...["Resource", "Pass/s", "Block/s", "Refused", "Last refusal", "State"].map((text) => el("th", { scope: "col", text })))), this.rows), this.more);
  }

  /** set shows them as the API gives them. */
  set({ total, resources }, now) {
    this.element.hidden = total < 2;
    while (this.rows.children.length > resources.length) this.rows.lastChild.remove();
    resources.forEach(({ name, raw, passQPS, blockQPS, figures: f }, i) => {
      if (!this.rows.children[i]) this.rows.append(el("tr", {}, el("th", { scope: "row" }, el("a")), ...Array.from({ length: 4 }, () => el("td")), el("td", {}, el("span", { class: "badge state" }))));
      const [head, pass, block, refused, last, state] = this.rows.children[i].children;
      setText(head.firstChild, shown(name) || "(no name)");
      setAttr(head.firstChild, "href", "#/resource/" + query(name, raw));
      setText(pass, rate(passQPS));
      setText(block, rate(blockQPS));
      setText(refused, count(f.blocked));
      setText(last, f.lastRefusal ? age(now - Date.parse(f.lastRefusal.at)) : "–");
      setState(state.firstChild, f.state);
    });
    setText(this.more, total > resources.length ? `and ${count(total - resources.length)} more` : "");
  }
}
