"""Learning from decisions: accepted mentions become synonyms, wrong candidates hard negatives, all of them labels.

Final decisions are sorted from oldest to newest, and the newest fifth is held out: the gain is measured on decisions
that are newer than those in training.
"""

from __future__ import annotations

import csv
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import polars as pl

from alphita import artefact, drafts, progress, textio
from alphita.answer.normalizer import Normalizer
from alphita.calibrate.examples import Label
from alphita.errors import InputError, counted
from alphita.index.choice import REVIEWED, Building, ConfirmedName
from alphita.index.encoding import Encoder
from alphita.index.store import build
from alphita.review.migrate import REVIEWER
from alphita.review.records import FINAL, Decision, ReviewRow, Standing
from alphita.terminology import reading
from alphita.terminology.model import save
from alphita.terminology.store import Terminology, load_terminology
from alphita.terminology.text import clean

if TYPE_CHECKING:
    from alphita.review.store import ReviewStore

HELD_OUT = 0.2
# Minimum number of decisions.
LEAST = 20
KS = (1, 5)
SEVERAL_THINGS = "means several things"
# Columns of a table of triples, in the format of scored sentences: a premise, an entailed and a contradicted sentence.
TRIPLE_COLUMNS = ("premise", "entailed", "contradicted")
# Relation of the concept to the mention -> relation of the mention, as a term, to the concept.
SCOPES = {"exact": "exact", "broad": "narrow", "narrow": "broad", "related": "related"}


@dataclass(frozen=True, slots=True)
class Reviewed:
    """A mention with a final decision.

    Attributes:
        concept_id: CURIE; None: no concept fits, or (if `label` is False) the right one is unknown.
        relation: the relation of the concept to the mention.
        wrong: matched terms of candidates that reviewers skipped or rejected.
        language: the language of the matched term; None if the concept was not among the candidates.
    """

    mention: str
    concept_id: str | None
    relation: str | None
    wrong: tuple[str, ...]
    language: str | None
    decision: int
    label: bool


class InTime(NamedTuple):
    """Decisions for training, later ones for measuring, and counts of those left out."""

    learned: list[Reviewed]
    held_out: list[Reviewed]
    left_out: dict[str, int]


class TrainingInput(NamedTuple):
    """Training input of a recipe: the terminology, the file of hard negatives, and the decisions, also as counts."""

    terminology: Terminology
    hard_negatives: Path
    decisions: InTime
    counts: dict[str, Any]


def in_time(store: ReviewStore, *, share: float = HELD_OUT) -> InTime:
    """Read the final decisions, and hold out the newest."""
    reviewed, left_out = _settled(store)
    if len(reviewed) < LEAST:
        raise InputError(
            f"{counted(len(reviewed), 'mention')} settled by a person; at least {LEAST} are needed to learn from",
            file=getattr(store, "path", None),
            remedy="review more first",
        )
    first = len(reviewed) - round(share * len(reviewed))
    return InTime(
        reviewed[:first],
        [mention for mention in reviewed[first:] if mention.label],
        {k: n for k, n in left_out.items() if n},
    )


def confirmed(
    store: ReviewStore, *, source: str | None = None, project: str | None = None
) -> tuple[ConfirmedName, ...]:
    """Return the phrases that a person settled individually, of a source and project (None: any), for an index."""
    reviewed, left_out = _settled(store, source, project)
    if contradictory := left_out[SEVERAL_THINGS]:
        progress.say(
            f"{store.name}: {counted(contradictory, 'row')} with the string of another row and another concept; "
            "the newest decision answers, and none of them is learned"
        )
    return tuple(
        sorted(
            ConfirmedName(mention.concept_id, mention.mention, SCOPES[mention.relation or "exact"], mention.language)
            for mention in reviewed
            if mention.concept_id is not None
        )
    )


def _settled(
    store: ReviewStore, source: str | None = None, project: str | None = None
) -> tuple[list[Reviewed], Counter[str]]:
    """Return the mentions that a person settled, from the oldest decision to the newest, and counts of the others."""
    left_out: Counter[str] = Counter()
    by_mention: dict[str, list[Reviewed]] = {}
    for known in store.projects():
        if source not in (None, known.source) or project not in (None, known.name):
            continue
        for standing in store.every(known.name, state="decided"):
            settling = _settling(standing)
            if settling is None:
                continue
            if _in_bulk(store, settling):
                left_out["accepted in bulk"] += 1
                continue
            mention = _reviewed(standing.row, settling)
            by_mention.setdefault(clean(mention.mention), []).append(mention)
    reviewed = []
    for same in by_mention.values():
        if len({mention.concept_id for mention in same if mention.label}) > 1:
            left_out[SEVERAL_THINGS] += len(same)
        else:
            newest = max(same, key=lambda one: (one.label, one.decision))
            left_out["the same mention"] += len(same) - 1
            reviewed.append(newest)
    return sorted(reviewed, key=lambda one: one.decision), left_out


