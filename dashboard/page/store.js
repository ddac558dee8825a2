// What the page knows: the figures of the last frame, and those of the minute before it.

import { query } from "./api.js";

/** minute is how many seconds are kept. */
export const minute = 60;

// slotOf is where a second is kept. Seconds may be below 0: the clock of a gate can begin anywhere.
const slotOf = (second) => ((second % minute) + minute) % minute;

const kept = ["passQPS", "blockQPS", "p50", "p95", "p99"];
const signals = ["cpu", "throttled", "pressure", "schedLatency"];

const pastOf = (keys) => Object.fromEntries(keys.map((k) => [k, new Float32Array(minute).fill(NaN)]));

/** A Store takes in frames. resources is by key: the name as it goes into a query, and into a link. */
export class Store {
  constructor() {
    this.resources = new Map();
    this.rules = new Map(); // by kind, a blank and the key of the ID
    this.kinds = []; // of rules, as the server describes them
    this.limiters = [];
    this.load = { known: {}, past: pastOf(signals) }; // of the machine
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

  /** take takes in a frame. */
  take(frame) {
    const at = Date.parse(frame.at);
    if (frame.full) {
      this.columns = frame.columns;
      this.rows = { resources: new Map(), rules: new Map() };
    }
    this.#turn(at);
    this.at = at;
    this.received = performance.now();
    this.#merge("resources", frame.resources, frame.full, ([row, name, raw]) => {
      const key = query(name, raw);
      return this.resources.get(key) ?? { key, name, states: [], past: pastOf(kept) };
    });
    this.#merge("rules", frame.rules, frame.full, ([row, kind, id, raw]) => ({ key: kind + " " + query(id, raw), kind, id, raw, states: [] }));
    if (frame.full || frame.states) this.#states(frame.states ?? []);
    if (frame.ruleSources) this.ruleSources = frame.ruleSources;
    if (frame.limiters) this.limiters = frame.limiters;
    if (frame.full || frame.load) this.load.known = frame.load ?? {};
    this.rulesVersion = frame.rulesVersion ?? this.rulesVersion;
    const slot = slotOf(this.second);
    for (const r of this.resources.values()) for (const k of kept) r.past[k][slot] = r[k];
    for (const k of signals) this.load.past[k][slot] = this.load.known[k]?.value ?? NaN;
  }

  #merge(what, part, full, make) {
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
    }
    const columns = this.columns[what];
    for (const figures of part?.rows ?? []) {
      const item = rows.get(figures[0]);
      for (let i = 1; i < columns.length; i++) item[columns[i]] = figures[i];
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

  // turn goes on to the second that a frame at a time tells of, the one before it. Frames come a second
  // apart, more or less: that alone makes no gap, and no second that is told twice.
  #turn(at) {
    let second = Math.round(at / 1000) - 1;
    const next = this.second + 1;
    if (Math.abs(at - this.at - 1000) < 500 && Math.abs(second - next) <= 1) second = next;
    if (second < this.second - minute) this.second = second - minute; // the server's clock was set back: nothing holds
    for (let s = Math.max(this.second + 1, second - minute + 1); s <= second; s++) {
      for (const r of this.resources.values()) for (const k of kept) r.past[k][slotOf(s)] = NaN;
      for (const k of signals) this.load.past[k][slotOf(s)] = NaN;
    }
    this.second = Math.max(second, this.second);
  }

  /** past is what a resource, or the load, had in the minute that ends with a second: null where that is not known. */
  past(resource, key, end) {
    const values = new Array(minute);
    for (let i = 0; i < minute; i++) {
      const s = end - minute + 1 + i;
      const v = s > this.second || s <= this.second - minute ? NaN : resource.past[key][slotOf(s)];
      values[i] = Number.isNaN(v) ? null : v;
    }
    return values;
  }

  /** totals are the figures of all resources together. */
  totals() {
    const sum = { pass: 0, block: 0, concurrency: 0, resources: this.resources.size };
    for (const r of this.resources.values()) {
      sum.pass += r.passQPS;
      sum.block += r.blockQPS;
      sum.concurrency += r.concurrency;
    }
    return sum;
  }
}
