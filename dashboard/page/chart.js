// A chart of the last minute, or of another time, step by step: lines, areas, thresholds, gaps, and a
// read-out for pointer, finger and keyboard. It is drawn in SVG, so that the style sheet colours it.

import { select, selected } from "./address.js";
import { el, svg, setAttr, setText, shown } from "./dom.js";
import { span, time } from "./format.js";
import { Handle } from "./handle.js";
import { apart, reach, ticks } from "./scale.js";

const edge = { left: 46, right: 10, top: 20, bottom: 22 };

/** A Chart draws series over time. Its element goes into the page; update sets its data.
 *
 * title: of the figure. series: [{key, label, class, area, rare}]; one that is rare is shown only if
 * there is something of it, and one that is unsure only if anything is known. format: of a value, for the axis and the read-out. least: what the axis
 * reaches at least. marked: whether it gets marks. stacked: what the first two series are together. */
export class Chart {
  constructor({ title, series, format, least = 1, none = "no traffic", marked = false, stacked = "" }) {
    Object.assign(this, { title, series, format, least, none, marked, stacked });
    this.data = null;
    this.cursor = null; // the step that is read, in ms
    this.keys = new Map(series.map((s) => [s.key, el("b")]));
    this.sum = el("b");
    this.when = el("span", { class: "when" });
    this.legend = el("div", { class: "legend" }, this.when, stacked && el("span", { class: "key sum" }, stacked + " ", this.sum),
      ...series.map((s) => el("span", { class: "key " + s.class }, el("i"), s.label + " ", this.keys.get(s.key))));
    this.svg = svg("svg", { "aria-hidden": "true", focusable: "false" });
    this.plot = el("div", {
      class: "plot", tabindex: "0", role: "slider", "aria-label": title + ": the time to read", "aria-valuemin": 0, "aria-valuemax": 0, "aria-valuenow": 0,
      onpointermove: (e) => this.#point(e), onpointerdown: (e) => this.#point(e),
      onpointerleave: () => this.#read(selected()), onblur: () => this.#read(selected()), onkeydown: (e) => this.#key(e),
    }, this.svg);
    for (const what of ["click", "keydown"]) this.plot.addEventListener(what, () => select(this.cursor));
    this.handles = new Map(); // of the lines that can be dragged, by their keys
    this.stage = el("div", { class: "stage" }, this.plot);
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
      el("figcaption", {}, el("h2", { text: title }), this.legend), this.stage, this.marks, this.beyond, this.summary, this.table);
    this.resizing = new ResizeObserver(() => this.#draw());
    this.resizing.observe(this.plot);
  }

  /** update sets the data of the chart: end is when the newest step began, in ms, and step how many seconds
   * each takes. values has a list for each series, oldest first, null where nothing is known, lines are
   * [{label, value, values, drag}], with values like those of a series if the line moves, and drag for a
   * Handle if it can be dragged; and marks, by time, [{at, label, text, quiet, minor}]. */
  update({ end, step = 1, values, lines = [], marks = [] }) {
    this.count = values[this.series[0].key].length;
    this.step = 1000 * step;
    this.shown = this.series.filter((s) => !(s.rare || s.unsure) || values[s.key].some((v) => s.rare ? v > 0 : v !== null));
    const since = end - (this.count - 1) * this.step;
    this.data = { end, values, lines, marks: marks.filter(({ at }) => at >= since && at < end + this.step) };
    this.cursor = this.#stepOf(this.plot.matches(":hover, :focus") ? this.cursor : selected()); // in all charts the same
    if (this.cursor < since || this.cursor > end) this.cursor = null;
    setAttr(this.plot, "aria-valuemin", 1 - this.count);
    for (const s of this.series) this.keys.get(s.key).parentNode.hidden = !this.shown.includes(s);
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

  // together is what the first two series are together.
  #together(i) {
    const [a, b] = this.series.map((s) => this.data.values[s.key][i]);
    return a === null ? null : a + (b ?? 0);
  }

