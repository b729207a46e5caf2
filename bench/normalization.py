"""What the normaliser is worth on strings that neither its encoder, its ranker nor its thresholds have seen.

    python bench/normalization.py --index X.index --split S.split -o OUT [--sample mentions.csv] [--foreign names.txt]

X.index is built without the split's strings (`alphita index --exclude-split`) and calibrated (`alphita calibrate`).
Measured on the split's test part: accuracy of every ranking; calibration; what the certified thresholds accept and how
much of it is wrong; how much a plain cosine threshold would accept at the same measured error; NIL, where the names of
a tenth of the concepts are taken away, and on strings of another field. Written to OUT/report.json and printed.
"""

from __future__ import annotations

import argparse
import csv
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from alphita import machine, registry
from alphita.encoder.encoder import TermEncoder
from alphita.evaluation import report
from alphita.evaluation.scoring.ranking import ranking_of
from alphita.index.store import Index
from alphita.normalizer import examples, reliability, risk_coverage
from alphita.normalizer.calibration_store import FOLDER, Calibration
from alphita.normalizer.examples import Examples
from alphita.normalizer.features import languages_of
from alphita.normalizer.held_out import Known, nil_count
from alphita.normalizer.normalizer import RANKINGS, Normalizer
from alphita.normalizer.pipeline import Pipeline
from alphita.normalizer.seen import see
from alphita.terminology.splits import Split

KS = (1, 5)
REMOVED_SHARE = 0.1
EQUAL_ERRORS = (0.01, 0.02, 0.05)
SEED = 7


def accuracies(index: Index, encoder: TermEncoder, mentions: list[str], gold: list[str]) -> dict[str, Any]:
    """Return accuracy@k of every ranking, with the number of mentions."""
    found: dict[str, Any] = {"n": len(mentions)}
    for name in registry.names(RANKINGS):
        ranking = ranking_of(Normalizer(index, encoder=encoder, ranking=name, floor=-1), mentions, max(KS))
        pairs = list(zip(ranking, gold, strict=True))
        found[name] = {f"accuracy@{k}": float(np.mean([one in line[:k] for line, one in pairs])) for k in KS}
    return found


def read_sample(path: Path, index: Index) -> tuple[list[str], list[str]]:
    """Return the mentions of a table that name a concept, and their concepts by the index's own ids."""
    with open(path, encoding="utf-8-sig", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["concept_id"] != "NIL"]
    return [row["mention"] for row in rows], own_ids(index, [row["concept_id"] for row in rows])


def own_ids(index: Index, ids: list[str]) -> list[str]:
    """Return the index's ids of concepts that may be named by another id of theirs; those that it lacks stay."""
    return [
        index.concept(row).id if row >= 0 else one
        for one, row in zip(ids, index.concept_rows(ids).tolist(), strict=True)
    ]


class Answered:
    """Examples and what the calibrated normaliser says of them."""

    def __init__(self, pipeline: Pipeline, calibration: Calibration, some: examples.Examples) -> None:
        """Answer `some`."""
        seen = see(pipeline, some)
        self.examples, self.table = seen.examples, seen.table
        answers = calibration(seen.table, seen.features, languages_of(pipeline.index.segment))
        self.confidence, self.nil = answers.confidence, answers.nil > calibration.nil_threshold
        self.right = seen.is_right(answers)
        # The plain rule beside it: the nearest string, and its cosine.
        n = len(self.right)
        best = np.zeros(n, np.int64)
        order = np.lexsort((seen.table.cosine, seen.table.request))
        best[seen.table.request[order]] = order
        self.cosine = np.where(answers.top >= 0, seen.table.cosine[best], -1.0)
        self.cosine_right = (answers.top >= 0) & seen.training.right[best]


def accepted(answered: Answered, calibration: Calibration) -> dict[str, Any]:
    """Return what each certified threshold accepts, and how much of it is wrong."""
    found: dict[str, Any] = {}
    for error, threshold in calibration.accept.items():
        if threshold is None:
            found[f"{error:g}"] = None
            continue
        kept = (answered.confidence >= threshold) & ~answered.nil
        wrong = int((kept & ~answered.right).sum())
        found[f"{error:g}"] = {
            "threshold": threshold, "accepted": float(kept.mean()), "n": int(kept.sum()), "wrong": wrong,
            "error": wrong / max(1, int(kept.sum())),
        }  # fmt: skip
    return found


def at_equal_error(answered: Answered) -> dict[str, Any]:
    """Return the share that confidence and plain cosine accept at the same measured error."""
    confidence = np.where(answered.nil, 0.0, answered.confidence)
    return {
        f"{error:g}": {
            "confidence": risk_coverage.coverage_at_error(confidence, answered.right, error),
            "cosine": risk_coverage.coverage_at_error(answered.cosine, answered.cosine_right, error),
        }
        for error in EQUAL_ERRORS
    }


