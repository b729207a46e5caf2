from __future__ import annotations

import gzip
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alphita.errors import InputError, Rejects
from alphita.terminology.loaders import _rrf, umls
from alphita.terminology.store import Terminology
from tests.terminology import fuzz
from tests.terminology.conftest import FIXTURES, Load, facts, zipped

SMALL = FIXTURES / "umls"
CONSO = (SMALL / "MRCONSO.RRF").read_text(encoding="utf-8")
FIRST_LINE = CONSO.splitlines(keepends=True)[0]


@pytest.fixture
def small_umls(load: Load) -> Terminology:
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


@pytest.mark.parametrize("label", ["rel", "rela", "both"])
def test_a_relation_that_has_only_rela_is_labelled_by_it(load: Load, tmp_path: Path, label: str) -> None:
    # As SNOMED CT's are in some releases: CUI1||CUI2|isa says that CUI2 is a CUI1.
    relation = "C0000005||||C0000001|||isa|||HPO||||N||\n"
    path = release(tmp_path / "META", MRFILES=None, MRREL=relation)
    terminology, rejects = load(umls, path, relation_label=label)
    assert rejects == []
    assert terminology.relation_labels == ["isa"]
    assert terminology.concept("UMLS:C0000001").parents == ["UMLS:C0000005"]


def test_preferred_terms_without_mrrank(load: Load, tmp_path: Path) -> None:
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


def test_parts_marks_and_missing_last_pipes_give_the_same(load: Load, tmp_path: Path, small_umls: Terminology) -> None:
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


def test_column_order_is_that_of_mrfiles(load: Load, tmp_path: Path, small_umls: Terminology) -> None:
    layouts = {line.split("|")[0][:-4]: line.split("|") for line in (SMALL / "MRFILES.RRF").read_text().splitlines()}
    turned, changes = [], {}
    for name, cells in layouts.items():
        columns = cells[2].split(",")
        turned.append("|".join([*cells[:2], ",".join(reversed(columns)), *cells[3:]]))
        rows = [line.split("|")[:-1] for line in (SMALL / f"{name}.RRF").read_text().splitlines()]
        changes[name] = "".join("|".join([*reversed(row), "\n"]) for row in rows)
    path = release(tmp_path / "META", MRFILES="\n".join(turned) + "\n", **changes)
    assert facts(load(umls, path)[0]) == facts(small_umls)


