"""Nearest names by all-MiniLM-L6-v2, as twenty lines of sentence-transformers and FAISS do it, all as they come.

It needs no environment of its own: `pip install 'alphita[train]' sentence-transformers` has all of it.
"""

from __future__ import annotations

import argparse

from protocol import NAMES_WANTED, Answer, Dictionary, Search, run


def build(dictionary: Dictionary, options: argparse.Namespace) -> Search:
    """Encode the distinct names and index their vectors."""
    import faiss
    from sentence_transformers import SentenceTransformer

    from alphita.encoder.resolve import resolve

    concepts = list(dictionary.concepts_of().items())
    model = SentenceTransformer(str(resolve("minilm")), device="cpu")
    index = faiss.IndexFlatIP(model.get_sentence_embedding_dimension())
    index.add(model.encode([name for name, _ in concepts], normalize_embeddings=True))

    def search(mentions: list[str]) -> list[list[Answer]]:
        wanted = min(NAMES_WANTED, len(concepts))
        scores, rows = index.search(model.encode(mentions, normalize_embeddings=True), wanted)
        return [
            [Answer(one, score) for row, score in zip(near, values, strict=True) for one in concepts[row][1]]
            for near, values in zip(rows.tolist(), scores.tolist(), strict=True)
        ]

    return search


if __name__ == "__main__":
    run(build, ["sentence-transformers", "faiss-cpu", "torch"])
