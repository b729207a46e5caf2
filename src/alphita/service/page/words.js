// How decisions read.

export const RELATIONS = { exact: "means", broad: "is broader", narrow: "is narrower", related: "is related" };
const KINDS = {
  accept: "accepted", choose: "chosen", nil: "NIL: no concept fits", reject: "rejected", skip: "skipped",
  flag: "flagged", undo: "undone", adjudicate: "settled",
};

/** What a decision says, in one line; `names` gives the names of concepts by id, where they are known. */
export function says(decision, names = new Map()) {
  if (decision.kind === "adjudicate" && !decision.concept_id) return "settled: NIL, no concept fits";
  const word = KINDS[decision.kind] || decision.kind;
  if (!decision.concept_id) return word;
  const ids = decision.concept_id.split("|");
  const given = (decision.concept_name || "").split(" | ");
  const called = ids.map((/** @type {string} */ id, /** @type {number} */ place) => {
    const name = given.length === ids.length && given[place] ? given[place] : names.get(id);
    return name ? `${name} (${id})` : id;
  });
  const relation = decision.relation && decision.relation !== "exact" ? `, which ${RELATIONS[decision.relation]}` : "";
  return `${word} ${called.join(" and ")}${relation}`;
}

/** @type {Record<string, string[]>} */
const STANDARD = { S: ["S", "Standard concept"], C: ["C", "Classification concept, not for mapping"], "": ["non-standard", "Not a standard concept of OMOP"] };

/**
 * The mark of a concept in OMOP, and what it means.
 *
 * @param {{standard_concept: string}} omop
 */
export const standardMark = (omop) => STANDARD[omop.standard_concept] || STANDARD[""];

/**
 * A concept's id, domain, vocabulary and class in OMOP.
 *
 * @param {Record<string, any>} omop
 */
export const omopLine = (omop) => [omop.omop_concept_id, omop.domain_id, omop.vocabulary_id, omop.concept_class_id].filter(Boolean).join(" · ");

/** Whether a decision says what its row means, so that the row is no longer open to whoever took it. */
export const isFinal = (decision) => Boolean(decision) && ["accept", "choose", "nil", "reject", "adjudicate"].includes(decision.kind);

/** A time of the store, as the reader's clock has it. */
export function when(at) {
  const time = new Date(at);
  return Number.isNaN(time.valueOf()) ? "" : time.toLocaleString([], { dateStyle: "medium", timeStyle: "short" });
}
