"""Translations added to a terminology."""

from __future__ import annotations

import gzip
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from alphita.cli.terminology import app
from alphita.errors import AlphitaError, InputError, Rejects, UsageError
from alphita.terminology import store
from alphita.terminology.loaders import babelon, obo
from alphita.terminology.store import Terminology, load_terminology
from tests.terminology import fuzz
from tests.terminology.conftest import FIXTURES, Load

Write = Callable[[str, str | bytes], Path]
FOLDER = FIXTURES / "babelon"
ALL = sorted(FOLDER.glob("*.tsv"))
HEAD = "subject_id\tpredicate_id\tsource_value\ttranslation_value\ttranslation_language\ttranslation_status\n"


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("base") / "base.terminology"
    store.save(obo.load([FOLDER / "base.obo"], obo.Options(), Rejects(None, strict=True)), path)
    return path


def terms(terminology: Terminology, concept: str, language: str) -> list[tuple[Any, ...]]:
    return sorted(
        (term.string, term.scope, term.preferred, term.status)
        for term in terminology.concept(concept).terms
        if term.language == language
    )


def test_all_of_it(load: Load, base: Path) -> None:
    terminology, [reject] = load(babelon, *ALL, onto=str(base))
    assert reject[1:] == ["4", "subject_id", "ZZ:0000404", "no concept has this id"]
    assert reject[0].endswith("zz-de.babelon.tsv")
    assert terms(terminology, "ZZ:0000001", "fr") == [
        ("Oreille azur", "exact", False, "candidate"),
        ("Oreille bleue", "exact", True, "official"),
        ("Oreille céruléenne", "exact", False, "candidate"),
        ("Oreille marine", "exact", False, "candidate"),
    ]
    assert terms(terminology, "ZZ:0000001", "de") == [
        ("Blaues Ohr", "exact", True, "official"),
        ("Blauohr", "exact", False, "official"),
        ("Ohr in Blau", "exact", False, "official"),
    ]
    assert terms(terminology, "ZZ:0000001", "cs") == [
        ("Azurové ucho", "exact", False, "candidate"),
        ("Modré ucho", "exact", False, "official"),
    ]
    # Quotes around a cell go, doubled ones inside become single, lone ones stay; a label is never split at a pipe.
    assert terms(terminology, "ZZ:0000002", "fr") == [
        ('Cloche "grave" de l\'oreille', "narrow", False, "official"),
        ('Signe "de la cloche" | oreille', "exact", True, "candidate"),
    ]
    # A machine's label that a person lists as a synonym is official, and still the label.
    assert terms(terminology, "ZZ:0000003", "fr") == [("Orteil froid", "exact", True, "official")]
    assert terms(terminology, "ZZ:0000003", "de-AT") == [("Kalter Zeh", "exact", True, "official")]
    assert terms(terminology, "ZZ:0000003", "cs") == []
    assert terms(terminology, "ZZ:0000005", "fr") == [("Coma of the sock", "exact", True, "official")]


def test_what_the_base_had_stays(load: Load, base: Path) -> None:
    terminology, _ = load(babelon, *ALL, onto=str(base))
    before = load_terminology(base)
    assert terminology.concept_ids.equals(before.concept_ids)
    assert terminology.concept_names.equals(before.concept_names)
    assert terminology.retired.tolist() == before.retired.tolist()
    for row in range(before.n_concepts):
        found, known = terminology.concept(row), before.concept(row)
        assert [term for term in found.terms if term.language == "en"] == known.terms
        assert [text for text in found.definitions if text.language == "en"] == known.definitions
        assert (found.alt_ids, found.relations, found.xrefs) == (known.alt_ids, known.relations, known.xrefs)


