"""gilda's annotator on texts: annotate_gilda.py NAMES.tsv TEXTS.json OUT.json; it runs in its own environment.

NAMES.tsv holds id and name a line, the first name of an id its preferred one; TEXTS.json is a list of strings, OUT.json
has `answers`, a list of lists of [start, end, id], the best match of each span, and `seconds`, of processor time for
finding. No context, so no disambiguation models.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from gilda.grounder import Grounder  # type: ignore[import-not-found]
from gilda.ner import annotate  # type: ignore[import-not-found]
from gilda.process import normalize  # type: ignore[import-not-found]
from gilda.term import Term  # type: ignore[import-not-found]

NAMESPACE = "dictionary"


def main(names: str, texts: str, out: str) -> None:
    """Read the names, annotate, write."""
    first: dict[str, str] = {}
    terms = []
    for line in Path(names).read_text(encoding="utf-8").splitlines():
        concept, name = line.split("\t")
        status = "synonym" if concept in first else "name"
        preferred = first.setdefault(concept, name)
        if normalize(name).strip():
            terms.append(Term(normalize(name), name, NAMESPACE, concept, preferred, status, NAMESPACE))
    grounder = Grounder(terms)
    # Else they are fetched over the network at the first homonym.
    grounder.gilda_disambiguators, grounder.adeft_disambiguators = {}, {}
    began = time.process_time()
    found = [
        [[one.start, one.end, one.matches[0].term.id] for one in annotate(text, grounder=grounder)]
        for text in json.loads(Path(texts).read_text(encoding="utf-8"))
    ]
    seconds = time.process_time() - began
    Path(out).write_text(json.dumps({"answers": found, "seconds": seconds}), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
