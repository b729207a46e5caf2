// Another concept, or several: search as you type over the whole terminology.

import { around, byId, closable, count, fill, make, several } from "./dom.js";
import { facts, omop, texts } from "./row.js";

const PAUSE = 120; // ms without a keystroke before the server is asked
const TOP = 30;

/** @typedef {{id: string, name: string, omop: any, matched_term?: string, maps_to?: Concept[]}} Concept */

export class Picker {
  /** @param {import("./client.js").Api} api */
  constructor(api) {
    this.api = api;
    /** @type {Concept[]} */
    this.found = [];
    /** @type {Concept[]} */
    this.chosen = [];
    this.place = 0;
    this.project = "";
    /** @type {string | null} */
    this.answered = null;
    /** @type {((answer: {id: string, relation: string} | null) => void) | null} */
    this.done = null;
    this.filters = { domain: byId("picker-domain"), vocabulary: byId("picker-vocabulary"), concept_class: byId("picker-concept_class") };
    this.dialog = closable(byId("picker"));
    this.input = byId("picker-input");
    this.results = byId("picker-results");
    this.concepts = new Map();
    /** @type {Record<string, string[]> | null} */
    this.choices = null; // of an index of OMOP vocabularies: the values of each filter
    this.input.addEventListener("input", () => {
      clearTimeout(this.timer);
      this.timer = setTimeout(() => this.#search(), PAUSE);
    });
    this.input.addEventListener("keydown", (event) => this.#key(event));
    this.results.addEventListener("click", (event) => {
      const option = around(event, "[data-place]");
      if (!option) return;
      if (Number(option.dataset.place) === this.place) this.#take(this.#targets());
      else this.#show(Number(option.dataset.place));
      this.input.focus();
    });
    for (const filter of [byId("picker-standard"), ...Object.values(this.filters)]) filter.addEventListener("change", () => this.#search());
    this.dialog.addEventListener("close", () => this.done?.(null));
    this.dialog.querySelector("form")?.addEventListener("submit", (event) => event.preventDefault());
  }

  /**
   * Say by what a project's searches can be narrowed; `standard`: they begin with standard concepts only.
   *
   * @param {Record<string, string[]> | null} choices
   * @param {boolean} standard
   */
  narrow(choices, standard) {
    this.choices = choices;
    byId("picker-filters").hidden = !choices;
    byId("picker-label").textContent = choices ? "Name, part of a name, OMOP concept id, or code" : "Name, part of a name, id or code";
    byId("picker-standard").checked = standard;
    for (const [name, filter] of Object.entries(this.filters)) {
      fill(filter, make("option", { value: "", text: "any" }), choices?.[name].map((value) => make("option", { value, text: value })));
    }
  }

  /**
   * Let the user find concepts for a text of a project; resolves with {id, relation}, ids joined by "|", or null.
   * `typed`: what to search for first, if not the text.
   *
   * @param {string} mention
   * @returns {Promise<{id: string, relation: string} | null>}
   */
  ask(mention, relation = "exact", project = "", typed = mention) {
    this.project = project;
    byId("picker-mention").textContent = mention;
    this.input.value = typed;
    // What was looked for in one row's domain is not looked for in the next one's.
    for (const filter of Object.values(this.filters)) filter.value = "";
    for (const radio of /** @type {NodeListOf<HTMLInputElement>} */ (this.dialog.querySelectorAll("input[type=radio]"))) radio.checked = radio.value === relation;
    this.found = [];
    this.chosen = [];
    this.answered = null;
    this.#draw();
    this.dialog.showModal();
    this.input.focus();
    this.input.select();
    this.#search();
    return new Promise((resolve) => { this.done = (answer) => { this.done = null; resolve(answer); }; });
  }

  #filters() {
    if (!this.choices) return {};
    const chosen = Object.entries(this.filters).map(([name, filter]) => [name, filter.value]);
    return { standard: byId("picker-standard").checked, ...Object.fromEntries(chosen) };
  }

  async #search() {
    this.asked?.abort();
    this.asked = new AbortController();
    const { signal } = this.asked;
    const text = this.input.value.trim();
    if (!text) {
      this.found = [];
      this.#draw(`${byId("picker-label").textContent}.`);
      return;
    }
    try {
      const { concepts } = await this.api.get("/search", { q: text, top: TOP, project: this.project, ...this.#filters() }, signal);
      if (signal.aborted) return;
      this.found = concepts;
      this.answered = text;
      this.#draw(concepts.length ? "" : "Nothing found.");
    } catch (/** @type {any} */ error) {
      if (!signal.aborted) this.#draw(`Not searched: ${error.message}.`);
    }
  }

  #draw(said = "") {
    byId("picker-said").textContent = said || (this.found.length ? `${this.found.length} found: arrow keys, then Enter. Ctrl+Enter adds a target, for a text that has several.` : "");
    fill(this.results, this.found.map((one, place) => make("div", { role: "option", id: `picker-${place}`, class: "option", data: { place } },
      make("b", { text: one.name || one.id }), make("code", { text: one.id }), omop(one.omop),
      one.matched_term && one.matched_term !== one.name ? make("span", { class: "quiet", text: `by “${one.matched_term}”` }) : null)));
    this.#drawChosen();
    this.#show(0);
  }

  #drawChosen() {
    fill(byId("picker-chosen"), this.chosen.map((one) => make("li", {},
      make("button", { type: "button", "aria-label": `Remove ${one.name}`, on: { click: () => { this.chosen = this.chosen.filter((other) => other !== one); this.#drawChosen(); this.#describe(); this.input.focus(); } } },
        `${one.name} `, make("span", { "aria-hidden": "true", text: "✕" })))));
  }

  /** @param {number} place */
  #show(place) {
    this.place = place;
    const options = [...this.results.children];
    options.forEach((option, number) => option.setAttribute("aria-selected", String(number === place)));
    const current = options[place];
    if (current) {
      this.input.setAttribute("aria-activedescendant", current.id);
      current.scrollIntoView({ block: "nearest" });
    } else this.input.removeAttribute("aria-activedescendant");
    this.#describe();
  }

  /** Show the current concept: what the search knows of it at once, the rest when it comes. */
  async #describe() {
    const hit = this.found[this.place];
    const pane = byId("picker-concept");
    fill(pane, hit ? this.#head(hit) : null);
    if (!hit) return;
    try {
      if (!this.concepts.has(hit.id)) this.concepts.set(hit.id, await this.api.get(`/concepts/${encodeURIComponent(hit.id)}`));
    } catch {
      return; // the name is enough to choose by
    }
    if (this.found[this.place] !== hit) return;
    const one = this.concepts.get(hit.id);
    fill(pane, this.#head(hit),
      one.retired ? make("p", { class: "warning", text: `Retired${one.replaced_by?.length ? `; replaced by ${[one.replaced_by].flat().join(", ")}` : ""}` }) : null,
      one.definition ? make("p", { text: one.definition }) : null,
      facts([["Synonyms", texts(one.synonyms).filter((/** @type {string} */ text) => text !== one.name).join("; ")], ["Types", one.omop ? "" : texts(one.types).join("; ")]]),
      this.#around("Parents", one.parents, one.parents.length), this.#around("Children", one.children, one.n_children));
  }

  /** @param {Concept} hit */
  #head(hit) {
    const targets = hit.maps_to || [];
    const total = this.#with(this.#targets()).length;
    const what = ["", "the standard concept", "both standard concepts"][targets.length] || `all ${targets.length} standard concepts`;
    return [
      make("h3", { text: hit.name }), make("code", { text: hit.id }), omop(hit.omop),
      targets.length ? make("div", { class: "warning" }, make("b", { text: "Not standard. OMOP maps it to:" }),
        make("ul", {}, targets.map((target) => make("li", {}, make("button", { type: "button", on: { click: () => this.#take([target]) } }, target.name), " ", omop(target.omop))))) : null,
      make("div", { class: "buttons" },
        make("button", { type: "button", class: "first", on: { click: () => this.#take(this.#targets()) } },
          total > 1 && this.chosen.length ? `Take ${several(total, "target")} ` : targets.length ? `Take ${what} ` : "Take ", make("kbd", { "aria-hidden": "true", text: "Enter" })),
        targets.length ? make("button", { type: "button", on: { click: () => this.#take([hit]) } }, "Take the non-standard concept ", make("kbd", { "aria-hidden": "true", text: "Shift+Enter" })) : null,
        make("button", { type: "button", on: { click: () => this.#add() } }, "Add, and search for more ", make("kbd", { "aria-hidden": "true", text: "Ctrl+Enter" }))),
    ];
  }

  /**
   * The concepts above or below the current one, each a button that goes there.
   *
   * @param {string} title
   * @param {Concept[]} concepts
   * @param {number} number
   */
  #around(title, concepts, number) {
    if (!concepts?.length) return null;
    const left = number - concepts.length;
    return make("section", { class: "around" }, make("h4", { text: `${title}${number > 1 ? ` (${count(number)})` : ""}` }),
      make("ul", {}, concepts.map((one) => make("li", {}, make("button", { type: "button", on: { click: () => this.#goTo(one.id) } }, one.name), " ", omop(one.omop)))),
      left > 0 ? make("p", { class: "quiet", text: `and ${count(left)} more` }) : null);
  }

  /** @param {string} id */
  #goTo(id) {
    this.input.value = id;
    this.input.focus();
    this.#search();
  }

  /** @param {KeyboardEvent} event */
  #key(event) {
    if (event.isComposing) return;
    /** @type {Record<string, number>} */
    const steps = { ArrowDown: this.place + 1, ArrowUp: this.place - 1, PageDown: this.place + 8, PageUp: this.place - 8 };
    const to = steps[event.key];
    if (to !== undefined && this.found.length) {
      event.preventDefault();
      this.#show(Math.max(0, Math.min(this.found.length - 1, to)));
    } else if (event.key === "Enter") {
      event.preventDefault();
      // Enter before the answer is there would take what was found for something else.
      if (this.input.value.trim() !== this.answered) return;
      if (event.ctrlKey || event.metaKey) this.#add();
      else this.#take(event.shiftKey ? this.found.slice(this.place, this.place + 1) : this.#targets());
    }
  }

  /** What is taken for the current concept: the standard ones that it maps to, else itself. */
  #targets() {
    const hit = this.found[this.place];
    if (!hit) return [];
    return hit.maps_to?.length ? hit.maps_to : [hit];
  }

  /**
   * What was chosen so far and these, each once.
   *
   * @param {Concept[]} concepts
   * @returns {Concept[]}
   */
  #with(concepts) {
    return [...new Map([...this.chosen, ...concepts].map((one) => [one.id, one])).values()];
  }

  #add() {
    this.chosen = this.#with(this.#targets());
    this.#drawChosen();
    this.#describe();
    byId("picker-said").textContent = `${several(this.chosen.length, "target")} chosen. Search for another, or press Enter.`;
    this.input.focus();
    this.input.select();
  }

  /** @param {Concept[]} concepts */
  #take(concepts) {
    const all = this.#with(concepts);
    if (!all.length) return;
    const chosen = /** @type {HTMLInputElement} */ (this.dialog.querySelector("input[type=radio]:checked"));
    const relation = chosen.value;
    const done = this.done;
    this.done = null;
    this.dialog.close();
    done?.({ id: all.map((one) => one.id).join("|"), relation });
  }
}
