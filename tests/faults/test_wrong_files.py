"""Files that are not what a command needs: told by name, with what to do, before anything runs; nothing is written."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from alphita.encoder.head import Head
from tests.cli.command import alphita
from tests.runs import umls_release
from tests.tiny import tiny_model, tiny_terminology

RUNS = Path(__file__).parents[2] / "runs"
BENCHMARKS = Path(__file__).parents[1] / "fixtures" / "benchmarks"
TRAIN = ("train", "sapbert", "-t", "{given}/t.terminology", "--encoder", "{given}/encoder", "--set", "steps=2")
INDEX = ("index", "{given}/t.terminology", "--model", "{case}", "-o", "{out}/x.index")


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("given")
    umls_release.write(folder / "META")
    tiny_model(folder / "encoder")
    tiny_model(folder / "wide", dim=64)
    tiny_terminology(folder / "t.terminology")
    return folder


class Case(NamedTuple):
    """What is wrong.

    Attributes:
        make: changes a copy of what the case is made of.
        of: what that is, in the folder of good things.
        command: the command line.
        told: what its error must say, as a regular expression.
    """

    make: Callable[[Path, Path], object]
    of: str
    command: tuple[str, ...]
    told: str


def _without(name: str) -> Callable[[Path, Path], object]:
    return lambda case, _: next(case.rglob(name)).unlink()


def _with(name: str, content: str | bytes) -> Callable[[Path, Path], object]:
    return lambda case, _: (case / name).write_bytes(content.encode() if isinstance(content, str) else content)


def _from_wide(name: str) -> Callable[[Path, Path], object]:
    return lambda case, given: shutil.copy(given / "wide" / name, case / name)


def _headed(case: Path, _: Path) -> None:
    rng = np.random.default_rng(0)
    shapes = ((8, 64), (8,), (64, 8), (64,))
    Head(*(rng.normal(size=shape).astype(np.float32) for shape in shapes)).save(case)


def _with_tokens(case: Path, _: Path) -> None:
    content = json.loads((case / "tokenizer.json").read_text())
    content["model"]["vocab"]["zebra"] = len(content["model"]["vocab"])
    (case / "tokenizer.json").write_text(json.dumps(content))


IMPORT = ("terminology", "import", "umls", "{case}", "-o", "{out}/u.terminology")
CASES = {
    "no terms": Case(_without("MRCONSO.RRF"), "META", IMPORT, r"no file MRCONSO\.RRF .*; give the folder"),
    "another base beside the head": Case(
        _headed, "encoder", INDEX, r"index_head.* 64 numbers, the encoder gives 32: .*;"
    ),
    "another model's weights": Case(_from_wide("model.safetensors"), "encoder", INDEX, r"case: .*other sizes.*; fetch"),
    "another model's tokenizer": Case(_with_tokens, "encoder", INDEX, r"case: the tokenizer has \d+ tokens, .*; fetch"),
    "weights of Git LFS": Case(
        _with("model.safetensors", "version https://git-lfs"), "encoder", INDEX, r"case: .*; fetch"
    ),
    "a config that is a list": Case(_with("config.json", "[]"), "encoder", INDEX, r"case.*cannot be loaded.*; fetch"),
}


@pytest.mark.parametrize("name", CASES)
def test_what_is_wrong_is_told(name: str, given: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    case, out = CASES[name], tmp_path / "out"
    out.mkdir()
    shutil.copytree(given / case.of, tmp_path / "case")
    case.make(tmp_path / "case", given)
    places = {"given": given, "case": tmp_path / "case", "out": out}
    assert alphita(*(word.format(**places) for word in case.command)) == 1
    assert re.search(f"error: .*{case.told}", capsys.readouterr().err)
    assert not list(out.iterdir())


@pytest.mark.parametrize(
    ("file", "what"), [("MRREL", "relations"), ("MRSTY", "semantic types"), ("MRDEF", "definitions")]
)
def test_a_release_without_a_file_is_read_and_told(
    given: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], file: str, what: str
) -> None:
    shutil.copytree(given / "META", tmp_path / "META")
    (tmp_path / "META" / f"{file}.RRF").unlink()
    assert alphita("terminology", "import", "umls", tmp_path / "META", "-o", tmp_path / "u.terminology") == 0
    assert re.search(rf"no {file}\.RRF.* in {tmp_path}/META: no {what} are read", capsys.readouterr().err)
    if file == "MRREL":
        command = ("train", "coder", "-t", tmp_path / "u.terminology", "--encoder", given / "encoder")
        assert alphita(*command, "--output", tmp_path / "m", "--set", "steps=2") == 1
        assert "import one with relations, or take the recipe sapbert" in capsys.readouterr().err
        assert not (tmp_path / "m").exists()


@pytest.mark.parametrize("script", sorted(path.name for path in RUNS.glob("*_umls.sh")))
def test_a_script_says_what_the_release_lacks(script: str, given: Path, tmp_path: Path) -> None:
    shutil.copytree(given / "META", tmp_path / "META")
    (tmp_path / "META" / "MRCONSO.RRF").unlink()
    words = [str(tmp_path / "META"), str(given / "encoder"), str(tmp_path / "out"), str(given)]
    environment = os.environ | {"ALPHITA": "false"}
    done = subprocess.run(["bash", RUNS / script, *words], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert f"error: {tmp_path}/META has no MRCONSO.RRF" in done.stderr


def test_an_unfinished_run_of_another_recipe_is_not_gone_on_with(
    given: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from alphita_lab.training.engine import loop

    def cut(*_: object) -> None:
        raise KeyboardInterrupt

    train = [word.format(given=given) for word in TRAIN]
    with monkeypatch.context() as patch:
        kept = loop.save_checkpoint
        patch.setattr(loop, "save_checkpoint", lambda *words: (kept(*words), cut()))
        alphita(*train, "--output", tmp_path / "m", "--set", "checkpoint_every=1")
    (work,) = (path for path in tmp_path.iterdir() if path.name != "m")
    coder = ["coder" if word == "sapbert" else word for word in train]
    capsys.readouterr()
    assert alphita(*coder, "--output", tmp_path / "m", "--resume") == 1
    assert re.search(r"m\S*: the unfinished run had another recipe.*--force", capsys.readouterr().err)
    (step,) = work.glob("step-*")
    for file, content in (("optimizer.safetensors", b"{"), ("state.json", b"{"), ("../run.json", b"")):
        good = (step / file).read_bytes()
        (step / file).write_bytes(content)
        assert alphita(*train, "--output", tmp_path / "m", "--set", "checkpoint_every=1", "--resume") == 1
        assert re.search(r"error: \S+: the .* damaged.*; .*--force", capsys.readouterr().err)
        (step / file).write_bytes(good)
    assert alphita(*train, "--output", tmp_path / "m", "--set", "checkpoint_every=1", "--resume") == 0


@pytest.mark.parametrize("benchmark", ["bc5cdr", "cadec", "mednli_s", "ncbi_disease", "ner", "sts", "xl_bel"])
def test_a_benchmark_of_another_layout_is_told(
    benchmark: str, given: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(BENCHMARKS / benchmark, tmp_path / "data" / benchmark)
    for path in (tmp_path / "data").rglob("*.*"):
        if path.is_file():
            path.write_text("<!DOCTYPE html>\n<html><title>Log in</title></html>\n")
    command = (
        "evaluate",
        benchmark,
        "--data",
        tmp_path / "data",
        "--baseline",
        "edit_distance",
        "-t",
        given / "t.terminology",
    )
    assert alphita(*command, "-o", tmp_path / "report") == 1
    said = capsys.readouterr().err
    assert re.search(rf"error: {tmp_path}/data/{benchmark}/\S+", said), said
    assert not (tmp_path / "report").exists()


@pytest.mark.parametrize(
    ("command", "kind"),
    [
        (command, kind)
        for command in (("terminology", "import", "table"), ("index",), ("mappings", "convert"))
        for kind in ("pipe", "loop", "endless")
        # Mappings are read once, from end to end, and so from a pipe too.
        if (command[0], kind) != ("mappings", "pipe")
    ],
)
def test_what_is_no_file_is_told(
    command: tuple[str, ...], kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "source.csv"
    if kind == "pipe":
        os.mkfifo(source)
    else:
        source.symlink_to(source if kind == "loop" else "/dev/zero")
    assert alphita(*command, source, "-o", tmp_path / "out.jsonl") == 1
    assert re.search(rf"error: {source}", capsys.readouterr().err)
    assert [path.name for path in tmp_path.iterdir()] == ["source.csv"]


def test_a_name_that_no_file_can_have_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "in.csv").write_text("mention\nfever\n")
    (tmp_path / "terms.csv").write_text("id,term\nX:1,Fever\n")
    asked = ("normalize", tmp_path / "in.csv", "--to")
    assert alphita(*asked, tmp_path / "terms.csv", "-o", tmp_path / f"{'a' * 300}.csv") == 1
    assert "File name too long" in capsys.readouterr().err
    assert alphita(*asked, "", "-o", tmp_path / "out.csv") == 2
    assert "error: an empty name" in capsys.readouterr().err
