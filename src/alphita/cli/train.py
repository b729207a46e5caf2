"""`alphita train RECIPE`: one command a recipe, found in alphita.recipes; only the one asked for is imported."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from alphita import registry
from alphita.cli._settings import SettingsCommand, plain
from alphita.errors import UsageError
from alphita.progress import say

if TYPE_CHECKING:
    from alphita.training.mentions.plain_export import Distilling

RECIPES = "alphita.recipes"


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
            return _refusing_command(cmd_name, error)


app = typer.Typer(no_args_is_help=True, help="Train a term encoder by one of the recipes.")


@app.callback(invoke_without_command=True)
def _list(shown: Annotated[bool, typer.Option("--list", help="List the recipes and leave.")] = False) -> None:
    if shown:
        for name, recipe in registry.load_all(RECIPES).items():
            first_line = ((recipe.__doc__ or "").strip().splitlines() or [""])[0]
            print(f"{name:<16} {first_line}{registry.origin(RECIPES, name)}")
        raise typer.Exit


def _refusing_command(name: str, error: registry.BrokenPlugin) -> Any:  # noqa: ANN401
    def refuse() -> None:
        raise error

    any_options = {"ignore_unknown_options": True, "allow_extra_args": True}
    return TyperCommand(name, callback=refuse, help=str(error), context_settings=any_options)


def _recipe_command(name: str) -> Any:  # noqa: ANN401
    recipe = registry.load(RECIPES, name)
    single = typer.Typer(add_completion=False)

    @single.command(name, cls=SettingsCommand, help=plain(recipe.__doc__ or ""))
    def train(
        terminology: Annotated[Path, typer.Option("--terminology", "-t", help="The terminology to learn from.")],
        out: Annotated[Path, typer.Option("--output", "-o", help="The model folder to create.")],
        encoder: Annotated[
            str, typer.Option(help="The encoder to start from: alphita-en, minilm, a folder or a hub name.")
        ] = "minilm",
        split: Annotated[Path | None, typer.Option(help="A split whose held-out strings are not trained on.")] = None,
        settings: Annotated[list[str] | None, typer.Option("--set", help="A setting, key=value; repeatable.")] = None,
        config_file: Annotated[Path | None, typer.Option("--config", help="A TOML file of settings.")] = None,
        threads: Annotated[int | None, typer.Option(help="Size of every thread pool; by default one a core.")] = None,
        from_mappings: Annotated[
            Path | None,
            typer.Option(
                help="A store of reviews: accepted mentions become synonyms (in OUTPUT.terminology), wrong "
                "candidates hard negatives where the recipe takes such; the newest fifth is held out."
            ),
        ] = None,
        resume: Annotated[bool, typer.Option("--resume", help="Go on with the unfinished run.")] = False,
        force: Annotated[
            bool, typer.Option("--force", help="Replace an existing model and, without --resume, an unfinished run.")
        ] = False,
        dry_run: Annotated[
            bool, typer.Option("--dry-run", help="Run a few batches and say what the whole takes; write nothing.")
        ] = False,
        export: Annotated[
            str, typer.Option(help="distilled: also make OUTPUT.distilled, a plain encoder that other libraries open.")
        ] = "",
        export_settings: Annotated[
            list[str] | None, typer.Option("--export-set", help="A setting of the export, key=value; repeatable.")
        ] = None,
    ) -> None:
        """Train by this recipe; the help is the recipe's own."""
        run(
            name,
            terminology,
            out,
            encoder,
            split,
            settings or [],
            config_file,
            threads,
            resume=resume,
            force=force,
            dry_run=dry_run,
            export=export,
            export_settings=export_settings or [],
            from_mappings=from_mappings,
        )

    command = typer.main.get_command(single)
    assert isinstance(command, SettingsCommand)
    command.choice = recipe
    return command


def run(
    name: str,
    terminology: Path,
    out: Path,
    encoder: str,
    split: Path | None,
    settings: list[str],
    config_file: Path | None,
    threads: int | None,
    *,
    resume: bool,
    force: bool,
    dry_run: bool,
    export: str = "",
    export_settings: Sequence[str] = (),
    from_mappings: Path | None = None,
) -> None:
    """Train recipe `name`, export the model if asked to, and print where each lies and its last figures.

    With `resume` and an export, a model that is finished is not trained again.

    Raises:
        UsageError: options exclude each other, or the recipe's models cannot be exported so.
    """
    from alphita import config, machine
    from alphita.terminology.splits import Split
    from alphita.terminology.store import load_terminology
    from alphita.training.engine import runs

    recipe = registry.load(RECIPES, name)
    kinds = getattr(recipe, "EXPORTS", ())
    if export and export not in kinds:
        offered = f"it takes {', '.join(kinds)}" if kinds else "its models are plain encoders already"
        raise UsageError(f"--export {export} does not go with {name}: {offered}")
    if export_settings and not export:
        raise UsageError("--export-set needs --export")
    plain_out = runs.beside(out, f".{export}")
    if export and plain_out.exists() and not force:
        raise UsageError(f"{plain_out} already exists; choose another output or use --force")
    runs.check_flags(out, *([plain_out] if export else []), resume=resume, force=force)
    machine.set_threads(threads)
    resolved = config.resolve(recipe.Config, file=config_file, sets=settings)
    learns = _export_config(export_settings) if export else None
    given = load_terminology(terminology), Split.load(split) if split else None
    decisions = None
    if from_mappings is not None:
        from alphita.cli import train_decisions

        decisions = train_decisions.read(from_mappings, given[0], encoder, out, exclude=given[1], threads=threads)
        if dry_run:
            say("a dry run takes the terminology as it is, without what was reviewed")
        else:
            learned, negatives = decisions.prepare(force=force, resume=resume)
            given = learned, given[1]
            if "triples" in recipe.Config.model_fields and negatives is not None:
                listed = ",".join(filter(None, (resolved.triples, str(negatives))))
                resolved = config.resolve(recipe.Config, file=config_file, sets=[*settings, f"triples={listed}"])
    # With force, the model that is there may be the one to be replaced: the recipe tells.
    if not (export and resume and out.exists()) or force:
        figures = recipe.train(
            given[0], encoder, out, resolved, split=given[1], resume=resume, force=force, dry_run=dry_run
        )
        _tell(out, figures, dry_run=dry_run)
    if decisions is not None and not dry_run:
        decisions.report(given[0])
    if learns is None:
        return
    if dry_run and not out.exists():
        say("the export can be measured once the model is there, by --resume --dry-run")
        return
    from alphita.training.mentions.plain_export import distil_plain

    figures = distil_plain(
        out, plain_out, given[0], learns, split=given[1], resume=resume, force=force, dry_run=dry_run
    )
    _tell(plain_out, figures, dry_run=dry_run)


def _export_config(settings: Sequence[str]) -> Distilling:
    from alphita import config
    from alphita.training.mentions.plain_export import Distilling

    return config.resolve(Distilling, sets=settings)


def _tell(out: Path, figures: Mapping[str, float], *, dry_run: bool) -> None:
    """Print where a model lies and its last figures."""
    # Nothing to tell after a dry run, nor by the further processes of a run of several.
    if dry_run or int(os.environ.get("RANK", "0")) > 0:
        return
    print(f"model: {out}")
    for key, value in figures.items():
        print(f"  {key}: {value:.4g}")