def overlay(base: Terminology, learned: Sequence[Reviewed], out: Path, *, force: bool = False) -> dict[str, int]:
    """Write the terminology with the accepted mentions as synonyms of their concepts, of the source "REVIEWED"."""
    named = [mention for mention in learned if mention.concept_id is not None]
    rows = reading.rows_of(base, [str(mention.concept_id) for mention in named])
    tables = reading.tables_of(base)
    usual = tables.terms["language"].cast(pl.String).mode().sort()[0]
    counts: Counter[str] = Counter(added=0)
    added = []
    for mention in named:
        row = rows.get(str(mention.concept_id))
        if row is None or base.retired[row]:
            counts["of a concept that this terminology has not, or has retired"] += 1
        elif clean(mention.mention) in {clean(term.string) for term in base.concept(row).terms}:
            counts["a term of its concept already"] += 1
        else:
            counts["added"] += 1
            added.append(
                {
                    "concept": row,
                    "string": mention.mention,
                    "language": mention.language or usual,
                    "preferred": False,
                    "scope": SCOPES[mention.relation or "exact"],
                    "status": "candidate",
                    "source": REVIEWED,
                }
            )
    if not added:
        raise InputError(
            "no accepted mention is new to this terminology", file=base.path, remedy="is it the one that was reviewed?"
        )
    tables.terms = reading.added(tables.terms, pl.DataFrame(added))
    source = {"name": REVIEWED, "version": artefact.hash_json(sorted(term["string"] for term in added))[:12]}
    save(tables, out, sources=[*tables.sources, source], config={"base": base.content_hash}, force=force)
    return dict(counts)


