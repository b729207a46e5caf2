from __future__ import annotations

import itertools
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from alphita import artefact
from alphita.encoder.encoder import TermEncoder
from alphita.errors import AlphitaError, InputError, UsageError
from alphita.terminology.splits import hold_out_synonyms
from alphita.terminology.store import Terminology
from alphita.terminology.text import clean
from alphita_lab.encoder import wordpieces
from alphita_lab.encoder.wordpieces import open_wordpiece
from alphita_lab.recipes import ext_bert
from alphita_lab.training.mentions.injection import inject
from alphita_lab.training.text import masked_steps, sequences
from alphita_lab.training.text.masked_language import NAME
from alphita_lab.training.text.masked_steps import MaskedSteps
from tests.killing import cut_at
from tests.tiny import FINDINGS, SITES

SMALL: dict[str, Any] = {
    "vocabulary": 120,
    "batch": 8,
    "max_length": 24,
    "steps": 12,
    "learning_rate": 2e-3,
    "precision": "fp32",
    "warmup_steps": 2,
    "log_every": 1,
    "checkpoint_every": 3,
    "dev_share": 0.1,
}
ITALIAN = ("cuore", "fegato", "rene", "pelle", "cervello", "polmone", "osso", "occhio")
FOUND = ("dolore", "gonfiore", "emorragia")


