"""Mentions of a small terminology in made-up texts: windows, sequences, the artefact."""

from __future__ import annotations

import itertools
import json
import random
from collections import Counter, defaultdict
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from alphita import artefact
from alphita.encoder.encoder import TermEncoder
from alphita.errors import InputError
from alphita.terminology.splits import Split
from alphita_lab.training.mentions import building
from alphita_lab.training.mentions import building as mention_contexts
from alphita_lab.training.mentions.building import MentionSettings, Tokens, build
from alphita_lab.training.mentions.store import Mentions
from alphita_lab.training.text.corpora import open_tokenizer
from alphita_lab.training.text.folding import Fold
from alphita_lab.training.text.matching import HELD_OUT, Matcher, Matches, collect
from tests.tables import terminology_of

NAMES = [
    ("T:1", "heart pain"),
    ("T:1", "cardiodynia"),
    ("T:2", "liver swelling"),
    ("T:3", "pain"),
    ("T:4", "AMI"),
    ("T:5", "cold"),
    ("T:6", "Cold"),
    ("T:7", "never met"),
]
FILLERS = ("the", "of", "skin", "bone", "was", "seen,", "il-2", "and", "then", "(lung)", "again.", "dell'eye")


@pytest.fixture(scope="module")
def terminology(tmp_path_factory):
    rows = [(concept, name, "en") for concept, name in NAMES]
    return terminology_of(rows, tmp_path_factory.mktemp("mentions") / "t.terminology")


@pytest.fixture(scope="module")
def texts() -> list[str]:
    chance = random.Random(1)
    words = [*FILLERS * 3, *(name for _, name in NAMES[:6]), "heart pains", "ami", "Cardiodynia"]
    return [" ".join(chance.choices(words, k=chance.randint(1, 120))) for _ in range(60)]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory, texts) -> Path:
    file = tmp_path_factory.mktemp("mentions") / "corpus.jsonl"
    lines = [json.dumps({"text": text}) for text in [*texts, "", " \n"]]
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return file


def built(corpus, terminology, model, out, *, split=None, **settings) -> Mentions:
    build([corpus], terminology, model, out, MentionSettings(**settings), split=split)
    return Mentions.load(out)


@pytest.fixture(scope="module")
def whole(corpus, terminology, model, tmp_path_factory) -> Mentions:
    out = tmp_path_factory.mktemp("mentions") / "all.mentions"
    return built(corpus, terminology, model, out, sequence_tokens=20, most_mentions=3, window=12)


def decoded(tokenizer, ids) -> str:
    return "".join(tokenizer.id_to_token(int(number)).removeprefix("##") for number in ids)


def squeezed(text: str) -> str:
    return "".join(text.lower().split())


def test_what_is_counted(whole, terminology, model, texts, corpus):
    counts = whole.manifest["counts"]
    matcher = Matcher(collect(terminology, Fold()), Fold())
    matches = matcher(texts)
    expected = Counter(matcher.forms.strings[form] for form in matches.forms)
    assert dict(zip(whole.strings.to_pylist(), whole.counts.tolist(), strict=True)) == expected
    assert set(expected) == {"heart pain", "cardiodynia", "liver swelling", "pain", "AMI"}
    assert whole.concept_ids == ["T:1", "T:2", "T:3", "T:4"]
    named = {
        form: whole.concept_ids[whole.form_concepts[whole.form_offsets[number]]]
        for number, form in enumerate(whole.strings.to_pylist())
    }
    assert named == {form: concept for concept, form in NAMES if form in expected}
    assert np.diff(whole.form_offsets).tolist() == [1] * 5
    assert (counts["documents"], counts["empty"], counts["words"]) == (60, 2, matches.words)
    assert (counts["mentions"], counts["homonyms"]) == (sum(expected.values()), matches.homonyms)
    assert matches.homonyms > 0
    assert whole.manifest["left_out"] == {"homonym": 1}
    assert whole.manifest["terminology"] == terminology.content_hash
    assert whole.manifest["corpus"] == {str(corpus): artefact.hash_file(corpus)}
    assert whole.manifest["tokenizer_hash"] == TermEncoder.load(model).tokenizer_hash
    artefact.verify(whole.path, "mentions")


