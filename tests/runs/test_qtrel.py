from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import qtrel as bench
from alphita import config
from alphita.search import catalogue
from alphita.terminology.splits import Split
from alphita.terminology.store import Terminology
from alphita.terminology.text import clean
from alphita_lab.evaluation.benchmarks import Source, load_benchmark
from tests.search.conftest import products_of
from tests.tiny import tiny_model

SITES = ["heart", "liver", "kidney", "skin", "brain", "lung", "bone", "eye"]
SIZES = {name: {"train": 60, "dev": 12, "test": 16} for name in bench.SETS}


@pytest.fixture(scope="module")
def terminology(tmp_path_factory: pytest.TempPathFactory) -> Terminology:
    rng = np.random.default_rng(1)
    rows = []
    for number in range(120):
        site = SITES[number % 8]
        other = SITES[int(rng.integers(8))]
        rows.append((f"Remedy {number} for the {site}", "indication", f"{site} pain|{other} swelling"))
        rows.append((f"Remedy {number} for the {site}", "maker", f"Firm {int(rng.integers(6))}"))
    return products_of(rows, tmp_path_factory.mktemp("products") / "p.terminology")


@pytest.fixture(scope="module")
def made(terminology: Terminology, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("sets")
    found = catalogue.collect(terminology, attributes=["indication"])
    counts = bench.write_sets(terminology, found, out, seed=3, sizes=SIZES)
    (out / "counts.json").write_text(json.dumps(counts))
    return out


def rows_of(path: Path) -> list[tuple[str, str, str]]:
    return [tuple(line.split("\t")) for line in path.read_text(encoding="utf-8").splitlines()[1:]]  # type: ignore[misc]


def test_terms_are_words_and_chinese_characters() -> None:
    assert bench.terms("Heart-pain, 5 mg; 头痛 vitamin_B12") == {
        *["heart", "pain", "5", "mg", "头", "痛", "vitamin", "b12"]
    }
    assert bench.terms("中耳炎tablet") == {"中", "耳", "炎", "tablet"}
    assert bench.terms("...") == frozenset()


def test_labels_are_the_tables_and_no_title_is_in_two_parts(terminology: Terminology, made: Path) -> None:
    found = catalogue.collect(terminology)
    values: dict[str, set[str]] = {}
    for product, _, value in found.triples.tolist():
        values.setdefault(found.titles[product], set()).add(clean(found.values[value]))
    parts: dict[str, set[str]] = {part: set() for part in bench.PARTS}
    for name in bench.SETS:
        for part in bench.PARTS:
            rows = rows_of(made / f"{name}.{part}.tsv")
            assert 0 < len(rows) <= SIZES[name][part]
            assert len({row[:2] for row in rows}) == len(rows)
            parts[part] |= {title for _, title, _ in rows}
            for query, title, label in rows:
                assert label == str(int(query in values[title]))
                assert query == clean(query)
                if name == bench.HARD:
                    assert not set(query.split()) & set(clean(title).split())
            # Of each query as many titles that have it as titles that have not.
            for query in {row[0] for row in rows}:
                labels = [label for asked, _, label in rows if asked == query]
                assert labels.count("1") == labels.count("0")
    assert not parts["train"] & parts["dev"]
    assert not parts["train"] & parts["test"]
    assert not parts["dev"] & parts["test"]
    assert len(parts["train"]) > len(parts["test"])
    counts = json.loads((made / "counts.json").read_text())
    assert counts["QTRel-hard.test"]["positives_without_a_query_term"] == 1.0
    assert counts["QTRel-easy.train"]["positives_without_a_query_term"] < 1.0
    assert counts["QTRel-easy.train"]["pairs"] == len(rows_of(made / "QTRel-easy.train.tsv"))


def test_what_the_test_parts_ask_is_held_out(terminology: Terminology, made: Path, tmp_path: Path) -> None:
    found = catalogue.collect(terminology)
    names = dict(zip([*found.product_ids, *found.value_ids], [*found.titles, *found.values], strict=True))
    held = {(clean(names[tail]), names[head]) for head, _, tail in Split.load(made / bench.SPLIT).triples}
    asked = {row[:2] for name in bench.SETS for row in rows_of(made / f"{name}.test.tsv") if row[2] == "1"}
    assert held == asked
    # Written once more they are the same; by another seed others, which the folder does not take.
    before = {path.name: path.read_bytes() for path in made.glob("*.tsv")}
    indications = catalogue.collect(terminology, attributes=["indication"])
    bench.write_sets(terminology, indications, made, seed=3, sizes=SIZES)
    assert {path.name: path.read_bytes() for path in made.glob("*.tsv")} == before
    bench.write_sets(terminology, indications, tmp_path, seed=4, sizes=SIZES)
    assert (tmp_path / "QTRel-easy.train.tsv").read_bytes() != before["QTRel-easy.train.tsv"]
    kept = {path.name: path.read_bytes() for path in tmp_path.glob("*.tsv")}
    with pytest.raises(bench.UsageError, match="holds out other triples"):
        bench.write_sets(terminology, indications, tmp_path, seed=3, sizes=SIZES)
    assert {path.name: path.read_bytes() for path in tmp_path.glob("*.tsv")} == kept


def test_the_benchmark_reads_the_sets(made: Path) -> None:
    module = load_benchmark("sentence_pair")
    data = module.load(Source(made, None, "sentence_pair", ""), module.Options())
    assert [one.name for one in data.sets] == list(bench.SETS)
    for one in data.sets:
        assert [(*example.texts, example.label) for example in one.train] == rows_of(made / f"{one.name}.train.tsv")
        assert len(one.test) == len(rows_of(made / f"{one.name}.test.tsv"))


@given(
    st.lists(st.tuples(st.integers(0, 3), st.sampled_from("abcd")), min_size=1, max_size=12),
    st.sets(st.sampled_from("abcd"), min_size=1),
    st.sets(st.sampled_from("abcd")),
)
def test_recall_and_reciprocal_rank_by_hand(rows: list[tuple[int, str]], right: set[str], ignored: set[str]) -> None:
    score, titles = np.array([float(one) for one, _ in rows]), [title for _, title in rows]
    ranking: list[str] = []
    for _, place in sorted((-float(one), place) for place, one in enumerate(score)):
        title = titles[place]
        if title not in ranking and (title in right or title not in ignored):
            ranking.append(title)
    places = [place for place, title in enumerate(ranking, 1) if title in right]
    recall = len([place for place in places if place <= 10]) / min(10, len(right))
    assert bench.found_at(score, titles, right, ignored) == (recall, 1 / places[0] if places else 0)


def test_products_that_a_route_does_not_know_have_no_place() -> None:
    assert bench.found_at(np.array([1.0, -np.inf]), ["a", "b"], {"b"}) == (0.0, 0.0)


def test_accuracy_is_that_of_the_benchmark(made: Path, tmp_path: Path) -> None:
    from alphita_lab.evaluation.scoring.results import figures_of
    from alphita_lab.evaluation.systems import load_system

    model = str(tiny_model(tmp_path / "tiny"))
    sets = ["runs=2", "epochs=2", "max_length=32", "batch_size=8", "learning_rate=0.01"]
    figures = bench.fine_tuned(model, made, sets)
    module = load_benchmark("sentence_pair")
    options = config.resolve(module.Options, sets=sets)
    data = module.load(Source(made, None, "sentence_pair", ""), options)
    found = {
        (one.metric, one.subset): one.value for one in figures_of(module.evaluate(data, load_system(model), options))
    }
    for name in bench.SETS:
        assert np.mean(figures[name]["accuracy"]) == pytest.approx(found["accuracy", f"dataset={name}"])
        assert np.mean(figures[name]["f1"]) == pytest.approx(found["F1", f"dataset={name}"])
        assert max(figures[name]["f1"]) == pytest.approx(found["F1", f"dataset={name}, maximum of runs"], abs=1e-4)
