"""The command line: one file a command, each of which parses, calls and prints.

`main` turns every error made for users into one line on stderr and an exit code: 0 done, 1 failed, 2 wrong use.
"""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from alphita import __version__
from alphita.cli import (
    bitext,
    calibrate,
    evaluate,
    graph,
    index,
    mappings,
    mentions,
    normalize,
    quickstart,
    review,
    search,
    serve,
    server,
    terminology,
    train,
    vocabulary,
)
from alphita.errors import AlphitaError

app = typer.Typer(
    name="alphita", no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False,
    help="Learn what medical terms mean from a terminology, and map any string to the concept it names.",
)  # fmt: skip


def _version(shown: bool) -> None:
    if shown:
        print(f"alphita {__version__}")
        raise typer.Exit


@app.callback()
def _alphita(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


app.command("quickstart")(quickstart.quickstart)
app.add_typer(terminology.app, name="terminology")
app.add_typer(train.app, name="train", cls=train.RecipeGroup)
app.add_typer(vocabulary.app, name="vocabulary")
app.add_typer(graph.app, name="graph")
app.command("mentions")(mentions.mentions)
app.command("bitext")(bitext.bitext)
app.command("evaluate")(evaluate.evaluate)
app.command("index")(index.index)
app.command("calibrate")(calibrate.calibrate)
app.add_typer(mappings.app, name="mappings")
app.command("normalize")(normalize.normalize)
app.command("serve")(serve.serve)
app.add_typer(review.app, name="review")
app.add_typer(search.app, name="search")
app.add_typer(server.app, name="server")


def main() -> None:
    """Run the command line and exit."""
    try:
        code = app(standalone_mode=False)
    except AlphitaError as error:
        print(f"error: {error}", file=sys.stderr)
        code = error.exit_code
    except typer.Exit as leaving:
        code = leaving.exit_code
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        code = 130
    except BrokenPipeError:
        # The reader of our output went away; leave without a second error at shutdown.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    except Exception as error:
        show = getattr(error, "show", None)
        if show is None:
            raise
        show()  # click's own usage errors print themselves
        code = getattr(error, "exit_code", 2)
    sys.exit(code or 0)
