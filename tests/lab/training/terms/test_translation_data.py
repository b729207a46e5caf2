"""What distillation trains on, from a terminology, its editions and files together."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from alphita.errors import InputError, Rejects
from alphita.terminology.splits import Split, hold_out_concepts
from alphita.terminology.store import Terminology
from alphita_lab.training.terms.aligned_pairs import AlignedPairs, Collected
from alphita_lab.training.terms.translation_data import (
    HELD_OUT,
    PairBatches,
    Wanted,
    accuracy,
    concepts_of,
    gather,
    hold_out,
    numbered,
)
from tests.doubles import HashEncoder
from tests.tables import terminology_of

NUMBERS = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
Rows = list[tuple[str, str, str, bool]]


def named(language: str, *, synonym: bool = False) -> Rows:
    rows = [(f"T:{place}", f"{number} {language}", language, True) for place, number in enumerate(NUMBERS)]
    return rows + [(one, f"other {string}", tag, False) for one, string, tag, _ in rows if synonym]


@pytest.fixture
def terminology(tmp_path: Path) -> Terminology:
    return terminology_of([*named("en", synonym=True), *named("it", synonym=True)], tmp_path / "t.terminology")


def test_all_kinds_of_pairs_stand_together_each_once(terminology: Terminology, tmp_path: Path) -> None:
    edition = terminology_of([*named("it"), *named("pt-BR")], tmp_path / "e.terminology")
    file = tmp_path / "p.tsv"
    file.write_text(
        "source\ttranslation\tlanguage\none en\tone it\tit\none en\tuno\tit\nlast\tletzte\tde\nsame\tsame\tde\n",
        encoding="utf-8",
    )
    with Rejects() as rejects:
        data = gather(terminology, Wanted("en", editions=[str(edition.path)], files=[str(file)]), rejects=rejects)
    # The labels of the terminology, those of the edition that are new, and the file's two.
    assert data.pairs.by_language() == {"de": 1, "it": 11, "pt-BR": 10}
    assert data.pairs.origins == ["t", "e", "p.tsv"]
    assert data.pairs.counts["duplicate"] == 11
    assert rejects.count == 1
    assert sorted(data.names) == sorted(f"other {number} en" for number in NUMBERS)
    assert set(data.made_of) == {str(edition.path), str(file)}
    assert data.lacking == []
    assert len(data.dev) == 0
    assert data.lines()[0] == "pairs: 22 (1 de, 11 it, 10 pt-BR)"


def test_languages_are_those_asked_for_from_wherever(terminology: Terminology, tmp_path: Path) -> None:
    edition = terminology_of([*named("pt-BR"), *named("es")], tmp_path / "e.terminology")
    file = tmp_path / "p.tsv"
    file.write_text("source\ttranslation\tlanguage\na b\tc d\tes\na b\te f\tpt-PT\n", encoding="utf-8")
    data = gather(terminology, Wanted("en", languages=["pt"], editions=[str(edition.path)], files=[str(file)]))
    assert data.pairs.by_language() == {"pt-BR": 10, "pt-PT": 1}
    # The terminology itself has none of them, which is told, and no error.
    assert len(data.lacking) == 1
    with pytest.raises(InputError, match=r"no translation is in this language.*'sv'"):
        gather(terminology, Wanted("en", languages=["it", "sv"]))


@pytest.mark.parametrize("seed", [0, 1])
def test_dev_pairs_train_in_no_way(terminology: Terminology, tmp_path: Path, seed: int) -> None:
    edition = terminology_of(named("de"), tmp_path / "e.terminology")
    data = gather(terminology, Wanted("en", editions=[str(edition.path)], dev=5, seed=seed))
    # Three concepts, each with both of its languages.
    assert data.dev.by_language() == {"de": 3, "it": 3}
    assert data.pairs.by_language() == {"de": 7, "it": 7}
    assert not {*data.dev.sources, *data.dev.translations} & {
        *data.pairs.sources,
        *data.pairs.translations,
        *data.names,
    }
    assert data.lines()[-1] == "dev pairs: 6 (3 de, 3 it)"


def test_a_split_of_strings_takes_strings_and_one_of_concepts_all_their_names(
    terminology: Terminology, tmp_path: Path
) -> None:
    edition = terminology_of(named("de"), tmp_path / "e.terminology")
    strings = Split(["two it"], ["T:1"], ["test"], {"method": "hold_out_synonyms"})
    data = gather(terminology, Wanted("en", editions=[str(edition.path)]), split=strings)
    assert data.pairs.by_language() == {"de": 10, "it": 9}
    whole = hold_out_concepts(terminology, fraction=0.5, seed=0)
    ids = set(whole.concept_ids)
    assert 0 < len(ids) < 10
    data = gather(terminology, Wanted("en", editions=[str(edition.path)]), split=whole)
    # The split was made without the edition, whose names of these concepts do not train either.
    assert data.pairs.by_language() == {"de": 10 - len(ids), "it": 10 - len(ids)}
    assert {f"T:{concept}" for concept in data.pairs.concepts} == {f"T:{place}" for place in range(10)} - ids
    assert len(data.names) == 10 - len(ids)


def test_nothing_left_is_an_error_that_says_why(terminology: Terminology, tmp_path: Path) -> None:
    everything = hold_out_concepts(terminology, fraction=1.0, seed=0)
    with pytest.raises(InputError, match=r"no pair of a name and its translation.*held out") as caught:
        gather(terminology, Wanted("en"), split=everything)
    assert caught.value.remedy
    english = terminology_of(named("en"), tmp_path / "english.terminology")
    with pytest.raises(InputError, match="its languages are en"):
        gather(english, Wanted("en"))
    with pytest.raises(InputError, match="no such terminology"):
        gather(terminology, Wanted("en", editions=[str(tmp_path / "nowhere")]))


COUNTS = st.dictionaries(st.sampled_from(["cs", "es", "it", "zh"]), st.integers(1, 25), max_size=4)


def pairs_of(counts: dict[str, int]) -> AlignedPairs:
    """So many pairs of each language, in turn."""
    collected = Collected()
    for number in range(max(counts.values(), default=0)):
        for tag, count in counts.items():
            if number < count:
                translation = f"汉{number}" if tag == "zh" else f"{tag} {number}"
                assert collected.add(f"name {number}", translation, tag, origin="t") is None
    return collected.pairs()


def stream(batches: PairBatches, n_pairs: int, epochs: int, size: int) -> list[int]:
    """The first epochs end to end; names are numbered from `n_pairs` on."""
    drawn: list[int] = []
    for number in range(-(-epochs * batches.rows // size)):
        batch = batches.batch(number)
        assert len(batch.pairs) + len(batch.names) == size
        drawn += [*batch.pairs.tolist(), *(n_pairs + batch.names).tolist()]
    return drawn[: epochs * batches.rows]


@settings(max_examples=60, deadline=None)
@given(counts=COUNTS, names=st.integers(0, 20), seed=st.integers(0, 1000))
def test_an_epoch_shows_every_pair_and_name_once(counts: dict[str, int], names: int, seed: int) -> None:
    pairs = pairs_of(counts)
    if len(pairs) + names == 0:
        return
    drawn = stream(PairBatches(pairs, names, batch=1, seed=seed), len(pairs), 3, 1)
    size = len(pairs) + names
    for epoch in range(3):
        assert sorted(drawn[epoch * size : (epoch + 1) * size]) == list(range(size))
    assert size < 12 or drawn[:size] != drawn[size : 2 * size]


@settings(max_examples=40, deadline=None)
@given(
    counts=COUNTS.filter(bool),
    names=st.integers(0, 9),
    seed=st.integers(0, 1000),
    temperature=st.sampled_from([1.0, 2.0, 5.0, 1000.0]),
    weight=st.sampled_from([0.2, 1.0, 4.0]),
)
def test_with_a_temperature_languages_share_the_epoch_and_pairs_take_turns(
    counts: dict[str, int], names: int, seed: int, temperature: float, weight: float
) -> None:
    pairs = pairs_of(counts)
    weights = {pairs.languages[-1]: weight}
    batches = PairBatches(pairs, names, batch=1, seed=seed, temperature=temperature, weights=weights)
    assert sum(batches.shown.values()) == len(pairs)
    epochs = 4
    drawn = stream(batches, len(pairs), epochs, 1)
    shown = Counter(drawn)
    assert all(shown[len(pairs) + name] == epochs for name in range(names))
    for place, tag in enumerate(pairs.languages):
        own = [shown[row] for row in np.flatnonzero(pairs.language == place).tolist()]
        assert sum(own) == epochs * batches.shown[tag]
        assert max(own) - min(own) <= 1
    for epoch in range(epochs):  # in each epoch, not only on average
        part = [row for row in drawn[epoch * batches.rows : (epoch + 1) * batches.rows] if row < len(pairs)]
        assert Counter(pairs.languages[pairs.language[row]] for row in part) == Counter(batches.shown)


def test_shares_are_those_of_the_formula() -> None:
    pairs = pairs_of({"es": 1600, "it": 16})
    assert PairBatches(pairs, batch=8, seed=0).shown == {"es": 1600, "it": 16}
    tempered = PairBatches(pairs, batch=8, seed=0, temperature=2).shown  # 40 to 4
    assert tempered["it"] == pytest.approx(1616 * 4 / 44, abs=2)
    weighted = PairBatches(pairs, batch=8, seed=0, weights={"it": 100.0}).shown  # 1600 to 1600
    assert weighted["it"] == pytest.approx(808, abs=1)
    assert PairBatches(pairs, batch=8, seed=0, temperature=1e9).shown["it"] == pytest.approx(808, abs=1)


def test_strings_are_numbered_once() -> None:
    collected = Collected()
    for source, translation, tag in (("pain", "dolore", "it"), ("pain", "dolor", "es"), ("ache", "dolor", "es")):
        collected.add(source, translation, tag, origin="t")
    found = numbered(collected.pairs(), ["ague", "dolor"])
    assert found.strings == ["pain", "ache", "ague", "dolor", "dolore"]
    assert found.sources.tolist() == [0, 0, 1]
    assert found.translations.tolist() == [4, 3, 3]
    assert found.names.tolist() == [2, 3]


def test_nothing_to_draw_is_an_error() -> None:
    with pytest.raises(InputError, match="neither a pair nor a name"):
        PairBatches(pairs_of({}), batch=1, seed=0)


words = st.sampled_from(["heart", "cuore", "liver", "fegato", "skin", "pelle", "bone", "osso", "eye", "occhio"])


def collected(rows: list[tuple[str, str, str, int]]) -> AlignedPairs:
    pairs = Collected()
    for source, translation, language, concept in rows:
        pairs.add(source, translation, language, origin="t", concept=concept)
    return pairs.pairs()


@given(
    st.lists(st.tuples(words, words, st.sampled_from(["it", "de"]), st.integers(-1, 3)), min_size=1, max_size=20),
    st.integers(0, 12),
    st.integers(0, 3),
)
@settings(max_examples=200)
def test_nothing_held_out_trains(rows: list[tuple[str, str, str, int]], wanted: int, seed: int) -> None:
    pairs = collected(rows)
    if not len(pairs):
        return
    try:
        train, dev = hold_out(pairs, wanted, seed)
    except InputError:
        # Told apart below: too many are asked for.
        return
    assert len(dev) >= wanted
    strings = {*dev.sources, *dev.translations}
    assert not strings & {*train.sources, *train.translations}
    assert {row[3] for row in train.rows() if row[3] >= 0}.isdisjoint(row[3] for row in dev.rows() if row[3] >= 0)
    # Every pair trains, is scored, or shares a string with one that is.
    left = [row for row in pairs.rows() if strings.isdisjoint(row[:2])]
    assert sorted(train.rows()) == sorted(left)
    assert set(dev.rows()) <= set(pairs.rows())
    assert train.counts.get(HELD_OUT, 0) == len(pairs) - len(train)
    assert (wanted > 0) == (len(dev) > 0)
    # No concept more than is needed.
    sizes = np.bincount(concepts_of(dev)) if wanted else np.zeros(1, int)
    assert len(dev) - sizes.max() < max(wanted, 1)


def test_a_concept_that_is_not_known_is_its_sources() -> None:
    pairs = collected([("a", "b", "it", 5), ("c", "d", "it", 5), ("a", "e", "de", -1), ("c", "f", "de", -1)])
    assert concepts_of(pairs).tolist() == [0, 0, 1, 2]


def test_too_many_are_refused() -> None:
    pairs = collected([("heart", "cuore", "it", 0), ("skin", "pelle", "it", 1)])
    with pytest.raises(InputError, match="holding out 2 pairs leaves none of 2") as caught:
        hold_out(pairs, 2, 0)
    assert caught.value.remedy


@given(st.lists(st.tuples(words, words, st.sampled_from(["it", "de"]), st.integers(-1, 3)), min_size=1, max_size=20))
@settings(max_examples=100, suppress_health_check=[HealthCheck.filter_too_much])
def test_accuracy_is_that_of_a_loop(rows: list[tuple[str, str, str, int]]) -> None:
    pairs = collected(rows)
    if not len(pairs):
        return
    encoder = HashEncoder()
    sources = list(dict.fromkeys(pairs.sources))
    key = {row[:3]: row[3] if row[3] >= 0 else row[0] for row in pairs.rows()}
    right: dict[str, list[bool]] = {}
    for row in pairs.rows():
        query = encoder.encode([row[1]])[0]
        similarity = {source: float(query @ encoder.encode([source])[0]) for source in sources}
        nearest, *others = sorted(sources, key=similarity.__getitem__, reverse=True)
        # Which of two equals comes first is the order of sums' affair.
        assume(not others or similarity[nearest] - similarity[others[0]] > 1e-6)
        own = {other[0] for other in pairs.rows() if key[other[:3]] == key[row[:3]]}
        right.setdefault(row[2], []).append(nearest in own)
    scores = accuracy(pairs, encoder)  # type: ignore[arg-type]
    assert next(iter(scores)) == "dev_acc1"
    assert scores.pop("dev_acc1") == pytest.approx(np.mean([one for of_tag in right.values() for one in of_tag]))
    assert scores == pytest.approx({f"dev_acc1_{tag}": np.mean(of_tag) for tag, of_tag in right.items()})


def test_length_does_not_count() -> None:
    """Vectors are compared by cosine, also those of a model that does not scale them."""

    class Long(HashEncoder):
        def encode(self, strings: list[str]) -> np.ndarray:
            return super().encode(strings) * np.array([[1.0 + 9.0 * ("x" in string)] for string in strings], np.float32)

    pairs = collected([("heart pain", "heart pains", "it", 0), ("heart xx", "heart axx", "it", 1)])
    assert accuracy(pairs, Long())["dev_acc1"] == 1.0  # type: ignore[arg-type]
