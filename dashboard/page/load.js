// The load of the machine, with the bounds that rules set on it. Nothing of it is there if the program does
// not measure it.

import { request } from "./api.js";
import { Chart } from "./chart.js";
import { el, setText, shown } from "./dom.js";
import { duration, rate, share } from "./format.js";

const percent = (v) => share(v, 1);

// The signals, and how each is shown.
const signals = [
  { key: "cpu", label: "CPU", format: percent, class: "pass", area: true },
  { key: "throttled", label: "throttled", format: percent, class: "block", unsure: true },
  { key: "pressure", label: "pressure", format: percent, class: "p95", unsure: true },
  { key: "schedLatency", label: "scheduling latency", format: duration, class: "p99" },
];
const [shares, latencies] = [signals.slice(0, 3), signals.slice(3, 4)];

const chosen = { open: innerWidth > 1000 }; // holds when the view is left and come back to. What is below it comes first.

/** Load is the part of a view that shows it. */
export class Load {
  constructor() {
    this.version = "";
    this.rules = [];
    this.now = el("span");
    this.shares = new Chart({ title: "Processors", format: percent, least: 1, none: "idle", series: shares });
    this.latencies = new Chart({ title: "Scheduling latency, p99", format: duration, least: 0.01, none: "none", series: latencies });
    this.element = el("details", { class: "load", open: chosen.open, hidden: true, ontoggle: () => { chosen.open = this.element.open; } },
      el("summary", {}, el("b", { text: "Load" }), " ", this.now), el("div", { class: "charts" }, this.shares.element, this.latencies.element));
  }

  close() {
    this.shares.close();
    this.latencies.close();
  }

  /** update shows what the store knows. */
  update(store) {
    const { known } = store.load;
    const there = signals.filter(({ key }) => known[key]);
    this.element.hidden = there.length === 0;
    if (this.element.hidden) return;
    if (store.rulesVersion !== this.version) this.#ask();
    const of = known.processors ? ` of ${rate(known.processors)} ${known.processors === 1 ? "processor" : "processors"}` : "";
    setText(this.now, there.map(({ key, label, format }) => `${label} ${format(known[key].value)}${key === "cpu" ? of : ""}`).join(" · "));
    if (!this.element.open) return;
    const end = store.now() - store.at > 1500 ? Math.floor(store.now() / 1000) - 1 : store.second;
    for (const [chart, drawn] of [[this.shares, shares], [this.latencies, latencies]]) {
      const values = Object.fromEntries(drawn.map(({ key }) => [key, store.past(store.load, key, end)]));
      chart.update({ end: end * 1000, values, lines: drawn.flatMap((signal) => bounds(this.rules, store.kinds, signal)) });
    }
  }

  // ask asks for the rules, for their bounds.
  async #ask() {
    if (this.asking) return;
    this.asking = true;
    try {
      ({ rules: this.rules, version: this.version } = await request("rules"));
    } catch {
      // It is asked again with the next frame.
    } finally {
      this.asking = false;
    }
  }
}

/** bounds are those of rules on a signal, as lines for a chart. */
export function bounds(rules, kinds, { key, label, format }) {
  return rules.flatMap(({ id, kind, rule }) => {
    const bound = kinds.find(({ name }) => name === kind)?.fields.find(({ signal }) => signal === key);
    const value = bound && rule && rule.mode !== "off" ? amount(rule[bound.name]) : 0;
    return value ? [{ label: `${id}: ${label} ${format(value)}`, value, class: rule.mode === "shadow" ? "shadow" : "" }] : [];
  });
}

const units = { ns: 1e-6, us: 1e-3, µs: 1e-3, ms: 1, s: 1e3, m: 60e3, h: 3600e3 };

// amount is a number, or a time in ms.
function amount(v) {
  if (typeof v !== "string") return v ?? 0;
  return [...v.matchAll(/([\d.]+)(ns|us|µs|ms|s|m|h)/g)].reduce((sum, [, n, unit]) => sum + Number(n) * units[unit], 0);
}
