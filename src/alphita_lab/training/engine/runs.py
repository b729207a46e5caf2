"""A training run's folders: unfinished work beside the model to come, its log, its phases, and the saved model."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from alphita import artefact, registry
from alphita.encoder.encoder import TermEncoder
from alphita.errors import InputError, UsageError, require
from alphita_lab.training.engine import ranks

if TYPE_CHECKING:
    import torch


def beside(out: Path, suffix: str) -> Path:
    """Return the path `OUT` + `suffix`, where what belongs to the model `out` lies beside it."""
    if out.name in ("", ".."):
        raise UsageError(f"{out} cannot be the model's folder, which must be a new one; give its name: -o model/")
    return out.with_name(out.name + suffix)


def folder(out: Path) -> Path:
    """Return the folder of unfinished work on the model `out`: `OUT.training` beside it."""
    return beside(out, ".training")


def check_flags(*outs: Path, resume: bool, force: bool) -> None:
    """Make sure that there is something to go on with where the model is to be replaced by an unfinished run."""
    if resume and force and not any(_work(out) for out in outs):
        raise UsageError(f"there is no unfinished run of {outs[0]} to go on with; --force alone starts a new one")


def _work(out: Path) -> bool:
    return any(beside(out, suffix).exists() for suffix in (".training", ".phases", ".prepared"))


def check(out: Path, *, resume: bool, force: bool) -> None:
    """Make sure that the model may be written."""
    work = folder(out)
    if out.exists() and not force:
        if resume and _work(out):
            raise UsageError(
                f"{out} already exists; use --resume --force if the unfinished run was to replace it (it is moved "
                "aside then)"
            )
        raise UsageError(f"{out} already exists; choose another name or use --force (the old one is moved aside)")
    if work.exists() and not resume:
        if not force:
            raise UsageError(f"{work} holds an unfinished run; go on with --resume, or start again with --force")
        shutil.rmtree(work)


def fingerprint(depends_on: Mapping[str, Any]) -> str:
    """Return the hash of everything that decides a run's result: recipe, config, content hashes."""
    corpus = {"corpus": list(depends_on["corpus"].values())} if "corpus" in depends_on else {}
    return artefact.hash_json({**depends_on, **corpus})


def other_run(
    file: Path, remedy: str = "give what it was started with, or start again with --force", *, teacher: str = ""
) -> InputError:
    """Return the error for a run that cannot be resumed with what is given now."""
    problem = f"the unfinished run had another recipe, config, encoder, {teacher}terminology or split"
    return InputError(problem, file=file, remedy=remedy)


def save_model(
    out: Path,
    encoder: TermEncoder,
    work: Path,
    *,
    fields: Mapping[str, Any],
    tensors: Mapping[str, Mapping[str, torch.Tensor]] | None = None,
    computed: Mapping[str, Any] | None = None,
    force: bool = False,
) -> None:
    """Save a trained model as an artefact and drop the unfinished work."""
    from safetensors.torch import save_file

    with artefact.create(out, "model", force=force) as draft:
        encoder.save(draft.path)
        for name, state in (tensors or {}).items():
            kept = {key: value.detach().cpu().contiguous() for key, value in state.items()}
            save_file(kept, draft.path / f"{name}.safetensors")
        shutil.copyfile(work / "log.jsonl", draft.path / "log.jsonl")
        if (work / "tensorboard").is_dir():
            shutil.copytree(work / "tensorboard", draft.path / "tensorboard")
        (draft.path / "training.json").write_text(json.dumps(fields, indent=1) + "\n", encoding="utf-8")
        # How it was computed is told, and is no part of what the model is.
        draft.fields.update({**fields, "computed": dict(computed or {})})
    shutil.rmtree(work, ignore_errors=True)


class Log:
    """log.jsonl and, if asked, TensorBoard's event file and other trackers; written by the first process only."""

    def __init__(
        self, work: Path, start: int, *, tensorboard: bool, first: bool, trackers: str = "", name: str = "alphita"
    ) -> None:
        self.first = first
        self.board: Any = None
        self.trackers = _trackers(trackers, work, name) if first else []
        if self.first:
            _cut(work / "log.jsonl", start)
            self.file = open(work / "log.jsonl", "a", encoding="utf-8")  # noqa: SIM115 - closed in __exit__
            if tensorboard:
                from torch.utils.tensorboard import SummaryWriter

                self.board = SummaryWriter(str(work / "tensorboard"), purge_step=start + 1)

    def __enter__(self) -> Log:
        return self

    def __exit__(self, *_arguments: object) -> None:
        if self.first:
            self.file.close()
            if self.board is not None:
                self.board.close()
            for tracker in self.trackers:
                tracker.finish()

    def write(self, figures: Mapping[str, float]) -> None:
        """Add a line: "step" and the figures of that step."""
        if not self.first:
            return
        rounded = {key: value if isinstance(value, int) else round(float(value), 6) for key, value in figures.items()}
        self.file.write(json.dumps(rounded) + "\n")
        self.file.flush()
        for tracker in self.trackers:
            tracker.log({name: value for name, value in rounded.items() if name != "step"}, step=int(figures["step"]))
        if self.board is not None:
            for name, value in figures.items():
                if name != "step":
                    self.board.add_scalar(name, value, int(figures["step"]))

    def flush(self) -> None:
        """Leave nothing unwritten."""
        if self.first:
            self.file.flush()
            if self.board is not None:
                self.board.flush()


