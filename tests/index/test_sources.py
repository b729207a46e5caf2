"""What `--to` names becomes an index, once: by which model, kept by content, made again when damaged."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

import alphita
from alphita import artefact, machine
from alphita.encoder import resolve as resolving
from alphita.errors import AlphitaError, InputError, UsageError
from alphita.index import sources
from alphita.index.choice import Choice, language_of, languages_of, model_for
from alphita.index.sources import index_of, located, terminology_of
from alphita.index.store import Index
from alphita.terminology.store import load_terminology

# A language, and phrases in it.
PHRASES = {
    line.split("\t")[0]: line.split("\t")[1:]
    for line in Path(__file__).with_name("phrases.tsv").read_text(encoding="utf-8").splitlines()
}
TABLE = "id,term\nX:1,Headache\nX:1,Cephalgia\nX:2,Fever\nX:3,Cough\n"


@pytest.fixture
def cache(tmp_path, monkeypatch) -> Path:
    folder = tmp_path / "cache"
    monkeypatch.setenv("ALPHITA_CACHE", str(folder))
    return folder


@pytest.fixture
def table(tmp_path) -> Path:
    path = tmp_path / "findings.csv"
    path.write_text(TABLE)
    return path


@pytest.fixture(scope="module")
def filled(tmp_path_factory) -> Path:
    """A cache that has the index of the table already."""
    folder = tmp_path_factory.mktemp("filled")
    (folder / "findings.csv").write_text(TABLE)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ALPHITA_CACHE", str(folder / "cache"))
        index_of(folder / "findings.csv")
    return folder / "cache"


@pytest.fixture
def full(cache, filled) -> Path:
    shutil.copytree(filled, cache)
    return cache


def made(cache: Path, kind: str) -> list[Path]:
    return sorted((cache / kind).glob(f"*.{kind}"))


def own(index: Index) -> int:
    """Return how many terms an index has that it did not borrow."""
    return int((~index.segment.borrowed).sum())


def test_a_file_is_imported_and_indexed_once(cache, table, monkeypatch):
    # What was left half written is not taken.
    (machine.cache_dir() / "index/.abc.index.1-00000000.draft").mkdir(parents=True)
    first = index_of(table)
    assert own(first) == 4
    assert list((cache / "index").glob("*.draft")) == []
    assert (cache / "terminology").stat().st_mode & 0o077 == 0
    assert [first.concept(row).id for row in first.concept_rows(["X:1", "X:2", "X:3"])] == ["X:1", "X:2", "X:3"]
    monkeypatch.setattr(sources, "_index", None)
    monkeypatch.setattr(sources, "_import", None)
    assert index_of(str(table)).path == first.path
    assert (len(made(cache, "index")), len(made(cache, "terminology"))) == (1, 1)


def test_the_same_content_elsewhere_is_the_same_index_and_other_content_is_not(full, table, tmp_path):
    first = index_of(table)
    (tmp_path / "copy").mkdir()
    copy = tmp_path / "copy" / table.name
    copy.write_text(TABLE)
    assert index_of(copy).path == first.path
    table.write_text(TABLE + "X:4,Rash\n")
    assert index_of(table).path != first.path


def test_terminologies_and_indexes_are_taken_as_they_are(full, table):
    terminology = terminology_of(table)
    index = index_of(terminology)
    assert terminology_of(terminology) == terminology
    assert index_of(index.path).path == index.path
    with pytest.raises(UsageError, match="is an index; give the terminology"):
        terminology_of(index.path)
    with pytest.raises(InputError, match="this is a model, and a terminology or an index is needed"):
        index_of(resolving.resolve("alphita-en"))


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("hpoo", "did you mean 'hpo'"),
        ("snomed", "choose from"),
        ("no/such.obo", "no such file or folder"),
        ("none.index", "no such file or folder"),
    ],
)
@pytest.mark.parametrize("ask", [index_of, terminology_of, located])
def test_what_is_not_there_is_told(cache, tmp_path, monkeypatch, name, problem, ask):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(AlphitaError, match=problem):
        ask(name)


def test_a_file_goes_before_a_name(cache, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("hpo").write_text("format-version: 1.2\n\n[Term]\nid: X:1\nname: Headache\n")
    assert located("hpo") == str(tmp_path / "hpo")
    assert own(index_of("hpo")) == 1


@pytest.mark.parametrize(
    ("kind", "harm"),
    [("index", harm) for harm in ("emptied", "byte", "gone", "manifest", "version")]
    + [("terminology", harm) for harm in ("byte", "version")],
)
def test_what_is_damaged_is_made_again(full, table, capsys, kind, harm):
    content = index_of(table).content_hash
    (folder,) = made(full, kind)
    file = max((file for file in folder.rglob("*") if file.is_file()), key=lambda file: file.stat().st_size)
    if harm == "emptied":
        file.write_bytes(b"")
    elif harm == "byte":
        data = bytearray(file.read_bytes())
        data[len(data) // 2] ^= 1
        file.write_bytes(data)
    elif harm == "gone":
        file.unlink()
    else:
        manifest = folder / "manifest.json"
        facts = json.loads(manifest.read_text())
        manifest.write_text("{" if harm == "manifest" else json.dumps(facts | {"format_version": 99}))
    capsys.readouterr()
    assert index_of(table).content_hash == content
    assert f"{folder} is made again" in capsys.readouterr().err
    assert sources._opened(folder, lambda path: path) == folder


def test_a_cache_that_cannot_be_written_serves_this_process(tmp_path, table, monkeypatch, capsys):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("ALPHITA_CACHE", str(tmp_path / "file" / "cache"))
    first = index_of(table)
    assert own(first) == 4
    assert "cannot be written" in capsys.readouterr().err
    assert not first.path.is_relative_to(tmp_path)
    assert index_of(table).path == first.path


def test_two_processes_make_it_once(cache, table):
    code = (
        "import sys; from alphita.index.sources import index_of; index = index_of(sys.argv[1]); "
        "print(int((~index.segment.borrowed).sum()), index.path.stat().st_ino)"
    )
    running = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(table)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        for _ in range(3)
    ]
    said = [process.communicate() for process in running]
    assert [process.returncode for process in running] == [0, 0, 0], said
    assert len({out for out, _ in said}) == 1
    assert sum("indexing" in err for _, err in said) == 1


def test_a_model_with_a_byte_changed_is_told(cache, table, tmp_path, monkeypatch):
    copy = tmp_path / "alphita-en"
    shutil.copytree(resolving.resolve("alphita-en"), copy)
    file = copy / "onnx" / "model_int8.onnx"
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
    monkeypatch.setattr("alphita.shipped.find", lambda name: copy)
    sources._model.cache_clear()
    with pytest.raises(InputError, match=r"hash of onnx/model_int8.onnx is not the manifest's"):
        index_of(table)
    sources._model.cache_clear()


def test_rows_that_cannot_be_read_are_counted(cache, tmp_path, capsys):
    path = tmp_path / "odd.csv"
    path.write_text(TABLE + "X:9,\n,Rash\n")
    assert own(index_of(path)) == 4
    assert "rows left out; see" in capsys.readouterr().err


def test_what_nobody_opened_for_long_leaves_when_another_is_made(cache, tmp_path):
    paths = []
    for number in range(4):
        (tmp_path / f"{number}.csv").write_text(f"id,term\nX:{number},fever\n")
        if number == 3:
            long_ago = time.time() - (sources.UNUSED_DAYS + 1) * 86_400
            for path in paths[:2]:
                os.utime(path.with_suffix(".lock"), (long_ago, long_ago))
            assert terminology_of(tmp_path / "1.csv") == paths[1]
        paths.append(terminology_of(tmp_path / f"{number}.csv"))
    assert [path.exists() for path in paths] == [False, True, True, True]
    assert [path.with_suffix(".lock").exists() for path in paths] == [False, True, True, True]
    assert terminology_of(tmp_path / "0.csv") == paths[0]


@pytest.mark.parametrize("changed", ["terminology", "encoder", "version"])
def test_another_version_or_build_makes_its_own(table, full, monkeypatch, changed):
    names = [path.name for kind in ("terminology", "index") for path in made(full, kind)]
    as_it_is = artefact.code_hash
    if changed == "version":
        monkeypatch.setattr(sources, "__version__", "9.9.9")
    monkeypatch.setattr(artefact, "code_hash", lambda *parts: "changed" if changed in parts else as_it_is(*parts))
    index_of(table)
    later = [path.name for kind in ("terminology", "index") for path in made(full, kind)]
    assert len(later) == len(names) + 1 + (changed != "encoder")
    assert set(names) <= set(later)


def test_the_hash_of_code_is_that_of_what_it_says(tmp_path, monkeypatch):
    (tmp_path / "made").mkdir()
    (tmp_path / "made" / "by.py").write_text("1")
    monkeypatch.setattr(artefact, "__file__", str(tmp_path / "builds.py"))
    hashes = []
    for change in (lambda: None, lambda: (tmp_path / "made" / "by.py").write_text("2"), lambda: None):
        change()
        artefact.code_hash.cache_clear()
        hashes.append(artefact.code_hash("made"))
    artefact.code_hash.cache_clear()
    assert hashes[0] != hashes[1] == hashes[2]


@pytest.fixture
def indexed(monkeypatch) -> list[str]:
    """Note the models that indexes are made with."""
    models: list[str] = []
    index = sources._index

    def spy(terminology: Path, out: Path, what: str, chosen: Choice, threads: int | None):
        models.append(str(chosen.model))
        index(terminology, out, what, replace(chosen, model="alphita-en", learn="no", borrow=False), threads)

    monkeypatch.setattr(sources, "_index", spy)
    return models


@pytest.mark.parametrize("language", PHRASES)
def test_strings_tell_their_language(language):
    strings = PHRASES[language]
    assert language_of(strings) == language
    assert language_of(strings[:19]) is None
    assert language_of(strings[:2] * 50) is None
    assert model_for([]) == model_for(["en", "en-GB"]) == "alphita-en"
    assert model_for(["en", "it"]) == model_for(["de-CH"]) == "alphita-multi"


@pytest.mark.parametrize("language", sorted({*PHRASES} - {"en"}))
def test_a_list_that_is_partly_in_another_language_has_that_language(language):
    english = PHRASES["en"]
    mixed = english + PHRASES[language][: len(english) // 3]
    assert language_of(english) == "en"
    assert (
        language_of(english, ["en"] * 40 + [language] * 4)
        == language_of(english[:3], [f"{language}-XX"] * 3)
        == language
    )
    assert model_for(["en", language_of(mixed) or ""]) == "alphita-multi"


def test_a_language_of_a_few_names_does_not_count(tmp_path, cache, table):
    for german, spoken in ((1, ["en"]), (6, ["en", "de"]), (60, ["de", "en"])):
        rows = [f"X:{number},sign {number},en\n" for number in range(40)]
        rows += [f"X:{number},Zeichen {number},de\n" for number in range(german)]
        path = tmp_path / f"{german}.csv"
        path.write_text("id,term,language\n" + "".join(rows))
        assert languages_of(load_terminology(terminology_of(path))) == spoken
    path = tmp_path / "no_language.csv"
    path.write_text("id,term\n" + "".join(f"X:{number},{one}\n" for number, one in enumerate(PHRASES["de"])))
    assert languages_of(load_terminology(terminology_of(path))) == ["en", "de"]


def test_an_index_is_made_with_the_model_that_names_and_strings_call_for(cache, table, tmp_path, indexed, capsys):
    index_of(table)
    assert f"indexing {table} with alphita-en: this is done once" in capsys.readouterr().err
    index_of(table, language="en")
    assert indexed == ["alphita-en"]
    assert index_of(table, language="it").path != index_of(table).path
    assert f"indexing {table} with alphita-multi, for en, it: this is done once" in capsys.readouterr().err
    index_of(table, Choice(model="alphita-multi"), language="en")
    assert indexed == ["alphita-en", "alphita-multi"]
    index_of(table, Choice(model="alphita-en", learn="no"), language="it")
    assert indexed[2:] == ["alphita-en"]
    german = tmp_path / "german.csv"
    german.write_text("id,term,language\nX:1,Kopfschmerz,de\n")
    index_of(german)
    assert indexed[3:] == ["alphita-multi"]


@pytest.mark.parametrize("kind", ["list", "series", "lazy"])
def test_python_s_strings_choose_the_model(cache, table, indexed, kind):
    given = {"list": list, "series": pl.Series, "frame": lambda words: pl.DataFrame({"words": words})}
    given["lazy"] = lambda words: given["frame"](words).lazy()
    column = {"column": "words"} if kind in ("frame", "lazy") else {}
    for strings in (PHRASES["en"], PHRASES["it"], PHRASES["it"][:5]):
        alphita.normalize(given[kind](strings), to=table, **column)
    assert indexed == ["alphita-en", "alphita-multi"]


def test_a_model_that_does_not_come_with_alphita_is_told_how_to_use(cache, table):
    with pytest.raises(UsageError, match=r"mutli'; did you mean 'alphita-multi'.*alphita index SOURCE --model"):
        index_of(table, Choice(model="alphita-mutli"))
