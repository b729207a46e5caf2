"""Spans of tokens against loops over characters, and what masks make of them."""

from __future__ import annotations

import functools
import itertools
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers

from alphita.errors import InputError
from alphita.terminology.text import clean
from alphita_lab.training.engine.forward import TokenTable
from alphita_lab.training.text import sequences
from alphita_lab.training.text.corpora import Specials
from alphita_lab.training.text.folding import Fold
from alphita_lab.training.text.matching import Forms, HeldOut, Matcher
from alphita_lab.training.text.sequences import Sequences, made_of, made_with, pack_spans, read_spans, surface_forms
from tests.tables import terminology_of

PAD, UNK, CLS, SEP, MASK = range(5)
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
SPECIALS = Specials((CLS,), (SEP,), PAD)
NONE = HeldOut(())
WORDS, NOTHING = sequences.load("words"), sequences.load("none")
LETTERS = "abcdefghijklmnopqrstuvwxyz"


def vocabulary(*tokens: str) -> dict[str, int]:
    return {token: number for number, token in enumerate(dict.fromkeys([*SPECIAL, *tokens]))}


@functools.cache
def tokenizer_of(kind: str) -> Tokenizer:
    """Tokens that are parts of words; bytes, several a character; or two characters each, whatever they are."""
    if kind == "pieces":
        tokens = vocabulary(*LETTERS, *(f"##{letter}" for letter in LETTERS), "heart", "pain", "of", "the", *"心脏病痛")
        tokenizer = Tokenizer(models.WordPiece(tokens, unk_token="[UNK]"))
        tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
        tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    elif kind == "bytes":
        signs = pre_tokenizers.ByteLevel.alphabet()
        tokenizer = Tokenizer(models.BPE(vocabulary(*sorted(signs)), []))
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    else:
        tokenizer = Tokenizer(models.WordLevel(vocabulary("he", "pa"), unk_token="[UNK]"))
        tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]{1,2}"), "isolated")
    tokenizer.add_special_tokens(SPECIAL)
    return tokenizer


def matcher_of(*strings: str) -> Matcher:
    fold = Fold()
    keys = sorted(set(fold.keys(strings)))
    numbers = np.arange(len(keys), dtype=np.int32)
    return Matcher(Forms(keys, numbers, numbers, keys, np.arange(len(keys) + 1), numbers), fold)


FORMS = matcher_of("heart pain", "pain", "the heart of", "心脏", "脏病痛", "éb", "가나", "b-é病")


def packed(texts: list[str], tokenizer: Tokenizer, **given: object) -> Sequences:
    options: dict = {"length": 16, "segmenter": WORDS, "forms": FORMS, "held_out": NONE} | given
    with tempfile.TemporaryDirectory() as scratch:
        pack_spans(iter(texts), tokenizer, SPECIALS, Path(scratch) / "sequences", **options)
        found = read_spans(Path(scratch) / "sequences")
        table = TokenTable(np.array(found.tokens.ids), np.array(found.tokens.offsets))
        return Sequences(table, np.array(found.span_offsets), np.array(found.spans), found.counts)


def rows_of(found: Sequences) -> list[tuple[list[int], list[list[int]]]]:
    return [
        (found.tokens.rows(np.array([row]))[0].tolist(), found.spans_of(np.array([row]))[:, 1:].tolist())
        for row in range(len(found))
    ]


# The rule, token by token.


def spans_by_hand(text: str, tokenizer: Tokenizer, forms: Matcher | None, words: sequences.Segmenter) -> list:
    """The spans of one text: for each token the first entity of its characters, else their first word."""
    found = forms([text]) if forms else None
    entities = list(zip(found.starts.tolist(), found.ends.tolist(), strict=True)) if found else []
    encoding = tokenizer.encode(text, add_special_tokens=False)
    owners: list[tuple[str, int] | None] = []
    for token, (start, end) in zip(encoding.ids, encoding.offsets, strict=True):
        owner = None
        for kind, spans in (("entity", entities), ("word", words([text])[0].tolist())):
            held = [
                number for number, (low, high) in enumerate(spans) if set(range(low, high)) & set(range(start, end))
            ]
            if owner is None and held and token not in (PAD, CLS, SEP, MASK):
                owner = (kind, held[0])
        owners.append(owner)
    spans: list[list[int]] = []
    for place, owner in enumerate(owners):
        if owner is not None and place and owners[place - 1] == owner:
            spans[-1][1] = place + 1
        elif owner is not None:
            spans.append([place, place + 1])
    return spans


