from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import italian
import study
from alphita import config, registry
from alphita.errors import InputError, UsageError
from alphita.terminology.store import Terminology, load_terminology
from alphita_lab.graph.store import EntityVectors
from tests.lab.training.linked_texts import graph_of, texts_of
from tests.runs.commands import CALLS, alphita
from tests.tiny import FINDINGS, SITES, tiny_model, tiny_terminology

pytestmark = pytest.mark.usefixtures("commands_in_process")


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    """A folder with an encoder, a scarce terminology, names cut from it, texts, and scored pairs of terms."""
    folder = tmp_path_factory.mktemp("made")
    tiny_model(folder / "encoder")
    tiny_terminology(folder / "tiny.terminology")
    # The disorders of a site are the types. Each finding is near the same one of the next site: with is_a, enough
    # triples for some to be held out.
    lines, number = [], 0
    for line in (folder / "tiny.obo").read_text().splitlines():
        number = int(line[-7:]) if line.startswith("id:") else number
        lines.append(line)
        if line.startswith("is_a"):
            lines.append(f"relationship: near T:{number % 32 + 4:07d}")
        if line.startswith("name: disorder of"):
            lines.append("is_a: T:0000100")
    lines += ["[Term]", "id: T:0000100", "name: disorder"]
    (folder / "linked.obo").write_text("\n".join(lines) + "\n")
    alphita(
        "terminology",
        "import",
        "obo",
        folder / "linked.obo",
        "-o",
        folder / "linked.terminology",
        "--set",
        "semantic_type=T:0000100",
    )
    words = ["scarce", str(folder / "linked.terminology"), "-o", str(folder / "t.terminology"), "--names", "1.6"]
    assert italian.main([*words, "--held-out", str(folder / "cut.split")]) == 0
    scarce = load_terminology(folder / "t.terminology")
    (folder / "notes.txt").write_text("\n".join(texts_of(scarce)) + "\n", encoding="utf-8")
    pairs = [f"pain of the {site}" for site in SITES]
    lines = ['"Mean","Stdev","Term1","Term2","CUI1","CUI2"']
    lines += [f'{100 * n},1,"{pairs[n]}","{pairs[n - 1]}","C{n}","C{(n - 1) % 8}"' for n in range(8)]
    (folder / "relatedness").mkdir()
    (folder / "relatedness" / "UMNSRS_relatedness.csv").write_text("\n".join(lines) + "\n")
    return folder


FAST = ["precision=fp32", "log_every=1"]
MARGIN = [*FAST, "prototypes=4", "positives=4", "negatives=6", "accumulation=1"]


def run_words(made: Path, out: Path, graph: Path, *more: str) -> list[str]:
    settings = {
        "--ext": [*FAST, "vocabulary=160", "batch=8", "max_length=32", "dev_share=0"],
        "--margin": MARGIN,
        "--injection": [*FAST, "nearest=4", "batch=4"],
    }
    sets = [word for option, items in settings.items() for item in items for word in (option, item)]
    return [
        "run",
        "--terminology",
        str(made / "t.terminology"),
        "--corpus",
        str(made / "notes.txt"),
        "-o",
        str(out),
        "--graphs",
        str(graph),
        "--data",
        str(made),
        "--cut",
        str(made / "cut.split"),
        "--language",
        "en",
        "--encoder",
        str(made / "encoder"),
        "--steps",
        "2",
        "--sequence-tokens",
        "24",
        "--benchmarks",
        "mcsm,clustering_pairs,relatedness,held_out_synonyms",
        "--score",
        "mcsm.k=5",
        *sets,
        *more,
    ]


@pytest.fixture(scope="module")
def graph(made: Path, tmp_path_factory) -> Path:
    """Random vectors, in place of trained ones, where a row takes those of a graph model."""
    folder = tmp_path_factory.mktemp("graph")
    terminology = load_terminology(made / "t.terminology")
    for model in italian.MODELS:
        (folder / model / "0").mkdir(parents=True)
        graph_of(terminology.concept_ids.to_pylist(), folder / model / "0" / "vectors")
    return folder


