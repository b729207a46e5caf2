// The list of rows: as long as the project, of which only what is in sight is drawn and only what was seen is fetched.

import { around, byId, count, make, percent } from "./dom.js";
import { isFinal } from "./words.js";

const PAGE = 100; // rows fetched at once
const BESIDE = 8; // rows drawn above and below what is in sight

const MARKS = {
  open: ["", "open"], saving: ["…", "being saved"], waiting: ["…", "not saved yet"], saved: ["✓", "saved"],
  nil: ["∅", "saved as NIL"], reject: ["✗", "rejected, saved"], skip: ["→", "skipped"], flag: ["⚑", "flagged"],
  problem: ["!", "not saved"], disagreed: ["≠", "reviewers disagree"], settled: ["✓", "settled"],
};

export class Queue {
  /**
   * `fetchPage(offset, limit, signal)` resolves with {total, rows}; `onPick(row)` is called when another row comes in
   * hand; `onCount()` when the number of rows is known; `onTrouble(error)` when a page does not come.
   */
  constructor({ fetchPage, onPick, onCount, onTrouble }) {
    this.fetchPage = fetchPage;
    this.onPick = onPick;
    this.onCount = onCount;
    this.onTrouble = onTrouble;
    this.view = byId("list");
    this.space = make("div", { class: "space", role: "presentation" });
    this.view.append(this.space);
    this.drawn = new Map();
    this.run = 0;
    this.clear();
    this.view.addEventListener("scroll", () => this.#soon(), { passive: true });
    this.view.addEventListener("keydown", (event) => this.#key(event));
    this.view.addEventListener("click", (event) => {
      const option = around(event, "[data-position]");
      if (option) this.pick(Number(option.dataset.position));
    });
    new ResizeObserver(() => { this.height = 0; this.#soon(); }).observe(this.view);
  }

  clear() {
    this.run += 1; // pages on their way belong to a list that is no more
    this.stop?.abort();
    this.stop = new AbortController();
    this.total = 0;
    this.rows = []; // by position, with holes
    this.positions = new Map(); // by row id
    this.asked = new Map(); // promises by page
    this.done = new Set(); // positions of rows that the server no longer counts to this list
    this.later = new Set(); // those of `done` that it lists again at the end, for they were skipped
    this.changes = 0; // of `done`
    this.marks = new Map(); // what this page knows better than the server said, by row id
    this.position = null;
    for (const node of this.drawn.values()) node.remove();
    this.drawn.clear();
  }

  /** Load the list again; the row `keep` stays in hand if it is in the first page, else the first row comes. */
  async restart(keep = null) {
    this.clear();
    const run = this.run;
    await this.#page(0);
    if (run !== this.run) return;
    this.view.scrollTop = 0;
    this.#draw();
    this.onCount();
    const kept = this.positions.get(keep);
    if (this.total) this.pick(kept ?? 0);
    else this.onPick(null);
  }

  get row() {
    return this.position === null ? null : this.rows[this.position];
  }

  /** Take the row of a position in hand; it is fetched if need be. */
  async pick(position) {
    if (position < 0 || position >= this.total) return;
    const run = this.run;
    this.wanted = position;
    if (!this.rows[position]) await this.#page(position);
    if (run !== this.run || this.wanted !== position || !this.rows[position]) return;
    this.position = position;
    this.#reveal(position);
    this.#draw();
    this.onPick(this.rows[position]);
  }

  /** Take a row in hand by its id, if it is in the list. */
  pickRow(id) {
    const position = this.positions.get(id);
    if (position === undefined) return false;
    this.pick(position);
    return true;
  }

  /** Take no row of the list in hand. */
  leave() {
    this.position = null;
    this.#draw();
  }

  /** Position of the next row that is open here, below the one in hand and then from the top; null: there is none. */
  async nextOpen() {
    const run = this.run;
    const from = (this.position ?? -1) + 1;
    for (let step = 0; step < this.total; step += 1) {
      const position = (from + step) % this.total;
      if (!this.rows[position]) await this.#page(position);
      if (run !== this.run) return null;
      const row = this.rows[position];
      if (row && this.isOpen(row)) return position;
    }
    return null;
  }

  isOpen(row) {
    const mark = this.marks.get(row.id);
    if (mark) return mark === "problem";
    return !row.settled && !isFinal(row.mine);
  }

  /** Rows that follow, as far as they are there. */
  following(many) {
    return this.position === null ? [] : this.rows.slice(this.position + 1, this.position + 1 + many).filter(Boolean);
  }

  /** Say how a row stands; null: as the server said. `done`: whether the server has taken it from its place in the list. */
  mark(id, mark, done = undefined) {
    if (mark === null) this.marks.delete(id);
    else this.marks.set(id, mark);
    const position = this.positions.get(id);
    if (position === undefined) return;
    if (done === true) this.done.add(position);
    if (done === false) this.done.delete(position);
    if (done !== undefined) this.changes += 1;
    if (done !== undefined) this.later[done && mark === "skip" ? "add" : "delete"](position);
    this.#redraw(position);
    if (done !== undefined) this.onCount();
  }

  /** Rows that the server still lists, as far as this page knows. */
  get left() {
    return this.total - this.done.size + this.later.size;
  }

  /** Whether rows wait at the server that the list will not come to. */
  get hasLater() {
    return this.later.size > 0;
  }

  /** Put a newer version of a row in its place. */
  replace(row) {
    const position = this.positions.get(row.id);
    if (position === undefined) return;
    this.rows[position] = { ...this.rows[position], ...row };
    this.#redraw(position);
  }

  /** Fetch the page that a position is on. Offsets are the server's: rows decided since are no longer counted there. */
  #page(position) {
    const page = Math.floor(position / PAGE);
    if (!this.asked.has(page)) {
      const asking = this.#fetch(page * PAGE, this.run).catch((error) => {
        if (error.name === "AbortError") return;
        this.asked.delete(page);
        this.onTrouble(error);
      });
      this.asked.set(page, asking);
    }
    return this.asked.get(page);
  }

  async #fetch(first, run) {
    for (;;) {
      const before = this.changes;
      const gone = [...this.done].filter((position) => position < first).length;
      const { total, rows } = await this.fetchPage(first - gone, PAGE, this.stop.signal);
      if (run !== this.run) return;
      if (this.changes !== before) continue; // something was decided meanwhile: the offset was another
      const length = total + this.done.size - this.later.size;
      rows.forEach((row, place) => {
        if (this.positions.has(row.id) || first + place >= length) return;
        this.rows[first + place] = row;
        this.positions.set(row.id, first + place);
      });
      if (length !== this.total) {
        this.total = length;
        this.onCount();
      }
      this.#draw();
      return;
    }
  }

