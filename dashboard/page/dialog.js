// A dialog that asks, sends, and stays open with what was wrong until it is right or given up.

import { Problem, useToken } from "./api.js";
import { el, setAttr, setText, shown } from "./dom.js";

let number = 0;

/** ask shows a dialog and reports whether it was done. send does it, and throws a Problem if it is refused; it
 * gets what goes into the query to say why. reason is "required" or "optional", or nothing if nobody is asked for one. onFaults gets the faults of fields, and returns those that have no place. explain may return another text
 * for a problem; failed is what a text of the server's is put after. who is who asks, as far as the server
 * knows. */
export function ask({ title, body, verb, danger, who, reason, send, failed = "Nothing was changed: ", onFaults = (faults) => faults, explain = () => null }) {
  return new Promise((resolve) => {
    let done = false;
    const heading = el("h2", { id: "dialog-" + ++number, text: title });
    const refused = el("p", { class: "refused", role: "alert" });
    const token = el("input", { type: "password", id: "dialog-token", autocomplete: "off", "aria-describedby": "dialog-token-hint" });
    const tokenField = el("div", { class: "field full", hidden: true }, el("label", { for: "dialog-token", text: "Token" }), token,
      el("p", { class: "hint", id: "dialog-token-hint", text: "The server wants to know who you are. The token is kept until you leave or reload the page." }));
    const why = el("input", { type: "text", id: "dialog-reason", maxlength: 500, autocomplete: "off", "aria-required": reason === "required" && "true", "aria-describedby": "dialog-reason-hint dialog-reason-fault" });
    const whyFault = el("p", { class: "fault", id: "dialog-reason-fault" });
    const whyField = reason && el("div", { class: "field" }, el("label", { for: "dialog-reason", text: reason === "required" ? "Reason" : "Reason (optional)" }), why,
      el("p", { class: "hint", id: "dialog-reason-hint", text: "Why, for the log." }), whyFault);
    const blame = (faults) => {
      const said = faults.find((f) => f.field === "reason")?.message ?? "";
      setText(whyFault, shown(said));
      setAttr(why, "aria-invalid", said ? "true" : null);
      if (said) {
        why.focus();
        whyField.scrollIntoView({ block: "nearest" });
      }
      return onFaults(whyField ? faults.filter((f) => f.field !== "reason") : faults);
    };
    const cancel = el("button", { type: "button", text: "Cancel", autofocus: reason === "optional" && !body.some((part) => part.querySelector("input, select")), onclick: () => box.close() });
    const submit = el("button", { type: "submit", class: danger ? "danger" : "main", text: verb });
    const form = el("form", { novalidate: true, onsubmit: (event) => {
      event.preventDefault();
      attempt();
    } }, heading, el("div", { class: "asks" }, el("div", { class: "fields" }, ...body, tokenField),
      el("div", { class: "why" }, whyField, who ? el("p", { class: "who", text: `The log will say that it was ${shown(who)}.` }) : null)), refused,
    el("div", { class: "buttons" }, cancel, submit));
    const box = el("dialog", { "aria-labelledby": heading.id, onclose: () => {
      box.remove();
      resolve(done);
    } }, form);

    async function attempt() {
      if (!tokenField.hidden) useToken(token.value);
      submit.disabled = true;
      setText(refused, "");
      blame([]);
      try {
        await send(whyField && why.value.trim() ? "&reason=" + encodeURIComponent(why.value.trim().toWellFormed()) : "");
        done = true;
        box.close();
      } catch (error) {
        if (error instanceof Problem && error.wantsToken) tokenField.hidden = false;
        const rest = blame(error.faults ?? []);
        setText(refused, explain(error) ?? say(error, rest));
        if (error.wantsToken) token.focus();
        if (!(error instanceof Problem || error instanceof TypeError)) console.error(error);
      } finally {
        submit.disabled = false;
      }
    }

    function say(error, rest) {
      if (!(error instanceof Problem)) return "The server cannot be reached, or its answer was lost: look whether anything was changed.";
      if (error.status === 401) return error.wantsToken && token.value ? "The server does not know this token." : failed + "the server wants to know who you are.";
      if (error.faults.length) return rest.map((f) => f.message).join("\n");
      return failed + error.message;
    }

    setAttr(box, "class", danger ? "danger" : null);
    document.body.append(box);
    // Without it, what scrolls would be focused, and framed.
    if (!cancel.autofocus) [...body, whyField].map((part) => part && part.querySelector("input, select")).find(Boolean)?.setAttribute("autofocus", "");
    box.showModal();
  });
}
