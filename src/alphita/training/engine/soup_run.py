"""The soup as a phase: its members' weights averaged, scored, printed and saved as a model."""

from __future__ import annotations

import dataclasses
import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from alphita import artefact
from alphita.encoder import layout
from alphita.encoder.encoder import TermEncoder
from alphita.encoder.term_tokenizer import TermTokenizer
from alphita.errors import InputError
from alphita.progress import say
from alphita.training.engine import ranks, runs, soup
from alphita.training.engine.phases import Dev, Phase, manifest_fields
from alphita.training.engine.settings import decisive

if TYPE_CHECKING:
    from alphita.training.engine.settings import TermTraining


class SoupRun:
    """One soup: its members and its folder.

    Attributes:
        done: the figures, where the soup was finished before the run was cut; else None.
    """

    def __init__(
        self, recipe: str, phase: Phase, config: TermTraining, members: Mapping[str, Path], facts: Mapping[str, Any]
    ) -> None:
        """Look at the members; nothing is written yet.

        Args:
            recipe: its name.
            phase: where the soup goes.
            config: the recipe's settings.
            members: model folders by name, 1 or more, of one tokenizer, pooling and length.
            facts: what else the result depends on.

        Raises:
            InputError: a member has no weights, or makes vectors otherwise than the first; or the soup is there and is
                of another run.
            UsageError: it exists already.
        """
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
        self.done = phase.finished(runs.fingerprint(self._facts))
        if self.done is None and self._ranks.first:
            runs.check(phase.out, resume=phase.resume, force=phase.force)
        self._ranks.wait()

    def greedy(self, dev: Dev) -> dict[str, float]:
        """Add members as long as the dev score, the first that `dev` gives, does not fall; save and return figures.

        Raises:
            InputError: see `soup.greedy`.
        """
        return self._cook(dev, greedy=True)

    def uniform(self, dev: Dev) -> dict[str, float]:
        """Average all members; save and return the dev scores, if there are any.

        Raises:
            InputError: see `soup.uniform`.
        """
        return self._cook(dev, greedy=False)

    def _cook(self, dev: Dev, *, greedy: bool) -> dict[str, float]:
        figures: dict[str, float] = {}
        if self._ranks.first:
            encoder = TermEncoder.load(
                next(iter(self._members.values())), precision=self._config.precision, device=ranks.device()
            )
            figures = self._greedy(encoder, dev) if greedy else self._uniform(encoder, dev)
        self._ranks.wait()
        return figures

    def _uniform(self, encoder: TermEncoder, dev: Dev) -> dict[str, float]:
        _load(encoder, soup.uniform(self._members))
        figures = {"members": float(len(self._members)), **dev(encoder)}
        say(f"soup of all {len(self._members)} models{_shown(figures)}")
        self._save(encoder, figures, [{"step": n, "member": name} for n, name in enumerate(self._members, 1)])
        return figures

    def _greedy(self, encoder: TermEncoder, dev: Dev) -> dict[str, float]:
        def score(weights: dict[str, torch.Tensor]) -> float:
            _load(encoder, weights)
            return next(iter(dev(encoder).values()))

        cooked = soup.greedy(self._members, score)
        tried = zip(cooked.order, cooked.scores, cooked.gains, cooked.kept, strict=True)
        told = [
            {"step": number, "member": name, "score": alone, "gain": gain, "kept": kept}
            for number, (name, alone, gain, kept) in enumerate(tried, 1)
        ]
        say("greedy soup, by dev score:")
        for one in told:
            kept = "kept" if one["kept"] else "left out"
            say(f"  {one['step']}. {one['member']}: alone {one['score']:.4f}, adds {one['gain']:+.4f}: {kept}")
        _load(encoder, cooked.weights)
        figures = {"members": float(sum(cooked.kept)), **dev(encoder), "best_member": cooked.scores[0]}
        say(f"the soup of {sum(cooked.kept)} of {len(told)} models{_shown(figures)}")
        self._save(encoder, figures, told)
        return figures

    def _save(self, encoder: TermEncoder, figures: Mapping[str, float], told: list[dict[str, Any]]) -> None:
        work = runs.folder(self._phase.out)
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir(parents=True)
        (work / "log.jsonl").write_text("".join(json.dumps(one) + "\n" for one in told), encoding="utf-8")
        fields = manifest_fields(self._phase, self._facts, figures) | {
            "config": self._config.model_dump(),
            "soup": told,
        }
        runs.save_model(self._phase.out, encoder, work, force=self._phase.force, fields=fields)


def check(members: Mapping[str, Path]) -> None:
    """Refuse members that cannot be averaged: the average of two vocabularies' vectors is of neither.

    Raises:
        InputError: a member has no weights, or makes vectors otherwise than the first.
    """
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
    """Put weights, as they are named in a model's own file, into the encoder.

    Raises:
        InputError: they are of another model.
    """
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
