// What another threshold would do: a limit in a chart is dragged, and the server says from the calls of the last
// hour how many it would have refused.

import { query, request } from "./api.js";
import { ask } from "./dialog.js";
import { el, setText, shown } from "./dom.js";
import { count, lately, number } from "./format.js";
import { per, scaleOf } from "./limits.js";
import { put } from "./panel.js";
import { ruleKey } from "./past.js";
import { warning } from "./sources.js";

const pause = 120; // ms without another threshold before the server is asked

/** A Trial is that of one threshold of one of the rules of a resource. changed is called when there is something else to draw. */
export class Trial {
  constructor(key, context, changed) {
    Object.assign(this, { key, context, changed });
    this.rule = null; // that is tried; what it would be is in to
    this.says = el("p", { role: "status" });
    this.candidate = el("button", { type: "button", class: "try", text: "Try as candidate", onclick: () => this.#put("candidate") });
    this.put = el("button", { type: "button", class: "set", onclick: () => this.#put("threshold") });
    this.acts = el("div", { class: "acts" }, this.candidate, this.put, el("button", { type: "button", text: "Leave it", onclick: () => this.stop() }));
    this.hint = el("p", { class: "note", text: "Drag a limit in the chart, or move it with the arrow keys, to see what another one would have done." });
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
    clearTimeout(this.soon);
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
    this.rule = rule;
    this.to = Number(to.toPrecision(12));
    this.answer = "";
    clearTimeout(this.soon);
    this.soon = setTimeout(() => this.#ask(), pause);
    this.changed();
  }

  async #ask() {
    const { rule, to } = this;
    let said;
    try {
      said = tell(await request(`demand?resource=${this.key}&rule=${query(rule.id, rule.raw)}&threshold=${to}`, { signal: AbortSignal.timeout(10_000) }));
    } catch (error) {
      said = `At ${number(to)}: ${error.message}`;
    }
    if (this.rule !== rule && (!this.rule || ruleKey(this.rule) !== ruleKey(rule)) || this.to !== to) return; // it has been moved meanwhile
    this.#say(said);
    this.changed();
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

/** tell says what a threshold would have done: fewer refused or more, with the range. */
export function tell({ threshold, untold, blocked, seconds }) {
  if (!blocked) return `At ${number(threshold)}: what it would have refused cannot be told: ${untold}.`;
  const { now, then, low, high, wide } = blocked;
  const time = lately(seconds);
  const more = then > now || then === now && high > now;
  const [about, from, to] = more ? [then - now, low - now, high - now] : [now - then, now - high, now - low];
  const other = from < 0 && to > 0;
  const said = (v) => count(Math.round(Math.abs(v)));
  const [word, opposite] = more ? ["more", "fewer"] : ["fewer", "more"];
  const range = from === to ? "" : other ? ` (${said(from)} ${opposite} to ${said(to)} ${word})` : ` (${said(from)} to ${said(to)})`;
  if (about === 0 && !range) return `At ${number(threshold)}: as many refused in the last ${time}, ${count(now)}.`;
  return `At ${number(threshold)}: ${range ? "about " : ""}${said(about)}${range} ${word} refused in the last ${time}.${wide ? ` That is wide: ${wide}.` : ""}`;
}
