"""`alphita terminology import | describe | split`, in this process."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

import alphita
from alphita import artefact
from alphita.cli.terminology import app
from alphita.errors import InputError, UsageError
from alphita.terminology.splits import Split
from tests.terminology.conftest import FIXTURES


def run(*arguments: object) -> str:
    """Run a command; return what it printed, or raise what it raised."""
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.output


@pytest.fixture(autouse=True)
def _threads(monkeypatch):
    monkeypatch.setattr("alphita.machine.set_threads", lambda threads: threads or 1)


@pytest.fixture
def imported(tmp_path):
    output = tmp_path / "small.terminology"
    said = run("import", "obo", FIXTURES / "small.obo", "-o", output, "--set", "language=de")
    assert f"{output}: 4 concepts, 11 terms, 4 relations" in said
    return output


def test_import(imported):
    terminology = alphita.load_terminology(imported)
    assert terminology.manifest["config"] == {
        "format": "obo",
        "language": "de",
        "encoding": "utf-8",
        "missing_scope": "",
        "semantic_type": "",
    }
    assert not imported.with_name("small.terminology.rejects.csv").exists()
    assert artefact.verify(imported, "terminology")["kind"] == "terminology"


def test_rejects_are_counted_and_readable_by_their_owner_only(tmp_path):
    bad = tmp_path / "bad.obo"
    bad.write_text('format-version: 1.2\n\n[Term]\nid: X:1\nname: One\nsynonym: "Eins"\nis_a: X:404\n')
    said = run("import", "obo", bad, "-o", tmp_path / "new" / "x.terminology")
    rejects = tmp_path / "new" / "x.terminology.rejects.csv"
    assert f"2 rows left out; see {rejects}" in said
    assert [line.split(",")[1] for line in rejects.read_text().splitlines()[1:]] == ["6", "7"]
    assert rejects.stat().st_mode & 0o077 == 0
    with pytest.raises(InputError, match=r"bad\.obo:6"):
        run("import", "obo", bad, "-o", tmp_path / "y.terminology", "--strict")
    assert not (tmp_path / "y.terminology").exists()


def test_rejects_of_an_earlier_run_do_not_stay(tmp_path):
    good, bad = tmp_path / "good.csv", tmp_path / "bad.csv"
    good.write_text("id,term\nX:1,One\n")
    bad.write_text("id,term\nX:1,One\nX:2,\n")
    output, rejects = tmp_path / "x.terminology", tmp_path / "x.terminology.rejects.csv"
    run("import", "table", bad, "-o", output)
    assert rejects.exists()
    # Where the work fails, the old folder stays as it was, and its rejects with it.
    with pytest.raises(InputError):
        run("import", "obo", good, "-o", output, "--force")
    assert rejects.exists()
    run("import", "table", good, "-o", output, "--force")
    assert not rejects.exists()
    # Something else of that name is none of ours.
    other = tmp_path / "notes.csv"
    other.write_text("file,line\nmine,1\n")
    run("import", "table", good, "-o", tmp_path / "y.terminology", "--rejects", other)
    assert other.read_text() == "file,line\nmine,1\n"
    other.write_text("")
    run("import", "table", good, "-o", tmp_path / "z.terminology", "--rejects", other)
    assert not other.exists()


def test_wrong_use(tmp_path, imported):
    small = FIXTURES / "small.obo"
    cases = [
        (["import", "obo2", small, "-o", "x"], "unknown loader 'obo2'; did you mean 'obo'?"),
        (["import", "obo", small, "-o", tmp_path / "x", "--set", "langage=de"], "did you mean 'language'"),
        (["import", "obo", small, "-o", tmp_path / "x", "--set", "missing_scope=all"], "option 'missing_scope'"),
        (["import", "obo", small, "-o", imported], "already exists"),
        (["import", "obo", "-o", tmp_path / "x"], "give a format"),
        (["import", "obo", "hpoo", "--packaged", "-o", tmp_path / "x"], "did you mean 'hpo'"),
        (["split", imported, "-o", tmp_path / "s", "--assign", "0.8,0.2"], "three shares"),
        (["import", "table", FIXTURES / "relations.tsv", "-o", tmp_path / "x", "--set", "tail_column=t"], "'t'"),
    ]
    for arguments, said in cases:
        with pytest.raises(UsageError, match=said.replace("?", r"\?")) as raised:
            run(*arguments)
        assert raised.value.exit_code == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["small.terminology"]


@pytest.mark.parametrize("output", ["", ".", "/"])
def test_an_output_without_a_name_is_refused(tmp_path, imported, monkeypatch, output):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.csv").write_text("id,term\nX:1,One\n")
    before = sorted(path.name for path in tmp_path.iterdir())
    for words in (
        ["import", "table", "t.csv"],
        ["subset", imported, "--language", "de"],
        ["split", imported],
        ["merge", imported, imported],
    ):
        with pytest.raises(UsageError, match=r"a folder without a name of its own; name what is to be made: .*NAME"):
            run(*words, "-o", output, "--force")
    assert sorted(path.name for path in tmp_path.iterdir()) == before


def test_nothing_overwrites_what_it_reads(tmp_path, imported):
    source, ids, link = tmp_path / "in.csv", tmp_path / "ids.csv", tmp_path / "link"
    source.write_text("id,term\nX:1,One\nX:2,\n")
    ids.write_text("X:1\n")
    link.symlink_to(imported)
    own = tmp_path / "y.terminology.rejects.csv"
    own.write_text(source.read_text())
    files = {path: path.read_bytes() for path in (source, ids, own, imported / "manifest.json")}
    made = tmp_path / "t.terminology"
    cases: list[tuple[list[object], str]] = [
        (["import", "table", source, "-o", made, "--rejects", source], "is the input; choose another name for the rej"),
        (["import", "table", own, "-o", tmp_path / "y.terminology"], "is the input; choose another name for the rej"),
        (["import", "table", source, "-o", source], "is the input; choose another name for the output"),
        (["import", "table", source, "-o", made, "--rejects", made], "is the output; choose another name for the rej"),
        (["import", "hpoa", source, "--onto", imported, "-o", link], "is the input; choose another name for the out"),
        (["split", imported, "-o", link], "is the terminology; choose another name for the output"),
        (["subset", imported, "-o", link, "--language", "de"], "is the terminology; choose another name for the out"),
        (["subset", imported, "-o", ids, "--list", ids], "is the list; choose another name for the output"),
        (["merge", imported, imported, "-o", link], "is the input; choose another name for the output"),
    ]
    for arguments, said in cases:
        with pytest.raises(UsageError, match=said):
            run(*arguments, "--force")
    assert {path: path.read_bytes() for path in files} == files
    assert not made.exists()
    assert not list(tmp_path.glob("*.old-*"))


def test_list_shows_every_format_and_option():
    said = run("import", "--list")
    for name in ("obo: ", "icd10cm: ", "table: ", "--set language=en", "--set term_column=term"):
        assert name in said


def test_describe(imported, tmp_path):
    said = run("describe", imported, "-o", tmp_path / "report.json")
    for words in ("terms by language", "terms by kind", "semantic type", "relations", "homonyms", "left out"):
        assert words in said
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["totals"]["live concepts"] == 3
    assert report["terms_by_language"] == {"de": 10}
    with pytest.raises(InputError, match="no such terminology"):
        run("describe", tmp_path / "none")


def test_split(tmp_path):
    lines = ["format-version: 1.2", ""]
    for number in range(9):
        lines += ["[Term]", f"id: T:{number}", f"name: name {number}", f'synonym: "other {number}" EXACT []']
        lines += [f"is_a: T:{parent}" for parent in range(number)] + [""]
    (tmp_path / "x.obo").write_text("\n".join(lines))
    run("import", "obo", tmp_path / "x.obo", "-o", tmp_path / "x.terminology")
    path = tmp_path / "x.split"

    def split(*words: object) -> tuple[str, Split]:
        said = run("split", tmp_path / "x.terminology", "-o", path, *words, "--seed", 4, "--force")
        return said, Split.load(path)

    held_out = []
    for words, count in ((["--fraction", 1], 9), (["--assign", "0,0,1"], 9), (["--fraction", 0], 0)):
        said, found = split(*words, "--triples", 0.5)
        assert len(found) == count
        assert f"{count} strings held out" in said
        assert 9 <= len(found.triples) <= 27
        assert f"{len(found.triples)} triples between {len(found.triples)} pairs of concepts held out; 0 chosen" in said
        held_out.append(found.triples)
    # The strings held out have no part in the choice of triples.
    assert held_out[0] == held_out[1] == held_out[2]
    said, found = split("--concepts", 1)
    assert "18 strings held out (18 test), all names of 9 concepts; 0 others share one" in said
    assert (len(found), found.triples, "pairs of concepts" in said) == (18, [], False)
    with pytest.raises(UsageError, match="exclude each other"):
        split("--concepts", 1, "--assign", "0,0,1")
