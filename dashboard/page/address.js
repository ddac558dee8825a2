// What was chosen stands in the address, after a question mark in what follows the #, so that a view can be sent to
// somebody, and is found again.

/** path is the address without what was chosen. */
export const path = () => location.hash.split("?")[0];

/** chosenIn are the choices in the address. */
export const chosenIn = () => new URLSearchParams(location.hash.split("?")[1] ?? "");

/** choose puts choices into the address, in place of what it had of them. What is empty is left out. It makes no step to go back. */
export function choose(choices) {
  const all = chosenIn();
  for (const [name, value] of Object.entries(choices)) {
    if (value) all.set(name, value);
    else all.delete(name);
  }
  const text = String(all);
  const hash = (path() || "#/") + (text ? "?" + text : "");
  if (hash !== location.hash && (text || location.hash)) history.replaceState(history.state, "", hash);
}

/** selected is the second that charts show until another is read, in ms; null if none was. */
export const selected = () => Number(chosenIn().get("at")) * 1000 || null;

/** select puts that second into the address. */
export const select = (at) => choose({ at: at === null ? "" : String(at / 1000) });