def test_sources_codes_types_and_references(load: Load, base: Path) -> None:
    terminology, _ = load(babelon, *ALL, onto=str(base))
    found = {term.string: term for term in terminology.concept("ZZ:0000001").terms}
    assert {(term.source, term.code) for term in found.values()} == {("ZZ", "0000001")}
    assert found["Oreille bleue"].reference == "orcid:0000"
    lay = found["Blauohr"]
    assert (lay.type, lay.term_type, lay.reference) == ("layperson", "layperson", "orcid:0001")
    texts = {(text.language, text.text) for text in terminology.concept("ZZ:0000001").definitions}
    assert texts == {("en", "An ear that is blue."), ("fr", "Une oreille qui est bleue.")}
    assert terminology.concept("ZZ:0000003").definitions == []  # a machine's
    names = [(source["file"], source["version"]) for source in terminology.manifest["sources"]]
    assert names[0] == ("base.obo", "zz/2026-01-31")
    assert ("zz-fr.babelon.tsv", "zz/2026-01-31") in names
    assert terminology.manifest["dropped"] == {
        "machine-translated definitions": 1,
        "not translated": 2,
        "predicate rdfs:comment": 1,
        "repeated rows": 1,
        "synonyms left untranslated": 2,
    }


def test_counts_against_an_independent_count(load: Load, base: Path) -> None:
    terminology, _ = load(babelon, *(path for path in ALL if ".babelon." in path.name), onto=str(base))
    wanted: Counter[str] = Counter()
    for path in ALL:
        if ".babelon." in path.name:
            header, *lines = path.read_text().splitlines()
            for line in lines:
                row = dict(zip(header.split("\t"), line.split("\t"), strict=True))
                known = row["subject_id"] != "ZZ:0000404" and row["translation_status"] != "NOT_TRANSLATED"
                if known and (row["predicate_id"] == "rdfs:label" or "Synonym" in row["predicate_id"]):
                    wanted[row["translation_language"]] += 1
    found = Counter(term["language"] for term in terminology.terms.to_pylist())
    assert {language: count for language, count in found.items() if language != "en"} == wanted


def test_machine_translations_do_not_train(load: Load, base: Path) -> None:
    terminology, _ = load(babelon, FOLDER / "zz-fr.babelon.tsv", onto=str(base))
    assert terms(terminology, "ZZ:0000003", "fr") == [("Orteil froid", "exact", True, "machine")]
    rows, _ = terminology.training_terms(languages=["fr"])
    strings = terminology.terms["string"].take(rows).to_pylist()
    assert "Orteil froid" not in strings
    assert "Oreille bleue" in strings


def test_the_same_again_adds_nothing(load: Load, base: Path, tmp_path: Path) -> None:
    store.save(babelon.load(ALL, babelon.Options(onto=str(base)), Rejects(None)), tmp_path / "first.terminology")
    first = load_terminology(tmp_path / "first.terminology")
    again, _ = load(babelon, *ALL, onto=str(first.path))
    assert again.n_terms == first.n_terms
    assert again.manifest["counts"]["definitions"] == first.manifest["counts"]["definitions"]


def test_gzip_gives_the_same(load: Load, base: Path, write: Write) -> None:
    plain, _ = load(babelon, FOLDER / "zz-fr.babelon.tsv", onto=str(base))
    count = plain.n_terms
    packed = write("zz-fr.bin", gzip.compress((FOLDER / "zz-fr.babelon.tsv").read_bytes()))
    assert load(babelon, packed, onto=str(base))[0].n_terms == count


def test_language_and_status_of_a_table_that_states_none(load: Load, base: Path, write: Write) -> None:
    content = "subject_id\ttranslation_value\nZZ:0000001\tOrecchio blu\n"
    path = write("orecchi.tsv", content)
    with pytest.raises(InputError, match="language=fr"):
        babelon.load([path], babelon.Options(onto=str(base)), Rejects(None))
    terminology, _ = load(babelon, path, onto=str(base), language="it", status="candidate")
    assert terms(terminology, "ZZ:0000001", "it") == [("Orecchio blu", "exact", False, "candidate")]
    terminology, _ = load(babelon, write("zz-it.synonyms.tsv", content), onto=str(base))
    assert terms(terminology, "ZZ:0000001", "it") == [("Orecchio blu", "exact", False, "official")]


