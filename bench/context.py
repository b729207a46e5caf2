"""What texts say of their findings (present, negated, possible, family, historical, hypothetical): what is right.

    python bench/context.py bench/development/context.tsv
    python bench/context.py bench/development/context.tsv --index hpo.index --wrong
    python bench/context.py bench/development/context.tsv --peer VENV/bin/python

With the spans of the corpus given, only the context is scored. With `--index`, the findings are searched for as well:
a finding is found if a mention overlaps it. `absent accepted as present` counts findings that the text negates, in
mentions that are affirmed and accepted. `--peer` runs medspaCy and negspaCy, in their own environment, on the English
texts with the spans given.
"""

from __future__ import annotations

import argparse
import csv
import json
import subprocess
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import harness
from alphita import report
from alphita.annotation.annotator import Annotator, Settings
from alphita.annotation.context import load_rules
from alphita.annotation.spans import AFFIRMED, Document, Place, lines_of
from alphita.annotation.tokens import sentences_of
from alphita.answer.normalizer import Normalizer
from alphita.index.store import Index
from alphita.mention.cues import CATEGORIES

PEERS = Path(__file__).parent / "peers" / "run_context.py"
PRESENT = "present"
ASSERTIONS = (PRESENT, *CATEGORIES)


class Finding(NamedTuple):
    """A finding: its place in the text, the concept ("" if HPO has none), and every assertion that is right."""

    id: str
    start: int
    end: int
    concept: str
    assertions: frozenset[str]


class Text(NamedTuple):
    """A text with its findings."""

    language: str
    kind: str
    text: str
    findings: list[Finding]


def unescaped(cell: str) -> str:
    r"""Return a cell with its \n, \r, \t and \\ as the characters they stand for."""
    return cell.replace("\\n", "\n").replace("\\r", "\r").replace("\\t", "\t").replace("\\\\", "\\")


def load(path: Path) -> list[Text]:
    """Read a corpus: one finding a line, the text repeated."""
    texts: dict[str, Text] = {}
    with path.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE):
            text = texts.setdefault(row["text"], Text(row["language"], row["kind"], unescaped(row["text"]), []))
            start, end = int(row["start"]), int(row["end"])
            assert text.text[start:end] == unescaped(row["span"]), row["id"]
            finding = Finding(row["id"], start, end, row["concept"], frozenset(row["assertion"].split("|")))
            text.findings.append(finding)
    return list(texts.values())


def of_spans(texts: Sequence[Text]) -> list[list[frozenset[str]]]:
    """Return what the rules of context say of each given span."""
    rules = load_rules()
    found = []
    for text in texts:
        # The rules read line feeds only.
        before = [len(lines_of(text.text[: finding.start]).text) for finding in text.findings]
        sizes = [len(lines_of(text.text[finding.start : finding.end]).text) for finding in text.findings]
        places = [Place(start, start + size) for start, size in zip(before, sizes, strict=True)]
        lines = lines_of(text.text)
        sentences = sentences_of(lines.text)
        contexts = rules.read(lines.text, sentences)
        numbers = [next(n for n, one in enumerate(sentences) if one.end > place.start) for place in places]
        said = []
        for place, number in zip(places, numbers, strict=True):
            others = [other for other, at in zip(places, numbers, strict=True) if at == number]
            categories: list[str] = [context.category for context in contexts.of(number, [place], others)]
            said.append(frozenset(categories or [PRESENT]))
        found.append(said)
    return found


def of_peers(texts: Sequence[Text], python: str) -> dict[str, list[list[frozenset[str]]]]:
    """Return what each peer says of the given spans, by its name."""
    given = [[text.text, [[one.start, one.end] for one in text.findings]] for text in texts]
    run = subprocess.run([python, str(PEERS)], input=json.dumps(given), capture_output=True, text=True, check=True)
    answers: dict[str, list[list[list[str]]]] = json.loads(run.stdout)
    return {
        name: [[frozenset(one or [PRESENT]) for one in said] for said in of_text] for name, of_text in answers.items()
    }


class Found(NamedTuple):
    """What is said of a finding that a mention overlaps, and whether the mention is accepted."""

    said: frozenset[str]
    is_accepted: bool


def of_index(texts: Sequence[Text], index: Path) -> list[list[Found | None]]:
    """Return what is found at the place of each finding; None: nothing."""
    annotator = Annotator(Normalizer(Index.open(index)), Settings())
    found: list[list[Found | None]] = []
    for text, annotated in zip(texts, annotator.annotate([Document("", text.text) for text in texts]), strict=True):
        said: list[Found | None] = []
        for finding in text.findings:
            at = [one for one in annotated.annotations if one.start < finding.end and finding.start < one.end]
            same = [one for one in at if one.concept_id == finding.concept]
            best = next(iter(same or at), None)
            categories = [PRESENT if one == AFFIRMED else one for one in best.said] if best else []
            said.append(Found(frozenset(categories), best.decision == "accept") if best else None)
        found.append(said)
    return found


