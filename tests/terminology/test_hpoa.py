"""Annotations of diseases added to a terminology with HPO."""

from __future__ import annotations

import gzip
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from alphita.cli.terminology import app
from alphita.errors import AlphitaError, InputError, Rejects, UsageError
from alphita.terminology import store
from alphita.terminology.loaders import hpoa, obo
from alphita.terminology.loaders.hpoa import frequency_class
from alphita.terminology.store import load_terminology
from tests.terminology import fuzz
from tests.terminology.conftest import FIXTURES, Load

Write = Callable[[str, str | bytes], Path]
FOLDER = FIXTURES / "hpoa"
GOOD, OLD = FOLDER / "phenotype.hpoa", FOLDER / "old.hpoa"
HEAD = (
    "database_id\tdisease_name\tqualifier\thpo_id\treference\tevidence\tonset\tfrequency\tsex\tmodifier\taspect\t"
    "biocuration\n"
)


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("base") / "hp.terminology"
    store.save(obo.load([FOLDER / "base.obo"], obo.Options(), Rejects(None, strict=True)), path)
    return path


def test_a_disease_made_new(load: Load, base: Path) -> None:
    terminology, rejects = load(hpoa, GOOD, onto=str(base))
    assert rejects == []
    disease = terminology.concept("OMIM:900001")
    assert disease.name == 'Blue "ear" syndrome | type 1'
    assert (disease.source, disease.retired) == ("OMIM", False)
    assert [(term.string, term.preferred, term.source, term.code) for term in disease.terms] == [
        ('Blue "ear" syndrome | type 1', True, "OMIM", "900001"),
        ("BLUE EAR SYNDROME", False, "OMIM", "900001"),
    ]
    assert sorted(disease.relations) == [
        ("has_clinical_course", "HP:9000004"),
        ("has_inheritance", "HP:9000005"),
        ("has_obligate_phenotype", "HP:9000002"),
        ("has_occasional_phenotype", "HP:9000001"),
        ("has_onset", "HP:9000003"),
        ("has_phenotype", "HP:9000001"),
        ("has_phenotype", "HP:9000002"),
        ("has_phenotype_onset", "HP:9000003"),
    ]
    assert disease.properties == [
        ("frequency", "HP:9000001 3/20"),
        ("phenotype_onset", "HP:9000001 HP:9000003"),
        ("frequency", "HP:9000001 15%"),
        ("frequency", "HP:9000002 HP:0040280"),
    ]
    assert terminology.concept("DECIPHER:7").relations == [
        ("has_phenotype", "HP:9000002"),
        ("has_very_rare_phenotype", "HP:9000002"),
    ]


def test_a_disease_that_the_base_has(load: Load, base: Path) -> None:
    terminology, _ = load(hpoa, GOOD, onto=str(base))
    disease = terminology.concept("ORPHA:90001")
    assert [term.string for term in disease.terms] == ["Sock disease", "Disease of socks", "Sock disorder"]
    assert disease.name == "Sock disease"
    assert sorted(disease.relations) == [("has_obligate_phenotype", "HP:9000002"), ("has_phenotype", "HP:9000002")]


def test_what_the_base_had_stays(load: Load, base: Path) -> None:
    terminology, _ = load(hpoa, GOOD, onto=str(base))
    before = load_terminology(base)
    assert terminology.n_concepts == before.n_concepts + 2
    for row in range(before.n_concepts):
        known = before.concept(row)
        found = terminology.concept(known.id)
        if known.source == "HP":
            assert found.terms == known.terms
        assert (found.name, found.parents, found.alt_ids) == (known.name, known.parents, known.alt_ids)


def test_manifest(load: Load, base: Path) -> None:
    terminology, _ = load(hpoa, GOOD, onto=str(base))
    facts = [(source["name"], source["version"]) for source in terminology.manifest["sources"]]
    assert facts == [("hp", None), ("phenotype.hpoa", "2026-01-31")]
    assert terminology.manifest["dropped"] == {
        "annotations with NOT or of frequency 0": 2,
        "modifier of an annotation": 1,
        "sex of an annotation": 1,
    }


def test_counts_against_an_independent_count(load: Load, base: Path) -> None:
    terminology, _ = load(hpoa, GOOD, onto=str(base), frequency=False)
    wanted = set()
    for line in GOOD.read_text().splitlines():
        cells = line.split("\t")
        if len(cells) == 12 and cells[10] == "P" and not cells[2] and not cells[7].startswith("0/"):
            wanted.add((cells[0], cells[3].replace("HP:9000901", "HP:9000001")))
    label = terminology.relation_labels.index("has_phenotype")
    found = {
        (terminology.concept_id(head), terminology.concept_id(tail))
        for head, relation, tail in terminology.triples.tolist()
        if relation == label
    }
    assert found == wanted
    assert not any("occasional" in name for name in terminology.relation_labels)


