"""Speed on one GPU, or tried on a processor: training steps, encoding, and the search of many vectors.

    python runs/gpu/speed.py -o OUT.json [--seconds 60] [--rows 512,2048] [--vectors 15000000] [--device auto]

train    MiniLM and a BERT-base of random weights: steps of 256 and more rows of HPO's names (multi-similarity, AdamW,
         bf16 as `alphita train` has it), each size for --seconds. Rows/s, and the share of the card's bf16 peak: a step
         takes 6 operations for each weight of the layers and token, and 12 for each layer, width and token of the
         attention. The peak is the maker's figure for the card's name, else what a large product of matrices reaches.
encode   MiniLM and BERT-base, HPO's names again and again for --seconds: terms/s.
search   --vectors made-up vectors of 384 numbers in half precision on the device, all compared with 512 queries at
         once: mentions/s, 16 candidates each. As all are compared, nothing is missed; 64 queries are checked against
         products in single precision.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from alphita import machine
from alphita.encoder.encoder import TermEncoder
from alphita.encoder.resolve import resolve
from alphita.errors import Rejects
from alphita.terminology import detect, store
from alphita.terminology.loaders import obo
from alphita.terminology.text import clean_many
from alphita_lab.objectives.multi_similarity import term_term
from alphita_lab.training.engine.forward import TermForward

# bf16 operations a second without sparsity, as the maker says.
PEAKS = {"H200": 989e12, "H100": 989e12, "A100": 312e12, "L40S": 362e12, "L4": 121e12, "A10": 125e12, "T4": 65e12}
DIM, DEPTH, QUERIES, AT_ONCE, BLOCK, CHECKED = 384, 16, 4096, 512, 1_000_000, 64
WARM = 3


def names() -> tuple[list[str], np.ndarray[Any, Any]]:
    """Return HPO's cleaned names and the concept of each, concept by concept."""
    with tempfile.TemporaryDirectory() as folder, Rejects() as rejects:
        path = Path(folder) / "hpo.terminology"
        store.save(obo.load([detect.find_packaged("hpo")], obo.Options(), rejects), path)
        terminology = store.load_terminology(path)
        rows, offsets = terminology.training_terms()
        strings = clean_many(terminology.terms["string"].take(rows).to_pylist())
    return strings, np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))


def bert_base(folder: Path) -> Path:
    """Write a BERT-base of random weights, with MiniLM's word pieces, which are BERT's."""
    from transformers import BertConfig, BertModel

    BertModel(BertConfig(vocab_size=30_522)).save_pretrained(folder)
    tokenizer = resolve("minilm") / "tokenizer.json"
    (folder / "tokenizer.json").write_bytes(tokenizer.read_bytes())
    return folder


def waited(device: torch.device) -> float:
    """Return the time, when the device has done what it was told."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()


def repeated(work: Callable[[], int], device: torch.device, seconds: float) -> float:
    """Return how much a second is done by work that returns how much it did, after some that is not counted."""
    for _ in range(WARM):
        work()
    start, done = waited(device), 0
    while (spent := waited(device) - start) < seconds or not done:
        done += work()
    return done / spent


def peak(device: torch.device) -> dict[str, Any]:
    """Return the device's bf16 operations a second, and where the figure is from."""
    if device.type == "cuda":
        name = torch.cuda.get_device_name(device)
        for known, operations in PEAKS.items():
            if known in name:
                return {"operations/s": operations, "from": f"maker's figure for {known}", "device": name}
    size = 8192 if device.type == "cuda" else 1024
    matrix = torch.randn(size, size, device=device).bfloat16()

    def multiply() -> int:
        matrix @ matrix
        return 2 * size**3

    return {
        "operations/s": repeated(multiply, device, 2.0),
        "from": f"a product of {size} x {size}",
        "device": str(device),
    }


