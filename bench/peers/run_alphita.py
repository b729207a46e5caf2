"""Alphita: `Normalizer.normalize` with five candidates, over an index made of the dictionary or over a ready one.

A ready index (--index) must hold the same strings as the dictionary; only opening it counts as building. Candidates
count even where the answer is NIL, for the peers have no NIL. The ids are numbered inside, so that they may be any.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from protocol import CONCEPTS_WANTED, Answer, Dictionary, Search, run, write

from alphita import Normalizer
from alphita.encoder.encoder import TermEncoder
from alphita.errors import Rejects
from alphita.index.store import Index
from alphita.index.store import build as build_index
from alphita.terminology import store
from alphita.terminology.loaders import table
from alphita.terminology.text import clean_many

PREFIX = "CONCEPT:"


def build(dictionary: Dictionary, options: argparse.Namespace) -> Search:
    """Index the names, or open the ready index."""
    if options.index is None:
        folder = tempfile.mkdtemp(dir=options.answers.parent)
        ids = list(dict.fromkeys(dictionary.ids))
        index = _indexed(dictionary, ids, Path(folder), options.model)
    else:
        ids = []
        index = Index.open(options.index)
        _check(index, dictionary)
    normalizer = Normalizer(index)
    normalizer.encoder()

    def concept(found: str) -> str:
        return ids[int(found.removeprefix(PREFIX))] if ids else found

    def search(mentions: list[str]) -> list[list[Answer]]:
        results = normalizer.normalize(mentions, top_k=CONCEPTS_WANTED)
        return [
            [
                Answer(concept(one.concept_id), one.similarity if one.score is None else one.score)
                for one in result.candidates
            ]
            for result in results
        ]

    return search


def _indexed(dictionary: Dictionary, ids: list[str], folder: Path, model: str) -> Index:
    number = {one: place for place, one in enumerate(ids)}
    lines = [(f"{PREFIX}{number[one]}", name) for one, name in zip(dictionary.ids, dictionary.names, strict=True)]
    write(folder / "names.tsv", ("id", "term"), lines)
    with Rejects() as rejects:
        tables = table.load([folder / "names.tsv"], table.Options(quote=""), rejects)
        store.save(tables, folder / "names.terminology")
    terminology = store.load_terminology(folder / "names.terminology")
    return build_index(terminology, TermEncoder.load(model), folder / "names.index")


def _check(index: Index, dictionary: Dictionary) -> None:
    """Refuse an index over other strings: held-out ones among them, say."""
    ours = set(index.segment.strings)
    theirs = set(clean_many(dictionary.names, index.rules)) - {""}
    if ours != theirs:
        more, less = sorted(ours - theirs), sorted(theirs - ours)
        raise SystemExit(
            f"{index.path}: not the strings of the dictionary: {len(more)} more, as {more[:3]}, {len(less)} fewer, as "
            f"{less[:3]}"
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", default="minilm", help="encoder: a model folder, a hub name, or 'minilm'")
    parser.add_argument("--index", type=Path, help="a ready index, with ranker and calibration where it has them")
    run(build, ["alphita", "onnxruntime", "faiss-cpu", "numpy"], parser)
