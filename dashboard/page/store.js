// What the page knows: the figures of the last frame, and those of the minute before it.

import { query } from "./api.js";
import { calm } from "./attention.js";

/** minute is how many seconds are kept. */
export const minute = 60;

// What is kept of each second, by what it is of.
const kept = {
  resources: ["passQPS", "blockQPS", "successQPS", "exceptionQPS", "p50", "p95", "p99", "waiting", "use"],
  rules: ["admitted", "blocked", "wouldBlock", "candidateWouldBlock"], // as they grow
  load: ["cpu", "throttled", "pressure", "schedLatency"],
};
const column = Object.fromEntries(Object.values(kept).flatMap((keys) => keys.map((key, i) => [key, i])));

// slotOf is where a second is kept. Seconds may be below 0: the clock of a gate can begin anywhere.
const slotOf = (second) => ((second % minute) + minute) % minute;

// pastOf is room for the seconds of a minute, one after the other: NaN is what is not known.
const pastOf = (keys) => new Float32Array(minute * keys.length).fill(NaN);

/** A Store takes in frames. resources is by key: the name as it goes into a query, and into a link. */
export class Store {
  constructor() {
    this.resources = new Map();
    this.rules = new Map(); // by kind, a blank and the key of the ID
    this.kinds = []; // of rules, as the server describes them
    this.limiters = [];
    this.load = { known: {}, past: pastOf(kept.load) }; // of the machine
    this.ruleSources = [];
    this.rulesVersion = "";
    this.second = 0; // the newest whole one of which there are figures, in Unix time
    this.at = 0; // of the last frame, in ms
    this.received = 0; // when it came, by performance.now()
    this.columns = {};
    this.rows = { resources: new Map(), rules: new Map() };
  }

  /** now is the time by the server's clock, in ms. */
  now() {
    return this.at + (this.at ? performance.now() - this.received : 0);
  }

