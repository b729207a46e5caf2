"""Translations and annotations added to a terminology."""

from __future__ import annotations

import re
from typing import Any

import pytest
from typer.testing import CliRunner

from alphita.cli.terminology import app
from alphita.errors import InputError, Rejects, UsageError
from alphita.terminology import store
from alphita.terminology.loaders import babelon, table
from alphita.terminology.loaders.hpoa import frequency_class
from alphita.terminology.store import Terminology, load_terminology
from tests.terminology.conftest import FIXTURES

FOLDER = FIXTURES / "babelon"
ALL = sorted(FOLDER.glob("*.tsv"))
HEAD = "subject_id\tpredicate_id\tsource_value\ttranslation_value\ttranslation_language\ttranslation_status\n"


def terms(terminology: Terminology, concept: str, language: str) -> list[tuple[Any, ...]]:
    return sorted(
        (term.string, term.scope, term.preferred, term.status)
        for term in terminology.concept(concept).terms
        if term.language == language
    )


def test_the_same_again_adds_nothing(load, bases, tmp_path):
    store.save(
        babelon.load(ALL, babelon.Options(onto=str(bases["babelon"])), Rejects(None)), tmp_path / "first.terminology"
    )
    first = load_terminology(tmp_path / "first.terminology")
    again, _ = load(babelon, *ALL, onto=str(first.path))
    assert again.n_terms == first.n_terms
    assert again.manifest["counts"]["definitions"] == first.manifest["counts"]["definitions"]


def test_language_and_status_of_a_table_that_states_none(load, bases, write):
    content = "subject_id\ttranslation_value\nZZ:0000001\tOrecchio blu\n"
    path = write("orecchi.tsv", content)
    with pytest.raises(InputError, match="language=fr"):
        babelon.load([path], babelon.Options(onto=str(bases["babelon"])), Rejects(None))


def test_the_name_of_a_concept_without_preferred_term_stays(load, write, tmp_path):
    plain = write("t.csv", "id,term,preferred\nZZ:0000001,Blue ear,0\n")
    store.save(table.load([plain], table.Options(), Rejects(None)), tmp_path / "plain.terminology")
    terminology, _ = load(babelon, FOLDER / "zz-fr.babelon.tsv", onto=str(tmp_path / "plain.terminology"))
    assert terminology.concept("ZZ:0000001").name == "Blue ear"


def test_on_the_command_line(bases, tmp_path, monkeypatch):
    monkeypatch.setattr("alphita.machine.set_threads", lambda threads: threads or 1)
    output = tmp_path / "zz.terminology"
    words = ["import", "babelon", *ALL, "--onto", bases["babelon"], "-o", output]
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert (result.exit_code, result.exception) == (0, None)
    assert "5 concepts" in result.output
    assert "1 row left out; see" in result.output
    assert load_terminology(output).manifest["config"]["onto"] == "babelon.terminology"
    wrong = CliRunner().invoke(
        app, ["import", "obo", "x.obo", "--onto", str(bases["babelon"]), "-o", str(tmp_path / "y")]
    )
    assert isinstance(wrong.exception, UsageError)
    assert "--onto is for formats that add to one" in str(wrong.exception)


# --- HPO's annotations ------------------------------------------------------------------------------------------------


FREQUENCY_WORDS = """
very_frequent HP:0040281 4/5 | obligate HP:0040280 1/1 | frequent HP:0040282 79/100 30%
occasional HP:0040283 29.9% 5% | very_rare HP:0040284 1/21
excluded 0% 0/7 HP:0040285 | unreadable 7/5 0/0 101% often -1% HP:0000001
"""


@pytest.mark.parametrize("words", re.split(r"[|\n]", FREQUENCY_WORDS.strip()))
def test_frequencies(words):
    word, *written = words.split()
    assert {frequency_class(one) or "unreadable" for one in written} == {word}
    assert frequency_class("5 %") == "occasional"