@pytest.mark.parametrize(
    ("row", "field", "problem"),
    [
        ("ZZ:0000001\trdfs:label\tBlue ear\tOrecchio", "", "4 cells, but the header has 6"),
        ("\trdfs:label\tBlue ear\tOrecchio\tit\tOFFICIAL", "subject_id", "without subject_id"),
        ("ZZ:1\trdfs:label\tBlue ear\tOrecchio\tit\tOFFICIAL", "subject_id", "no concept"),
        ("ZZ:0000001\trdfs:label\tBlue ear\tOrecchio\titaliano\tOFFICIAL", "translation_language", "BCP-47 tag"),
        ("ZZ:0000001\trdfs:label\tBlue ear\tOrecchio\txx\tOFFICIAL", "translation_language", "unknown language"),
        ("ZZ:0000001\trdfs:label\tBlue ear\tOrecchio\tit\tFINE", "translation_status", "unknown status"),
        ("ZZ:0000001\trdfs:label\tBlue ear\t\tit\tOFFICIAL", "translation_value", "no translation"),
        ("ZZ:0000001\trdfs:label\tBlue ear\t" + "o" * 10_001 + "\tit\tOFFICIAL", "translation_value", "10,001 char"),
        ("ZZ:0000001\trdfs:label\tBlue ear\tOrec\0chio\tit\tOFFICIAL", "", "NUL"),
    ],
)
def test_bad_rows_are_set_aside_with_their_place(
    load: Load, base: Path, write: Write, row: str, field: str, problem: str
) -> None:
    path = write("bad.tsv", HEAD + "ZZ:0000003\trdfs:label\tCold toe\tDito\tit\tOFFICIAL\n" + row + "\n\n")
    terminology, [reject] = load(babelon, path, onto=str(base))
    assert reject[:3] == [str(path), "3", field]
    assert problem in reject[4]
    assert len(terms(terminology, "ZZ:0000003", "it")) == 1
    with pytest.raises(InputError, match=r"bad\.tsv:3"):
        babelon.load([path], babelon.Options(onto=str(base)), Rejects(None, strict=True))


def test_a_bad_template_row(load: Load, base: Path, write: Write) -> None:
    path = write("zz-it.synonyms.tsv", "subject_id\ttranslation_value\nID\tA rdfs:label\nZZ:0000001\tOrecchio blu\n")
    terminology, [reject] = load(babelon, path, onto=str(base))
    assert reject[1] == "2"
    assert "ROBOT" in reject[4]
    assert len(terms(terminology, "ZZ:0000001", "it")) == 1


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "empty"),
        (b"\n\n", "no header"),
        (b"id,term\nZZ:1,One\n", "subject_id"),
        (b"subject_id\tpredicate_id\ttranslation_value\n", "translation_language"),
        (b"subject_id\ttranslation_value\tcomment\tcomment\n", "twice"),
        (HEAD.encode("utf-16"), "UTF-16"),
        (gzip.compress(HEAD.encode() * 100)[:-20], "cut short"),
    ],
)
def test_a_file_that_is_not_babelon_is_an_error(base: Path, write: Write, content: bytes, problem: str) -> None:
    path = write("bad.tsv", content)
    with pytest.raises(InputError, match=problem) as raised:
        babelon.load([path], babelon.Options(onto=str(base)), Rejects(None))
    assert str(path) in str(raised.value)


