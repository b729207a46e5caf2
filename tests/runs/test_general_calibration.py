from __future__ import annotations

from pathlib import Path

import general_calibration
from alphita.encoder import layout
from tests.stanzas import Stanza, ontology


def test_what_is_asked_of_a_model(tmp_path: Path) -> None:
    names = [[f"finding {number}", f"sign {number}", f"mark {number}"] for number in range(120)]
    terms = ontology(tmp_path / "t.terminology", [Stanza(number, some) for number, some in enumerate(names, 1)])
    synonyms = [name for some in names for name in some[1:]]
    quarter = general_calibration.held_out(terms, tmp_path)
    assert 0.15 < len(quarter) / len(synonyms) < 0.35
    assert quarter == general_calibration.held_out(terms)
    # Of a model that says what it learned: all the others.
    layout.write_learned(
        tmp_path, [name for name in [*synonyms, *(some[0] for some in names)] if name not in synonyms[:40]]
    )
    found = general_calibration.held_out(terms, tmp_path)
    assert sorted(found) == sorted(synonyms[:40])
    assert found[synonyms[1]] == f"T:{1 + int(synonyms[1].split()[1]):07d}"
