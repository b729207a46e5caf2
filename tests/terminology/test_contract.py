"""What holds of every loader: one contract over all of them, its cases in `expected/`.

`expected/cases.tsv` names files of the fixtures and options; `expected/NAME.txt` holds every fact that they give, the
sources, what was left out and what was refused. To write them anew after a change that is meant: ALPHITA_EXPECTED=1.
"""

from __future__ import annotations

import ast
import gzip
import json
import os
import shutil
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from alphita import config, registry
from alphita.errors import InputError, Rejects, UsageError
from alphita.terminology.loaders import PACKAGE, _columns, _files, _rrf, _tables
from alphita.terminology.store import load_terminology
from tests.terminology import fuzz
from tests.terminology.conftest import (
    ADDING,
    EXPECTED,
    FIXTURES,
    RELEASES,
    cases,
    check_held,
    cut_gzip,
    facts,
    manifest_facts,
    option_values,
    saved,
    zipped,
)
from tests.terminology.test_properties import check_csr

NAMES = registry.names(PACKAGE)


def options(name: str, bases: dict[str, Path], written: str = "") -> tuple[Any, Any]:
    """Return a loader and its options."""
    loader = registry.load(PACKAGE, name)
    return loader, option_values(loader, written, **({"onto": str(bases[name])} if name in ADDING else {}))


def least(name: str, folder: Path) -> Path:
    """Copy the smallest good release of a format."""
    source = FIXTURES / "least" / name
    source = source if source.exists() else RELEASES[name].example
    if source.is_file():
        folder.mkdir()
        return Path(shutil.copy(source, folder)).parent
    # MRFILES counts the rows.
    return shutil.copytree(source, folder, ignore=shutil.ignore_patterns("MRFILES.RRF"))


# How a term is written in each format.
WRITING = {
    "plain": str,
    "quoted": lambda word: '"' + word.replace('"', '""') + '"',
    "doubled": lambda word: word.replace('"', '""'),
    "escaped": lambda word: word.replace("\\", "\\\\").replace('"', '\\"'),
    "json": lambda word: json.dumps(word)[1:-1],
    "xml": escape,
}


def release(name: str) -> dict[str, bytes]:
    """Return the files of a format's fixture by their names in a folder."""
    return {path.relative_to(FIXTURES).as_posix(): path.read_bytes() for path in RELEASES[name].files}


@pytest.mark.parametrize(("case", "name", "files", "written"), cases("cases.tsv"))
def test_fixtures_give_all_these_facts(case, name, files, written, bases, tmp_path):
    loader, chosen = options(name, bases, written)
    paths = [path for pattern in files.split() for path in sorted(FIXTURES.glob(pattern))]
    terminology, rejects = saved(loader, paths, chosen, tmp_path)
    check_csr(terminology)
    shown = [str([Path(file).name, *row]) for file, *row in rejects]
    found = "\n".join([*facts(terminology), "", *manifest_facts(terminology), "", *shown]).strip() + "\n"
    path = EXPECTED / f"{case}.txt"
    if os.environ.get("ALPHITA_EXPECTED"):
        path.write_text(found, encoding="utf-8")
    assert found.splitlines() == path.read_text(encoding="utf-8").splitlines()


SMALL = cases("small.tsv")


@pytest.mark.parametrize(("case", "name", "written", "files"), SMALL, ids=[row[0] for row in SMALL])
def test_small_files_give_all_these_facts(case, name, written, files, bases, tmp_path):
    loader, chosen = options(name, bases, written)
    paths = []
    for file, content in (file.split("=", 1) for file in files.split("¦")):
        paths.append(tmp_path / file)
        paths[-1].write_bytes(content.encode("utf-8", "surrogateescape"))
    terminology, rejects = saved(loader, paths, chosen, tmp_path)
    shown = [str([Path(file).name, *row]) for file, *row in rejects]
    found = [*facts(terminology), "", *manifest_facts(terminology), "", *shown]
    check_held("small", case, [row[0] for row in SMALL], found)