def test_a_window_is_as_near_to_the_middle_as_the_text_allows(model):
    tokenizer, _, _ = open_tokenizer(model)
    text = "the of heart pain skin bone lung eye"

    def window(length: int, start: int, end: int) -> Tokens | None:
        own = np.array([[start, end, 7]])
        (found,) = mention_contexts.windows([mention_contexts.Context(0, text, own, 0)], tokenizer, length)
        return found

    ids = tokenizer.encode(text, add_special_tokens=False).ids
    assert len(ids) == 8
    cases = [
        (4, (7, 17), 1, [1, 3]),
        (5, (7, 17), 1, [1, 3]),
        (6, (7, 17), 0, [2, 4]),
        (4, (0, 3), 0, [0, 1]),
        (4, (33, 36), 4, [3, 4]),
        (2, (7, 17), 2, [0, 2]),
        (50, (7, 17), 0, [2, 4]),
    ]
    for length, (start, end), first, place in cases:
        found = window(length, start, end)
        assert found is not None
        assert found.ids.tolist() == ids[first : first + length]
        assert found.mentions.tolist() == [[*place, 7]]
    assert window(1, 7, 17) is None


def test_what_is_kept_does_not_depend_on_how_the_corpus_is_read(
    whole, corpus, terminology, model, tmp_path, monkeypatch
):
    monkeypatch.setattr(building, "AT_ONCE", 50)
    again = built(corpus, terminology, model, tmp_path / "a", sequence_tokens=20, most_mentions=3, window=12)
    assert again.content_hash == whole.content_hash
    other = built(corpus, terminology, model, tmp_path / "b", sequence_tokens=20, most_mentions=3, window=12, seed=1)
    assert other.windows.ids.tolist() != whole.windows.ids.tolist()
    assert other.sequences.ids.tolist() == whole.sequences.ids.tolist()


@given(
    st.lists(st.lists(st.sampled_from([HELD_OUT, 0, 1, 2]), max_size=6), max_size=12),
    st.integers(1, 4),
    st.integers(0, 2**64),
    st.integers(0, 12),
)
def test_the_lowest_numbers_are_kept(rows, size, seed, cut):
    texts = ["ab " * len(row) for row in rows]

    def matches(part):
        offsets = np.cumsum([0, *map(len, part)])
        starts = np.array([3 * place for row in part for place in range(len(row))], np.int64)
        forms = np.array([form for row in part for form in row], np.int32)
        return mention_contexts.Matches(offsets, starts, starts + 2, forms, 0, 0)

    reservoir = mention_contexts.Reservoir(3, size, window=1, seed=seed)
    reservoir.add(texts[:cut], matches(rows[:cut]))
    reservoir.add(texts[cut:], matches(rows[cut:]))
    seen: Counter[int] = Counter()
    eligible = defaultdict(list)
    spared = 0
    for row in rows:
        for place, form in enumerate(row):
            if form == HELD_OUT:
                continue
            # A gap of less than 8 characters: the third mention away begins 7 behind this one's end.
            if HELD_OUT in row[max(0, place - 3) : place + 4]:
                spared += 1
            else:
                draw = mention_contexts._draws(seed, np.array([form], np.int32), np.array([seen[form]]))[0]
                eligible[form].append((int(draw), seen[form]))
            seen[form] += 1
    expected = [(form, n) for form in sorted(eligible) for n in sorted(n for _, n in sorted(eligible[form])[:size])]
    assert [(form, context.occurrence) for form, context in reservoir.contexts()] == expected
    assert reservoir.counts.tolist() == [seen[form] for form in range(3)]
    assert reservoir.held_out_nearby == spared
    for form, context in reservoir.contexts():
        start, end, own = context.mentions[context.own].tolist()
        assert (context.text[start:end], own) == ("ab", form)


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("aaaa bbbb cccc pain dddd eeee ffff", "cccc pain dddd "),
        ("x" * 50 + " pain " + "y" * 50, "x" * 7 + " pain " + "y" * 7),
        ("a pain b", "a pain b"),
        ("y" * 50 + "pain", "y" * 8 + "pain"),
    ],
)
def test_a_context_begins_and_ends_with_a_whole_word(text, kept, monkeypatch):
    monkeypatch.setattr(mention_contexts, "LONGEST_WORD", 6)
    start = np.array([text.index("pain")])
    matches = mention_contexts.Matches(np.array([0, 1]), start, start + 4, np.zeros(1, np.int32), 0, 0)
    reservoir = mention_contexts.Reservoir(1, 1, window=1, seed=0)
    reservoir.add([text], matches)
    ((_, context),) = reservoir.contexts()
    assert context.text == kept
    assert context.text[context.mentions[0, 0] : context.mentions[0, 1]] == "pain"


