"""Say what medspaCy's ConText and negspaCy make of given spans of English texts: JSON in by stdin, out by stdout.

In: [[text, [[start, end], ...]], ...]. Out: by peer, for each text and span the assertions; none: present.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import spacy
from spacy.language import Language
from spacy.tokens import Doc

CATEGORIES = {
    "is_negated": "negated",
    "is_uncertain": "possible",
    "is_family": "family",
    "is_historical": "historical",
    "is_hypothetical": "hypothetical",
}


def medspacy(texts: list[Any]) -> list[list[list[str]]]:
    """Return the assertions of medspaCy's default rules of context and sentences."""
    import medspacy

    nlp = medspacy.load(medspacy_enable=["medspacy_pyrush", "medspacy_context"])
    answers = []
    for text, places in texts:
        doc = marked(nlp, nlp.make_doc(text), places, ["medspacy_pyrush", "medspacy_context"])
        answers.append([[name for key, name in CATEGORIES.items() if getattr(span._, key)] for span in doc])
    return answers


def marked(nlp: Language, doc: Doc, places: list[list[int]], names: list[str]) -> list[Any]:
    """Run pipes on a text whose entities are the given spans; return them as the spans now are, in order."""
    spans = [doc.char_span(start, end, label="FINDING", alignment_mode="expand") for start, end in places]
    doc.ents = spacy.util.filter_spans(spans)
    for name in names:
        doc = nlp.get_pipe(name)(doc)
    return spans


def negspacy(texts: list[Any]) -> list[list[list[str]]]:
    """Return the assertions of negspaCy with its clinical terms."""
    from negspacy.negation import Negex  # noqa: F401  (registers the pipe)
    from negspacy.termsets import termset

    nlp = spacy.blank("en")
    nlp.add_pipe("sentencizer")
    nlp.add_pipe("negex", config={"neg_termset": termset("en_clinical").get_patterns()})
    return [
        [
            ["negated"] if span._.negex else []
            for span in marked(nlp, nlp.make_doc(text), places, ["sentencizer", "negex"])
        ]
        for text, places in texts
    ]


if __name__ == "__main__":
    given = json.load(sys.stdin)
    out = sys.stdout
    sys.stdout = sys.stderr
    json.dump({"medspacy": medspacy(given), "negspacy": negspacy(given)}, out)
