"""`alphita train RECIPE`: one command a recipe, found in alphita_lab.recipes; only the one asked for is imported."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from alphita import printing, registry
from alphita.cli._from_spec import AsJson, with_options
from alphita.errors import UsageError, masked, require
from alphita.progress import say
from alphita_lab.cli._shared import SettingsCommand, plain
from alphita_lab.cli._train_spec import TrainSpec

if TYPE_CHECKING:
    from alphita.calibrate.from_mappings import InTime
    from alphita.terminology.splits import Split
    from alphita.terminology.store import Terminology


@dataclass
class Decisions:
    """A run's decisions."""

    reviews: str
    found: InTime
    base: Terminology
    encoder: str
    out: Path
    exclude: frozenset[str]
    threads: int | None
    counts: dict[str, Any] = field(default_factory=dict)

    def prepare(self, *, force: bool, resume: bool) -> tuple[Terminology, Path | None]:
        """Write the terminology to learn from; return it, and the file of hard negatives, if there are any."""
        from alphita.calibrate.from_mappings import training_input

        learned, negatives, self.found, self.counts = training_input(
            self.base, self.found, self.out, exclude=self.exclude, force=force, resume=resume
        )
        say(f"{self.counts['learned']:,} decisions to learn from, {self.counts['held_out']:,} newer ones held out")
        return learned, negatives if negatives.read_text(encoding="utf-8").count("\n") > 1 else None

    def report(self, learned: Terminology) -> None:
        """Measure on the decisions held out; write OUT.report.json and print it."""
        from alphita import report
        from alphita.calibrate.from_mappings import found_nearest
        from alphita.encoder.encoder import TermEncoder

        before, after = (TermEncoder.load(one, threads=self.threads) for one in (self.encoder, self.out))
        gained = {
            "before": found_nearest(self.base, before, self.found.held_out),
            "synonyms alone": found_nearest(learned, before, self.found.held_out),
            "after": found_nearest(learned, after, self.found.held_out),
        }
        data = {
            "reviews": Path(masked(self.reviews)).name,
            "terminology": self.base.content_hash,
            "learned": learned.content_hash,
            "model": after.content_hash,
        }
        path = self.out.with_name(f"{self.out.name}.report.json")
        report.write(path, {"decisions": self.counts, "held_out": gained}, provenance=report.provenance(data=data))
        print(f"on the newest decisions that name a concept ({int(gained['after']['n']):,}), which were held out:")
        for name, one in gained.items():
            shown = "  ".join(f"{key} {value:.1%}" for key, value in one.items() if key != "n")
            print(f"  {name:<15} {shown}")
        print(f"report: {path}; index the new model with -t {learned.path}")


def read_decisions(
    reviews: str, base: Terminology, encoder: str, out: Path, *, exclude: Split | None, threads: int | None
) -> Decisions:
    """Read the decisions of a store."""
    from alphita.calibrate.from_mappings import in_time
    from alphita.review.store import ReviewStore

    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise UsageError("--from-mappings trains in one process: the terminology to learn from is made on the way")
    with ReviewStore.open(reviews) as store:
        found = in_time(store)
    return Decisions(reviews, found, base, encoder, out, frozenset() if exclude is None else exclude.cleaned, threads)


RECIPES = "alphita_lab.recipes"


class RecipeGroup(TyperGroup):
    """A group whose commands are the recipes."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ANN401 - typer's own context class is private
        """Return the recipes' names."""
        return registry.names(RECIPES)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ANN401
        """Return the command of one recipe."""
        try:
            return _recipe_command(cmd_name)
        except registry.BrokenPlugin as error:
            # The help of all shows what is wrong with the one; who asks for it is told.
            problem = error

            def refuse() -> None:
                raise problem

            any_options = {"ignore_unknown_options": True, "allow_extra_args": True}
            return TyperCommand(cmd_name, callback=refuse, help=str(error), context_settings=any_options)


app = typer.Typer(cls=RecipeGroup, no_args_is_help=True, help="Train a term encoder by one of the recipes.")


@app.callback(invoke_without_command=True)
def _list(
    shown: Annotated[bool, typer.Option("--list", help="List the recipes and leave.")] = False, as_json: AsJson = False
) -> None:
    if not shown:
        return
    recipes = registry.load_all(RECIPES)
    first_lines = {name: ((recipe.__doc__ or "").strip().splitlines() or [""])[0] for name, recipe in recipes.items()}
    if as_json:
        printing.print_rows({"name": name, "what": line} for name, line in first_lines.items())
    else:
        for name, line in first_lines.items():
            print(f"{name:<16} {line}{registry.origin(RECIPES, name)}")
    raise typer.Exit


