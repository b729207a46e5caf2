"""Translations added to a terminology."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from alphita.cli.terminology import app
from alphita.errors import InputError, Rejects, UsageError
from alphita.terminology import store
from alphita.terminology.loaders import babelon
from alphita.terminology.store import Terminology, load_terminology
from tests.terminology import fuzz
from tests.terminology.conftest import FIXTURES, Load, Write

FOLDER = FIXTURES / "babelon"
ALL = sorted(FOLDER.glob("*.tsv"))
HEAD = "subject_id\tpredicate_id\tsource_value\ttranslation_value\ttranslation_language\ttranslation_status\n"


def terms(terminology: Terminology, concept: str, language: str) -> list[tuple[Any, ...]]:
    return sorted(
        (term.string, term.scope, term.preferred, term.status)
        for term in terminology.concept(concept).terms
        if term.language == language
    )


def test_the_same_again_adds_nothing(load: Load, bases: dict[str, Path], tmp_path: Path) -> None:
    store.save(
        babelon.load(ALL, babelon.Options(onto=str(bases["babelon"])), Rejects(None)), tmp_path / "first.terminology"
    )
    first = load_terminology(tmp_path / "first.terminology")
    again, _ = load(babelon, *ALL, onto=str(first.path))
    assert again.n_terms == first.n_terms
    assert again.manifest["counts"]["definitions"] == first.manifest["counts"]["definitions"]


def test_language_and_status_of_a_table_that_states_none(load: Load, bases: dict[str, Path], write: Write) -> None:
    content = "subject_id\ttranslation_value\nZZ:0000001\tOrecchio blu\n"
    path = write("orecchi.tsv", content)
    with pytest.raises(InputError, match="language=fr"):
        babelon.load([path], babelon.Options(onto=str(bases["babelon"])), Rejects(None))
    terminology, _ = load(babelon, path, onto=str(bases["babelon"]), language="it", status="candidate")
    assert terms(terminology, "ZZ:0000001", "it") == [("Orecchio blu", "exact", False, "candidate")]
    terminology, _ = load(babelon, write("zz-it.synonyms.tsv", content), onto=str(bases["babelon"]))
    assert terms(terminology, "ZZ:0000001", "it") == [("Orecchio blu", "exact", False, "official")]


def test_a_bad_template_row(load: Load, bases: dict[str, Path], write: Write) -> None:
    path = write("zz-it.synonyms.tsv", "subject_id\ttranslation_value\nID\tA rdfs:label\nZZ:0000001\tOrecchio blu\n")
    terminology, [reject] = load(babelon, path, onto=str(bases["babelon"]))
    assert reject[1] == "2"
    assert "ROBOT" in reject[4]
    assert len(terms(terminology, "ZZ:0000001", "it")) == 1


def test_the_name_of_a_concept_without_preferred_term_stays(load: Load, write: Write, tmp_path: Path) -> None:
    from alphita.terminology.loaders import table

    plain = write("t.csv", "id,term,preferred\nZZ:0000001,Blue ear,0\n")
    store.save(table.load([plain], table.Options(), Rejects(None)), tmp_path / "plain.terminology")
    terminology, _ = load(babelon, FOLDER / "zz-fr.babelon.tsv", onto=str(tmp_path / "plain.terminology"))
    assert terminology.concept("ZZ:0000001").name == "Blue ear"


def test_on_the_command_line(bases: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("alphita.machine.set_threads", lambda threads: threads or 1)
    output = tmp_path / "zz.terminology"
    words = ["import", "babelon", *ALL, "--onto", bases["babelon"], "-o", output]
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert (result.exit_code, result.exception) == (0, None)
    assert "5 concepts" in result.output
    assert "1 rows were left out" in result.output
    assert load_terminology(output).manifest["config"]["onto"] == "babelon.terminology"
    wrong = CliRunner().invoke(
        app, ["import", "obo", "x.obo", "--onto", str(bases["babelon"]), "-o", str(tmp_path / "y")]
    )
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
def test_written_and_loaded_it_is_the_same(bases: dict[str, Path], rows: list[tuple[str, ...]]) -> None:
    lines = [
        "subject_id\tpredicate_id\ttranslation_value\ttranslation_language\ttranslation_status\ttranslator_expertise"
    ]
    lines += ["\t".join([*row[:2], quoted(row[2]), *row[3:]]) for row in rows]
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "zz.tsv"
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        tables = babelon.load([path], babelon.Options(onto=str(bases["babelon"])), Rejects(None, strict=True))
        store.save(tables, Path(name) / "t.terminology", rejects=Rejects(None, strict=True))
        terminology = load_terminology(Path(name) / "t.terminology")
        found = {
            (concept, term.string, term.language, term.scope, term.status)
            for concept in terminology.concept_ids.to_pylist()
            for term in terminology.concept(concept).terms
            if term.language != "en"
        }
        names = [load_terminology(bases["babelon"]).concept(row).name for row in range(5)]
        assert [terminology.concept(row).name for row in range(5)] == names
    wanted = set()
    for concept, predicate, string, language, status, expertise in rows:
        if status != babelon.NOT_TRANSLATED:
            machine = expertise == babelon.MACHINE and status != "OFFICIAL"
            kept = "machine" if machine else babelon.STATUSES[status]
            wanted.add((concept, string, language, babelon.SYNONYMS.get(predicate, "exact"), kept))
    assert found == wanted


def test_of_two_labels_of_a_concept_the_first_of_the_alphabet_is_preferred_and_the_other_is_counted(
    load: Load, bases: dict[str, Path], write: Write
) -> None:
    rows = [f"ZZ:0000001\trdfs:label\tBlue ear\t{name}\tit\tOFFICIAL" for name in ("Orecchio blu", "Orecchio azzurro")]
    terminology, rejects = load(babelon, write("two.tsv", HEAD + "\n".join(rows) + "\n"), onto=str(bases["babelon"]))
    assert rejects == []
    found = [(term.string, term.preferred) for term in terminology.concept("ZZ:0000001").terms if term.language == "it"]
    assert found == [("Orecchio azzurro", True), ("Orecchio blu", False)]
    assert terminology.manifest["dropped"]["further labels of a concept, kept as synonyms"] == 1
