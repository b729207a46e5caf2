"""Rules of context: their reach, their sections, and what is wrong with a file of them."""

from __future__ import annotations

import csv
import re
from collections import Counter
from pathlib import Path

import pytest

from alphita.annotation.context import load_rules, modifiers_of
from alphita.annotation.spans import Place
from alphita.annotation.tokens import sentences_of
from alphita.errors import InputError
from alphita.mention import cues

HEADER = "phrase\tcategory\tdirection\treach\n"


def said(rules, text, mention):
    start = text.index(mention)
    place = Place(start, start + len(mention))
    sentences = sentences_of(text)
    number = next(n for n, one in enumerate(sentences) if one.start <= start < one.end)
    return [
        (one.category, one.cue, text[one.start : one.end]) for one in rules.read(text, sentences).of(number, [place])
    ]


def rules_of(tmp_path, rows):
    path = tmp_path / "rules.tsv"
    path.write_text(HEADER + rows, encoding="utf-8")
    return load_rules(path)


def test_a_cue_is_told_with_its_place():
    text = "Ça va. There is no evidence of fever."
    assert said(load_rules(), text, "fever") == [("negated", "no evidence of", "no evidence of")]


def test_a_section_reaches_to_the_blank_line_or_the_next_heading():
    text = "Family history:\nMigraine. Gout.\nExamination: fever.\n\nCough."
    rules = load_rules()
    assert [one[0] for one in said(rules, text, "Gout")] == ["family"]
    assert said(rules, text, "fever") == []
    assert said(rules, text, "Cough") == []
    text = "FAMILY HISTORY\n\nMigraine.\n\nFever."
    assert [one[0] for one in said(rules, text, "Migraine")] == ["family"]
    assert said(rules, text, "Fever") == []


def test_a_cue_within_the_mention_says_nothing_of_it():
    assert said(load_rules(), "Absence of the thumb was noted.", "Absence of the thumb") == []


def test_reach_end_pseudo_and_clause_are_what_the_file_says(tmp_path):
    rows = "no\tnegated\tahead\t2\nno less\tpseudo\nbut\tend\nthough\tclause\nnow\tend\tfamily\n"
    rules = rules_of(tmp_path, rows)
    assert [one[1] for one in said(rules, "no fever here", "fever")] == ["no"]
    assert said(rules, "no one two fever", "fever") == []
    assert said(rules, "no less fever", "fever") == []
    assert said(rules, "no but fever", "fever") == []
    assert said(rules, "no now fever", "fever") != []
    assert said(rules, "though no pain, fever", "fever") == []
    assert said(rules, "no pain, fever", "fever") != []


def test_a_line_of_the_file_holds_several_phrases(tmp_path):
    rules = rules_of(tmp_path, "was/were not seen/found\tnegated\tback\n")
    for cue in ("was not seen", "was not found", "were not seen", "were not found"):
        assert [one[1] for one in said(rules, f"Fever {cue}.", "Fever")] == [cue]
    assert said(rules, "Fever was seen.", "Fever") == []


@pytest.mark.parametrize(
    ("text", "mention", "category"),
    [
        ("No fever, no rash, cough", "cough", None),
        ("No fever, no nausea, vomiting or cough", "vomiting", "negated"),
        ("no headache\nno fever\ncough\nno rash", "cough", None),
        ("Denies the following: fever; cough; rash.", "rash", "negated"),
        ("The following were absent: ptosis, ataxia.", "ataxia", "negated"),
        ("Possible pneumonia, no effusion.", "effusion", "negated"),
        ("Tosse, esclusa polmonite.", "Tosse", None),
        ("Patientin ist schmerzfrei.", "schmerz", "negated"),
        ("Mutter mit Epilepsie", "Epilepsie", "family"),
        ("Eyes: negative for diplopia and ptosis.", "ptosis", "negated"),
        ("Diarrea, attualmente regredita", "Diarrea", "historical"),
        ("She was not noted to have hypotonia.", "hypotonia", "negated"),
        ("Family history: father has ptosis.\nHe has ataxia.", "ataxia", None),
        ("Family history: father has ptosis.\nHe has ataxia.", "ptosis", "family"),
        ("Family history\nMigraine\nEXAMINATION\nAtaxia", "Ataxia", None),
    ],
)
def test_lists_and_neighbours_keep_to_themselves(text, mention, category):
    assert [one[0] for one in said(load_rules(), text, mention)] == ([category] if category else [])


@pytest.mark.parametrize(
    ("text", "mentions", "unclear"),
    [
        ("Fever was on no account, and never, a feature", ["Fever"], ["Fever"]),
        ("Fever with pain, not cough", ["Fever", "pain", "cough"], []),
        ("No fever, no rash, cough", ["fever", "rash", "cough"], ["cough"]),
        ("Cough but the chest was not examined", ["Cough"], []),
        ("Cough since Monday", ["Cough"], []),
    ],
)
def test_a_negation_of_nothing_else_leaves_a_finding_unclear(text, mentions, unclear):
    places = [Place(text.index(mention), text.index(mention) + len(mention)) for mention in mentions]
    contexts = load_rules().read(text, sentences_of(text))
    found = [text[slice(*place)] for place in places if contexts.is_unclear(0, [place], places)]
    assert found == unclear
    for mention in unclear:
        assert said(load_rules(), text, mention) == []


