"""Averages of weights: two models' mixed by shares, and soups of many (Wortsman et al., ICML 2022).

The sum is taken in float64 and rounded once, so that the soup of one model is that model, bit for bit.
"""

from __future__ import annotations

import dataclasses
import json
import math
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file

from alphita import artefact
from alphita.encoder import layout
from alphita.encoder.encoder import TermEncoder
from alphita.encoder.term_tokenizer import TermTokenizer
from alphita.errors import InputError
from alphita.progress import say
from alphita_lab.training.engine import ranks, runs
from alphita_lab.training.engine.runs import Dev, Phase, manifest_fields
from alphita_lab.training.engine.settings import decisive

if TYPE_CHECKING:
    from alphita_lab.training.engine.settings import TermTraining

State = Mapping[str, torch.Tensor]
Member = State | Path
"""Weights by name, or where they lie: a .safetensors file, or a model's folder with its model.safetensors."""
REMEDY = "a soup's members are trained from the same model: take such ones"


def copy_of(module: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Return a copy of the module's weights."""
    return {name: value.detach().clone() for name, value in module.state_dict().items()}


def mix_in(module: torch.nn.Module, other: Mapping[str, torch.Tensor], share: float) -> None:
    """Replace each weight w by (1 - share) w + share other (WiSE-FT: Wortsman et al., CVPR 2022, eq. 1)."""
    with torch.no_grad():
        for name, value in module.state_dict().items():
            if value.is_floating_point():
                value.mul_(1 - share).add_(other[name].to(value.device), alpha=share)


@dataclass(frozen=True)
class Soup:
    """A greedy soup, and how it came about: the next four have a place for each member, in the order of trial."""

    weights: dict[str, torch.Tensor]
    order: tuple[str, ...]
    scores: tuple[float, ...]
    gains: tuple[float, ...]  # what adding it to the soup so far adds to the dev score
    kept: tuple[bool, ...]
    score: float


def uniform(members: Mapping[str, Member]) -> dict[str, torch.Tensor]:
    """Return the average of all members' weights, on the processor."""
    states = _read(members)
    return {key: _average([state[key].detach() for state in states.values()]) for key in _names(states)}


def greedy(members: Mapping[str, Member], score: Callable[[dict[str, torch.Tensor]], float]) -> Soup:
    """Return the soup of Wortsman et al. 2022, recipe 1."""

    # Checked before anything is scored, which takes long.
    states = _read(members)

    def scored(names: Sequence[str]) -> float:
        value = float(score(uniform({name: states[name] for name in names})))
        if math.isnan(value):
            raise InputError("the dev score is not a number", field=" + ".join(names), value=value)
        return value

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
        uniform({name: states[name] for name in soup}),
        tuple(order),
        tuple(alone[name] for name in order),
        tuple(gains),
        tuple(name in soup for name in order),
        best,
    )


def _read(members: Mapping[str, Member]) -> dict[str, State]:
    """Return all members' weights, once it is sure that they can be averaged."""
    states = {name: _load_file(member) if isinstance(member, Path) else member for name, member in members.items()}
    for key in _names(states):
        _alike(states, key)
    return states


def _load_file(member: Path) -> State:
    path = member / "model.safetensors" if member.is_dir() else member
    try:
        return load_file(path)
    except (OSError, SafetensorError) as error:
        raise InputError(
            f"cannot be read as weights: {error}",
            file=path,
            remedy="give a .safetensors file, or a model's folder with its model.safetensors",
        ) from None


def _names(states: Mapping[str, State]) -> list[str]:
    if not states:
        raise InputError("a soup needs one model at least")
    (base, first), *others = states.items()
    wanted = set(first.keys())
    for name, state in others:
        for key in sorted(wanted ^ set(state.keys())):
            has, lacks = (base, name) if key in wanted else (name, base)
            raise InputError(f"{lacks!r} has no tensor {key!r}, which {has!r} has", remedy=REMEDY)
    return sorted(wanted)


def _alike(states: Mapping[str, State], key: str) -> None:
    """Refuse tensors of a name that cannot be averaged."""
    (base, first), *others = ((name, state[key]) for name, state in states.items())
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


