// Decisions on their way to the server, in the order in which they were taken, one at a time. Each stays here, and in
// the browser's storage, until the server has acknowledged it; what is sent twice is kept once, by its uid.

import { Conflict, Refused } from "./client.js";

const PREFIX = "alphita.pending.";
const SLOWEST = 30; // seconds between two attempts

/**
 * Events: `saved` {item, answer}, `conflict` {item, newest}, `refused` {item, error}, `change`.
 *
 * An item: {uid, reviewer, project, row, path, body, mention, at}; `row` is null for an undo.
 */
export class Outbox extends EventTarget {
  constructor(api) {
    super();
    this.api = api;
    this.items = [];
    this.newest = new Map(); // newest decision id by "project/row", of those that this page has had acknowledged
    this.undos = new Set(); // uids of the undos that this page has had acknowledged
    this.trouble = null; // why the first item waits
    this.until = 0; // when it is tried again, ms of performance.now(), which nobody sets
    this.failures = 0;
    this.busy = false;
    this.timer = 0;
  }

  get size() {
    return this.items.length;
  }

  /** Take up what an earlier visit of this reviewer could not send. */
  resume(reviewer) {
    const found = [];
    for (let place = 0; place < localStorage.length; place += 1) {
      const key = localStorage.key(place);
      if (!key.startsWith(PREFIX)) continue;
      try {
        const item = JSON.parse(localStorage.getItem(key));
        if (item.reviewer === reviewer) found.push(item);
      } catch {
        localStorage.removeItem(key);
      }
    }
    found.sort((one, other) => one.at - other.at);
    this.items.push(...found);
    this.#changed();
    this.#send();
    return found;
  }

  add(item) {
    // Later than what waits already, though the clock may have been set back since.
    const kept = { ...item, at: Math.max(Date.now(), (this.items.at(-1)?.at || 0) + 0.001) };
    this.items.push(kept);
    try {
      localStorage.setItem(PREFIX + kept.uid, JSON.stringify(kept));
    } catch {
      // A full or forbidden storage: it is kept in this tab alone.
    }
    this.#changed();
    this.#send();
  }

  /** Call something when nothing is on its way any more. */
  whenSaved(then) {
    if (!this.size) {
      then();
      return;
    }
    const look = () => {
      if (this.size) return;
      this.removeEventListener("change", look);
      then();
    };
    this.addEventListener("change", look);
  }

  retryNow() {
    clearTimeout(this.timer);
    this.until = 0;
    this.#send();
  }

  /** Give up the first item, which the server cannot take and others wait for. */
  discard() {
    if (this.busy || !this.items.length) return;
    clearTimeout(this.timer);
    const event = new CustomEvent("refused", { detail: { item: this.items[0], error: new Error(this.trouble) } });
    this.#done(event);
    this.#changed();
    this.#send();
  }

  async #send() {
    if (this.busy || !this.items.length || performance.now() < this.until) return;
    this.busy = true;
    const item = this.items[0];
    const place = `${item.project}/${item.row}`;
    // A row decided twice before the first was acknowledged: the second has seen the first.
    if ("seen" in item.body) item.body.seen = Math.max(item.body.seen, this.newest.get(place) || 0);
    let event;
    try {
      const answer = await this.api.post(item.path, item.body);
      if (item.row === null) this.undos.add(item.uid);
      if (answer.decision?.id) this.newest.set(place, answer.decision.id);
      event = new CustomEvent("saved", { detail: { item, answer } });
    } catch (error) {
      if (error instanceof Conflict && this.#isOwnUndo(error.newest)) item.body.seen = error.newest.id;
      else if (error instanceof Conflict) event = new CustomEvent("conflict", { detail: { item, newest: error.newest } });
      else if (error instanceof Refused) event = new CustomEvent("refused", { detail: { item, error } });
      else this.#wait(error);
    }
    this.busy = false;
    if (event) this.#done(event);
    this.#changed();
    this.#send();
  }

  /** The first item is no longer on its way: say what became of it. */
  #done(event) {
    const item = this.items.shift();
    localStorage.removeItem(PREFIX + item.uid);
    this.trouble = null;
    this.failures = 0;
    this.until = 0;
    this.dispatchEvent(event);
  }

  /** Whether what came between is an undo of this page's: then nobody else was faster. */
  #isOwnUndo(newest) {
    return newest?.kind === "undo" && (this.undos.has(newest.uid) || this.undos.has(newest.bulk));
  }

  #wait(error) {
    this.trouble = error.message;
    this.failures += 1;
    const seconds = error.seconds || Math.min(2 ** (this.failures - 1), SLOWEST);
    this.until = performance.now() + 1000 * seconds;
    clearTimeout(this.timer);
    this.timer = setTimeout(() => { this.until = 0; this.#send(); }, 1000 * seconds);
  }

  #changed() {
    this.dispatchEvent(new Event("change"));
  }
}
