// The page: which view is shown, what the connection does, and the keys that work everywhere.

import { path } from "./address.js";
import { request } from "./api.js";
import { judge, trouble as grave } from "./attention.js";
import { setAttr, setText, shown } from "./dom.js";
import { Limiters } from "./limiters.js";
import { Overview } from "./overview.js";
import { Pace } from "./pace.js";
import { ResourceView } from "./resource.js";
import { RuleView } from "./rule.js";
import { RulesView } from "./rules.js";
import { Store } from "./store.js";
import { refused, trouble } from "./sources.js";
import { follow } from "./stream.js";

const $ = (id) => document.getElementById(id);
const store = new Store();
let fading; // of what was said last
/** about is what the server says about itself and about who is looking. */
const about = { title: "Leapgate", capabilities: { edit: false }, sources: [] };
let view = null;

// Views by the beginning of the address after #; what follows is theirs.
const routes = [
  ["#/resource/", (rest) => new ResourceView(rest, context), "nav-resources"],
  ["#/rules", () => new RulesView(context), "nav-rules"],
  ["#/rule/", (rest) => new RuleView(context, rest), "nav-rules"],
  ["#/limiters", () => new Limiters(context), "nav-limiters"],
  ["", () => new Overview(), "nav-resources"],
];

const context = {
  store, about,
  // changed is called when a rule was: text says so, to those who see and to those who do not.
  changed(text) {
    setText($("announce"), text);
    setText($("toast"), text);
    $("toast").hidden = false;
    clearTimeout(fading);
    fading = setTimeout(() => { $("toast").hidden = true; }, 6000);
    askAbout(); // which may now know who is looking
  },
};

// Each entry of the history has a number, under which it is kept how far its view was scrolled, so that
// who comes back is where he was.
const scrolled = new Map();
let entry;
history.scrollRestoration = "manual";

function show(focus) {
  const at = path();
  const [start, make, nav] = routes.find(([start]) => at.startsWith(start));
  view?.close();
  document.querySelector("dialog")?.close();
  if (!history.state?.entry) history.replaceState({ entry: Math.random() }, "");
  ({ entry } = history.state);
  const back = scrolled.get(entry) ?? 0;
  view = make(at.slice(start.length));
  $("main").replaceChildren(view.element);
  for (const a of document.querySelectorAll("nav a")) setAttr(a, "aria-current", a.id === nav ? "page" : null);
  document.title = (view.title ? shown(view.title) + " – " : "") + shown(about.title);
  if (focus) $("main").focus({ preventScroll: true }); // so that a screen reader begins there
  update();
  scrollTo(0, back);
}

// update shows the figures, unless nobody can see them.
function update() {
  if (!store.at || document.hidden) return;
  view.update(store);
}

let missing = false; // about could not be read

async function askAbout() {
  const { known: again, who, hiddenKeys } = about;
  missing = false;
  try {
    Object.assign(about, { who: undefined, known: true }, await request("about"));
  } catch {
    missing = true; // it is asked for again with the next frame
    return;
  }
  if (again && (who !== about.who || hiddenKeys !== about.hiddenKeys)) stream.restart(); // more is shown now, or less
  setText($("title"), shown(about.title));
  document.title = (view?.title ? shown(view.title) + " – " : "") + shown(about.title);
  update();
}

// The minute before the page came, or lost its connection, is asked for twice: at first the server does not know
// the last seconds of it.
let [frames, due] = [0, []];

async function askMinute() {
  due.shift();
  try {
    await store.fill(await request("minute", { signal: AbortSignal.timeout(10_000) }), new Pace());
    update();
  } catch {
    // Then there is only what the frames tell.
  }
}

let asking = false;

async function askKinds() {
  if (asking) return;
  asking = true;
  try {
    ({ kinds: store.kinds } = await request("kinds"));
    update();
  } catch {
    // They are asked for again with the next frame.
  } finally {
    asking = false;
  }
}

// sources tells of sources of rules that are refused, in every view, and once to those who do not see it.
let said = "";

function sources(all) {
  const what = trouble(all);
  $("trouble").hidden = what === "";
  setText($("trouble-what"), what);
  const which = refused(all).map((s) => s.source).join("\n");
  if (which !== said) setText($("announce"), what || "All sources of rules are good again.");
  said = which;
}

// announce says once that resources have opened or begun to fail, and that all are closed again. One that
// tries whether it may close is still open for those who hear it.
let known = new Map(); // key → what was said of it

function announce() {
  const all = grave(store.resources.values());
  const now = new Map(all.map(({ key, why }) => [key, why.word === "failing" ? "Failing" : "Open"]));
  const has = (map, what) => [...map.values()].includes(what);
  const texts = ["Open", "Failing"].map((what) => {
    const fresh = all.filter(({ key }) => now.get(key) === what && (what === "Open" ? known.get(key) !== what : !known.has(key)));
    return fresh.length ? `${what}: ${fresh.slice(0, 5).map(({ name }) => shown(name)).join(", ")}${fresh.length > 5 ? " and others" : ""}.` : "";
  });
  if (has(known, "Open") && !has(now, "Open")) texts.push("All that was open is closed again.");
  const text = texts.filter(Boolean).join(" ");
  if (text) setText($("announce"), text);
  known = now;
}

let retryAt = 0;
let last = "";

function connection(state, why, at) {
  retryAt = at ?? 0;
  const lost = state === "lost" || (state === "connecting" && last !== "");
  document.body.classList.toggle("stale", lost && store.at > 0);
  $("banner").hidden = !lost;
  setAttr($("connection"), "data-state", state);
  setText($("connection-text"), { live: "Live", lost: "Disconnected", connecting: "Connecting" }[state]);
  if (why) setText($("banner-what"), why);
  countdown();
  // Told once when it is lost and once when it is back, not at every try.
  if (state === "lost" && last !== "lost") setText($("announce"), "Connection lost. " + why);
  if (state === "live" && last === "lost") setText($("announce"), "Connection is back.");
  if (state === "live" && last !== "live") {
    [frames, due] = [0, [1, 4]];
    askAbout();
    askKinds(); // the server may be another one than before
  }
  if (state !== "connecting") last = state;
}

function countdown() {
  const seconds = Math.ceil((retryAt - performance.now()) / 1000);
  setText($("banner-when"), retryAt ? `Next try in ${Math.max(0, seconds)} s.` : "Trying …");
}

const stream = follow({
  onFrame: async (frame) => {
    const pace = new Pace();
    await pace.part(); // it has just been read
    await store.take(frame, pace);
    if (!store.kinds.length) askKinds();
    if (missing) askAbout();
    sources(store.ruleSources);
    await judge(store, pace);
    announce();
    await pace.part();
    update();
    frames++;
    if (frames >= due[0] && about.capabilities.history) askMinute();
  },
  onState: connection,
});

setInterval(() => {
  if ($("banner").hidden) return;
  countdown();
  update(); // time goes on, and the charts show it
}, 1000);

$("banner-retry").addEventListener("click", stream.retry);
$("skip").addEventListener("click", () => $("main").focus());
addEventListener("hashchange", () => show(true));
addEventListener("scroll", () => scrolled.set(entry, scrollY), { passive: true });
addEventListener("visibilitychange", update);
addEventListener("keydown", (event) => {
  const typing = event.target.closest?.("input, select, textarea, dialog");
  if (event.key !== "/" || typing || event.ctrlKey || event.altKey || event.metaKey || !view.find) return;
  event.preventDefault();
  view.find();
});
show(false);
