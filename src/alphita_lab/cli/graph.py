"""`alphita graph train MODEL`: embeddings of relations; each model of `alphita_lab.graph.models` is a command."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from alphita import machine, registry
from alphita.cli._from_spec import Threads
from alphita.errors import UsageError, require
from alphita_lab.cli._shared import SettingsCommand, plain

MODELS = "alphita_lab.graph.models"


class ModelGroup(TyperGroup):
    """A group whose commands are the graph models."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ANN401 - typer's own context class is private
        """Return the models' names."""
        return registry.names(MODELS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ANN401
        """Return the command of one model."""
        return _model_command(cmd_name)


app = typer.Typer(help="Embeddings of a terminology's relations.", no_args_is_help=True)
_train = typer.Typer(help="Train vectors of concepts from their relations, by one of the models.", no_args_is_help=True)
app.add_typer(_train, name="train", cls=ModelGroup)


@_train.callback()
def _models() -> None:
    pass


def _model_command(name: str) -> Any:  # noqa: ANN401
    model = registry.load(MODELS, name)
    single = typer.Typer(add_completion=False)

    @single.command(
        name,
        cls=SettingsCommand,
        help=plain(inspect.getdoc(model) or "", f"alphita graph train {name} -t hpo.terminology -o hpo.vectors"),
    )
    def train(
        terminology: Annotated[Path, typer.Option("--terminology", "-t", help="Terminology to learn from.")],
        out: Annotated[Path, typer.Option("--output", "-o", help="Folder of vectors to create.")],
        split: Annotated[
            Path | None,
            typer.Option(help="Split whose held-out triples to exclude from training, and to score at the end."),
        ] = None,
        settings: Annotated[list[str] | None, typer.Option("--set", help="A setting, key=value; repeatable.")] = None,
        config_file: Annotated[Path | None, typer.Option("--config", help="TOML file with settings.")] = None,
        device: Annotated[str, typer.Option(help="Device: cpu, cuda.")] = "cpu",
        threads: Threads = None,
        resume: Annotated[bool, typer.Option("--resume", help="Continue the unfinished run.")] = False,
        force: Annotated[
            bool, typer.Option("--force", help="Replace existing vectors and, without --resume, an unfinished run.")
        ] = False,
    ) -> None:
        from alphita import config

        if device not in ("cpu", "cuda"):
            raise UsageError(registry.unknown("device", device, ("cpu", "cuda")))
        for package in ("torch", "pykeen"):
            require(package, "graph")
        resolved = config.resolve(model.Config, file=config_file, sets=settings or ())
        machine.set_threads(threads)
        machine.keep_freed_memory()
        from alphita.terminology.splits import Split
        from alphita.terminology.store import load_terminology
        from alphita_lab.evaluation.report import entries
        from alphita_lab.graph import kge
        from alphita_lab.training.engine import runs

        runs.check_flags(out, resume=resume, force=force)
        runs.check(out, resume=resume, force=force)
        figures = kge.train(
            load_terminology(terminology),
            name,
            out,
            resolved,
            work=runs.folder(out),
            split=Split.load(split) if split else None,
            device=device,
            force=force,
        )
        print(f"vectors: {out}")
        # As reports print them: what lies in 0 to 1 as percentages.
        for key, value in figures.items():
            print(f"  {key}: {entries.number(value, fraction=key != 'MR')}")

    command = typer.main.get_command(single)
    assert isinstance(command, SettingsCommand)
    command.choice = model
    return command
