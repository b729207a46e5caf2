from __future__ import annotations

import gzip
import tempfile
import zipfile
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from alphita.errors import InputError, Rejects, UsageError
from alphita.terminology.loaders import _rrf, rxnorm
from alphita.terminology.store import Terminology
from tests.terminology import fuzz
from tests.terminology.conftest import FIXTURES, Load

SMALL = FIXTURES / "rxnorm"
GOOD = {file.name: file.read_bytes() for file in (SMALL / "rrf").glob("*.RRF")}


@pytest.fixture
def drugs(load: Load) -> Terminology:
    terminology, rejects = load(rxnorm, SMALL)
    assert rejects == []
    return terminology


def release(folder: Path, **changes: str | bytes | None) -> Path:
    folder.mkdir()
    for name, good in GOOD.items():
        content = changes.get(Path(name).stem, good)
        if content is not None:
            (folder / name).write_bytes(content.encode() if isinstance(content, str) else content)
    return folder


def facts(terminology: Terminology) -> list[object]:
    return [terminology.concept(row) for row in range(terminology.n_concepts)]


def test_everything_of_a_concept_is_read(drugs: Terminology) -> None:
    tablet = drugs.concept("RXNORM:1002")
    assert tablet.name == "imaginol 10 MG Oral Tablet"
    assert [(term.string, term.source, term.code, term.term_type, term.preferred) for term in tablet.terms] == [
        ("imaginol 10 MG Oral Tablet", "RXNORM", "1002", "SCD", True),
        ("imaginol 10 mg tablet", "RXNORM", "1002", "PSN", False),
        ("imaginol (as hydrochloride) 10 MG", "RXNORM", "1002", "SY", False),
    ]
    assert tablet.semantic_types == ["Clinical Drug"]
    assert tablet.xrefs == [("oboInOwl:hasDbXref", "NDC:00000000101"), ("oboInOwl:hasDbXref", "NDC:00000000102")]
    assert {(term.language, term.scope, term.status) for term in tablet.terms} == {("en", "exact", "official")}
    ingredient = drugs.concept("RXNORM:1001")
    assert [(term.string, term.source) for term in ingredient.terms] == [
        ("imaginol", "RXNORM"),
        ("IMAGINOL", "MTHSPL"),
        ('Imaginol "pure"', "VANDF"),
    ]
    assert drugs.concept("RXNORM:1003").terms[0].type == "brand_name"


def test_relations_of_concepts_and_of_atoms(drugs: Terminology) -> None:
    # 1001|RO|1002|has_ingredient: 1002 has the ingredient 1001.
    assert drugs.concept("RXNORM:1002").relations == [("RO:has_ingredient", "RXNORM:1001")]
    assert drugs.concept("RXNORM:1001").relations == [("RO:ingredient_of", "RXNORM:1002")]
    # Between the atoms 5003 and 5009.
    assert drugs.concept("RXNORM:1005").relations == [("RB:inverse_isa", "RXNORM:1001")]
    assert drugs.manifest["dropped"] == {
        "RXNCUI: of a concept that has terms": 1,
        "RXNREL: between terms of one concept": 1,
        "RXNSAT: attribute not chosen": 2,
        "file RXNCONSO.RRF": 1,
    }


def test_retired_concepts(load: Load, drugs: Terminology) -> None:
    obsolete = drugs.concept("RXNORM:1004")
    assert (obsolete.retired, obsolete.terms[0].type) == (True, "obsolete")
    assert drugs.concept("RXNORM:1090").replaced_by == ["RXNORM:1001"]
    assert drugs.concept("RXNORM:1091").consider == ["RXNORM:1002", "RXNORM:1003"]
    gone = drugs.concept("RXNORM:1092")
    assert (gone.retired, gone.replaced_by, gone.consider) == (True, [], [])
    assert not drugs.concept("RXNORM:1001").retired
    assert load(rxnorm, SMALL, retired=False)[0].n_concepts == 5


def test_versions(drugs: Terminology) -> None:
    assert {source["version"] for source in drugs.manifest["sources"]} == {"26AA_260105F"}
    assert drugs.manifest["sources"][0]["sources"] == {"RXNORM": "26AA_260105F", "VANDF": "2026_01"}


