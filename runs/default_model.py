"""A model that comes with Alphita, of an encoder or the mean of several: int8 alone, and what was trained in fp16 too.

    python runs/default_model.py models/alphita-en-fp16 -o alphita-en
    python runs/default_model.py TRAINED [TRAINED ...] -o alphita-en --facts FACTS.json
        [--base minilm --share 0.2] [--terminology X.terminology --split X.split]

The weights are the mean of those given, then mixed with a share of the base that they were trained from (Wortsman et
al., ICML 2022 and CVPR 2022). The first folder runs without torch; OUTPUT-fp16 is written too, in files under 48 MB,
which SentenceTransformer opens and training starts from. FACTS.json says what the manifests keep of data, recipe and
machine; both folders note which strings of the terminology were learned: not those of the split, nor the tenth that is
held back where all were trained so. Without these files what the first model given says of itself is kept. The
calibration is made by runs/shipped_models.sh.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch

from alphita import artefact
from alphita.encoder import layout
from alphita.encoder.encoder import TermEncoder
from alphita.encoder.resolve import KIND, resolve
from alphita.index import encoding
from alphita.index.learning import held_back_of
from alphita.terminology.splits import Split
from alphita.terminology.store import load_terminology
from alphita.terminology.text import clean_many
from alphita_lab.training.engine.soup import copy_of, mix_in

# What opens a model in int8 alone; the rest of a saved folder is for torch and its libraries.
FILES = ("config.json", *layout.TOKENIZER_FILES, "tokenizer.json", layout.ONNX_FILES["int8"])
SHARD = "48MB"
FULL = "-fp16"
FACTS = ("made_from", "recipe", "settings", "steps", "rows", "share_of_the_base", "machine", "figures", "terminology")


def average(trained: list[str], base: str | None = None, share: float = 0.0) -> TermEncoder:
    """Return an encoder whose weights are the mean of the trained ones', `share` of the base's mixed in."""
    encoder = _load(trained[0])
    for number, name in enumerate(trained[1:], 2):
        mix_in(encoder.module.model, copy_of(_load(name).module.model), 1 / number)
    if base is not None:
        mix_in(encoder.module.model, copy_of(_load(base).module.model), share)
    # What half precision holds: both folders are then of the same weights.
    encoder.module.model.half().float()
    return encoder


def held_back(name: str) -> bool:
    """Tell whether a model's training held back the tenth of the strings that `learning.is_held_back` chooses."""
    return bool((encoding.read(resolve(name)) or {}).get("held_back"))


def told_of(name: str) -> dict[str, Any]:
    """Return what a model's manifest says of its making."""
    manifest = resolve(name) / artefact.MANIFEST
    told = json.loads(manifest.read_text(encoding="utf-8")) if manifest.is_file() else {}
    return {field: told[field] for field in FACTS if field in told}


def _load(name: str) -> TermEncoder:
    return TermEncoder.load(name, precision="fp32", device="cpu")


def write(
    encoder: TermEncoder, out: Path, facts: dict[str, Any], strings: Iterable[str] | Path, *, force: bool = False
) -> None:
    """Write a model's folders."""
    full = out.with_name(out.name + FULL)
    with tempfile.TemporaryDirectory() as folder:
        whole = Path(folder)
        encoder.save(whole, onnx=True)
        with artefact.create(out, KIND, force=force) as draft:
            for name in FILES:
                if (whole / name).is_file():
                    (draft.path / name).parent.mkdir(exist_ok=True)
                    shutil.copyfile(whole / name, draft.path / name)
            notes = {note: layout.noted(whole, note) for note in ("weights_hash", "tokenizer_hash")}
            layout.write(draft.path, encoder.settings, encoder.dim, **notes, full_precision=full.name)
            _note(strings, draft.path)
            draft.fields.update({**facts, "precision": "int8"})
        with artefact.create(full, KIND, force=force) as draft:
            _write_half(whole, draft.path)
            _note(strings, draft.path)
            draft.fields.update({**facts, "precision": "fp16"})


def _note(strings: Iterable[str] | Path, folder: Path) -> None:
    if isinstance(strings, Path):
        layout.copy_learned(strings, folder)
    else:
        layout.write_learned(folder, strings)


def _write_half(whole: Path, out: Path) -> None:
    """Copy a saved model folder, its weights in half precision and in parts."""
    from transformers import AutoModel

    shutil.copytree(whole, out, dirs_exist_ok=True, ignore=shutil.ignore_patterns("onnx", "*.safetensors"))
    model = AutoModel.from_pretrained(whole, add_pooling_layer=False)
    model.to(torch.float16).save_pretrained(out, max_shard_size=SHARD)
    for file in out.rglob("*"):
        file.chmod(0o755 if file.is_dir() else 0o644)


def main(words: list[str] | None = None) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trained", nargs="+", help="folders of trained models")
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--facts", type=Path, help="JSON file: what the manifests say of its making")
    parser.add_argument("--base", help="the encoder that they were trained from")
    parser.add_argument("--share", type=float, default=0.0, help="of the base's weights")
    parser.add_argument("--terminology", type=Path, help="what they learned")
    parser.add_argument("--split", type=Path, help="what of it they did not learn")
    parser.add_argument("--force", action="store_true", help="move existing folders aside")
    given = parser.parse_args(words)
    strings: Iterable[str] | Path = resolve(given.trained[0])
    if given.terminology:
        terminology = load_terminology(given.terminology)
        known = set(clean_many(terminology.terms["string"].to_pylist()))
        known -= Split.load(given.split).cleaned if given.split else frozenset()
        if all(held_back(name) for name in given.trained):
            known -= held_back_of(terminology)
        strings = known
    facts = json.loads(given.facts.read_text(encoding="utf-8")) if given.facts else told_of(given.trained[0])
    write(average(given.trained, given.base, given.share), given.output, facts, strings, force=given.force)


if __name__ == "__main__":
    main()
