// The rules as they are loaded, asked for again when they have changed.

import { query, request } from "./api.js";

/** A RuleList is asked for the rules by update. changed is called when they have come. */
export class RuleList {
  constructor(changed) {
    this.changed = changed;
    this.rules = [];
    this.version = "";
    this.state = "asked"; // or known, or failed
  }

  /** update asks again if the store knows of other rules. */
  update(store) {
    if (store.rulesVersion !== this.version) this.load();
  }

  /** load asks again. */
  async load() {
    if (this.loading) return;
    this.loading = true;
    try {
      ({ rules: this.rules, version: this.version } = await request("rules"));
      this.state = "known";
      this.changed();
    } catch {
      this.state = "failed"; // it is asked again with the next frame
    } finally {
      this.loading = false;
    }
  }

  /** all are the rules, and those of guards that the program brought, with what the frames say of them as live and
   * their key. */
  all(store) {
    const known = new Set();
    const all = this.rules.map((r) => {
      const key = r.kind + " " + query(r.id, r.raw);
      known.add(key);
      return { ...r, key, live: store.rules.get(key) };
    });
    const { kinds } = store;
    for (const r of store.rules.values()) if (!known.has(r.key) && kinds.length && !kinds.some((k) => k.name === r.kind)) all.push({ ...r, live: r });
    return all;
  }
}
