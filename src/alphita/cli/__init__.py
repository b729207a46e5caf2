"""The command line: one file a command, each of which parses, calls and prints.

`main` turns every error made for users into one line on stderr and an exit code: 0 done, 1 failed, 2 wrong use.
"""

from __future__ import annotations

import contextlib
import errno
import io
import sys
from typing import Annotated, Any

import typer

from alphita import __version__, machine, printing, progress
from alphita.cli._commands import Commands
from alphita.errors import AlphitaError, missing_extra, shorten
from alphita.registry import Group

# What ONNX Runtime, FAISS, torch and the system's loader say in errors of other kinds.
NO_MEMORY = ("bad_alloc", "bad allocation", "failed to allocate", "allocate memory", "failed to map segment")

# Other packages add commands by entry points that name a module such as the files here.
PLUGINS = Group("alphita.commands", ())

app = typer.Typer(
    name="alphita",
    cls=Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Learn what medical terms mean from a terminology, and map any string to the concept it names.",
)


def _version(shown: bool) -> None:
    if shown:
        print(f"alphita {__version__}")
        raise typer.Exit


@app.callback()
def _alphita(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Say only what is asked for, and what is wrong; no progress.")
    ] = False,
) -> None:
    if quiet:
        progress.silence()


class _Output(io.FileIO):
    """Standard output, which keeps the reason why it could not be written."""

    lost: OSError | None = None

    def write(self, data: Any, /) -> int:  # noqa: ANN401 - whatever holds bytes
        try:
            return super().write(data)
        except OSError as error:
            self.lost = error
            raise


def main() -> None:
    """Run the command line and exit."""
    before, code = sys.stdout, 0
    output = _write_utf8()
    try:
        with printing.guarded():
            code = _run()
        _flush()
    except (OSError, SystemExit):
        # Where a pipe is closed, click and rich leave with 1 by themselves.
        if output is None or output.lost is None:
            raise
    finally:
        with contextlib.suppress(OSError):
            _flush()
        sys.stdout = before
    # Whoever closed the pipe has read enough.
    if output is not None and output.lost is not None and not isinstance(output.lost, BrokenPipeError):
        print(f"error: cannot write to standard output: {output.lost.strerror}", file=sys.stderr)
        code = code or 1
    sys.exit(code or 0)


def _write_utf8() -> _Output | None:
    """Print UTF-8 whatever the locale: names are in all languages, and what is printed is read by programs."""
    if isinstance(sys.stderr, io.TextIOWrapper):
        sys.stderr.reconfigure(encoding="utf-8", errors="backslashreplace")
    stream = sys.stdout
    if not isinstance(stream, io.TextIOWrapper) or stream.isatty():
        return None
    try:
        output = _Output(stream.fileno(), "wb", closefd=False)
    except io.UnsupportedOperation:
        return None
    stream.flush()
    # Bytes of a file's name that are not UTF-8 come out as they are.
    sys.stdout = io.TextIOWrapper(
        output if stream.write_through else io.BufferedWriter(output),
        encoding="utf-8",
        errors="surrogateescape",
        line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )
    return output


def _flush() -> None:
    if sys.stdout is not None:
        sys.stdout.flush()


def _tell_memory(error: Exception) -> int:
    detail = f" ({shorten(error, 200)})" if str(error) else ""
    print(f"error: there is not enough memory{detail}; end other programs, or use fewer --threads", file=sys.stderr)
    return 1


def _run() -> Any:  # noqa: ANN401 - of typer
    """Run the command line; return the exit code, or nothing."""
    try:
        # Before a command is found, for that loads libraries.
        machine.fit_addresses()
        code = app(standalone_mode=False)
    except MemoryError as error:
        code = _tell_memory(error)
    except AlphitaError as error:
        print(f"error: {error}", file=sys.stderr)
        code = error.exit_code
    except typer.Exit as leaving:
        code = leaving.exit_code
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        code = 130
    except OSError as error:
        if error.errno == errno.ENOMEM:
            return _tell_memory(error)
        # A name that is too long, say, which whatever looks at it first comes upon.
        if error.filename is None:
            raise
        print(f"error: {shorten(error.filename, 255)}: {error.strerror}", file=sys.stderr)
        code = 1
    except Exception as error:
        if isinstance(error, ModuleNotFoundError) and (absent := missing_extra(error)):
            print(f"error: {absent}", file=sys.stderr)
            return absent.exit_code
        if any(words in str(error).lower() for words in NO_MEMORY):
            return _tell_memory(error)
        show = getattr(error, "show", None)
        if show is None:
            raise
        show()  # click's own usage errors print themselves
        code = getattr(error, "exit_code", 2)
    return code