def test_sequences_hold_all_mentions(whole, model, texts, terminology):
    tokenizer, _, _ = open_tokenizer(model)
    matcher = Matcher(collect(terminology, Fold()), Fold())
    matches = matcher(texts)
    assert len(whole.sequences) == whole.manifest["counts"]["sequences"] > 50
    forms = Counter()
    for row in range(len(whole.sequences)):
        tokens = whole.sequences[row]
        assert 0 < len(tokens.ids) <= 20
        assert 1 <= len(tokens.mentions) <= 3
        for first, last, form in tokens.mentions.tolist():
            assert decoded(tokenizer, tokens.ids[first:last]) == squeezed(whole.strings[form].as_py())
            forms[whole.strings[form].as_py()] += 1
    # No mention is longer than a sequence, so none is cut.
    assert forms == Counter(matcher.forms.strings[form] for form in matches.forms)


def test_sequences_are_cut_between_words_and_lose_no_token(model, texts, terminology):
    tokenizer, _, _ = open_tokenizer(model)
    matches = Matcher(collect(terminology, Fold()), Fold())(texts)
    chosen = [text for text, n in zip(texts, np.diff(matches.offsets), strict=True) if n]
    found = list(mention_contexts.sequences(texts, matches, tokenizer, length=20, most=3))
    expected = [tokenizer.encode(text, add_special_tokens=False) for text in chosen]
    whole = list(itertools.chain.from_iterable(encoding.ids for encoding in expected))
    assert np.concatenate([tokens.ids for tokens in found]).tolist() == whole
    starts = np.cumsum([0, *(len(tokens.ids) for tokens in found)])[:-1]
    pieces = list(itertools.chain.from_iterable(encoding.tokens for encoding in expected))
    assert not any(pieces[start].startswith("##") for start in starts)


def test_a_word_longer_than_a_sequence_is_cut(model, terminology):
    tokenizer, _, _ = open_tokenizer(model)
    texts = ["pain qqqqqqqqqqqq pain"]
    matches = Matcher(collect(terminology, Fold()), Fold())(texts)
    found = list(mention_contexts.sequences(texts, matches, tokenizer, length=5, most=9))
    assert [len(tokens.ids) for tokens in found] == [1, 5, 5, 3]
    assert [tokens.mentions[:, :2].tolist() for tokens in found] == [[[0, 1]], [], [], [[2, 3]]]


