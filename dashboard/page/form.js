// The form of a rule. Its fields are what the server says of the kind; what is right is for it to say too.

import { query, request } from "./api.js";
import { ask } from "./dialog.js";
import { el, setAttr, setText, shown } from "./dom.js";
import { warning } from "./sources.js";

/** addRule asks for a new rule. */
export function addRule(context, kind, given) {
  return edit(context, { kind, rule: given }, true);
}

/** editRule asks for changes to a rule as the API returns it. */
export function editRule(context, rule) {
  return edit(context, rule, false);
}

async function edit(context, { kind, id, raw, version, rule, source: kept = "" }, isNew) {
  const { fields } = context.store.kinds.find(({ name }) => name === kind);
  const parts = fields.filter(({ name }) => isNew || name !== "id").map((field) => new Field(field, rule)); // a rule keeps its ID
  const byName = Object.fromEntries(parts.map((f) => [f.name, f]));
  const more = parts.filter((f) => f.seldom);
  const details = more.length > 0 && el("details", { open: more.some((f) => rule[f.name] !== undefined && rule[f.name] !== f.default) },
    el("summary", { text: "More" }), el("div", { class: "fields" }, ...more.map((f) => f.element)));
  const sources = isNew && context.about.sources.length > 1 ? context.about.sources : [];
  const source = el("select", { id: "rule-source" }, ...sources.map((s) => el("option", { value: s, text: s ? shown(s) : "this process only" })));
  const warn = warning(context.store);
  const body = [
    ...parts.filter((f) => !f.seldom).map((f) => f.element), details,
    sources.length > 0 && el("div", { class: "field full" }, el("label", { for: "rule-source", text: "Kept in" }), source),
    warn.element,
  ].filter(Boolean);
  const settle = () => {
    parts.forEach((f) => f.settle(byName));
    warn.set(isNew ? source.value : kept);
  };
  body.forEach((part) => part.addEventListener("change", settle));
  settle();

  const send = (why) => {
    const sent = Object.fromEntries(parts.map((f) => [f.name, f.value()]).filter(([, v]) => v !== undefined));
    if (!isNew) return request(`rule?kind=${kind}&id=${query(id, raw)}${why}`, { method: "PUT", version, body: sent });
    const at = sources.length ? `&source=${query(source.value)}` : "";
    return request(`rules?kind=${kind}${at}${why}`, { method: "POST", body: sent });
  };
  const onFaults = (faults) => {
    parts.forEach((f) => f.fault(""));
    const here = faults.filter((f) => byName[f.field]);
    for (const { field, message } of here) {
      byName[field].fault(message);
      if (byName[field].seldom) details.open = true;
    }
    const first = parts.find((f) => here.some((fault) => fault.field === f.name));
    first?.input.focus();
    first?.element.scrollIntoView({ block: "nearest" }); // with what is said of it
    return faults.filter((f) => !byName[f.field]);
  };
  const explain = ({ status, current }) => {
    if (status !== 412 || !current) return null;
    const names = new Set([...Object.keys(rule), ...Object.keys(current.rule)]);
    const changes = [...names].filter((n) => rule[n] !== current.rule[n]).map((n) => `${n} is ${shown(String(current.rule[n] ?? "not set"))} now`);
    ({ version, rule } = current);
    return `Nothing was changed, for somebody else changed the rule meanwhile: ${changes.join(", ")}. Save again to overwrite that.`;
  };
  const title = isNew ? `Add ${/^[aeiou]/.test(kind) ? "an" : "a"} ${kind} rule` : `Edit ${kind} rule ${shown(id)}`;
  if (await ask({ title, body, verb: isNew ? "Add" : "Save", who: context.about.who, reason: "optional", send, onFaults, explain })) context.changed(isNew ? "The rule is added." : "The rule is saved.");
}

const numeric = { number: "decimal", whole: "numeric", bytes: null }; // types that may be numbers, and what keys they need

// A Field is one value of a rule in the form. field is what the server says of it.
class Field {
  constructor(field, rule) {
    Object.assign(this, field, { given: rule[field.name] });
    const { name, label, hint, type, options } = field;
    const id = "rule-" + name;
    const common = { id, "aria-describedby": `${id}-hint ${id}-fault` };
    this.check = type === "flag";
    if (options) this.input = el("select", common, ...options.map((o) => el("option", { value: o, text: o })));
    else if (this.check) this.input = el("input", { ...common, type: "checkbox" });
    else this.input = el("input", { ...common, type: "text", autocomplete: "off", spellcheck: "false", autocapitalize: "none", inputmode: numeric[type] });
    if (this.check) this.input.checked = Boolean(this.given);
    else this.input.value = this.given ?? options?.[0] ?? "";
    this.before = this.input.value; // which is not what was given if that has line breaks
    this.wrong = el("p", { class: "fault", id: id + "-fault" });
    const words = [el("label", { for: id, text: label }), el("p", { class: "hint", id: id + "-hint", text: hint })];
    this.element = this.check
      ? el("div", { class: "field check" }, this.input, el("div", {}, ...words, this.wrong))
      : el("div", { class: name === "id" ? "field full" : "field" }, words[0], this.input, words[1], this.wrong);
  }

  // settle shows the field if the others want it.
  settle(byName) {
    this.element.hidden = Boolean(this.only && byName[this.only.field].input.value !== this.only.value);
  }

  // value is what is sent: nothing for an empty field. What is not a number is sent as it is, so that the
  // server can say what would be right.
  value() {
    if (this.element.hidden) return undefined;
    if (this.check) return this.input.checked || undefined;
    const text = this.input.value;
    if (text === this.before) return this.given;
    if (text.trim() === "") return undefined;
    if (this.type in numeric && Number.isFinite(Number(text))) return Number(text);
    return text;
  }

  fault(message) {
    setText(this.wrong, message && shown(message));
    setAttr(this.input, "aria-invalid", message ? "true" : null);
  }
}
