"""Masked language modelling for any BERT-like encoder: the head, and what is masked.

Devlin et al., NAACL 2019, §3.1 and appendix A.1: 15% of the tokens are drawn; the head guesses each from its last
state, and the loss is the cross-entropy, averaged over the masked tokens of the batch.

    logits = decoder norm(act(W state + b)) + bias

The decoder is the matrix of input embeddings, shared with the encoder, unless the saved head has one of its own.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch.nn import functional

from alphita.encoder import layout
from alphita.encoder.layout import fill
from alphita.errors import InputError
from alphita_lab.encoder import packed
from alphita_lab.encoder.injected_bert import InjectedBert
from alphita_lab.training.engine.forward import Rows, TermForward
from alphita_lab.training.text.entity_masking import Masking

if TYPE_CHECKING:
    from tokenizers import Tokenizer

    from alphita.encoder.encoder import TermEncoder
    from alphita_lab.training.text.corpus_vocabulary import Specials

NAME = layout.MASKED_LANGUAGE_HEAD
"""Name of the head among a run's modules: it is kept as NAME.safetensors beside the model, and found there again."""
# Where checkpoints keep a head: layer, norm, bias, decoder. BERT and MobileBERT; ELECTRA's generator; RoBERTa, XLM-R,
# CamemBERT and MPNet; DistilBERT.
SAVED = (
    (
        "cls.predictions.transform.dense",
        "cls.predictions.transform.LayerNorm",
        "cls.predictions.bias",
        "cls.predictions.decoder.weight",
    ),
    (
        "generator_predictions.dense",
        "generator_predictions.LayerNorm",
        "generator_lm_head.bias",
        "generator_lm_head.weight",
    ),
    ("lm_head.dense", "lm_head.layer_norm", "lm_head.bias", "lm_head.decoder.weight"),
    ("vocab_transform", "vocab_layer_norm", "vocab_projector.bias", "vocab_projector.weight"),
)
MASKS = ("[MASK]", "<mask>")
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "<s>", "</s>", "<pad>", "<unk>")


class MaskedLanguageHead(torch.nn.Module):
    """Guesses tokens from their last states. `MaskedLanguageHead.of(encoder, seed=0)` makes one.

    Attributes:
        dense: W and b, (e, d): to the length e of an embedding.
        bias: (vocabulary,).
        decoder: (vocabulary, e) of its own; None where it is the encoder's embeddings.
    """

    def __init__(
        self,
        embeddings: torch.nn.Embedding,
        hidden: int,
        *,
        own_decoder: bool = False,
        activation: str = "gelu",
        eps: float = 1e-12,
        spread: float = 0.02,
        seed: int = 0,
    ) -> None:
        from transformers.activations import ACT2FN

        super().__init__()
        vocabulary, size = embeddings.weight.shape
        # In a tuple it is no part of this module.
        self._embeddings = (embeddings,)
        self.dense = torch.nn.Linear(hidden, size)
        self.activation = ACT2FN[activation]
        self.norm = torch.nn.LayerNorm(size, eps=eps)
        self.bias = torch.nn.Parameter(torch.zeros(vocabulary))
        self.decoder = torch.nn.Parameter(embeddings.weight.detach().cpu().clone()) if own_decoder else None
        with torch.no_grad():
            drawn = torch.randn(size, hidden, generator=torch.Generator().manual_seed(seed))
            self.dense.weight.copy_(spread * drawn)
            self.dense.bias.zero_()

    @classmethod
    def of(cls, encoder: TermEncoder, *, seed: int) -> MaskedLanguageHead:
        """Return the head that the encoder's folder holds, or else a new one."""
        model: Any = encoder.module.model
        model = model.model if isinstance(model, InjectedBert) else model
        config, embeddings = model.config, model.get_input_embeddings()
        file, saved = _saved(encoder.folder)
        decoder = saved.get("decoder")
        if decoder is not None and torch.equal(decoder.float(), embeddings.weight.detach().float().cpu()):
            del saved["decoder"]
        head = cls(
            embeddings,
            config.hidden_size,
            own_decoder="decoder" in saved,
            activation=str(getattr(config, "hidden_act", getattr(config, "activation", "gelu"))),
            eps=getattr(config, "layer_norm_eps", 1e-12),
            spread=getattr(config, "initializer_range", 0.02),
            seed=seed,
        )
        fill(head, saved, file, "masked language head")
        return head.to(embeddings.weight.device)

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        """Return (p, vocabulary) logits of p states, (p, d)."""
        guessed = self.norm(self.activation(self.dense(hidden)))
        decoder = self._embeddings[0].weight if self.decoder is None else self.decoder
        return functional.linear(guessed, decoder, self.bias)