  /** take takes in a frame, in parts. */
  async take(frame, pace) {
    const at = Date.parse(frame.at);
    const received = performance.now();
    if (frame.full) {
      this.columns = frame.columns;
      this.rows = { resources: new Map(), rules: new Map() };
    }
    await this.#merge("resources", frame.resources, frame.full, pace, ([row, name, raw]) => {
      const key = query(name, raw);
      return this.resources.get(key) ?? { key, name, states: [], why: calm, past: pastOf(kept.resources) };
    });
    await this.#merge("rules", frame.rules, frame.full, pace, ([row, kind, id, raw]) => {
      const key = kind + " " + query(id, raw);
      return this.rules.get(key) ?? { key, kind, id, raw, states: [], before: [], rates: {}, past: pastOf(kept.rules) };
    });
    if (frame.full || frame.states) this.#states(frame.states ?? []);
    if (frame.ruleSources) this.ruleSources = frame.ruleSources;
    if (frame.limiters) this.limiters = frame.limiters;
    if (frame.full || frame.load) this.load.known = frame.load ?? {};
    this.rulesVersion = frame.rulesVersion ?? this.rulesVersion;
    const { second, before } = this.#turn(at);
    const note = (past, keys, value) => {
      const n = keys.length;
      if (second - before > minute) past.fill(NaN);
      else for (let s = before + 1; s < second; s++) past.fill(NaN, slotOf(s) * n, (slotOf(s) + 1) * n); // was missed
      for (let i = 0; i < n; i++) past[slotOf(second) * n + i] = value(keys[i], i) ?? NaN;
    };
    for (const r of this.resources.values()) {
      note(r.past, kept.resources, (k) => r[k]);
      if (pace.long) await pace.part();
    }
    for (const r of this.rules.values()) {
      if (second === before) break; // what has grown counts with the next
      note(r.past, kept.rules, (k, i) => {
        const grown = second === before + 1 ? r[k] - r.before[i] : NaN;
        r.before[i] = r[k];
        return (r.rates[k] = grown >= 0 ? grown : NaN); // not known
      });
      if (pace.long) await pace.part();
    }
    note(this.load.past, kept.load, (k) => this.load.known[k]?.value);
    Object.assign(this, { at, received, second });
  }

  /** fill puts in what the server knows of the last minute, where it is not known here, in parts. */
  async fill({ since, resources, rules, load }, pace) {
    const put = ({ past }, lists) => {
      for (const [key, list] of Object.entries(lists)) {
        for (let i = 0; i < list.length; i++) {
          const at = this.#place(past, key, since + i);
          if (list[i] !== null && Number.isNaN(past[at])) past[at] = list[i];
        }
      }
    };
    for (const { name, raw, pass, block, exception } of resources) {
      const item = this.resources.get(query(name, raw));
      if (item) put(item, { passQPS: pass, blockQPS: block, exceptionQPS: exception, successQPS: pass }); // what passed has ended, more or less
      if (pace.long) await pace.part();
    }
    for (const { kind, id, raw, ...lists } of rules) {
      const item = this.rules.get(kind + " " + query(id, raw));
      if (item) put(item, lists);
      if (pace.long) await pace.part();
    }
    put(this.load, load);
  }

  async #merge(what, part, full, pace, make) {
    const rows = this.rows[what];
    const found = full ? new Map() : this[what];
    for (const row of part?.gone ?? []) {
      found.delete(rows.get(row)?.key);
      rows.delete(row);
    }
    for (const given of part?.new ?? []) {
      const item = make(given);
      rows.set(given[0], item);
      found.set(item.key, item);
      if (pace.long) await pace.part();
    }
    const columns = this.columns[what];
    for (const figures of part?.rows ?? []) {
      const item = rows.get(figures[0]);
      for (let i = 1; i < columns.length; i++) item[columns[i]] = figures[i];
      if (pace.long) await pace.part();
    }
    this[what] = found;
  }

  // states notes at each resource, and at each rule, the states that are not those of the beginning.
  #states(all) {
    for (const item of [...this.resources.values(), ...this.rules.values()]) item.states = [];
    for (const [resource, rule, state] of all) {
      this.rows.resources.get(resource).states.push(state);
      this.rows.rules.get(rule).states.push(state);
    }
  }

  // turn returns the second that a frame at a time tells of, the one before it, and the one that was the newest before
  // that. Frames come a second apart, more or less: that alone makes no gap, and no second that is told twice.
  #turn(at) {
    let second = Math.round(at / 1000) - 1;
    const next = this.second + 1;
    if (Math.abs(at - this.at - 1000) < 500 && Math.abs(second - next) <= 1) second = next;
    const before = second < this.second - minute ? second - minute : this.second; // the server's clock was set back: nothing holds
    return { second: Math.max(second, before), before };
  }

  /** past is what a resource, or the load, had in the minute that ends with a second: null where that is not known. */
  past(item, key, end) {
    const values = new Array(minute);
    for (let i = 0; i < minute; i++) {
      const v = this.#of(item, key, end - minute + 1 + i);
      values[i] = Number.isNaN(v) ? null : v;
    }
    return values;
  }

  // place is where a figure of a second is kept, −1 if it is not.
  #place(past, key, second) {
    if (second > this.second || second <= this.second - minute) return -1;
    return slotOf(second) * (past.length / minute) + column[key];
  }

  // of is a figure of a second, NaN if it is not known.
  #of({ past }, key, second) {
    const at = this.#place(past, key, second);
    return at < 0 ? NaN : past[at];
  }

  /** recent joins what is known of a figure in the last seconds: sum is what it is together, least and most are
   * its bounds, known says in how many seconds. */
  recent(item, key, seconds) {
    let [sum, least, most, known] = [0, Infinity, -Infinity, 0];
    for (let s = this.second; s > this.second - seconds; s--) {
      const v = this.#of(item, key, s);
      if (Number.isNaN(v)) continue;
      sum += v;
      if (v < least) least = v;
      if (v > most) most = v;
      known++;
    }
    return { sum, least, most, known };
  }

  /** rule is the one in a row of the frames, as a resource names it. */
  rule(row) {
    return this.rows.rules.get(row);
  }

  /** totals are the figures of all resources together. */
  totals() {
    const sum = { pass: 0, block: 0, exception: 0, concurrency: 0, waiting: 0, resources: this.resources.size };
    for (const r of this.resources.values()) {
      sum.pass += r.passQPS;
      sum.block += r.blockQPS;
      sum.exception += r.exceptionQPS;
      sum.concurrency += r.concurrency;
      sum.waiting += r.waiting;
    }
    return sum;
  }
}
