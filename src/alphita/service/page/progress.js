// How far the project is, and how far its reviewers agree.

import { path } from "./client.js";
import { byId, closable, count, fill, make, percent } from "./dom.js";

const KINDS = {
  accept: "accepted", choose: "another concept", nil: "NIL", reject: "rejected", skip: "skipped", flag: "flagged",
  adjudicate: "settled by adjudication",
};

export class Progress {
  constructor(api) {
    this.api = api;
    this.dialog = closable(byId("progress"));
  }

  async open(project) {
    const body = byId("progress-body");
    fill(body, make("p", { class: "quiet", text: "Counting …" }));
    this.dialog.showModal();
    try {
      const found = await this.api.get(path(project, "progress"));
      fill(body, counted(found), table("Current decisions", "Kind", found.by_kind, KINDS), table("Reviewers", "Reviewer", found.by_reviewer), agreement(found));
    } catch (error) {
      fill(body, make("p", { text: `Not counted: ${error.message}.` }));
    }
  }
}

function bar(name, done, all) {
  return make("div", { class: "bar" }, make("span", { text: `${name}: ${count(done)} of ${count(all)} (${percent(all ? done / all : 0)})` }),
    make("progress", { max: Math.max(1, all), value: done, "aria-label": name }));
}

function counted(found) {
  return make("section", {}, bar("Rows settled", found.decided, found.rows), bar("Occurrences settled", found.decided_occurrences, found.occurrences),
    make("p", { text: `Alphita learned from ${count(found.learned ?? 0)} confirmed phrases when the server started; new decisions count at the next start.` }));
}

function table(title, head, counts, names = {}) {
  const known = Object.entries(counts || {}).filter(([, number]) => number);
  if (!known.length) return null;
  return make("table", {}, make("caption", { text: title }),
    make("thead", {}, make("tr", {}, make("th", { scope: "col", text: head }), make("th", { scope: "col", class: "number", text: "Decisions" }))),
    make("tbody", {}, known.map(([name, number]) => make("tr", {}, make("th", { scope: "row", text: names[name] || name }), make("td", { class: "number", text: count(number) })))));
}

function agreement(found) {
  const text = found.compared
    ? `${count(found.agreed)} of ${count(found.compared)} rows that two or more reviewers have decided agree (${percent(found.agreed / found.compared)}).`
    : "No row has been decided by two reviewers yet.";
  const kappa = found.kappa === null || found.kappa === undefined ? null
    : `Cohen's kappa of ${found.pair?.join(" and ") || "two reviewers"}: ${found.kappa.toFixed(2)} (1: always agree; 0: no more than chance).`;
  const open = found.disagreed?.length ? `${count(found.disagreed.length)} to settle under “Disagreements”.` : null;
  return make("section", {}, make("h3", { text: "Agreement" }), [text, kappa, open].filter(Boolean).map((line) => make("p", { text: line })));
}
