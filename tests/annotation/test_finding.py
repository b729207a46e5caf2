"""Names in texts: word order, inflection, shared heads, and places in any Unicode."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alphita.annotation.finding import Finder
from alphita.annotation.names import Level, Names
from alphita.annotation.tokens import root, sentences_of, tokens_of


@pytest.fixture(scope="module")
def finder(index):
    return Finder(Names(index))


def found(finder, text):
    return [
        (" … ".join(text[start:end] for start, end in hit.pieces), finder.names.index.strings[hit.row], hit.level)
        for sentence in sentences_of(text)
        for hit in finder.find(text, sentence)
    ]


@pytest.mark.parametrize(
    ("text", "mention", "name", "level"),
    [
        ("He had a seizure.", "seizure", "seizure", Level.SAME),
        ("SEIZURES at night", "SEIZURES", "seizure", Level.INFLECTED),
        ("fingers short and thin", "fingers short", "short fingers", Level.INFLECTED),
        ("a short finger", "short finger", "short fingers", Level.INFLECTED),
        ("shortness of the fingers", "shortness of the fingers", "finger shortness", Level.INFLECTED),
        ("a hypotonic child", "hypotonic", "hypotonia", Level.ROOTS),
        ("sclerosis, multiple", None, None, None),
        ("diabetes mellitus, type 2", "diabetes mellitus, type 2", "diabetes mellitus, type 2", Level.SAME),
        ("diabetes mellitus type 2", "diabetes mellitus type 2", "diabetes mellitus, type 2", Level.SAME),
        ("MS was found", "MS", "ms", Level.SAME),
        ("ms was found", None, None, None),
        ("a short. Fingers are long", None, None, None),
        ("short\nfingers", "short\nfingers", "short fingers", Level.SAME),
        ("short\n\nfingers", None, None, None),
        ("short\nFingers", None, None, None),
        ("ŒDÈME des jambes", "ŒDÈME", "œdème", Level.SAME),
        ("sei\u00adzure", "sei\u00adzure", "seizure", Level.SAME),
        ("ｓｅｉｚｕｒｅ", "ｓｅｉｚｕｒｅ", "seizure", Level.SAME),
    ],
)
def test_a_name_is_found_as_it_is_written_in_texts(finder, text, mention, name, level):
    assert found(finder, text) == ([] if mention is None else [(mention, name, level)])


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("short and curved fingers", {"curved fingers", "short … fingers"}),
        ("short, thin or curved fingers", {"curved fingers", "short … fingers"}),
        ("She has cleft lip and palate.", {"cleft lip", "cleft … palate"}),
        ("short arms and curved fingers", {"curved fingers"}),
        ("short fingers and seizures", {"short fingers", "seizures"}),
    ],
)
def test_a_shared_head_belongs_to_each_part(finder, text, parts):
    assert {mention for mention, _, _ in found(finder, text)} == parts


def test_a_beginning_is_shared_with_the_part_behind_it_alone(finder):
    mentions = {mention for mention, _, _ in found(finder, "cleft lip, curved fingers and palate")}
    assert mentions == {"cleft lip", "curved fingers"}


def test_words_that_join_sentences_make_no_name_of_what_stands_beside_them(finder):
    assert found(finder, "short of the affected fingers") == []


PIECES = st.sampled_from(
    [
        "Seizure",
        "short",
        "fingers",
        "and",
        "curved",
        "œdème",
        "ö",
        "\u202e",
        "🧠",
        "\r\n",
        "\n",
        " ",
        ".",
        ", ",
        "-",
        "\x00",
        "�",
        "½",
        "10⁹",
        "ﬁ",
        "İ",
        "ß",
        "MS",
        "(",
        "\xad",
        "癫痫",
        "النوبة",
        "type 2",
    ]
)


@given(st.lists(PIECES | st.text(max_size=4), max_size=30).map("".join))
def test_places_are_of_the_text_as_it_was_given(finder, text):
    tokens = tokens_of(text)
    assert all(0 <= token.start < token.end <= len(text) for token in tokens)
    assert all(one.end <= other.start or (one[:2] == other[:2]) for one, other in itertools.pairwise(tokens))
    for sentence in sentences_of(text):
        for hit in finder.find(text, sentence):
            words = " ".join(text[start:end] for start, end in hit.pieces)
            if hit.level < Level.ROOTS:
                assert hit.asked == words
            said = sorted(filter(None, (root(token.form) for token in tokens_of(words))))
            own = sorted(filter(None, (root(token.form) for token in tokens_of(finder.names.index.strings[hit.row]))))
            assert said == own


@given(st.lists(PIECES | st.text(max_size=4), max_size=30).map("".join))
def test_every_word_is_in_one_sentence(text):
    sentences = sentences_of(text)
    assert [token for one in sentences for token in one.tokens] == tokens_of(text)
    assert all(one.end <= other.start for one, other in itertools.pairwise(sentences))


def test_a_point_after_a_title_ends_no_sentence():
    text = "Seen by Dr. Smith on 3.5 mg, i.e. little. No fits! New line?\nYes"
    assert [text[one.start : one.end] for one in sentences_of(text)] == [
        "Seen by Dr. Smith on 3.5 mg, i.e. little",
        "No fits",
        "New line",
        "Yes",
    ]


def test_a_long_line_without_an_end_is_cut():
    sentences = sentences_of("seizure and fever " * 1000)
    assert max(len(one.tokens) for one in sentences) == 400
    assert sum(len(one.tokens) for one in sentences) == 3000