def test_without_a_base_or_with_a_wrong_one(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--onto BASE"):
        babelon.load(ALL, babelon.Options(), Rejects(None))
    with pytest.raises(InputError, match="no such terminology"):
        babelon.load(ALL, babelon.Options(onto=str(tmp_path / "none")), Rejects(None))


def test_the_name_of_a_concept_without_preferred_term_stays(load: Load, write: Write, tmp_path: Path) -> None:
    from alphita.terminology.loaders import table

    plain = write("t.csv", "id,term,preferred\nZZ:0000001,Blue ear,0\n")
    store.save(table.load([plain], table.Options(), Rejects(None)), tmp_path / "plain.terminology")
    terminology, _ = load(babelon, FOLDER / "zz-fr.babelon.tsv", onto=str(tmp_path / "plain.terminology"))
    assert terminology.concept("ZZ:0000001").name == "Blue ear"


def test_on_the_command_line(base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("alphita.machine.set_threads", lambda threads: threads or 1)
    output = tmp_path / "zz.terminology"
    words = ["import", "babelon", *ALL, "--onto", base, "-o", output]
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert (result.exit_code, result.exception) == (0, None)
    assert "5 concepts" in result.output
    assert "1 rows were left out" in result.output
    assert load_terminology(output).manifest["config"]["onto"] == "base.terminology"
    wrong = CliRunner().invoke(app, ["import", "obo", "x.obo", "--onto", str(base), "-o", str(tmp_path / "y")])
    assert isinstance(wrong.exception, UsageError)
    assert "--onto is for formats that add to one" in str(wrong.exception)


# --- properties ------------------------------------------------------------------------------------------------------

WORDS = fuzz.words('"bells" and "whistles"', '"', 'a"b', "a|b", "NAN")
IDS = st.sampled_from([f"ZZ:000000{number}" for number in range(1, 6)])
ROWS = st.tuples(
    IDS,
    st.sampled_from([*babelon.SYNONYMS, babelon.LABEL]),
    WORDS.filter(lambda word: word not in babelon.EMPTY),
    st.sampled_from(["fr", "de", "pt-BR"]),
    st.sampled_from([*babelon.STATUSES, babelon.NOT_TRANSLATED]),
    st.sampled_from(["", babelon.MACHINE, "DOMAIN_EXPERT"]),
)


def quoted(word: str) -> str:
    return '"' + word.replace('"', '""') + '"' if word.startswith('"') else word


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(ROWS, max_size=12, unique_by=lambda row: (row[0], row[2], row[3])))
def test_written_and_loaded_it_is_the_same(base: Path, rows: list[tuple[str, ...]]) -> None:
    lines = [
        "subject_id\tpredicate_id\ttranslation_value\ttranslation_language\ttranslation_status\ttranslator_expertise"
    ]
    lines += ["\t".join([*row[:2], quoted(row[2]), *row[3:]]) for row in rows]
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "zz.tsv"
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        tables = babelon.load([path], babelon.Options(onto=str(base)), Rejects(None, strict=True))
        store.save(tables, Path(name) / "t.terminology", rejects=Rejects(None, strict=True))
        terminology = load_terminology(Path(name) / "t.terminology")
        found = {
            (concept, term.string, term.language, term.scope, term.status)
            for concept in terminology.concept_ids.to_pylist()
            for term in terminology.concept(concept).terms
            if term.language != "en"
        }
        names = [load_terminology(base).concept(row).name for row in range(5)]
        assert [terminology.concept(row).name for row in range(5)] == names
    wanted = set()
    for concept, predicate, string, language, status, expertise in rows:
        if status != babelon.NOT_TRANSLATED:
            machine = expertise == babelon.MACHINE and status != "OFFICIAL"
            kept = "machine" if machine else babelon.STATUSES[status]
            wanted.add((concept, string, language, babelon.SYNONYMS.get(predicate, "exact"), kept))
    assert found == wanted


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(ALL), st.data())
def test_mutated_files_give_a_clear_error_or_a_terminology(base: Path, good: Path, data: st.DataObject) -> None:
    check(base, data.draw(fuzz.edited(good.read_bytes(), 40, st.binary(max_size=30))))


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=300))
def test_random_bytes_give_a_clear_error(base: Path, content: bytes) -> None:
    check(base, content)


def check(base: Path, content: bytes) -> None:
    """Load the content: a terminology with all that the base had, or a clear error."""
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "zz-fr.synonyms.tsv"
        path.write_bytes(content)
        try:
            tables = babelon.load([path], babelon.Options(onto=str(base)), Rejects(None))
            store.save(tables, Path(name) / "t.terminology", rejects=Rejects(None))
        except AlphitaError:
            assert [file.name for file in Path(name).iterdir()] == [path.name]
            return
        terminology = load_terminology(Path(name) / "t.terminology")
        assert terminology.n_concepts == 5
        assert terminology.n_terms >= load_terminology(base).n_terms


def test_of_two_labels_of_a_concept_the_first_of_the_alphabet_is_preferred_and_the_other_is_counted(
    load: Load, base: Path, write: Write
) -> None:
    rows = [f"ZZ:0000001\trdfs:label\tBlue ear\t{name}\tit\tOFFICIAL" for name in ("Orecchio blu", "Orecchio azzurro")]
    terminology, rejects = load(babelon, write("two.tsv", HEAD + "\n".join(rows) + "\n"), onto=str(base))
    assert rejects == []
    found = [(term.string, term.preferred) for term in terminology.concept("ZZ:0000001").terms if term.language == "it"]
    assert found == [("Orecchio azzurro", True), ("Orecchio blu", False)]
    assert terminology.manifest["dropped"]["further labels of a concept, kept as synonyms"] == 1