def test_a_batch_adds_special_tokens_and_tags(whole, model):
    specials = open_tokenizer(model)[2]
    rows = [3, 0, 19]
    plain, tagged = whole.windows.batch(rows), whole.windows.batch(rows, tags=(900, 901))
    assert (specials.before, specials.behind, specials.pad) == ((2,), (3,), 0)
    for batch, extra in ((plain, 2), (tagged, 4)):
        for place, row in enumerate(rows):
            tokens = whole.windows[row]
            length = len(tokens.ids) + extra
            ids = batch.input_ids[place]
            assert batch.attention_mask[place].tolist() == [1] * length + [0] * (len(ids) - length)
            assert (ids[length:] == specials.pad).all()
            assert (ids[0], ids[length - 1]) == (2, 3)
            assert [n for n in ids[1 : length - 1].tolist() if n < 900] == tokens.ids.tolist()
            spans = batch.mentions[batch.mentions[:, 0] == place]
            assert len(spans) == len(tokens.mentions)
            for (_, start, end, form), (first, last, same) in zip(
                spans.tolist(), tokens.mentions.tolist(), strict=True
            ):
                assert form == same
                assert ids[start:end].tolist() == tokens.ids[first:last].tolist()
            _, start, end, _ = batch.mentions[batch.own[place]].tolist()
            assert (ids[start - 1] == 900) == (ids[end] == 901) == (extra == 4)
    assert max(plain.attention_mask.sum(1)) == plain.input_ids.shape[1]
    assert whole.sequences.batch([]).input_ids.shape == (0, 0)


def test_a_held_out_string_is_no_mention_nor_near_one(corpus, terminology, model, tmp_path, texts):
    split = Split(["Cardiodynia"], ["T:1"], ["test"])
    tokenizer, _, _ = open_tokenizer(model)
    found = built(corpus, terminology, model, tmp_path / "a", split=split, sequence_tokens=20, window=4)
    assert "cardiodynia" not in found.strings.to_pylist()
    assert found.manifest["split"] == split.hash
    assert (found.sequences.mentions[:, 2] >= 0).all()
    counts = found.manifest["counts"]
    assert counts["held_out"] == sum(text.lower().count("cardiodynia") for text in texts)
    assert counts["sequences_with_held_out"] > 0
    assert counts["windows_near_held_out"] > 0
    for sets in (found.windows, found.sequences):
        assert not any("cardiodynia" in decoded(tokenizer, sets[row].ids) for row in range(len(sets)))


def test_a_held_out_string_that_a_name_covers_or_begins_before_is_found(terminology, model, tmp_path):
    split = Split(["pain of the liver", "dynia"], ["T:3", "T:1"], ["test", "test"])
    file = tmp_path / "notes.txt"
    # It is overlapped from the left, covered within a name of T:2, part of a longer word, and not there.
    names = [*NAMES, ("T:2", "acute pain of the liver, left")]
    longer = terminology_of([(concept, name, "en") for concept, name in names], tmp_path / "t.terminology")
    texts = ["heart pain of the liver", "acute pain of the liver, left", "cardiodynia", "liver swelling"]
    file.write_text("\n\n".join(texts) + "\n", encoding="utf-8")
    found = built(file, longer, model, tmp_path / "a", split=split, sequence_tokens=20)
    assert sorted(found.strings.to_pylist()) == ["cardiodynia", "liver swelling"]
    counts = found.manifest["counts"]
    assert (counts["held_out"], counts["sequences"], counts["sequences_with_held_out"]) == (2, 2, 2)


@pytest.mark.parametrize("language", ["tr", "en"])
def test_held_out_strings_are_found_whatever_language_pairs_their_i(model, tmp_path, language):
    rows = [("T:1", "Isı çarpması", language), ("T:1", "ateş", language)]
    turkish = terminology_of(rows, tmp_path / "t.terminology")
    file = tmp_path / "notes.txt"
    written = [f"{one} ve ateş" for one in ("Isı çarpması", "ısı çarpması", "ISI ÇARPMASI")]
    file.write_text("\n\n".join([*written, "ateş"]) + "\n", encoding="utf-8")
    split = Split(["Isı çarpması"], ["T:1"], ["test"])
    found = built(file, turkish, model, tmp_path / "m", split=split, languages=[language], sequence_tokens=30)
    assert found.manifest["counts"]["held_out"] == 3
    assert len(found.sequences) == len(found.windows) == 1


