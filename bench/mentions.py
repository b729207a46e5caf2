"""Mentions of a terminology in a corpus: words a minute on one core, and the same mentions as naive searches find.

    python bench/mentions.py X.terminology CORPUS... --language en [--repeats 3] [--naive 20000] [--out mentions.json]

Two naive searches check the result: a loop over every place of the folded text and every length of a name, with all
names, on all texts; and a regular expression with an alternative a name (Python's, far too slow for all of them), with
the names that occur most and others drawn by chance, on the first texts. The script fails where one of them differs.
Seconds are those of the process on its one thread, the fastest of the repeats; reading the files is counted apart.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from alphita import machine
from alphita.terminology.store import load_terminology
from alphita.training.mentions.building import AT_ONCE
from alphita.training.text.corpora import blocks, documents
from alphita.training.text.folding import WORD, Fold, character_flags
from alphita.training.text.forms import Forms, collect
from alphita.training.text.matching import Matcher

Found = list[tuple[int, int, int, str]]
REGEX_NAMES = 300


def fast(matcher: Matcher, texts: Sequence[str]) -> tuple[Found, int, float]:
    """Return text, start, end and key of every mention; the words; and seconds."""
    found: Found = []
    words = number = 0
    seconds = 0.0
    for block in blocks(texts, AT_ONCE):
        begin = time.process_time()
        matches = matcher(block)
        seconds += time.process_time() - begin
        words += matches.words
        text = np.repeat(np.arange(number, number + len(block)), np.diff(matches.offsets))
        keys = [matcher.forms.keys[form] for form in matches.forms.tolist()]
        found += zip(text.tolist(), matches.starts.tolist(), matches.ends.tolist(), keys, strict=True)
        number += len(block)
    return found, words, seconds


def by_loop(keys: Sequence[str], fold: Fold, texts: Sequence[str]) -> Found:
    """Find mentions place by place, length by length."""
    known, flags = set(keys), character_flags()
    lengths: dict[str, list[int]] = {}
    for key in known:
        lengths.setdefault(key[:3], []).append(len(key))
    lengths = {start: sorted(set(found), reverse=True) for start, found in lengths.items()}
    found: Found = []
    for number, text in enumerate(texts):
        folded = fold(text)
        written = str(folded)
        word = [bool(flags[ord(sign)] & WORD) for sign in written]
        place = 0
        while place < len(written):
            for length in (
                lengths.get(written[place : place + 3], ()) if not (place and word[place] and word[place - 1]) else ()
            ):
                end = place + length
                inside = end < len(written) and word[end - 1] and word[end]
                if not inside and written[place:end] in known:
                    found.append((number, int(folded.starts[place]), int(folded.ends[end - 1]), written[place:end]))
                    place = end - 1
                    break
            place += 1
    return found


def by_expression(keys: Sequence[str], fold: Fold, texts: Sequence[str]) -> Found:
    """Find mentions by one regular expression, the longest names first; for scripts with spaces, without marks."""
    not_inside = r"(?:(?<![^\W_])|(?![^\W_]))"
    alternatives = "|".join(re.escape(key) for key in sorted(keys, key=len, reverse=True))
    expression = re.compile(f"{not_inside}(?:{alternatives}){not_inside}")
    found: Found = []
    for number, text in enumerate(texts):
        folded = fold(text)
        for one in expression.finditer(str(folded)):
            found.append((number, int(folded.starts[one.start()]), int(folded.ends[one.end() - 1]), one[0]))
    return found


def all_keys(forms: Forms) -> Forms:
    """Return forms in which every key stands for itself in any case: what both naive searches look for."""
    numbers = np.arange(len(forms.keys), dtype=np.int32)
    return Forms(forms.keys, numbers, numbers, forms.keys, np.arange(len(numbers) + 1), numbers)


def main() -> None:
    """Print the figures, or write them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("terminology", type=Path)
    parser.add_argument("corpus", type=Path, nargs="+")
    parser.add_argument("--language", required=True)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--naive", type=int, default=200_000, help="words that the regular expression searches")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    machine.set_threads(1)
    fold = Fold(options.language)
    forms = collect(load_terminology(options.terminology), fold, languages=[options.language])
    begin = time.process_time()
    texts = list(documents(options.corpus))
    reading = time.process_time() - begin
    begin = time.process_time()
    matcher = Matcher(forms, fold)
    building = time.process_time() - begin
    runs = [fast(matcher, texts)[1:] for _ in range(options.repeats)]
    words, seconds = runs[0][0], min(seconds for _, seconds in runs)
    plain = Matcher(all_keys(forms), fold)
    found = fast(plain, texts)[0]
    if by_loop(forms.keys, fold, texts) != found:
        raise SystemExit("the loop finds other mentions")
    first = texts[: max(1, len(texts) * options.naive // max(words, 1))]
    met = sorted({key for *_, key in found})
    chance = random.Random(0)
    some = sorted(
        {*chance.sample(met, min(REGEX_NAMES, len(met))), *chance.sample(forms.keys, min(REGEX_NAMES, len(forms.keys)))}
    )
    numbers = np.arange(len(some), dtype=np.int32)
    few = Matcher(Forms(some, numbers, numbers, some, np.arange(len(some) + 1), numbers), fold)
    begin = time.process_time()
    expected = by_expression(some, fold, first)
    naive_seconds = time.process_time() - begin
    if fast(few, first)[0] != expected:
        raise SystemExit("the regular expression finds other mentions")
    report: dict[str, Any] = {
        "names": len(forms.keys), "documents": len(texts), "words": words, "mentions": len(found),
        "million_words_a_minute": round(words / seconds * 60 / 1e6, 1), "seconds": round(seconds, 3),
        "building_seconds": round(building, 2), "reading_seconds": round(reading, 2),
        "equal": {
            "loop": {"names": len(forms.keys), "mentions": len(found)},
            "regular_expression": {
                "names": len(some), "documents": len(first), "mentions": len(expected),
                "seconds": round(naive_seconds, 2),
            },
        },
    }  # fmt: skip
    text = json.dumps(report, indent=1)
    print(text)
    if options.out:
        options.out.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
