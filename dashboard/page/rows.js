// A list of any length, of which only those rows are in the page that can be seen, and a few more.
// A row stays with its item, so that focus, selection and hover do too.

const spare = 6; // rows above and below
const atOnce = 12; // rows that are made at once: those of a large screen take long

/** Rows shows a list. make returns the element of an item, with a fill(element, item, index); all are as
 * high as --row says in the style sheet. reuse(element, item), if it is there, makes the element of one that is not
 * seen any more that of another: much is made while a long list is scrolled. */
export class Rows {
  constructor({ make, fill, reuse }) {
    Object.assign(this, { make, fill, reuse });
    this.items = [];
    this.shown = new Map(); // key → element
    this.inner = document.createElement("div");
    this.element = document.createElement("div");
    this.element.className = "rows";
    this.element.setAttribute("role", "rowgroup");
    this.inner.setAttribute("role", "presentation");
    this.element.append(this.inner);
    this.soon = () => {
      this.frame ??= requestAnimationFrame(() => {
        this.frame = undefined;
        this.draw();
      });
    };
    addEventListener("scroll", this.soon, { passive: true });
    addEventListener("resize", this.soon);
    this.element.addEventListener("keydown", (e) => this.#key(e));
  }

  /** close ends what would keep the list alive. */
  close() {
    removeEventListener("scroll", this.soon);
    removeEventListener("resize", this.soon);
    cancelAnimationFrame(this.frame);
  }

  /** set sets the items of the list, which have a key each. */
  set(items) {
    this.items = items;
    this.draw();
  }

  /** draw brings the page up to what the list is. Of rows that must be made, it makes so many. */
  draw(most = atOnce) {
    if (!this.element.isConnected) return;
    this.height = parseFloat(getComputedStyle(this.element).getPropertyValue("--row"));
    this.element.style.height = this.items.length * this.height + "px";
    const top = -this.element.getBoundingClientRect().top;
    const start = Math.max(0, Math.min(this.items.length - 1, Math.floor(top / this.height) - spare));
    const end = Math.min(this.items.length, Math.ceil((top + innerHeight) / this.height) + spare);
    this.inner.style.transform = `translateY(${start * this.height}px)`;
    const wanted = this.items.slice(start, Math.max(start, end));
    const keys = new Set(wanted.map((item) => item.key));
    for (const [key, element] of this.shown) {
      if (keys.has(key)) continue;
      element.free = true;
      this.shown.delete(key);
      if (element.contains(document.activeElement)) document.activeElement.blur();
    }
    // Those in the page are taken in their order, so that few have to move: that is what costs.
    const free = [...this.inner.children].filter((element) => element.free);
    if (!this.reuse) while (free.length) free.pop().remove();
    let next = this.inner.firstChild;
    for (const [i, item] of wanted.entries()) {
      let element = this.shown.get(item.key);
      if (!element) {
        element = free.shift();
        if (!element && most-- <= 0) {
          this.soon();
          break;
        }
        if (element) this.reuse(element, item);
        else element = this.make(item);
        element.free = false;
        this.shown.set(item.key, element);
      } else while (next?.free) next = next.nextSibling;
      if (element === next) next = next.nextSibling;
      else this.inner.insertBefore(element, next);
      this.fill(element, item, start + i);
    }
    for (const element of free) element.remove();
  }

  /** goTo moves the focus to the row at an index. */
  goTo(index) {
    const i = Math.max(0, Math.min(this.items.length - 1, index));
    const box = this.element.getBoundingClientRect().top + i * this.height;
    if (box < 60) scrollBy({ top: box - 60, behavior: "instant" });
    else if (box + this.height > innerHeight - 10) scrollBy({ top: box + this.height - innerHeight + 10, behavior: "instant" });
    this.draw(Infinity);
    this.shown.get(this.items[i]?.key)?.querySelector("a")?.focus({ preventScroll: true });
  }

  #key(event) {
    if (event.ctrlKey || event.altKey || event.metaKey || event.shiftKey) return;
    const at = this.items.findIndex((item) => this.shown.get(item.key)?.contains(event.target));
    const page = Math.max(1, Math.floor((innerHeight - 120) / this.height));
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, PageDown: at + page, PageUp: at - page, Home: 0, End: this.items.length - 1 }[event.key];
    if (at < 0 || to === undefined) return;
    event.preventDefault();
    this.goTo(to);
  }
}
