from __future__ import annotations

import gzip
import tempfile
import zipfile
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from alphita.errors import InputError, Rejects, UsageError
from alphita.terminology import store
from alphita.terminology.loaders import _rrf, umls
from alphita.terminology.store import Terminology
from tests.terminology import fuzz
from tests.terminology.conftest import FIXTURES, Load
from tests.terminology.made_release import Writer
from tests.terminology.test_properties import check_csr

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


def facts(terminology: Terminology) -> list[object]:
    """Return all that is known of all concepts."""
    return [terminology.concept(row) for row in range(terminology.n_concepts)]


def test_everything_of_a_concept_is_read(small_umls: Terminology) -> None:
    concept = small_umls.concept("UMLS:C0000001")
    assert concept.name == "Grumbling, knee"
    assert (concept.source, concept.retired) == ("UMLS", False)
    terms = [(term.string, term.language, term.source, term.code, term.term_type, term.type) for term in concept.terms]
    assert terms == [
        ("Grumbling, knee", "en", "MESH", "D000001", "MH", None),
        ('Knee "grumbles"', "en", "SNOMEDCT", "100001", "PT", None),
        ("noisy knee", "en", "CHV", "0000007", "SY", "layperson"),
        ("Grumbling in the knee's joint", "en", "SNOMEDCT", "100001", "SYGB", "uk_spelling"),
        ("Genou grognon", "fr", "MSHFRE", "D000001", "MH", None),
        ("Gonitis murmurans", "en", "SNOMEDCT", "100001", "OAP", "obsolete"),
    ]
    assert [term.preferred for term in concept.terms] == [True, *[False] * 5]
    assert [(found.text, found.language, found.source, found.reference) for found in concept.definitions] == [
        ('A knee that "talks"; it\'s harmless.', "en", "MESH", "AT0000011"),
        ("Un genou qui parle.", "fr", "MSHFRE", "AT0000012"),
    ]
    assert small_umls.concept("UMLS:C0000005").semantic_types == ["Finding", "Sign or Symptom"]
    # HP:0000002 of HPO: source and code make the CURIE; MTH has no codes.
    assert [(term.source, term.code) for term in small_umls.concept("UMLS:C0000002").terms[:2]] == [
        ("MTH", None),
        ("HP", "0000002"),
    ]


def test_relations_read_from_the_second_concept_to_the_first(small_umls: Terminology) -> None:
    # C0000003|CHD|C0000002|isa: C0000002 is a child of C0000003.
    knee = small_umls.concept("UMLS:C0000002")
    assert knee.parents == ["UMLS:C0000003"]
    assert sorted(knee.relations) == [("CHD:isa", "UMLS:C0000003"), ("RO:finding_site_of", "UMLS:C0000001")]
    assert small_umls.concept("UMLS:C0000003").relations[0] == ("PAR:inverse_isa", "UMLS:C0000002")
    assert small_umls.concept("UMLS:C0000005").parents == ["UMLS:C0000001"]
    numbers, names = small_umls.triple_sources
    assert {names[number] for number in numbers} == {"SNOMEDCT", "MESH", "MSHGER", "HP"}


@pytest.mark.parametrize(
    ("label", "labels", "parents"),
    [
        ("both", ["CHD", "CHD:isa", "PAR:inverse_isa", "RB", "RO:finding_site_of", "RQ:mapped_to"], ["CHD", "CHD:isa"]),
        ("rel", ["CHD", "PAR", "RB", "RO", "RQ"], ["CHD"]),
        ("rela", ["CHD", "RB", "finding_site_of", "inverse_isa", "isa", "mapped_to"], ["CHD", "isa"]),
    ],
)
def test_relation_labels(load: Load, label: str, labels: list[str], parents: list[str]) -> None:
    terminology, _ = load(umls, SMALL, relation_label=label)
    assert terminology.relation_labels == labels
    assert [labels[number] for number in terminology.parent_relations] == parents
    assert terminology.concept("UMLS:C0000002").parents == ["UMLS:C0000003"]


@pytest.mark.parametrize("label", ["rel", "rela", "both"])
def test_a_relation_that_has_only_rela_is_labelled_by_it(load: Load, tmp_path: Path, label: str) -> None:
    # As SNOMED CT's are in some releases: CUI1||CUI2|isa says that CUI2 is a CUI1.
    relation = "C0000005||||C0000001|||isa|||HPO||||N||\n"
    path = release(tmp_path / "META", MRFILES=None, MRREL=relation)
    terminology, rejects = load(umls, path, relation_label=label)
    assert rejects == []
    assert terminology.relation_labels == ["isa"]
    assert terminology.concept("UMLS:C0000001").parents == ["UMLS:C0000005"]


