"""`alphita calibrate`, with a stand-in for the encoder."""

from __future__ import annotations

import contextlib
import io
import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from alphita import artefact
from alphita.answer.calibration_store import Calibration
from alphita.answer.normalizer import Normalizer
from alphita.calibrate import examples, fitting
from alphita.index.store import Index, build
from alphita.terminology.splits import Split
from tests.answer.synthetic import VocabularyEncoder, quickly, synthetic_terminology
from tests.cli.command import alphita
from tests.doubles import SmallTerminology, small_terminology

ENCODER = VocabularyEncoder()


@pytest.fixture(scope="module", autouse=True)
def _stand_ins():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("alphita.encoder.encoder.TermEncoder.load", lambda path, **_: ENCODER)
        patch.setattr("alphita.machine.set_threads", lambda threads: threads or 1)
        quickly(patch)
        yield


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> Path:
    return build(synthetic_terminology(), ENCODER, tmp_path_factory.mktemp("built") / "x.index").path


@pytest.fixture(scope="module")
def calibrated(built, tmp_path_factory) -> tuple[Index, str]:
    """An index that was calibrated, and what was printed."""
    path, printed = tmp_path_factory.mktemp("calibrated") / "x.index", io.StringIO()
    shutil.copytree(built, path)
    with contextlib.redirect_stdout(printed):
        assert alphita("calibrate", "--index", path) == 0
    return Index.open(path), printed.getvalue()


@pytest.fixture
def fitted(calibrated) -> Calibration:
    return Calibration.load(calibrated[0].path / "calibration", calibrated[0])


@pytest.fixture
def index(built, tmp_path) -> Index:
    shutil.copytree(built, tmp_path / "x.index")
    return Index.open(tmp_path / "x.index")


def drafts(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir() if "calibration" in path.name or path.name.startswith(".")]


def test_tables_are_printed_and_the_calibration_lies_in_the_index(calibrated, built):
    index, text = calibrated
    before = Index.open(built).content_hash
    out = index.path / "calibration"
    figures = json.loads((out / "figures.json").read_text(encoding="utf-8"))
    lines = text.splitlines()
    assert lines[0] == f"measured on {figures['population']}"
    for name, found in figures["rankings"].items():
        wanted = [name, f"{found['accuracy@1']:.1%}", f"{found['accuracy@5']:.1%}"]
        assert any(line.split() == wanted for line in lines), name
    nil = figures["nil"]
    assert f"{nil['recognised']['removed']:.1%} of the removed strings" in text
    assert f"{nil['recognised']['foreign']:.1%} of the foreign strings; lost {nil['lost']:.1%}" in text
    assert lines.count(nil["error"]) == 1
    error = figures["calibration"]["expected_calibration_error"]["value"]
    assert f"expected calibration error {error:.3f}" in text
    assert "cannot certify" in text
    assert lines[-1] == f"calibration: {out}"
    assert artefact.verify(out, "calibration")["index_hash"] == before
    # The index itself is as it was, and is normalised by its calibration from now on.
    assert Index.open(index.path, verify=True).content_hash == before
    normalizer = Normalizer.load(index.path, encoder=ENCODER)
    assert normalizer.ranking == "learned"
    assert normalizer.normalize(["drall swelling of the left"])[0].confidence is not None


def test_a_split_and_labels_are_used_and_an_existing_one_is_moved_aside_by_force_only(
    index, tmp_path, capsys, monkeypatch
):
    old = index.path / "calibration"
    old.mkdir()
    (old / "figures.json").write_text("old")
    with monkeypatch.context() as patch:
        patch.setattr(fitting, "fit", lambda *_, **__: pytest.fail("the work was begun"))
        assert alphita("calibrate", "--index", index.path) == 2
    assert "already exists; choose another name or use --force" in capsys.readouterr().err
    strings, rows = examples.own_synonyms(index, seed=0)
    ids = index.segment.concepts.column("id").take(rows).to_pylist()
    Split(strings, ids, ["calibration"] * len(ids)).save(tmp_path / "s.split")
    labels = tmp_path / "labels.csv"
    labels.write_text("mention,concept_id\n" + "".join(f"said {n},{ids[n]}\n" for n in range(10)) + "other,NIL\n")
    words = ("--split", tmp_path / "s.split", "--labels", labels, "--seed", 1, "--force")
    assert alphita("calibrate", "--index", index.path, *words) == 0
    text = capsys.readouterr().out
    assert "of the split's calibration part" in text
    assert "and 5 labelled mentions" in text
    manifest = artefact.verify(index.path / "calibration", "calibration")
    assert manifest["split_hash"] == Split.load(tmp_path / "s.split").hash
    assert (manifest["labels"], manifest["seed"]) == (11, 1)
    assert (index.path / "calibration.old-1" / "figures.json").read_text() == "old"


