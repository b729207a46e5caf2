"""ELECTRA's parts beside the encoder: the generator, and the head that finds replaced tokens (Clark et al., ICLR 2020).

Both read one set of embeddings, which the generator projects to its own width; it is not needed after training (§2).
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch.nn import functional

from alphita.encoder import layout
from alphita.encoder.layout import fill
from alphita.errors import InputError
from alphita_lab.encoder import bert

if TYPE_CHECKING:
    from alphita.encoder.encoder import TermEncoder

GENERATOR, HEAD = "generator", "replaced_head"
"""Names of the two among a run's modules: kept as NAME.safetensors beside the model, and found there again."""
SPREAD = 0.02
"""Standard deviation of new weights."""
# Where ELECTRA's checkpoints keep the head, and our names for its parts.
PUBLISHED = {"discriminator_predictions.dense.": "dense.", "discriminator_predictions.dense_prediction.": "out."}


class Generator(torch.nn.Module):
    """Guesses masked tokens. `Generator.of(discriminator, seed=0)` makes one.

        logits = E norm(gelu(W state + b)) + bias

    E are the token embeddings, which are the discriminator's, as all its embeddings are: they are neither among this
    module's parameters nor saved with it.
    """

    def __init__(self, embeddings: Any, config: Any, *, first: int = 0, seed: int = 0) -> None:  # noqa: ANN401 - transformers'
        from transformers.models.bert.modeling_bert import BertLayer

        super().__init__()
        vocabulary, size = embeddings.word_embeddings.weight.shape
        self.config, self._first = config, first
        # In a tuple it is no part of this module.
        self._embeddings = (embeddings,)
        width = config.hidden_size
        # From the embeddings' length e to the width g of the layers; None where they are equal.
        self.project = torch.nn.Linear(size, width) if size != width else None
        self.layers = torch.nn.ModuleList(BertLayer(config) for _ in range(config.num_hidden_layers))
        self.dense = torch.nn.Linear(width, size)  # W and b, (e, g)
        self.norm = torch.nn.LayerNorm(size, eps=config.layer_norm_eps)
        self.bias = torch.nn.Parameter(torch.zeros(vocabulary))  # (vocabulary,)
        _draw(self, seed)

    @classmethod
    def of(cls, discriminator: Any, *, share: float = 1 / 3, seed: int) -> Generator:  # noqa: ANN401
        """Return a new generator for a discriminator, on the same device and with its dropout."""
        from transformers import BertConfig

        if not bert.runs(discriminator):
            raise InputError(
                "cannot be trained to find replaced tokens",
                value=type(discriminator).__name__,
                remedy="take a BERT, RoBERTa or ELECTRA encoder",
            )
        large, layer = discriminator.config, discriminator.encoder.layer[0]
        heads = max(1, round(share * large.num_attention_heads))
        width = heads * (large.hidden_size // large.num_attention_heads)
        embeddings = discriminator.embeddings
        config = BertConfig(
            vocab_size=len(embeddings.word_embeddings.weight),
            hidden_size=width,
            num_attention_heads=heads,
            intermediate_size=round(large.intermediate_size * width / large.hidden_size),
            num_hidden_layers=large.num_hidden_layers,
            hidden_act=large.hidden_act,
            layer_norm_eps=large.layer_norm_eps,
            hidden_dropout_prob=layer.output.dropout.p,
            attention_probs_dropout_prob=layer.attention.self.dropout.p,
        )
        made = cls(embeddings, config, first=bert.first_position(discriminator), seed=seed)
        return made.to(embeddings.word_embeddings.weight.device)

    def forward(self, packing: bert.Packing, places: torch.Tensor) -> torch.Tensor:
        """Return the logits of some tokens, (p, vocabulary).

        Args:
            places: (p,) where in the packing the tokens stand that are guessed.
        """
        (embeddings,) = self._embeddings
        hidden = bert.embed(embeddings, packing, first=self._first)
        hidden = hidden if self.project is None else self.project(hidden)
        states = bert.through(self.layers, hidden, packing).index_select(0, places)
        guessed = self.norm(functional.gelu(self.dense(states)))
        return functional.linear(guessed, embeddings.word_embeddings.weight, self.bias)


class ReplacedHead(torch.nn.Module):
    """Tells replaced tokens by their last states: logit = v . gelu(W state + b) + c.

    `dense`: W and b, (d, d); `out`: v and c, (1, d).
    """

    def __init__(self, hidden: int, *, seed: int) -> None:
        super().__init__()
        self.dense, self.out = torch.nn.Linear(hidden, hidden), torch.nn.Linear(hidden, 1)
        _draw(self, seed)

    @classmethod
    def of(cls, encoder: TermEncoder, *, seed: int) -> ReplacedHead:
        """Return the head that the encoder's folder holds, or else a new one, on the encoder's device."""
        head = cls(encoder.dim, seed=seed)
        file, saved = _saved(encoder.folder)
        fill(head, saved, file, "head that finds replaced tokens")
        return head.to(next(encoder.module.parameters()).device)

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        """Return the logits (n,) of n states (n, d): above 0 where a token looks replaced."""
        logits: torch.Tensor = self.out(functional.gelu(self.dense(states))).squeeze(-1)
        return logits


def scratch(
    folder: Path,
    tokenizer_json: Path,
    *,
    layers: int,
    hidden: int,
    heads: int,
    intermediate: int,
    positions: int,
    seed: int,
) -> None:
    """Write a new BERT with random weights, which `TermEncoder.load` opens."""
    from tokenizers import Tokenizer
    from transformers import BertConfig, BertModel
    from transformers.utils import logging

    try:
        tokenizer = Tokenizer.from_file(str(tokenizer_json))
    except Exception as error:  # the tokenizers library raises plain exceptions
        raise InputError(f"is not a tokenizer: {error}", file=tokenizer_json) from None
    vocabulary = tokenizer.get_vocab(with_added_tokens=True)
    if not vocabulary:
        raise InputError("the tokenizer has no token", file=tokenizer_json)
    config = BertConfig(
        vocab_size=max(vocabulary.values()) + 1,
        hidden_size=hidden,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        intermediate_size=intermediate,
        max_position_embeddings=positions,
        pad_token_id=vocabulary.get("[PAD]", 0),
        initializer_range=SPREAD,
    )
    model = BertModel(config, add_pooling_layer=False)
    _draw(model, seed)
    folder.mkdir(parents=True, exist_ok=True)
    logging.disable_progress_bar()
    model.save_pretrained(folder)
    shutil.copyfile(tokenizer_json, folder / "tokenizer.json")


def _draw(module: torch.nn.Module, seed: int) -> None:
    """Draw all matrices of a module at random; biases are 0 and norms 1."""
    chance = torch.Generator().manual_seed(seed)
    norms = {id(part.weight) for part in module.modules() if isinstance(part, torch.nn.LayerNorm)}
    with torch.no_grad():
        for parameter in module.parameters():
            if parameter.ndim > 1:
                parameter.copy_(SPREAD * torch.randn(parameter.shape, generator=chance))
            else:
                parameter.fill_(1.0 if id(parameter) in norms else 0.0)


def _saved(folder: Path) -> tuple[Path, dict[str, torch.Tensor]]:
    """Return the file of a folder's head and its tensors under our names; none where there is no head."""
    from safetensors import safe_open
    from safetensors.torch import load_file

    own = folder / f"{HEAD}.safetensors"
    if own.is_file():
        return own, load_file(own)
    transformer, _ = layout.read(folder)
    tensors: dict[str, torch.Tensor] = {}
    for shard in sorted(transformer.glob("model*.safetensors")):
        with safe_open(shard, "pt") as file:
            for name in file.keys():  # noqa: SIM118 - it is no dict
                for published, ours in PUBLISHED.items():
                    if name.startswith(published):
                        tensors[ours + name.removeprefix(published)] = file.get_tensor(name).float()
    return transformer / "model.safetensors", tensors
