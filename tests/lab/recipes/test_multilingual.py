from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from alphita import artefact
from alphita.encoder.encoder import TermEncoder
from alphita.errors import InputError, UsageError
from alphita.terminology.splits import hold_out_concepts
from alphita.terminology.store import Terminology
from alphita.terminology.text import clean
from alphita_lab.encoder import vocabulary
from alphita_lab.recipes import multilingual
from alphita_lab.training.engine import teachers
from alphita_lab.training.terms.translation_data import PairBatches, Wanted, gather
from tests.tables import terminology_of
from tests.tiny import FINDINGS, SITES, tiny_model

ITALIAN = dict(zip(SITES, ("cuore", "fegato", "rene", "pelle", "cervello", "polmone", "osso", "occhio"), strict=True))
GERMAN = dict(zip(SITES, ("herz", "leber", "niere", "haut", "hirn", "lunge", "knochen", "auge"), strict=True))
FOUND = {"pain": ("dolore", "schmerz"), "swelling": ("gonfiore", "schwellung"), "bleeding": ("emorragia", "blutung")}
SMALL: dict[str, Any] = {
    "batch": 16,
    "steps": 3,
    "precision": "fp32",
    "log_every": 1,
    "dropout": 0.0,
    "learning_rate": 2e-3,
    "checkpoint_every": 10,
}
Rows = list[tuple[str, str, str, bool]]


def rows(*languages: str) -> Rows:
    """24 concepts: a label and a synonym in English, a label in Italian and German."""
    found: Rows = []
    for number, (site, (plain, learned)) in enumerate((site, finding) for site in SITES for finding in FINDINGS):
        italian, german = FOUND[plain]
        found += [
            (f"T:{number}", f"{plain} of the {site}", "en", True),
            (f"T:{number}", f"{site} {learned}", "en", False),
            (f"T:{number}", f"{italian} del {ITALIAN[site]}", "it", True),
            (f"T:{number}", f"{GERMAN[site]}{german}", "de", True),
        ]
    return [row for row in found if row[2] in languages]


@pytest.fixture(scope="module")
def terminology(tmp_path_factory) -> Terminology:
    return terminology_of(rows("en", "it", "de"), tmp_path_factory.mktemp("data") / "tiny.terminology")


@pytest.fixture(scope="module")
def english(tmp_path_factory) -> Terminology:
    return terminology_of(rows("en"), tmp_path_factory.mktemp("data") / "english.terminology")


@pytest.fixture(scope="module")
def student(tmp_path_factory, model: Path) -> Path:
    """The same encoder with tokens of Italian and German."""
    folder = tmp_path_factory.mktemp("student") / "student"
    tokens = [*ITALIAN.values(), *GERMAN.values(), *(f"##{german}" for _, german in FOUND.values())]
    vocabulary.extend(model, [*tokens, *(italian for italian, _ in FOUND.values()), "del"], folder)
    return folder


def found_by(folder: Path | str, queries: list[str], names: list[str]) -> list[str]:
    encoder = TermEncoder.load(folder, precision="fp32", pooling="mean")
    unit = [v / np.linalg.norm(v, axis=1, keepdims=True) for v in (encoder.encode(queries), encoder.encode(names))]
    return [names[place] for place in (unit[0] @ unit[1].T).argmax(1).tolist()]


def say_whether_it_normalizes(folder: Path, normalize: bool) -> None:
    """Give a model's folder the layout of sentence-transformers."""
    kinds = {"": "Transformer", "1_Pooling": "Pooling"} | ({"2_Normalize": "Normalize"} if normalize else {})
    modules = []
    for number, (name, kind) in enumerate(kinds.items()):
        (folder / name).mkdir(exist_ok=True)
        modules.append(
            {"idx": number, "name": str(number), "path": name, "type": f"sentence_transformers.models.{kind}"}
        )
    (folder / "modules.json").write_text(json.dumps(modules))
    pooling = {"word_embedding_dimension": 32, "pooling_mode_mean_tokens": True}
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(pooling))


