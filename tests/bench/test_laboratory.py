"""Laboratory codes to LOINC, on a few rows."""

from __future__ import annotations

import gzip
import json

import laboratory

ROWS = """\
itemid (omop_source_code),label,fluid,valueuom,omop_concept_name,omop_concept_code
1,Glowin,Blood,mg/dL,Glowin [Mass/volume] in Serum or Plasma,9001-1
2,Glowin,Urine,mg/dL,Glowin [Mass/volume] in Urine,9002-2
3,Glowin,Urine,mmol/L,Glowin [Moles/volume] in Urine,9003-3
4,See comment,Urine,,,
"""


def test_specimen_and_unit_are_measured_apart(tmp_path, monkeypatch, capsys):
    # The command changes it.
    monkeypatch.setenv("ALPHITA_CACHE", str(tmp_path))
    (tmp_path / "local_codes").mkdir()
    with gzip.open(tmp_path / laboratory.TABLE, "wt") as file:
        file.write(ROWS)
    given = ["--data", tmp_path, "--work", tmp_path, "--half", "all", "-o", tmp_path / "report.json"]
    laboratory.main([str(word) for word in given])

    found = json.loads((tmp_path / "report.json").read_text())["figures"]
    assert list(found) == list(laboratory.GIVEN)
    first = {name: figures["first"]["share"] for name, figures in found.items()}
    assert first["label"] == 1 / 3
    assert first["label, specimen and unit"] == 1
    assert found["label"]["first"]["n"] == 3
    assert found["label"]["NIL of items without a code"]["n"] == 1
    assert capsys.readouterr().out.count("|\n") == 6