def test_wrong_use_and_bad_input_are_one_line(index, tmp_path, capsys):
    def failed(code: int, *arguments: object) -> str:
        assert alphita("calibrate", *arguments) == code
        error = capsys.readouterr().err
        assert "Traceback" not in error
        return error

    assert "no such index" in failed(1, "--index", tmp_path / "none")
    Split(["a"], ["T:0001"], ["test"]).save(tmp_path / "t.split")
    error = failed(2, "--index", index.path, "--split", tmp_path / "t.split")
    assert "no calibration part; make one with: alphita terminology split" in error
    Split(["a"], ["T:0001"], ["calibration"]).save(tmp_path / "c.split")
    error = failed(1, "--index", index.path, "--split", tmp_path / "c.split")
    assert "only 1 held-out strings" in error
    assert "use a larger calibration part" in error
    small = build(small_terminology(), ENCODER, tmp_path / "small.index")
    assert "held-out strings name concepts of this index" in failed(1, "--index", small.path)
    (tmp_path / "labels.csv").write_text("text,concept_id\n")
    assert "has no column 'mention'" in failed(1, "--index", index.path, "--labels", tmp_path / "labels.csv")
    assert drafts(index.path) == []


def test_a_calibration_is_taken_over_from_another_index(index, fitted, tmp_path, capsys):
    fitted.save(index.path / "calibration")
    rows = [(f"U:{number}", f"name of thing {number}", "exact") for number in range(30)]
    other = build(SmallTerminology(rows), ENCODER, tmp_path / "other.index")
    capsys.readouterr()
    assert alphita("calibrate", "--index", other.path) == 1
    assert "take over the calibration of another index" in capsys.readouterr().err
    assert alphita("calibrate", "--index", other.path, "--from", index.path) == 0
    told = capsys.readouterr().out
    assert told.startswith("taken over: its confidence was fitted on ")
    assert "here it is estimated, not certified" in told
    assert "\n    0.5%  nothing is accepted\n" in told
    assert "\n   10.0%  accepted from a confidence of 0." in told
    assert told.endswith(f"calibration: {other.path / 'calibration'}\n")
    assert Normalizer.load(other.path, encoder=ENCODER).normalize(["name of thing 7"])[0].concept_id == "U:7"
    assert alphita("calibrate", "--index", other.path, "--from", index.path, "--split", "s.split", "--force") == 2
    assert "--from takes a calibration as it is" in capsys.readouterr().err


def test_a_model_lends_its_general_calibration(index, fitted, tmp_path, capsys, monkeypatch):
    lent = fitted
    asked = []

    def lend(opened, lender, general):
        asked.append((opened.path, lender, general))
        return replace(lent, fields={"index_hash": opened.content_hash, "carried_over_from": {"population": "a few"}})

    monkeypatch.setattr("alphita.calibrate.transfer.adapt", lend)
    assert alphita("calibrate", "--index", index.path, "--from", "alphita-en") == 0
    assert asked == [(index.path, ENCODER, ENCODER.folder / "calibration")]
    assert capsys.readouterr().out.startswith("taken over: its confidence was fitted on a few; here it is estimated")
    assert Normalizer.load(index.path, encoder=ENCODER).assurance == "estimated"
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text("{}")
    assert alphita("calibrate", "--index", index.path, "--from", tmp_path / "model", "--force") == 0
    assert len(asked) == 2
