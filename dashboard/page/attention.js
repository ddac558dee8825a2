// Which resources need somebody's attention, and why: in a word, with the number that says how much.

import { shown } from "./dom.js";
import { count, duration, share } from "./format.js";
import { worst } from "./states.js";

/** words are the reasons, the worst first. Those that are grave are told above the list, too. */
export const words = ["open", "failing", "half-open", "blocking", "saturated", "waiting", "ramping"];
const grave = words.slice(0, 3);

// Reasons are looked for in some seconds, so that they do not come and go with each of them. What is less
// is none. Of a resource that is seldom called, failures are looked for in its last few calls.
const [seconds, full, few] = [5, 3, 5];
const least = { failing: 0.1, failures: 2, use: 0.9 };

/** calm is the reason of a resource that needs no attention. */
export const calm = { word: "", detail: "", rank: words.length, step: 2, text: "" };

/** judge says at each resource why it needs attention: resource.why is {word, rank, step, detail, text}, of which word
 * is empty, and rank beyond all others, if it does not. step is how bad it is, in steps as large as
 * nobody's order changes each second for them. It does so in parts. */
export async function judge(store, pace) {
  for (const r of store.resources.values()) {
    r.why = reason(store, r);
    if (pace.long) await pace.part();
  }
}

/** reason is that of one resource. */
export function reason(store, r) {
  const blocked = store.recent(r, "blockQPS", seconds).sum;
  const [exceptions, ended, since] = failures(store, r);
  const failing = exceptions >= least.failures && exceptions >= least.failing * ended;
  const use = r.use >= least.use && store.recent(r, "use", full);
  const waiting = store.recent(r, "waiting", seconds).most;
  if (!(blocked || failing || use || waiting > 0 || r.states.length)) return calm; // as most are
  const found = new Map(); // word → [part of 1, detail]
  const wanted = blocked + store.recent(r, "passQPS", seconds).sum;
  const by = blocked > 0 && store.rule(r.refusedBy);
  const blocking = blocked > 0 ? [blocked / wanted, share(blocked, wanted) + (by ? ` by ${shown(by.id)}` : "")] : null;
  const state = worst(r.states);
  const shut = state === "open" || state === "half-open";
  if (state) found.set(state, shut && blocking || [0, ""]);
  if (blocking && !shut) found.set("blocking", blocking);
  if (failing) found.set("failing", [exceptions / ended, `${share(exceptions, ended)} of the ${since > seconds ? `last ${count(Math.round(ended))} ` : ""}calls`]);
  if (use && use.known === full && use.least >= least.use) found.set("saturated", [0, `${share(r.use, 1)} of ${shown(store.rule(r.fullest)?.id ?? "a limit")}`]);
  if (waiting > 0) found.set("waiting", [0, `${count(waiting)} ${waiting === 1 ? "call" : "calls"}${r.waitP95 ? ", p95 " + duration(r.waitP95) : ""}`]);
  const [word] = words.filter((w) => found.has(w)).concat(state ?? ""); // a state that is no trouble is shown all the same
  const [part, detail] = found.get(word) ?? [0, ""];
  const rank = words.indexOf(word);
  return {
    word: word ?? "", detail, rank: rank < 0 ? words.length : rank, step: part >= 0.5 ? 0 : part >= 0.1 ? 1 : 2,
    text: [...found].sort(([a], [b]) => (a === word ? -1 : b === word ? 1 : 0)).map(([w, [, d]]) => d ? `${w}: ${d}` : w).join("; "),
  };
}

// failures are how many calls failed, of how many, in so many of the last seconds: all of the minute if there were few.
function failures(store, r) {
  for (const since of [seconds, 15, 30, 60]) {
    const ended = store.recent(r, "successQPS", since).sum;
    if (ended < few && since < 60) continue;
    return [store.recent(r, "exceptionQPS", since).sum, ended, since];
  }
}

/** trouble are the resources in grave trouble, the worst first. */
export function trouble(resources) {
  const all = [];
  for (const r of resources) if (grave.includes(r.why?.word)) all.push(r); // of which there may be very many
  return all.sort(worse);
}

/** worse compares resources by how much they need attention: the worst come first, and those that need none by their names. */
export function worse(a, b) {
  return a.why.rank - b.why.rank || a.why.step - b.why.step || (a.key < b.key ? -1 : a.key > b.key ? 1 : 0);
}
