"""Masked language modelling (Devlin et al., NAACL 2019, §3.1, appendix A.1): head, and masks that keep entities whole.

By token: 15 % of the tokens are drawn and their entities masked whole (Peters et al., EMNLP 2019). By span: spans are.
"""

from __future__ import annotations

import functools
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from alphita.encoder import layout
from alphita.encoder.layout import fill
from alphita.errors import InputError
from alphita_lab.encoder import bert
from alphita_lab.encoder.injected_bert import InjectedBert
from alphita_lab.training.engine.forward import Rows, TermForward

if TYPE_CHECKING:
    from tokenizers import Tokenizer

    from alphita.encoder.encoder import TermEncoder
    from alphita_lab.training.text.corpora import Specials

NOT_MASKED = -100
"""Label of a token that is not to be guessed, as torch's cross-entropy has it."""

Int64 = NDArray[np.int64]


@dataclass(frozen=True)
class Masking:
    """How tokens are masked."""

    mask_id: int
    special_ids: tuple[int, ...]  # tokens that are never masked, nor put in for others: [CLS], [SEP], [PAD], tags
    vocabulary: int  # number of token ids, from which random tokens are drawn
    share: float = 0.15  # of the tokens to be drawn, above 0 up to 1
    masked: float = 0.8  # share of what is drawn that becomes [MASK]
    random: float = 0.1  # share that becomes a random token; the rest stays

    @functools.cached_property
    def ordinary(self) -> Int64:
        """The ids that may stand in for others: all but the special ones and [MASK]."""
        return np.setdiff1d(np.arange(self.vocabulary), [*self.special_ids, self.mask_id])


def mask_by_token(ids: Int64, spans: Int64, masking: Masking, random: np.random.Generator) -> tuple[Int64, Int64]:
    """Draw 15% of the tokens of each sequence and mask whole the entities that hold one.

    Args:
        ids: (n, length) token ids.
        spans: (m, 3) rows [sequence, start, end), the entities.

    Returns:
        (n, length) ids to be shown, and (n, length) labels: the true id where it has to be guessed, else NOT_MASKED.
    """
    shown, labels = ids.copy(), np.full_like(ids, NOT_MASKED)
    for row, owner in enumerate(_owners(ids, spans, masking)):
        places = np.flatnonzero(owner >= 0)
        if len(places):
            number = max(1, round(masking.share * len(places)))
            drawn = np.unique(owner[random.choice(places, number, replace=False)])
            _mask(row, owner, drawn, shown, labels, masking, random)
    return shown, labels


def mask_by_span(ids: Int64, spans: Int64, masking: Masking, random: np.random.Generator) -> tuple[Int64, Int64]:
    """Draw 15% of the spans, and of the tokens outside any, of each sequence; all are as likely.

    Args:
        spans: (m, 3) rows [sequence, start, end), the words and entities.
    """
    shown, labels = ids.copy(), np.full_like(ids, NOT_MASKED)
    for row, owner in enumerate(_owners(ids, spans, masking)):
        units = np.unique(owner[owner >= 0])
        if len(units):
            # To go by tokens, until 15% are masked, would leave out the long spans that do not fit in.
            number = max(1, int(masking.share * len(units) + random.random()))
            _mask(row, owner, np.sort(random.choice(units, number, replace=False)), shown, labels, masking, random)
    return shown, labels


def _owners(ids: Int64, spans: Int64, masking: Masking) -> Int64:
    """Return (n, length): the number of the unit that each token belongs to, -1 for special tokens."""
    n, length = ids.shape
    row, start, end = spans[:, 0], spans[:, 1], spans[:, 2]
    sizes = end - start
    within = np.arange(int(sizes.sum())) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    places = np.repeat(row * length + start, sizes) + within
    owner = len(spans) + np.arange(n * length)
    owner[places] = np.repeat(np.arange(len(spans)), sizes)
    owner = owner.reshape(n, length)
    owner[np.isin(ids, masking.special_ids)] = -1
    return owner


def _mask(
    row: int, owner: Int64, drawn: Int64, shown: Int64, labels: Int64, masking: Masking, random: np.random.Generator
) -> None:
    """Mask the units `drawn`, (k,) sorted, of sequence `row`, whose units `owner` (length,) names, in place."""
    places = np.flatnonzero(np.isin(owner, drawn))
    labels[row, places] = shown[row, places]
    lots = random.random(len(drawn))[np.searchsorted(drawn, owner[places])]
    shown[row, places[lots < masking.masked]] = masking.mask_id
    others = places[(lots >= masking.masked) & (lots < masking.masked + masking.random)]
    if len(others):
        shown[row, others] = random.choice(masking.ordinary, len(others))


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
    """Guesses tokens from their last states. `MaskedLanguageHead.of(encoder, seed=0)` makes one."""

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
        self.dense = torch.nn.Linear(hidden, size)  # W and b, (e, d): to the length e of an embedding
        self.activation = ACT2FN[activation]
        self.norm = torch.nn.LayerNorm(size, eps=eps)
        self.bias = torch.nn.Parameter(torch.zeros(vocabulary))  # (vocabulary,)
        # (vocabulary, e) of its own; None where it is the encoder's embeddings.
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

    row: (p,) the row of each token; place: (p,) its place in the row.
    """
    if isinstance(rows, bert.Packing):
        return forward.states(rows).index_select(0, rows.first[row] + place)
    ids, mask = rows
    model: Any = forward.module.model
    hidden: torch.Tensor = model(input_ids=ids, attention_mask=mask).last_hidden_state
    return hidden[row, place]