  // told are those series at a step that are wanted, as text; none if nothing is known.
  #told(i, wanted) {
    const some = this.shown.filter(wanted);
    return some.some((s) => this.data.values[s.key][i] !== null) ? some.map((s) => s.label + " " + this.say(s.key, i)).join(", ") : "";
  }

  // marksAt are the texts of the marks of a step.
  #marksAt(i) {
    return this.data.marks.filter(({ at }) => this.#indexOf(at) === i).map(({ text }) => text);
  }

  // indexOf is the index of the step of a time, and at the time at which a step begins.
  #indexOf(at) {
    return this.count - 1 + Math.floor((at - this.data.end) / this.step);
  }

  // stepOf is when the step of a time began.
  #stepOf(at) {
    return at === null || !this.data ? null : this.#at(this.#indexOf(at));
  }

  #at(i) {
    return this.data.end - (this.count - 1 - i) * this.step;
  }

  #describe() {
    const { marks } = this.data;
    const changes = marks.length ? [`${marks.length} ${marks.length === 1 ? "change" : "changes"} in it, the last at ${time(marks.at(-1).at)}: ${marks.at(-1).text}.`] : [];
    const within = this.count * this.step === 60e3 ? "minute" : this.count * this.step === 3600e3 ? "hour" : span(this.count * this.step);
    return this.shown.map(({ key, label }) => {
      const known = this.data.values[key].filter((v) => v !== null);
      if (!known.length) return label + ": nothing known.";
      return `${label}: ${this.format(known.at(-1))} now, at most ${this.format(Math.max(...known))} in the last ${within}.`;
    }).concat(this.data.lines.map((l) => `Threshold ${shown(l.label)}: ${this.format(l.value)}.`), changes).join(" ");
  }

  #index() {
    return this.cursor === null ? this.count - 1 : this.#indexOf(this.cursor);
  }

  #legend() {
    if (!this.data) return;
    let i = this.#index();
    const known = (at) => this.series.some((s) => this.data.values[s.key][at] !== null);
    if (this.cursor === null) while (i > 0 && !known(i)) i--;
    for (const { key } of this.series) setText(this.keys.get(key), this.say(key, i));
    const sum = this.stacked && this.#together(i);
    setText(this.sum, sum === null ? "–" : this.format(sum));
    const at = this.#at(i);
    const marks = this.#marksAt(i);
    const last = this.data.marks.at(-1);
    setText(this.marks, this.cursor !== null ? marks.join(" · ") : last ? `${time(last.at)} ${last.text}` : "");
    setText(this.when, this.cursor === null ? "" : time(at));
    setAttr(this.plot, "aria-valuenow", i - (this.count - 1));
    setAttr(this.plot, "aria-valuetext",
      [time(at) + ": " + (this.#told(i, (s) => !s.rare) || "nothing known"), ...marks, this.#told(i, (s) => s.rare)].filter(Boolean).join("; "));
  }

  #tabulate() {
    if (!this.table.open || !this.data) return;
    while (this.rows.children.length > this.count) this.rows.lastChild.remove();
    while (this.rows.children.length < this.count) {
      this.rows.append(el("tr", {}, el("th", { scope: "row" }), ...this.series.map(() => el("td")), this.marked && el("td", { class: "text" })));
    }
    for (let i = 0; i < this.count; i++) {
      const cells = this.rows.children[this.count - 1 - i].children;
      setText(cells[0], time(this.#at(i)));
      this.series.forEach((s, k) => setText(cells[k + 1], this.say(s.key, i)));
      if (this.marked) setText(cells[this.series.length + 1], this.#marksAt(i).join(" · "));
    }
  }

  #point(event) {
    if (!this.data) return;
    const box = this.plot.getBoundingClientRect();
    const part = (event.clientX - box.left - edge.left) / (box.width - edge.left - edge.right);
    this.#read(this.#at(Math.round(Math.min(1, Math.max(0, part)) * (this.count - 1))));
  }

  #key(event) {
    if (!this.data || event.ctrlKey || event.altKey || event.metaKey) return;
    const i = this.#index();
    const last = this.count - 1;
    const to = { ArrowLeft: i - 1, ArrowDown: i - 1, ArrowRight: i + 1, ArrowUp: i + 1, PageDown: i - 10, PageUp: i + 10, Home: 0, End: last }[event.key];
    if (event.key === "Escape" && this.cursor !== null) this.#read(null);
    else if (to === undefined) return;
    else this.#read(this.#at(Math.min(last, Math.max(0, to))));
    event.preventDefault();
    event.stopPropagation();
  }

  #read(at) {
    const cursor = this.#stepOf(at);
    if (this.cursor === cursor) return;
    this.cursor = cursor;
    this.#legend();
    this.#draw();
  }

  #draw() {
    const [width, height] = [this.plot.clientWidth, this.plot.clientHeight];
    if (!this.data || width < 80 || height < 60) return;
    const { values, lines } = this.data;
    const drawn = this.stacked ? { ...values, [this.series[1].key]: values[this.series[1].key].map((_, i) => this.#together(i)) } : values;
    const all = this.shown.flatMap((s) => drawn[s.key].filter((v) => v !== null));
    const scale = this.held ?? ticks(reach(all, lines.flatMap((l) => [l.value, ...past(l)]), lines.filter((l) => l.must).map((l) => l.value)), height > 170 ? 4 : 3, this.least);
    const { top, at } = this.scale = scale;
    const [right, bottom] = [width - edge.right, height - edge.bottom];
    const x = (i) => edge.left + (i / (this.count - 1)) * (right - edge.left);
    const y = (v) => bottom - (v / top) * (bottom - edge.top);
    const parts = [
      ...this.#gaps(x, bottom),
      ...at.map((v) => svg("line", { class: v ? "grid" : "base", x1: edge.left, x2: right, y1: crisp(y(v)), y2: crisp(y(v)) })),
      ...at.map((v) => svg("text", { class: "tick", x: edge.left - 8, y: y(v) + 4, "text-anchor": "end", text: v ? this.format(v) : "0" })),
      ...this.#clock(x, bottom, width),
      ...[...this.shown].reverse().flatMap((s) => this.#line(s, drawn, x, y, bottom)),
      ...this.#lines(lines.filter((l) => l.value <= top), x, y, right, bottom, top),
      ...this.#marks(x, right, bottom),
    ];
    if (!all.some((v) => v > 0)) parts.push(svg("text", { class: "none", x: (edge.left + right) / 2, y: (edge.top + bottom) / 2, "text-anchor": "middle", text: this.none }));
    const above = lines.filter((l) => l.value > top);
    setText(this.beyond, above.length ? "Above the chart: " + above.map((l) => shown(l.label)).join(", ") : "");
    if (this.cursor !== null) parts.push(...this.#crosshair(drawn, x, y, bottom));
    setAttr(this.svg, "viewBox", `0 0 ${width} ${height}`);
    this.svg.replaceChildren(...parts);
    this.#handles(lines.filter((l) => l.drag), (v) => y(Math.min(v, top)), bottom);
  }

  // handles puts the handles of lines where these are, clear of each other; that of a line above the chart is at its top.
  // While one is held, the axis stays.
  #handles(held, y, bottom) {
    const at = apart(held.map((l) => y(l.value)), Math.min(26, (bottom - edge.top) / held.length), edge.top, bottom);
    for (const [key, handle] of this.handles) {
      if (held.some((l) => l.drag.key === key)) continue;
      handle.element.remove();
      this.handles.delete(key);
    }
    held.forEach(({ drag }, i) => {
      let handle = this.handles.get(drag.key);
      if (!handle) {
        handle = new Handle({
          valueAt: (clientY) => {
            const box = this.plot.getBoundingClientRect();
            const [low, high] = [box.height - edge.bottom, edge.top];
            return Math.max(0, Math.min(1, (low - (clientY - box.top)) / (low - high))) * this.scale.top;
          },
          hold: (on) => {
            this.held = on ? this.scale : null;
            if (!on) this.#draw();
          },
        });
        this.handles.set(drag.key, handle);
        this.stage.append(handle.element);
      }
      handle.set(drag, at[i]);
    });
  }

  // clock writes the time of day below the chart: every quarter of a minute, or every ten minutes.
  #clock(x, bottom, width) {
    const every = this.step > 1000 ? (width < 420 ? 1200 : 600) : width < 300 ? 30 : width < 420 ? 20 : 15;
    const parts = [];
    for (let i = 0; i < this.count; i++) {
      const at = this.#at(i);
      if (Math.round(at / 1000) % every) continue;
      parts.push(svg("line", { class: "base", x1: crisp(x(i)), x2: crisp(x(i)), y1: bottom, y2: bottom + 4 }));
      if (x(i) > edge.left + 12 && x(i) < width - 28) parts.push(svg("text", { class: "tick", x: x(i), y: bottom + 17, "text-anchor": "middle", text: time(at) }));
    }
    return parts;
  }

  // gaps shades the steps of which nothing is known, but for those before the first that is.
  #gaps(x, bottom) {
    const known = Array.from({ length: this.count }, (_, i) => this.series.some((s) => this.data.values[s.key][i] !== null));
    const parts = [];
    for (let i = known.indexOf(true); i >= 0 && i < this.count; i++) {
      if (known[i]) continue;
      let end = i;
      while (end < this.count && !known[end]) end++;
      const [from, to] = [x(Math.max(0, i - 1)), x(Math.min(this.count - 1, end))];
      parts.push(svg("rect", { class: "gap", x: from, y: edge.top, width: Math.max(1, to - from), height: bottom - edge.top }));
      if (to - from > 60) parts.push(svg("text", { class: "none", x: (from + to) / 2, y: (edge.top + bottom) / 2, "text-anchor": "middle", text: "no data" }));
      i = end;
    }
    return parts;
  }

  #line(series, drawn, x, y, bottom) {
    const on = this.stacked && series === this.series[1] ? drawn[this.series[0].key] : null; // what it stands on
    // What stands on the other series and is nothing would hide it.
    const there = (i) => drawn[series.key][i] > on[i];
    const values = on ? drawn[series.key].map((v, i) => (there(i - 1) || there(i) || there(i + 1) ? v : null)) : drawn[series.key];
    const { line, area } = trace(values, x, y, bottom, on);
    const parts = [svg("path", { class: "line " + series.class, d: line })];
    if (series.area) parts.unshift(svg("path", { class: "area " + series.class, d: area }));
    return parts;
  }

  // lines draws the thresholds, with labels that keep clear of each other. One that has been driven far off its line
  // hangs on a thread.
  #lines(lines, x, y, right, bottom, top) {
    const labels = apart(lines.map((l) => y(l.value) - 5), 14, edge.top + 13, bottom - 4);
    return lines.flatMap((l, i) => {
      const look = "threshold " + (l.class ?? "");
      const here = crisp(y(l.value));
      const far = Math.abs(labels[i] + 5 - y(l.value)) > 14;
      return [
        l.values?.some((v) => v !== l.value)
          ? svg("path", { class: look, d: stairs(l.values.map((v) => v === null ? null : Math.min(v, top)), x, y) })
          : svg("line", { class: look, x1: edge.left, x2: right, y1: here, y2: here }),
        far && svg("path", { class: "thread", d: `M${right + 1} ${here}L${right + 6} ${here}V${round(labels[i] - 4)}H${right + 1}` }),
        svg("text", { class: look, x: right - 2, y: labels[i], "text-anchor": "end", text: clip(shown(l.label), Math.min(40, (right - edge.left) / 13)) }),
      ].filter(Boolean);
    });
  }

  // marks draws the marks, with what is from there on beside it. Of labels that would stand on each other, the
  // newest is seen, and those of minor marks are not.
  #marks(x, right, bottom) {
    const newest = [...this.data.marks].reverse();
    const taken = []; // by labels, from where to where
    return [...newest.filter((m) => !m.minor), ...newest.filter((m) => m.minor)].flatMap(({ at, label, quiet }) => {
      const here = x(this.#indexOf(at));
      const width = 7 * label.length + 6;
      const left = Math.min(here + 3, right + 4 - width);
      const fits = !taken.some(([from, to]) => left < to && left + width > from);
      if (fits) taken.push([left, left + width]);
      const look = { class: quiet ? "mark shadow" : "mark", "data-state": label };
      return [
        svg("line", { ...look, x1: crisp(here), x2: crisp(here), y1: edge.top - 16, y2: bottom }),
        ...(fits ? [svg("text", { ...look, x: left, y: edge.top - 6, text: label })] : []),
      ];
    });
  }

  #crosshair(values, x, y, bottom) {
    const i = this.#index();
    return [
      svg("line", { class: "cross", x1: crisp(x(i)), x2: crisp(x(i)), y1: edge.top, y2: bottom }),
      ...this.shown.filter((s) => values[s.key][i] !== null)
        .map((s) => svg("circle", { class: "dot " + s.class, cx: x(i), cy: y(values[s.key][i]), r: 3.5 })),
    ];
  }
}

