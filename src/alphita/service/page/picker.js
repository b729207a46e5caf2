// Another concept: search as you type over the whole terminology.

import { around, byId, closable, fill, make } from "./dom.js";
import { facts, texts } from "./row.js";

const PAUSE = 120; // ms without a keystroke before the server is asked
const TOP = 30;

export class Picker {
  constructor(api) {
    this.api = api;
    this.dialog = closable(byId("picker"));
    this.input = byId("picker-input");
    this.results = byId("picker-results");
    this.concepts = new Map();
    this.input.addEventListener("input", () => {
      clearTimeout(this.timer);
      this.timer = setTimeout(() => this.#search(), PAUSE);
    });
    this.input.addEventListener("keydown", (event) => this.#key(event));
    this.results.addEventListener("click", (event) => {
      const option = around(event, "[data-place]");
      if (!option) return;
      if (Number(option.dataset.place) === this.place) this.#take();
      else this.#show(Number(option.dataset.place));
      this.input.focus();
    });
    this.dialog.addEventListener("close", () => this.done?.(null));
    this.dialog.querySelector("form").addEventListener("submit", (event) => event.preventDefault());
  }

  /** Let the user find a concept for a text of a project; resolves with {concept, relation}, or null. */
  ask(mention, relation = "exact", project = "") {
    this.project = project;
    byId("picker-mention").textContent = mention;
    this.input.value = mention;
    for (const radio of /** @type {NodeListOf<HTMLInputElement>} */ (this.dialog.querySelectorAll("input[type=radio]"))) radio.checked = radio.value === relation;
    this.found = [];
    this.answered = null;
    this.#draw();
    this.dialog.showModal();
    this.input.focus();
    this.input.select();
    this.#search();
    return new Promise((resolve) => { this.done = (answer) => { this.done = null; resolve(answer); }; });
  }

  async #search() {
    this.asked?.abort();
    this.asked = new AbortController();
    const { signal } = this.asked;
    const text = this.input.value.trim();
    if (!text) {
      this.found = [];
      this.#draw("Type a name, part of a name, or an id.");
      return;
    }
    try {
      const { concepts } = await this.api.get("/search", { q: text, top: TOP, project: this.project }, signal);
      if (signal.aborted) return;
      this.found = concepts;
      this.answered = text;
      this.#draw(concepts.length ? "" : "Nothing found.");
    } catch (error) {
      if (!signal.aborted) this.#draw(`Not searched: ${error.message}.`);
    }
  }

  #draw(said = "") {
    byId("picker-said").textContent = said || (this.found.length ? `${this.found.length} found; arrow keys, then Enter.` : "");
    fill(this.results, this.found.map((one, place) => make("div", { role: "option", id: `picker-${place}`, class: "option", data: { place } },
      make("b", { text: one.name || one.id }), make("code", { text: one.id }),
      one.matched_term && one.matched_term !== one.name ? make("span", { class: "quiet", text: `by “${one.matched_term}”` }) : null)));
    this.#show(0);
  }

  #show(place) {
    this.place = place;
    const options = [...this.results.children];
    options.forEach((option, number) => option.setAttribute("aria-selected", String(number === place)));
    const current = options[place];
    if (!current) {
      this.input.removeAttribute("aria-activedescendant");
      fill(byId("picker-concept"));
      return;
    }
    this.input.setAttribute("aria-activedescendant", current.id);
    current.scrollIntoView({ block: "nearest" });
    this.#describe(this.found[place].id);
  }

  async #describe(id) {
    this.described = id;
    try {
      if (!this.concepts.has(id)) this.concepts.set(id, await this.api.get(`/concepts/${encodeURIComponent(id)}`));
    } catch {
      return; // the name is enough to choose by
    }
    if (this.described !== id) return;
    const one = this.concepts.get(id);
    fill(byId("picker-concept"),
      make("h3", { text: one.name }), make("code", { text: one.id }),
      one.retired ? make("p", { class: "warning", text: `Retired${one.replaced_by?.length ? `; replaced by ${[one.replaced_by].flat().join(", ")}` : ""}` }) : null,
      one.definition ? make("p", { text: one.definition }) : null,
      facts([["Parents", texts(one.parents).join("; ")], ["Synonyms", texts(one.synonyms).filter((text) => text !== one.name).join("; ")], ["Types", texts(one.types).join("; ")]]));
  }

  #key(event) {
    if (event.isComposing) return;
    const to = { ArrowDown: this.place + 1, ArrowUp: this.place - 1, PageDown: this.place + 8, PageUp: this.place - 8 }[event.key];
    if (to !== undefined && this.found.length) {
      event.preventDefault();
      this.#show(Math.max(0, Math.min(this.found.length - 1, to)));
    } else if (event.key === "Enter") {
      event.preventDefault();
      // Enter before the answer is there would take what was found for something else.
      if (this.input.value.trim() === this.answered) this.#take();
    }
  }

  #take() {
    const concept = this.found[this.place];
    if (!concept) return;
    const chosen = /** @type {HTMLInputElement} */ (this.dialog.querySelector("input[type=radio]:checked"));
    const relation = chosen.value;
    const done = this.done;
    this.done = null;
    this.dialog.close();
    done?.({ concept, relation });
  }
}
