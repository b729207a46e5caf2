from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import italian
from alphita import config, registry
from alphita.errors import InputError, UsageError
from alphita.terminology.store import Terminology, load_terminology
from alphita_lab.evaluation.benchmarks import Source, load_benchmark
from alphita_lab.graph.store import EntityVectors
from tests.lab.training.linked_texts import graph_of, texts_of
from tests.runs.commands import CALLS, alphita
from tests.tables import terminology_of
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
    given = ["obo", folder / "linked.obo", "-o", folder / "linked.terminology", "--set", "semantic_type=T:0000100"]
    alphita("terminology", "import", *given)
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
    benchmarks = "--benchmarks mcsm,clustering_pairs,relatedness,held_out_synonyms --score mcsm.k=5"
    paths = {"terminology": "t.terminology", "corpus": "notes.txt", "cut": "cut.split", "encoder": "encoder"}
    given = [word for option, name in paths.items() for word in (f"--{option}", str(made / name))]
    given += ["--data", str(made), "--graphs", str(graph), "-o", str(out)]
    return ["run", *given, *f"--language en --steps 2 --sequence-tokens 24 {benchmarks}".split(), *sets, *more]


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

    # The paper's.
    paper = resolved()
    assert paper.seed == 7
    if row.recipe == "kge_margin":
        assert (paper.steps, paper.epochs) == (0, 16.0 if row.name == "pipelined_16" else 4.0)
        assert paper.pooling == ("cls" if row.name == "pipelined_cls" else "mean")
        assert paper.version == (row.name if row.name in ("v1", "v2") else "v3")
    if row.graph:
        assert paper.graph == str(graph / row.graph / "0" / "vectors")
    # Fewer steps, all in proportion; further settings by phase, but for what makes the row.
    margin, injection = ("learning_rate=1e-3", "pooling=mean"), ("learning_rate=1e-2", "nearest=9")
    settings = {"margin": margin, "injection": injection, "ext": ("batch=4",)}
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


@pytest.fixture(scope="module")
def tiny(tmp_path_factory) -> Terminology:
    return tiny_terminology(tmp_path_factory.mktemp("data") / "tiny.terminology", types=True)


def names(terminology: Terminology) -> dict[str, list[str]]:
    rows, offsets = terminology.training_terms()
    strings = terminology.terms["string"].take(rows).to_pylist()
    return {
        terminology.concept_id(row): strings[offsets[row] : offsets[row + 1]] for row in range(terminology.n_concepts)
    }


def cut(terminology: Terminology, out: Path, *, per_concept: float = 1.5, seed: int = 1, queries: int = 1000):
    tables, split = italian.scarce(terminology, per_concept, seed, queries)
    italian.save(tables, out, {}, terminology)
    return load_terminology(out), split


def test_a_scarce_terminology_has_so_few_names_and_all_concepts_and_triples(tiny: Terminology, tmp_path: Path) -> None:
    scarce, split = cut(tiny, tmp_path / "s.terminology")
    before, after = names(tiny), names(scarce)
    assert list(before) == list(after)
    # 32 concepts with 88 names: 48 are left, the one that a concept is called by among them.
    assert sum(map(len, before.values())) == 88
    assert sum(map(len, after.values())) == 48
    for concept, kept in after.items():
        assert kept[0] == before[concept][0]
        assert set(kept) <= set(before[concept])
    assert np.array_equal(scarce.triples, tiny.triples)
    assert scarce.relation_labels == tiny.relation_labels
    assert scarce.concept_names.to_pylist() == tiny.concept_names.to_pylist()
    assert len(scarce.side_table("semantic_types")) == len(tiny.side_table("semantic_types")) > 0
    # What is asked was cut away: one name a concept, and nothing that is still there.
    left = {name for some in after.values() for name in some}
    lost = {concept for concept in before if len(before[concept]) > len(after[concept])}
    assert set(split.concept_ids) == lost
    assert len(split) == len(lost)
    for string, concept in zip(split.strings, split.concept_ids, strict=True):
        assert string in set(before[concept]) - left
    assert set(split.parts) == {"test"}
    assert (split.facts["names_before"], split.facts["names_kept"]) == (88, 48)