@pytest.fixture(scope="module")
def corpus(tmp_path_factory) -> Path:
    """Sentences in Italian, and a name of the terminology now and then."""
    lines = []
    for number, (site, found) in enumerate(list(itertools.product(ITALIAN, FOUND)) * 4):
        lines.append(f"il paziente riferisce {found} del {site} da giorni {number % 7}")
        if number % 6 == 0:
            plain, learned = FINDINGS[number // 6 % 3]
            english = SITES[number // 6 % 8]
            lines.append(f"in inglese {english} {learned} oppure {plain} of the {english}")
    file = tmp_path_factory.mktemp("corpus") / "notes.txt"
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return file


def config(corpus: Path, **changes: Any) -> ext_bert.Config:
    return ext_bert.Config(**SMALL | {"corpus": str(corpus)} | changes)


def same_weights(one: Path, other: Path) -> None:
    files = sorted(one.glob("*.safetensors"))
    assert [file.name for file in files] == [f"{NAME}.safetensors", "model.safetensors"]
    for file in files:
        assert artefact.hash_file(file) == artefact.hash_file(other / file.name), file.name


def test_vocabulary_and_text_are_learnt(terminology: Terminology, model: Path, corpus: Path, tmp_path: Path) -> None:
    out = tmp_path / "m"
    settings = config(corpus, steps=150, dropout=0.0)
    figures = ext_bert.train(terminology, str(model), out, settings)
    assert figures["dev_perplexity"] == pytest.approx(np.exp(-figures["dev_log_probability"]))
    assert figures["dev_log_probability"] > figures["dev_log_probability_before"] + 1.0
    assert figures["dev_accuracy"] > 0.3
    manifest = artefact.verify(out, "model")
    assert manifest["corpus"] == {str(corpus): artefact.hash_file(corpus)}
    assert manifest["sequences"]["documents"] == len(corpus.read_text().splitlines())
    # What became of the vocabulary.
    report = manifest["phases"]["extended"]
    old, new = open_wordpiece(model).get_vocab(), open_wordpiece(out).get_vocab()
    assert {"paziente", "riferisce"} <= set(new) - set(old)
    assert {token: new[token] for token in old} == old
    assert report["added"] == len([token for token in new if token not in old])
    assert 0 < report["in_common"] < 1
    assert report["trained"] == 120
    # The tiny vocabulary has all letters, and no digit.
    spelt = [token for token in set(new) - set(old) if not any(map(str.isdigit, token))]
    assert report["composed"] == pytest.approx(len(spelt) / report["added"])
    assert report["composed"] < 1
    assert report["corpus_tokens_a_word_after"] < report["corpus_tokens_a_word_before"] / 2
    assert report["names_tokens_a_word_after"] <= report["names_tokens_a_word_before"] < 1.1
    examples = artefact.open_manifest(tmp_path / "m.phases" / "extended", "model")["examples"]
    assert examples[0][0] in ("paziente", "riferisce")
    assert "".join(piece.removeprefix("##") for piece in examples[0][1]) == examples[0][0]
    assert len(examples[0][2]) < len(examples[0][1])
    # New tokens began as the mean of those that spell them.
    start = load_file(tmp_path / "m.phases" / "extended" / "model.safetensors")["embeddings.word_embeddings.weight"]
    pieces = [old["p"], *(old[f"##{letter}"] for letter in "aziente")]
    torch.testing.assert_close(start[new["paziente"]], start[pieces].mean(0))
    # Nothing of the work is left, nor of the text.
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m", "m.phases"]
    assert [path.name for path in (tmp_path / "m.phases").iterdir()] == ["extended"]


def test_what_is_held_out_is_neither_counted_nor_read(
    terminology: Terminology, model: Path, corpus: Path, tmp_path: Path, monkeypatch
) -> None:
    split = hold_out_synonyms(terminology, fraction=0.5, seed=1)
    counted: list[str] = []
    read: list[str] = []
    count_words, open_sequences = wordpieces.count_words, sequences.read

    def counting(texts: Any, like: Any) -> Any:
        listed = list(texts)
        counted.extend(listed)
        return count_words(listed, like)

    def reading(folder: Path) -> Any:
        table, counts = open_sequences(folder)
        tokenizer = wordpieces.open_wordpiece(tmp_path / "m.phases" / "extended")
        for row in range(len(table)):
            tokens = table.rows(np.array([row]))[0].tolist()
            read.append(tokenizer.decode(tokens, skip_special_tokens=False).replace(" ##", ""))
        return table, counts

    monkeypatch.setattr(wordpieces, "count_words", counting)
    monkeypatch.setattr(sequences, "read", reading)
    ext_bert.train(terminology, str(model), tmp_path / "m", config(corpus, steps=2), split=split)
    lines = [clean(line) for line in corpus.read_text().splitlines()]
    hidden = [string for string in split.cleaned if any(string in line for line in lines)]
    assert len(hidden) > 2
    assert len(counted) > 100
    assert "paziente" in " ".join(read)
    for string in hidden:
        assert not any(string in clean(text) for text in counted), string
        assert not any(string in clean(text) for text in read), string
    manifest = artefact.open_manifest(tmp_path / "m", "model")
    with_hidden = sum(any(string in line for string in hidden) for line in lines)
    assert manifest["sequences"]["pieces_with_held_out"] == with_hidden


def test_a_run_that_was_cut_makes_neither_vocabulary_nor_sequences_again(
    terminology: Terminology, model: Path, corpus: Path, tmp_path: Path, monkeypatch
) -> None:
    settings = config(corpus)
    whole = ext_bert.train(terminology, str(model), tmp_path / "whole", settings)
    with cut_at(MaskedSteps, 7):
        ext_bert.train(terminology, str(model), tmp_path / "cut", settings)
    with pytest.raises(InputError, match="another recipe, config"):
        ext_bert.train(terminology, str(model), tmp_path / "cut", config(corpus, vocabulary=110), resume=True)
    # What is there is not made again, though the text was moved.
    monkeypatch.setattr(sequences, "pack", None)
    moved = Path(shutil.copy(corpus, tmp_path / f"moved{corpus.suffix}"))
    figures = ext_bert.train(terminology, str(model), tmp_path / "cut", config(moved, tensorboard=True), resume=True)
    same_weights(tmp_path / "whole", tmp_path / "cut")
    for name, value in whole.items():
        if name not in ("rows_per_second", "steps_per_second", "idle_share"):
            assert figures[name] == value, name
    assert not (tmp_path / "cut.training").exists()


def test_epochs_decide_the_steps_where_none_are_given(
    terminology: Terminology, model: Path, corpus: Path, tmp_path: Path
) -> None:
    ext_bert.train(
        terminology, str(model), tmp_path / "m", config(corpus, steps=0, epochs=2.0, dev_share=0.0, warmup_steps=-1)
    )
    lines = [json.loads(line) for line in (tmp_path / "m" / "log.jsonl").read_text().splitlines()]
    sequences = artefact.open_manifest(tmp_path / "m", "model")["sequences"]["sequences"]
    assert lines[-1]["step"] == int(np.ceil(2 * sequences / 8))
    assert not any("dev" in name for line in lines for name in line)


def test_a_loss_that_is_not_finite_names_sequences_and_no_text(
    terminology: Terminology, model: Path, corpus: Path, tmp_path: Path, monkeypatch
) -> None:
    states = masked_steps.token_states
    calls = iter(range(10_000))
    monkeypatch.setattr(
        masked_steps, "token_states", lambda *given: states(*given) * (float("nan") if next(calls) == 3 else 1.0)
    )
    with pytest.raises(AlphitaError, match=r"no longer finite at step 4 on the terms sequence \d+, ") as caught:
        ext_bert.train(terminology, str(model), tmp_path / "m", config(corpus, dev_share=0.0))
    assert "paziente" not in str(caught.value)
    assert "paziente" not in (tmp_path / "m.training" / "not_finite.txt").read_text()


def test_no_vocabulary_and_any_tokenizer(terminology: Terminology, model: Path, corpus: Path, tmp_path: Path) -> None:
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *SITES, *ITALIAN, *FOUND, "paziente", "il", "del", "of"]
    tokenizer = Tokenizer(models.WordLevel({word: number for number, word in enumerate(words)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    shutil.copytree(model, tmp_path / "words")
    tokenizer.save(str(tmp_path / "words" / "tokenizer.json"))
    with pytest.raises(UsageError, match="of kind WordLevel; only WordPiece"):
        ext_bert.train(terminology, str(tmp_path / "words"), tmp_path / "m", config(corpus))
    assert not (tmp_path / "m").exists()
    figures = ext_bert.train(terminology, str(tmp_path / "words"), tmp_path / "m", config(corpus, vocabulary=0))
    assert figures["dev_log_probability"] > figures["dev_log_probability_before"]
    assert not (tmp_path / "m.phases").exists()
    before, after = (TermEncoder.load(path).tokenizer_hash for path in (tmp_path / "words", tmp_path / "m"))
    assert before == after


def test_a_corpus_that_cannot_be_used_is_a_clear_error(
    terminology: Terminology, model: Path, corpus: Path, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match="corpus=FILE"):
        ext_bert.train(terminology, str(model), tmp_path / "m", ext_bert.Config())
    with pytest.raises(InputError, match="no such file"):
        ext_bert.train(terminology, str(model), tmp_path / "m", config(tmp_path / "none.txt"))
    empty = tmp_path / "empty.txt"
    empty.write_text("\n  \n")
    with pytest.raises(InputError, match="no word to learn from"):
        ext_bert.train(terminology, str(model), tmp_path / "m", config(empty))
    with pytest.raises(InputError, match="no text to train on"):
        ext_bert.train(terminology, str(model), tmp_path / "m", config(empty, vocabulary=0))
    one = tmp_path / "one.txt"
    one.write_text("dolore del cuore\n")
    with pytest.raises(InputError, match="none of them left to train on"):
        ext_bert.train(terminology, str(model), tmp_path / "n", config(one, vocabulary=0))
    assert not [path for path in tmp_path.iterdir() if path.name.startswith("m")]


def test_unreadable_lines_are_set_aside_and_counted(
    terminology: Terminology, model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "notes.jsonl"
    good = [json.dumps({"note": f"dolore del {site}"}) for site in ITALIAN * 4]
    file.write_text("\n".join([*good, "{secret", json.dumps({"text": "secret"})]) + "\n")
    ext_bert.train(terminology, str(model), tmp_path / "m", config(file, text_field="note", steps=2))
    rejects = (tmp_path / "m.rejects.csv").read_text().splitlines()
    assert len(rejects) == 3
    assert "secret" not in "".join(rejects)
    counts = artefact.open_manifest(tmp_path / "m", "model")["sequences"]
    assert (counts["documents"], counts["rejected"]) == (len(good), 2)
    assert "lines that cannot be used: 2" in capsys.readouterr().err


def test_an_encoder_with_entities_is_refused(
    terminology: Terminology, model: Path, corpus: Path, tmp_path: Path
) -> None:
    encoder = TermEncoder.load(model, precision="fp32", device="cpu")
    inject(encoder, torch.randn(5, 4), layer=1, nearest=2)
    encoder.save(tmp_path / "injected")
    with pytest.raises(InputError, match="entities injected; give a plain one"):
        ext_bert.train(terminology, str(tmp_path / "injected"), tmp_path / "m", config(corpus))
    assert not list(tmp_path.glob("m*"))