def test_a_cui_has_the_vectors_of_its_concepts(tmp_path: Path) -> None:
    source = tmp_path / "x.obo"
    text = ["format-version: 1.2", "ontology: x", ""]
    for number, name, extra in (
        (1, "one", "xref: UMLS:C10"),
        (2, "two", "xref: UMLS:C10"),
        (3, "three", ""),
        (4, "four", "xref: UMLS:C14"),
    ):
        text += ["[Term]", f"id: X:{number}", f"name: {name}", *filter(None, [extra]), ""]
    source.write_text("\n".join(text))
    alphita("terminology", "import", "obo", source, "-o", tmp_path / "x.terminology")
    terminology: Terminology = load_terminology(tmp_path / "x.terminology")
    values = np.array([[2.0, 0.0], [0.0, 4.0], [3.0, 3.0]], np.float32)
    vectors = EntityVectors(["X:1", "X:2", "X:3"], values, [], np.zeros((0, 2), np.float32), "transe")
    asked = {"C10": {"nothing"}, "C11": {"three", "no such"}, "C12": {"no such"}, "C14": {"three"}, "C15": {"four"}}
    found = italian.by_cui(vectors, terminology, asked)
    # By cross-reference, the mean of two unit vectors; by name; C14's own concept has no vector, so by name too.
    assert set(found) == {"C10", "C11", "C14"}
    np.testing.assert_allclose(found["C10"], [0.5, 0.5], atol=1e-6)
    np.testing.assert_allclose(found["C11"], np.array([1, 1]) / np.sqrt(2), atol=1e-6)
    np.testing.assert_allclose(found["C14"], found["C11"])
    italian.write_cuis(found, tmp_path / "cui.csv")
    assert (tmp_path / "cui.csv").read_text().splitlines()[0] == "C10,0.5,0.5"