@pytest.mark.parametrize("normalized", [False, True])
def test_loss_is_the_mean_squared_distance_to_the_teachers_vectors(
    terminology: Terminology, model: Path, tmp_path: Path, monkeypatch, normalized: bool
) -> None:
    """The first logged loss equals a loop in float64: of each pair the source and the translation, of a name itself."""
    teacher = tiny_model(tmp_path / "teacher")
    with torch.no_grad():  # another one than the student
        from transformers import BertModel

        other = BertModel.from_pretrained(teacher)
        for parameter in other.parameters():
            parameter.mul_(1.1)
        other.save_pretrained(teacher)
    learner = tmp_path / "learner"
    shutil.copytree(model, learner)
    say_whether_it_normalizes(learner, normalized)
    say_whether_it_normalizes(teacher, False)
    config = multilingual.Config(**SMALL | {"steps": 1, "teacher": str(teacher), "batch": 40})
    figures = multilingual.train(terminology, str(learner), tmp_path / "m", config)

    data = gather(terminology, Wanted("en"))
    assert (len(data.pairs), len(data.names)) == (48, 24)
    batch = PairBatches(data.pairs, 24, batch=40, seed=0).batch(0)
    before, taught = (
        TermEncoder.load(learner, precision="fp32", pooling="mean"),
        TermEncoder.load(teacher, precision="fp32"),
    )
    assert (before.normalize, taught.normalize) == (normalized, False)

    def vector(encoder: TermEncoder, string: str, *, scaled: bool) -> np.ndarray:
        found = encoder.encode([string])[0].astype(np.float64)
        return found / np.linalg.norm(found) if scaled else found

    shown = [(data.pairs.sources[row],) * 2 for row in batch.pairs]
    shown += [(data.pairs.translations[row], data.pairs.sources[row]) for row in batch.pairs]
    shown += [(data.names[place],) * 2 for place in batch.names]
    assert len(batch.pairs) > 10 < len(batch.names) + 10
    squares = [
        (vector(before, string, scaled=normalized) - vector(taught, meant, scaled=normalized)) ** 2
        for string, meant in shown
    ]
    assert figures["loss"] == pytest.approx(np.mean(squares), rel=2e-3)


def test_translations_find_their_names_and_english_stays(
    terminology: Terminology, student: Path, model: Path, tmp_path: Path, capsys
) -> None:
    config = multilingual.Config(**SMALL | {"steps": 250, "teacher": str(model), "batch": 32})
    figures = multilingual.train(terminology, str(student), tmp_path / "m", config)
    data = gather(terminology, Wanted("en"))
    names = sorted({*data.pairs.sources, *data.names})

    def share(folder: Path) -> float:
        return float(
            np.mean(np.array(found_by(folder, data.pairs.translations, names)) == np.array(data.pairs.sources))
        )

    assert share(tmp_path / "m") > max(0.8, share(student) + 0.5)
    target = TermEncoder.load(model, precision="fp32", pooling="mean").encode(names)
    after = TermEncoder.load(tmp_path / "m", precision="fp32").encode(names)
    cosine = (target * after).sum(1) / np.linalg.norm(target, axis=1) / np.linalg.norm(after, axis=1)
    assert cosine.min() > 0.95
    log = [json.loads(line) for line in (tmp_path / "m" / "log.jsonl").read_text().splitlines()]
    assert figures["loss"] < 0.2 * log[0]["loss"]
    told = capsys.readouterr().err
    assert "pairs: 48 (24 de, 24 it)" in told
    assert "names without translation: 24" in told
    manifest = artefact.verify(tmp_path / "m", "model")
    assert manifest["pairs"] == {"de": 24, "it": 24}
    assert (manifest["names"], manifest["pairs_left_out"]) == (24, {})
    assert manifest["teacher"] == TermEncoder.load(model).content_hash


def test_steps_follow_from_epochs(terminology: Terminology, model: Path, tmp_path: Path, capsys) -> None:
    config = multilingual.Config(**SMALL | {"steps": 0, "epochs": 1.5, "batch": 20, "accumulation": 2})
    multilingual.train(terminology, str(model), tmp_path / "m", config)
    assert "an epoch is 1.8 steps; training takes 3" in capsys.readouterr().err  # 72 rows
    lines = [json.loads(line) for line in (tmp_path / "m" / "log.jsonl").read_text().splitlines()]
    assert lines[-1]["step"] == 3


def test_what_a_split_holds_out_is_seen_by_neither(
    terminology: Terminology, english: Terminology, model: Path, tmp_path: Path, monkeypatch
) -> None:
    """Whole concepts, whose other names an edition and a file give."""
    seen: set[str] = set()
    tokenize = TermEncoder.tokenize
    monkeypatch.setattr(TermEncoder, "tokenize", lambda self, strings: seen.update(strings) or tokenize(self, strings))
    encode = TermEncoder.encode
    monkeypatch.setattr(TermEncoder, "encode", lambda self, strings: seen.update(strings) or encode(self, strings))
    split = hold_out_concepts(english, fraction=0.4, seed=1)
    ids = set(split.concept_ids)
    assert 4 < len(ids) < 20
    held = {clean(string) for concept, string, _, _ in rows("en", "it", "de") if concept in ids}
    file = tmp_path / "pairs.tsv"
    some = next(iter(sorted(ids)))
    file.write_text(
        f"source\ttranslation\tlanguage\tconcept\nodd name\tstrano nome\tit\t{some}\nodd one\tstrano\tit\t\n"
        f"{split.strings[0]}\tqualcosa\tit\t\n",
        encoding="utf-8",
    )
    config = multilingual.Config(**SMALL, pairs=str(file), editions=str(terminology.path))
    multilingual.train(english, str(model), tmp_path / "m", config, split=split)
    assert len(held) == 4 * len(ids)
    assert not seen & held
    assert {"odd one", "strano"} <= seen
    assert not seen & {"odd name", "strano nome", "qualcosa"}
    manifest = artefact.open_manifest(tmp_path / "m", "model")
    assert manifest["pairs_left_out"]["held out"] == 2 + 2 * len(ids)
    assert set(manifest["pairs_of"]) == {str(file), str(terminology.path)}