@pytest.mark.parametrize("name", NAMES)
def test_it_does_not_matter_how_files_are_packed(name, bases, tmp_path):
    files = release(name)
    loader, chosen = options(name, bases)
    folder, packed = tmp_path / "folder", tmp_path / "packed"
    for place, content in files.items():
        for path, written in ((folder / place, content), (packed / f"{place}.gz", gzip.compress(content))):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(written)
    wanted, refused = saved(loader, [folder], chosen, tmp_path)
    hashes, told = wanted.manifest["files"], [row[1:] for row in refused]
    others = {f"release/{place}": content for place, content in files.items()} | {"release/README.md": b"Not read."}
    archive = zipped(tmp_path / "release.zip", others)
    mixed = zipped(tmp_path / "mixed.nlm", {f"{place}.gz": gzip.compress(content) for place, content in files.items()})
    for path in (packed, archive, mixed):
        found, rejects = saved(loader, [path], chosen, tmp_path)
        assert (found.manifest["files"], [row[1:] for row in rejects]) == (hashes, told), path
    found, rejects = saved(loader, [archive], chosen, tmp_path)
    sources = [source["file"] for source in found.manifest["sources"] if source["file"] != "base.obo"]
    assert sources
    assert all(file.startswith("release.zip") for file in sources)
    assert all(row[0].startswith(f"{archive}/release/") for row in rejects)


@pytest.mark.parametrize(("name", "file", "term", "writing", "without"), cases("words.tsv"))
@fuzz.examples(8)
@given(word=fuzz.words('a"b', '"', "x;y", "it's", "\\", "{z}", "&lt;", "[1]", "NULL"))
def test_any_word_is_read_as_it_is_written(name, file, term, writing, without, bases, word):
    assume(not {*word} & {*without.encode().decode("unicode_escape"), "\ufeff"})
    loader, chosen = options(name, bases)
    files = {place: content.decode() for place, content in release(name).items()}
    assert term in files[file]
    strings = []
    for written in (term, WRITING[writing](word)):
        changed = {**files, file: files[file].replace(term, written)}
        with fuzz.folder_of({place: content.encode() for place, content in changed.items()}) as folder:
            strings.append(set(saved(loader, [folder], chosen, folder)[0].terms["string"].to_pylist()))
    assert strings[1] == strings[0] - {term} | {word}


@pytest.mark.parametrize("name", NAMES)
def test_files_are_read_in_blocks_of_any_size(name, bases, tmp_path, monkeypatch):
    loader, chosen = options(name, bases)
    files = RELEASES[name].files
    wanted = saved(loader, files, chosen, tmp_path)
    for size in (1, 50):
        for module in (_files, _rrf, _tables):
            monkeypatch.setattr(module, "BLOCK_BYTES", size)
        for module in (_columns, _tables):
            monkeypatch.setattr(module, "ROWS_AT_ONCE", size)
        monkeypatch.setattr(_files, "_LINES_AT_ONCE", size)
        found = saved(loader, files, chosen, tmp_path)
        assert found[0].content_hash == wanted[0].content_hash
        assert found[1] == wanted[1]


BAD = cases("bad_rows.tsv")


@pytest.mark.parametrize("case", BAD, ids=[f"{row[0]}-{row[6]}" for row in BAD])
def test_a_bad_row_costs_itself_alone(case, bases, tmp_path):
    """It is named with file, line and field; what else the file says is read. `more` facts come of what is kept."""
    name, file, at, row, line, field, problem, more = case
    folder = least(name, tmp_path / "release")
    loader, chosen = options(name, bases)
    wanted = facts(saved(loader, [folder], chosen, tmp_path)[0])
    path = folder / file
    lines = path.read_bytes().splitlines(keepends=True)
    lines.insert(int(at) - 1 if at != "0" else len(lines), row.encode("utf-8", "surrogateescape") + b"\n")
    path.write_bytes(b"".join(lines))
    terminology, rejects = saved(loader, [folder], chosen, tmp_path)
    assert len(rejects) == 1 or name == "obographs"
    assert rejects[0][:2] == [str(path), str(len(lines)) if line == "end" else line]
    assert rejects[0][2] == field or field == "*"
    assert len(rejects[0][3]) <= 80
    assert any(part in rejects[0][4] for part in problem.split("|"))
    found = facts(terminology)
    left = iter(found)
    assert all(any(fact == other for other in left) for fact in wanted)
    assert more == "*" or len(found) == len(wanted) + int(more)
    with pytest.raises(InputError, match=path.name):
        saved(_Strict(loader), [folder], chosen, tmp_path)


