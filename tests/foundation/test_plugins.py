"""Choices from other packages: an example package, and broken ones, installed by a folder with a .dist-info."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from alphita import registry
from alphita.errors import AlphitaError
from tests.cli.command import alphita

EXAMPLE = Path(__file__).parents[1] / "fixtures" / "plugin" / "alphita_example"
CHOICES = {
    "alphita_lab.recipes": "unchanged",
    "alphita_lab.evaluation.benchmarks": "initials",
    "alphita.terminology.loaders": "lines",
    "alphita.mappings.formats": "arrows",
    "alphita.index.backends": "brute",
}


def install(site: Path, name: str, points: dict[str, str]) -> None:
    """Make a package known as pip does; `points` are lines of entry points, by the package they add to."""
    info = site / f"{name.replace('-', '_')}-1.2.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.2\n")
    groups = (f"[{registry.group(package).entry_points}]\n{line}\n" for package, line in points.items())
    (info / "entry_points.txt").write_text("\n".join(groups))


@pytest.fixture
def site(tmp_path, monkeypatch):
    folder = tmp_path / "site"
    shutil.copytree(EXAMPLE, folder / EXAMPLE.name, ignore=shutil.ignore_patterns("__pycache__"))
    points = {package: f"{choice} = {EXAMPLE.name}.{choice}" for package, choice in CHOICES.items()}
    install(folder, "alphita-example", points)
    monkeypatch.syspath_prepend(folder)
    yield folder
    for name in [name for name in sys.modules if name.split(".")[0] == EXAMPLE.name]:
        del sys.modules[name]


@pytest.fixture
def lines(tmp_path):
    path = tmp_path / "lines.txt"
    path.write_text("#lines\nX:1=heart attack\nX:2=kidney stone\nno more\n")
    return path


@pytest.mark.parametrize("package", CHOICES)
def test_the_choices_of_this_package_hold_what_is_asked_of_a_plugin(package):
    parts = registry.group(package).parts
    assert not [(name, part) for name in registry.names(package) for part in parts if not _has(package, name, part)]


def _has(package: str, name: str, part: str) -> bool:
    return hasattr(registry.load(package, name), part)


def test_the_choices_of_another_package_are_listed_with_it_and_not_imported(site):
    for package, choice in CHOICES.items():
        assert choice in registry.names(package)
        assert f"{choice} (of alphita-example 1.2)" in registry.listed(package)
        assert registry.origin(package, choice) == " (of alphita-example 1.2)"
    assert EXAMPLE.name not in sys.modules
    assert registry.origin("alphita_lab.recipes", "coder") == ""


def test_a_package_that_is_removed_is_gone(site, monkeypatch):
    assert "unchanged" in registry.names("alphita_lab.recipes")
    monkeypatch.setattr(sys, "path", [one for one in sys.path if one != str(site)])
    assert "unchanged" not in registry.names("alphita_lab.recipes")


def test_every_kind_of_plugin_works_on_the_command_line(site, lines, tmp_path, capsys):
    terminology, index, out = (tmp_path / name for name in ("x.terminology", "x.index", "out.arrows"))
    for words in (["train", "--list"], ["evaluate", "--list"], ["terminology", "import", "--list"]):
        assert alphita(*words) == 0
    listed = capsys.readouterr().out
    assert "unchanged        A recipe that learns nothing: the model is the encoder that was given. (of " in listed
    assert "(of alphita-example 1.2)\n" in listed
    assert "lines: lines of ID=name (of alphita-example 1.2)\n" in listed

    assert alphita("terminology", "import", "lines", lines, "-o", terminology) == 0
    assert "1 row left out; see" in capsys.readouterr().err
    assert alphita("train", "unchanged", "-t", terminology, "--encoder", "alphita-en", "-o", tmp_path / "model") == 0
    assert "terms: 2" in capsys.readouterr().out
    words = ("--no-borrow", "--learn", "no", "--backend", "brute")
    assert alphita("index", terminology, "-o", index, "--model", tmp_path / "model", *words) == 0
    assert json.loads((index / "manifest.json").read_text())["backend"] == "brute"
    (tmp_path / "in.csv").write_text("term\nheart attack\n")
    assert alphita("normalize", tmp_path / "in.csv", "--to", index, "-o", out) == 0
    assert out.read_text() == "heart attack -> X:1\n"
    words = ("-t", terminology, "-b", "tfidf", "-o", tmp_path / "report")
    assert alphita("evaluate", "initials", *words) == 0
    (entry,) = json.loads((tmp_path / "report" / "report.json").read_text())["benchmarks"]
    assert entry["name"] == "initials"
    assert entry["systems"][0]["figures"][0]["value"] == 0


def test_another_packages_loader_reads_a_source_without_being_named(site, lines, tmp_path, capsys):
    (tmp_path / "in.csv").write_text("term\nkidney stone\n")
    assert alphita("normalize", tmp_path / "in.csv", "--to", lines, "-o", tmp_path / "out.csv") == 0
    assert "X:2" in (tmp_path / "out.csv").read_text()


BROKEN = {
    "cannot be imported": "raise RuntimeError('made for 0.1')\n",
    "lacks CITATION, Config, train": '"""Half."""\n',
}


@pytest.mark.parametrize("problem", BROKEN)
def test_a_broken_plugin_is_named_and_skipped_and_the_rest_works(site, problem, capsys, monkeypatch):
    (site / "half_done.py").write_text(BROKEN[problem])
    install(site, "half-done", {"alphita_lab.recipes": "half = half_done"})
    monkeypatch.delitem(sys.modules, "half_done", raising=False)
    registry._entry_points.cache_clear()
    registry._load_all.cache_clear()
    assert "half" in registry.names("alphita_lab.recipes")
    with pytest.raises(AlphitaError) as caught:
        registry.load("alphita_lab.recipes", "half")
    told = f"the plug-in 'half' of half-done 1.2 {problem}"
    assert str(caught.value).startswith(told)
    assert str(caught.value).endswith("; install another version of half-done 1.2, or remove it")

    assert alphita("train", "half", "--terminology", "x", "-o", "y") == 1
    assert capsys.readouterr().err.startswith(f"error: {told}")
    assert alphita("train", "--help") == 0
    assert "coder" in capsys.readouterr().out
    code = "from alphita.cli import main; import sys; sys.argv = ['alphita', 'train', '--list']; main()"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={"PYTHONPATH": ":".join(sys.path)}
    )
    assert done.stderr.startswith(f"skipped: {told}")
    assert done.stderr.count("skipped") == 1
    assert "coder " in done.stdout
    assert "unchanged " in done.stdout
    assert "half " not in done.stdout


def test_a_name_that_is_taken_stays_with_who_had_it(site, caplog):
    install(site, "taker", {"alphita_lab.recipes": "coder = taker.coder\nunchanged = taker.unchanged"})
    registry._entry_points.cache_clear()
    assert registry.load("alphita_lab.recipes", "coder").__name__ == "alphita_lab.recipes.coder"
    told = [record.getMessage() for record in caplog.records]
    assert "skipped: 'coder' of taker 1.2, for Alphita's own is called so already" in told
    assert len(told) == 2