class SoupRun:
    """One soup: its members and its folder."""

    def __init__(
        self, recipe: str, phase: Phase, config: TermTraining, members: Mapping[str, Path], facts: Mapping[str, Any]
    ) -> None:
        self._ranks = ranks.connect()
        self._phase, self._config, self._members = phase, config, dict(members)
        check(members)
        hashes = {name: artefact.hash_file(member / "model.safetensors") for name, member in members.items()}
        self._facts = {
            "recipe": recipe,
            "phase": phase.name,
            "config": decisive(config),
            "seed": config.seed,
            "members": hashes,
            **facts,
        }
        # The figures, where the soup was finished before the run was cut; else None.
        self.done = phase.finished(runs.fingerprint(self._facts))
        if self.done is None and self._ranks.first:
            runs.check(phase.out, resume=phase.resume, force=phase.force)
        self._ranks.wait()

    def cook(self, dev: Dev, *, greedy: bool) -> dict[str, float]:
        """Average the members, all of them or as long as the first dev score does not fall; save, return figures."""
        figures: dict[str, float] = {}
        if self._ranks.first:
            encoder = TermEncoder.load(
                next(iter(self._members.values())), precision=self._config.precision, device=ranks.device()
            )
            figures = self._greedy(encoder, dev) if greedy else self._uniform(encoder, dev)
        self._ranks.wait()
        return figures

    def _uniform(self, encoder: TermEncoder, dev: Dev) -> dict[str, float]:
        _load(encoder, uniform(self._members))
        figures = {"members": float(len(self._members)), **dev(encoder)}
        say(f"soup of all {len(self._members)} models{_shown(figures)}")
        self._save(encoder, figures, [{"step": n, "member": name} for n, name in enumerate(self._members, 1)])
        return figures

    def _greedy(self, encoder: TermEncoder, dev: Dev) -> dict[str, float]:
        def score(weights: dict[str, torch.Tensor]) -> float:
            _load(encoder, weights)
            return next(iter(dev(encoder).values()))

        cooked = greedy(self._members, score)
        tried = zip(cooked.order, cooked.scores, cooked.gains, cooked.kept, strict=True)
        told = [
            {"step": number, "member": name, "score": alone, "gain": gain, "kept": kept}
            for number, (name, alone, gain, kept) in enumerate(tried, 1)
        ]
        say("greedy soup, by dev score:")
        for line in told:
            kept = "kept" if line["kept"] else "left out"
            say(f"  {line['step']}. {line['member']}: alone {line['score']:.4f}, adds {line['gain']:+.4f}: {kept}")
        _load(encoder, cooked.weights)
        figures = {"members": float(sum(cooked.kept)), **dev(encoder), "best_member": cooked.scores[0]}
        say(f"the soup of {sum(cooked.kept)} of {len(told)} models{_shown(figures)}")
        self._save(encoder, figures, told)
        return figures

    def _save(self, encoder: TermEncoder, figures: Mapping[str, float], told: list[dict[str, Any]]) -> None:
        work = runs.folder(self._phase.out)
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir(parents=True)
        (work / "log.jsonl").write_text("".join(json.dumps(line) + "\n" for line in told), encoding="utf-8")
        fields = manifest_fields(self._phase, self._facts, figures) | {
            "config": self._config.model_dump(),
            "soup": told,
        }
        runs.save_model(self._phase.out, encoder, work, force=self._phase.force, fields=fields)


def check(members: Mapping[str, Path]) -> None:
    """Refuse members that cannot be averaged: the average of two vocabularies' vectors is of neither."""
    for member in members.values():
        if not (member / "model.safetensors").is_file():
            raise InputError("no model to average: no model.safetensors", file=member, remedy="look at members")
    facts: dict[str, dict[str, object]] = {}
    for name, member in members.items():
        folder, settings = layout.read(member)
        facts[name] = {**dataclasses.asdict(settings), "tokenizer": TermTokenizer(folder, settings).hash[:12]}
    first = next(iter(facts), "")
    for name, found in facts.items():
        differs = [key for key, value in found.items() if value != facts[first][key]]
        if differs:
            told = ", ".join(f"{key} {found[key]} instead of {facts[first][key]}" for key in differs)
            raise InputError(
                f"the member {name!r} differs from {first!r}: {told}",
                file=members[name],
                remedy="average models that were trained from one encoder with the same settings",
            )


def _load(encoder: TermEncoder, weights: Mapping[str, torch.Tensor]) -> None:
    """Put weights, as they are named in a model's own file, into the encoder."""
    try:
        encoder.module.model.load_state_dict(dict(weights))
    except RuntimeError as error:
        raise InputError(
            f"the soup's weights do not fit: {str(error).strip().splitlines()[-1].strip()}",
            file=encoder.folder,
            remedy="take members that were trained here",
        ) from None


def _shown(figures: Mapping[str, float]) -> str:
    return "".join(f", {name} {value:.4f}" for name, value in figures.items() if name.startswith("dev"))