def _trackers(names: str, work: Path, run: str) -> list[Any]:
    """Open the trackers of a setting, "wandb,mlflow"; each takes its own settings from the environment."""
    given = [name.strip() for name in names.split(",") if name.strip()]
    if not given:
        return []
    known = require("accelerate.tracking", "trackers").LOGGER_TYPE_TO_CLASS
    opened = []
    for name in given:
        if name not in known:
            raise UsageError(registry.unknown("tracker", name, known))
        options = {"logging_dir": work / name} if known[name].requires_logging_directory else {}
        try:
            tracker = known[name](run, **options)
            tracker.start()
        except ImportError as error:
            raise UsageError(f"the tracker {name} is not installed: {error}; pip install {name}") from error
        opened.append(tracker)
    return opened


def _cut(path: Path, step: int) -> None:
    """Drop the lines that a killed run wrote after its newest checkpoint."""
    if not path.exists():
        return
    kept = []
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            if json.loads(line)["step"] <= step:
                kept.append(line)
        except ValueError:
            break
    path.write_text("".join(line + "\n" for line in kept), encoding="utf-8")


Dev = Callable[[TermEncoder], dict[str, float]]
"""Encoder -> dev scores by name, greater is better."""


class Mode(TypedDict, total=False):
    """How a run begins: as itself, where all are false."""

    resume: bool  # go on with an unfinished one
    force: bool  # replace what is there
    dry_run: bool  # only measure; write nothing


@dataclass(frozen=True)
class Phase:
    """One phase: where its model goes and how it begins."""

    name: str  # e.g. "contrasted"; "" where the run is one, and its manifest tells of no phases
    out: Path
    resume: bool = False
    force: bool = False
    dry_run: bool = False  # only measure; write nothing
    # The figures of the phases before it, by name, for the manifest.
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
            remedy = "use --force, and --resume too if an unfinished run was to replace it"
            raise other_run(self.out, f"give what it was started with; or {remedy}")
        figures: dict[str, float] = manifest["figures"]
        return figures


class Phases:
    """The phases of one run, in order."""

    def __init__(self, out: Path, names: Sequence[str], **mode: Unpack[Mode]) -> None:
        self.folder = beside(out, ".phases")  # where the models of all but the last lie
        self.figures: dict[str, dict[str, float]] = {}
        self._names, self._last = list(names), Phase(names[-1], out, **mode)
        self.dry_run = self._last.dry_run

    def check(self) -> None:
        """Make sure that the run may begin; with force, an earlier run's phases are moved aside."""
        everyone = ranks.connect()
        if everyone.first and not self.dry_run:
            self._check()
        everyone.wait()

    def _check(self) -> None:
        check(self._last.out, resume=self._last.resume, force=self._last.force)
        if not self.folder.exists() or self._last.resume:
            return
        if not self._last.force:
            raise UsageError(
                f"{self.folder} holds the phases of an earlier run; go on with --resume, or start again with --force"
            )
        number = 1
        while (aside := self.folder.with_name(f"{self.folder.name}.old-{number}")).exists():
            number += 1
        self.folder.rename(aside)

    def __contains__(self, name: str) -> bool:
        return name in self._names

    def __getitem__(self, name: str) -> Phase:
        """Return a phase by its name."""
        before = {done: dict(figures) for done, figures in self.figures.items()}
        if name == self._last.name:
            return replace(self._last, before=before)
        return replace(self._last, name=name, out=self.folder / name, force=False, before=before)

    def add(self, name: str, figures: Mapping[str, float], start: str | Path) -> str | Path:
        """Note what a phase came to, and return its model, which a dry run lacks: there what it started from."""
        self.figures[name] = dict(figures)
        return start if self.dry_run else self[name].out


def manifest_fields(phase: Phase, facts: Mapping[str, Any], figures: Mapping[str, float]) -> dict[str, Any]:
    """Return what a phase's manifest says: the facts it depends on, their hash, its figures and those before it."""
    phases = {**{name: dict(done) for name, done in phase.before.items()}, phase.name: dict(figures)}
    return {**facts, "fingerprint": fingerprint(facts), "figures": dict(figures), "phases": phases}
