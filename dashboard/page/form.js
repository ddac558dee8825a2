// The form of a rule. Its fields are those of rule files; what is right is for the server to say.

import { query, request } from "./api.js";
import { ask } from "./dialog.js";
import { el, setAttr, setText, shown } from "./dom.js";
import { warning } from "./sources.js";

// The kinds of rules, and their fields: [name, label, hint, options]. more puts a field among those that
// few need, and only shows it with one choice of another field alone. A field is text unless it has a
// choice, or is a number or a check.
const target = [
  ["id", "ID", "Empty: the resource and a number.", { onlyNew: true }],
  ["resource", "Resource", "A name, or a pattern."],
  ["match", "Match", "What the resource is.", { choice: ["exact", "glob", "regexp", "default"] }],
];
const mode = ["mode", "Mode", "Shadow decides and counts, and blocks nothing.", { choice: ["enforce", "shadow", "off"] }];
const fields = {
  flow: [
    ...target,
    ["threshold", "Threshold", "Calls admitted per interval; 0 blocks all.", { number: true }],
    ["interval", "Interval", "Such as 1s, 250ms, 1h. Empty: 1s."],
    mode,
    ["behavior", "Behavior", "Beyond the threshold: reject, or let pass one by one.", { choice: ["reject", "pace"] }],
    ["maxWait", "Longest wait", "With pace: how long a call waits for its turn."],
    ["candidate", "Candidate", "A threshold that is tried and blocks nothing.", { number: true }],
    ["origin", "Origin", "One caller, or other. Empty: everyone.", { more: true }],
    ["buckets", "Buckets", "Of the window. Empty: 10.", { more: true, number: true }],
    ["strict", "Strict", "Bounds every interval, wherever it begins.", { more: true, check: true }],
    ["associated", "Associated", "Another resource whose passes are read.", { more: true }],
    ["strategy", "Strategy", "How the threshold comes about.", { more: true, choice: ["direct", "warm-up", "memory-adaptive"] }],
    ["warmUpPeriod", "Warm-up period", "From cold to warm, such as 10s.", { more: true, only: ["strategy", "warm-up"] }],
    ["coldFactor", "Cold factor", "Threshold when warm by that when cold. Empty: 3.", { more: true, number: true, only: ["strategy", "warm-up"] }],
    ["highMemoryThreshold", "Threshold when high", "From high memory on.", { more: true, number: true, only: ["strategy", "memory-adaptive"] }],
    ["lowMemory", "Low memory", "Up to here the threshold holds, such as 512MiB.", { more: true, number: true, only: ["strategy", "memory-adaptive"] }],
    ["highMemory", "High memory", "Such as 1GiB.", { more: true, number: true, only: ["strategy", "memory-adaptive"] }],
  ],
  isolation: [
    ...target,
    ["maxInFlight", "In flight", "Calls that may be in flight.", { number: true }],
    ["maxWait", "Longest wait", "For a free place, such as 500ms. Empty: none."],
    ["maxQueue", "Longest queue", "Calls that may wait at once. Empty: 1000.", { number: true }],
    mode,
  ],
};

/** addRule asks for a new rule. */
export function addRule(context, kind, given) {
  return edit(context, { kind, rule: given }, true);
}

/** editRule asks for changes to a rule as the API gives it. */
export function editRule(context, rule) {
  return edit(context, rule, false);
}

