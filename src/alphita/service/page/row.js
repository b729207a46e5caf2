// The row in hand: what was written, where, and which concepts it may mean.

import { byId, count, fill, make, percent } from "./dom.js";
import { RELATIONS, omopLine, says, standardMark, when } from "./words.js";

/** Show a row. `detail` is null until the server has sent it; then what the list knows is shown. */
export function showRow(row, detail, { blind, more, relation, draft, mark, finished }) {
  const hand = byId("hand");
  hand.dataset.candidates = row ? (detail ? "shown" : "awaited") : "none";
  if (!row) {
    fill(hand, make("p", { class: "nothing", text: "No rows. Change the filters, or import a file under “Files”." }));
    return;
  }
  const candidates = detail?.candidates || (row.answer ? [row.answer] : []);
  const names = new Map(candidates.map((one) => [one.concept_id, one.concept_name]));
  const decisions = detail?.decisions || (row.mine ? [row.mine] : []);
  fill(hand,
    make("div", { class: "about" },
      make("h2", { class: "mention", tabindex: "-1", id: "hand-mention", text: row.mention }),
      make("p", { class: "facts" },
        row.code ? make("span", {}, "code ", make("b", { text: row.code })) : null,
        make("span", {}, "occurs ", make("b", { text: count(row.frequency ?? 1) }), row.frequency === 1 ? " time" : " times"),
        make("span", { class: "quiet", text: `row ${count(row.number)}` }),
        row.state === "disagreed" ? make("span", { class: "tag bad", text: "reviewers disagree" }) : null,
        mark ? make("span", { class: "tag", text: mark }) : null)),
    finished ? make("p", { class: "relation", role: "status", text: "That was the last open row of this list." }) : null,
    context(row.context),
    relation ? make("p", { class: "relation", role: "status" },
      `The concept ${relation === "exact" ? "means exactly this" : RELATIONS[relation]}: `, make("kbd", { text: "1" }), " to ", make("kbd", { text: "9" }), " or ",
      make("kbd", { text: "Enter" }), " for a candidate, ", make("kbd", { text: "/" }), " for another, ", make("kbd", { text: "Esc" }), " for neither.") : null,
    draft ? make("p", { class: "draft" }, make("b", { text: "Comment, not saved yet: " }), draft) : null,
    detail ? null : make("p", { class: "quiet", text: "Loading the candidates …" }),
    make("ol", { class: `candidates${more ? " more" : ""}`, "aria-label": "Candidates" },
      candidates.map((one, place) => card(one, place + 1, decisions))),
    decisions.length ? make("section", { class: "decisions", "aria-label": "Decisions so far" },
      make("h3", { text: "Decisions so far" }),
      make("ul", {}, decisions.map((one) => decided(one, names)))) : null,
    blind ? make("p", { class: "quiet", text: "In this project, reviewers do not see each other's decisions until a row is settled." }) : null);
}

function context(columns) {
  const known = Object.entries(columns || {}).filter(([, value]) => value);
  if (!known.length) return null;
  return make("dl", { class: "context", "aria-label": "Context" },
    known.map(([name, value]) => make("div", {}, make("dt", { text: name }), make("dd", { text: value }))));
}

