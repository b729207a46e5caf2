"""All that `alphita normalize` writes."""

from __future__ import annotations

import io
import sys
import types
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import alphita
from alphita import registry
from alphita.answer import RANKING_NAMES
from tests.goldens.conftest import ASKED, World
from tests.goldens.golden import BINARY, Goldens, masked, of_table, told
from tests.jobs.engines.serial import Serial

# What every format needs, and takes of its own.
HEADER = [
    "--with-review",
    "--set-id",
    "https://example.org/sets/golden",
    "--licence",
    "https://example.org/licence",
    "--source-vocabulary",
    "LOCAL",
    "--source-system",
    "https://example.org/local",
    "--source-version",
    "7",
    *(word for name in ("LOCAL", "AX", "BX", "T") for word in ("--prefix", f"{name}=https://example.org/{name}/")),
]
FORMATS = registry.names("alphita.mappings.formats")
PLAIN = ["--ranking", "vectors"]
COLUMNS = ["--context-column", "note", "--language-column", "lang", "--frequency-column", "n"]
# Written in every format; STORE and SHORT stand for the store of reviews and the list of abbreviations.
VARIANTS: dict[str, list[object]] = {
    "plain": PLAIN,
    "filters": [*PLAIN, "--type", "Finding", "--type", "Drug", "--language", "en", "--top", 2],
    "contexts": [*PLAIN, *COLUMNS, "--abbreviations", "SHORT", "--top", 3, "--explain"],
    "reviews": [*PLAIN, "--mappings", "STORE", "--mappings-source", "LAB", "--frequency-column", "n"],
    "private": [*PLAIN, *COLUMNS, "--private"],
    "learned": [*COLUMNS, "--top", 2, "--explain"],
}
# Written as CSV.
OPTIONS: dict[str, list[object]] = {
    **{f"ranking {one}": ["--ranking", one] for one in RANKING_NAMES},
    "type": [*PLAIN, "--type", "drug"],
    "source": [*PLAIN, "--source", "BX"],
    "language": [*PLAIN, "--language", "de"],
    "under": [*PLAIN, "--under", "AX:2", "--under", "BX:2"],
    "standard": [*PLAIN, "--standard-only"],
    "target": [*PLAIN, "--target", "MSH", "--floor", -1],
    "floor": [*PLAIN, "--floor", 0.9],
    "every candidate": [*PLAIN, "--top", 99, "--floor", -1],
    "fusion, explained": ["--ranking", "fusion", "--top", 3, "--explain"],
    "learned, reviews": ["--mappings", "STORE", "--project", "lab"],
    "learned, abbreviations": [*COLUMNS, "--abbreviations", "SHORT"],
    "learned, filters": ["--type", "Finding", "--under", "AX:1", "--top", 9],
    "learned, audit": ["--error", "0.1", "--audit", 4],
    "a format that lacks": ["--format", "excel"],
    "a filter that lacks": ["--under", "AX:99"],
}
ENGINES = ["serial", "processes", pytest.param("ray", marks=pytest.mark.slow)]
CASES = [
    *(f"{variant}/{name}" for variant in VARIANTS for name in FORMATS),
    *OPTIONS,
    "borrowed",
    "stdin",
    "report",
    "engine/letters",
    "engine/learned",
    "results/vectors",
    "results/learned",
    "results/borrowed",
]


@pytest.fixture(scope="module")
def golden() -> Goldens:
    return Goldens("normalize", CASES)


def normalized(
    world: World,
    folder: Path,
    *options: object,
    out: str = "out.csv",
    source: Path | None = None,
    index: Path | None = None,
) -> str:
    here = {"STORE": world.reviews, "SHORT": world.short}
    words = [source or world.source, "--to", index or world.index, "-o", folder / "out" / out, "--column", "text"]
    words += ["--code-column", "id", *(here.get(str(one), one) for one in options)]
    return told("normalize", *words, out=folder / "out", folders=(folder, world.folder))


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("variant", VARIANTS)
def test_formats(golden: Goldens, world: World, tmp_path: Path, variant: str, name: str) -> None:
    out = f"out.{name}" if name in BINARY else "out"
    text = normalized(world, tmp_path, *HEADER, "--format", name, *VARIANTS[variant], out=out)
    golden.check(f"{variant}/{name}", text)


