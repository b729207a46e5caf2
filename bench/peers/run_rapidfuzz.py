"""rapidfuzz: `process.extract` over all names, with its default scorer WRatio or with another one.

Names and mentions go through `rapidfuzz.utils.default_process` (lower case, other signs than letters and digits become
spaces), the names once and not again for every mention.
"""

from __future__ import annotations

import argparse

from protocol import NAMES_WANTED, Answer, Dictionary, Search, run
from rapidfuzz import fuzz, process
from rapidfuzz.utils import default_process


def build(dictionary: Dictionary, options: argparse.Namespace) -> Search:
    """Process the names."""
    concepts = list(dictionary.concepts_of().items())
    names = [default_process(name) for name, _ in concepts]
    scorer = getattr(fuzz, options.scorer)

    def answers(mention: str) -> list[Answer]:
        near = process.extract(default_process(mention), names, scorer=scorer, limit=NAMES_WANTED)
        return [Answer(one, score) for _, score, row in near if score > 0 for one in concepts[row][1]]

    return lambda mentions: [answers(mention) for mention in mentions]


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--scorer", default="WRatio", help="of rapidfuzz.fuzz")
    run(build, ["rapidfuzz"], parser)
