// What came most often: the keys of a limiter, or the values of an argument.

import { el, setAttr, setText, shown } from "./dom.js";
import { count } from "./format.js";

const most = 20; // that are shown

/** Frequent is a table of them. */
export class Frequent {
  constructor(caption) {
    this.rows = el("tbody");
    this.element = el("table", { class: "frequent" }, el("caption", { text: caption }), this.rows);
  }

  /** set shows a list of { name, times, excess }, the most frequent first. */
  set(list) {
    list = list.slice(0, most);
    this.element.hidden = list.length === 0;
    while (this.rows.children.length > list.length) this.rows.lastChild.remove();
    list.forEach(({ name, times, excess }, i) => {
      if (!this.rows.children[i]) this.rows.append(el("tr", {}, el("th", { scope: "row" }), el("td")));
      const [head, cell] = this.rows.children[i].children;
      setText(head, shown(name) || "(empty)");
      setAttr(head, "title", shown(name));
      setText(cell, excess ? `${count(times - excess)} to ${count(times)}` : count(times));
    });
  }
}
