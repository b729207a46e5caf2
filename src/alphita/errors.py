"""What can go wrong, said so that a person knows what to do next.

Every error that a user can cause derives from `AlphitaError`; the command line prints its message and leaves with its
`exit_code`, without a traceback. Single bad rows do not raise: they go to `Rejects`.
"""

from __future__ import annotations

import contextlib
import csv
import importlib
import io
import os
import re
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, TracebackType

from alphita.spreadsheets import Guard

MAX_SHOWN = 80
# Of a message: a file may bring names of any length to it.
MAX_MESSAGE = 3_000
_PASSWORD, _QUERIED = re.compile(r"(://[^\s:/@?]*):[^\s?]*@"), re.compile(r"([?&]password=)[^\s&]+")


class AlphitaError(Exception):
    """A failure with a message for the user; the command line exits with `exit_code`, which is 1.

    A message that is too long loses its middle: it begins with the problem and ends with the remedy.
    """

    exit_code = 1

    def __init__(self, message: str = "") -> None:
        half = MAX_MESSAGE // 2
        super().__init__(message if len(message) <= MAX_MESSAGE else f"{message[:half]} … {message[-half:]}")


class UsageError(AlphitaError):
    """Wrong use: an unknown name, option or column; the command line leaves with 2."""

    exit_code = 2


class InputError(AlphitaError):
    """Bad input: names the file, line, field and value, and says what would be right."""

    def __init__(
        self,
        problem: str,
        *,
        file: str | Path | None = None,
        line: int | None = None,
        field: str | None = None,
        value: object = None,
        remedy: str | None = None,
    ) -> None:
        """Build the message.

        Args:
            problem: what is wrong, in one clause.
            file: the file the input came from.
            line: its 1-based line (or row) number.
            field: the field or column.
            value: the offending value; cut to 80 characters when shown.
            remedy: what would be right, or the command to run.
        """
        self.problem, self.file, self.line = problem, file, line
        self.field, self.value, self.remedy = field, value, remedy
        where = ":".join(str(part) for part in (file, line) if part is not None)
        what = [f"field {field!r}"] * (field is not None) + [f"value {shorten(value)!r}"] * (value is not None)
        message = (f"{where}: " if where else "") + problem + (f" ({', '.join(what)})" if what else "")
        super().__init__(message + (f"; {remedy}" if remedy else ""))


class MissingExtra(AlphitaError):
    """An optional part is not installed; the message says how to install it."""

    def __init__(self, package: str, extra: str) -> None:
        super().__init__(f"this needs {package}, which is not installed: pip install 'alphita[{extra}]'")


# The extra that brings each package, by the name that is imported; the first of several.
EXTRAS = {
    **dict.fromkeys(("torch", "transformers", "onnx", "ahocorasick_rs", "huggingface_hub"), "train"),
    **dict.fromkeys(("jinja2", "sklearn"), "evaluate"),
    **dict.fromkeys(("matplotlib", "openTSNE"), "plots"),
    **dict.fromkeys(("openpyxl", "python_calamine"), "excel"),
    **{"pykeen": "graph", "jieba": "chinese", "ray": "cluster", "pyspark": "spark", "psycopg": "postgresql"},
    **{"tensorboard": "tensorboard", "spacy": "spacy", "mcp": "mcp", "peft": "lora", "accelerate": "trackers"},
    "authlib": "oidc",
}


def missing_extra(error: ModuleNotFoundError) -> MissingExtra | None:
    """Return what to say where a module that an extra brings is not installed; None for any other."""
    package = (error.name or "").split(".")[0]
    return MissingExtra(package, EXTRAS[package]) if package in EXTRAS else None


