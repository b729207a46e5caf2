from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from alphita.errors import InputError, Rejects
from alphita.terminology.loaders import umls
from tests.terminology.conftest import FIXTURES, facts, zipped

SMALL = FIXTURES / "umls"
CONSO = (SMALL / "MRCONSO.RRF").read_text(encoding="utf-8")
FIRST_LINE = CONSO.splitlines(keepends=True)[0]


@pytest.fixture
def small_umls(load):
    terminology, rejects = load(umls, SMALL)
    assert rejects == []
    return terminology


def release(folder: Path, **changes: str | bytes | None) -> Path:
    """Copy the small release, with some files changed, or left out (None)."""
    folder.mkdir()
    for file in SMALL.iterdir():
        content = changes.get(file.stem, file.read_bytes())
        if content is not None:
            (folder / file.name).write_bytes(content.encode() if isinstance(content, str) else content)
    return folder


@pytest.mark.parametrize("trains", [False, True])
def test_obsolete_terms_train_where_it_is_set(load, trains):
    terminology, _ = load(umls, SMALL, obsolete_trains=trains)
    rows, _ = terminology.training_terms()
    assert ("Gonitis murmurans" in terminology.terms["string"].take(rows).to_pylist()) is trains


def test_preferred_terms_without_mrrank(load, tmp_path):
    terminology, _ = load(umls, release(tmp_path / "META", MRRANK=None))
    # TS=P, STT=PF, ISPREF=Y; the only English one so marked in C0000001 is none, so the fewest flags missing.
    assert [terminology.concept(row).name for row in range(5)] == [
        "Grumbling, knee",
        "Knee",
        "Joint",
        "Schlüssel 'B'",
        "Loud; audible knee",
    ]
    flipped = CONSO.replace("P|L0000001|VO|S0000002|Y", "P|L0000001|PF|S0000002|Y")
    again, _ = load(umls, release(tmp_path / "again", MRRANK=None, MRCONSO=flipped))
    assert again.concept("UMLS:C0000001").name == 'Knee "grumbles"'


def test_parts_marks_and_missing_last_pipes_give_the_same(load, tmp_path, small_umls):
    wanted = facts(small_umls)
    files = [file for file in SMALL.iterdir() if file.suffix == ".RRF"]
    halves = {f"{file.name}.aa.gz": gzip.compress(file.read_bytes()[:200]) for file in files}
    variants = {
        "parts": halves | {f"{file.name}.ab.gz": gzip.compress(file.read_bytes()[200:]) for file in files},
        "bom": {file.name.lower(): b"\xef\xbb\xbf" + file.read_bytes() for file in files},
        "bare": {file.name: file.read_bytes().replace(b"|\n", b"\n") for file in files},
        "open": {file.name: file.read_bytes()[:-1] for file in files},
        "blank": {
            file.name: b"\n".join([*file.read_bytes().splitlines(), b"", b"  ", b""])
            for file in files
            if file.stem != "MRFILES"
        },
    }
    for name, contents in variants.items():
        (tmp_path / name).mkdir()
        for file_name, content in contents.items():
            (tmp_path / name / file_name).write_bytes(content)
        terminology, rejects = load(umls, tmp_path / name)
        assert rejects == [], name
        assert facts(terminology) == wanted, name
    archive = zipped(tmp_path / "2026AB.zip", {f"META/{file.name}": file.read_bytes() for file in files})
    [source] = load(umls, archive)[0].manifest["sources"]
    assert (source["file"], source["version"]) == ("2026AB.zip", "2026AB")


def test_column_order_is_that_of_mrfiles(load, tmp_path, small_umls):
    layouts = {line.split("|")[0][:-4]: line.split("|") for line in (SMALL / "MRFILES.RRF").read_text().splitlines()}
    turned, changes = [], {}
    for name, cells in layouts.items():
        columns = cells[2].split(",")
        turned.append("|".join([*cells[:2], ",".join(reversed(columns)), *cells[3:]]))
        rows = [line.split("|")[:-1] for line in (SMALL / f"{name}.RRF").read_text().splitlines()]
        changes[name] = "".join("|".join([*reversed(row), "\n"]) for row in rows)
    path = release(tmp_path / "META", MRFILES="\n".join(turned) + "\n", **changes)
    assert facts(load(umls, path)[0]) == facts(small_umls)


def test_ids_of_another_shape_take_the_long_way(load, tmp_path, small_umls):
    changes = {file.stem: file.read_text().replace("C00000", "CL-") for file in SMALL.glob("*.RRF")}
    terminology, rejects = load(umls, release(tmp_path / "META", **changes))
    assert rejects == []
    assert terminology.triples.tolist() == small_umls.triples.tolist()
    assert terminology.concept("UMLS:CL-01").name == "Grumbling, knee"


@pytest.mark.parametrize("bare", [False, True])
def test_a_broken_first_row_does_not_tell_the_layout_of_the_others(load, tmp_path, small_umls, bare):
    broken, rows = (FIRST_LINE, CONSO.replace("|\n", "\n")) if bare else (FIRST_LINE.partition("|")[2], CONSO)
    path = release(tmp_path / "META", MRFILES=None, MRCONSO=broken + rows)
    terminology, [[_, line, _, _, problem]] = load(umls, path)
    assert (line, problem) == ("1", f"{19 if bare else 17} fields, but there must be 18")
    assert facts(terminology) == facts(small_umls)


def test_only_the_terms_must_have_rows(load, tmp_path):
    empty = dict.fromkeys(("MRREL", "MRDEF", "MRSTY", "MRRANK", "MRCUI", "MRSAB"), "")
    terminology, rejects = load(umls, release(tmp_path / "META", MRFILES=None, **empty))
    assert rejects == []
    assert (terminology.n_concepts, terminology.n_terms, terminology.n_relations) == (5, 15, 0)
    terminology, [[file, _, _, _, problem]] = load(umls, release(tmp_path / "cut", MRDEF=""))
    assert file.endswith("MRDEF.RRF")
    assert "MRFILES.RRF says 4 rows, the file has 0" in problem
    assert terminology.n_relations > 0
    parts = {"META/MRCONSO.RRF.aa.gz": gzip.compress(CONSO.encode()), "META/MRCONSO.RRF.ab.gz": b""}
    with pytest.raises(InputError, match=r"MRCONSO\.RRF\.ab\.gz: the file is empty"):
        umls.load([zipped(tmp_path / "cut.zip", parts)], umls.Options(), Rejects(None))


def test_wrong_releases(tmp_path):
    with pytest.raises(InputError, match="no file MRCONSO"):
        umls.load([SMALL / "MRREL.RRF"], umls.Options(), Rejects(None))
    with pytest.raises(InputError, match=r"gives MRCONSO\.RRF no column STR"):
        umls.load(
            [release(tmp_path / "a", MRFILES="MRCONSO.RRF||CUI,LAT,TS,STT,ISPREF,AUI,SAB,TTY,CODE||||\n")],
            umls.Options(),
            Rejects(None),
        )
