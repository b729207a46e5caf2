"""The options of a command or a function, each defined once: a field of a frozen dataclass, with its help.

`alphita.cli._from_spec` builds the command line from it; Python callers create the dataclass itself.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import MISSING, dataclass, field, fields, replace
from typing import Any, Literal, NamedTuple, TypeVar, get_args, get_origin, get_type_hints

from alphita.errors import UsageError
from alphita.registry import unknown

T = TypeVar("T")
OPTION, GROUP = "option", "group"
# Panels of the help that several commands have. Options in none are shown first, those in one by --help-all.
HOW, CLUSTER = "How", "Several processes or machines"
# Modules of alphita.jobs.engines.
ENGINES = ("processes", "ray", "spark")


@dataclass(frozen=True)
class Option:
    """How a field is shown on a command line."""

    help: str = ""
    flags: tuple[str, ...] = ()
    metavar: str | None = None
    panel: str | None = None
    least: float | None = None
    most: float | None = None
    envvar: str | None = None
    positional: bool = False


class Group(NamedTuple):
    """A dataclass that is a field of another, which takes over its options except some, and their heading."""

    without: Collection[str]
    panel: str | None


class SpelledOption(NamedTuple):
    """An option of a dataclass: its name, type and default (MISSING: it is required), and how it is shown."""

    name: str
    hint: Any
    default: Any
    option: Option

    @property
    def flags(self) -> tuple[str, ...]:
        name = self.name.rstrip("_").replace("_", "-")
        return self.option.flags or ((f"--{name}/--no-{name}",) if self.default is True else (f"--{name}",))


def option(default: object, *flags: str, like: Option | None = None, **how: Any) -> Any:  # noqa: ANN401
    """Return a field with this default, `...` for none."""
    shown = replace(like or Option(), flags=flags or (like.flags if like else ()), **how)
    return field(default=MISSING if default is ... else default, metadata={OPTION: shown})


def group(of: type, *, without: Collection[str] = (), panel: str | None = None) -> Any:  # noqa: ANN401
    """Return a field that holds the options of a dataclass, all under one heading if `panel` names it."""
    return field(default_factory=of, metadata={GROUP: Group(without, panel)})


def options_of(of: type) -> Iterator[SpelledOption]:
    """Yield the options of a dataclass and of its groups, in their order."""
    hints = get_type_hints(of)
    for field_ in fields(of):
        if GROUP in field_.metadata:
            within: Group = field_.metadata[GROUP]
            for inner in options_of(hints[field_.name]):
                if inner.name not in within.without:
                    shown = inner.option if within.panel is None else replace(inner.option, panel=within.panel)
                    yield inner._replace(option=shown)
        elif OPTION in field_.metadata:
            yield SpelledOption(field_.name, hints[field_.name], field_.default, field_.metadata[OPTION])


def from_values(of: type[T], values: Mapping[str, Any]) -> T:
    """Return a dataclass and its groups with these values, by name; others keep their defaults."""
    hints, given = get_type_hints(of), {}
    for field_ in fields(of):  # type: ignore[arg-type]
        if GROUP in field_.metadata:
            without = field_.metadata[GROUP].without
            within = {name: value for name, value in values.items() if name not in without}
            given[field_.name] = from_values(hints[field_.name], within)
        elif OPTION in field_.metadata and field_.name in values:
            given[field_.name] = values[field_.name]
    return of(**given)


def check(options: Any) -> None:  # noqa: ANN401 - a dataclass
    """Check that the values of a dataclass's own options are allowed."""
    for field_ in options_of(type(options)):
        if (value := getattr(options, field_.name, None)) is None:
            continue
        if get_origin(field_.hint) is Literal and value not in get_args(field_.hint):
            raise UsageError(unknown(f"value of {field_.name}", value, get_args(field_.hint)))
        least, most = field_.option.least, field_.option.most
        if (least is not None and value < least) or (most is not None and value > most):
            limits = [f"at least {least:g}"] * (least is not None) + [f"at most {most:g}"] * (most is not None)
            raise UsageError(f"{field_.name} {value} is not {' and '.join(limits)}")


THREADS = Option(help="Threads for every library; all cores by default.", least=1)
REMAKE = Option(help="Move an existing folder aside and create a new one.")
STRICT = Option(help="Fail at the first bad row.")
ENCODING = Option(help="Encoding of a text input, e.g. cp1252.")


@dataclass(frozen=True, kw_only=True)
class Running:
    """How an encoder runs; see `TermEncoder.load`."""

    precision: str = option("auto", help="Arithmetic of the encoder: auto, fp32, bf16, ...")
    device: str = option("auto", help="Device of the encoder: auto, cpu, cuda.")
    threads: int | None = option(None, like=THREADS)


@dataclass(frozen=True, kw_only=True)
class Restart:
    """What happens to an output, or an unfinished job, that already exists."""

    resume: bool = option(False, help="Continue an interrupted job.")
    force: bool = option(False, help="Replace an existing output; discard an unfinished job.")

    def check(self) -> None:
        if self.resume and self.force:
            raise UsageError("--resume goes on with a job, --force begins anew; give one of them")


FROM_START = Restart()


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """The engine of a job on several processes or machines."""

    engine: str | None = option(
        None, panel=CLUSTER, help="Engine that runs the job: processes (on this machine), ray or spark."
    )
    workers: int | None = option(None, least=1, panel=CLUSTER, help="Number of workers; by default as many as fit.")
    address: str | None = option(
        None, panel=CLUSTER, help="Address of the cluster: HOST:6379 for Ray, spark://HOST:7077 for Spark."
    )
    gpus_per_worker: float = option(0.0, least=0.0, panel=CLUSTER, help="GPUs per worker, or a fraction: 0.5.")

    def check(self, **further: object) -> None:
        """Check the engine's name; without one, no option of an engine, nor a `further` one by name, has a value."""
        if self.engine is not None:
            if self.engine not in ENGINES:
                raise UsageError(unknown("engine", self.engine, ENGINES))
            return
        for name, value in {**vars(self), **further}.items():
            if value:
                raise UsageError(f"--{name.replace('_', '-')} goes with --engine processes, ray or spark")
