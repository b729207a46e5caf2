"""Mentions found in the abstracts of HPO GSC+: precision, recall and calibration, beside FastHPOCR.

    python bench/annotate.py GSC_FOLDER --index hpo.index --part development --wrong
    python bench/annotate.py GSC_FOLDER --index hpo.index --part reported --peer VENV/bin/python

GSC_FOLDER holds `corpus` and `ann`. The first 60 abstracts by file name are the development part, on which choices are
made; the others are reported. An id of the gold standard is looked up with its alternative ids; what is gone is left
out. *Document*: the distinct concepts of each abstract; *mention*: start, end and concept. *Phenotypes*: only concepts
below "Phenotypic abnormality", in gold and answers. A confidence is right if its concept is in the abstract's gold;
cross-validated, a logistic curve over its log-odds is fitted on four fifths of the abstracts. `--peer` runs FastHPOCR
in an environment of its own, on the packaged HPO.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

import harness
from alphita.annotation.annotator import Annotator, Settings
from alphita.annotation.spans import Annotated, Document
from alphita.answer.normalizer import Normalizer
from alphita.calibrate.reliability import expected_calibration_error
from alphita.index.store import Index
from alphita.terminology.detect import find_packaged

PEER = Path(__file__).parent / "peers" / "run_fasthpocr.py"
LINE = re.compile(r"\[(\d+)::(\d+)\]\s+(HP_\d+) \|")
ABNORMALITY = "HP:0000118"
DEVELOPMENT, FOLDS, BINS = 60, 5, 10
HEAD = "| gold | system | document precision | recall | F1 | mention precision | recall | F1 |\n" + 8 * "|---" + "|"


class Mention(NamedTuple):
    """Where a concept is mentioned: start and end in characters."""

    start: int
    end: int
    concept: str


class Text(NamedTuple):
    """An abstract, its name, and the mentions of the gold standard."""

    name: str
    text: str
    gold: list[Mention]


def load(folder: Path, index: Index, part: str) -> list[Text]:
    """Read a part of the corpus, its ids as the index has them."""
    names = sorted(file.name for file in (folder / "corpus").iterdir())
    texts = []
    for name in names[:DEVELOPMENT] if part == "development" else names[DEVELOPMENT:]:
        lines = [LINE.match(line) for line in (folder / "ann" / name).read_text(encoding="utf-8").splitlines()]
        given = [(int(line[1]), int(line[2]), line[3].replace("_", ":")) for line in lines if line]
        texts.append(Text(name, (folder / "corpus" / name).read_text(encoding="utf-8"), current(given, index)))
    return texts


def current(given: Sequence[tuple[int, int, str]], index: Index) -> list[Mention]:
    """Return mentions with the ids that the index has now, without those whose concept is gone."""
    rows = index.concept_rows([concept for _, _, concept in given]).tolist() if given else []
    return [
        Mention(start, end, index.concept(row).id) for (start, end, _), row in zip(given, rows, strict=True) if row >= 0
    ]


def rates(
    gold: Sequence[Collection[Mention]], answers: Sequence[Collection[Mention]], within: Collection[str] | None = None
) -> list[float]:
    """Return precision, recall and F1 of documents, then of mentions, in percent; `within`: of these concepts only."""
    figures: list[float] = []
    for size in (1, 3):
        right = given = wanted = 0
        for truth, said in zip(gold, answers, strict=True):
            true, claimed = (
                {one[-size:] for one in some if within is None or one.concept in within} for some in (truth, said)
            )
            right, given, wanted = right + len(true & claimed), given + len(claimed), wanted + len(true)
        figures += [right / max(given, 1), right / max(wanted, 1), 2 * right / max(given + wanted, 1)]
    return [round(100 * figure, 1) for figure in figures]


def of_peer(texts: Sequence[Text], python: str, index: Index) -> list[list[Mention]]:
    """Return what FastHPOCR finds."""
    command = [python, str(PEER), str(find_packaged("hpo"))]
    given = json.dumps([text.text for text in texts])
    run = subprocess.run(command, input=given, stdout=subprocess.PIPE, text=True, check=True)
    return [current([(start, end, concept) for start, end, concept in some], index) for some in json.loads(run.stdout)]


def calibration(texts: Sequence[Text], annotated: Sequence[Annotated]) -> dict[str, float]:
    """Return the errors of the confidences, as they are and cross-validated, and what the accepted ones are worth."""
    from sklearn.linear_model import LogisticRegression

    found = [
        (number % FOLDS, one.confidence, one.concept_id in {mention.concept for mention in text.gold}, one.decision)
        for number, (text, answer) in enumerate(zip(texts, annotated, strict=True))
        for one in answer.annotations
        if one.confidence is not None
    ]
    if not found:
        return {}
    fold, confidence, right, decision = (np.array(column) for column in zip(*found, strict=True))
    odds = np.log(confidence / (1 - confidence))[:, None]
    fitted = np.zeros(len(found))
    for number in np.unique(fold):
        held = fold == number
        fitted[held] = LogisticRegression().fit(odds[~held], right[~held]).predict_proba(odds[held])[:, 1]
    whole = LogisticRegression().fit(odds, right)
    return {
        "mentions": len(found),
        "calibration_error": expected_calibration_error(confidence, right, BINS, equal="width"),
        "calibration_error_cross_validated": expected_calibration_error(fitted, right, BINS, equal="width"),
        "slope_that_fits": float(whole.coef_[0, 0]),
        "intercept_that_fits": float(whole.intercept_[0]),
        "accepted": int((decision == "accept").sum()),
        "accepted_precision": float(right[decision == "accept"].mean()),
    }


def wrong(text: Text, answers: Sequence[Mention], index: Index, within: Collection[str]) -> list[str]:
    """Return the phenotypes that are missed and those that are too many, one a line, with what the text says there."""
    sides = (("missed", text.gold, answers), ("too many", answers, text.gold))
    lines = []
    for kind, some, others in sides:
        for concept, (start, end, _) in {one.concept: one for one in reversed(some) if one.concept in within}.items():
            if concept not in {other.concept for other in others}:
                name = index.concept(int(index.concept_rows([concept])[0])).name
                words = [text.text[one.start : one.end] for one in others if one.start < end and start < one.end]
                around = text.text[max(start - 30, 0) : end + 30].replace("\n", " ")
                lines.append(f"{kind}\t{text.name}\t{name}\t{text.text[start:end]}\t{around}\t{words}")
    return lines


def main() -> None:
    """Annotate, score, print, and with --output write."""
    parser = harness.parser(__doc__)
    parser.add_argument("corpus", type=Path, metavar="GSC_FOLDER")
    parser.add_argument("--index", type=Path, required=True, help="of HPO, from `alphita index hpo`")
    parser.add_argument("--part", choices=["development", "reported"], default="development")
    parser.add_argument("--peer", help="the Python of an environment with FastHPOCR")
    parser.add_argument("--wrong", action="store_true", help="print what is missed and what is too much")
    options = parser.parse_args()
    normalizer = Normalizer(Index.open(options.index))
    index = normalizer.index
    texts = load(options.corpus, index, options.part)
    documents = [Document(text.name, text.text) for text in texts]
    gold = [text.gold for text in texts]
    found = {
        name: Annotator(normalizer, Settings(exact=exact)).annotate(documents)
        for name, exact in (("alphita", False), ("alphita --exact", True))
    }
    answers = {
        name: [[Mention(one.start, one.end, one.concept_id) for one in each.annotations] for each in some]
        for name, some in found.items()
    }
    if options.peer is not None:
        answers["fasthpocr"] = of_peer(texts, options.peer, index)
    top = int(index.concept_rows([ABNORMALITY])[0])
    within = {index.concept(row).id for row in index.segment.descendants(top).tolist()}
    table = {
        which: {name: rates(gold, some, concepts) for name, some in answers.items()}
        for which, concepts in (("all", None), ("phenotypes", within))
    }
    rows = [(which, name, *row) for which, some in table.items() for name, row in some.items()]
    print(HEAD, *("| " + " | ".join(map(str, row)) + " |" for row in rows), sep="\n")
    figures = {"rows": table, "confidence": calibration(texts, found["alphita"])}
    print(json.dumps(figures["confidence"], indent=1))
    if options.wrong:
        for text, some in zip(texts, answers["alphita"], strict=True):
            print(*wrong(text, some, index, within), sep="\n")
    harness.write(options, figures)


if __name__ == "__main__":
    main()