def _saved(folder: Path) -> tuple[Path, dict[str, torch.Tensor]]:
    """Return the file of a folder's head and its tensors under our names; none where there is no head."""
    from safetensors import safe_open
    from safetensors.torch import load_file

    own = folder / f"{NAME}.safetensors"
    if own.is_file():
        return own, load_file(own)
    transformer, _ = layout.read(folder)
    listing = transformer / "model.safetensors.index.json"
    whole = transformer / "model.safetensors"
    where: dict[str, str] = {}
    if listing.is_file():
        where = json.loads(listing.read_text(encoding="utf-8"))["weight_map"]
    elif whole.is_file():
        with safe_open(whole, "pt") as file:
            where = dict.fromkeys(file.keys(), whole.name)

    def tensor(*names: str) -> torch.Tensor | None:
        for name in names:
            if name in where:
                with safe_open(transformer / where[name], "pt") as file:
                    tensor: torch.Tensor = file.get_tensor(name)
                    return tensor
        return None

    for dense, norm, bias, decoder in SAVED:
        found = {
            "dense.weight": tensor(f"{dense}.weight"),
            "dense.bias": tensor(f"{dense}.bias"),
            # Checkpoints of TensorFlow's time call a norm's weights gamma and beta.
            "norm.weight": tensor(f"{norm}.weight", f"{norm}.gamma"),
            "norm.bias": tensor(f"{norm}.bias", f"{norm}.beta"),
            "bias": tensor(bias, decoder.removesuffix("weight") + "bias"),
        }
        head = {name: value for name, value in found.items() if value is not None}
        if len(head) == len(found):
            own_decoder = tensor(decoder)
            return whole, head if own_decoder is None else head | {"decoder": own_decoder}
    return whole, {}


def masking_of(tokenizer: Tokenizer, specials: Specials, *, share: float = 0.15) -> Masking:
    """Return how the tokens of a tokenizer are masked: 80% [MASK], 10% at random, 10% as they are."""
    mask = next((number for name in MASKS if (number := tokenizer.token_to_id(name)) is not None), None)
    if mask is None:
        raise InputError(
            "the tokenizer has no mask token",
            value=" or ".join(MASKS),
            remedy="take an encoder that was trained as a masked language model",
        )
    added = [number for number, token in tokenizer.get_added_tokens_decoder().items() if token.special]
    named = [number for name in SPECIAL if (number := tokenizer.token_to_id(name)) is not None]
    special = {*added, *named, *specials.before, *specials.behind, specials.pad, mask}
    vocabulary = max(tokenizer.get_vocab(with_added_tokens=True).values()) + 1
    return Masking(mask, tuple(sorted(special)), vocabulary, share=share)


def token_states(forward: TermForward, rows: Rows, row: torch.Tensor, place: torch.Tensor) -> torch.Tensor:
    """Return the last states of some tokens, (p, d), in the precision of the arithmetic.

    Args:
        row: (p,) the row of each token.
        place: (p,) its place in the row.
    """
    if isinstance(rows, packed.Packing):
        return forward.states(rows).index_select(0, rows.first[row] + place)
    ids, mask = rows
    model: Any = forward.module.model
    hidden: torch.Tensor = model(input_ids=ids, attention_mask=mask).last_hidden_state
    return hidden[row, place]
