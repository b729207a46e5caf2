"""Alphita maps any medical string to the concept that it names, and trains encoders on a terminology's own graph.

    import alphita

    for result in alphita.normalize(["heart attack", "metformin 500 mg"], to="hpo"):
        print(result.mention, result.concept_id, result.concept_name, result.confidence, result.decision)

The public API has eleven names; `help(alphita.normalize)` describes the first, and so on:

    normalize       a list of strings, a series or a data frame -> answers
                        alphita.normalize(["heart attack"], to="hpo")[0].concept_id
    annotate        a text, or a list of them -> mentions with their concepts and assertions
                        alphita.annotate("no seizures", to="hpo")[0].said
    load            a Normalizer for a terminology, for many calls
                        alphita.load("hpo", error=0.02)
    train           trains your own encoder on a terminology (needs alphita[train])
                        alphita.train("coder", "hpo", "my-model", steps=800)
    Normalizer      maps strings with an index built by `alphita index`
                        alphita.Normalizer.load("my.index").normalize(["heart attack"], top_k=3)
    Index           the strings and vectors of a terminology
                        len(alphita.load("hpo").index)
    Terminology     concepts, terms and relations
                        alphita.load_terminology("my.terminology").n_concepts
    load_terminology  opens a terminology imported by `alphita terminology import`
                        alphita.load_terminology("my.terminology").ancestors(0)
    TermEncoder     strings -> vectors
                        alphita.TermEncoder.load("alphita-en").encode(["heart attack", "myocardial infarction"])
    ProductSearch   products ranked for a query, from `alphita search build`
                        alphita.ProductSearch.load("drugs.search").search(["ibuprofen gel"], 5)
    AlphitaError    every error that a user can cause, with a remedy
                        try: alphita.load("hpoo")
                        except alphita.AlphitaError as error: print(error)

Importing the package does nothing; the names are loaded on first use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

# Of the laboratory, which is found by its entry point.
EXTENSION = ""
_PUBLIC = {
    "AlphitaError": "alphita.errors",
    "Index": "alphita.index.store",
    "Normalizer": "alphita.answer.normalizer",
    "ProductSearch": "alphita.search",
    "TermEncoder": "alphita.encoder.encoder",
    "Terminology": "alphita.terminology.store",
    "annotate": "alphita.front",
    "load": "alphita.front",
    "load_terminology": "alphita.terminology.store",
    "normalize": "alphita.front",
    "train": EXTENSION,
}
__all__ = sorted(_PUBLIC)

if TYPE_CHECKING:
    from alphita.answer.normalizer import Normalizer as Normalizer
    from alphita.encoder.encoder import TermEncoder as TermEncoder
    from alphita.errors import AlphitaError as AlphitaError
    from alphita.front import annotate as annotate
    from alphita.front import load as load
    from alphita.front import normalize as normalize
    from alphita.index.store import Index as Index
    from alphita.search import ProductSearch as ProductSearch
    from alphita.terminology.store import Terminology as Terminology
    from alphita.terminology.store import load_terminology as load_terminology
    from alphita_lab.front import train as train


def __getattr__(name: str) -> Any:  # noqa: ANN401 - PEP 562
    if _PUBLIC.get(name) == EXTENSION:
        return importlib.import_module("alphita.registry").extension(name)
    if name in _PUBLIC:
        return getattr(importlib.import_module(_PUBLIC[name]), name)
    raise AttributeError(f"module 'alphita' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*globals(), *__all__]