def require(module: str, extra: str) -> ModuleType:
    """Import `module`, or say which extra installs it.

    Raises:
        MissingExtra: the module's top package is not installed.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name == module.split(".")[0]:
            raise MissingExtra(module.split(".")[0], extra) from None
        raise


def masked(text: object) -> str:
    """Return a text, such as the address of a database, without the passwords in it."""
    return _QUERIED.sub(r"\1***", _PASSWORD.sub(r"\1:***@", str(text)))


def counted(count: int, noun: str) -> str:
    """Return "1 row", "2 rows"."""
    return f"{count:,} {noun}{'s' * (count != 1)}"


def shorten(value: object, limit: int = MAX_SHOWN) -> str:
    """Return `value` as text of at most `limit` characters."""
    text = str(value)
    return text if len(text) <= limit else text[: limit - 1] + "…"


class _Plain(csv.excel):
    lineterminator = "\n"


class Rejects:
    """Rows set aside: counted, and written to a CSV file that only its owner can read.

    The file appears with the first reject; where a run has none, one that an earlier run left there goes. With `strict`
    the first reject raises instead. With `private` no value is written, for it may be patient data.
    """

    FIELDS = ("file", "line", "field", "value", "problem")

    def __init__(self, path: Path | None = None, *, strict: bool = False, private: bool = False) -> None:
        self.path, self.strict, self.private = path, strict, private
        self.count = 0
        self._file: io.TextIOWrapper | None = None

    def add(
        self,
        problem: str,
        *,
        file: str | Path | None = None,
        line: int | None = None,
        field: str | None = None,
        value: object = None,
    ) -> None:
        """Set one row aside.

        Raises:
            InputError: under `strict`.
            AlphitaError: the file cannot be written (a full disk, say).
        """
        value = None if self.private else value
        if self.strict:
            raise InputError(problem, file=file, line=line, field=field, value=value)
        self.count += 1
        if self.path is None:
            return
        row = [file, line, field, None if value is None else shorten(value), problem]
        cells = ["" if cell is None else str(cell) for cell in row]
        # Python before 3.13 leaves a lone carriage return unquoted, which then reads as the end of the row.
        style = csv.unix_dialect if any("\r" in cell for cell in cells) else _Plain
        try:
            self._file = self._file or self._open(self.path)
            csv.writer(self._file, style).writerow(Guard()(cells))
        except OSError as error:
            raise self._not_written(error) from error

    def tell(self, say: Callable[[str], object], noun: str = "row") -> None:
        """Say "2 rows left out; see terms.rejects.csv", if there are any."""
        if self.count:
            say(f"{counted(self.count, noun)} left out" + (f"; see {self.path}" if self.path else ""))

    def close(self) -> None:
        """Flush and close the rejects file, if there is one.

        Raises:
            AlphitaError: it cannot be written (a full disk, say).
        """
        file, self._file = self._file, None
        try:
            if file is not None:
                with file:
                    file.flush()
                    os.fsync(file.fileno())
        except OSError as error:
            raise self._not_written(error) from error

    def _open(self, path: Path) -> io.TextIOWrapper:
        # Closed before and now going on, it must not lose what it holds.
        first = self.count == 1
        # What the rejects stand beside may still have to be made, in a folder that is new.
        path.parent.mkdir(parents=True, exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | (os.O_TRUNC if first else os.O_APPEND)
        descriptor = os.open(path, flags, 0o600)
        os.fchmod(descriptor, 0o600)
        file = io.TextIOWrapper(os.fdopen(descriptor, "wb"), encoding="utf-8", errors="replace", newline="")
        if first:
            csv.writer(file, _Plain).writerow(self.FIELDS)
        return file

    def _remove_earlier(self) -> None:
        """Remove an earlier run's file, which would be taken for this one's; any other file of the name stays."""
        if self.path is None:
            return
        heading = (",".join(self.FIELDS) + "\n").encode()
        with contextlib.suppress(OSError):
            with open(self.path, "rb") as file:
                # A run that was killed may have left an empty one.
                is_ours = file.read(len(heading)) in (heading, b"")
            if is_ours:
                self.path.unlink()

    def _not_written(self, error: OSError) -> AlphitaError:
        return AlphitaError(f"could not write the rejects {self.path}: {error.strerror or error}")

    def __enter__(self) -> Rejects:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
        if kind is None and not self.count:
            self._remove_earlier()