def packed_by_hand(texts: list[str], tokenizer: Tokenizer, length: int, forms: Matcher | None, words: object) -> list:
    room = length - 2
    pieces = []
    for text in texts:
        encoding = tokenizer.encode(text, add_special_tokens=False)
        spans = spans_by_hand(text, tokenizer, forms, words)
        n, start = len(encoding.ids), 0
        may_cut = [
            place in (0, n)
            or (
                encoding.word_ids[place] != encoding.word_ids[place - 1]
                and not any(low < place < high for low, high in spans)
            )
            for place in range(n + 1)
        ]
        while start < n:
            fitting = [place for place in range(start + 1, min(n, start + room) + 1) if may_cut[place]]
            end = max(fitting, default=min(n, start + room))
            inside = [
                [max(low, start) - start, min(high, end) - start] for low, high in spans if low < end and high > start
            ]
            pieces.append((encoding.ids[start:end], inside))
            start = end
    joined: list[tuple[list[int], list[list[int]]]] = []
    for ids, spans in pieces:
        if joined and len(joined[-1][0]) + 1 + len(ids) <= room:
            before = [*joined[-1][0], SEP]
            joined[-1] = (
                [*before, *ids],
                joined[-1][1] + [[low + len(before), high + len(before)] for low, high in spans],
            )
        else:
            joined.append((ids, spans))
    return [([CLS, *ids, SEP], [[low + 1, high + 1] for low, high in spans]) for ids, spans in joined]


PARTS = [
    "heart pain",
    "the heart of",
    "heart",
    "pain",
    "painful",
    "心脏病痛",
    "é",
    "e\u0301b",
    "가나다",
    "[SEP]",
    "😀",
    "b-é病",
]
TEXTS = st.one_of(
    st.lists(st.sampled_from(PARTS), max_size=8).map(" ".join),
    st.lists(st.sampled_from([*PARTS, " ", ", "]), max_size=8).map("".join),
    st.text("abé \u0301ß病心脏カナ가나ไท-'.,1\u00ad\u200b😀ABﬁ\x00", max_size=30),
    st.text(st.characters(codec="utf-8"), max_size=15),
)


@pytest.mark.parametrize("kind", ["pieces", "bytes", "pairs"])
@given(
    texts=st.lists(TEXTS, min_size=1, max_size=5),
    length=st.integers(3, 40),
    forms=st.sampled_from([FORMS, None]),
    words=st.sampled_from([WORDS, NOTHING]),
)
@settings(max_examples=60, deadline=None)
def test_sequences_and_spans_are_those_of_the_rule(kind, texts, length, forms, words) -> None:
    tokenizer = tokenizer_of(kind)
    expected = packed_by_hand(texts, tokenizer, length, forms, words)
    if not expected:
        with pytest.raises(InputError, match="no text to train on"):
            packed(texts, tokenizer, length=length, forms=forms, segmenter=words)
        return
    found = packed(texts, tokenizer, length=length, forms=forms, segmenter=words)
    assert rows_of(found) == expected
    for ids, spans in rows_of(found):
        held = [place for start, end in spans for place in range(start, end)]
        assert len(held) == len(set(held)), "a token is in one span at most"
        assert not {ids[place] for place in held} & {PAD, CLS, SEP, MASK}
        assert all(0 < start < end < len(ids) for start, end in spans)
    assert found.counts["spans"] == sum(len(spans) for _, spans in expected)


# Sequences read again.