def test_negated_annotations_can_be_taken(load: Load, base: Path) -> None:
    terminology, _ = load(hpoa, GOOD, onto=str(base), negated=True)
    assert ("lacks_phenotype", "HP:9000001") in terminology.concept("ORPHA:90001").relations
    assert ("lacks_phenotype", "HP:9000001") in terminology.concept("DECIPHER:7").relations


def test_the_old_header_crlf_and_gzip(load: Load, base: Path, write: Write) -> None:
    for path in (OLD, write("old.bin", gzip.compress(OLD.read_bytes()))):
        terminology, rejects = load(hpoa, path, onto=str(base))
        assert rejects == []
        assert terminology.manifest["sources"][1]["version"] == "2021-01-31"
        assert ("has_phenotype", "HP:9000002") in terminology.concept("ORPHA:90001").relations
        assert terminology.concept("ORPHA:90001").terms[-1].string == "Sock disorder"


def test_optional_columns_may_be_missing(load: Load, base: Path, write: Write) -> None:
    path = write("x.hpoa", "database_id\tdisease_name\thpo_id\nOMIM:1\tOne\tHP:9000001\n")
    terminology, rejects = load(hpoa, path, onto=str(base))
    assert rejects == []
    assert terminology.concept("OMIM:1").relations == [("has_phenotype", "HP:9000001")]


@pytest.mark.parametrize(
    ("written", "word"),
    [
        ("HP:0040281", "very_frequent"),
        ("1/1", "obligate"),
        ("4/5", "very_frequent"),
        ("79/100", "frequent"),
        ("30%", "frequent"),
        ("29.9%", "occasional"),
        ("5 %", "occasional"),
        ("1/21", "very_rare"),
        ("0%", "excluded"),
        ("0/7", "excluded"),
        ("HP:0040285", "excluded"),
        ("7/5", None),
        ("0/0", None),
        ("101%", None),
        ("often", None),
        ("-1%", None),
        ("HP:0000001", None),
    ],
)
def test_frequencies(written: str, word: str | None) -> None:
    assert frequency_class(written) == word


def row(**cells: str) -> str:
    given = {"database_id": "OMIM:1", "disease_name": "One", "hpo_id": "HP:9000001", "aspect": "P"} | cells
    return "\t".join(given.get(name, "") for name in HEAD.strip().split("\t"))


@pytest.mark.parametrize(
    ("line", "field", "problem", "kept"),
    [
        ("OMIM:1\tOne", "", "2 cells, but the header has 12", False),
        (row(database_id="1"), "database_id", "not an id", False),
        (row(hpo_id=""), "hpo_id", "not an id", False),
        (row(hpo_id="HP:404"), "hpo_id", "no concept has this id", False),
        (row(qualifier="PERHAPS"), "qualifier", "NOT", False),
        (row(aspect="Q"), "aspect", "unknown aspect", False),
        (row(disease_name=""), "disease_name", "without a name", False),
        (row(disease_name="x" * 10_001), "disease_name", "at most", False),
        (row(frequency="often"), "frequency", "unreadable", True),
        (row(onset="HP:404"), "onset", "no concept has this id", True),
        (row(onset="OMIM:1"), "onset", "no concept has this id", True),
    ],
)
def test_bad_rows_are_set_aside_with_their_place(
    load: Load, base: Path, write: Write, line: str, field: str, problem: str, kept: bool
) -> None:
    path = write("bad.hpoa", "#version: x\n" + HEAD + row(database_id="OMIM:2", disease_name="Two") + "\n" + line)
    terminology, [reject] = load(hpoa, path, onto=str(base))
    assert reject[:3] == [str(path), "4", field]
    assert problem in reject[4]
    assert terminology.concept("OMIM:2").relations == [("has_phenotype", "HP:9000001")]
    assert ("OMIM:1" in terminology.concept_ids.to_pylist()) == kept
    with pytest.raises(InputError, match=r"bad\.hpoa:4"):
        hpoa.load([path], hpoa.Options(onto=str(base)), Rejects(None, strict=True))


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "empty"),
        (b"#description: nothing else\n", "no header"),
        (b"id,term\nZZ:1,One\n", "databaseid"),
        (b"#DatabaseID\tHPO_ID\n", "diseasename"),
        (HEAD.encode("utf-16"), "UTF-16"),
        (gzip.compress(HEAD.encode() * 100)[:-20], "cut short"),
    ],
)
def test_a_file_of_another_kind_is_an_error(base: Path, write: Write, content: bytes, problem: str) -> None:
    path = write("bad.hpoa", content)
    with pytest.raises(InputError, match=problem) as raised:
        hpoa.load([path], hpoa.Options(onto=str(base)), Rejects(None))
    assert str(path) in str(raised.value)