def nil_figures(
    index: Index, pipeline: Pipeline, calibration: Calibration, known: Known, foreign: list[str]
) -> dict[str, Any]:
    """Take away a tenth of the concepts with all their names, and ask for held-out strings and names of both kinds."""
    random = np.random.default_rng(SEED)
    gone = np.zeros(len(index.segment.concepts), bool)
    gone[random.permutation(len(gone))[: round(REMOVED_SHARE * len(gone))]] = True
    own, concepts = examples.own_synonyms(index, seed=SEED)
    found: dict[str, Any] = {"threshold": calibration.nil_threshold, "concepts_removed": int(gone.sum())}
    sets = {"held-out strings": (known.strings, known.concepts), "names, as they are": (own, concepts)}
    for name, (strings, rows) in sets.items():
        parts: dict[str, NDArray[np.bool_]] = {}
        for kind, chosen in (("removed", gone[rows]), ("kept", ~gone[rows])):
            places = np.flatnonzero(chosen)
            some = [strings[place] for place in places.tolist()]
            # Removing a concept is hiding it from its own mentions; other mentions may still come near what is kept.
            made = examples.removed(some, rows[places]) if kind == "removed" else None
            if made is None:
                held = name == "held-out strings"
                made = examples.synonyms(index, some, rows[places]) if held else examples.itself(some, rows[places])
            parts[kind] = Answered(pipeline, calibration, made).nil
        found[name] = {
            "of removed concepts": len(parts["removed"]), "recognised": float(parts["removed"].mean()),
            "of others": len(parts["kept"]), "lost": float(parts["kept"].mean()),
        }  # fmt: skip
    if foreign:
        nothing = np.full(len(foreign), -1)
        others = examples.Examples(foreign, nothing, nothing, nothing, [examples.FOREIGN] * len(foreign))
        nil = Answered(pipeline, calibration, others).nil
        found["strings of another field"] = {"n": len(foreign), "recognised": float(nil.mean())}
    return found


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    """Measure everything."""
    index, split = Index.open(arguments.index), Split.load(arguments.split)
    encoder = TermEncoder.load(str(index.model_path), threads=arguments.threads)
    calibration = Calibration.load(index.path / FOLDER, index)
    pipeline = Pipeline(
        index, lambda: encoder, calibration.abbreviations, respell=True, definitions=calibration.definitions
    )
    test = split.part("test")
    rows = index.concept_rows(test.concept_ids)
    kept = np.flatnonzero(rows >= 0)
    known = Known([test.strings[row] for row in kept.tolist()], rows[kept], "the split's test part")
    figures: dict[str, Any] = {
        "test": accuracies(
            index, encoder, known.strings, own_ids(index, [test.concept_ids[row] for row in kept.tolist()])
        )
    }
    if arguments.sample is not None:
        figures["sample"] = accuracies(index, encoder, *read_sample(arguments.sample, index))
    answered = Answered(pipeline, calibration, _population(index, known))
    alone = Answered(pipeline, calibration, examples.synonyms(index, known.strings, known.concepts))
    for name, one in (("population", answered), ("held-out strings alone", alone)):
        figures[name] = {
            "n": len(one.right), "calibration": reliability.figures(one.confidence, one.right),
            "accepted": accepted(one, calibration), "coverage at equal measured error": at_equal_error(one),
        }  # fmt: skip
    foreign = []
    if arguments.foreign is not None:
        foreign = [line.strip() for line in arguments.foreign.read_text(encoding="utf-8").splitlines() if line.strip()]
    figures["nil"] = nil_figures(index, pipeline, calibration, known, foreign)
    return figures


def _population(index: Index, known: Known) -> Examples:
    """Return held-out strings as they are, and a share of mentions that name nothing."""
    count = nil_count(len(known.strings))
    gone = known.take(np.random.default_rng(SEED).permutation(len(known.strings))[:count])
    return examples.join([
        examples.synonyms(index, known.strings, known.concepts), examples.removed(gone.strings, gone.concepts),
        examples.foreign(index, count, seed=SEED),
    ])  # fmt: skip


def main() -> None:
    """Measure and write the report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--index", type=Path, required=True)
    parser.add_argument("--split", type=Path, required=True)
    parser.add_argument("--sample", type=Path, help="a table with the columns mention and concept_id")
    parser.add_argument("--foreign", type=Path, help="strings that name nothing in the index, one a line")
    parser.add_argument("--threads", type=int, default=None)
    parser.add_argument("--output", "-o", type=Path, required=True)
    arguments = parser.parse_args()
    machine.set_threads(arguments.threads)
    figures = run(arguments)
    index = Index.open(arguments.index)
    data = {"index": index.content_hash, "split": Split.load(arguments.split).hash}
    data |= {
        name: index.manifest[name] for name in ("terminology_hash", "model_hash", "sources") if name in index.manifest
    }
    origin = report.provenance(config={"removed_share": REMOVED_SHARE}, seed=SEED, data=data)
    arguments.output.mkdir(parents=True, exist_ok=True)
    report.write(arguments.output / "report.json", figures, provenance=origin)
    show(figures)


def show(figures: dict[str, Any]) -> None:
    """Print the figures."""
    for name in ("test", "sample"):
        if name in figures:
            print(f"{name} ({figures[name]['n']:,} mentions)")
            for ranking in registry.names(RANKINGS):
                one = figures[name][ranking]
                print(f"  {ranking:10}" + "".join(f"  @{k} {one[f'accuracy@{k}']:6.1%}" for k in KS))
    for name in ("population", "held-out strings alone"):
        one = figures[name]
        shown = {key: round(value["value"], 4) for key, value in one["calibration"].items() if isinstance(value, dict)}
        print(f"{name} ({one['n']:,}): {shown}")
        for error, row in one["accepted"].items():
            if row is None:
                print(f"  allowed {error}: cannot certify")
                continue
            print(f"  allowed {error}: accepted {row['accepted']:.1%}, {row['wrong']} of {row['n']} wrong")
        for error, row in one["coverage at equal measured error"].items():
            print(f"  at {error} measured error: confidence {row['confidence']:.1%}, cosine {row['cosine']:.1%}")
    for name, row in figures["nil"].items():
        if isinstance(row, dict):
            print(f"NIL, {name}: " + ", ".join(f"{key} {value:.1%}" if isinstance(value, float) else f"{key} {value:,}"
                                               for key, value in row.items()))  # fmt: skip


if __name__ == "__main__":
    main()
