"""A function of ours in a process of its own, with a limit of memory: no library can end this process with it.

Values come as lines of JSON, then an error or that it is done. It ends when its standard input is closed.
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, cast

from alphita.errors import AlphitaError, InputError, UsageError

try:
    import resource
except ImportError:  # Windows has none
    resource = None  # type: ignore[assignment]

GIB = 2**30
DONE = b"null\n"
PARTS = ("problem", "line", "field", "remedy")
# Errors that are raised again as they are; a full disk is an OSError.
KINDS = {kind.__name__: kind for kind in (UsageError, AlphitaError, OSError)}


def command(function: str, memory: int) -> tuple[list[str], dict[str, str]]:
    """Return the command and the environment of a process that calls "package.module:function"."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(map(os.path.abspath, sys.path))}
    return [sys.executable, "-c", "from alphita import apart; apart.main()", function, str(memory)], environment


def encoded(arguments: dict[str, Any]) -> bytes:
    """Return what the process reads."""
    return json.dumps(arguments).encode() + b"\n"


def values(lines: Iterable[bytes], memory: int, file: str | Path | None = None) -> Iterator[Any]:
    """Yield what the function yields."""
    for line in lines:
        if line == DONE:
            return
        value = json.loads(line)
        if not isinstance(value, dict):
            yield value[0]
        elif value.keys() == set(PARTS):
            raise InputError(file=file, **value)
        else:
            raise KINDS[value["kind"]](*value["args"])
    raise InputError(f"reading it takes more than {memory / GIB:.1f} GB of memory, or it is damaged", file=file)


def run(function: str, memory: int, file: str | Path | None = None, **arguments: Any) -> Iterator[Any]:  # noqa: ANN401
    """Call a function in a process of its own, and yield what it yields; see `command` and `values`."""
    line, environment = command(function, memory)
    with subprocess.Popen(
        line, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        try:
            given = cast(BinaryIO, process.stdin)
            given.write(encoded(arguments))
            given.flush()
            yield from values(cast(BinaryIO, process.stdout), memory, file)
        finally:
            process.kill()


def main() -> None:
    """Be such a process."""
    name, memory = sys.argv[1:]
    arguments = json.loads(sys.stdin.buffer.readline())
    threading.Thread(target=_end_with_parent, daemon=True).start()
    out, code = sys.stdout.buffer, 0
    # What else is printed is not for whoever reads the values.
    sys.stdout = sys.stderr
    try:
        _limit(int(memory))
        module, _, function = name.partition(":")
        for value in getattr(importlib.import_module(module), function)(**arguments):
            out.write(json.dumps([value]).encode() + b"\n")
        out.write(DONE)
    except InputError as error:
        out.write(encoded({part: getattr(error, part) for part in PARTS}))
    except (AlphitaError, OSError) as error:
        kind = next(name for name, kind in KINDS.items() if isinstance(error, kind))
        out.write(encoded({"kind": kind, "args": error.args}))
    except MemoryError:
        code = 1
    out.flush()
    os._exit(code)


def _end_with_parent() -> None:
    while os.read(0, 1):
        pass
    os._exit(1)


def _limit(memory: int) -> None:
    if resource is None:
        return
    _, most = resource.getrlimit(resource.RLIMIT_DATA)
    memory = memory if most == resource.RLIM_INFINITY else min(memory, most)
    resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
