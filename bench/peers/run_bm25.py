"""BM25 over words in lower case, every name a document: bm25s with its default k1 1.5, b 0.75 and Lucene's formula.

Its default tokenizer drops English stop words and words of one sign, which would make type 1 and type 2 the same; here
every word counts.
"""

from __future__ import annotations

import argparse

import bm25s  # type: ignore[import-not-found]
from protocol import NAMES_WANTED, Answer, Dictionary, Search, run


def words(strings: list[str]) -> list[list[str]]:
    """Return the words of each string."""
    tokens: list[list[str]] = bm25s.tokenize(
        strings, lower=True, token_pattern=r"(?u)\b\w+\b", stopwords=[], return_ids=False, show_progress=False
    )
    return tokens


def build(dictionary: Dictionary, options: argparse.Namespace) -> Search:
    """Index the distinct names."""
    concepts = list(dictionary.concepts_of().items())
    index = bm25s.BM25()
    index.index(words([name for name, _ in concepts]), show_progress=False)

    def search(mentions: list[str]) -> list[list[Answer]]:
        wanted = min(NAMES_WANTED, len(concepts))
        documents, scores = index.retrieve(words(mentions), k=wanted, show_progress=False)
        return [
            [
                Answer(one, score)
                for row, score in zip(near, values, strict=True)
                if score > 0
                for one in concepts[row][1]
            ]
            for near, values in zip(documents.tolist(), scores.tolist(), strict=True)
        ]

    return search


if __name__ == "__main__":
    run(build, ["bm25s", "numpy"])
