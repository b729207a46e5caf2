from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from alphita.encoder.encoder import TermEncoder
from alphita.errors import InputError, UsageError
from alphita.terminology.splits import Split, hold_out_synonyms
from alphita_lab.graph.store import EntityVectors
from alphita_lab.training.engine.ranks import Ranks
from alphita_lab.training.mentions import injection
from alphita_lab.training.mentions.injection import InjectionSteps, LinkedMentions, apart, inject, linking_accuracy
from alphita_lab.training.mentions.store import Mentions
from alphita_lab.training.text.corpora import open_tokenizer
from alphita_lab.training.text.masked_language import NOT_MASKED, MaskedLanguageHead, masking_of
from alphita_lab.training.text.masked_steps import SequenceBatches
from tests.lab.training.gradients import gradients_of, stepped
from tests.lab.training.linked_texts import graph_of, mentions_of
from tests.tables import terminology_of
from tests.tiny import tiny_terminology


@pytest.fixture(scope="module")
def mentions(tmp_path_factory, terminology, undropped) -> Path:
    return mentions_of(terminology, undropped, tmp_path_factory.mktemp("data") / "x.mentions")


@pytest.fixture(scope="module")
def graph(tmp_path_factory, terminology) -> Path:
    """Three of four concepts, and some that the terminology lacks."""
    ids = [terminology.concept_id(row) for row in range(terminology.n_concepts) if row % 4]
    return graph_of([*ids, "A:1", "Z:1"], tmp_path_factory.mktemp("data") / "x.vectors")


@pytest.fixture(scope="module")
def data(mentions, graph, terminology, undropped) -> LinkedMentions:
    encoder = TermEncoder.load(undropped, precision="fp32")
    return injection.read_linked(str(mentions), str(graph), terminology, encoder.tokenizer_hash)


def steps_over(undropped: Path, data: LinkedMentions, *, seed: int = 0, size: int = 6, **settings) -> InjectionSteps:
    torch.manual_seed(0)
    encoder = TermEncoder.load(undropped, precision="fp32", device="cpu")
    head = MaskedLanguageHead.of(encoder, seed=0)
    tokenizer, _, specials = open_tokenizer(undropped)
    injected = inject(encoder, np.asarray(data.entities), layer=1, nearest=5)
    rows = np.arange(len(data.mentions.sequences))
    batches = SequenceBatches(rows, batch=size, seed=seed)
    return InjectionSteps(
        injected.double(), head.double(), data, batches, masking_of(tokenizer, specials), seed=seed, **settings
    )


def modules(steps: InjectionSteps) -> dict[str, torch.nn.Module]:
    return {"encoder": steps.injected, "head": steps.head}


def run(steps: InjectionSteps, number: int, share: float = 1.0) -> tuple[dict[str, float], dict[str, torch.Tensor]]:
    return stepped(steps, modules(steps), number, share)


def naive(steps: InjectionSteps, number: int, *, total: bool) -> tuple[float, float]:
    """(language, linking) with gradients added, one sequence, token and mention after the other."""
    batch = steps.draw(number)
    entities = steps.injected.injection.entities.double()
    guesses, links = [], []
    for row in range(len(batch.input_ids)):
        length = int(batch.attention_mask[row].sum())
        here = np.flatnonzero(batch.mentions[:, 0] == row)
        spans = batch.mentions[here].copy()
        spans[:, 0] = 0
        found = steps.injected(torch.from_numpy(batch.input_ids[row : row + 1, :length]), None, torch.from_numpy(spans))
        for place in range(length):
            if (true := int(batch.labels[row, place])) != NOT_MASKED:
                scores = steps.head(found.last_hidden_state[0, place : place + 1])[0]
                guesses.append(scores.exp().sum().log() - scores[true])
        for projected, gold in zip(found.projected, batch.gold[here].tolist(), strict=True):
            if gold >= 0:
                similarity = torch.stack([projected @ entity for entity in entities])
                links.append(similarity.exp().sum().log() - similarity[gold])
    language, linking = torch.stack(guesses).mean(), torch.stack(links).sum()
    linking = linking if total else linking / len(links)
    (language + linking).backward()
    return float(language.detach()), float(linking.detach())


