from __future__ import annotations

import importlib
import sys
from pathlib import Path

from alphita.encoder import learned
from alphita.index.learning import is_held_back
from tests.stanzas import Stanza, ontology

sys.path.append(str(Path(__file__).parents[2] / "bench"))
general_calibration = importlib.import_module("general_calibration")


def test_a_model_that_says_what_it_learned_is_asked_the_tenth_that_it_did_not(tmp_path: Path) -> None:
    names = [[f"finding {number}", f"sign {number}", f"mark {number}"] for number in range(120)]
    terms = ontology(tmp_path / "t.terminology", [Stanza(number, some) for number, some in enumerate(names, 1)])
    synonyms = [name for some in names for name in some[1:]]
    quarter = general_calibration.held_out(terms, tmp_path)
    assert 0.15 < len(quarter) / len(synonyms) < 0.35
    assert quarter == general_calibration.held_out(terms)
    tenth = [name for name, back in zip(synonyms, is_held_back(synonyms), strict=True) if back]
    assert len(tenth) > 10
    # Of the tenth it learned one all the same.
    learned.write(tmp_path, [name for name in [*synonyms, *(some[0] for some in names)] if name not in tenth[1:]])
    found = general_calibration.held_out(terms, tmp_path)
    assert sorted(found) == sorted(tenth[1:])
    assert found[tenth[1]] == f"T:{1 + int(tenth[1].split()[1]):07d}"
