// The states of rules: a breaker is closed, open or half-open.

import { setAttr, setText } from "./dom.js";

// Those that matter, the worst first. Others are shown as they are called.
const order = ["open", "half-open", "ramping"];
const broken = order.slice(0, 2);

/** worst is the state that matters most of those that rules are in; nothing if there are none. */
export function worst(states) {
  return states.length ? order.find((state) => states.includes(state)) ?? states[0] : undefined;
}

/** trouble are the resources with a rule that is open or half-open, as [{resource, state}], the open ones first. */
export function trouble(resources) {
  const all = [];
  for (const resource of resources) { // of which there may be very many
    const state = worst(resource.states);
    if (broken.includes(state)) all.push({ resource, state });
  }
  return all.sort((a, b) => order.indexOf(a.state) - order.indexOf(b.state) || (a.resource.key < b.resource.key ? -1 : 1));
}

/** setState shows a state in a badge; nothing if it is none. more is said after it. */
export function setState(badge, state, more = "") {
  setText(badge, state ? state + more : "");
  setAttr(badge, "data-state", state ?? null);
  badge.hidden = !state;
  return badge;
}