def hard_negatives(
    base: Terminology, learned: Sequence[Reviewed], out: Path, exclude: frozenset[str] = frozenset()
) -> int:
    """Write triples of a mention, its concept's name and the term of a wrong candidate; return how many."""
    rows = reading.rows_of(base, [mention.concept_id for mention in learned if mention.concept_id is not None])
    count = 0
    with artefact.atomic_file(out, "w", private=True, newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(TRIPLE_COLUMNS)
        for mention in learned:
            if mention.relation != "exact" or mention.concept_id not in rows:
                continue
            concept = base.concept(rows[mention.concept_id])
            names = {clean(term.string) for term in concept.terms} | {clean(mention.mention)}
            wrong = [term for term in dict.fromkeys(mention.wrong) if clean(term) not in names]
            triples = [(mention.mention, concept.name, term) for term in wrong]
            kept = [cells for cells in triples if not exclude & {clean(cell) for cell in cells}]
            writer.writerows(kept)
            count += len(kept)
    return count


def labels(reviewed: Sequence[Reviewed]) -> list[Label]:
    """Return mentions with their concepts, in the form that `fitting.fit` expects."""
    return [Label(mention.mention, mention.concept_id) for mention in reviewed if mention.label]


def found_nearest(terminology: Terminology, encoder: Encoder, held_out: Sequence[Reviewed]) -> dict[str, float]:
    """Return how often the nearest concepts, by vectors only, include the right one: n and accuracy@k."""
    named = [mention for mention in held_out if mention.concept_id is not None]
    if not named:
        return {"n": 0.0}
    with drafts.scratch() as folder:
        index = build(terminology, encoder, folder / "x.index", how=Building(letters=False))
        normalizer = Normalizer(index, encoder=encoder, ranking="vectors", floor=-1.0)
        results = normalizer.normalize([mention.mention for mention in named], top_k=max(KS))
        gold = index.concept_rows([str(mention.concept_id) for mention in named])
        ids = [index.segment.concepts.column("id")[row].as_py() if row >= 0 else None for row in gold.tolist()]
    shown = [[candidate.concept_id for candidate in result.candidates] for result in results]
    return {"n": float(len(named))} | {
        f"accuracy@{k}": float(np.mean([right in line[:k] for line, right in zip(shown, ids, strict=True)])) for k in KS
    }


def found_right(normalizer: Normalizer, held_out: Sequence[Reviewed]) -> dict[str, float]:
    """Return a normaliser's figures: n, accuracy and, with a calibration, the quality of its confidence."""
    if not held_out:
        return {"n": 0.0}
    results = normalizer.normalize([mention.mention for mention in held_out])
    rows = normalizer.index.concept_rows([mention.concept_id or "" for mention in held_out])
    ids = normalizer.index.segment.concepts.column("id")
    gold = [
        ids[row].as_py() if row >= 0 else entry.concept_id for row, entry in zip(rows.tolist(), held_out, strict=True)
    ]
    right = np.array([result.concept_id == entry for result, entry in zip(results, gold, strict=True)], np.float64)
    figures = {"n": float(len(held_out)), "accuracy": float(right.mean())}
    if normalizer.calibration is not None:
        confidence = np.array([result.confidence or 0.0 for result in results])
        sure = np.clip(confidence, 1e-6, 1 - 1e-6)
        figures["brier"] = float(((confidence - right) ** 2).mean())
        figures["log_loss"] = float(-(right * np.log(sure) + (1 - right) * np.log(1 - sure)).mean())
        figures["confidence"] = float(confidence.mean())
    return figures


def training_input(
    base: Terminology,
    decisions: InTime,
    out: Path,
    *,
    exclude: frozenset[str] = frozenset(),
    force: bool = False,
    resume: bool = False,
) -> TrainingInput:
    """Write the training input of a recipe next to the model: OUT.terminology and OUT.hard_negatives.csv."""
    folder, triples, kept = (
        out.with_name(f"{out.name}.{kind}") for kind in ("terminology", "hard_negatives.csv", "decisions.json")
    )
    if resume and folder.exists() and triples.exists() and kept.exists():
        return TrainingInput(load_terminology(folder), triples, *_kept(kept))
    # Written last: if it exists, the other files are of the same decisions.
    kept.unlink(missing_ok=True)
    counts: dict[str, Any] = {
        "learned": len(decisions.learned),
        "held_out": len(decisions.held_out),
        "left_out": decisions.left_out,
        "synonyms": overlay(base, decisions.learned, folder, force=force or resume),
        "hard_negatives": hard_negatives(base, decisions.learned, triples, exclude),
    }
    with artefact.atomic_file(kept, "w", private=True) as file:
        json.dump({"counts": counts, **decisions._asdict()}, file, default=asdict)
    return TrainingInput(load_terminology(folder), triples, decisions, counts)


def _kept(path: Path) -> tuple[InTime, dict[str, Any]]:
    """Read the files that `training_input` wrote."""
    try:
        content = textio.json_file(path)
        learned, held_out = (
            [Reviewed(**fields | {"wrong": tuple(fields["wrong"])}) for fields in content[key]]
            for key in ("learned", "held_out")
        )
        return InTime(learned, held_out, content["left_out"]), content["counts"]
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(
            f"is damaged ({type(error).__name__}: {error})", file=path, remedy="start again with --force"
        ) from None


def _settling(standing: Standing) -> Decision | None:
    """Return a row's final decision: an adjudication, else the newest individual one, else the newest bulk one."""
    final = [decision for decision in standing.decisions if decision.kind in FINAL]
    if not standing.settled or not final:
        return None
    return max(final, key=lambda one: (one.kind == "adjudicate", not one.bulk, one.id))


def _in_bulk(store: ReviewStore, decision: Decision) -> bool:
    """Return whether nobody reviewed the row individually; a migrated decision counts like the one before it."""
    while decision.bulk.startswith(f"{REVIEWER}:"):
        before = [
            decision_before
            for decision_before in store.history(decision.project, decision.row, decision.reviewer)
            if decision_before.id < decision.id
        ]
        final = [decision for decision in before if decision.kind in FINAL]
        if not final:
            return False
        decision = final[-1]
    return bool(decision.bulk)


def _reviewed(row: ReviewRow, decision: Decision) -> Reviewed:
    means = decision.kind != "reject"
    concept = decision.concept_id if means else None
    chosen = next(
        (candidate for candidate in row.candidates if concept is not None and candidate.concept_id == concept), None
    )
    # Candidates above the right one were skipped. If it was not shown, only the answer was certainly seen.
    above = [candidate for candidate in row.candidates if candidate.concept_id != concept and candidate.matched_term]
    wrong = [candidate for candidate in above if candidate.rank < chosen.rank] if chosen is not None else above[:1]
    return Reviewed(
        row.mention,
        concept,
        (decision.relation or "exact") if concept is not None else None,
        tuple(str(candidate.matched_term) for candidate in wrong),
        chosen.language if chosen is not None else None,
        decision.id,
        means,
    )