@pytest.mark.parametrize("linking", ["mean", "sum"])
@pytest.mark.parametrize("tokens_at_once", [0, 40, 1])
def test_loss_and_gradients_are_those_of_the_equations(undropped, data, linking, tokens_at_once) -> None:
    steps = steps_over(undropped, data, linking=linking, tokens_at_once=tokens_at_once)
    for number in (0, 17):
        scalars, found = run(steps, number, 0.5)
        for module in (steps.injected, steps.head):
            module.zero_grad(set_to_none=True)
        language, link = naive(steps, number, total=linking == "sum")
        assert scalars["language"] == pytest.approx(language, rel=1e-5)
        assert scalars["linking"] == pytest.approx(link, rel=1e-5)
        assert scalars["loss"] == pytest.approx(language + link, rel=1e-5)
        assert scalars["rows"] == len(steps.draw(number).mentions)
        wanted = gradients_of(modules(steps))
        assert set(found) == set(wanted)
        for name, value in wanted.items():
            np.testing.assert_allclose(found[name], 0.5 * value, atol=2e-6, err_msg=name)
        for part in ("injection.down.weight", "injection.up.weight", "model.encoder.layer.1.output.dense.weight"):
            assert found[f"encoder.{part}"].abs().max() > 1e-5
    assert not steps.injected.injection.entities.requires_grad


def test_two_processes_have_the_gradients_of_one(undropped, data) -> None:
    class Alone(Ranks):
        def gather(self, own, shares):
            return own

    whole, wanted = run(steps_over(undropped, data), 3)
    both = [run(steps_over(undropped, data, ranks=Alone(rank, 2)), 3) for rank in range(2)]
    assert both[0][0]["loss"] + both[1][0]["loss"] == pytest.approx(whole["loss"], rel=1e-5)
    for name, value in wanted.items():
        mean = (both[0][1].get(name, 0.0) + both[1][1].get(name, 0.0)) / 2
        np.testing.assert_allclose(mean, value, atol=2e-6, err_msg=name)


def test_mentions_are_masked_whole_and_linked_all_the_same(undropped, data) -> None:
    steps = steps_over(undropped, data, size=10)
    masked_mentions = 0
    for number in range(12):
        batch = steps.draw(number)
        rows = steps.batches.batch(number).terms
        plain = data.mentions.sequences.batch(rows)
        guessed = batch.labels != NOT_MASKED
        np.testing.assert_array_equal(np.where(guessed, batch.labels, batch.input_ids), plain.input_ids)
        np.testing.assert_array_equal(batch.mentions, plain.mentions[:, :3])
        np.testing.assert_array_equal(batch.gold, data.gold[plain.mentions[:, 3]])
        for row, start, end in batch.mentions.tolist():
            assert guessed[row, start:end].all() == guessed[row, start:end].any()
            masked_mentions += bool(guessed[row, start])
        assert not guessed[np.isin(plain.input_ids, [0, 2, 3])].any()
        strings = [data.mentions.strings[form].as_py() for form in plain.mentions[:, 3]]
        assert set(steps.names(number)) == set(strings)
    assert masked_mentions > 20


@settings(max_examples=100, deadline=None)
@given(spans=st.lists(st.tuples(st.integers(0, 2), st.integers(0, 12), st.integers(1, 5)), max_size=8))
def test_spans_that_share_a_token_become_one(spans) -> None:
    given_spans = np.array([(row, start, start + size) for row, start, size in spans], np.int64).reshape(-1, 3)
    found = apart(given_spans)
    # Two tokens side by side are of one unit if and only if a span holds both.
    glued = {(row, place) for row, start, end in given_spans.tolist() for place in range(start, end - 1)}
    assert {(row, place) for row, start, end in found.tolist() for place in range(start, end - 1)} == glued
    covered = [(row, place) for row, start, end in found.tolist() for place in range(start, end)]
    assert len(covered) == len(set(covered))
    assert set(covered) == {(row, place) for row, start, end in given_spans.tolist() for place in range(start, end)}


def test_the_dev_score_is_the_share_of_mentions_linked_right(undropped, data) -> None:
    steps = steps_over(undropped, data)
    rows = np.arange(1, 20)
    right = total = 0
    steps.injected.train()
    for row in rows.tolist():
        one = data.mentions.sequences.batch([row])
        with torch.no_grad():
            found = steps.injected.eval()(
                torch.from_numpy(one.input_ids), None, torch.from_numpy(one.mentions[:, :3].copy())
            )
        similarity = found.projected.numpy() @ np.asarray(data.entities, np.float64).T
        for place, form in enumerate(one.mentions[:, 3].tolist()):
            total += data.gold[form] >= 0
            right += int(similarity[place].argmax()) == data.gold[form]
    assert total > 0
    assert linking_accuracy(steps.injected, data, rows, batch=7) == {"dev_linking_acc1": right / total}


