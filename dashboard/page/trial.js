// What another threshold would do: a limit in a chart is dragged, and the page adds up how many calls of the last hour
// exceeded it, second by second. That is an estimate. A candidate threshold counts exactly, from the moment it is set.

import { request } from "./api.js";
import { ask } from "./dialog.js";
import { el, setText, shown } from "./dom.js";
import { count, lately, number } from "./format.js";
import { per, scaleOf } from "./limits.js";
import { put } from "./panel.js";
import { ruleKey } from "./past.js";
import { warning } from "./sources.js";

/** A Trial is that of one threshold of one of the rules of a resource. changed is called when there is something else to draw. */
export class Trial {
  constructor(key, context, changed) {
    Object.assign(this, { key, context, changed });
    this.rule = null; // that is tried; what it would be is in to
    this.says = el("p", { role: "status" });
    this.candidate = el("button", { type: "button", class: "try", text: "Try as candidate", onclick: () => this.#put("candidate") });
    this.put = el("button", { type: "button", class: "set", onclick: () => this.#put("threshold") });
    this.acts = el("div", { class: "acts" }, this.candidate, this.put, el("button", { type: "button", text: "Leave it", onclick: () => this.stop() }));
    this.hint = el("p", { class: "note", text: "Drag a limit in the chart, or move it with the arrow keys, to see about how many calls exceeded it." });
    this.element = el("div", { class: "trial", hidden: true }, this.hint, this.says, this.acts);
  }

  /** lines makes those of a chart that can be tried into such that can be dragged, and adds the one that is tried. */
  lines(all) {
    const drawn = [];
    this.some = false;
    for (const line of all) {
      drawn.push(line);
      if (!this.context.about.capabilities.history || !line.rule.estimable || line.candidate) continue;
      this.some = true;
      const { id, figures: f } = line.rule;
      const tried = this.rule && ruleKey(this.rule) === ruleKey(line.rule);
      const value = tried ? this.to : f.threshold;
      const drag = {
        key: ruleKey(line.rule), label: "Limit of " + shown(id), value, scale: scaleOf(f), step: stepOf(f.threshold),
        text: `${number(value)}${per(f.interval)}` + (tried && this.answer ? ": " + this.answer : ""),
        move: (to) => this.#try(line.rule, to), stop: () => this.stop(),
      };
      if (!tried) drawn[drawn.length - 1] = { ...line, drag };
      else drawn.push({ ...line, label: `${id} at ${number(value)}${per(f.interval)}?`, value: value * scaleOf(f), values: [], class: "tried", drag, must: true });
    }
    this.#show();
    return drawn;
  }

  /** stop gives the try up. */
  stop() {
    this.rule = null;
    this.#say("");
    this.changed();
  }

  #show() {
    const { about } = this.context;
    this.element.hidden = !this.some;
    this.hint.hidden = Boolean(this.rule);
    this.says.hidden = this.acts.hidden = !this.rule;
    if (!this.rule) return;
    const may = about.capabilities.edit && this.rule.editable;
    this.candidate.hidden = !may || !(this.to > 0);
    this.put.hidden = !may;
    setText(this.put, `Set to ${number(this.to)}`);
  }

  #say(text) {
    this.answer = text;
    setText(this.says, text);
  }

  #try(rule, to) {
    if (!this.rule) this.#read();
    this.rule = rule;
    this.to = Number(to.toPrecision(12));
    this.#tell();
    this.changed();
  }

  // read reads how many calls came in each second of the last hour.
  async #read() {
    this.seconds = null;
    try {
      const { resource } = await request(`history?name=${this.key}&span=demand`, { signal: AbortSignal.timeout(10_000) });
      this.seconds = resource.rows;
    } catch (error) {
      this.#say(error.message);
    }
    if (!this.rule) return;
    this.#tell();
    this.changed();
  }

  #tell() {
    if (this.seconds) this.#say(tell(this.seconds, this.rule.figures, this.to));
  }

  #put(field) {
    const { rule: given, to } = this;
    const tried = field === "candidate";
    const warn = warning(this.context.store);
    warn.set(given.source);
    ask({
      title: tried ? `Try ${number(to)} beside ${shown(given.id)}?` : `Set ${shown(given.id)} to ${number(to)}?`,
      body: [el("p", { class: "note full", text: (this.answer ? this.answer + " " : "") + (tried ? "A candidate decides and counts beside the limit, and blocks nothing." : `It is ${number(given.figures.threshold)} now.`) }), warn.element],
      verb: tried ? "Try as candidate" : `Set to ${number(to)}`, who: this.context.about.who, reason: "optional",
      send: (why) => put(given, { [field]: to }, why),
    }).then((done) => {
      if (!done) return;
      this.stop();
      this.context.changed(tried ? "The candidate is tried." : "The limit is set.");
    });
  }
}

// stepOf is by how much a threshold is moved: by ones up to 99, then by tens of its size.
function stepOf(threshold) {
  return Math.max(1, 10 ** (Math.floor(Math.log10(threshold || 1)) - 1));
}

/** above returns about how many calls exceeded a threshold per interval (ms): the sum, over the seconds or whole
 * intervals, of the calls above it. seconds are [second, calls]. */
export function above(seconds, threshold, interval) {
  const length = Math.max(1, Math.round(interval / 1000));
  const limit = (threshold * length * 1000) / interval;
  const calls = new Map();
  for (const [at, n] of seconds) {
    const index = Math.floor(at / length);
    calls.set(index, (calls.get(index) ?? 0) + n);
  }
  return Math.round([...calls.values()].reduce((sum, n) => sum + Math.max(0, n - limit), 0));
}

// tell says how many calls exceeded a threshold, and the present one.
function tell(seconds, { threshold, interval }, to) {
  if (!seconds.length) return "No second has been recorded yet.";
  const [of, than] = [above(seconds, to, interval), above(seconds, threshold, interval)];
  const now = to === threshold ? "" : `; above ${number(threshold)}, about ${count(than)}`;
  return `About ${count(of)} calls above ${number(to)} in the last ${lately(seconds.at(-1)[0] - seconds[0][0] + 1)}${now}.`;
}