function card(one, number, decisions) {
  if (!one.concept_id) {
    return make("li", { class: "card nil" },
      make("div", { class: "head" }, take(number, "NIL"), make("h3", { text: "NIL: no concept fits" }), sure(one)),
      one.matched_term ? make("p", { class: "quiet", text: `Nearest, but too dissimilar: “${one.matched_term}”` }) : null,
      one.explanation ? make("p", { class: "why", text: one.explanation }) : null);
  }
  const synonyms = texts(one.synonyms).filter((text) => text !== one.concept_name);
  const taken = decisions.some((decision) => decision.concept_id?.split("|").includes(one.concept_id));
  return make("li", { class: `card${taken ? " taken" : ""}` },
    make("div", { class: "head" },
      take(number, one.concept_name || one.concept_id),
      make("h3", { text: one.concept_name || one.concept_id }),
      make("code", { text: one.concept_id }),
      one.retired_concept ? make("span", { class: "tag", text: `instead of ${one.retired_concept}` }) : null,
      one.relation && one.relation !== "exact" ? make("span", { class: "tag", text: RELATIONS[one.relation] }) : null,
      taken ? make("span", { class: "tag good", text: "decided" }) : null,
      sure(one)),
    omop(one.omop),
    contradictions(one),
    one.maps_to?.length ? make("p", { class: "warning" }, "Not standard. OMOP maps it to ", make("b", { text: texts(one.maps_to).join(" and ") }),
      "; when you take it, you can choose.") : null,
    one.matched_term ? make("p", { class: "matched" }, make("span", { class: "quiet", text: "by " }), make("q", { text: one.matched_term }),
      one.expansion ? ` read as “${one.expansion}”` : null,
      one.language && one.language !== "en" ? ` (${one.language})` : null) : null,
    one.definition ? make("p", { class: "definition", text: one.definition }) : null,
    facts([
      ["Parents", texts(one.parents).join("; ")],
      ["Synonyms", synonyms.join("; ")],
      ["Types", one.omop ? "" : texts(one.types).join("; ")],
      ["Other concepts with this name", (one.homonyms || "").replaceAll("|", ", ")],
    ]),
    one.explanation ? make("p", { class: "why", text: one.explanation }) : null);
}

/**
 * What OMOP says of a concept: its mark, id, domain, vocabulary and class; nothing of another concept.
 *
 * @param {any} facts
 */
export function omop(facts) {
  if (!facts) return null;
  const [mark, meaning] = standardMark(facts);
  return make("span", { class: "omop" }, make("abbr", { class: `tag${mark === "S" ? " good" : ""}`, title: meaning, text: mark }),
    make("span", { class: "quiet", text: ` OMOP ${omopLine(facts)}` }));
}

function take(number, name) {
  return make("button", { type: "button", class: "take", data: { candidate: number }, "aria-label": `Take candidate ${number}: ${name}`, text: String(number) });
}

function sure(one) {
  const parts = [];
  if (one.similarity !== null && one.similarity !== undefined) parts.push(meter("similarity", one.similarity, one.similarity.toFixed(2)));
  if (one.confidence !== null && one.confidence !== undefined) parts.push(meter("confidence", one.confidence, percent(one.confidence)));
  return make("span", { class: "sure" }, parts);
}

function meter(name, value, text) {
  return make("span", { class: `meter ${name}` }, `${name} `, make("b", { text }),
    make("meter", { min: 0, max: 1, value: Math.max(0, value), "aria-label": `${name} ${text}` }));
}

function contradictions(one) {
  const known = (one.contradictions || "").split("|").filter(Boolean);
  return known.length ? make("p", { class: "warning" }, make("span", { "aria-hidden": "true", text: "⚠ " }), make("b", { text: "Contradiction: " }), known.join("; ")) : null;
}

/** Names of parents, synonyms or types, whichever way they are given. */
export function texts(many) {
  return (many || []).map((one) => (typeof one === "string" ? one : one.name || one.string || one.id));
}

/** A list of name and value, without the empty ones. */
export function facts(pairs) {
  const known = pairs.filter(([, value]) => value);
  return known.length ? make("dl", { class: "facts" }, known.map(([name, value]) => make("div", {}, make("dt", { text: name }), make("dd", { text: value })))) : null;
}

function decided(decision, names) {
  return make("li", {},
    make("b", { text: decision.reviewer }), `: ${says(decision, names)}`,
    decision.bulk ? " (in bulk)" : null,
    decision.at ? make("time", { class: "quiet", datetime: decision.at, text: ` ${when(decision.at)}` }) : null,
    decision.comment ? make("q", { class: "comment", text: decision.comment }) : null);
}