def test_retired_concepts_and_their_replacements(load: Load, small_umls: Terminology) -> None:
    merged = small_umls.concept("UMLS:C0000090")
    assert (merged.retired, merged.replaced_by, merged.terms) == (True, ["UMLS:C0000001"], [])
    assert small_umls.concept("UMLS:C0000091").replaced_by == []
    assert small_umls.concept("UMLS:C0000092").consider == ["UMLS:C0000002", "UMLS:C0000003"]
    assert not small_umls.concept("UMLS:C0000004").retired  # named in MRCUI, but back
    without, _ = load(umls, SMALL, retired=False)
    assert without.n_concepts == 5


def test_manifest(small_umls: Terminology) -> None:
    sources = small_umls.manifest["sources"]
    assert {source["version"] for source in sources} == {"2026AA"}
    assert {source["file"] for source in sources} == {f"{name}.RRF" for name in umls.LAYOUTS}
    assert sources[0]["sources"] == {"MSH": "2026", "MSHFRE": "2026", "SNOMEDCT_US": "2026_03_01"}
    assert small_umls.manifest["dropped"] == {
        "MRCUI: of a concept that has terms": 1,
        "MRREL: between terms of one concept": 1,
        "file MRHIER": 1,
    }


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
    french, _ = load(umls, SMALL, preferred_language="fr")
    assert french.concept("UMLS:C0000001").name == "Genou grognon"
    assert french.concept("UMLS:C0000002").name == "Knee"


@pytest.mark.parametrize(
    ("options", "terms", "dropped"),
    [
        ({"languages": "ENG,es"}, 12, {"MRCONSO: language not chosen": 3, "MRDEF: language not chosen": 1}),
        ({"languages": "ja"}, 1, {"MRCONSO: language not chosen": 14}),
        ({"sources": "MSH,HPO"}, 5, {"MRCONSO: source not chosen": 10, "MRDEF: source not chosen": 1}),
        ({"term_types": "PT"}, 4, {"MRCONSO: term type not chosen": 11}),
        ({"suppress": "N"}, 12, {"MRCONSO: suppressed": 3, "MRREL: suppressed": 1, "MRDEF: suppressed": 1}),
        ({"suppress": "N,O"}, 13, {"MRCONSO: suppressed": 2}),
        ({"semantic_types": "T033"}, 8, {"MRCONSO: semantic type not chosen": 7}),
        ({"semantic_types": "Finding,T030"}, 10, {"MRCONSO: semantic type not chosen": 5}),
    ],
)
def test_filters(load: Load, options: dict[str, Any], terms: int, dropped: dict[str, int]) -> None:
    terminology, rejects = load(umls, SMALL, **options)
    assert rejects == []
    assert terminology.n_terms == terms
    found = terminology.manifest["dropped"]
    assert {name: found.get(name) for name in dropped} == dropped
    check_csr(terminology)


def test_relations_of_concepts_that_were_left_out_are_counted(load: Load) -> None:
    terminology, _ = load(umls, SMALL, semantic_types="T033")
    assert [terminology.concept_id(row) for row in np.flatnonzero(~terminology.retired)] == [
        "UMLS:C0000001",
        "UMLS:C0000005",
    ]
    assert terminology.n_relations == 1
    assert terminology.manifest["dropped"]["MRREL: of a concept that was left out"] == 5


def test_self_relations_can_be_kept(load: Load) -> None:
    terminology, _ = load(umls, SMALL, self_relations=True)
    assert ("SY", "UMLS:C0000001") in terminology.concept("UMLS:C0000001").relations


def test_only_mrconso_is_needed(load: Load, small_umls: Terminology) -> None:
    terminology, rejects = load(umls, SMALL / "MRCONSO.RRF")
    assert rejects == []
    assert (terminology.n_concepts, terminology.n_terms, terminology.n_relations) == (5, 15, 0)
    assert terminology.terms["string"].to_pylist() == small_umls.terms["string"].to_pylist()
    assert terminology.manifest["sources"][0]["version"] is None


