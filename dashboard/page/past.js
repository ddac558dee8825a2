// What is known of the past of one resource and its rules: of each second of the last minute, and of
// each step of 5 s of the last hour. What was seen stays; what was not is asked for, if the server keeps it.

import { query, request } from "./api.js";
import { minute } from "./store.js";

/** spans are the times that a chart can show: how many steps of how many seconds. */
export const spans = { minute: { step: 1, count: minute }, hour: { step: 5, count: 720 } };

/** ruleKey is what a rule of a resource is kept under. */
export function ruleKey({ kind, id, raw }) {
  return kind + " " + query(id, raw);
}

/** A Past is that of the resource of a key. changed is called when more is known. */
export class Past {
  constructor(key, changed) {
    Object.assign(this, { key, changed });
    this.span = "minute";
    this.steps = { minute: new Map(), hour: new Map() }; // by the second in which they begin: what the resource did
    this.rules = { minute: new Map(), hour: new Map() }; // likewise: what held and what was refused, by rule
    this.newest = 0; // the newest whole second of which there are figures
  }

  /** take takes in what the API tells of the resource. */
  take(r) {
    const running = Math.floor(Date.parse(r.at) / 1000);
    // Before that, the history has seconds of which the server knows nothing. What was seen of a server
    // before this one stays.
    const since = Math.floor(Date.parse(r.started) / 1000);
    r.history.forEach((entry, i) => {
      const second = running - (r.history.length - 1) + i;
      if (second < running && second >= since) this.#add("minute", second, entry);
    });
    const { p50, p95, p99, waiting, waitP95 } = r;
    this.#add("minute", running - 1, { p50, p95, p99, waiting, waitP95 });
    this.kept = r.kept;
    this.rules.minute.set(running - 1, new Map(r.rules.map((rule) => [ruleKey(rule), rule.figures])));
    const missed = running - 1 > this.newest + 2;
    this.newest = running - 1;
    this.#forget();
    if (missed) this.again = running + 3; // then the server has those seconds too that it was about to write down
    const later = this.again <= running;
    if (later) this.again = Infinity;
    if (r.kept && (missed || later || (this.span === "hour" && running >= this.asked + spans.hour.step))) this.#ask(running, missed || later);
  }

  /** values are those of a figure in the steps of the span that end with this second: null where nothing is known.
   * Counts are per second. */
  values(figure, end, counts = false) {
    const { step } = spans[this.span];
    return this.#each(end, (at) => {
      const v = this.steps[this.span].get(at)?.[figure] ?? null;
      return v === null || !counts ? v : v / step;
    });
  }

  /** held is what a figure of a rule was in each step. What it was before and after a step of which that is not known,
   * it was there too. If no history is kept, it is taken to have been so before, too. */
  held(rule, figure, end) {
    const key = ruleKey(rule);
    const { step } = spans.hour;
    const values = this.#each(end, (at) => {
      const known = this.rules[this.span].get(at)?.get(key) ?? this.rules.hour.get(at - (at % step))?.get(key);
      return known?.[figure] ?? null;
    });
    let last = -1;
    values.forEach((v, i) => {
      if (v === null) return;
      if (last < 0 ? !this.kept : values[last] === v) values.fill(v, last + 1, i);
      last = i;
    });
    return values;
  }

  /** end is the newest step of the span that is done at a second. The server may not have told of it yet. */
  end(second) {
    if (this.span === "minute") return second;
    const { step } = spans.hour;
    const done = second + 1 - ((second + 1) % step) - step;
    return [done, done - step, done - 2 * step].find((at) => this.steps.hour.has(at)) ?? done;
  }

  #each(end, value) {
    const { step, count } = spans[this.span];
    return Array.from({ length: count }, (_, i) => value(end - (count - 1 - i) * step));
  }

  #add(span, at, figures) {
    this.steps[span].set(at, { ...this.steps[span].get(at), ...figures });
  }

  // forget lets go of what is too long ago, and of what a clock that was set back has left.
  #forget() {
    for (const span of Object.keys(spans)) {
      const since = this.newest - spans[span].step * spans[span].count;
      for (const all of [this.steps[span], this.rules[span]]) {
        for (const at of all.keys()) if (at < since || at > this.newest) all.delete(at);
      }
    }
  }

  async #ask(now, minuteToo) {
    if (this.asking) return;
    this.asking = true;
    this.asked = now;
    try {
      const ask = (span) => request(`history?name=${this.key}&span=${span}`, { signal: AbortSignal.timeout(5000) });
      const [hour, last] = await Promise.all([ask("hour"), minuteToo ? ask("minute") : null]);
      for (const [span, answer] of [["hour", hour], ["minute", last]]) if (answer) this.#merge(span, answer);
      this.#forget();
      this.changed();
    } catch {
      this.again = now + spans.hour.step; // it may be there by then
    } finally {
      this.asking = false;
    }
  }

  #merge(span, { resource, rules = [] }) {
    for (const [at, figures] of steps(resource)) this.steps[span].set(at, { ...figures, ...(span === "minute" && this.steps[span].get(at)) });
    for (const rule of rules) {
      for (const [at, figures] of steps(rule)) {
        if (!this.rules[span].has(at)) this.rules[span].set(at, new Map());
        this.rules[span].get(at).set(ruleKey(rule), figures);
      }
    }
  }
}

// steps are rows of the API, as [at, figures].
function steps({ columns, rows }) {
  return rows.map((row) => [row[0], Object.fromEntries(columns.map((name, i) => [name, row[i]]))]);
}
