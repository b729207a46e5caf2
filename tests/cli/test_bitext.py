"""`alphita bitext`, with a stand-in for the encoder."""

from __future__ import annotations

from pathlib import Path

import pytest

from alphita.errors import Rejects
from alphita_lab.training.terms import terminology_pairs
from tests.cli.command import alphita
from tests.doubles import HashEncoder
from tests.tables import terminology_of

ENGLISH = ["Cardiomyopathy", "Hypertension", "Nephropathy", "Pica", "Encephalopathy"]
ITALIAN = ["Cardiomiopatia", "Ipertensione", "Nefropatia", "Pica", "Encefalopatia"]


@pytest.fixture(autouse=True)
def _stand_ins(monkeypatch):
    monkeypatch.setattr("alphita.encoder.encoder.TermEncoder.load", lambda path, **_: HashEncoder(dim=256))
    monkeypatch.setattr("alphita.machine.set_threads", lambda threads: threads or 1)


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    for name, strings in (("en.txt", ENGLISH), ("it.txt", ["", *ITALIAN, " "])):
        (tmp_path / name).write_text("\n".join(strings) + "\n", encoding="utf-8")
    return tmp_path / "en.txt", tmp_path / "it.txt"


@pytest.fixture
def terminology(tmp_path: Path) -> Path:
    rows = [
        (f"T:{number}", string, tag)
        for tag, strings in (("en", ENGLISH), ("it", ITALIAN), ("und", ["Nefropatie"]))
        for number, string in enumerate(strings)
    ]
    rows.append(("T:2", "Nefropatía", "es"))
    return terminology_of(rows, tmp_path / "t.terminology").path


def test_files_of_strings(files, tmp_path, capsys):
    out = tmp_path / "pairs.tsv"
    arguments = [*files, "--encoder", "m", "--language", "ita", "-o", out]
    assert alphita("bitext", *arguments, "--threshold", "0.5") == 0
    captured = capsys.readouterr()
    pairs = terminology_pairs.read(out, Rejects(strict=True))
    assert ("cardiomyopathy", "cardiomiopatia") in zip(pairs.sources, pairs.translations, strict=True)
    assert pairs.languages == ["it"]
    assert f"{out}: {len(pairs):,} pairs" in captured.out
    assert "left out: 1 translation equal to its source" in captured.err
    assert alphita("bitext", *arguments) == 2
    assert "already exists; choose another name or use --force" in capsys.readouterr().err
    assert alphita("bitext", *arguments, "--threshold", "99", "--force") == 0
    assert out.read_text(encoding="utf-8") == "source\ttranslation\tlanguage\tmargin\n"


def test_a_terminology_gives_all_its_languages(terminology, tmp_path, capsys):
    out = tmp_path / "pairs.tsv"
    assert alphita("bitext", terminology, terminology, "--encoder", "m", "-o", out, "--threshold", "0.1") == 0
    rows = [line.split("\t") for line in out.read_text(encoding="utf-8").splitlines()[1:]]
    assert {row[2] for row in rows} == {"es", "it"}
    assert all(len(row) == 4 and float(row[3]) >= 0.1 for row in rows)
    assert "es: 1 pairs of 5 and 1 strings" in capsys.readouterr().out


def test_held_out_strings_are_left_out(terminology, tmp_path, monkeypatch):
    class Held:
        cleaned = frozenset({"cardiomyopathy", "nefropatía"})

    monkeypatch.setattr("alphita.terminology.splits.Split.load", lambda path: Held())
    out = tmp_path / "pairs.tsv"
    alphita("bitext", terminology, terminology, "--encoder", "m", "-o", out, "--threshold", "0.1", "--split", "s")
    text = out.read_text(encoding="utf-8")
    assert "nephropathy" in text
    assert "cardiomyopathy" not in text
    assert "nefropatía" not in text
