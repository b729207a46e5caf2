"""Reference pages and the Italian system's tables in the docs are generated; ALPHITA_UPDATE_DOCS=1 writes them."""

from __future__ import annotations

import difflib
import importlib
import itertools
import json
import os
import re
import sys
from pathlib import Path

import pytest

from alphita import config, registry
from alphita.answer.normalizer import Normalizer
from alphita.index.store import build
from alphita.review.store import ReviewStore
from alphita.service.app import create
from alphita.service.settings import Settings
from tests.docs import notebooks, reference
from tests.docs.follow import SECONDS, Reader
from tests.docs.given import give
from tests.doubles import HashEncoder, small_terminology

DOCS = Path(__file__).parents[2] / "docs"
sys.path.append(str(DOCS.parent / "runs"))
italian = importlib.import_module("italian")
report_tables = importlib.import_module("report_tables")
claims = importlib.import_module("claims")
experiments = importlib.import_module("experiments")


def settings_table(recipe: str) -> str:
    lines = ["| setting | default | meaning |", "|---|---|---|"]
    for option in config.options(registry.load("alphita_lab.recipes", recipe).Config):
        lines.append(f"| `{option.name}` | {option.default} | {option.description.replace('|', '/')} |")
    return "\n".join(lines)


def benchmark_list() -> str:
    parts = []
    for name in registry.names("alphita_lab.evaluation.benchmarks"):
        module = registry.load("alphita_lab.evaluation.benchmarks", name)
        info = module.INFO
        untested = "" if info.tested_on_real_data else " **Untested on real data.**"
        lines = [f"## `{name}`", "", f"{info.title[0].upper()}{info.title[1:]}.{untested}", ""]
        lines += [f"- data: {info.citation}", f"- where: {info.where}", f"- needs: {', '.join(info.needs)}"]
        if options := config.options(module.Options):
            lines += ["", "| setting | default | meaning |", "|---|---|---|"]
            lines += [f"| `{one.name}` | {one.default} | {one.description.replace('|', '/')} |" for one in options]
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


def check(page: Path, mark: str, generated: str) -> None:
    text = page.read_text(encoding="utf-8")
    block = re.compile(rf"(<!-- {mark} -->\n)(.*?)(<!-- end -->)", re.DOTALL)
    assert block.search(text), f"{page.name} has no block {mark}: give it a heading, <!-- {mark} --> and <!-- end -->"
    expected = block.sub(lambda found: f"{found[1]}{generated}\n{found[3]}", text)
    if os.environ.get("ALPHITA_UPDATE_DOCS"):
        page.write_text(expected, encoding="utf-8")
        return
    changes = difflib.unified_diff(text.splitlines(), expected.splitlines(), "page", "code", n=0, lineterm="")
    assert text == expected, "run with ALPHITA_UPDATE_DOCS=1\n" + "\n".join(itertools.islice(changes, 40))


@pytest.mark.parametrize("recipe", registry.names("alphita_lab.recipes"))
def test_settings_in_the_docs_are_the_codes(recipe: str) -> None:
    check(DOCS / "reference" / "settings.md", f"settings: {recipe}", settings_table(recipe))


def test_benchmarks_in_the_docs_are_the_codes() -> None:
    check(DOCS / "reference" / "benchmarks.md", "benchmarks", benchmark_list())


def test_the_command_line_in_the_docs_is_the_codes() -> None:
    check(DOCS / "reference" / "commands.md", "commands", reference.command_line())


def test_python_in_the_docs_is_the_codes() -> None:
    check(DOCS / "reference" / "python.md", "python", reference.python())


def test_what_is_served_in_the_docs_is_the_codes(tmp_path: Path) -> None:
    index = build(small_terminology(), HashEncoder(), tmp_path / "x.index")
    normalizer = Normalizer(index, encoder=HashEncoder())
    with ReviewStore.open(tmp_path / "reviews.sqlite", create=True) as store:
        document = create(Settings(), normalizer, store).openapi()
    check(DOCS / "reference" / "rest.md", "rest", reference.rest(document))


JOURNEYS = ["omop", "fhir", "rare_disease", "research", "administration"]


