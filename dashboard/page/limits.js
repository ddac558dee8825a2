// The limits of rules: as lines in the charts of what they bound, and as gauges of how much of them is used.

import { el, setAttr, setText, shown } from "./dom.js";
import { count, number, rate, share, span } from "./format.js";

const longest = 60e3; // ms; of a longer window no line is drawn: what is used of it says more than a rate

/** isLong reports whether the window of a rule is too long for a rate per second. */
export function isLong(figures) {
  return figures?.interval > longest;
}

/** isLimited reports whether it is known how much of the limit of a rule is used. */
export function isLimited({ live, bounds }) {
  return live?.effective > 0 && (live.used > 0 || Boolean(bounds) && live.used === 0);
}

/** per says in what time a limit holds. */
export function per(interval) {
  return !interval ? "" : interval === 1000 ? "/s" : " in " + span(interval);
}

/** scaleOf is what a limit must be multiplied by, to be one per second. */
export function scaleOf({ interval }) {
  return interval ? 1000 / interval : 1;
}

/** lines are the thresholds of the rules of a resource that bound one of its figures, as lines for the chart
 * of that: per second, or in flight. held says what a figure of a rule was in each step of the chart. */
export function lines(rules, figure, held) {
  return rules.flatMap((r) => {
    const { id, bounds, rule, figures: f } = r;
    if (!f || f.mode === "off" || f.effective === null || bounds !== figure || isLong(f)) return [];
    const whose = rule?.origin ? ` for ${rule.origin}` : "";
    const line = (what, value, key, look) => ({
      rule: r, candidate: key === "candidate", label: `${id}${what} ${number(value)}${per(f.interval)}`, value: value * scaleOf(f), class: look,
      values: held(r, key).map((v) => v === null || key === "candidate" && !v ? null : v * scaleOf(f)),
    });
    const all = [line(whose, f.effective, "effective", f.mode === "shadow" ? "shadow" : "")];
    if (f.candidate) all.push(line(", candidate", f.candidate, "candidate", "shadow"));
    return all;
  });
}

const limitText = (v) => (Number.isInteger(v) ? number(v) : rate(v));

/** A Gauge shows how much of a limit is used. It may say so in words beside its bar. */
export class Gauge {
  constructor(label) {
    this.fill = el("span");
    this.bar = el("div", { class: "fill", role: "meter", "aria-label": label, "aria-valuemin": 0 }, this.fill);
    this.text = el("span", { class: "gauge-text" });
    this.element = el("div", { class: "gauge" }, this.text, this.bar);
  }

  /** set shows a limit of so much in an interval, 0 if it has none. */
  set(used, limit, interval) {
    const text = interval ? `${count(used)} of ${limitText(limit)} in this window` : `${count(used)} of ${limitText(limit)} in flight`;
    setText(this.text, `${text}, ${share(used, limit)}`);
    this.#bar(used, limit, this.text.textContent);
  }

  /** short shows it with few words. */
  short(used, limit) {
    setText(this.text, `${rate(used)} of ${rate(limit)}`);
    const all = `${count(used)} of ${limitText(limit)}`;
    setAttr(this.text, "title", all);
    this.#bar(used, limit, all);
  }

  #bar(used, limit, text) {
    const part = limit > 0 ? Math.min(1, used / limit) : 0;
    this.fill.style.width = 100 * part + "%";
    this.fill.classList.toggle("full", part >= 0.9);
    setAttr(this.bar, "aria-valuemax", limit ?? 0);
    setAttr(this.bar, "aria-valuenow", Math.min(used, limit ?? 0));
    setAttr(this.bar, "aria-valuetext", text);
  }
}

/** Gauges are those of the rules of a resource with long windows. */
export class Gauges {
  constructor() {
    this.all = new Map();
    this.element = el("div", { class: "gauges", hidden: true });
  }

  set(rules) {
    const left = new Map(this.all);
    for (const { kind, id, figures: f } of rules) {
      if (!isLong(f) || f.mode === "off" || f.used < 0) continue;
      const key = kind + " " + id;
      if (!this.all.has(key)) {
        const gauge = new Gauge(shown(id));
        gauge.element.prepend(el("b", { class: "clip", text: `${shown(id)}, ${span(f.interval)}: ` }));
        this.all.set(key, gauge);
        this.element.append(gauge.element);
      }
      left.delete(key);
      this.all.get(key).set(f.used ?? 0, f.effective, f.interval);
    }
    for (const [key, gauge] of left) {
      gauge.element.remove();
      this.all.delete(key);
    }
    this.element.hidden = this.all.size === 0;
  }
}
