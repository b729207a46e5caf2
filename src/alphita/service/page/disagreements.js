// Rows that reviewers decided differently, to settle one after the other.

import { Conflict, Refused, path } from "./client.js";
import { around, byId, closable, count, fill, make } from "./dom.js";
import { says } from "./words.js";

export class Disagreements {
  /** `settled(row id)` is called when the server has acknowledged a settlement. */
  constructor(api, picker, settled) {
    this.api = api;
    this.picker = picker;
    this.settled = settled;
    this.dialog = closable(byId("disagreements"));
    this.dialog.addEventListener("keydown", (event) => this.#key(event));
    this.dialog.querySelector("form").addEventListener("submit", (event) => event.preventDefault());
    byId("disagreements-body").addEventListener("click", (event) => {
      const button = around(event, "button");
      if (button) this.#do(button.dataset.does);
    });
  }

  async open(project) {
    this.project = project;
    this.rows = [];
    this.place = 0;
    this.#say("Loading …");
    fill(byId("disagreements-body"));
    if (!this.dialog.open) this.dialog.showModal();
    try {
      const found = await this.api.get(path(project, "disagreements"));
      this.rows = (Array.isArray(found) ? found : found.rows).map((one) => (one.row?.mention ? { ...one, ...one.row } : one));
      this.#say("");
      this.#draw();
    } catch (error) {
      this.#say(`Not loaded: ${error.message}.`);
    }
  }

  #draw() {
    const row = this.rows[this.place];
    const body = byId("disagreements-body");
    if (!row) {
      fill(body, make("p", { class: "nothing", text: "No disagreements to settle." }));
      return;
    }
    const names = new Map((row.candidates || []).map((one) => [one.concept_id, one.concept_name]));
    this.choices = choices(row.decisions);
    fill(body,
      make("p", { class: "quiet", text: `${count(this.place + 1)} of ${count(this.rows.length)}` }),
      make("h3", { class: "mention", tabindex: "-1", text: row.mention }),
      make("p", { class: "quiet", text: [row.code && `code ${row.code}`, `occurs ${count(row.frequency ?? 1)} times`, ...Object.entries(row.context || {}).map(([name, value]) => `${name}: ${value}`)].filter(Boolean).join(" · ") }),
      make("ul", { class: "choices" }, this.choices.map((choice, place) => make("li", {},
        make("button", { type: "button", data: { does: String(place + 1) } }, make("kbd", { "aria-hidden": "true", text: String(place + 1) }), ` ${says({ ...choice.decision, kind: choice.decision.concept_id ? "choose" : choice.decision.kind }, names)}`),
        make("span", { class: "quiet", text: ` by ${choice.by.join(", ")}` }),
        choice.comments.map((comment) => make("q", { class: "comment", text: comment }))))),
      make("div", { class: "buttons" },
        make("button", { type: "button", data: { does: "/" } }, "Another concept ", make("kbd", { "aria-hidden": "true", text: "/" })),
        make("button", { type: "button", data: { does: "x" } }, "NIL ", make("kbd", { "aria-hidden": "true", text: "x" })),
        make("button", { type: "button", data: { does: "k" }, disabled: this.place === 0 }, "Previous ", make("kbd", { "aria-hidden": "true", text: "k" })),
        make("button", { type: "button", data: { does: "j" }, disabled: this.place + 1 >= this.rows.length }, "Next ", make("kbd", { "aria-hidden": "true", text: "j" }))));
    body.querySelector("h3").focus();
  }

  #key(event) {
    if (around(event, "input") || event.ctrlKey || event.altKey || event.metaKey || event.repeat) return;
    if (!/^[1-9jkx/]$/.test(event.key)) return;
    event.preventDefault();
    this.#do(event.key);
  }

  async #do(key) {
    const row = this.rows[this.place];
    if (!row || !key || this.busy) return;
    if (key === "j" || key === "k") {
      this.place = Math.max(0, Math.min(this.rows.length - 1, this.place + (key === "j" ? 1 : -1)));
      this.#draw();
    } else if (key === "x") await this.#settle(row, null, null);
    else if (key === "/") {
      const found = await this.picker.ask(row.mention, "exact", this.project);
      if (found) await this.#settle(row, found.id, found.relation);
    } else {
      const decision = this.choices[Number(key) - 1]?.decision;
      if (!decision) return;
      // A rejection names no concept, and is no NIL either: it settles nothing.
      if (decision.kind === "reject") this.#say("A rejection does not say what the text means: choose a concept or NIL.");
      else await this.#settle(row, decision.concept_id, decision.concept_id ? decision.relation : null);
    }
  }

  async #settle(row, concept, relation) {
    this.busy = true;
    row.uid ||= crypto.randomUUID();
    const comment = byId("disagreements-comment").value.trim();
    this.#say("Saving …");
    try {
      await this.api.post(path(this.project, "rows", row.id, "adjudicate"), { uid: row.uid, concept_id: concept, seen: row.newest, ...(relation ? { relation } : {}), ...(comment ? { comment } : {}) });
      byId("disagreements-comment").value = "";
      this.rows.splice(this.rows.indexOf(row), 1);
      this.place = Math.min(this.place, Math.max(0, this.rows.length - 1));
      this.#say(`Saved: “${row.mention}” is settled.`);
      this.#draw();
      this.settled(row.id);
    } catch (error) {
      if (error instanceof Conflict) {
        this.busy = false;
        await this.open(this.project);
        this.#say(`“${row.mention}” was decided again in the meantime; check it again.`);
        return;
      }
      row.uid = error instanceof Refused ? null : row.uid;
      this.#say(error instanceof Refused ? `Not saved: ${error.message}.` : `It is unknown whether this was saved: ${error.message}. You can safely choose the same again.`);
    }
    this.busy = false;
  }

  #say(text) {
    byId("disagreements-said").textContent = text;
  }
}

/** What was decided, each meaning once, with those who said it. */
function choices(decisions) {
  const found = new Map();
  for (const decision of decisions || []) {
    const meaning = decision.concept_id ? `${decision.concept_id} ${decision.relation}` : decision.kind;
    const choice = found.get(meaning) || { decision, by: [], comments: [] };
    choice.by.push(decision.reviewer);
    if (decision.comment) choice.comments.push(decision.comment);
    found.set(meaning, choice);
  }
  return [...found.values()];
}