def test_a_sentence_of_many_negations_is_read_in_linear_time():
    text = "no fever, " * 50_000 + "cough"
    assert [one[0] for one in said(load_rules(), text, "fever")] == ["negated"]


@pytest.mark.parametrize(
    ("rows", "line", "field", "value"),
    [
        ("no\tnegatd\tahead\t\n", 2, "category", "negatd"),
        ("no\tnegated\tahead\t\n# a remark\nno\tnegated\tup\t\n", 4, "direction", "up"),
        ("no\tnegated\tahead\tfew\n", 2, "reach", "few"),
        ("no\tnegated\tahead\t0\n", 2, "reach", "0"),
        ("\tnegated\tahead\t\n", 2, "phrase", ""),
        ("no\tnegated\tahead\t1\tmore\n", 2, "reach", "more"),
        ("but\tend\tahead\t\n", 2, "direction", "ahead"),
    ],
)
def test_a_wrong_row_is_named_with_line_field_value_and_remedy(tmp_path, rows, line, field, value):
    with pytest.raises(InputError) as wrong:
        rules_of(tmp_path, rows)
    assert (wrong.value.line, wrong.value.field, wrong.value.value) == (line, field, value)
    assert wrong.value.remedy
    assert str(tmp_path / "rules.tsv") in str(wrong.value)


@pytest.mark.parametrize("content", [b"phrase,category\n", b"", HEADER.encode(), b"\xff\xfe\x00"])
def test_a_file_that_is_no_table_of_rules_is_refused(tmp_path, content):
    path = tmp_path / "rules.tsv"
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"rules\.tsv"):
        load_rules(path)
    with pytest.raises(InputError, match="cannot be read"):
        load_rules(tmp_path / "none.tsv")


@pytest.mark.parametrize(
    ("text", "mention", "values"),
    [
        ("severe scoliosis", "scoliosis", ["severe"]),
        ("severe left hip pain", "hip pain", ["left", "severe"]),
        ("pain in the left hip", "pain", ["left"]),
        ("pain, left hip fracture", "pain", []),
        ("mild fever and severe pain", "fever", ["mild"]),
        ("fever with severe pain", "fever", []),
        ("grave scoliosi destra", "scoliosi", ["severe", "right"]),
        ("leichte Übelkeit", "Übelkeit", ["mild"]),
        ("scoliosis", "scoliosis", []),
    ],
)
def test_the_nearest_word_of_the_phrase_counts(text, mention, values):
    start = text.index(mention)
    found = modifiers_of(sentences_of(text)[0], start, start + len(mention))
    assert sorted(one.value for one in found) == sorted(values)
    assert all(text[one.start : one.end] for one in found)


SENTENCES = Path(__file__).with_name("negation_sentences.tsv")
_MARKED = re.compile(r"\[([^\]]*)\]")


def judged():
    """Yield language, sentence, what is right and what the rules say, for each sentence."""
    rules = load_rules()
    rows = csv.DictReader(SENTENCES.read_text(encoding="utf-8").splitlines(), delimiter="\t", quoting=csv.QUOTE_NONE)
    for row in rows:
        text, places = "", []
        for number, part in enumerate(_MARKED.split(row["sentence"])):
            if number % 2:
                places.append(Place(len(text), len(text) + len(part)))
            text += part
        sentences = sentences_of(text)
        contexts = rules.read(text, sentences)
        categories = []
        for place in places:
            number = next(n for n, one in enumerate(sentences) if one.start <= place.start and place.end <= one.end)
            categories.append({context.category for context in contexts.of(number, [place])})
        expected = [set(filter(None, one.split(","))) for one in row["context"].split("|")]
        yield row["language"], row["sentence"], expected, categories


def test_95_of_100_sentences_written_before_the_rules_are_right_and_most_of_each_language():
    results = list(judged())
    wrong = [result for result in results if result[2] != result[3]]
    assert len(results) == 201
    assert len(wrong) <= 0.05 * len(results), wrong
    counts = Counter(language for language, *_ in results)
    right = Counter(language for language, _, expected, categories in results if expected == categories)
    assert set(counts) == {"en", "it", "de", "fr", "es"}
    assert all(right[language] >= 0.8 * counts[language] for language in counts), right


def test_the_phrases_of_the_tables_are_written_as_they_are_read():
    wrong = [
        phrase for _, phrase, _ in cues.read() if tuple(word.word for word in cues.words(" ".join(phrase))) != phrase
    ]
    assert wrong == []