def spoken(folder: Path) -> Terminology:
    rows = [
        # concept, string, language, scope, status
        ("T:1", "Heart pain", "en", "exact", "official"),
        ("T:1", "Dolore cardiaco", "it", "exact", "official"),
        ("T:2", "Skin pain", "en", "exact", "official"),
        ("T:2", "Dolore cutaneo", "it", "exact", "machine"),
        ("T:3", "Dolore osseo", "it", "exact", "official"),
        ("T:4", "Coma", "en", "exact", "official"),
        ("T:4", "Coma", "it", "exact", "official"),
        ("T:4", "Schlaf", "de", "exact", "official"),
        ("T:5", "Eye pain", "en", "exact", "official"),
        ("T:6", "Lung pain", "en", "related", "official"),
        ("T:7", "Bone ache", "en", "exact", "official"),
        ("T:7", "Male alle ossa", "it", "exact", "official"),
    ]
    columns = ("concept", "string", "language", "scope", "status")
    return terminology_of(rows, folder, columns=columns, relations=[("T:1", "is_a", "T:2"), ("T:5", "is_a", "T:1")])


def test_both_languages_of_the_concepts_of_one(tmp_path: Path) -> None:
    given = spoken(tmp_path / "all.terminology")
    made, split = italian.bilingual(given, "it", "en", 1.0, 3, tmp_path / "it.terminology")
    # Not T:5 and T:6, which have no Italian name; no German.
    assert made.concept_ids.to_pylist() == ["T:1", "T:2", "T:3", "T:4", "T:7"]
    assert set(made.terms["language"].to_pylist()) == {"it", "en"}
    # Not the machine's, nor "Coma", which is English too, nor that of T:3, which has no English name.
    assert dict(zip(split.strings, split.concept_ids, strict=True)) == {
        "Dolore cardiaco": "T:1",
        "Male alle ossa": "T:7",
    }
    assert split.facts["without_a_name_to_find"] == 1
    again, same = italian.bilingual(given, "it", "en", 1.0, 3, tmp_path / "it.terminology")
    assert (again.content_hash, same.hash) == (made.content_hash, split.hash)
    module = load_benchmark("held_out_translations")
    split.save(tmp_path / "it.split")
    options = module.Options(language="it", target_language="en", split=tmp_path / "it.split")
    loaded = module.load(Source(None, made, "held_out_translations", ""), options)
    assert sorted(query for (query,) in loaded.queries.parts) == ["Dolore cardiaco", "Male alle ossa"]
    with pytest.raises(UsageError, match="is held out"):
        italian.bilingual(given, "it", "en", 0.0, 3, tmp_path / "none.terminology")


def umls(folder: Path) -> Terminology:
    rows = [
        ("UMLS:C1", "cuore", "MDRITA"),
        ("UMLS:C1", "Cuore", "LNC-IT-IT"),
        ("UMLS:C2", "febbre", "MSHITA"),
        ("UMLS:C3", "polmonite", "ICPCITA"),
        ("UMLS:C4", "sodio", "LNC-IT-IT"),
        ("UMLS:C5", "medico", "MSHITA"),
        ("UMLS:C6", "tumore", "MSHITA"),
    ]
    types = [
        ("UMLS:C1", "Body Part, Organ, or Organ Component", "T023"),
        ("UMLS:C2", "Sign or Symptom", "T184"),
        ("UMLS:C3", "Disease or Syndrome", "T047"),
        ("UMLS:C4", "Inorganic Chemical", "T197"),
        ("UMLS:C5", "Professional or Occupational Group", "T097"),
        ("UMLS:C6", "Neoplastic Process", "T191"),
        ("UMLS:C6", "Pathologic Function", "T046"),
        ("UMLS:C6", "Age Group", "T100"),
    ]
    relations = [
        ("UMLS:C3", "finding_site_of", "UMLS:C1"),
        ("UMLS:C6", "isa", "UMLS:C3"),
        ("UMLS:C4", "isa", "UMLS:C3"),
    ]
    terms = [(concept, string, "it", source) for concept, string, source in rows]
    columns = ("concept", "string", "language", "source")
    return terminology_of(terms, folder, columns=columns, source="UMLS", relations=relations, semantic_types=types)