async function edit(context, { kind, id, raw, version, rule, source: kept = "" }, isNew) {
  const parts = fields[kind].filter(([name, , , o]) => isNew || !o?.onlyNew).map((spec) => new Field(spec, rule));
  const byName = Object.fromEntries(parts.map((f) => [f.name, f]));
  const more = parts.filter((f) => f.more);
  const details = more.length > 0 && el("details", { open: more.some((f) => rule[f.name] !== undefined && !(f.name === "buckets" && rule.buckets === 10)) },
    el("summary", { text: "More" }), el("div", { class: "fields" }, ...more.map((f) => f.element)));
  const sources = isNew && context.about.sources.length > 1 ? context.about.sources : [];
  const source = el("select", { id: "rule-source" }, ...sources.map((s) => el("option", { value: s, text: s ? shown(s) : "this process only" })));
  const warn = warning(context.store);
  const body = [
    ...parts.filter((f) => !f.more).map((f) => f.element), details,
    sources.length > 0 && el("div", { class: "field full" }, el("label", { for: "rule-source", text: "Kept in" }), source),
    warn.element,
  ].filter(Boolean);
  const settle = () => {
    parts.forEach((f) => f.settle(byName));
    warn.set(isNew ? source.value : kept);
  };
  body.forEach((part) => part.addEventListener("change", settle));
  settle();

  const send = () => {
    const sent = Object.fromEntries(parts.map((f) => [f.name, f.value()]).filter(([, v]) => v !== undefined));
    if (!isNew) return request(`rule?kind=${kind}&id=${query(id, raw)}`, { method: "PUT", version, body: sent });
    const at = sources.length ? `&source=${query(source.value)}` : "";
    return request(`rules?kind=${kind}${at}`, { method: "POST", body: sent });
  };
  const onFaults = (faults) => {
    parts.forEach((f) => f.fault(""));
    const here = faults.filter((f) => byName[f.field]);
    for (const { field, message } of here) {
      byName[field].fault(message);
      if (byName[field].more) details.open = true;
    }
    parts.find((f) => here.some((fault) => fault.field === f.name))?.input.focus();
    return faults.filter((f) => !byName[f.field]);
  };
  const explain = ({ status, current }) => {
    if (status !== 412 || !current) return null;
    const names = new Set([...Object.keys(rule), ...Object.keys(current.rule)]);
    const changes = [...names].filter((n) => rule[n] !== current.rule[n]).map((n) => `${n} is ${shown(String(current.rule[n] ?? "not set"))} now`);
    ({ version, rule } = current);
    return `Nothing was changed, for somebody else changed the rule meanwhile: ${changes.join(", ")}. Save again to overwrite that.`;
  };
  const title = isNew ? `Add ${kind === "flow" ? "a flow" : "an isolation"} rule` : `Edit ${kind} rule ${shown(id)}`;
  if (await ask({ title, body, verb: isNew ? "Add" : "Save", who: context.about.who, send, onFaults, explain })) context.changed(isNew ? "The rule is added." : "The rule is saved.");
}

// A Field is one value of a rule in the form.
class Field {
  constructor([name, label, hint, options = {}], rule) {
    Object.assign(this, { name, ...options, given: rule[name] });
    const id = "rule-" + name;
    const common = { id, "aria-describedby": `${id}-hint ${id}-fault` };
    if (this.choice) this.input = el("select", common, ...this.choice.map((c) => el("option", { value: c, text: c })));
    else if (this.check) this.input = el("input", { ...common, type: "checkbox" });
    else this.input = el("input", { ...common, type: "text", autocomplete: "off", spellcheck: "false", autocapitalize: "none", inputmode: this.number ? "decimal" : null });
    if (this.check) this.input.checked = Boolean(this.given);
    else this.input.value = this.given ?? this.choice?.[0] ?? "";
    this.before = this.input.value; // which is not what was given if that has line breaks
    this.wrong = el("p", { class: "fault", id: id + "-fault" });
    const words = [el("label", { for: id, text: label }), el("p", { class: "hint", id: id + "-hint", text: hint })];
    this.element = this.check
      ? el("div", { class: "field check" }, this.input, el("div", {}, ...words, this.wrong))
      : el("div", { class: "field" }, words[0], this.input, words[1], this.wrong);
  }

  // settle shows the field if the others want it.
  settle(byName) {
    this.element.hidden = Boolean(this.only && byName[this.only[0]].input.value !== this.only[1]);
  }

  // value is what is sent: nothing for an empty field. What is not a number is sent as it is, so that the
  // server can say what would be right.
  value() {
    if (this.element.hidden) return undefined;
    if (this.check) return this.input.checked || undefined;
    const text = this.input.value;
    if (text === this.before) return this.given;
    if (text.trim() === "") return undefined;
    if (this.number && Number.isFinite(Number(text))) return Number(text);
    return text;
  }

  fault(message) {
    setText(this.wrong, message && shown(message));
    setAttr(this.input, "aria-invalid", message ? "true" : null);
  }
}