def test_without_a_base() -> None:
    with pytest.raises(UsageError, match="--onto BASE"):
        hpoa.load([GOOD], hpoa.Options(), Rejects(None))


def test_on_the_command_line(base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("alphita.machine.set_threads", lambda threads: threads or 1)
    output = tmp_path / "d.terminology"
    result = CliRunner().invoke(app, ["import", "hpoa", str(GOOD), "--onto", str(base), "-o", str(output)])
    assert (result.exit_code, result.exception) == (0, None)
    assert f"{output}: 10 concepts" in result.output


# --- properties ------------------------------------------------------------------------------------------------------

DISEASES = st.sampled_from(["OMIM:1", "OMIM:2", "DECIPHER:3", "ORPHA:90001"])
PHENOTYPES = st.sampled_from(["HP:9000001", "HP:9000002", "HP:0000118"])
FREQUENCIES = st.sampled_from(["", "1/2", "99%", "HP:0040284", "0/3"])
NAMES = st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs", "Zl", "Zp", "Zs")), min_size=1, max_size=6)
ANNOTATIONS = st.tuples(
    DISEASES, NAMES.filter(lambda name: '"' not in name), PHENOTYPES, FREQUENCIES, st.sampled_from(["", "NOT"])
)
CHECKS = [HealthCheck.function_scoped_fixture]


@settings(max_examples=25, deadline=None, suppress_health_check=CHECKS)
@given(st.lists(ANNOTATIONS, max_size=12))
def test_written_and_loaded_it_is_the_same(base: Path, annotations: list[tuple[str, str, str, str, str]]) -> None:
    lines = [
        row(database_id=disease, disease_name=name, hpo_id=term, frequency=frequency, qualifier=qualifier)
        for disease, name, term, frequency, qualifier in annotations
    ]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.hpoa"
        path.write_text(HEAD + "".join(line + "\n" for line in lines), encoding="utf-8")
        tables = hpoa.load([path], hpoa.Options(onto=str(base), negated=True), Rejects(None, strict=True))
        store.save(tables, Path(folder) / "t.terminology", rejects=Rejects(None, strict=True))
        terminology = load_terminology(Path(folder) / "t.terminology")
        found = {
            disease: (
                {term.string for term in terminology.concept(disease).terms},
                {tail for label, tail in terminology.concept(disease).relations if label == "has_phenotype"},
                {tail for label, tail in terminology.concept(disease).relations if label == "lacks_phenotype"},
            )
            for disease in [*{annotation[0] for annotation in annotations}, "ORPHA:90001"]
        }
    wanted: dict[str, tuple[set[str], set[str], set[str]]] = {
        "ORPHA:90001": ({"Sock disease", "Disease of socks"}, set(), set())
    }
    for disease, name, term, frequency, qualifier in annotations:
        names, has, lacks = wanted.setdefault(disease, (set(), set(), set()))
        names.add(name)
        (lacks if qualifier or frequency == "0/3" else has).add(term)
    assert found == wanted


@settings(max_examples=25, deadline=None, suppress_health_check=CHECKS)
@given(st.sampled_from([GOOD, OLD]), st.data())
def test_mutated_files_give_a_clear_error_or_a_terminology(base: Path, good: Path, data: st.DataObject) -> None:
    check(base, data.draw(fuzz.edited(good.read_bytes(), 40, st.binary(max_size=30))))


@settings(max_examples=25, deadline=None, suppress_health_check=CHECKS)
@given(st.binary(max_size=300))
def test_random_bytes_give_a_clear_error(base: Path, content: bytes) -> None:
    check(base, content)


def check(base: Path, content: bytes) -> None:
    """Load the content: a terminology with all that the base had, or a clear error."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.hpoa"
        path.write_bytes(content)
        try:
            tables = hpoa.load([path], hpoa.Options(onto=str(base)), Rejects(None))
            store.save(tables, Path(folder) / "t.terminology", rejects=Rejects(None))
        except AlphitaError:
            assert [file.name for file in Path(folder).iterdir()] == [path.name]
            return
        terminology = load_terminology(Path(folder) / "t.terminology")
        assert terminology.n_concepts >= load_terminology(base).n_concepts
