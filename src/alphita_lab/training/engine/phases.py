"""The phases of a run: each leaves a model of its own, and a run that was cut goes on in the phase it was in.

The models lie in `OUT.phases/NAME`; that of the last phase is `OUT` itself. A phase whose model is there is finished.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from alphita import artefact
from alphita.encoder.encoder import TermEncoder
from alphita.errors import InputError, UsageError
from alphita_lab.training.engine import ranks, runs

Dev = Callable[[TermEncoder], dict[str, float]]
"""Encoder -> dev scores by name, greater is better."""


@dataclass(frozen=True)
class Phase:
    """One phase: where its model goes and how it begins.

    Attributes:
        name: e.g. "contrasted"; "" where the run is one, and its manifest tells of no phases.
        dry_run: only measure; write nothing.
        before: the figures of the phases before it, by name, for the manifest.
    """

    name: str
    out: Path
    resume: bool = False
    force: bool = False
    dry_run: bool = False
    before: Mapping[str, Mapping[str, float]] = field(default_factory=dict)

    def finished(self, fingerprint: str) -> dict[str, float] | None:
        """Return the figures of the phase's model if it is there and the run is gone on with, else None."""
        if not (self.resume and self.out.exists()):
            return None
        try:
            manifest = artefact.open_manifest(self.out, "model")
        except InputError:
            if self.force:
                return None
            raise
        if manifest.get("fingerprint") != fingerprint:
            if self.force:
                return None
            raise InputError(
                "the unfinished run had another recipe, config, encoder, terminology or split",
                file=self.out,
                remedy="give what it was started with; or use --force, and --resume too if an unfinished run was to "
                "replace it",
            )
        figures: dict[str, float] = manifest["figures"]
        return figures


class Phases:
    """The phases of one run, in order.

    Attributes:
        folder: where the models of all but the last lie.
    """

    def __init__(self, out: Path, names: Sequence[str], *, resume: bool, force: bool, dry_run: bool) -> None:
        self.folder = runs.beside(out, ".phases")
        self.figures: dict[str, dict[str, float]] = {}
        self._out, self._names = out, list(names)
        self._resume, self._force, self._dry_run = resume, force, dry_run

    def check(self) -> None:
        """Make sure that the run may begin; with force, an earlier run's phases are moved aside."""
        everyone = ranks.connect()
        if everyone.first and not self._dry_run:
            self._check()
        everyone.wait()

    def _check(self) -> None:
        runs.check(self._out, resume=self._resume, force=self._force)
        if not self.folder.exists() or self._resume:
            return
        if not self._force:
            raise UsageError(
                f"{self.folder} holds the phases of an earlier run; go on with --resume, or start again with --force"
            )
        number = 1
        while (aside := self.folder.with_name(f"{self.folder.name}.old-{number}")).exists():
            number += 1
        self.folder.rename(aside)

    def __contains__(self, name: str) -> bool:
        """Tell whether the run has a phase of this name."""
        return name in self._names

    def __getitem__(self, name: str) -> Phase:
        """Return a phase by its name."""
        last = name == self._names[-1]
        out = self._out if last else self.folder / name
        before = {done: dict(figures) for done, figures in self.figures.items()}
        return Phase(name, out, self._resume, self._force and last, self._dry_run, before)

    def add(self, name: str, figures: Mapping[str, float], start: str | Path) -> str | Path:
        """Note what a phase came to, and return its model, which a dry run lacks: there what it started from."""
        self.figures[name] = dict(figures)
        return start if self._dry_run else self[name].out


def manifest_fields(phase: Phase, facts: Mapping[str, Any], figures: Mapping[str, float]) -> dict[str, Any]:
    """Return what a phase's manifest says: the facts it depends on, their hash, its figures and those before it."""
    phases = {**{name: dict(done) for name, done in phase.before.items()}, phase.name: dict(figures)}
    return {**facts, "fingerprint": runs.fingerprint(facts), "figures": dict(figures), "phases": phases}
