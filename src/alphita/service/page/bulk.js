// Bulk accept: what a threshold would do is shown by the server before anything is done.

import { Refused, path } from "./client.js";
import { byId, closable, count, fill, make, several } from "./dom.js";

const PAUSE = 150; // ms

export class Bulk {
  /** `applied(answer)` is called when rows were accepted. */
  constructor(api, applied) {
    this.api = api;
    this.applied = applied;
    this.dialog = closable(byId("bulk"));
    this.slider = byId("bulk-slider");
    this.number = byId("bulk-number");
    this.button = byId("bulk-apply");
    this.slider.addEventListener("input", () => this.#moved(this.slider, this.number));
    this.number.addEventListener("input", () => this.#moved(this.number, this.slider));
    byId("bulk-type").addEventListener("input", () => this.#soon());
    this.button.addEventListener("click", () => this.#apply());
    this.dialog.querySelector("form").addEventListener("submit", (event) => event.preventDefault());
  }

  open(project, { hasConfidence, pending }) {
    this.project = project;
    this.uid = crypto.randomUUID();
    this.dialog.showModal();
    this.slider.focus();
    this.blocked = null;
    if (!hasConfidence) this.blocked = "The index has no calibration, so there is no confidence to accept by. Run `alphita calibrate`.";
    else if (pending) this.blocked = `${several(pending, "decision")} of yours must be saved first.`;
    for (const control of [this.slider, this.number, byId("bulk-type")]) control.disabled = Boolean(this.blocked);
    fill(byId("bulk-preview"));
    if (this.blocked) this.#say(this.blocked);
    else this.#preview();
  }

  #moved(from, to) {
    to.value = from.value;
    this.#soon();
  }

  #soon() {
    this.button.disabled = true; // what is shown is of another threshold
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.#preview(), PAUSE);
  }

  #body(preview) {
    const type = byId("bulk-type").value.trim();
    return { uid: this.uid, threshold: Number(this.number.value), ...(type ? { types: [type] } : {}), preview };
  }

  async #preview() {
    this.asked?.abort();
    this.asked = new AbortController();
    const { signal } = this.asked;
    const body = this.#body(true);
    this.button.disabled = true;
    this.button.textContent = "Accept";
    if (this.number.value === "" || !(body.threshold >= 0 && body.threshold <= 1)) {
      fill(byId("bulk-preview"));
      this.#say("A number from 0 to 1.");
      return;
    }
    try {
      const found = await this.api.post(path(this.project, "bulk"), body, signal);
      if (signal.aborted) return;
      this.#show(found);
      this.#say("");
      this.previewed = body;
      this.button.textContent = found.rows ? `Accept ${several(found.rows, "row")}` : "Nothing to accept";
      this.button.disabled = !found.rows;
    } catch (error) {
      if (!signal.aborted) this.#say(`No preview: ${error.message}.`);
    }
  }

  #show({ rows, occurrences, expected_wrong: wrong }) {
    const figure = (name, value) => make("div", {}, make("dt", { text: name }), make("dd", { text: value }));
    fill(byId("bulk-preview"),
      figure("Rows", count(rows)),
      figure("Occurrences", count(occurrences)),
      figure("Expected wrong", rows ? `${wrong.toFixed(wrong < 10 ? 1 : 0)} rows (${((100 * wrong) / rows).toFixed(1)}%)` : "0"));
  }

  async #apply() {
    this.button.disabled = true;
    this.#say("Accepting …");
    try {
      const answer = await this.api.post(path(this.project, "bulk"), { ...this.previewed, preview: false });
      this.dialog.close();
      this.applied(answer);
    } catch (error) {
      if (error instanceof Refused) {
        this.#say(`Not accepted: ${error.message}.`);
        return;
      }
      // The same uid again: if it was done after all, it is not done twice.
      this.#say(`It is unknown whether this was done: ${error.message}. You can safely accept again: it counts once.`);
      this.button.disabled = false;
    }
  }

  #say(text) {
    byId("bulk-said").textContent = text;
  }
}
