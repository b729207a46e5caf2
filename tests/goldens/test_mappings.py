"""Files of mappings: each format into each, and what a store of reviews gives."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from alphita import registry
from alphita.review.records import Decision
from alphita.review.store import ReviewStore
from tests.cli.command import alphita
from tests.goldens.golden import BINARY, Goldens, told

WRITTEN = registry.names("alphita.mappings.formats")
READ = [name for name in WRITTEN if registry.load("alphita.mappings.formats", name).READS]
HEADER = [
    "--set-id",
    "https://example.org/sets/golden",
    "--licence",
    "https://example.org/licence",
    "--set-version",
    "3",
    "--date",
    "2001-02-03",
    "--source-vocabulary",
    "LAB",
    "--source-system",
    "https://example.org/lab",
    "--source-version",
    "7",
    "--with-review",
    "--target-system",
    "SNOMEDCT",
    *(word for name in ("LAB", "LOCAL") for word in ("--prefix", f"{name}=https://example.org/{name}/")),
]
DONE = {"status": "approved", "reviewer": "ann", "reviewed_at": "2001-02-03T04:05:06+00:00"}
FULL = {
    "frequency": 12,
    "matched_term": "toe ache",
    "similarity": 0.812345,
    "confidence": 0.934567,
    "decision": "accept",
    "routes": "letters|vectors",
    "scope": "broad",
    "language": "en",
    "source": "SNOMEDCT",
    "code": "100",
    "homonyms": "SNOMEDCT:7|SNOMEDCT:8",
    "expansion": "pain of the toe",
    "retired_concept": "SNOMEDCT:99",
    "contradictions": "laterality: 'left' against 'right'",
    "explanation": "nearest to 'toe ache'; found by letters",
}
NEAREST = {"matched_term": "Toe", "nearest_id": "SNOMEDCT:101", "nearest_name": "Toe structure"}
# Row, code, mention, concept, and what else is said.
ROWS: list[tuple[int, str | None, str, str | None, dict[str, Any]]] = [
    (1, "T1", "sore toe", "SNOMEDCT:100", {**FULL, **DONE, "relation": "exact", "comment": 'yes, "sore"; | so\nit is'}),
    (1, "T1", "sore toe", "SNOMEDCT:101", {"rank": 2, "similarity": 0.5}),
    (2, "T2", "no toe", None, {**NEAREST, "similarity": 0.31, "confidence": 0.5, "decision": "nil"}),
    (3, "T3", "toe", "SNOMEDCT:101", {**DONE, "relation": "broad", "status": "flagged", "frequency": 2}),
    (4, "T4", "left toe", "SNOMEDCT:100", {**DONE, "relation": "narrow", "status": "rejected"}),
    (5, "T5", "glucose 7", "SNOMEDCT:200", {**DONE, "reviewer": "bob", "relation": "exact"}),
    (5, "T5", "glucose 7", "SNOMEDCT:201", {**DONE, "reviewer": "bob", "mapping_type": "maps_to_value", "rank": 2}),
    (6, None, 'a\t"toe"\n=1+1; 🦶 größe, צהבת', "SNOMEDCT:101", {"method": "exact", "relation": "related"}),
    (7, "T7", "ward", None, {**DONE, "status": "ignored"}),
    (8, "T8", "old toe", "SNOMEDCT:102", {"confidence": 0.25, "decision": "review"}),
    (9, "T9", "odd toe", "SNOMEDCT:100", {"relation": "wrong"}),
    (10, "T" + "10" * 30, "long code", "SNOMEDCT:100", {}),
    (11, "T1", "sore toe", "SNOMEDCT:100", {"frequency": 3, "method": "abbreviation"}),
    (12, "T12", "our own", "LOCAL:x y", {**DONE, "relation": "exact", "comment": ""}),
    (13, "T13", "settled as none", None, {**DONE, "method": "reviewed"}),
]
CONCEPTS = """concept_id	domain_id	vocabulary_id	standard_concept	concept_code	invalid_reason
31	Condition	SNOMED	S	100
32	Spec Anatomic Site	SNOMED	S	101
33	Condition	SNOMED		102	D
34	Measurement	SNOMED	S	200
35	Meas Value	SNOMED	S	201
"""
REVIEWS = [*(f"export/{name}" for name in WRITTEN), *(f"export all/{name}" for name in WRITTEN), "progress", "forget"]


@pytest.fixture(scope="module")
def golden() -> Goldens:
    return Goldens("mappings", [*(f"{one}/{other}" for one in READ for other in WRITTEN), *REVIEWS])


@pytest.fixture(scope="module")
def given(tmp_path_factory) -> Path:
    """A folder with the rows in every format that can be read, CONCEPT.csv and a store of reviews."""
    folder = tmp_path_factory.mktemp("given")
    (folder / "CONCEPT.csv").write_text(CONCEPTS, encoding="utf-8")
    lines = []
    for row, code, mention, concept, others in ROWS:
        line = {"row": row, "mention_code": code, "mention": mention, "rank": 1, "concept_id": concept}
        line |= {"concept_name": concept and f"name of {concept}", "method": "nearest" if concept else "nil"}
        lines.append(json.dumps(line | others, ensure_ascii=False) + "\n")
    (folder / "first.jsonl").write_text("".join(lines), encoding="utf-8")
    for name in READ:
        words = [folder / "first.jsonl", "-o", folder / name, "--format", name, *HEADER]
        assert alphita("mappings", "convert", *words, "--concepts", folder / "CONCEPT.csv") == 0
    words = ["-m", folder / "reviews.sqlite", "--project", "toes", "--source", "LAB"]
    assert alphita("review", "import", folder / "jsonl", "--from", "jsonl", *words) == 0
    return folder


@pytest.fixture(scope="module")
def reviews(given: Path) -> Path:
    """The store, with what further people decided."""
    path = given / "reviews.sqlite"
    with ReviewStore.open(path) as store:
        ids = {one.row.number: one.row.id for one in store.queue("toes", order="row", state="all")[1]}
        for place, (row, reviewer, kind, concept, relation) in enumerate(
            [
                (2, "ann", "choose", "SNOMEDCT:101", "narrow"),
                (2, "bob", "nil", None, None),
                (3, "bob", "flag", None, None),
                (4, "bob", "accept", "SNOMEDCT:100", None),
                (4, "eve", "adjudicate", "SNOMEDCT:101", "related"),
                (6, "ann", "reject", None, None),
                (8, "ann", "skip", None, None),
                (8, "bob", "accept", "SNOMEDCT:102", None),
            ]
        ):
            store.decide(Decision(f"u{place}", "toes", ids[row], reviewer, kind, concept, relation, f"by {reviewer}"))
    return path


def written(given: Path, folder: Path, *words: object, name: str = "") -> str:
    out = folder / "out" / (f"out.{name}" if name in BINARY else "out")
    options = ["-o", out, "--format", name, *HEADER, "--concepts", given / "CONCEPT.csv"] if name else []
    return told(*words, *options, out=folder / "out", folders=[given])


@pytest.mark.parametrize("name", WRITTEN)
@pytest.mark.parametrize("of", READ)
def test_conversion(golden: Goldens, given: Path, tmp_path: Path, of: str, name: str) -> None:
    golden.check(f"{of}/{name}", written(given, tmp_path, "mappings", "convert", given / of, "--from", of, name=name))


@pytest.mark.parametrize("name", WRITTEN)
@pytest.mark.parametrize("rows", ["export", "export all"])
def test_export(golden: Goldens, given: Path, reviews: Path, tmp_path: Path, rows: str, name: str) -> None:
    words = ["review", "export", "-m", reviews, "--project", "toes", *(["--all"] if "all" in rows else [])]
    golden.check(f"{rows}/{name}", written(given, tmp_path, *words, name=name))


def test_progress(golden: Goldens, given: Path, reviews: Path, tmp_path: Path) -> None:
    said = [written(given, tmp_path, "review", "progress", "-m", reviews)]
    golden.check("progress", said[0])
    for command in ("forget", "restore"):
        words = ["-m", reviews, "--reviewer", "bob", "--by", "eve"]
        said.append(written(given, tmp_path, "review", command, *words))
        said.append(written(given, tmp_path, "review", "progress", "-m", reviews))
    assert said[-1] == said[0]
    golden.check("forget", "\n".join(said))


def test_the_table_is_complete(golden: Goldens) -> None:
    golden.check_complete()