def test_what_has_no_seed_is_scored_once(made: Path, graph: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    for seeds in ("1", "0"):
        assert italian.main(run_words(made, out, graph, "--rows", "base,ext", "--seeds", seeds)) == 0
    told = json.loads((out / "table.json").read_text())
    assert [(row["name"], row["seeds"]) for row in told["rows"]] == [("base", [1]), ("ext", [0, 1])]
    assert len([call for call in CALLS if call[0] == "evaluate"]) == 3


def test_italian_names_are_to_be_found_among_english_ones(made: Path, tmp_path: Path) -> None:
    lines = ["id\tterm\tlanguage"]
    for number, site in enumerate(SITES):
        for place, (plain, _) in enumerate(FINDINGS):
            lines.append(f"T:{10 * number + place}\t{plain} of the {site}\ten")
            lines.append(f"T:{10 * number + place}\t{site} di {plain}\tit")
    (tmp_path / "t.tsv").write_text("\n".join(lines) + "\n")
    alphita("terminology", "import", "table", tmp_path / "t.tsv", "-o", tmp_path / "t")
    words = ["bilingual", str(tmp_path / "t"), "-o", str(tmp_path / "it.terminology"), "--fraction", "0.4"]
    assert italian.main([*words, "--held-out", str(tmp_path / "it.split")]) == 0
    read = load_terminology(tmp_path / "it.terminology")
    (tmp_path / "notes.txt").write_text("\n".join(texts_of(read)) + "\n")
    words = run_words(made, tmp_path / "out", tmp_path, "--rows", "base,v2", "--seeds", "3", "--split")
    words[words.index("--terminology") + 1] = str(read.path)
    words[words.index("--corpus") + 1] = str(tmp_path / "notes.txt")
    words[words.index("--language") + 1] = "it"
    words[words.index("--benchmarks") + 1] = "held_out_translations"
    words[words.index("--score") + 1] = "held_out_translations.seed=1"
    assert italian.main([*words, str(tmp_path / "it.split")]) == 0
    table = json.loads((tmp_path / "out" / "table.json").read_text())
    assert [(row["name"], row["seeds"]) for row in table["rows"]] == [("base", [3]), ("v2", [3])]
    assert set(table["rows"][1]["figures"]) == {"translations_1", "translations_5"}
    # What is held out trains nowhere.
    for call in CALLS:
        if call[0] in ("train", "mentions"):
            assert call[call.index("--split") + 1] == str(tmp_path / "it.split")


def plan(made: Path, graph: Path, **more: Any) -> Any:
    return italian.Plan(made / "t.terminology", made, (made / "notes.txt",), graphs=graph, **more)


@pytest.mark.parametrize("row", [row for row in italian.ROWS if row.recipe], ids=lambda row: row.name)
def test_every_row_has_settings_that_its_recipe_takes(made: Path, graph: Path, row: Any) -> None:
    recipe = registry.load("alphita_lab.recipes", row.recipe).Config

    def resolved(**more: Any) -> Any:
        given = plan(made, graph, **more).training(row, 7)
        return config.resolve(recipe, sets=[f"{key}={value}" for key, value in given.items()])

    # The paper's: what it states of lengths.
    paper = resolved()
    assert paper.seed == 7
    if row.recipe == "kge_margin":
        assert (paper.steps, paper.epochs) == (0, 16.0 if row.name == "pipelined_16" else 4.0)
        assert (paper.learning_rate, paper.accumulation, paper.prototypes, paper.contexts) == (2e-5, 8, 4, 4)
        assert paper.pooling == ("cls" if row.name == "pipelined_cls" else "mean")
        assert paper.version == (row.name if row.name in ("v1", "v2") else "v3")
    if row.recipe == "kge_injection":
        assert (paper.steps, paper.warmup_steps, paper.batch, paper.learning_rate) == (40_000, 4_000, 6, 1e-5)
    if row.recipe == "kge_injection":
        assert paper.layer == 0
    if row.graph:
        assert paper.graph == str(graph / row.graph / "0" / "vectors")
    # Fewer steps, all in proportion; further settings by phase, but for what makes the row.
    settings = {
        "margin": ("learning_rate=1e-3", "pooling=mean"),
        "injection": ("learning_rate=1e-2", "nearest=9"),
        "ext": ("batch=4",),
    }
    few = resolved(steps=100, settings=settings)
    if row.recipe == "kge_margin":
        assert (few.steps, few.refresh_every) == (400 if row.name == "pipelined_16" else 100, 25)
        assert few.learning_rate == 1e-3
        assert few.pooling == paper.pooling
    if row.recipe == "kge_injection":
        assert (few.steps, few.warmup_steps, few.learning_rate, few.nearest) == (640, 64, 1e-2, 9)
    if row.recipe == "ext_bert":
        assert (few.steps, few.batch, few.corpus) == (200, 4, str(made / "notes.txt"))


def test_vectors_of_the_seed_or_the_first(graph: Path, tmp_path: Path) -> None:
    for seed in ("2", "10"):
        graph_of(["A:1", "A:2"], tmp_path / "complex" / seed / "vectors")
    assert italian.vectors_in(tmp_path, "complex", 10) == tmp_path / "complex" / "10" / "vectors"
    assert italian.vectors_in(tmp_path, "complex", 0) == tmp_path / "complex" / "2" / "vectors"
    with pytest.raises(InputError, match="no vectors of rotate"):
        italian.vectors_in(tmp_path, "rotate", 0)


def test_a_folder_is_of_one_plan(tmp_path: Path) -> None:
    study.begin({"a": (1, 2)}, tmp_path)
    study.begin({"a": [1, 2]}, tmp_path)
    with pytest.raises(UsageError, match="other data"):
        study.begin({"a": [1]}, tmp_path)
