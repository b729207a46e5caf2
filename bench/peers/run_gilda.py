"""gilda: names equal after its own normalisation and variants of the mention, scored by how they differ as written.

A mention without such a name gets no answer.
"""

from __future__ import annotations

import argparse

from gilda.grounder import Grounder  # type: ignore[import-not-found]
from gilda.process import normalize  # type: ignore[import-not-found]
from gilda.term import Term  # type: ignore[import-not-found]
from protocol import Answer, Dictionary, Search, run

# One namespace for all, so that no concept comes before another by where it is from.
NAMESPACE = "dictionary"


def build(dictionary: Dictionary, options: argparse.Namespace) -> Search:
    """Make a term of every name; each concept's first name has the status "name", the others "synonym"."""
    terms = [
        Term(normalize(name), name, NAMESPACE, one, names[0], "synonym" if place else "name", NAMESPACE)
        for one, names in dictionary.names_of().items()
        for place, name in enumerate(names)
        if normalize(name).strip()
    ]
    grounder = Grounder(terms)

    def search(mentions: list[str]) -> list[list[Answer]]:
        return [[Answer(match.term.id, match.score) for match in grounder.ground(mention)] for mention in mentions]

    return search


if __name__ == "__main__":
    run(build, ["gilda"])