// past is what is known of a line that moves.
function past(line) {
  return (line.values ?? []).filter((v) => v !== null);
}

/** trace returns the outline of a series and of the area below it, with breaks where it is null. The area
 * reaches down to the bottom, or to the values that the series stands on. */
export function trace(values, x, y, bottom, on = null) {
  let line = "", area = "", begun = -1;
  for (let i = 0; i <= values.length; i++) {
    const v = i < values.length ? values[i] : null;
    if (v === null) {
      if (begun >= 0 && on) {
        for (let k = i - 1; k >= begun; k--) area += `L${round(x(k))} ${round(y(on[k]))}`;
        area += "Z";
      } else if (begun >= 0) area += `L${round(x(i - 1))} ${round(bottom)}L${round(x(begun))} ${round(bottom)}Z`;
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

// stairs is a line that holds each value until the next.
function stairs(values, x, y) {
  let path = "", height = null;
  values.forEach((v, i) => {
    const to = v === null ? null : round(y(v));
    if (v !== null) path += height === null ? `M${round(x(i))} ${to}h0` : `L${round(x(i))} ${height}${to === height ? "" : `L${round(x(i))} ${to}`}`;
    height = to;
  });
  return path;
}

const round = (v) => Math.round(v * 10) / 10;
const crisp = (v) => Math.round(v) + 0.5;

function clip(text, most) {
  const runes = [...text];
  return runes.length <= most ? text : runes.slice(0, Math.max(1, most - 1)).join("") + "…";
}