def test_options(load: Load) -> None:
    free, _ = load(rxnorm, SMALL, sources="RXNORM", suppress="N")
    assert sorted(free.terms["string"].to_pylist())[:2] == ["Fantaza", "imaginol"]
    assert (free.n_terms, free.n_relations) == (5, 3)
    assert free.concept("RXNORM:1002").xrefs == [("oboInOwl:hasDbXref", "NDC:00000000101")]
    strengths, _ = load(rxnorm, SMALL, attributes="RXN_STRENGTH,RXN_BN_CARDINALITY", relation_label="rela")
    assert strengths.concept("RXNORM:1002").properties == [("rxn_strength", "10 MG")]
    assert strengths.concept("RXNORM:1002").xrefs == []
    assert strengths.relation_labels == ["has_ingredient", "ingredient_of", "inverse_isa", "tradename_of"]
    drugs, _ = load(rxnorm, SMALL, semantic_types="T200")
    assert drugs.concept("RXNORM:1002").name == "imaginol 10 MG Oral Tablet"
    assert drugs.manifest["dropped"]["RXNREL: of a concept that was left out"] == 5
    with pytest.raises(UsageError, match="T999"):
        load(rxnorm, SMALL, semantic_types="T999")


def test_zip_gzip_crlf_and_small_blocks_give_the_same(
    load: Load, tmp_path: Path, drugs: Terminology, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = facts(drugs)
    zipped, packed, windows = tmp_path / "RxNorm_full.zip", tmp_path / "gz", tmp_path / "crlf"
    with zipfile.ZipFile(zipped, "w") as archive:
        for file in SMALL.rglob("*.RRF"):
            archive.write(file, file.relative_to(SMALL))
    packed.mkdir()
    for name, content in GOOD.items():
        (packed / f"{name}.gz").write_bytes(gzip.compress(content))
    release(windows, **{Path(name).stem: content.replace(b"\n", b"\r\n") for name, content in GOOD.items()})
    for size in (_rrf.BLOCK_BYTES, 64):
        monkeypatch.setattr(_rrf, "BLOCK_BYTES", size)
        for path in (zipped, packed, windows):
            terminology, rejects = load(rxnorm, path)
            assert rejects == []
            assert facts(terminology) == wanted


def test_only_rxnconso_is_needed(load: Load) -> None:
    terminology, rejects = load(rxnorm, SMALL / "rrf" / "RXNCONSO.RRF")
    assert rejects == []
    assert (terminology.n_concepts, terminology.n_terms, terminology.n_relations) == (5, 9, 0)
    with pytest.raises(InputError, match="no file RXNCONSO"):
        rxnorm.load([SMALL / "rrf" / "RXNREL.RRF"], rxnorm.Options(), Rejects(None))


@pytest.mark.parametrize(
    ("name", "row", "problem"),
    [
        ("RXNREL", "|5999|AUI|RB||5001|AUI|isa|||RXNORM||||||\n", "no term of RXNCONSO has this id"),
        ("RXNREL", "1001||CUI|RB|9999||CUI|isa|||RXNORM||||||\n", "no term of RXNCONSO has this id"),
        ("RXNREL", "01001||CUI|RB|1002||CUI|isa|||RXNORM||||||\n", "no term of RXNCONSO has this id"),
        ("RXNREL", "1001|RB|1002|isa|\n", "4 fields, but there must be 16"),
        ("RXNSAT", "9999|||5004|AUI|1002|||NDC|RXNORM|1|N|4096|\n", "no term of RXNCONSO has this id"),
        ("RXNSAT", "1002|||5004|AUI|1002|||NDC|RXNORM| |N|4096|\n", "an empty attribute"),
        ("RXNCONSO", "1001|ENG||||||5001|5001|1001||RXNORM|IN|1001|again||N|4096|\n", "stood before"),
        ("RXNCUI", "|RXNORM_10AA|RXNORM_12AA|1|1001|\n", "not a concept id"),
    ],
)
def test_bad_rows_are_set_aside_with_their_place(load: Load, tmp_path: Path, name: str, row: str, problem: str) -> None:
    wanted = facts(load(rxnorm, SMALL)[0])
    lines = GOOD[f"{name}.RRF"].decode().splitlines(keepends=True)
    lines.insert(1, row)
    path = release(tmp_path / "rrf", **{name: "".join(lines)})
    terminology, [[file, line, _, _, said]] = load(rxnorm, path)
    assert (file, line) == (str(path / f"{name}.RRF"), "2")
    assert problem in said
    assert facts(terminology) == wanted


WORDS = st.text(
    st.characters(codec="utf-8", categories=("L", "N", "P"), exclude_characters="|"), min_size=1, max_size=9
)
IDS = st.integers(1, 30).map(str)


@fuzz.examples(25)
@given(
    st.dictionaries(IDS, st.lists(WORDS, min_size=1, max_size=3), min_size=1, max_size=10),
    st.lists(st.tuples(st.integers(0, 99), st.sampled_from(["isa", "has_form"]), st.integers(0, 99), st.booleans())),
)
def test_written_loaded_saved_and_opened_it_is_the_same(
    concepts: dict[str, list[str]], pairs: list[tuple[int, str, int, bool]]
) -> None:
    names, atoms, relations, wanted = [], [], [], set()
    for concept, terms in concepts.items():
        for term in terms:
            atom = str(len(names) + 7_000)
            atoms.append((concept, atom))
            names.append(f"{concept}|ENG||||||{atom}||||RXNORM|IN|{concept}|{term}||N||\n")
    for first, label, second, by_atom in pairs:
        (tail, tail_atom), (head, head_atom) = atoms[first % len(atoms)], atoms[second % len(atoms)]
        ends = ("", tail_atom, "", head_atom) if by_atom else (tail, "", head, "")
        relations.append(f"{ends[0]}|{ends[1]}|X|RN|{ends[2]}|{ends[3]}|X|{label}|||RXNORM||||||\n")
        if head != tail:
            wanted.add((f"RXNORM:{head}", label, f"RXNORM:{tail}"))
    with tempfile.TemporaryDirectory() as name:
        (Path(name) / "RXNCONSO.RRF").write_text("".join(names), encoding="utf-8")
        if relations:
            (Path(name) / "RXNREL.RRF").write_text("".join(relations), encoding="utf-8")
        terminology = fuzz.saved_and_opened(rxnorm, Path(name), rxnorm.Options(relation_label="rela"))
        found = facts(terminology)
        assert {shown.id: [term.string for term in shown.terms] for shown in found} == {  # type: ignore[attr-defined]
            f"RXNORM:{concept}": terms for concept, terms in concepts.items()
        }
        assert {(shown.id, *pair) for shown in found for pair in shown.relations} == wanted  # type: ignore[attr-defined]
        parents = {(shown.id, parent) for shown in found for parent in shown.parents}  # type: ignore[attr-defined]
        assert parents == {(head, tail) for head, label, tail in wanted if label == "isa"}


@fuzz.examples(40)
@given(st.sampled_from(sorted(GOOD)), st.data())
def test_mutated_files_give_a_clear_error_or_a_terminology(file: str, data: st.DataObject) -> None:
    new = st.binary(max_size=30) | st.text('|\n\r"150', max_size=10).map(str.encode)
    damaged = data.draw(fuzz.edited(GOOD[file], 40, new))
    fuzz.check_sound_or_refused(rxnorm, {**GOOD, file: damaged}, rxnorm.Options())


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(["RXNCONSO.RRF", "RXNCONSO.RRF.gz", "RXNREL.RRF", "x.zip"]), st.binary(max_size=300))
def test_random_bytes_give_a_clear_error(file: str, content: bytes) -> None:
    assume(content or file != "RXNREL.RRF")  # only the terms must have rows
    terms = {} if file.startswith("RXNCONSO") else {"RXNCONSO.RRF": GOOD["RXNCONSO.RRF"]}
    fuzz.check_refused(rxnorm, {**terms, file: content})