def _recipe_command(name: str) -> Any:  # noqa: ANN401
    recipe = registry.load(RECIPES, name)
    single = typer.Typer(add_completion=False)

    @single.command(
        name,
        cls=SettingsCommand,
        help=plain(recipe.__doc__ or "", f"alphita train {name} -t hpo.terminology -o my-model"),
    )
    @with_options
    def train(spec: TrainSpec) -> None:
        """Train by this recipe; the help is the recipe's own."""
        if spec.seeds:
            from alphita_lab.cli import _seeds

            _seeds.run(name, spec, run)
        elif spec.evaluate or spec.data:
            raise UsageError("--evaluate and --data go with --seeds; afterwards: alphita evaluate BENCHMARK --model X")
        else:
            run(name, spec)

    command = typer.main.get_command(single)
    assert isinstance(command, SettingsCommand)
    command.choice = recipe
    return command


def run(name: str, spec: TrainSpec) -> dict[str, float]:
    """Train recipe `name`, export the model if asked to, and print where each lies and its last figures, returned too.

    With `resume` and an export, a model that is finished is not trained again.

    Raises:
        UsageError: options exclude each other, or the recipe's models cannot be exported so.
    """
    for package in ("torch", "transformers"):
        require(package, "train")
    from alphita import config, machine
    from alphita.terminology.splits import Split
    from alphita.terminology.store import load_terminology
    from alphita_lab import model_card
    from alphita_lab.training.engine import runs

    recipe, out, how = registry.load(RECIPES, name), spec.output, spec.how()
    if spec.terminology is None and (spec.from_mappings or getattr(recipe, "NEEDS_TERMINOLOGY", True)):
        raise UsageError("Missing option '--terminology' / '-t'.")
    plain_out = _plain_out(name, spec, getattr(recipe, "EXPORTS", ()))
    runs.check_flags(out, *([plain_out] if spec.export else []), resume=spec.resume, force=spec.force)
    machine.set_threads(spec.threads)
    resolved = config.resolve(recipe.Config, file=spec.config, sets=spec.settings)
    learns = None
    if spec.export:
        from alphita_lab.training.mentions.plain_export import Distilling

        learns = config.resolve(Distilling, sets=spec.export_settings)
    terminology = load_terminology(spec.terminology) if spec.terminology else None
    split = Split.load(spec.split) if spec.split else None
    decisions = None
    if spec.from_mappings is not None and terminology is not None:
        decisions = read_decisions(
            spec.from_mappings, terminology, spec.encoder, out, exclude=split, threads=spec.threads
        )
        if spec.dry_run:
            say("a dry run takes the terminology as it is, without what was reviewed")
        else:
            terminology, negatives = decisions.prepare(force=spec.force, resume=spec.resume)
            if "triples" in recipe.Config.model_fields and negatives is not None:
                listed = ",".join(filter(None, (resolved.triples, str(negatives))))
                resolved = config.resolve(recipe.Config, file=spec.config, sets=[*spec.settings, f"triples={listed}"])
    trained: dict[str, float] = {}
    # With force, the model that is there may be the one to be replaced: the recipe tells.
    if not (spec.export and spec.resume and out.exists()) or spec.force:
        trained = recipe.train(terminology, spec.encoder, out, resolved, split=split, **how)
        _tell(out, trained, dry_run=spec.dry_run)
        if not spec.dry_run and int(os.environ.get("RANK", "0")) == 0:
            model_card.write(out, spec.encoder, terminology)
            if spec.push:
                print(f"pushed to {model_card.push(out, spec.push)}")
    if decisions is not None and terminology is not None and not spec.dry_run:
        decisions.report(terminology)
    # What is exported was injected with a terminology's concepts.
    if learns is None or terminology is None:
        return trained
    if spec.dry_run and not out.exists():
        say("the export can be measured once the model is there, by --resume --dry-run")
        return trained
    from alphita_lab.training.mentions.plain_export import distil_plain

    figures = distil_plain(out, plain_out, terminology, learns, split=split, **how)
    _tell(plain_out, figures, dry_run=spec.dry_run)
    return trained


def _plain_out(name: str, spec: TrainSpec, kinds: Sequence[str]) -> Path:
    from alphita_lab.training.engine import runs

    if spec.export and spec.export not in kinds:
        offered = f"it takes {', '.join(kinds)}" if kinds else "its models are plain encoders already"
        raise UsageError(f"--export {spec.export} does not go with {name}: {offered}")
    if spec.export_settings and not spec.export:
        raise UsageError("--export-set needs --export")
    out = runs.beside(spec.output, f".{spec.export}")
    if spec.export and out.exists() and not spec.force:
        raise UsageError(f"{out} already exists; choose another output or use --force")
    return out


def _tell(out: Path, figures: Mapping[str, float], *, dry_run: bool) -> None:
    # Nothing to tell after a dry run, nor by the further processes of a run of several.
    if dry_run or int(os.environ.get("RANK", "0")) > 0:
        return
    print(f"model: {out}")
    for key, value in figures.items():
        print(f"  {key}: {value:.4g}")