  #soon() {
    if (this.frame) return;
    this.frame = requestAnimationFrame(() => {
      this.frame = 0;
      this.#draw();
    });
    // A page is fetched when scrolling rests on it, not for each that flies by.
    clearTimeout(this.resting);
    this.resting = setTimeout(() => {
      const [first, last] = this.#sight();
      for (let page = Math.floor(first / PAGE); page * PAGE < last; page += 1) this.#page(page * PAGE);
    }, 60);
  }

  #rowHeight() {
    if (!this.height) {
      const probe = make("div", { class: "item", "aria-hidden": "true" }, make("span", { text: " " }));
      this.space.append(probe);
      this.height = probe.getBoundingClientRect().height || 1;
      probe.remove();
    }
    return this.height;
  }

  #sight() {
    const height = this.#rowHeight();
    const first = Math.floor(this.view.scrollTop / height);
    const last = Math.ceil((this.view.scrollTop + this.view.clientHeight) / height);
    return [Math.max(0, first - BESIDE), Math.min(this.total, last + BESIDE)];
  }

  #reveal(position) {
    const height = this.#rowHeight();
    const top = position * height;
    const bottom = top + height;
    if (top < this.view.scrollTop) this.view.scrollTop = top;
    else if (bottom > this.view.scrollTop + this.view.clientHeight) this.view.scrollTop = bottom - this.view.clientHeight + height;
  }

  #draw() {
    const height = this.#rowHeight();
    this.space.style.height = `${height * this.total}px`;
    const [first, last] = this.#sight();
    for (const [position, node] of this.drawn) {
      if (position >= first && position < last && (node.dataset.row || !this.rows[position])) continue;
      node.remove();
      this.drawn.delete(position);
    }
    for (let position = first; position < last; position += 1) if (!this.drawn.has(position)) this.#add(position);
    for (const [position, node] of this.drawn) node.setAttribute("aria-selected", String(position === this.position));
    const current = this.drawn.get(this.position);
    if (current) this.view.setAttribute("aria-activedescendant", current.id);
    else this.view.removeAttribute("aria-activedescendant");
  }

  #redraw(position) {
    const node = this.drawn.get(position);
    if (!node) return;
    node.remove();
    this.drawn.delete(position);
    this.#draw();
  }

  #add(position) {
    const node = this.#node(position, this.rows[position]);
    node.style.transform = `translateY(${position * this.#rowHeight()}px)`;
    this.drawn.set(position, node);
    this.space.append(node);
  }

  #node(position, row) {
    const place = { role: "option", id: `option-${position}`, "aria-posinset": position + 1, "aria-setsize": this.total, data: { position } };
    if (!row) return make("div", { ...place, class: "item loading" }, make("span", { class: "mention", text: "…" }));
    const mark = this.marks.get(row.id) || this.#said(row);
    const [sign, words] = MARKS[mark];
    const answer = row.answer?.concept_id ? row.answer.concept_name || row.answer.concept_id : "NIL";
    return make("div", { ...place, class: `item is-${mark}`, data: { position, row: row.id } },
      make("span", { class: "mark" }, make("span", { "aria-hidden": "true", text: sign }), make("span", { class: "unseen", text: `${words}: ` })),
      make("span", { class: "mention", text: row.mention }),
      make("span", { class: "often", text: `× ${count(row.frequency ?? 1)}` }),
      make("span", { class: "answer", text: answer }),
      make("span", { class: "sure", text: percent(row.answer?.confidence) }));
  }

  #said(row) {
    if (row.state === "disagreed") return "disagreed";
    if (row.mine) return { accept: "saved", choose: "saved", adjudicate: "settled" }[row.mine.kind] || row.mine.kind;
    if (row.settled) return "settled";
    return row.state === "flagged" ? "flag" : "open";
  }

  #key(event) {
    const rows = Math.max(1, Math.floor(this.view.clientHeight / this.#rowHeight()) - 1);
    const now = this.position ?? 0;
    const to = { ArrowDown: now + 1, ArrowUp: now - 1, PageDown: now + rows, PageUp: now - rows, Home: 0, End: this.total - 1 }[event.key];
    if (to === undefined || event.ctrlKey || event.altKey) return;
    event.preventDefault();
    this.pick(Math.max(0, Math.min(this.total - 1, to)));
  }
}
