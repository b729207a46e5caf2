"""Averages of weights: two models' mixed by shares, and soups of many (Wortsman et al., ICML 2022).

A soup of members theta_1 ... theta_k is 1/k sum_i theta_i, number by number: the sum is taken in float64 and rounded
once to the members' own precision, so that the soup of one model is that model, bit for bit. Buffers of integers and
truth values are not averaged: they must be equal in all members.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import torch
from safetensors import SafetensorError, safe_open

from alphita.errors import InputError

State = Mapping[str, torch.Tensor]
Member = State | Path
"""Weights by name, or where they lie: a .safetensors file, or a model's folder with its model.safetensors."""
REMEDY = "a soup's members are trained from the same model: take such ones"


def copy_of(module: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Return a copy of the module's weights."""
    return {name: value.detach().clone() for name, value in module.state_dict().items()}


def mix_in(module: torch.nn.Module, other: Mapping[str, torch.Tensor], share: float) -> None:
    """Replace each weight w by (1 - share) w + share other (WiSE-FT: Wortsman et al., CVPR 2022, eq. 1).

    Args:
        module: changed in place.
        other: weights of the same names and shapes.
        share: of the other weights, 0 to 1.
    """
    with torch.no_grad():
        for name, value in module.state_dict().items():
            if value.is_floating_point():
                value.mul_(1 - share).add_(other[name].to(value.device), alpha=share)


@dataclass(frozen=True)
class Soup:
    """A greedy soup, and how it came about: the next four have a place for each member, in the order of trial.

    Attributes:
        weights: of the soup, on the processor.
        order: the members, the best alone first.
        scores: each alone.
        gains: what adding it to the soup so far adds to the dev score; of the first, which is the soup, 0.
        kept: whether it is in the soup.
        score: the soup's dev score.
    """

    weights: dict[str, torch.Tensor]
    order: tuple[str, ...]
    scores: tuple[float, ...]
    gains: tuple[float, ...]
    kept: tuple[bool, ...]
    score: float


def uniform(members: Mapping[str, Member]) -> dict[str, torch.Tensor]:
    """Return the average of all members' weights, on the processor.

    Tensor by tensor: of members that lie in files no more is held than the average and one tensor of each.

    Args:
        members: by name, 1 or more.

    Raises:
        InputError: there is none, a file cannot be read, or the members have not the same tensors, by name, shape and
            precision, and equal buffers.
    """
    with ExitStack() as opened:
        states = {name: opened.enter_context(_open(member)) for name, member in members.items()}
        return {key: _average(_alike(states, key)) for key in _names(states)}


def greedy(members: Mapping[str, Member], score: Callable[[dict[str, torch.Tensor]], float]) -> Soup:
    """Return the soup of Wortsman et al. 2022, recipe 1.

    Members are taken by their own score, the best first (of equal ones, the earlier given first). Each is kept if the
    average of the soup so far and it scores no less than the soup so far. Hence the soup's score is at least the best
    member's, as far as `score` gives the same weights the same score. No more than one average is held at a time.

    Args:
        members: by name, 1 or more.
        score: the dev score of weights; more is better. It is asked once for each member alone and once for each but
            the first in the soup.

    Raises:
        InputError: see `uniform`; or a score is not a number.
    """

    def scored(names: Sequence[str]) -> float:
        value = float(score(uniform({name: members[name] for name in names})))
        if math.isnan(value):
            raise InputError("the dev score is not a number", field=" + ".join(names), value=value)
        return value

    # Before anything is scored, which takes long.
    with ExitStack() as opened:
        states = {name: opened.enter_context(_open(member)) for name, member in members.items()}
        for key in _names(states):
            _alike(states, key)
    alone = {name: scored([name]) for name in members}
    order = sorted(members, key=lambda name: -alone[name])
    soup, best = [order[0]], alone[order[0]]
    gains = [0.0]
    for name in order[1:]:
        value = scored([*soup, name])
        gains.append(value - best)
        if value >= best:
            soup, best = [*soup, name], value
    return Soup(
        uniform({name: members[name] for name in soup}),
        tuple(order),
        tuple(alone[name] for name in order),
        tuple(gains),
        tuple(name in soup for name in order),
        best,
    )


class _Opened(Protocol):
    """Weights to be read one by one, as safetensors' own files are."""

    def keys(self) -> Iterable[str]: ...
    def get_tensor(self, name: str) -> torch.Tensor: ...


class _Held:
    """Weights in memory, read likewise."""

    def __init__(self, state: State) -> None:
        self._state = state

    def keys(self) -> Iterable[str]:
        return self._state.keys()

    def get_tensor(self, name: str) -> torch.Tensor:
        return self._state[name].detach()


@contextmanager
def _open(member: Member) -> Iterator[_Opened]:
    if not isinstance(member, Path):
        yield _Held(member)
        return
    path = member / "model.safetensors" if member.is_dir() else member
    try:
        file = safe_open(path, framework="pt")
    except (OSError, SafetensorError) as error:
        raise InputError(
            f"cannot be read as weights: {error}",
            file=path,
            remedy="give a .safetensors file, or a model's folder with its model.safetensors",
        ) from None
    with file:
        yield file


def _names(states: Mapping[str, _Opened]) -> list[str]:
    """Return the names that all members' tensors have."""
    if not states:
        raise InputError("a soup needs one model at least")
    (base, first), *others = states.items()
    wanted = set(first.keys())
    for name, state in others:
        for key in sorted(wanted ^ set(state.keys())):
            has, lacks = (base, name) if key in wanted else (name, base)
            raise InputError(f"{lacks!r} has no tensor {key!r}, which {has!r} has", remedy=REMEDY)
    return sorted(wanted)


def _alike(states: Mapping[str, _Opened], key: str) -> list[torch.Tensor]:
    """Return all members' tensors of a name, if they can be averaged."""
    tensors = {name: state.get_tensor(key) for name, state in states.items()}
    (base, first), *others = tensors.items()
    for name, tensor in others:
        for what, one, other in (
            ("shape", tuple(tensor.shape), tuple(first.shape)),
            ("precision", tensor.dtype, first.dtype),
        ):
            if one != other:
                raise InputError(
                    f"{name!r} has another {what} of {key!r} ({one}) than {base!r} ({other})", remedy=REMEDY
                )
        if not first.is_floating_point() and not torch.equal(tensor.cpu(), first.cpu()):
            raise InputError(f"{name!r} has another {key!r}, which is no weight, than {base!r}", remedy=REMEDY)
    return list(tensors.values())


def _average(tensors: Sequence[torch.Tensor]) -> torch.Tensor:
    """Return the mean of tensors of one shape; of those that are no weights, and all equal, the first."""
    first, *others = tensors
    if not first.is_floating_point():
        return first.to("cpu", copy=True)
    # On the processor, for not every device knows float64.
    total = first.to("cpu", torch.float64, copy=True)
    for other in others:
        total += other.to("cpu", torch.float64)
    return total.div_(len(tensors)).to(first.dtype)