def test_the_thirteen_groups(tmp_path: Path) -> None:
    sources = ["ICPCITA", "MDRITA", "MSHITA"]
    italian.save(
        italian.grouped(umls(tmp_path / "u.terminology"), sources), tmp_path / "g.terminology", {}, umls(tmp_path / "v")
    )
    made = load_terminology(tmp_path / "g.terminology")
    # Not the sodium, which none of the three names, nor the physician, who is of no group.
    assert made.concept_ids.to_pylist() == ["UMLS:C1", "UMLS:C2", "UMLS:C3", "UMLS:C6"]
    assert sorted(made.terms["string"].to_pylist()) == ["cuore", "febbre", "polmonite", "tumore"]
    types = made.side_table("semantic_types")
    found = sorted(zip(types["concept"].to_pylist(), types["semantic_type"].to_pylist(), strict=True))
    assert found == [
        (0, "Body Part, Organ, or Organ Component"),
        (1, "Sign or Symptom"),
        (2, "Pathologic Function"),
        (3, "Pathologic Function"),
    ]
    # Relations of whatever source.
    assert len(made.triples) == 2
    with pytest.raises(InputError, match="ICPCGER"):
        italian.grouped(umls(tmp_path / "w"), ["ICPCGER"])


def row(name: str, *, seeded: bool = True, **figures: dict[int, float]) -> dict[str, Any]:
    seeds = sorted({seed for of_seed in figures.values() for seed in of_seed})
    return {"name": name, "title": name.upper(), "seeds": seeds, "seeded": seeded, "figures": figures}


def test_the_tables_are_those_of_the_numbers() -> None:
    rows = [
        row("base", seeded=False, mcsm={0: 4.5}, **{"MCSM type=Finding": {0: 6.0}}),
        row("v1", mcsm={0: 5.0, 1: 5.5, 2: 6.0}, f1={0: 0.125, 1: 0.25, 2: 0.375}, **{"MCSM type=Finding": {0: 6.5}}),
        row("v3", mcsm={0: 6.0, 1: 6.0, 2: 8.0}, f1={0: 0.5}),
    ]
    figures = {"hits@1": 0.0714, "MR": 1918.4, "MRR": 0.16, "MCSM": 9.96, "UMNSRS relatedness": 0.449}
    graphs = [row("complex", **{name: {0: value} for name, value in figures.items()})]
    text = italian.markdown(rows, graphs, italian.orderings(rows))
    lines = text.splitlines()
    assert "| row | n | MCSM | clustering F1 |" in lines
    assert "| BASE | 1 | 4.50 | – |" in lines
    assert "| V1 | 3 | 5.50 ± 0.50 | 25.0 ± 12.5 |" in lines
    assert "| V3 | 3 | 6.67 ± 1.15 | 50.0 |" in lines
    assert "| type | BASE | V1 | V3 |" in lines
    assert "| Finding | 6.00 | 6.50 | – |" in lines
    assert "| mean of the types | 4.50 | 5.50 ± 0.50 | 6.67 ± 1.15 |" in lines
    assert "| row | n | hits@1 | MR | MRR | MCSM | UMNSRS relatedness |" in lines
    assert "| COMPLEX | 1 | 0.071 | 1918 | 0.160 | 9.96 | 0.45 |" in lines
    # 1, 0.5 and 2: 1.17, standard error 0.44, with Student's 4.30 for two degrees of freedom.
    assert "| V3 over V1 | MCSM | +1.17 [-0.73, +3.06] | 3 | cannot be told | table 3 |" in lines
    assert "| V3 over V1 | clustering F1 | +37.5 | 1 | cannot be told | table 3 |" in lines
    less = italian.markdown(rows[2:], [], [])
    assert "## Graph models" not in less
    assert "## MCSM by type" not in less
