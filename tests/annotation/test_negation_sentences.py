"""The rules of context on 200 sentences that were written before them."""

from __future__ import annotations

import csv
import re
from collections import Counter
from pathlib import Path

from alphita.annotation.context import load_rules
from alphita.annotation.spans import Place
from alphita.annotation.tokens import sentences_of

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
        said = []
        for place in places:
            number = next(n for n, one in enumerate(sentences) if one.start <= place.start and place.end <= one.end)
            said.append({one.category for one in contexts.of(number, [place])})
        right = [set(filter(None, one.split(","))) for one in row["context"].split("|")]
        yield row["language"], row["sentence"], right, said


def test_at_least_95_in_100_sentences_are_right_in_all():
    found = list(judged())
    wrong = [one for one in found if one[2] != one[3]]
    assert len(found) == 201
    assert len(wrong) <= 0.05 * len(found), wrong


def test_each_language_is_right_for_most_sentences():
    found = list(judged())
    counts = Counter(language for language, *_ in found)
    right = Counter(language for language, _, expected, said in found if expected == said)
    assert set(counts) == {"en", "it", "de", "fr", "es"}
    assert all(right[language] >= 0.8 * counts[language] for language in counts), right