def test_gzip_zip_parts_crlf_and_missing_last_pipe_give_the_same(
    load: Load, tmp_path: Path, small_umls: Terminology
) -> None:
    wanted = facts(small_umls)
    zipped, nested = tmp_path / "2026AA.zip", tmp_path / "nested.nlm"
    with zipfile.ZipFile(zipped, "w") as archive, zipfile.ZipFile(nested, "w") as other:
        for file in SMALL.iterdir():
            archive.writestr(f"2026AA/META/{file.name}", file.read_bytes())
            other.writestr(f"META/{file.name}.aa.gz", gzip.compress(file.read_bytes()[:200]))
            other.writestr(f"META/{file.name}.ab.gz", gzip.compress(file.read_bytes()[200:]))
    files = [file for file in SMALL.iterdir() if file.suffix == ".RRF"]
    variants = {
        "gz": {file.name + ".gz": gzip.compress(file.read_bytes()) for file in files},
        "crlf": {file.name: file.read_bytes().replace(b"\n", b"\r\n") for file in files},
        "bom": {file.name.lower(): b"\xef\xbb\xbf" + file.read_bytes() for file in files},
        "bare": {file.name: file.read_bytes().replace(b"|\n", b"\n") for file in files},
        "open": {file.name: file.read_bytes()[:-1] for file in files},
        "blank": {
            file.name: b"\n".join([*file.read_bytes().splitlines(), b"", b"  ", b""])
            for file in files
            if file.stem != "MRFILES"
        },
    }
    paths = [zipped, nested]
    for name, contents in variants.items():
        (tmp_path / name).mkdir()
        for file_name, content in contents.items():
            (tmp_path / name / file_name).write_bytes(content)
        paths.append(tmp_path / name)
    for path in paths:
        terminology, rejects = load(umls, path)
        assert rejects == [], path
        assert facts(terminology) == wanted, path
    assert load(umls, zipped)[0].manifest["sources"] == [
        {
            "name": "UMLS",
            "file": "2026AA.zip",
            "version": "2026AA",
            "licence": umls.LICENCE,
            "sha256": load(umls, zipped)[0].manifest["sources"][0]["sha256"],
            "sources": {"MSH": "2026", "MSHFRE": "2026", "SNOMEDCT_US": "2026_03_01"},
        }
    ]


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


BAD_ROWS = [
    ("MRCONSO", "C0000009|ENG|too|few|\n", "4 fields, but there must be 18"),
    ("MRCONSO", FIRST_LINE.replace("Grumbling, knee", "a|pipe"), "19 fields"),
    ("MRCONSO", FIRST_LINE.replace("A0000001", "A0000099").replace("Grumbling, knee", " "), "an empty term"),
    ("MRCONSO", FIRST_LINE.replace("A0000001", "A0000099").replace("knee", "x" * 10_000), "longer than"),
    ("MRCONSO", FIRST_LINE.replace("A0000001", "A0000099").replace("ENG", "KLI"), "unknown language"),
    ("MRCONSO", FIRST_LINE.replace("A0000001", "A0000099").replace("|MSH|", "||"), "without a source"),
    ("MRCONSO", FIRST_LINE, "stood before"),
    ("MRCONSO", FIRST_LINE.replace("C0000001", ""), "not a concept id"),
    ("MRCONSO", FIRST_LINE.replace("knee", "k\0nee"), "NUL"),
    ("MRCONSO", FIRST_LINE.replace("knee", "genoué").encode("latin-1"), "not utf-8"),
    ("MRREL", "C0000001|||RO|C9999999|||x|||HPO||||N||\n", "no term of MRCONSO has this id"),
    ("MRREL", "C+000001|||RO|C0000002|||x|||HPO||||N||\n", "no term of MRCONSO has this id"),
    ("MRREL", "C0000001||||C0000002||||||HPO||||N||\n", "neither REL nor RELA"),
    ("MRSTY", "C7777777|T033|A|Finding|AT1||\n", "no term of MRCONSO has this id"),
    ("MRSTY", "C0000001|T033|A||AT1||\n", "without a name"),
    ("MRDEF", "C7777777||AT9||MSH|Nothing.|N||\n", "no term of MRCONSO has this id"),
    ("MRDEF", "C0000001||AT9||MSH| |N||\n", "an empty definition"),
    ("MRDEF", "C0000001||AT9||MSH|" + "x" * 70_000 + "|N||\n", "longer than"),
    ("MRRANK", "best|MSH|XX|N|\n", "not a rank"),
    ("MRCUI", "|2019AA|SY|||C0000001|Y|\n", "not a concept id"),
]


