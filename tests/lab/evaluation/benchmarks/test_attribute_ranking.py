"""Attribute ranking: what is asked, the ranks of systems with and without a projection, and what is told."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from alphita.encoder.encoder import TermEncoder
from alphita.errors import InputError, UsageError
from alphita.search import projection as projections
from alphita.terminology import splits
from alphita.terminology.loaders import products
from alphita.terminology.splits import Split
from alphita.terminology.store import Terminology
from alphita.terminology.text import DEFAULT_RULES, clean
from alphita_lab.evaluation.benchmarks import Source
from alphita_lab.evaluation.benchmarks import attribute_ranking as benchmark
from alphita_lab.evaluation.scoring.results import figures_of
from alphita_lab.evaluation.systems import VectorSystem, load_system
from alphita_lab.evaluation.systems.encoder import EncoderSystem
from alphita_lab.objectives.attribute_prediction import AttributeProjection
from tests.reference import attribute_prediction as reference
from tests.tables import loaded
from tests.tiny import FINDINGS, SITES, spread, tiny_model


@pytest.fixture(scope="module")
def terminology(tmp_path_factory: pytest.TempPathFactory) -> Terminology:
    folder = tmp_path_factory.mktemp("products")
    lines = ["title\tattribute_name\tattribute_values"]
    for number, site in enumerate(SITES):
        for finding, learned in FINDINGS:
            title = f"{learned.title()} Remedy {number}"
            lines.append(f"{title}\tIndication\t{site} {finding}|{site} {learned}|{SITES[number - 1]} {learned}")
            lines.append(f"{title}\tsite\t{site}|{SITES[number - 2]}")
    (folder / "x.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return loaded(products, [folder / "x.tsv"], folder / "x.terminology")


@pytest.fixture(scope="module")
def split(terminology: Terminology) -> Split:
    return splits.with_triples(Split([], [], []), terminology, fraction=0.3, seed=1)


@pytest.fixture(scope="module")
def held_out(split: Split, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("split") / "x.split"
    split.save(path)
    return path


def source(terminology: Terminology | None) -> Source:
    return Source(None, terminology, "attribute_ranking", "somewhere")


class Known:
    """Knows the answers: pairs that are held out are similar, others are not, some it cannot represent."""

    name, rules = "known", DEFAULT_RULES

    def __init__(self, answers: set[tuple[str, str]]) -> None:
        self.facts, self.answers = {"kind": "test"}, answers

    def neighbours(self, queries: Sequence[str], terms: Sequence[str], k: int) -> tuple[np.ndarray, np.ndarray]:
        raise NotImplementedError

    def similarity(self, left: Sequence[str], right: Sequence[str]) -> np.ndarray:
        found = [float((one, other) in self.answers) for one, other in zip(left, right, strict=True)]
        return np.array([np.nan if "remedy 0" in one else value for one, value in zip(left, found, strict=True)])


def named(terminology: Terminology, split: Split) -> set[tuple[str, str, str]]:
    return {
        (clean(terminology.concept(h).name), label.replace("_", " "), clean(terminology.concept(t).name))
        for h, label, t in split.triples
    }


def test_the_held_out_triples_are_asked(terminology: Terminology, split: Split, held_out: Path) -> None:
    options = benchmark.Options(held_out=held_out)
    data = benchmark.load(source(terminology), options)
    table, asked = data.table, data.questions
    found = {(table.strings[t], table.names[n], table.strings[v]) for t, n, v in asked.triples.tolist()}
    assert found == named(terminology, split)
    assert len(found) == len(split.triples) > 10
    assert asked.candidates.shape == (len(found), 100)
    assert data.notes["with fewer than 100 candidates"] == asked.short == len(found)
    assert data.notes["split"] == split.hash
    everything = {(t, n, v) for t, n, v in table.triples.tolist()}
    for (title, attribute, value), row in zip(asked.triples.tolist(), asked.candidates.tolist(), strict=True):
        assert [one for one in row if (title, attribute, one) in everything] == [value]
    # How often each candidate is a value in what is not held out.
    training = [
        row for row in table.triples.tolist() if tuple(row) not in {tuple(one) for one in asked.triples.tolist()}
    ]
    for row, (_, attribute, _) in enumerate(asked.triples.tolist()):
        for place, candidate in enumerate(asked.candidates[row].tolist()):
            assert data.often[row, place] == sum((n, v) == (attribute, candidate) for _, n, v in training)


def test_ranks_of_a_system_that_compares_pairs(terminology: Terminology, split: Split, held_out: Path) -> None:
    options = benchmark.Options(held_out=held_out, candidates=5)
    data = benchmark.load(source(terminology), options)
    system = Known({(f"{title} {name}", value) for title, name, value in named(terminology, split)})
    result = benchmark.evaluate(data, system, options)
    without = result.rows["title"].str.contains("Remedy 0")
    assert 0 < without.sum() < len(result.rows)
    assert result.rows.filter(~without)["rank"].to_list() == [1.0] * int((~without).sum())
    assert (
        result.rows.filter(without)["rank"].to_list() == ((result.rows.filter(without)["candidates"] + 1) / 2).to_list()
    )
    assert result.rows.filter(~without)["nearest"].equals(result.rows.filter(~without)["value"], check_names=False)
    assert (
        result.rows.filter(without)["nearest"].null_count()
        == without.sum()
        == result.notes["questions without an answer"]
    )
    assert result.notes["ranked by"] == "similarity of title with attribute, and value"
    assert result.notes["trained with this split"] == "not known"
    values = {(one.metric, one.subset): one.value for one in figures_of(result)}
    assert values["accuracy@1", "all"] == pytest.approx(1 - without.mean())
    assert {("MRR", "frequent_attribute=indication"), ("hits@10", "shares_a_word=no")} <= values.keys()
    plain = [
        reference.realistic_rank([-float(one) for one, there in zip(often, row, strict=True) if there >= 0])
        for often, row in zip(data.often, data.questions.candidates, strict=True)
    ]
    assert values["MRR", "value frequency alone"] == pytest.approx(np.mean([1 / rank for rank in plain]))


class Vectors(Known):
    """Vectors of all lengths, none of "remedy 0"."""

    def __init__(self) -> None:
        super().__init__(set())

    def encode(self, strings: Sequence[str]) -> np.ndarray:
        rows = [np.random.default_rng(list(string.encode())).normal(size=3) * len(string) ** 3 for string in strings]
        return np.array(
            [row * (np.nan if "remedy 0" in string else 1) for row, string in zip(rows, strings, strict=True)]
        )


def test_vectors_are_compared_by_cosine(terminology: Terminology, held_out: Path) -> None:
    options = benchmark.Options(held_out=held_out)
    data = benchmark.load(source(terminology), options)
    system = Vectors()
    assert isinstance(system, VectorSystem)
    result = benchmark.evaluate(data, system, options)
    table = data.table
    for number, (title, name, _) in enumerate(data.questions.triples.tolist()):
        head = system.encode([f"{table.strings[title]} {table.names[name]}"])[0]
        if np.isnan(head).any():
            assert result.rows["nearest"][number] is None
            continue
        values = [
            system.encode([table.strings[one]])[0] for one in data.questions.candidates[number].tolist() if one >= 0
        ]
        cosines = [float(head @ value) / float(np.linalg.norm(head) * np.linalg.norm(value)) for value in values]
        assert result.rows["rank"][number] == reference.realistic_rank([-round(one, 9) for one in cosines])


def system_of(model: Path) -> EncoderSystem:
    system = load_system(f"{model},precision=fp32")
    assert isinstance(system, EncoderSystem)
    return system


def projecting(folder: Path, *, onnx: bool = False) -> Path:
    """Make a model of vectors of length 1, with a projection."""
    encoder = TermEncoder.load(spread(tiny_model(folder / "tiny")), precision="fp32", pooling="cls")
    encoder.settings = dataclasses.replace(encoder.settings, normalize=True)
    encoder.save(folder / "model", onnx=onnx)
    torch.manual_seed(1)
    save_file(AttributeProjection(32, 8).state_dict(), folder / "model" / "attribute_projection.safetensors")
    return folder / "model"


def test_a_model_on_onnx_ranks_by_its_projection(terminology: Terminology, held_out: Path, tmp_path: Path) -> None:
    pytest.importorskip("onnx")
    options = benchmark.Options(held_out=held_out, candidates=6)
    data = benchmark.load(source(terminology), options)
    model = projecting(tmp_path, onnx=True)
    system = load_system(f"{model},precision=int8")
    assert isinstance(system, EncoderSystem)
    assert system.encoder.precision == "int8"
    result = benchmark.evaluate(data, system, options)
    assert result.notes["ranked by"] == "distance of projected vectors"
    encoder, table = projections.unscaled(system.encoder), data.table
    f = projections.read(system.encoder)
    assert f is not None
    found, _ = benchmark._distances(data, system)
    for number, (title, name, _) in enumerate(data.questions.triples.tolist()):
        t, n = table.strings[title], table.names[name]
        parts = encoder.encode([f"{t} {n}"]).astype(np.float64)
        values = [table.strings[one] for one in data.questions.candidates[number].tolist() if one >= 0]
        distances = [
            reference.d(parts.sum(axis=0), value, f.weight.astype(float), f.bias.astype(float))
            for value in encoder.encode(values).astype(np.float64)
        ]
        np.testing.assert_allclose(found[number, : len(values)], distances, rtol=1e-4, atol=1e-4)


def test_an_encoder_ranks_by_its_projection_where_it_has_one(terminology, held_out, tmp_path) -> None:
    TermEncoder.load(spread(tiny_model(tmp_path / "tiny")), precision="fp32", pooling="cls").save(
        tmp_path / "model", onnx=False
    )
    options = benchmark.Options(held_out=held_out, candidates=6)
    data = benchmark.load(source(terminology), options)
    table, asked = data.table, data.questions
    plain = benchmark.evaluate(data, system_of(tmp_path / "model"), options)
    assert plain.notes["ranked by"] == "similarity of title with attribute, and value"
    torch.manual_seed(1)
    projection = AttributeProjection(32, 8)
    save_file(projection.state_dict(), tmp_path / "model" / "attribute_projection.safetensors")
    trained = benchmark.evaluate(data, system_of(tmp_path / "model"), options)
    assert trained.notes["ranked by"] == "distance of projected vectors"
    encoder = TermEncoder.load(tmp_path / "model", precision="fp32")
    W, b = (tensor.detach().double().numpy() for tensor in (projection.dense.weight, projection.dense.bias))

    def encoded(text: str) -> np.ndarray:
        with torch.no_grad():
            return encoder.module(*encoder.pad(encoder.tokenize([text])))[0].double().numpy()

    for number, (title, name, _) in enumerate(asked.triples.tolist()):
        t, n = table.strings[title], table.names[name]
        values = [encoded(table.strings[one]) for one in asked.candidates[number].tolist() if one >= 0]
        head = encoded(f"{t} {n}")
        distances = [reference.d(head, value, W, b) for value in values]
        assert trained.rows["rank"][number] == reference.realistic_rank(distances)
        head = encoded(f"{t} {n}")
        cosines = [float(head @ value / np.linalg.norm(head) / np.linalg.norm(value)) for value in values]
        assert plain.rows["rank"][number] == reference.realistic_rank([-one for one in cosines])


def test_a_model_says_whether_it_was_trained_with_the_split(terminology, split, held_out) -> None:
    options = benchmark.Options(held_out=held_out, max_test=3)
    data = benchmark.load(source(terminology), options)
    for trained, expected in (({"split": split.hash}, True), ({"split": None}, False)):
        system = Known(set())
        system.facts["trained"] = trained
        assert benchmark.evaluate(data, system, options).notes["trained with this split"] is expected


def test_a_sample_and_named_attributes(terminology: Terminology, held_out: Path) -> None:
    options = benchmark.Options(held_out=held_out, attributes="site", max_test=2, candidates=3)
    data = benchmark.load(source(terminology), options)
    assert data.table.labels == ["site"]
    assert data.questions.candidates.shape == (2, 3)
    again = benchmark.load(source(terminology), options)
    assert np.array_equal(data.questions.candidates, again.questions.candidates)


def test_bad_input(terminology: Terminology, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="needs a terminology"):
        benchmark.load(source(None), benchmark.Options())
    with pytest.raises(UsageError, match=r"attribute_ranking\.held_out=X\.split"):
        benchmark.load(source(terminology), benchmark.Options())
    Split([], [], []).save(tmp_path / "empty.split")
    with pytest.raises(InputError, match="holds no triples out"):
        benchmark.load(source(terminology), benchmark.Options(held_out=tmp_path / "empty.split"))
    rows = [row for row in range(terminology.n_concepts) if terminology.concept(row).name == SITES[0]]
    triple = terminology.incoming(rows[0])[0].tolist()
    ids = (terminology.concept_id(triple[0]), "site", terminology.concept_id(triple[2]))
    Split([], [], [], triples=[ids]).save(tmp_path / "one.split")
    with pytest.raises(InputError, match="none of the split's held-out triples"):
        benchmark.load(source(terminology), benchmark.Options(held_out=tmp_path / "one.split", attributes="indication"))
    with pytest.raises(UsageError, match="unknown attribute"):
        benchmark.load(source(terminology), benchmark.Options(held_out=tmp_path / "one.split", attributes="colour"))