def test_pairs_come_from_files_alone_and_bad_rows_are_set_aside(
    english: Terminology, model: Path, tmp_path: Path, capsys
) -> None:
    file = tmp_path / "pairs.jsonl"
    given = [
        ("pain of the heart", "dolore del cuore", "it"),
        ("pain of the skin", "pain of the skin", "it"),
        ("pain of the eye", "боль в глазу", "it"),
        ("pain of the bone", "knochenschmerz", "de"),
    ]
    keys = ("source", "translation", "language")
    file.write_text("".join(json.dumps(dict(zip(keys, row, strict=True))) + "\n" for row in given), encoding="utf-8")
    config = multilingual.Config(**SMALL, pairs=str(file))
    multilingual.train(english, str(model), tmp_path / "m", config)
    told = capsys.readouterr().err
    assert "pairs: 2 (1 de, 1 it)" in told
    assert "no concept has both a name" in told
    manifest = artefact.open_manifest(tmp_path / "m", "model")
    assert (manifest["bad_rows"], manifest["pairs"]) == (2, {"de": 1, "it": 1})
    rejected = (tmp_path / "m.rejects.csv").read_text(encoding="utf-8")
    assert "translation equal to its source" in rejected
    assert "script" in rejected

    only = config.model_copy(update={"languages": "it:2"})
    multilingual.train(english, str(model), tmp_path / "it", only)
    assert artefact.open_manifest(tmp_path / "it", "model")["pairs"] == {"it": 1}
    with pytest.raises(InputError, match=r"no translation is in this language.*'fr'.*choose from de, it"):
        multilingual.train(english, str(model), tmp_path / "fr", config.model_copy(update={"languages": "it,de,fr"}))


def test_a_teacher_that_cannot_teach_is_refused(
    terminology: Terminology, model: Path, student: Path, tmp_path: Path
) -> None:
    def run(encoder: Path, teacher: str) -> None:
        multilingual.train(terminology, str(encoder), tmp_path / "m", multilingual.Config(**SMALL, teacher=teacher))

    with pytest.raises(UsageError, match=r"no such encoder.*nowhere"):
        run(model, "nowhere")
    with pytest.raises(UsageError, match=r"cannot teach itself.*--set teacher=MODEL"):
        run(student, "")
    with pytest.raises(InputError, match="48 numbers and the student's 32"):
        run(model, str(tiny_model(tmp_path / "wide", dim=48)))
    assert not list(tmp_path.glob("m*"))


def test_a_run_that_was_cut_while_the_teacher_worked_goes_on_there(
    terminology: Terminology, model: Path, tmp_path: Path, monkeypatch
) -> None:
    monkeypatch.setattr(teachers, "AT_ONCE", 10)
    config = multilingual.Config(**SMALL)
    multilingual.train(terminology, str(model), tmp_path / "whole", config)
    encode, blocks = TermEncoder.encode, []

    def cut(self: TermEncoder, strings: list[str]) -> np.ndarray:
        blocks.append(len(strings))
        if len(blocks) == 3:
            raise KeyboardInterrupt
        return encode(self, strings)

    monkeypatch.setattr(TermEncoder, "encode", cut)
    with pytest.raises(KeyboardInterrupt):
        multilingual.train(terminology, str(model), tmp_path / "cut", config)
    assert blocks == [10, 10, 10]
    multilingual.train(terminology, str(model), tmp_path / "cut", config, resume=True)
    assert blocks == [10, 10, 10, 10, 10, 8]
    assert artefact.hash_file(tmp_path / "whole" / "model.safetensors") == artefact.hash_file(
        tmp_path / "cut" / "model.safetensors"
    )


def test_languages_are_drawn_by_weight(terminology: Terminology, model: Path, tmp_path: Path, monkeypatch) -> None:
    asked: list[dict[str, Any]] = []
    draw = PairBatches.__init__

    def noted(self: PairBatches, *arguments: Any, **settings: Any) -> None:
        asked.append(settings)
        draw(self, *arguments, **settings)

    monkeypatch.setattr(PairBatches, "__init__", noted)
    config = multilingual.Config(**SMALL, languages="it:3,de", temperature=2.0)
    multilingual.train(terminology, str(model), tmp_path / "m", config)
    assert asked[0]["weights"] == {"it": 3.0, "de": 1.0}
    assert (asked[0]["temperature"], asked[0]["batch"]) == (2.0, 16)