@pytest.mark.parametrize(("name", "row", "problem"), BAD_ROWS)
def test_bad_rows_are_set_aside_with_their_place(
    load: Load, tmp_path: Path, small_umls: Terminology, name: str, row: str | bytes, problem: str
) -> None:
    wanted = facts(small_umls)
    lines = (SMALL / f"{name}.RRF").read_bytes().splitlines(keepends=True)
    lines.insert(3, row if isinstance(row, bytes) else row.encode())
    # The atom that stands first stays, so the second row of an id is the bad one.
    path = release(tmp_path / "META", MRFILES=None, **{name: b"".join(lines)})
    terminology, rejects = load(umls, path)
    [[file, line, _, value, said]] = rejects
    assert (file, line) == (str(path / f"{name}.RRF"), "4")
    assert problem in said
    assert len(value) <= 80
    assert facts(terminology) == wanted
    with pytest.raises(InputError, match="META"):
        umls.load([path], umls.Options(), Rejects(None, strict=True))


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
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        for file in SMALL.iterdir():
            archive.writestr(f"META/{file.name}", b"" if file.stem == "MRDEF" else file.read_bytes())
    terminology, [[file, _, _, _, problem]] = load(umls, tmp_path / "x.zip")
    assert file.endswith("MRDEF.RRF")
    assert "MRFILES.RRF says 4 rows, the file has 0" in problem
    assert terminology.n_relations > 0
    with zipfile.ZipFile(tmp_path / "cut.zip", "w") as archive:
        archive.writestr("META/MRCONSO.RRF.aa.gz", gzip.compress(CONSO.encode()))
        archive.writestr("META/MRCONSO.RRF.ab.gz", b"")
    with pytest.raises(InputError, match=r"MRCONSO\.RRF\.ab\.gz: the file is empty"):
        umls.load([tmp_path / "cut.zip"], umls.Options(), Rejects(None))


def test_a_file_cut_in_the_middle_of_a_row(load: Load, tmp_path: Path) -> None:
    path = release(tmp_path / "META", MRREL=(SMALL / "MRREL.RRF").read_text()[:-30])
    terminology, [[_, line, _, _, problem]] = load(umls, path)
    assert (line, "fields, but there must be 16" in problem) == ("8", True)
    assert terminology.n_relations == 5


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "empty"),
        (b"\n\n", "no line has the 18 fields"),
        (b"format-version: 1.2\n", "no line has the 18 fields"),
        (b'{"graphs": []}', "no line has the 18 fields"),
        ((SMALL / "MRREL.RRF").read_bytes(), "no line has the 18 fields"),
        (CONSO.encode("utf-16"), "no line has the 18 fields"),
        (b"\0" * 100, "no line has the 18 fields"),
        (gzip.compress(CONSO.encode() * 50)[:-20], "cut short"),
        (b"\x1f\x8bnonsense", "cut short"),
    ],
)
def test_a_file_that_is_not_mrconso_is_an_error(tmp_path: Path, content: bytes, problem: str) -> None:
    path = tmp_path / "MRCONSO.RRF"
    path.write_bytes(content)
    with pytest.raises(InputError, match=problem) as raised:
        umls.load([path], umls.Options(), Rejects(None))
    assert str(path) in str(raised.value)


