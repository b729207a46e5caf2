"""Entities of a knowledge graph between two layers of a BERT (the Italian system, "KGE-injected").

After layer i, for each mention m of the sequence:

    h_m      = mean over the mention's tokens of their states
    h_m_proj = W h_m + b                                      to the graph's space
    a        = softmax over the n entities with the greatest h_m_proj . e_j
    e_m      = sum_j a_j e_j                                  (4)
    state   += W' e_m + b'                                    of every token of the mention

Then one layer norm and the layers after i. The method follows KeBioLM (Yuan et al., BioNLP 2021), but its entities e_j
are frozen; gradients reach W and b through the n chosen similarities.

Not stated, and chosen here: the norm is of every token's state, in a mention or not, so that the next layer gets states
of one kind. It starts as near to doing nothing as it can (see `Injection.follow`), and W and W' start small (0.02, as
BERT's own weights).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import torch
from torch.nn import functional

from alphita.errors import InputError, UsageError

Search = Callable[[torch.Tensor], torch.Tensor]

NEAREST = 100
"""Entities among which a mention is shared out. The paper gives no number; KeBioLM's code has 100."""
BLOCK = 16_384
"""Entities compared at once."""
SPREAD = 0.02


class Linked(NamedTuple):
    """What the encoder says of a batch.

    Attributes:
        last_hidden_state: (rows, length, hidden) states after the last layer.
        projected: (m, d) mentions in the graph's space, float32 at least: what the linking loss takes.
        candidates: (m, n) int64, the rows of the nearest entities, nearest first.
        logits: (m, n) their similarities, h_m_proj . e_j; a softmax turns them into the shares a.
    """

    last_hidden_state: torch.Tensor
    projected: torch.Tensor
    candidates: torch.Tensor
    logits: torch.Tensor


class Injection(torch.nn.Module):
    """The step between two layers: link mentions, add their entities, normalise.

    Attributes:
        entities: (E, d) frozen: a buffer, no parameter.
        nearest: n, the entities among which a mention is shared out.
    """

    entities: torch.Tensor

    def __init__(self, entities: torch.Tensor, hidden: int, *, nearest: int = NEAREST, eps: float = 1e-12) -> None:
        """Draw the projections at random.

        Args:
            entities: (E, d) float32 or float16, copied.
        """
        super().__init__()
        if entities.dim() != 2 or not entities.numel():
            raise InputError("entity vectors must be (entities, numbers), neither 0", value=tuple(entities.shape))
        if not torch.isfinite(entities).all():
            row = int((~torch.isfinite(entities).all(1)).nonzero()[0])
            raise InputError("an entity vector is not finite", field="row", value=row, remedy="train the graph again")
        if not 1 <= nearest <= len(entities):
            raise UsageError(f"nearest must be from 1 to {len(entities)}, the number of entities, not {nearest}")
        self.nearest = nearest
        self.register_buffer("entities", entities.detach().clone())
        self.down = torch.nn.Linear(hidden, entities.shape[1])
        self.up = torch.nn.Linear(entities.shape[1], hidden)
        self.norm = torch.nn.LayerNorm(hidden, eps=eps)
        for layer in (self.down, self.up):
            torch.nn.init.normal_(layer.weight, std=SPREAD)
            torch.nn.init.zeros_(layer.bias)

    def follow(self, norm: torch.nn.LayerNorm) -> None:
        """Start the layer norm so that it changes states that come from `norm` as little as it can."""
        with torch.no_grad():
            variance = norm.weight.square().mean() + norm.bias.var(correction=0)
            self.norm.weight.fill_(float(variance.sqrt()))
            self.norm.bias.fill_(float(norm.bias.mean()))

    def search(self, projected: torch.Tensor) -> torch.Tensor:
        """Return the rows of the entities nearest to mentions (m, d) in the graph's space, (m, n), nearest first."""
        return nearest_entities(projected, self.entities, self.nearest)

    def forward(self, hidden: torch.Tensor, mentions: torch.Tensor, search: Search | None = None) -> Linked:
        """Return the states with the entities added and normalised, and what was linked.

        Args:
            hidden: (rows, length, hidden) states after layer i.
            mentions: (m, 3) int64 rows [sequence, start, end), within `hidden`.
            search: (m, d) mentions in the graph's space -> (m, n) rows of the nearest entities, nearest first.
        """
        with torch.autocast(hidden.device.type, enabled=False):
            states = hidden if hidden.dtype == torch.float64 else hidden.float()
            flat = states.flatten(0, 1)
            places, owner = tokens_of(mentions, hidden.shape[1])
            sizes = (mentions[:, 2] - mentions[:, 1]).to(flat.dtype)
            sums = flat.new_zeros(len(mentions), flat.shape[1]).index_add(0, owner, flat[places])
            projected = _linear(self.down, sums / sizes[:, None])
            candidates = (search or self.search)(projected)
            chosen = self.entities[candidates].to(flat.dtype)
            logits = torch.einsum("md,mnd->mn", projected, chosen)
            combined = torch.einsum("mn,mnd->md", logits.softmax(1), chosen)
            flat = flat.index_add(0, places, _linear(self.up, combined)[owner])
            weight, bias = self.norm.weight.to(flat.dtype), self.norm.bias.to(flat.dtype)
            flat = functional.layer_norm(flat, self.norm.normalized_shape, weight, bias, self.norm.eps)
            return Linked(flat.view(hidden.shape).to(hidden.dtype), projected, candidates, logits)


