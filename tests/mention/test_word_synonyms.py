"""Which words a terminology says for each other."""

from __future__ import annotations

from pathlib import Path

import pytest

from alphita.index.sources import terminology_of
from alphita.index.store import build
from alphita.mention.word_pairs import WordSynonyms
from alphita.terminology.store import load_terminology
from tests.doubles import HashEncoder

TABLE = """id,term
X:1,Renal cyst
X:1,Cyst of the kidneys
X:1,Renal tumour
X:2,Lung nodule
X:2,Pulmonary nodules
X:3,Voice
X:3,Vocal
X:4,Large red hand
X:4,Big wet hand
"""


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("kidney", "renal", True),
        ("renal", "kidneys", True),
        ("lung", "pulmonary", True),
        ("cyst", "tumor", True),
        # Not of the same concept; nothing in common; two words apart.
        ("renal", "pulmonary", False),
        ("voice", "vocal", False),
        ("large", "big", False),
        ("renal", "renal", False),
    ],
)
def test_words_by_which_alone_two_names_of_a_concept_differ(tmp_path: Path, one, other, expected):
    table = tmp_path / "own.csv"
    table.write_text(TABLE, encoding="utf-8")
    index = build(load_terminology(terminology_of(table)), HashEncoder(), tmp_path / "own.index")
    synonyms = WordSynonyms(index.segment)
    assert ((one, other) in synonyms) is expected
    assert ((other, one) in synonyms) is expected