@pytest.mark.parametrize("journey", JOURNEYS)
def test_the_notebook_of_a_journey_is_its_page(journey: str) -> None:
    path = DOCS.parent / "examples" / "notebooks" / f"{journey}.ipynb"
    made = notebooks.notebook(DOCS / "start" / f"{journey}.md", DOCS.parent)
    if os.environ.get("ALPHITA_UPDATE_DOCS"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(made, encoding="utf-8")
    assert path.read_text(encoding="utf-8") == made, "run with ALPHITA_UPDATE_DOCS=1"


@pytest.mark.slow
@pytest.mark.parametrize("journey", JOURNEYS)
def test_the_notebook_of_a_journey_runs(journey: str, tmp_path: Path) -> None:
    """As a kernel runs it; the page's own check gives it small files, which a notebook here has not."""
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    reader = Reader(tmp_path / "clone", tmp_path)
    made = notebooks.notebook(DOCS / "start" / f"{journey}.md", DOCS.parent).replace("8080", str(reader.port))
    page = nbformat.reads(re.sub(r"alphita serve (?=--to)", f"alphita serve --port {reader.port} ", made), as_version=4)
    give(f"docs/start/{journey}.md", "", reader.folder, first=True)
    try:
        nbclient.NotebookClient(page, timeout=SECONDS, resources={"metadata": {"path": reader.folder}}).execute(
            env=reader.environment
        )
    finally:
        reader.leave()
    outputs = json.dumps([cell.get("outputs", []) for cell in page.cells])
    assert len(outputs) < 100_000, "what it prints is more than anybody reads"


# What the page on the Italian system shows of the encoders; the rest is drawn from italian_tables.json.
SHOWN = {"mcsm", "f1", "mini_physicians", "umnsrs", "synonyms_1", "translations_1", "misspelt"}


def italian_figures(part: str) -> dict:
    return json.loads((DOCS / "results" / f"italian_{part}.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("part", ["open", "part", "italian"])
def test_the_italian_systems_tables_in_the_docs_are_those_of_its_figures(part: str) -> None:
    found = italian_figures(part)
    # The paper's tables have these rows; those of other graph models and lengths are among all tables.
    rows = italian.table(found["rows"][:7], [one for one in italian.COLUMNS if one.name in SHOWN])
    if part == "open":
        rows = italian.table(found["graphs"], italian.GRAPH_COLUMNS)
    check(DOCS / "results" / "italian.md", f"figures: {part}", "\n".join(rows))


def test_all_tables_of_the_italian_system_are_those_of_its_figures() -> None:
    sections = {
        "Encoders, with few names a concept (tables 3 and 5)": ("rows", "part"),
        "MCSM by type (table 4)": ("types", "part"),
        "Which of the paper's orderings hold": ("orderings", "part"),
        "Encoders, on the whole English graph": ("rows", "english"),
        "Encoders, Italian": ("rows", "italian"),
    }
    text = ""
    for title, (kind, part) in sections.items():
        found = italian_figures(part)
        if kind == "rows":
            lines = italian.table(found["rows"], italian.COLUMNS)
        elif kind == "types":
            lines = italian.table_by_type(found["rows"][:7])
        else:
            lines = italian.table_of_orderings(italian.orderings(found["rows"]), italian.COLUMNS)
        text += "\n".join([f"# {title}", *lines, ""])
    made = {"parts": [{"name": "Open data", "sections": report_tables.sections(text)}]}
    path = DOCS / "results" / "italian_tables.json"
    if os.environ.get("ALPHITA_UPDATE_DOCS"):
        path.write_text(json.dumps(made, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    assert json.loads(path.read_text(encoding="utf-8")) == made, "run with ALPHITA_UPDATE_DOCS=1"


def test_the_papers_claims_are_judged_on_their_figures() -> None:
    """A line of claims.tsv whose row, column or file is not there fails here too."""
    check(DOCS / "results" / "claims.md", "verdicts", claims.of_folder(DOCS / "results"))


@pytest.mark.parametrize("name", experiments.EXPERIMENTS)
def test_the_experiments_in_the_docs_are_their_figures(name: str) -> None:
    check(DOCS / "results" / "experiments.md", f"figures: {name}", experiments.in_docs(name, DOCS / "results"))
