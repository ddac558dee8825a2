// The states of rules: a breaker is closed, open or half-open.

import { setAttr, setText } from "./dom.js";

// Those that matter, the worst first. Others are shown as they are called.
const order = ["open", "half-open", "ramping"];

/** worst is the state that matters most of those that rules are in; nothing if there are none. */
export function worst(states) {
  return states.length ? order.find((state) => states.includes(state)) ?? states[0] : undefined;
}

/** setState shows a state in a badge; nothing if it is none. more is said after it. */
export function setState(badge, state, more = "") {
  setText(badge, state ? state + more : "");
  setAttr(badge, "data-state", state ?? null);
  badge.hidden = !state;
  return badge;
}
