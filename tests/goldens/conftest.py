"""What the cases are made of: an index, strings of every kind, a store of reviews."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from alphita.index.choice import Choice
from alphita.index.sources import enrichment_of
from alphita.index.store import build
from tests import doubles
from tests.answer import rich
from tests.cli.command import alphita
from tests.goldens.golden import SignEncoder

# mention, context, language, frequency
ASKED = [
    ("Headache", "", "en", "3"),
    ("headace", "", "en", "12"),
    ("HEADACHE.", "", "", ""),
    ("Kopfschmerz", "", "de", "1"),
    ("gift", "", "de", ""),
    ("Gift", "", "en", ""),
    ("ache of the right side of the head", "", "", "2"),
    ("no fever", "", "en", ""),
    ('fever, \t"high"\nsince Monday', "", "en", "7"),
    ("ague", "", "", ""),
    ("raised temperatur", "", "", ""),
    ("dulorin 50mg tabl.", "", "", "40"),
    ("dulorin 100 mg tablet", "", "", ""),
    ("Dulorin", "", "", ""),
    ("cold", "chronic obstructive lung disease (COLD) since 1990", "en", ""),
    ("COLD", "", "", ""),
    ("common  cold", "", "", ""),
    ("T2DM", "", "", ""),
    ("diabetes typ 1", "", "", "5"),
    ("epileptic seizures and fits", "", "", ""),
    ("low body temperature (LBT)", "", "", ""),
    ("LBT", "", "", ""),
    ("LBT", "LBT was measured", "en", "6"),
    ("SZ", "no seizure", "", ""),
    ("Méniere große headache", "", "fr", ""),
    ("Ｐｏｉｓｏｎｉｎｇ", "", "", ""),
    ("צהבת poisoning 🤮", "", "he", ""),
    ("obsolete thing", "", "", ""),
    ("=SUM(A1)", "", "", ""),
    ("<b>soreness</b>'); DROP TABLE x;--", "", "", ""),
    ("qqqq", "", "", ""),
    ("pyrexia", "", "", ""),
    ("febrile", "", "", "8"),
    ("HA", "HA since monday", "en", ""),
    ("SOB", "", "", ""),
    ("120", "", "", ""),
    ("  ", "", "", ""),
    ("", "", "", ""),
    ("ache " * 60, "", "", ""),
    ("seizure", "", "", "many"),
    ("a\0b", "", "", ""),
    ("Headache", "", "en", "4"),
]
# What ann settled of the mentions with these numbers: concept (none: NIL), relation.
SETTLED = {2: ("AX:3", "narrow"), 7: ("AX:2", "exact"), 17: ("T:3", "exact"), 31: ("", "")}


@dataclass(frozen=True)
class World:
    """Where things lie.

    Attributes:
        folder: of all of them.
        index: made with `SignEncoder`.
        borrowing: the same with the names and short forms that come with Alphita.
        source: CSV with the columns id, text, note, lang and n.
        reviews: a store that holds `SETTLED`.
        short: a list of abbreviations.
    """

    folder: Path
    index: Path
    borrowing: Path
    source: Path
    reviews: Path
    short: Path


@pytest.fixture(scope="session")
def made(tmp_path_factory) -> World:
    folder = tmp_path_factory.mktemp("world")
    rows = [*rich.ROWS, *((one, string, scope, "en", "T", one[2:]) for one, string, scope in doubles.ROWS)]
    terminology = rich.RichTerminology(rows)
    index = build(terminology, SignEncoder(), folder / "small.index").path
    lent = enrichment_of(Choice(learn="no"))
    borrowing = build(terminology, SignEncoder(), folder / "borrowing.index", enrichment=lent).path
    return World(folder, index, borrowing, _source(folder), _reviews(folder), _short(folder / "short.csv"))


@pytest.fixture
def world(made: World, monkeypatch) -> World:
    """The world, whose index loads the encoder that it was made with."""
    monkeypatch.setattr("alphita.encoder.encoder.TermEncoder.load", SignEncoder.load)
    monkeypatch.setattr("alphita.machine.set_threads", lambda threads: threads or 1)
    return made


@pytest.fixture(autouse=True)
def settings(monkeypatch) -> Iterator[None]:
    """The width of tables, and who may read what is written, whatever the user's settings are."""
    monkeypatch.setenv("COLUMNS", "120")
    mask = os.umask(0o022)
    yield
    os.umask(mask)


def _source(folder: Path) -> Path:
    lines = ["id,text,note,lang,n"]
    for number, (mention, context, language, frequency) in enumerate(ASKED, 1):
        cells = [f"L{number}", mention, context, language, frequency]
        lines.append(",".join('"' + one.replace('"', '""') + '"' for one in cells))
    path = folder / "in.csv"
    # Its last row is not UTF-8.
    path.write_bytes("\n".join(lines).encode() + b"\nL99,caf\xe9,,,\n")
    return path


def _reviews(folder: Path) -> Path:
    lines = ["row,mention_code,mention,concept_id,concept_name,relation,method,status,reviewer,reviewed_at,comment"]
    for number, (concept, relation) in SETTLED.items():
        cells = [str(number), f"L{number}", ASKED[number - 1][0], concept, concept and f"name of {concept}", relation]
        cells += ["nearest", "approved", "ann", f"2001-02-03T04:05:{number:02}+00:00", f"so {number}"]
        lines.append(",".join(cells))
    answers, store = folder / "answers.csv", folder / "reviews.sqlite"
    answers.write_text("\n".join(lines) + "\n", encoding="utf-8")
    assert alphita("review", "import", answers, "-m", store, "--project", "lab", "--source", "LAB") == 0
    return store


def _short(path: Path) -> Path:
    path.write_text("short,long\nSZ,seizure\nCOLD,chronic obstructive lung disease\n", encoding="utf-8")
    return path
