"""`alphita vocabulary`, with a tiny model and a terminology in three languages."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from alphita import TermEncoder, artefact
from alphita.terminology import store
from alphita.terminology.splits import Split, hold_out_synonyms
from alphita_lab.encoder.wordpieces import open_wordpiece
from tests.cli.command import alphita
from tests.tables import terminology_of
from tests.tiny import SITES, tiny_model

ITALIAN = ("cuore", "fegato", "rene", "pelle", "cervello", "polmone", "osso", "occhio")
GERMAN = ("herz", "leber", "niere", "haut", "gehirn", "lunge", "knochen", "auge")


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Path:
    return tiny_model(tmp_path_factory.mktemp("vocabulary") / "model")


@pytest.fixture(scope="module")
def terminology(tmp_path_factory) -> Path:
    rows = []
    for number, (english, italian, german) in enumerate(zip(SITES, ITALIAN, GERMAN, strict=True)):
        rows += [
            (f"T:{number}", f"disorder of the {english}", "en"),
            (f"T:{number}", f"{english} pain", "en"),
            (f"T:{number}", f"malattia del {italian}", "it"),
            (f"T:{number}", f"dolore del {italian}", "it-CH"),
            (f"T:{number}", f"{german}krankheit", "de"),
            (f"T:{number}", "odd", "it"),
        ]
    return terminology_of(rows, tmp_path_factory.mktemp("vocabulary") / "t.terminology").path


def tokens(folder: Path, text: str) -> list[str]:
    return open_wordpiece(folder).encode(text, add_special_tokens=False).tokens


def test_tokens_are_learnt_from_files(model, tmp_path, capsys):
    first, second = tmp_path / "a.txt", tmp_path / "b.txt"
    first.write_text("polmonite acuta\n\npolmonite cronica\n", encoding="utf-8")
    second.write_bytes("La polmonite è acuta\n".encode("latin-1") + "È acuta\n".encode())  # the first is no UTF-8
    out = tmp_path / "out"
    assert alphita("vocabulary", "extend", "--encoder", model, "--corpus", first, "--corpus", second, "-o", out) == 0
    printed, said = capsys.readouterr()
    assert "next: alphita train RECIPE" in said
    assert "1 line left out; see" in said
    assert "b.txt,1,,,no UTF-8" in (tmp_path / "out.rejects.csv").read_text()
    lines = printed.splitlines()
    before = len(open_wordpiece(model).get_vocab())
    manifest = artefact.verify(out, "model")
    assert lines[0] == (
        f"{out}: {before} tokens and {manifest['added']} new ones, {manifest['composed']} of them composed of old ones "
        f"and {manifest['added'] - manifest['composed']} by chance"
    )
    assert [line.split()[:2] for line in lines[2:]] == [["a.txt", "2"], ["b.txt", "1"]]
    assert tokens(out, "Polmonite acuta") == ["polmonite", "acuta"]
    assert manifest["corpus"] == {str(file): artefact.hash_file(file) for file in (first, second)}
    assert manifest["terminology"] is None
    figures = manifest["texts"][0]
    assert (figures["texts"], figures["words"]) == (2, 4)
    assert figures["tokens_a_word"] == [(9 + 5 + 9 + 7) / 4, pytest.approx(figures["tokens_a_text"][1] / 2)]
    assert figures["tokens_a_word"][1] < 3
    assert np.isfinite(TermEncoder.load(out).encode(["polmonite acuta"])).all()


def test_names_of_the_languages_asked_for(model, terminology, tmp_path, capsys):
    out = tmp_path / "out"
    asked = ("--terminology", terminology, "--languages", "it, ger", "--protect-languages", "en", "--seed", 3)
    assert alphita("vocabulary", "extend", "--encoder", model, *asked, "-o", out) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:2] for line in lines[2:]] == [["it", "24"], ["de", "8"], ["en", "16"]]
    assert lines[2].split()[-1] != "0.0%"
    assert lines[4].split()[-1] == "0.0%"
    assert tokens(out, "Malattia del") == ["malattia", "del"]
    assert tokens(out, "Herzkrankheit")[-1].endswith("krankheit")
    english = [f"{site} pain" for site in SITES]
    old, new = TermEncoder.load(model, precision="fp32"), TermEncoder.load(out, precision="fp32")
    assert (old.encode(english) == new.encode(english)).all()
    manifest = artefact.open_manifest(out, "model")
    assert manifest["terminology"] == store.load_terminology(terminology).content_hash
    assert (manifest["languages"], manifest["protected_languages"], manifest["seed"]) == (["it", "de"], ["en"], 3)
    assert manifest["extended_from"] == old.content_hash


def test_a_file_protects_words_and_a_split_hides_names(model, terminology, tmp_path, capsys):
    opened = store.load_terminology(terminology)
    split = tmp_path / "s.split"
    hold_out_synonyms(opened, fraction=0.5, seed=0).save(split)
    held_out = {string for string in Split.load(split).cleaned if string.startswith("malattia")}
    (tmp_path / "p.txt").write_text("del dell\n")
    out = tmp_path / "out"
    extra = ("--protect", tmp_path / "p.txt", "--split", split)
    assert alphita("vocabulary", "extend", "--encoder", model, "-t", terminology, *extra, "-o", out) == 0
    shown = {line.split()[0]: line.split()[1] for line in capsys.readouterr().out.splitlines()[2:]}
    names = opened.training_terms(exclude=Split.load(split).cleaned)[0]
    assert sum(int(shown[tag]) for tag in ("de", "en", "it", "it-CH")) == len(names)
    assert held_out
    assert len(names) < 48
    manifest = artefact.open_manifest(out, "model")
    assert manifest["split"] == Split.load(split).hash
    with_all = tmp_path / "with_all"
    assert alphita("vocabulary", "extend", "--encoder", model, "-t", terminology, "-o", with_all) == 0
    assert artefact.open_manifest(with_all, "model")["words_hash"] != manifest["words_hash"]
    assert tokens(out, "del dell") == tokens(model, "del dell")


def test_held_out_strings_of_files_are_not_learnt(model, terminology, tmp_path):
    (tmp_path / "c.txt").write_text("zygomatic zyxofibroma of the eye\n" * 30)
    Split(["zygomatic zyxofibroma"], ["T:0"], ["test"]).save(tmp_path / "s.split")
    words = ("vocabulary", "extend", "--encoder", model, "--corpus", tmp_path / "c.txt", "-t", terminology)
    assert alphita(*words, "--size", 400, "-o", tmp_path / "all") == 0
    assert tokens(tmp_path / "all", "zyxofibroma") == ["zyxofibroma"]
    assert alphita(*words, "--size", 400, "--split", tmp_path / "s.split", "-o", tmp_path / "some") == 0
    assert tokens(tmp_path / "some", "zyxofibroma") == tokens(model, "zyxofibroma")


def test_the_same_twice_and_fewer_tokens(model, terminology, tmp_path):
    common = ("vocabulary", "extend", "--encoder", model, "--terminology", terminology, "--min-frequency", 1)
    for name in ("a", "b"):
        assert alphita(*common, "-o", tmp_path / name) == 0
    assert alphita(*common, "--keep", 7, "-o", tmp_path / "c") == 0
    a, b, c = (artefact.open_manifest(tmp_path / name, "model") for name in "abc")
    assert a["content_hash"] == b["content_hash"]
    assert a["words_hash"] == c["words_hash"]
    assert a["added"] > c["added"] == 7


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--terminology", "T", "--languages", "it,xx"], "'xx': unknown language"),
        (["--corpus", "A", "--size", "2"], "size 2 is below the"),
    ],
)
def test_wrong_use_leaves_with_2(model, terminology, tmp_path, capsys, arguments, problem):
    (tmp_path / "a.txt").write_text("polmonite acuta\n" * 2)
    paths = {"A": tmp_path / "a.txt", "T": terminology}
    words = [paths.get(word, word) for word in arguments]
    assert alphita("vocabulary", "extend", "--encoder", model, *words, "-o", tmp_path / "out") == 2
    assert problem in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
