// A chart of one minute, second by second: lines, areas, thresholds, gaps, and a read-out for
// pointer, finger and keyboard. It is drawn in SVG, so that the style sheet colours it.

import { el, svg, setAttr, setText, shown } from "./dom.js";
import { time } from "./format.js";
import { apart, reach, ticks } from "./scale.js";

const seconds = 60;
const edge = { left: 46, right: 10, top: 20, bottom: 22 };

/** A Chart draws series over the last minute. Its element goes into the page; update gives it data.
 *
 * title: of the figure. series: [{key, label, class, area}]. format: of a value, for the axis and
 * the read-out. least: what the axis reaches at least. marked: whether it gets marks. */
export class Chart {
  constructor({ title, series, format, least = 1, none = "no traffic", marked = false }) {
    Object.assign(this, { title, series, format, least, none, marked });
    this.data = null;
    this.cursor = null; // the second that is read, in ms
    this.keys = new Map(series.map((s) => [s.key, el("b")]));
    this.when = el("span", { class: "when" });
    this.legend = el("div", { class: "legend" }, this.when,
      ...series.map((s) => el("span", { class: "key " + s.class }, el("i"), s.label + " ", this.keys.get(s.key))));
    this.svg = svg("svg", { "aria-hidden": "true", focusable: "false" });
    this.plot = el("div", {
      class: "plot", tabindex: "0", role: "slider", "aria-label": title + ": the second to read", "aria-valuemin": -59, "aria-valuemax": 0,
      onpointermove: (e) => this.#point(e), onpointerdown: (e) => this.#point(e),
      onpointerleave: () => this.#read(null), onblur: () => this.#read(null), onkeydown: (e) => this.#key(e),
    }, this.svg);
    this.summary = el("p", { class: "unseen" });
    this.beyond = el("p", { class: "beyond" });
    this.marks = el("p", { class: "marks", hidden: !marked });
    this.rows = el("tbody");
    const head = el("tr", {}, el("th", { scope: "col", text: "Time" }),
      ...series.map((s) => el("th", { scope: "col", text: s.label })), marked && el("th", { scope: "col", text: "Changes" }));
    this.table = el("details", { class: "as-table", ontoggle: () => this.#tabulate() }, el("summary", { text: "As a table" }),
      el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": title + ", as a table" },
        el("table", {}, el("thead", {}, head), this.rows)));
    this.element = el("figure", { class: "chart" },
      el("figcaption", {}, el("h2", { text: title }), this.legend), this.plot, this.marks, this.beyond, this.summary, this.table);
    this.resizing = new ResizeObserver(() => this.#draw());
    this.resizing.observe(this.plot);
  }

  /** update gives the chart its data: end is the newest second in ms, values has a list of 60 for
   * each series, oldest first, null where nothing is known, lines are [{label, value, values}], with
   * values like those of a series if the line moves, and marks, by time, [{at, label, text, quiet}]. */
  update({ end, values, lines = [], marks = [] }) {
    this.data = { end, values, lines, marks: marks.filter(({ at }) => at >= end - (seconds - 1) * 1000 && at < end + 1000) };
    if (this.cursor <= end - seconds * 1000 || this.cursor > end) this.cursor = null;
    this.#draw();
    this.#legend();
    this.#tabulate();
    setText(this.summary, this.#describe());
  }

  /** close lets go of what the page would keep. */
  close() {
    this.resizing.disconnect();
  }

  // say is a value of a series for people.
  say(key, i) {
    const v = this.data.values[key][i];
    return v === null ? "–" : this.format(v);
  }

  // marksAt are the texts of the marks of a second.
  #marksAt(i) {
    return this.data.marks.filter(({ at }) => this.#second(at) === i).map(({ text }) => text);
  }

  // second is the index of the second of a time.
  #second(at) {
    return seconds - 1 - Math.round((this.data.end - 1000 * Math.floor(at / 1000)) / 1000);
  }

  #describe() {
    const { marks } = this.data;
    const changes = marks.length ? [`${marks.length} ${marks.length === 1 ? "change" : "changes"} in it, the last at ${time(marks.at(-1).at)}: ${marks.at(-1).text}.`] : [];
    return this.series.map(({ key, label }) => {
      const known = this.data.values[key].filter((v) => v !== null);
      if (!known.length) return label + ": nothing known.";
      return `${label}: ${this.format(known.at(-1))} now, at most ${this.format(Math.max(...known))} in the last minute.`;
    }).concat(this.data.lines.map((l) => `Threshold ${shown(l.label)}: ${this.format(l.value)}.`), changes).join(" ");
  }