def training(
    encoder: TermEncoder, strings: list[str], concepts: np.ndarray[Any, Any], rows: int, seconds: float
) -> dict[str, float]:
    """Return rows/s and operations/s of training steps on batches of names that lie side by side."""
    forward = TermForward(encoder)
    forward.module.train()
    optimizer = torch.optim.AdamW(forward.module.parameters(), lr=2e-5, fused=True)
    tokens = encoder.tokenize(strings)
    config: Any = forward.module.model.config
    in_layers = sum(each.numel() for name, each in forward.module.model.named_parameters() if "embedding" not in name)
    random = np.random.default_rng(0)
    operations = 0.0

    def step() -> int:
        nonlocal operations
        start = int(random.integers(0, max(1, len(tokens) - rows)))
        part = slice(start, start + rows)
        vectors = forward(tokens[part])
        loss = term_term(
            vectors, torch.from_numpy(concepts[part]).to(forward.device), alpha=2.0, beta=50.0, lam=0.5, eps=0.1
        )
        loss.backward()
        torch.nn.utils.clip_grad_norm_(forward.module.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        lengths = np.array([len(one) for one in tokens[part]], np.float64)
        attention = 12 * config.num_hidden_layers * config.hidden_size * (lengths**2).sum()
        operations += 6 * in_layers * lengths.sum() + attention
        return len(lengths)

    for _ in range(WARM):
        step()
    operations = 0.0
    start, done = waited(forward.device), 0
    while (spent := waited(forward.device) - start) < seconds or not done:
        done += step()
    return {"rows": rows, "rows/s": done / spent, "operations/s": float(operations / spent)}


def made_up(count: int, device: torch.device, number: torch.dtype) -> Iterator[torch.Tensor]:
    """Yield blocks of unit vectors: groups of near ones, most of the variance in few directions."""
    generator = torch.Generator(device).manual_seed(0)
    scale = (1 + torch.arange(DIM, device=device)) ** -0.25
    for start in range(0, count, BLOCK):
        size = min(BLOCK, count - start)
        middles = torch.randn(size // 16 + 1, DIM, generator=generator, device=device) * scale
        own = torch.randn(size, DIM, generator=generator, device=device) * scale
        made = middles.repeat_interleave(16, 0)[:size] + 0.6 * own
        yield torch.nn.functional.normalize(made, dim=1).to(number)


def search(count: int, device: torch.device, seconds: float) -> dict[str, Any]:
    """Return mentions/s of comparing all, and how often the nearest in half precision is the nearest in single."""
    # Processors multiply no half precision.
    number = torch.float16 if device.type == "cuda" else torch.float32
    blocks = list(made_up(count, device, number))
    drawn = torch.randint(0, len(blocks[0]), (QUERIES,), device=device)
    noise = torch.randn(QUERIES, DIM, device=device) * 0.03
    queries = torch.nn.functional.normalize(blocks[0][drawn].float() + noise, dim=1)

    def nearest(asked: torch.Tensor, *, single: bool) -> torch.Tensor:
        best = best_rows = None
        for number, block in enumerate(blocks):
            products = asked @ (block.float() if single else block).T
            found = products.topk(min(DEPTH, len(block)), dim=1)
            values, rows = found.values.float(), found.indices + number * BLOCK
            if best is not None and best_rows is not None:
                values, rows = torch.cat([best, values], 1), torch.cat([best_rows, rows], 1)
                values, place = values.topk(DEPTH, dim=1)
                rows = rows.gather(1, place)
            best, best_rows = values, rows
        assert best_rows is not None
        return best_rows

    short = queries.to(number)

    def ask() -> int:
        start = int(torch.randint(0, QUERIES - AT_ONCE + 1, ()))
        nearest(short[start : start + AT_ONCE], single=False)
        return AT_ONCE

    rate = repeated(ask, device, seconds)
    same = nearest(short[:CHECKED], single=False)[:, 0] == nearest(queries[:CHECKED], single=True)[:, 0]
    return {"vectors": count, "mentions/s": rate, "nearest_as_in_single": float(same.float().mean())}


def main(argv: Sequence[str] | None = None) -> None:
    """Measure and write; `argv`: of the command line, which is the default."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", "-o", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=30.0, help="of each measurement")
    parser.add_argument("--rows", default="256,2048", help="a step, with commas between")
    parser.add_argument("--vectors", type=int, default=15_000_000)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--models", default="minilm,bert-base")
    given = parser.parse_args(argv)
    chosen = "cuda" if torch.cuda.is_available() else "cpu"
    device = torch.device(chosen if given.device == "auto" else given.device)
    most = peak(device)
    figures: dict[str, Any] = {"peak": most, "train": {}, "encode": {}}
    strings, concepts = names()
    with tempfile.TemporaryDirectory() as folder:
        for model in given.models.split(","):
            path = str(bert_base(Path(folder) / model)) if model == "bert-base" else model
            encoder = TermEncoder.load(path, precision="fp32", device=device.type)
            figures["train"][model] = []
            for rows in map(int, given.rows.split(",")):
                found = training(encoder, strings, concepts, rows, given.seconds)
                found["share_of_peak"] = found["operations/s"] / most["operations/s"]
                figures["train"][model].append(found)
                print(model, found, flush=True)
            quick = TermEncoder.load(path, device=device.type)

            def encode(quick: TermEncoder = quick) -> int:
                quick.encode(strings[: 512 * WARM])
                return 512 * WARM

            figures["encode"][model] = {
                "terms/s": repeated(encode, device, given.seconds),
                "precision": quick.precision,
            }
            print(model, figures["encode"][model], flush=True)
    figures["search"] = search(given.vectors, device, given.seconds)
    print(figures["search"], flush=True)
    figures |= {"machine": machine.describe(), "torch": torch.__version__}
    figures |= {"command": ["runs/gpu/speed.py", *sys.argv[1:]]}
    given.output.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