@pytest.mark.parametrize("case", OPTIONS)
def test_options(golden: Goldens, world: World, tmp_path: Path, case: str) -> None:
    golden.check(case, normalized(world, tmp_path, *OPTIONS[case]))


def test_borrowed_names(golden: Goldens, world: World, tmp_path: Path) -> None:
    golden.check("borrowed", normalized(world, tmp_path, *COLUMNS, "--top", 2, "--explain", index=world.borrowing))


def test_the_report(golden: Goldens, world: World, tmp_path: Path) -> None:
    golden.check("report", normalized(world, tmp_path, "--report", tmp_path / "out" / "report.json"))


def test_stdin_and_stdout(golden: Goldens, world: World, tmp_path: Path, monkeypatch) -> None:
    lines = "\n".join(mention.replace("\n", " ") for mention, *_ in ASKED).encode()
    monkeypatch.setattr(sys, "stdin", types.SimpleNamespace(buffer=io.BufferedReader(io.BytesIO(lines))))
    golden.check("stdin", told("normalize", "-", "--to", world.index, "-o", "-", *PLAIN, out=tmp_path / "out"))


@pytest.mark.parametrize("engine", ENGINES)
def test_engines(golden: Goldens, world: World, tmp_path: Path, monkeypatch, engine: str) -> None:
    """Processes cannot be given the encoder: they rank by letters, and an engine without processes by all there is."""
    given = tmp_path / "in"
    given.mkdir()
    names = ("text", "note", "lang", "n")
    table = pa.table({"id": range(len(ASKED)), **dict(zip(names, map(list, zip(*ASKED, strict=True)), strict=True))})
    pq.write_table(table.slice(0, 20), given / "0.parquet")
    pq.write_table(table.slice(20), given / "1.parquet")
    pq.write_table(table, tmp_path / "whole.parquet")
    options = COLUMNS if engine == "serial" else [*COLUMNS, "--ranking", "letters"]
    if engine == "serial":
        monkeypatch.setattr("alphita.jobs.engines.open_engine", lambda *_: Serial())
    ran = "processes" if engine == "serial" else engine
    normalized(world, tmp_path, *options, "--engine", ran, "--workers", 1, source=given, out="made")
    normalized(world, tmp_path / "one", *options, source=tmp_path / "whole.parquet", out="out.parquet")
    made = pa.concat_tables(map(pq.read_table, sorted((tmp_path / "out" / "made").glob("part-*.parquet"))))
    assert made.to_pylist() == pq.read_table(tmp_path / "one" / "out" / "out.parquet").to_pylist()
    text = masked(of_table(made) + (tmp_path / "out" / "made" / "rejects.csv").read_text(encoding="utf-8"), tmp_path)
    golden.check("engine/learned" if engine == "serial" else "engine/letters", text)


@pytest.mark.parametrize("what", ["vectors", "learned", "borrowed"])
def test_results_in_python(golden: Goldens, world: World, what: str) -> None:
    opened = (world.borrowing, "auto") if what == "borrowed" else (world.index, what)
    normalizer = alphita.Normalizer.load(opened[0], ranking=opened[1])
    mentions, contexts, languages, _ = map(list, zip(*ASKED, strict=True))
    found = normalizer.normalize(mentions, top_k=3, contexts=contexts, languages=languages, explain=True)
    golden.check(f"results/{what}", "\n".join(map(repr, found)))


def test_the_table_is_complete(golden: Goldens) -> None:
    golden.check_complete()
