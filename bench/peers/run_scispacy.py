"""scispaCy's candidate generator: TF-IDF of character 3-grams and an HNSW index, over a knowledge base of our names.

A candidate counts by the best similarity of its aliases and ties go by id, as in scispaCy's own linker; the linker's
threshold is not applied.
"""

from __future__ import annotations

import argparse

from protocol import Answer, Dictionary, Search, run
from scispacy.candidate_generation import CandidateGenerator, create_tfidf_ann_index  # type: ignore[import-not-found]
from scispacy.linking_utils import Entity, KnowledgeBase  # type: ignore[import-not-found]

# Aliases looked up, and the breadth of that search: the defaults of EntityLinker and CandidateGenerator.
ALIASES = 30
EF_SEARCH = 200


def build(dictionary: Dictionary, options: argparse.Namespace) -> Search:
    """Index every name; each concept's first name is its canonical one."""
    entities = [Entity(one, names[0], names[1:]) for one, names in dictionary.names_of().items()]
    base = KnowledgeBase(entities)
    aliases, vectorizer, index = create_tfidf_ann_index(None, base)
    # An index that was loaded from a file gets this; one that was just made does not.
    index.setQueryTimeParams({"efSearch": EF_SEARCH})
    generator = CandidateGenerator(index, vectorizer, aliases, base)

    def search(mentions: list[str]) -> list[list[Answer]]:
        found = [
            [Answer(one.concept_id, max(one.similarities)) for one in candidates]
            for candidates in generator(mentions, ALIASES)
        ]
        return [sorted(answers, key=lambda answer: -answer.score) for answers in found]

    return search


if __name__ == "__main__":
    run(build, ["scispacy", "nmslib-metabrainz", "scikit-learn", "scipy", "numpy"])