def test_wrong_releases_and_options(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no file MRCONSO"):
        umls.load([SMALL / "MRREL.RRF"], umls.Options(), Rejects(None))
    with pytest.raises(InputError, match="no file MRCONSO"):
        umls.load([tmp_path], umls.Options(), Rejects(None))
    with pytest.raises(InputError, match="No such file"):
        umls.load([tmp_path / "none"], umls.Options(), Rejects(None))
    broken = tmp_path / "x.zip"
    broken.write_bytes(b"PK\x03\x04nonsense")
    with pytest.raises(InputError, match="zip file is damaged"):
        umls.load([broken], umls.Options(), Rejects(None))
    with pytest.raises(InputError, match=r"gives MRCONSO\.RRF no column STR"):
        umls.load(
            [release(tmp_path / "a", MRFILES="MRCONSO.RRF||CUI,LAT,TS,STT,ISPREF,AUI,SAB,TTY,CODE||||\n")],
            umls.Options(),
            Rejects(None),
        )
    with pytest.raises(InputError, match="no term is left"):
        umls.load([SMALL], umls.Options(sources="NONE"), Rejects(None))
    with pytest.raises(UsageError, match="klingon"):
        umls.load([SMALL], umls.Options(languages="klingon"), Rejects(None))
    with pytest.raises(UsageError, match="T999"):
        umls.load([SMALL], umls.Options(semantic_types="T033,T999"), Rejects(None))


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
            rows["MRCONSO"].append(
                [
                    concept,
                    language,
                    "P",
                    "",
                    "PF",
                    "",
                    "Y",
                    atom,
                    "",
                    "",
                    "",
                    source,
                    kind,
                    code,
                    string,
                    "0",
                    suppressed,
                    "",
                ]
            )
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


GOOD = {file.name: file.read_bytes() for file in SMALL.iterdir()}


@fuzz.examples(40)
@given(st.sampled_from(sorted(name for name in GOOD if name.endswith(".RRF"))), st.data())
def test_mutated_files_give_a_clear_error_or_a_terminology(file: str, data: st.DataObject) -> None:
    new = st.binary(max_size=30) | st.text('|\n\r"CANO0', max_size=10).map(str.encode)
    damaged = data.draw(fuzz.edited(GOOD[file], 40, new))
    fuzz.check_sound_or_refused(umls, {**GOOD, file: damaged}, umls.Options())


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(["MRCONSO.RRF", "MRREL.RRF", "MRCONSO.RRF.gz", "x.zip", "MRFILES.RRF"]), st.binary(max_size=300))
def test_random_bytes_give_a_clear_error(file: str, content: bytes) -> None:
    assume(content or file not in ("MRREL.RRF", "MRFILES.RRF"))  # only the terms must have rows
    terms = {} if file.startswith("MRCONSO") else {"MRCONSO.RRF": GOOD["MRCONSO.RRF"]}
    fuzz.check_refused(umls, {**terms, file: content})


# --- a synthetic release of a hundredth of UMLS ----------------------------------------------------------------------


def test_a_hundredth_of_umls_with_every_count_checked(tmp_path: Path) -> None:
    folder = tmp_path / "META"
    folder.mkdir()
    written = Writer(folder, 0.01, 0).write()
    assert {name: written[name] for name in ("MRCONSO", "MRREL")} == {"MRCONSO": 154_800, "MRREL": 878_900}
    store.save(umls.load([folder], umls.Options(), Rejects(None, strict=True)), tmp_path / "t.terminology")
    terminology = store.load_terminology(tmp_path / "t.terminology")
    counts = terminology.manifest["counts"]

    def rows(name: str) -> list[list[str]]:
        return [line.split("|") for line in (folder / f"{name}.RRF").read_text(encoding="utf-8").splitlines()]

    names = rows("MRCONSO")
    assert {len(row) for row in names} == {19}
    live, retired = {row[0] for row in names}, {row[0] for row in rows("MRCUI")}
    assert len(live) == 42_700
    assert counts["concepts"] == len(live) + len(retired) == terminology.n_concepts
    assert int(terminology.retired.sum()) == len(retired)
    assert counts["terms"] == len(names)
    languages = Counter(_rrf.LANGUAGES[row[1]] for row in names)
    assert dict(Counter(terminology.terms["language"].to_pylist())) == languages
    assert Counter(terminology.terms["string"].to_pylist()) == Counter(row[14] for row in names)
    per_concept = Counter(row[0] for row in names)
    assert {
        terminology.concept_id(row)[5:]: count for row, count in enumerate(np.diff(terminology.concept_terms)) if count
    } == per_concept
    triples, self_relations = set(), 0
    for row in rows("MRREL"):
        self_relations += row[0] == row[4]
        if row[0] != row[4]:
            triples.add((row[4], f"{row[3]}:{row[7]}" if row[7] else row[3], row[0], row[10]))
    assert counts["relations"] == len(triples)
    assert terminology.manifest["dropped"] == {"MRREL: between terms of one concept": self_relations}
    assert Counter(np.array(terminology.relation_labels)[terminology.triples[:, 1]].tolist()) == Counter(
        label for _, label, _, _ in triples
    )
    heads = Counter(head for head, _, _, _ in triples)
    found = {
        terminology.concept_id(row)[5:]: int(count)
        for row, count in enumerate(np.bincount(terminology.triples[:, 0], minlength=terminology.n_concepts))
        if count
    }
    assert found == heads
    assert counts["semantic_types"] == len({(row[0], row[3]) for row in rows("MRSTY")})
    assert counts["definitions"] == len({(row[0], row[2]) for row in rows("MRDEF")})
    assert counts["replacements"] == sum(row[2] == "SY" for row in rows("MRCUI"))