def test_small_blocks_give_the_same(load: Load, small_umls: Terminology, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = facts(small_umls)
    for size in (1, 50, 300):
        monkeypatch.setattr(_rrf, "BLOCK_BYTES", size)
        terminology, rejects = load(umls, SMALL)
        assert rejects == []
        assert facts(terminology) == wanted


def test_ids_of_another_shape_take_the_long_way(load: Load, tmp_path: Path, small_umls: Terminology) -> None:
    changes = {file.stem: file.read_text().replace("C00000", "CL-") for file in SMALL.glob("*.RRF")}
    terminology, rejects = load(umls, release(tmp_path / "META", **changes))
    assert rejects == []
    assert terminology.triples.tolist() == small_umls.triples.tolist()
    assert terminology.concept("UMLS:CL-01").name == "Grumbling, knee"


def test_a_file_shorter_than_mrfiles_says_is_noticed(load: Load, tmp_path: Path) -> None:
    path = release(tmp_path / "META", MRSTY="".join((SMALL / "MRSTY.RRF").read_text().splitlines(keepends=True)[:4]))
    _, [reject] = load(umls, path)
    assert "MRFILES.RRF says 5 rows, the file has 4" in reject[4]


@pytest.mark.parametrize("bare", [False, True])
def test_a_broken_first_row_does_not_tell_the_layout_of_the_others(
    load: Load, tmp_path: Path, small_umls: Terminology, bare: bool
) -> None:
    broken, rows = (FIRST_LINE, CONSO.replace("|\n", "\n")) if bare else (FIRST_LINE.partition("|")[2], CONSO)
    path = release(tmp_path / "META", MRFILES=None, MRCONSO=broken + rows)
    terminology, [[_, line, _, _, problem]] = load(umls, path)
    assert (line, problem) == ("1", f"{19 if bare else 17} fields, but there must be 18")
    assert facts(terminology) == facts(small_umls)


def test_only_the_terms_must_have_rows(load: Load, tmp_path: Path) -> None:
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


def test_a_file_cut_in_the_middle_of_a_row(load: Load, tmp_path: Path) -> None:
    path = release(tmp_path / "META", MRREL=(SMALL / "MRREL.RRF").read_text()[:-30])
    terminology, [[_, line, _, _, problem]] = load(umls, path)
    assert (line, "fields, but there must be 16" in problem) == ("8", True)
    assert terminology.n_relations == 5


def test_wrong_releases(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no file MRCONSO"):
        umls.load([SMALL / "MRREL.RRF"], umls.Options(), Rejects(None))
    with pytest.raises(InputError, match=r"gives MRCONSO\.RRF no column STR"):
        umls.load(
            [release(tmp_path / "a", MRFILES="MRCONSO.RRF||CUI,LAT,TS,STT,ISPREF,AUI,SAB,TTY,CODE||||\n")],
            umls.Options(),
            Rejects(None),
        )


# --- random content --------------------------------------------------------------------------------------------------

WORDS = fuzz.words('a "quoted" one', "it's", "a\\b", "x, y; z", '"', without="|\ufeff")
TERMS = st.tuples(
    WORDS,
    st.sampled_from(["ENG", "SPA", "JPN"]),
    st.sampled_from(["MSH", "HPO", "SRC"]),
    st.sampled_from(["PT", "SY", ""]),
    st.sampled_from(["N", "O", "E", "Y"]),
    st.sampled_from(["", "NOCODE", "D01"]),
)
IDS = st.integers(1, 60).map(lambda number: f"C{number:07}")
Content = tuple[dict[str, list[tuple[str, ...]]], list[tuple[str, ...]], set[tuple[str, str]], list[tuple[str, str]]]


@st.composite
def releases(draw: st.DrawFn) -> Content:
    ids = draw(st.lists(IDS, min_size=1, max_size=12, unique=True))
    concepts = {concept: draw(st.lists(TERMS, min_size=1, max_size=4)) for concept in ids}
    known = st.sampled_from(ids)
    relation = st.tuples(
        known,
        st.sampled_from(["RO", "CHD", "PAR"]),
        known,
        st.sampled_from(["", "isa", "x_of"]),
        st.sampled_from(["MSH", "HPO"]),
    )
    types = draw(st.sets(st.tuples(known, st.sampled_from(["Finding", "Drug"])), max_size=8))
    definitions = draw(st.lists(st.tuples(known, WORDS), max_size=4))
    return concepts, draw(st.lists(relation, max_size=20)), types, definitions


def write_release(content: Content, folder: Path, end: str) -> None:
    concepts, relations, types, definitions = content
    rows: dict[str, list[list[str]]] = {"MRCONSO": [], "MRREL": [], "MRSTY": [], "MRDEF": []}
    for concept, terms in concepts.items():
        for string, language, source, kind, suppressed, code in terms:
            atom = f"A{len(rows['MRCONSO']):07}"
            cells = f"{concept}|{language}|P||PF||Y|{atom}||||{source}|{kind}|{code}|{string}|0|{suppressed}|"
            rows["MRCONSO"].append(cells.split("|"))
    for second, rel, first, rela, source in relations:
        rows["MRREL"].append([first, "", "", rel, second, "", "", rela, "", "", source, source, "", "", "N", ""])
    rows["MRSTY"] = [[concept, f"T{len(name)}", "", name, "", ""] for concept, name in sorted(types)]
    rows["MRDEF"] = [[concept, "", "AT1", "", "MSH", text, "N", ""] for concept, text in definitions]
    for name, found in rows.items():
        if found:
            text = "".join("|".join([*row, end]) for row in found)
            (folder / f"{name}.RRF").write_bytes(text.encode())


@fuzz.examples(30)
@given(releases(), st.sampled_from(["\n", "\r\n"]), st.sampled_from(["rel", "rela", "both"]))
def test_written_loaded_saved_and_opened_it_is_the_same(content: Content, end: str, label: str) -> None:
    concepts, relations, types, definitions = content
    with tempfile.TemporaryDirectory() as name:
        write_release(content, Path(name), end)
        terminology = fuzz.saved_and_opened(umls, Path(name), umls.Options(relation_label=label))
        assert terminology.concept_ids.to_pylist() == sorted(f"UMLS:{concept}" for concept in concepts)
        wanted = set()
        for head, rel, tail, rela, _ in relations:
            text = {"rel": rel or rela, "rela": rela or rel, "both": f"{rel}:{rela}" if rela and rel else rel or rela}[
                label
            ]
            if head != tail:
                wanted.add((f"UMLS:{head}", text, f"UMLS:{tail}"))
        found = set()
        for concept, terms in concepts.items():
            shown = terminology.concept(f"UMLS:{concept}")
            assert sorted(
                (term.string, term.language, term.source, term.term_type or "", term.code or "") for term in shown.terms
            ) == sorted(
                (
                    string,
                    _rrf.LANGUAGES[language],
                    {"MSH": "MESH", "HPO": "HP"}.get(source, source),
                    kind,
                    code.replace("NOCODE", ""),
                )
                for string, language, source, kind, _, code in terms
            )
            best = [string for string, language, _, _, suppressed, _ in terms if (language, suppressed) == ("ENG", "N")]
            assert shown.name == best[0] if best else shown.name in [term[0] for term in terms]
            assert sum(term.preferred for term in shown.terms) == 1
            assert sorted(shown.semantic_types) == sorted(kind for owner, kind in types if owner == concept)
            texts = {text for owner, text in definitions if owner == concept}
            assert {found.text for found in shown.definitions} == texts
            found |= {(shown.id, label, tail) for label, tail in shown.relations}
        assert found == wanted


# --- a synthetic release of a hundredth of UMLS ----------------------------------------------------------------------