class _Strict:
    """A loader that is to stop at its first bad row."""

    def __init__(self, loader: Any) -> None:
        self.loader = loader

    def load(self, files: Any, options: Any, rejects: Rejects) -> Any:
        rejects.strict = True
        return self.loader.load(files, options, rejects)


WRONG = cases("wrong_files.tsv", escaped=False)
WRONG += [
    [name, RELEASES[name].main, what, problem]
    for name in NAMES
    for what, problem in (("b''", "empty"), ("cut", "cut short"))
]


@pytest.mark.parametrize(("name", "file", "content", "problem"), WRONG, ids=[f"{row[0]}-{row[3]}" for row in WRONG])
def test_a_file_of_another_kind_is_an_error(name, file, content, problem, bases, tmp_path):
    folder = least(name, tmp_path / "release")
    loader, chosen = options(name, bases)
    path = folder / file
    path.write_bytes(cut_gzip(path.read_bytes()) if content == "cut" else ast.literal_eval(content))
    with pytest.raises(InputError, match=problem) as raised:
        loader.load([folder if name == "snomed_ct" else path], chosen, Rejects(None))
    assert str(path) in str(raised.value)


@pytest.mark.parametrize("name", NAMES)
def test_what_is_not_there(name, bases, tmp_path):
    loader, chosen = options(name, bases)
    with pytest.raises(InputError, match="No such file"):
        loader.load([tmp_path / "none.obo"], chosen, Rejects(None))
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError):
        loader.load([tmp_path / "empty"], chosen, Rejects(None))
    for content in (b"PK\x03\x04nonsense", b"\x1f\x8bnonsense"):
        (tmp_path / "x.zip").write_bytes(content)
        with pytest.raises(InputError, match=r"damaged|cut short|no file|readable"):
            loader.load([tmp_path / "x.zip"], chosen, Rejects(None))


@pytest.mark.parametrize(("name", "written", "problem"), cases("wrong_options.tsv"))
def test_a_wrong_option_is_an_error(name, written, problem, bases):
    loader, chosen = options(name, bases, written)
    with pytest.raises((UsageError, InputError), match=problem):
        loader.load(RELEASES[name].files, chosen, Rejects(None))


@pytest.mark.parametrize("name", ADDING)
def test_what_adds_to_a_terminology_needs_one(name, tmp_path):
    loader = registry.load(PACKAGE, name)
    for onto, error, problem in (("", UsageError, "--onto BASE"), ("none", InputError, "no such terminology")):
        chosen = loader.Options(onto=onto and str(tmp_path / onto))
        with pytest.raises(error, match=problem):
            loader.load([FIXTURES / "least" / name / RELEASES[name].main], chosen, Rejects(None))


@pytest.mark.parametrize("name", ADDING)
def test_what_the_base_had_stays(name, bases, tmp_path):
    loader, chosen = options(name, bases)
    terminology, _ = saved(loader, [FIXTURES / name], chosen, tmp_path)
    before = load_terminology(bases[name])
    for row in range(before.n_concepts):
        known = before.concept(row)
        found = terminology.concept(known.id)
        assert [term for term in found.terms if term in known.terms] == known.terms
        assert [text for text in found.definitions if text in known.definitions] == known.definitions
        assert (found.name, found.parents, found.xrefs) == (known.name, known.parents, known.xrefs)


@pytest.mark.parametrize(
    "name", [name for name in NAMES if "language" in registry.load(PACKAGE, name).Options.model_fields]
)
def test_a_language_is_one_of_the_table(name):
    loader = registry.load(PACKAGE, name)
    assert config.resolve(loader.Options, sets=["language=GER"]).language == "de"
    with pytest.raises(UsageError, match="option 'language': unknown language"):
        config.resolve(loader.Options, sets=["language=english"])


@pytest.mark.parametrize("name", NAMES)
@fuzz.examples(15)
@given(data=st.data())
def test_damaged_files_give_a_clear_error_or_a_sound_terminology(name, bases, data):
    files = release(name)
    loader, chosen = options(name, bases)
    damaged = data.draw(st.sampled_from(sorted(files)))
    new = st.binary(max_size=30) | st.text('|\t,\n\r"CANO01', max_size=10).map(str.encode)
    content = data.draw(fuzz.edited(files[damaged], 40, new) | st.binary(max_size=300))
    fuzz.check_sound_or_refused(loader, {**files, damaged: content}, chosen)