def test_gold_is_the_entity_of_the_form(data, terminology, graph) -> None:
    vectors = EntityVectors.load(graph)
    for form, string in enumerate(data.mentions.strings.to_pylist()):
        (row,) = terminology.search(string)
        concept = terminology.concept_id(row)
        assert data.gold[form] == (vectors.ids.index(concept) if concept in vectors.ids else -1)
    forms = np.asarray(data.mentions.sequences.mentions[:, 2])
    assert data.counts["mentions"] == len(forms)
    assert data.counts["without_entity"] == int((data.gold[forms] < 0).sum()) > 0
    assert data.counts["homonyms"] == 0
    concepts = set(data.mentions.concept_ids)
    assert data.counts["concepts_with_entity"] == len(concepts & set(vectors.ids)) < data.counts["concepts"]
    assert data.counts["entities"] == len(data.entities) == len(vectors.ids)
    told = " ".join(data.lines())
    assert f"{data.counts['without_entity']:,} whose concept the graph lacks" in told


def test_homonyms_are_not_linked(undropped, tmp_path) -> None:
    rows = [("T:1", "cold", "en"), ("T:2", "cold", "en"), ("T:2", "chill", "en"), ("T:3", "fever", "en")]
    terminology = terminology_of(rows, tmp_path / "t.terminology")
    texts = ["the cold was seen, then fever and chill", "cold again"]
    made = mentions_of(terminology, undropped, tmp_path / "t.mentions", texts=texts, ambiguous="keep")
    graph = graph_of(["T:1", "T:2"], tmp_path / "t.vectors")
    data = injection.read_linked(str(made), str(graph), terminology, Mentions.load(made).manifest["tokenizer_hash"])
    assert dict(zip(data.mentions.strings.to_pylist(), data.gold.tolist(), strict=True)) == {
        "chill": 1,
        "cold": -1,
        "fever": -1,
    }
    assert (data.counts["mentions"], data.counts["homonyms"], data.counts["without_entity"]) == (4, 2, 1)
    only = graph_of(["T:1"], tmp_path / "only.vectors")
    with pytest.raises(InputError, match=r"no mention .* names one concept that the graph has"):
        injection.read_linked(str(made), str(only), terminology, data.mentions.manifest["tokenizer_hash"])


def test_what_does_not_fit_together_is_refused(mentions, graph, terminology, undropped, tmp_path) -> None:
    tokenizer = Mentions.load(mentions).manifest["tokenizer_hash"]

    def read(mentions=mentions, graph=graph, tokenizer=tokenizer, split: Split | None = None) -> LinkedMentions:
        return injection.read_linked(str(mentions), str(graph), terminology, tokenizer, split=split)

    with pytest.raises(UsageError, match=r"no mentions are given.*--sequence-tokens"):
        read(mentions="")
    with pytest.raises(UsageError, match=r"no vectors .* are given.*alphita graph train"):
        read(graph="")
    with pytest.raises(InputError, match="another tokenizer"):
        read(tokenizer="of another")
    with pytest.raises(InputError, match="this is a"):
        read(mentions=graph)
    other = tiny_terminology(tmp_path / "other.terminology", types=True)
    with pytest.raises(InputError, match="made with another terminology"):
        read(mentions=mentions_of(other, undropped, tmp_path / "other.mentions"))
    split = hold_out_synonyms(terminology, fraction=0.3, seed=1)
    with pytest.raises(InputError, match="made without a split, and training has one"):
        read(split=split)
    with_split = mentions_of(terminology, undropped, tmp_path / "split.mentions", split=split)
    with pytest.raises(InputError, match="made with a split, and training has none"):
        read(mentions=with_split)
    held = read(mentions=with_split, split=split)
    assert not {string.lower() for string in held.mentions.strings.to_pylist()} & split.cleaned
    with pytest.raises(InputError, match="no sequences, only windows"):
        read(mentions=mentions_of(terminology, undropped, tmp_path / "windows.mentions", sequence_tokens=0))
    with pytest.raises(InputError, match="none of the 2 concepts of these vectors"):
        read(graph=graph_of(["A:1", "A:2"], tmp_path / "a.vectors"))


def test_a_graph_must_be_trained_without_the_triples_held_out(terminology, undropped, tmp_path) -> None:
    ids = [terminology.concept_id(row) for row in range(terminology.n_concepts)]
    split = Split([], [], [], {}, [(ids[1], "is_a", ids[0])])
    made = mentions_of(terminology, undropped, tmp_path / "x.mentions", split=split)
    tokenizer = Mentions.load(made).manifest["tokenizer_hash"]
    leaky, clean = (graph_of(ids, tmp_path / f"{name}.vectors", split=name) for name in ("another", split.hash))
    with pytest.raises(InputError, match="without this split, which holds triples out"):
        injection.read_linked(str(made), str(leaky), terminology, tokenizer, split=split)
    assert injection.read_linked(str(made), str(clean), terminology, tokenizer, split=split).counts["sequences"] > 0
