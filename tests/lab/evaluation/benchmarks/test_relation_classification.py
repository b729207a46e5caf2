"""Relation classification: files of DDBRC's layout, a terminology's triples, training, and metrics."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split

from alphita.encoder.encoder import TermEncoder
from alphita.errors import AlphitaError, InputError, UsageError
from alphita.terminology import splits
from alphita.terminology.store import Terminology
from alphita_lab.evaluation.benchmarks import Source
from alphita_lab.evaluation.benchmarks import relation_classification as benchmark
from alphita_lab.evaluation.benchmarks.relation_classification import ClassifierSettings, Examples
from alphita_lab.evaluation.scoring.results import figures_of
from alphita_lab.evaluation.systems.encoder import EncoderSystem
from tests.lab.evaluation.hash_systems import HashedConcepts, Hashes
from tests.lab.evaluation.small_terminologies import imported, stanza
from tests.tiny import tiny_model

FIXTURES = Path(__file__).parents[3] / "fixtures" / "benchmarks"
FOLDER = FIXTURES / "relation_classification"


def source(data: Path | None = FIXTURES, terminology: Terminology | None = None) -> Source:
    return Source(data, terminology, "relation_classification", "somewhere")


OPTIONS = benchmark.Options(names="names.tsv", epochs=3)


def test_files_of_the_released_split_are_read_as_they_stand() -> None:
    data = benchmark.load(source(), OPTIONS)
    lines = (FOLDER / "x_test.txt").read_text().splitlines()
    labels = (FOLDER / "y_test.txt").read_text().splitlines()
    assert [data.concepts[row] for row in data.test.heads] == [line.split("\t")[0] for line in lines]
    assert [data.concepts[row] for row in data.test.tails] == [line.split("\t")[1] for line in lines]
    assert [data.relations[row] for row in data.test.relations] == labels
    assert (len(data.train), len(data.test)) == (31, 8)
    assert data.terms is not None
    assert [one for one, term in zip(data.concepts, data.terms, strict=True) if term is None] == ["C9999999"]


@pytest.mark.parametrize("split", ["random", "stratified"])
def test_the_whole_file_is_split_as_the_released_code_does(split: str) -> None:
    options = OPTIONS.model_copy(update={"split": split, "names": "../names.tsv"})
    data = benchmark.load(source(FOLDER / "whole"), options)
    lines = (FOLDER / "whole" / "relation_all.txt").read_text().splitlines()[1:]
    triples = [line.split("|")[:3] for line in lines if line.endswith("|diseasedb")]
    labels = [relation for _, relation, _ in triples]
    _, test = train_test_split(
        triples, test_size=0.2, random_state=72, stratify=labels if split == "stratified" else None
    )
    ours = zip(data.test.heads, data.test.relations, data.test.tails, strict=True)
    assert [[data.concepts[h], data.relations[r], data.concepts[t]] for h, r, t in ours] == test


def test_random_terms_are_seeded_and_of_the_concept() -> None:
    names: dict[str, list[str]] = {}
    for line in (FOLDER / "names.tsv").read_text().splitlines():
        names.setdefault(line.split("\t")[0], []).append(line.split("\t")[1])
    chosen = []
    for seed in (1, 1, 2):
        data = benchmark.load(source(), OPTIONS.model_copy(update={"seed": seed}))
        assert data.terms is not None
        assert all(term is None or term in names[one] for one, term in zip(data.concepts, data.terms, strict=True))
        chosen.append(data.terms)
    assert chosen[0] == chosen[1] != chosen[2]
    first = benchmark.load(source(), OPTIONS.model_copy(update={"name": "preferred"}))
    assert first.terms == [names[one][0] if one in names else None for one in first.concepts]


def test_benchmark_with_vectors_of_terms() -> None:
    options = OPTIONS.model_copy(update={"epochs": 50})
    data = benchmark.load(source(), options)
    result = benchmark.evaluate(data, Hashes(), options)
    assert len(result.rows) == 8
    assert result.notes["concepts_without_a_name_or_vector"] == 1
    uncovered = result.rows.filter(~result.rows["covered"])
    assert (uncovered["head"] == "C9999999").all()
    assert len(uncovered) == 1
    values = {(one.metric, one.subset): one.value for one in figures_of(result)}
    right = [a == b for a, b in zip(result.rows["relation"], result.rows["predicted"], strict=True)]
    assert values["accuracy", "all"] == np.mean(right)
    assert values["accuracy", "covered=False"] is not None
    again = benchmark.evaluate(data, Hashes(), options)
    assert again.rows.equals(result.rows)


def test_benchmark_with_vectors_of_concepts_needs_no_names() -> None:
    options = benchmark.Options(epochs=2, fine_tune=True)
    data = benchmark.load(source(), options)
    assert data.terms is None
    result = benchmark.evaluate(data, HashedConcepts(lambda one: one.endswith("1")), options)
    without = sum(one.endswith("1") for one in data.concepts)
    assert result.notes["concepts_without_a_name_or_vector"] == without > 0
    assert [metric.name for metric in result.metrics] == [
        "accuracy",
        "macro F1",
        "accuracy, fine-tuned",
        "macro F1, fine-tuned",
    ]
    with pytest.raises(UsageError, match="needs names"):
        benchmark.evaluate(data, Hashes(), options)


def test_fine_tuning_leaves_the_system_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    load = TermEncoder.load
    encoder = load(tiny_model(tmp_path / "model"), pooling="cls", max_length=9, precision="fp32")
    copies = []
    monkeypatch.setattr(TermEncoder, "load", lambda *args, **named: copies.append(load(*args, **named)) or copies[-1])
    system = EncoderSystem(encoder, "tiny", rules=("lowercase",), facts={})
    before = encoder.encode(["heart pain"])
    options = OPTIONS.model_copy(update={"fine_tune": True, "epochs": 2})
    data = benchmark.load(source(), options)
    result = benchmark.evaluate(data, system, options)
    assert "right_fine_tuned" in result.rows.columns
    np.testing.assert_array_equal(encoder.encode(["heart pain"]), before)
    assert [(copy.pooling, copy.max_length, copy.precision) for copy in copies] == [("cls", 9, "fp32")]
    assert copies[0].content_hash != encoder.content_hash
    again = benchmark.evaluate(data, system, options)
    assert again.rows.equals(result.rows)
    legacy = load(tmp_path / "model", pooling="legacy_coder", precision="fp32")
    with pytest.raises(UsageError, match="legacy_coder"):
        benchmark.evaluate(data, EncoderSystem(legacy, "legacy", rules=(), facts={}), options)


def separable(n: int = 300, seed: int = 0) -> tuple[np.ndarray, Examples, Examples]:
    """Concepts in three groups; the relation tells whether the groups are equal, or which comes first."""
    rng = np.random.default_rng(seed)
    group = rng.integers(0, 3, 60)
    vectors = (rng.normal(size=(60, 5)) * 0.3).astype(np.float32)
    vectors[np.arange(60), group] += 2
    heads, tails = rng.integers(0, 60, (2, n))
    labels = np.where(group[heads] == group[tails], 0, np.where(group[heads] < group[tails], 1, 2))
    cut = n * 4 // 5
    parts = [Examples(heads[rows], tails[rows], labels[rows]) for rows in (slice(0, cut), slice(cut, n))]
    return vectors, parts[0], parts[1]


def test_the_linear_classifier_nears_the_one_of_scikit_learn() -> None:
    vectors, train, test = separable()
    predicted = benchmark.classify_vectors(
        vectors, train, test, ClassifierSettings(epochs=5000, seed=0, classes=3), decay=True, tune=False
    )
    features = [np.concatenate([vectors[one.heads], vectors[one.tails]], axis=1) for one in (train, test)]
    theirs = LogisticRegression(C=100, max_iter=5000).fit(features[0], train.relations).predict(features[1])
    ours, best = ((answer == test.relations).mean() for answer in (predicted, theirs))
    assert ours >= best - 0.05


def test_training_vectors_along_fits_what_a_linear_classifier_cannot() -> None:
    rng = np.random.default_rng(1)
    vectors = (rng.normal(size=(12, 6)) * 0.01).astype(np.float32)
    heads, tails = rng.integers(0, 12, (2, 200))
    labels = (heads % 2).astype(np.int64)
    examples = Examples(heads, tails, labels)
    settings = ClassifierSettings(epochs=300, seed=0, classes=2)
    accuracy = {}
    for tune in (False, True):
        given_vectors = vectors.copy()
        predicted = benchmark.classify_vectors(given_vectors, examples, examples, settings, decay=False, tune=tune)
        np.testing.assert_array_equal(given_vectors, vectors)
        accuracy[tune] = (predicted == labels).mean()
    assert accuracy[True] == 1 > accuracy[False]


def test_vectors_are_filled_and_rescaled() -> None:
    vectors = np.array([[3, 0], [np.nan, np.nan], [1, 2]], np.float32)
    filled = benchmark.filled(vectors)
    assert filled.tolist() == [[3, 0], [2, 1], [1, 2]]
    scaled = benchmark.rescaled(filled)
    assert (scaled**2).mean() == pytest.approx(1)
    assert scaled[0] / filled[0][0] == pytest.approx(scaled[2] / filled[2] * [1, 0])
    with pytest.raises(AlphitaError, match="none of the concepts"):
        benchmark.filled(np.full((2, 2), np.nan, np.float32))


@pytest.fixture(scope="module")
def terminology(tmp_path_factory: pytest.TempPathFactory) -> Terminology:
    """Forty concepts: even ones cause the next but one, each is below the one before; two pairs have both relations."""
    lines: list[str] = []
    for number in range(40):
        more = [f'synonym: "illness {number}" EXACT []', *([f"is_a: T:{number - 1:02d}"] if number else [])]
        if number % 2 == 0 and number < 38:
            more.append(f"relationship: causes T:{number + 2:02d}")
        if number in (10, 20):
            more.append(f"relationship: causes T:{number - 1:02d}")
        lines += stanza(f"T:{number:02d}", f"disorder {number}", *more, *["relationship: rare T:00"] * (number == 5))
    return imported(tmp_path_factory.mktemp("relations"), lines)


def test_triples_of_a_terminology(terminology: Terminology) -> None:
    options = benchmark.Options(triples="terminology", rare=5, epochs=2)
    data = benchmark.load(source(None, terminology), options)
    assert data.relations == ["causes", "is_a"]
    assert data.notes["triples_left_out_for_a_second_relation"] == 4
    assert data.notes["rare_relations_left_out"] == 1
    assert len(data.train) + len(data.test) == 39 + 21 - 4
    assert len(data.test) == 12
    sampled = benchmark.load(source(None, terminology), options.model_copy(update={"max_triples": 20}))
    assert len(sampled.train) + len(sampled.test) == 20
    result = benchmark.evaluate(data, Hashes(), options)
    assert result.rows["covered"].all()
    assert result.notes["test_pairs_also_in_train"] == 0


def test_held_out_triples_are_the_test_part(terminology: Terminology, tmp_path: Path) -> None:
    split = splits.with_triples(splits.Split([], [], []), terminology, fraction=0.3, seed=0)
    split.save(tmp_path / "x.split")
    options = benchmark.Options(triples="terminology", rare=5, epochs=2, held_out=tmp_path / "x.split")
    data = benchmark.load(source(None, terminology), options)
    pairs = {frozenset((head, tail)) for head, _, tail in split.triples}

    def of(part: benchmark.Examples) -> set[frozenset[str]]:
        ends = zip(part.heads, part.tails, strict=True)
        return {frozenset((data.concepts[head], data.concepts[tail])) for head, tail in ends}

    assert len(data.test) >= 5
    assert of(data.test) <= pairs
    assert not of(data.train) & pairs
    assert len(data.train) + len(data.test) == 39 + 21 - 4
    assert data.notes["split"] == split.hash
    assert data.notes["split, triples held out"] == len(split.triples)
    assert data.notes["split, triples not of this terminology"] == 0
    assert data.notes["test_pairs_also_in_train"] == data.notes["test_pairs_turned_round_in_train"] == 0
    notes = benchmark.evaluate(data, Hashes(), options).notes
    assert notes["test part"] == "held-out triples of a saved split"
    with pytest.raises(UsageError, match="triples=terminology"):
        benchmark.load(source(tmp_path), benchmark.Options(held_out=tmp_path / "x.split"))
    with pytest.raises(InputError, match="two relations to learn, and has 0 and 0"):
        benchmark.load(source(None, terminology), options.model_copy(update={"rare": 1000}))
    splits.Split(["a"], ["T:01"], ["test"]).save(tmp_path / "none.split")
    with pytest.raises(InputError, match="holds no triples out"):
        benchmark.load(source(None, terminology), options.model_copy(update={"held_out": tmp_path / "none.split"}))


def test_names_of_a_terminology(terminology: Terminology, tmp_path: Path) -> None:
    for part in ("train", "test"):
        (tmp_path / f"x_{part}.txt").write_text("T:01\tT:02\nT:03\tT:77\n")
        (tmp_path / f"y_{part}.txt").write_text("causes\nis_a\n")
    data = benchmark.load(source(tmp_path, terminology), benchmark.Options(name="preferred"))
    assert data.concepts == ["T:01", "T:02", "T:03", "T:77"]
    assert data.terms == ["disorder 1", "disorder 2", "disorder 3", None]
    assert data.notes["test_pairs_also_in_train"] == 2


def test_stratified_split_needs_two_of_each(tmp_path: Path) -> None:
    lines = ["cui1|rel|cui2|source", *(f"C{n}|may cause|D{n}|diseasedb" for n in range(9)), "C1|once|D2|diseasedb"]
    (tmp_path / "relation_all.txt").write_text("\n".join(lines))
    with pytest.raises(InputError, match="once"):
        benchmark.load(source(tmp_path), benchmark.Options(split="stratified"))