def test_each_part_of_a_held_out_string_longer_than_a_sequence_is_left_out(terminology, model, tmp_path):
    split = Split(["zyxofibroma"], ["T:1"], ["test"])
    file = tmp_path / "notes.txt"
    file.write_text("pain zyxofibroma pain\n")
    tokenizer, _, _ = open_tokenizer(model)
    assert len(tokenizer.encode("zyxofibroma", add_special_tokens=False).ids) > 4
    found = built(file, terminology, model, tmp_path / "m", split=split, sequence_tokens=4, window=1)
    text = "".join(decoded(tokenizer, found.sequences[row].ids) for row in range(len(found.sequences)))
    assert text in ("", "pain", "painpain")
    assert found.manifest["counts"]["sequences_with_held_out"] >= 2


@given(
    st.lists(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 3)), max_size=4), min_size=1, max_size=4),
    st.lists(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 3)), max_size=3), min_size=4, max_size=4),
)
def test_what_hides_mentions_is_that_of_a_loop(mentions_of, hidden_of):
    def spans(pairs):
        place, found = 0, []
        for gap, length in pairs:
            found.append((place + gap, place + gap + length))
            place += gap + length
        return found

    own = [spans(pairs) for pairs in mentions_of]
    hidden = [spans(pairs) for pairs in hidden_of[: len(own)]]
    flat = np.array([span for one in own for span in one], np.int64).reshape(-1, 2)
    offsets = np.cumsum([0, *map(len, own)])
    matches = Matches(offsets, flat[:, 0], flat[:, 1], np.arange(len(flat), dtype=np.int32), 7, 1)
    found = matches.hiding([np.array(one, np.int64).reshape(-1, 2) for one in hidden])
    number = itertools.count()
    for text, (mine, others) in enumerate(zip(own, hidden, strict=True)):
        expected = [(start, end, HELD_OUT) for start, end in others]
        for start, end in mine:
            form = next(number)
            if not any(start < last and first < end for first, last in others):
                expected.append((start, end, form))
        here = slice(found.offsets[text], found.offsets[text + 1])
        told = zip(found.starts[here].tolist(), found.ends[here].tolist(), found.forms[here].tolist(), strict=True)
        assert list(told) == sorted(expected)


def test_a_corpus_without_a_mention_is_an_error(terminology, model, tmp_path):
    file = tmp_path / "a.txt"
    file.write_text("nothing of the kind\n\nat all\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"a\.txt: no name of the terminology occurs in it: 6 words, 6 names"):
        build([file], terminology, model, tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]
    with pytest.raises(InputError, match="no name of the terminology occurs in it: 0 words"):
        build([], terminology, model, tmp_path / "out")


def test_further_names_may_be_left_out(corpus, terminology, model, tmp_path):
    found = built(corpus, terminology, model, tmp_path / "x", stop=["Heart-Pain"])
    assert set(found.strings.to_pylist()) == {"cardiodynia", "liver swelling", "pain", "AMI"}
    assert found.manifest["left_out"] == {"homonym": 1, "stop word": 1}
    # An acronym too, where it is named.
    found = built(corpus, terminology, model, tmp_path / "y", stop=["ami"])
    assert "AMI" not in found.strings.to_pylist()


def test_homonyms_may_be_kept(corpus, terminology, model, tmp_path):
    found = built(corpus, terminology, model, tmp_path / "x", ambiguous="keep")
    concepts = defaultdict(list)
    for number, form in enumerate(found.strings.to_pylist()):
        for place in found.form_concepts[found.form_offsets[number] : found.form_offsets[number + 1]]:
            concepts[form].append(found.concept_ids[place])
    assert concepts["Cold"] == ["T:5", "T:6"]
    first = dict(zip(found.strings.to_pylist(), found.form_concept.tolist(), strict=True))
    assert {form: found.concept_ids[place] for form, place in first.items()} == {
        form: some[0] for form, some in concepts.items()
    }
    assert concepts["pain"] == ["T:3"]
