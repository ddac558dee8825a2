// Long work is done in parts, so that what somebody does meanwhile is answered.

const longest = 8; // ms of a part, more or less

/** A Pace is that of one piece of work. It awaits part when that is long. */
export class Pace {
  constructor() {
    this.begun = performance.now();
  }

  /** long reports whether the part should end. */
  get long() {
    return performance.now() - this.begun > longest;
  }

  /** part lets the browser do what else there is to do. A page that nobody sees goes on: its timers come late. */
  async part() {
    if (!document.hidden) await new Promise((resolve) => setTimeout(resolve));
    this.begun = performance.now();
  }
}
