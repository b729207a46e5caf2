"""Tokens of a medical word before and after an encoder's vocabulary is extended, for several languages.

    python runs/tokens_per_word.py -o OUT --language it --before ENCODER --after EXTENDED --terminology T --corpus FILE
        --language es --before ENCODER --after OTHER --terminology T

Options after a --language are that language's, up to the next --language. EXTENDED is made by `alphita vocabulary
extend` or by `alphita train ext_bert`. Counted are the words of the terminology's names in the language (names), of the
texts (corpus), and of the texts those of 6 letters or more that also stand in a name (medical words of the corpus; the
shorter ones are mostly "di" and "con"): all words as often as they occur. The tables also tell how some words are
split: --example, or those of `EXAMPLES`, which are the paper's and like ones.
OUT/table.md and OUT/table.json.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import study
from alphita import report
from alphita.errors import InputError, UsageError
from alphita.terminology.languages import among
from alphita.terminology.store import load_terminology
from alphita.terminology.text import clean_many
from alphita_lab.encoder.wordpieces import changed, count_words, fertility, open_wordpiece, words_of
from alphita_lab.evaluation.report.markdown import text
from alphita_lab.training.text.corpora import documents

if TYPE_CHECKING:
    from tokenizers import Tokenizer

# Amore Bondarenko et al. 2022, §3: ple uro pol mona re -> pleuro polmonare, ipote ns ione -> ipotensione.
EXAMPLES = {
    "it": ("pleuropolmonare", "ipotensione"),
    "es": ("pleuropulmonar", "hipotensión"),
    "de": ("Lungenfell", "Hypotonie"),
    "fr": ("pleuropulmonaire", "hypotension"),
}
LETTERS = 6
NAMES, CORPUS, MEDICAL = "names", "corpus", "medical words of the corpus"


def words_in(
    terminology: Path | None, corpus: Sequence[Path], language: str, like: Tokenizer
) -> dict[str, Counter[str]]:
    """Count the words of the names in a language, of texts, and of the texts the long ones that stand in names too."""
    if terminology is None and not corpus:
        raise UsageError(f"{language}: give --terminology or --corpus, to know whose words are counted")
    counted: dict[str, Counter[str]] = {}
    if terminology is not None:
        opened = load_terminology(terminology)
        if not among(opened.terms["language"].unique().to_pylist(), [language]):
            raise InputError(f"has no name in the language {language!r}", file=terminology)
        rows, _ = opened.training_terms(languages=[language])
        counted[NAMES] = count_words(clean_many(opened.terms["string"].take(rows).to_pylist()), like)
    if corpus:
        counted[CORPUS] = count_words(documents(list(corpus)), like)
    if len(counted) == 2:
        long = {word: count for word, count in counted[CORPUS].items() if word.isalpha() and len(word) >= LETTERS}
        counted[MEDICAL] = Counter({word: count for word, count in long.items() if word in counted[NAMES]})
    for name, words in counted.items():
        if not words:
            raise InputError(f"there is no word of this kind: {name}, {language}", file=terminology or corpus[0])
    return counted


def figures(words: Mapping[str, int], before: Tokenizer, after: Tokenizer) -> dict[str, Any]:
    """Return words, tokens a word before and after, the shares of words that are one token, unknown or split anew."""
    counts = [fertility(words, one.model) for one in (before, after)]
    whole = [
        sum(count for word, count in words.items() if one.token_to_id(word) is not None) for one in (before, after)
    ]
    return {
        "words": counts[0].words,
        "distinct_words": len(words),
        "tokens_a_word": [one.tokens_a_word for one in counts],
        "one_token": [one / counts[0].words for one in whole],
        "unknown": [one.unknown_share for one in counts],
        "split_otherwise": changed(words, before.model, after.model),
    }


def pieces(string: str, like: Tokenizer) -> list[str]:
    """Return the tokens of a string, the words of which are normalised as the tokenizer does it."""
    return [piece.value for word in words_of(string, like) for piece in like.model.tokenize(word)]


def of_language(given: argparse.Namespace) -> dict[str, Any]:
    """Return the figures and examples of one language."""
    if given.before is None or given.after is None:
        raise UsageError(f"{given.language}: give --before and --after, two encoders")
    before, after = open_wordpiece(given.before), open_wordpiece(given.after)
    counted = words_in(given.terminology, given.corpus, given.language, before)
    examples = given.example or EXAMPLES.get(given.language, ())
    return {
        "language": given.language,
        "before": given.before,
        "after": given.after,
        "tokens": [one.get_vocab_size() for one in (before, after)],
        "texts": {name: figures(words, before, after) for name, words in counted.items()},
        "examples": [[word, pieces(word, before), pieces(word, after)] for word in examples],
    }


def markdown(languages: Sequence[Mapping[str, Any]]) -> str:
    """Return the tables of figures and of examples."""
    lines = [
        "# Tokens a word",
        "",
        "| language | words of | words | tokens a word | after | one token | after | unknown | after | split anew |",
        "|---|---|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for one in languages:
        for name, found in one["texts"].items():
            cells = [one["language"], name, f"{found['words']:,}"]
            cells += [f"{value:.2f}" for value in found["tokens_a_word"]]
            cells += [f"{value:.1%}" for value in (*found["one_token"], *found["unknown"], found["split_otherwise"])]
            lines.append("| " + " | ".join(cells) + " |")
    lines += ["", "| language | word | before | after |", "|---|---|---|---|"]
    for one in languages:
        for word, before, after in one["examples"]:
            lines.append(f"| {one['language']} | {text(word)} | {' '.join(before)} | {' '.join(after)} |")
    lines += [
        "",
        *(f"- {one['language']}: {one['tokens'][0]:,} tokens before, {one['tokens'][1]:,} after" for one in languages),
    ]
    return "\n".join(lines) + "\n"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--language", required=True, help="BCP-47 tag; begins the options of another language")
    parser.add_argument("--before", help="encoder as it comes")
    parser.add_argument("--after", help="the same with an extended vocabulary")
    parser.add_argument("--terminology", type=Path, help="whose names are counted")
    parser.add_argument("--corpus", type=Path, action="append", default=[], help="text, or JSON Lines; repeatable")
    parser.add_argument("--example", action="append", default=[], help="a word to show; repeatable")
    parser.add_argument("--output", "-o", type=Path, help="the folder to write table.md and table.json to")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    starts = [place for place, word in enumerate(words) if word.split("=")[0] == "--language"]
    parts = [words[start:end] for start, end in zip(starts, [*starts[1:], len(words)], strict=True)] or [words]
    parts[0] = words[: starts[0] if starts else 0] + parts[0]
    given = [_parser().parse_args(part) for part in parts]
    out = next((one.output for one in given if one.output), None)

    def act() -> None:
        if out is None:
            raise UsageError("say where to write: --output")
        found = [of_language(one) for one in given]
        out.mkdir(parents=True, exist_ok=True)
        study.write_table(out, {"languages": found}, report.provenance(), markdown(found))
        study.show(out / f"{study.TABLE}.md")

    return study.status(act)


if __name__ == "__main__":
    sys.exit(main())