  #index() {
    return this.cursor === null ? seconds - 1 : seconds - 1 - Math.round((this.data.end - this.cursor) / 1000);
  }

  #legend() {
    if (!this.data) return;
    let i = this.#index();
    const known = (at) => this.series.some((s) => this.data.values[s.key][at] !== null);
    if (this.cursor === null) while (i > 0 && !known(i)) i--;
    for (const { key } of this.series) setText(this.keys.get(key), this.say(key, i));
    const at = this.data.end - (seconds - 1 - i) * 1000;
    const marks = this.#marksAt(i);
    const last = this.data.marks.at(-1);
    setText(this.marks, this.cursor !== null ? marks.join(" · ") : last ? `${time(last.at)} ${last.text}` : "");
    setText(this.when, this.cursor === null ? "" : time(at));
    setAttr(this.plot, "aria-valuenow", i - (seconds - 1));
    setAttr(this.plot, "aria-valuetext",
      [time(at) + ": " + (known(i) ? this.series.map((s) => s.label + " " + this.say(s.key, i)).join(", ") : "nothing known"), ...marks].join("; "));
  }

  #tabulate() {
    if (!this.table.open || !this.data) return;
    while (this.rows.children.length < seconds) {
      this.rows.append(el("tr", {}, el("th", { scope: "row" }), ...this.series.map(() => el("td")), this.marked && el("td", { class: "text" })));
    }
    for (let i = 0; i < seconds; i++) {
      const cells = this.rows.children[seconds - 1 - i].children;
      setText(cells[0], time(this.data.end - (seconds - 1 - i) * 1000));
      this.series.forEach((s, k) => setText(cells[k + 1], this.say(s.key, i)));
      if (this.marked) setText(cells[this.series.length + 1], this.#marksAt(i).join(" · "));
    }
  }

  #point(event) {
    if (!this.data) return;
    const box = this.plot.getBoundingClientRect();
    const part = (event.clientX - box.left - edge.left) / (box.width - edge.left - edge.right);
    const i = Math.round(Math.min(1, Math.max(0, part)) * (seconds - 1));
    this.#read(this.data.end - (seconds - 1 - i) * 1000);
  }

  #key(event) {
    if (!this.data || event.ctrlKey || event.altKey || event.metaKey) return;
    const i = this.#index();
    const to = { ArrowLeft: i - 1, ArrowDown: i - 1, ArrowRight: i + 1, ArrowUp: i + 1, PageDown: i - 10, PageUp: i + 10, Home: 0, End: seconds - 1 }[event.key];
    if (event.key === "Escape" && this.cursor !== null) this.#read(null);
    else if (to === undefined) return;
    else this.#read(this.data.end - (seconds - 1 - Math.min(seconds - 1, Math.max(0, to))) * 1000);
    event.preventDefault();
    event.stopPropagation();
  }

  #read(cursor) {
    if (this.cursor === cursor) return;
    this.cursor = cursor;
    this.#legend();
    this.#draw();
  }

  #draw() {
    const [width, height] = [this.plot.clientWidth, this.plot.clientHeight];
    if (!this.data || width < 80 || height < 60) return;
    const { values, lines } = this.data;
    const all = this.series.flatMap((s) => values[s.key].filter((v) => v !== null));
    const { top, at } = ticks(reach(all, lines.flatMap((l) => [l.value, ...past(l)])), height > 170 ? 4 : 3, this.least);
    const [right, bottom] = [width - edge.right, height - edge.bottom];
    const x = (i) => edge.left + (i / (seconds - 1)) * (right - edge.left);
    const y = (v) => bottom - (v / top) * (bottom - edge.top);
    const parts = [
      ...this.#gaps(x, bottom),
      ...at.map((v) => svg("line", { class: v ? "grid" : "base", x1: edge.left, x2: right, y1: crisp(y(v)), y2: crisp(y(v)) })),
      ...at.map((v) => svg("text", { class: "tick", x: edge.left - 8, y: y(v) + 4, "text-anchor": "end", text: v ? this.format(v) : "0" })),
      ...this.#clock(x, bottom, width),
      ...this.series.flatMap((s) => this.#line(s, values[s.key], x, y, bottom)),
      ...this.#lines(lines.filter((l) => l.value <= top), x, y, right, bottom, top),
      ...this.#marks(x, right, bottom),
    ];
    if (!all.some((v) => v > 0)) parts.push(svg("text", { class: "none", x: (edge.left + right) / 2, y: (edge.top + bottom) / 2, "text-anchor": "middle", text: this.none }));
    const above = lines.filter((l) => l.value > top);
    setText(this.beyond, above.length ? "Above the chart: " + above.map((l) => shown(l.label)).join(", ") : "");
    if (this.cursor !== null) parts.push(...this.#crosshair(values, x, y, bottom));
    setAttr(this.svg, "viewBox", `0 0 ${width} ${height}`);
    this.svg.replaceChildren(...parts);
  }

  // clock writes the time of day below the chart, at each quarter of a minute.
  #clock(x, bottom, width) {
    const every = width < 300 ? 30 : width < 420 ? 20 : 15;
    const parts = [];
    for (let i = 0; i < seconds; i++) {
      const at = this.data.end - (seconds - 1 - i) * 1000;
      if (Math.round(at / 1000) % every) continue;
      parts.push(svg("line", { class: "base", x1: crisp(x(i)), x2: crisp(x(i)), y1: bottom, y2: bottom + 4 }));
      if (x(i) > edge.left + 12 && x(i) < width - 28) parts.push(svg("text", { class: "tick", x: x(i), y: bottom + 17, "text-anchor": "middle", text: time(at) }));
    }
    return parts;
  }

  // gaps shades the seconds of which nothing is known, but for those before the first that is.
  #gaps(x, bottom) {
    const known = Array.from({ length: seconds }, (_, i) => this.series.some((s) => this.data.values[s.key][i] !== null));
    const parts = [];
    for (let i = known.indexOf(true); i >= 0 && i < seconds; i++) {
      if (known[i]) continue;
      let end = i;
      while (end < seconds && !known[end]) end++;
      const [from, to] = [x(Math.max(0, i - 1)), x(Math.min(seconds - 1, end))];
      parts.push(svg("rect", { class: "gap", x: from, y: edge.top, width: Math.max(1, to - from), height: bottom - edge.top }));
      if (to - from > 60) parts.push(svg("text", { class: "none", x: (from + to) / 2, y: (edge.top + bottom) / 2, "text-anchor": "middle", text: "no data" }));
      i = end;
    }
    return parts;
  }

  #line(series, values, x, y, bottom) {
    const { line, area } = trace(values, x, y, bottom);
    const parts = [svg("path", { class: "line " + series.class, d: line })];
    if (series.area) parts.unshift(svg("path", { class: "area " + series.class, d: area }));
    return parts;
  }

  // lines draws the thresholds, with labels that keep clear of each other.
  #lines(lines, x, y, right, bottom, top) {
    const labels = apart(lines.map((l) => y(l.value) - 5), 14, edge.top + 13, bottom - 4);
    return lines.flatMap((l, i) => [
      past(l).some((v) => v !== l.value)
        ? svg("path", { class: "threshold " + (l.class ?? ""), d: trace(l.values.map((v) => v === null ? null : Math.min(v, top)), x, y, bottom).line })
        : svg("line", { class: "threshold " + (l.class ?? ""), x1: edge.left, x2: right, y1: crisp(y(l.value)), y2: crisp(y(l.value)) }),
      svg("text", { class: "threshold " + (l.class ?? ""), x: right - 2, y: labels[i], "text-anchor": "end", text: clip(shown(l.label), (right - edge.left) / 8) }),
    ]);
  }

  // marks draws the marks, with what is from there on beside it. Of labels that would stand on each other, the
  // newest is seen.
  #marks(x, right, bottom) {
    let free = right; // up to here there is room for labels
    const [drawn, labels] = [[], []];
    for (const { at, label, quiet } of [...this.data.marks].reverse()) {
      const here = x(this.#second(at));
      const width = 7 * label.length + 2;
      const left = free === right ? Math.min(here + 3, right - width) : here + 3;
      const fits = left + width <= free;
      if (fits) free = left - 4;
      const look = { class: quiet ? "mark shadow" : "mark", "data-state": label };
      drawn.push(svg("line", { ...look, x1: crisp(here), x2: crisp(here), y1: edge.top - 16, y2: bottom }));
      if (fits) labels.push(svg("text", { ...look, x: left, y: edge.top - 6, text: label }));
    }
    return [...drawn, ...labels];
  }

  #crosshair(values, x, y, bottom) {
    const i = this.#index();
    return [
      svg("line", { class: "cross", x1: crisp(x(i)), x2: crisp(x(i)), y1: edge.top, y2: bottom }),
      ...this.series.filter((s) => values[s.key][i] !== null)
        .map((s) => svg("circle", { class: "dot " + s.class, cx: x(i), cy: y(values[s.key][i]), r: 3.5 })),
    ];
  }
}

// past is what is known of a line that moves.
function past(line) {
  return (line.values ?? []).filter((v) => v !== null);
}

/** trace gives the outline of a series and of the area below it, with breaks where it is null. */
export function trace(values, x, y, bottom) {
  let line = "", area = "", begun = -1;
  for (let i = 0; i <= values.length; i++) {
    const v = i < values.length ? values[i] : null;
    if (v === null) {
      if (begun >= 0) area += `L${round(x(i - 1))} ${round(bottom)}L${round(x(begun))} ${round(bottom)}Z`;
      begun = -1;
      continue;
    }
    const to = `${round(x(i))} ${round(y(v))}`;
    if (begun < 0) {
      line += `M${to}h0`; // so that a point alone is seen
      area += `M${to}`;
      begun = i;
    } else {
      line += "L" + to;
      area += "L" + to;
    }
  }
  return { line, area };
}

const round = (v) => Math.round(v * 10) / 10;
const crisp = (v) => Math.round(v) + 0.5;

function clip(text, most) {
  const runes = [...text];
  return runes.length <= most ? text : runes.slice(0, Math.max(1, most - 1)).join("") + "…";
}