def _linear(layer: torch.nn.Linear, x: torch.Tensor) -> torch.Tensor:
    """Return `layer` of `x`, in the precision of `x` and not of the weights."""
    return functional.linear(x, layer.weight.to(x.dtype), layer.bias.to(x.dtype))


def tokens_of(mentions: torch.Tensor, length: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the tokens of all mentions, (t,) places in the flat batch, and the mention of each, (t,).

    Args:
        mentions: (m, 3) int64 rows [sequence, start, end).
    """
    row, start, end = mentions.unbind(1)
    sizes = end - start
    owner = torch.repeat_interleave(torch.arange(len(mentions), device=mentions.device), sizes)
    within = torch.arange(len(owner), device=mentions.device) - (sizes.cumsum(0) - sizes)[owner]
    return (row * length + start)[owner] + within, owner


def nearest_entities(queries: torch.Tensor, entities: torch.Tensor, n: int, *, block: int = BLOCK) -> torch.Tensor:
    """Return the rows of the `n` entities with the greatest inner products, (m, n) int64, greatest first: exact.

    Args:
        queries: (m, d).
        entities: (E, d), E at least `n`.
    """
    with torch.no_grad():
        parts = (entities[first : first + block] for first in range(0, len(entities), block))
        return greatest((queries @ part.to(queries.dtype).T for part in parts), n)


def greatest(blocks: Iterable[torch.Tensor], n: int) -> torch.Tensor:
    """Return the columns of the `n` greatest numbers of each row, (m, n) int64, greatest first.

    Args:
        blocks: (m, b) each: matrices side by side, of `n` columns at least together.
    """
    best = columns = torch.empty(0)
    first = 0
    for block in blocks:
        if first == 0:
            best, columns = block.topk(min(n, block.shape[1]), 1)
        elif best.shape[1] < n:
            found, place = block.topk(min(n, block.shape[1]), 1)
            best, columns = _merged(best, columns, found, place + first, n)
        else:
            # Few are above the least that is kept, and to find these is quicker than to sort.
            row, place = (block > best[:, -1:]).nonzero(as_tuple=True)
            counts = torch.bincount(row, minlength=len(block))
            width = int(counts.max()) if len(row) else 0
            if width:
                within = torch.arange(len(row), device=row.device) - (counts.cumsum(0) - counts)[row]
                found = block.new_full((len(block), width), -torch.inf)
                places = torch.zeros_like(found, dtype=torch.int64)
                found[row, within], places[row, within] = block[row, place], place + first
                best, columns = _merged(best, columns, found, places, n)
        first += block.shape[1]
    return columns


def _merged(
    best: torch.Tensor, columns: torch.Tensor, found: torch.Tensor, places: torch.Tensor, n: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the `n` greatest of two sets of numbers a row, and their columns."""
    best, order = torch.cat([best, found], 1).topk(min(n, best.shape[1] + found.shape[1]), 1)
    return best, torch.cat([columns, places], 1).gather(1, order)


def term_mentions(input_ids: torch.Tensor, attention_mask: torch.Tensor | None, outside: Sequence[int]) -> torch.Tensor:
    """Return the mentions of rows that are terms by themselves, (m, 3): from the first ordinary token to the last.

    Args:
        input_ids: (rows, length) token ids.
        attention_mask: (rows, length), or None where nothing is padded.
    """
    ordinary = ~torch.isin(input_ids, torch.tensor(outside, dtype=input_ids.dtype, device=input_ids.device))
    if attention_mask is not None:
        ordinary &= attention_mask.bool()
    row = ordinary.any(1).nonzero()[:, 0]
    number = ordinary[row].to(torch.int64)
    start, behind = number.argmax(1), number.flip(1).argmax(1)
    return torch.stack([row, start, input_ids.shape[1] - behind], 1)


def check_mentions(mentions: torch.Tensor, input_ids: torch.Tensor, attention_mask: torch.Tensor | None) -> None:
    """Check that mentions (m, 3) lie within the tokens of a batch, `input_ids` (rows, length)."""
    if mentions.dim() != 2 or mentions.shape[1] != 3 or mentions.dtype != torch.int64:
        raise ValueError(f"mentions must be (m, 3) int64, not {tuple(mentions.shape)} {mentions.dtype}")
    rows, length = input_ids.shape
    row, start, end = mentions.unbind(1)
    wrong = (row < 0) | (row >= rows) | (start < 0) | (start >= end) | (end > length)
    if not wrong.any() and attention_mask is not None and len(mentions):
        places, owner = tokens_of(mentions, length)
        padded = (attention_mask.reshape(-1)[places] == 0).to(torch.int64)
        wrong = torch.zeros_like(row).index_add(0, owner, padded) > 0
    if wrong.any():
        number = int(wrong.nonzero()[0])
        raise ValueError(
            f"mention {number}, {mentions[number].tolist()}, does not lie within the tokens of {rows} rows of {length}"
        )