def files_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def test_the_same_input_gives_the_same_folder_however_it_is_read(tmp_path: Path, monkeypatch) -> None:
    texts = [f"the heart pain of {'x' * n} 心脏病 and {'the ' * n}" for n in range(24)]
    options: dict = {"length": 16, "segmenter": WORDS, "forms": FORMS, "held_out": HeldOut([clean("xxxxx")])}
    pack_spans(texts, tokenizer_of("pieces"), SPECIALS, tmp_path / "one", **options, made_with=["corpus"])
    monkeypatch.setattr(sequences, "CHARACTERS", 50)
    monkeypatch.setattr(sequences, "DOCUMENTS", 1)
    pack_spans(iter(texts), tokenizer_of("pieces"), SPECIALS, tmp_path / "two", **options, made_with=["corpus"])
    assert files_of(tmp_path / "one") == files_of(tmp_path / "two")
    assert read_spans(tmp_path / "one").counts["pieces_with_held_out"] > 0
    assert isinstance(read_spans(tmp_path / "one").spans, np.memmap)


def test_a_folder_knows_what_it_was_made_with(tmp_path: Path) -> None:
    folder = tmp_path / "sequences"
    assert made_with(folder) is None
    base: dict = {"length": 16, "segmenter": WORDS, "forms": FORMS}
    changed = [{}, {"segmenter": NOTHING}, {"forms": None}, {"forms": matcher_of("pain")}, {"length": 17}]
    known = []
    for change in changed:
        pack_spans(
            ["heart pain"], tokenizer_of("pieces"), SPECIALS, folder, **base | change, held_out=NONE, made_with=["one"]
        )
        known.append(made_with(folder))
        assert known[-1] == made_of(["one"], **base | change)
    known.append(made_of(["two"], **base))
    assert not any(one == other for place, one in enumerate(known) for other in known[:place])
    assert made_of(["one"], **base | {"forms": matcher_of(*FORMS.forms.keys)}) == known[0]


def test_a_folder_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    def broken():
        yield "heart pain"
        raise KeyboardInterrupt

    options: dict = {"segmenter": WORDS, "forms": FORMS, "held_out": NONE}
    with pytest.raises(KeyboardInterrupt):
        pack_spans(broken(), tokenizer_of("pieces"), SPECIALS, tmp_path / "sequences", **options)
    assert list(tmp_path.iterdir()) == []


# Masks.


# What is held out, and bad input.


HEART_PAIN = HeldOut([clean("heart pain")])


@given(st.lists(st.sampled_from(["of", "the", "heart", "pain", "Heart-Pain", "xyz"]), min_size=1, max_size=40))
@settings(max_examples=60, deadline=None)
def test_a_held_out_string_never_appears(words: list[str]) -> None:
    tokenizer = tokenizer_of("pieces")
    texts = [" ".join(words), "of the heart"]
    found = packed(texts, tokenizer, length=9, held_out=HEART_PAIN)
    heart, pain = (tokenizer.token_to_id(word) for word in ("heart", "pain"))
    for ids, _ in rows_of(found):
        assert not any(pair == (heart, pain) for pair in itertools.pairwise(ids))


def test_names_of_several_concepts_are_entities_and_held_out_ones_are_not(tmp_path: Path) -> None:
    rows = [("T:1", "cold sore", "en"), ("T:2", "Cold Sore", "en"), ("T:3", "heart pain", "en"), ("T:3", "xyz", "it")]
    forms = surface_forms(terminology_of(rows, tmp_path / "t"), languages=["en"], held_out={"heart pain"})
    found = packed(["a cold sore xyz heart pain"], tokenizer_of("pieces"), forms=forms, segmenter=NOTHING, length=64)
    assert found.counts["entities"] == 1
    ((_, spans),) = rows_of(found)
    assert spans == [[2, 2 + len("coldsore")]]


def test_bad_input_is_a_clear_error(tmp_path: Path) -> None:
    for texts in ([], ["", " \n"]):
        with pytest.raises(InputError, match=r"no text to train on: .*; look at corpus"):
            packed(texts, tokenizer_of("pieces"))
    bare = Tokenizer(models.WordLevel({"[PAD]": 0, "[UNK]": 1, "[CLS]": 2, "[SEP]": 3}, unk_token="[UNK]"))

    def unread():
        pytest.fail("the corpus is not read for nothing")
        yield ""

    with pytest.raises(InputError, match=r"no mask token .*; take an encoder"):
        pack_spans(unread(), bare, SPECIALS, tmp_path / "x", segmenter=WORDS, forms=None, held_out=NONE)
    assert list(tmp_path.iterdir()) == []
