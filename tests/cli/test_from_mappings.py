"""`alphita train --from-mappings` and `alphita calibrate --from-mappings`."""

from __future__ import annotations

import json

import pytest

from alphita.answer.normalizer import Normalizer
from alphita.encoder.encoder import TermEncoder
from alphita.index.store import build
from alphita.terminology.store import load_terminology
from tests.answer.synthetic import VocabularyEncoder, quickly, synthetic_terminology
from tests.cli.command import alphita
from tests.review.reviews import candidate, row, say, store_of
from tests.tiny import SITES, tiny_model, tiny_terminology

WORDS = ("first", "second", "third", "fourth")


@pytest.fixture
def reviewed(tmp_path):
    """A terminology, a model, and a store in which 32 mentions are settled."""
    base = tiny_terminology(tmp_path / "t.terminology")
    ids = dict(zip(base.concept_names.to_pylist(), base.concept_ids.to_pylist(), strict=True))
    rows, gold = [], []
    for word in WORDS:
        for site in SITES:
            right, wrong = ids[f"pain of the {site}"], ids[f"swelling of the {site}"]
            shown = candidate(wrong, f"{site} swelling"), candidate(right, f"{site} pain", rank=2)
            rows.append(row(f"{word} {site} trouble", *shown, number=len(rows) + 1))
            gold.append(right)
    with store_of(tmp_path / "r.sqlite", rows, base.content_hash) as store:
        for number, one in enumerate(gold, 1):
            say(store, number, "choose", one)
        yield base, tiny_model(tmp_path / "base"), tmp_path / "r.sqlite"


def train(recipe, reviewed, out, *more):
    base, model, store = reviewed
    return alphita(
        "train",
        recipe,
        "-t",
        base.path,
        "--encoder",
        model,
        "--threads",
        1,
        "-o",
        out,
        "--from-mappings",
        store,
        "--set=precision=fp32",
        *more,
    )


def test_a_recipe_learns_accepted_mentions_and_says_what_it_gained(reviewed, tmp_path, capsys):
    out = tmp_path / "m"
    assert train("sapbert", reviewed, out, "--set=steps=4", "--set=pairs=16", "--set=warmup_steps=1") == 0
    made = load_terminology(tmp_path / "m.terminology")
    strings = set(made.terms.column("string").to_pylist())
    assert "first heart trouble" in strings
    assert "fourth eye trouble" not in strings
    assert made.n_terms == reviewed[0].n_terms + 26
    trained = json.loads((out / "training.json").read_text(encoding="utf-8"))
    assert trained["terminology"] == made.content_hash
    report = json.loads((tmp_path / "m.report.json").read_text(encoding="utf-8"))
    assert report["decisions"]["learned"] == 26
    assert {name: one["n"] for name, one in report["held_out"].items()} == dict.fromkeys(
        ("before", "synonyms alone", "after"), 6
    )
    assert report["provenance"]["data"]["model"] == TermEncoder.load(out).content_hash
    told = capsys.readouterr().out
    for name, one in report["held_out"].items():
        line = next(line for line in told.splitlines() if line.startswith(f"  {name} "))
        assert f"accuracy@1 {one['accuracy@1']:.1%}" in line
        assert 0 <= one["accuracy@1"] <= one["accuracy@5"] <= 1


def test_hard_negatives_go_to_a_recipe_that_takes_triples(reviewed, tmp_path, monkeypatch):
    from alphita_lab.recipes import biolord, sapbert

    seen = {}

    class Stopped(Exception):
        pass

    def stop(terminology, encoder, out, config, **_):
        seen["triples"] = getattr(config, "triples", None)
        raise Stopped

    monkeypatch.setattr(biolord, "train", stop)
    monkeypatch.setattr(sapbert, "train", stop)
    mine = tmp_path / "mine.csv"
    mine.write_text("premise,entailed,contradicted\na,b,c\n", encoding="utf-8")
    negatives = tmp_path / "m.hard_negatives.csv"
    with pytest.raises(Stopped):
        train("biolord", reviewed, tmp_path / "m")
    assert seen["triples"] == str(negatives)
    assert "first heart trouble,pain of the heart,heart swelling" in negatives.read_text(encoding="utf-8")
    with pytest.raises(Stopped):
        train("biolord", reviewed, tmp_path / "m", f"--set=triples={mine}", "--force")
    assert seen["triples"] == f"{mine},{negatives}"
    with pytest.raises(Stopped):
        train("sapbert", reviewed, tmp_path / "m", "--force")
    assert seen["triples"] is None


def test_several_processes_are_refused(reviewed, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert train("sapbert", reviewed, tmp_path / "m") == 2
    assert "trains in one process" in capsys.readouterr().err


@pytest.fixture
def calibrated(tmp_path, monkeypatch):
    """An index of made-up names, and a store in which thirty are settled that it finds hard."""
    encoder = VocabularyEncoder()
    monkeypatch.setattr("alphita.encoder.encoder.TermEncoder.load", lambda path, **_: encoder)
    monkeypatch.setattr("alphita.machine.set_threads", lambda threads: threads or 1)
    quickly(monkeypatch)
    index = build(synthetic_terminology(), encoder, tmp_path / "x.index")
    ids, names = (index.segment.concepts.column(name).to_pylist() for name in ("id", "name"))
    mentions = [f"{name} seen again" for name in names[:30]]
    rows = [row(one, candidate(ids[0], names[0]), number=n) for n, one in enumerate(mentions, 1)]
    with store_of(tmp_path / "r.sqlite", rows, index.manifest["terminology_hash"]) as store:
        for number in range(1, 31):
            say(store, number, *(("nil",) if number % 10 == 0 else ("choose", ids[number - 1])))
        yield index, tmp_path / "r.sqlite", encoder


def test_a_calibration_takes_labels_from_decisions_and_says_what_it_gained(calibrated, tmp_path, capsys):
    index, store, encoder = calibrated
    assert alphita("calibrate", "--index", index.path, "--from-mappings", store) == 0
    told = capsys.readouterr().out
    report = json.loads((index.path / "calibration.report.json").read_text(encoding="utf-8"))
    assert report["decisions"] == {"learned": 24, "held_out": 6, "left_out": {}}
    before, after = report["held_out"]["before"], report["held_out"]["after"]
    assert before.keys() == {"n", "accuracy"}
    assert after.keys() == {"n", "accuracy", "brier", "log_loss", "confidence"}
    assert before["n"] == after["n"] == 6
    assert f"  after    accuracy {after['accuracy']:.3f}" in told
    assert "on the newest 6 decisions, which were held out" in told
    fitted = Normalizer.load(index.path, encoder=encoder).calibration
    assert fitted is not None
    assert fitted.fields["labels"] == 24


def test_taking_over_a_calibration_and_learning_exclude_each_other(calibrated, capsys):
    index, store, _ = calibrated
    assert alphita("calibrate", "--index", index.path, "--from", index.path, "--from-mappings", store) == 2
    assert "--from-mappings would not be used" in capsys.readouterr().err