def scores(texts: Sequence[Text], said: Sequence[Sequence[frozenset[str]]]) -> dict[str, object]:
    """Return the share that is right, and precision and recall of each assertion."""
    pairs = [
        (one, got) for text, some in zip(texts, said, strict=True) for one, got in zip(text.findings, some, strict=True)
    ]
    by_assertion = {}
    for assertion in ASSERTIONS:
        # A finding with two right assertions counts for neither's recall.
        wanted = [got for one, got in pairs if one.assertions == {assertion}]
        claimed = [one for one, got in pairs if assertion in got]
        by_assertion[assertion] = {
            "findings": len(wanted),
            "precision": share(assertion in one.assertions for one in claimed),
            "recall": share(assertion in got for got in wanted),
        }
    return {
        "findings": len(pairs),
        "right": share(is_right(one, got) for one, got in pairs),
        "by_assertion": by_assertion,
    }


def is_right(finding: Finding, said: frozenset[str]) -> bool:
    """Tell whether all that is said of a finding is right."""
    return said <= finding.assertions


def share(hits: Iterable[bool]) -> float | None:
    """Return the share of hits; None of nothing."""
    some = list(hits)
    return sum(some) / len(some) if some else None


def by(texts: Sequence[Text], said: Sequence[Sequence[frozenset[str]]], key: Callable[[Text], str]) -> dict[str, str]:
    """Return right and all findings by a property of their text."""
    right: Counter[str] = Counter()
    every: Counter[str] = Counter()
    for text, some in zip(texts, said, strict=True):
        every[key(text)] += len(some)
        right[key(text)] += sum(is_right(one, got) for one, got in zip(text.findings, some, strict=True))
    return {name: f"{right[name]}/{number}" for name, number in sorted(every.items())}


def searched(texts: Sequence[Text], found: Sequence[Sequence[Found | None]]) -> dict[str, object]:
    """Return the figures of findings that are searched for."""
    pairs = [
        (text, one, got)
        for text, some in zip(texts, found, strict=True)
        for one, got in zip(text.findings, some, strict=True)
    ]
    told = [(one, got) for _, one, got in pairs if got is not None]
    absent = [
        one.id
        for one, got in told
        if PRESENT not in one.assertions and PRESENT in got.said and got.is_accepted and "negated" in one.assertions
    ]
    wrong = [one.id for one, got in told if PRESENT not in one.assertions and PRESENT in got.said and got.is_accepted]
    return {
        "found": share(got is not None for text, _, got in pairs),
        "found_in_english": share(got is not None for text, _, got in pairs if text.language == "en"),
        "right_of_found": share(is_right(one, got.said) for one, got in told),
        "absent_accepted_as_present": len(absent),
        "not_present_accepted_as_present": len(wrong),
    }


def main() -> None:
    """Score, print, and with --output write."""
    parser = harness.parser(__doc__)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--index", type=Path, help="of HPO: search for the findings too")
    parser.add_argument("--peer", help="the Python of an environment with medspacy and negspacy")
    parser.add_argument("--wrong", action="store_true", help="print the findings that are wrong")
    options: argparse.Namespace = parser.parse_args()
    texts = load(options.corpus)
    said = of_spans(texts)
    figures: dict[str, object] = {
        "given_spans": scores(texts, said),
        "by_language": by(texts, said, lambda text: text.language),
        "by_kind": by(texts, said, lambda text: text.kind),
    }
    if options.index is not None:
        found = of_index(texts, options.index)
        figures["searched"] = searched(texts, found)
    if options.peer is not None:
        english = [text for text in texts if text.language == "en"]
        figures["english"] = {"alphita": scores(english, of_spans(english))} | {
            name: scores(english, answers) for name, answers in of_peers(english, options.peer).items()
        }
    print(json.dumps(figures, indent=1))
    if options.wrong:
        for text, some in zip(texts, said, strict=True):
            for finding, got in zip(text.findings, some, strict=True):
                if not is_right(finding, got):
                    print(
                        finding.id,
                        text.kind,
                        repr(text.text),
                        text.text[finding.start : finding.end],
                        sorted(finding.assertions),
                        sorted(got),
                        sep=" | ",
                    )
        if options.index is not None:
            for text, every in zip(texts, found, strict=True):
                for finding, one in zip(text.findings, every, strict=True):
                    if one is None or not is_right(finding, one.said):
                        print(
                            "searched",
                            finding.id,
                            text.text[finding.start : finding.end],
                            sorted(finding.assertions),
                            one and sorted(one.said),
                            sep=" | ",
                        )
    if options.output is not None:
        report.write(options.output, figures, provenance=report.provenance(data={"corpus": options.corpus.name}))


if __name__ == "__main__":
    main()
