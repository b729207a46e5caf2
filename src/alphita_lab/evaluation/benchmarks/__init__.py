"""Benchmarks, named as on the command line. Each holds

- `INFO`: what it is, its source, where to get the data, whether it was run on the real data: a row of _benchmarks.tsv;
- `PUBLISHED`: what papers report, and how their protocol differs: NAME.tsv;
- `Options`: its settings, each with the paper that uses it (`alphita evaluate NAME --set key=value`);
- `load(source, options)`: the data, read as its authors distribute it;
- `evaluate(data, system, options) -> Result`.

A file here is a benchmark. A file that begins with "_" holds several that share a reader: the column `file` of
_benchmarks.tsv names it for each, and the function of that name there, under `@benchmark`, is its `load`.
"""

from __future__ import annotations

import glob
import importlib.resources
import importlib.util
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Protocol

from alphita import registry, textio
from alphita.config import Config
from alphita.errors import InputError, UsageError

if TYPE_CHECKING:
    from alphita.terminology.store import Terminology
    from alphita_lab.evaluation.scoring.results import Result

PACKAGE = "alphita_lab.evaluation.benchmarks"
PLUGINS = registry.Group("alphita.benchmarks", ("INFO", "PUBLISHED", "Options", "load", "evaluate"))


@dataclass(frozen=True)
class Info:
    """What a benchmark is.

    Attributes:
        title: one line for lists.
        task: "normalization", "similarity", "clustering", "relations" or "fine-tuned".
        citation: of the data.
        where: where to get the data, and under what terms; printed when a file is missing.
        needs: what `load` takes: "data" (files under --data), "terminology", or both.
        systems: "any" (lexical baselines too), "vectors" (needs a vector for a string), "concepts" (text, or vectors
            for concept ids), "vectors_or_concepts" (vectors for strings or for concept ids) or "encoder" (trains one).
        tested_on_real_data: False: only on small files of our own in the published layout; the help says so.
        main_metric: the metric that tables print.
    """

    title: str
    task: str
    citation: str
    where: str
    needs: tuple[str, ...] = ("data",)
    systems: str = "any"
    tested_on_real_data: bool = False
    main_metric: str = "accuracy@1"


@dataclass(frozen=True)
class Published:
    """A number that a paper reports.

    Attributes:
        system: as the paper calls it.
        metric: ours that it is to be laid beside, e.g. "accuracy@1".
        value: in the unit of ours: a fraction for accuracies.
        source: author, year and table, e.g. "Yuan et al. 2022, table 1".
        subset: "all" or "column=value".
        differs: how its protocol differs from what is measured here; None if it is the same.
        slip: what is doubtful about the printed number; None if nothing is.
    """

    system: str
    metric: str
    value: float
    source: str
    subset: str = "all"
    differs: str | None = None
    slip: str | None = None


ROWS = {row["name"]: row for row in textio.packaged(PACKAGE, "_benchmarks.tsv")}
SHARING_A_FILE = {name: row["file"] for name, row in ROWS.items() if row["file"]}


def about(module: str) -> tuple[Info, tuple[Published, ...]]:
    """Return what _benchmarks.tsv says of one of our own benchmarks, and its published figures."""
    name = module.rpartition(".")[2]
    row = ROWS[name]
    title, task, citation, where, needs, systems, tested, main_metric = (
        row[key]
        for key in ("title", "task", "citation", "where", "needs", "systems", "tested_on_real_data", "main_metric")
    )
    info = Info(title, task, citation, where, tuple(needs.split()), systems, tested == "yes", main_metric)
    if not importlib.resources.files(PACKAGE).joinpath(f"{name}.tsv").is_file():
        return info, ()
    figures = []
    for row in textio.packaged(PACKAGE, f"{name}.tsv"):
        source, subset, differs, slip = (row[key] for key in ("source", "subset", "differs", "slip"))
        value = float(row["value"])
        figures.append(Published(row["system"], row["metric"], value, source, subset, differs or None, slip or None))
    return info, tuple(figures)


def benchmark(
    options: type[Config], evaluate: Callable[[Any, Any, Any], Result]
) -> Callable[[Callable[[Source, Any], Any]], ModuleType]:
    """Return what turns a `load` function into the benchmark of its name, described by its docstring."""

    def made(load: Callable[[Source, Any], Any]) -> ModuleType:
        module = ModuleType(f"{PACKAGE}.{load.__name__}", inspect.getdoc(load))
        info, published = about(load.__name__)
        vars(module).update(INFO=info, PUBLISHED=published, Options=options, load=load, evaluate=evaluate)
        return module

    return made


class NotGiven(UsageError):
    """A benchmark lacks its input; `all` skips it."""


@dataclass(frozen=True)
class Source:
    """The input of a benchmark: --data, --terminology, its name and `Info.where` for messages, and the files read."""

    data: Path | None = None
    terminology: Terminology | None = None
    benchmark: str = ""
    where: str = ""
    read: list[Path] = field(default_factory=list)

    def require_terminology(self) -> Terminology:
        """Return the terminology."""
        if self.terminology is None:
            raise NotGiven(f"the benchmark {self.benchmark} needs a terminology: --terminology X.terminology")
        return self.terminology

    def file(self, *names: str, optional: bool = False) -> Path | None:
        """Return the first file of one of these names."""
        paths = self.files(*names, optional=optional)
        return paths[0] if paths else None

    def files(self, *names: str, optional: bool = False) -> list[Path]:
        """Return all files whose names fit the first of `names` that any file fits, sorted; see `file`."""
        if self.data is None:
            raise NotGiven(f"the benchmark {self.benchmark} needs its files: --data FOLDER. {self.where}")
        for folder in (self.data / self.benchmark, self.data):
            for name in names:
                plain = [path for path in folder.glob(name) if path.is_file() and path.suffix != ".gz"]
                packed = [path for path in folder.glob(f"{name}.gz") if path.is_file()]
                paths = sorted({*plain, *(path for path in packed if path.with_suffix("") not in plain)})
                if paths:
                    self.read.extend(path for path in paths if path not in self.read)
                    return paths
        if optional:
            return []
        raise InputError(
            f"the benchmark {self.benchmark} finds no {' or '.join(names)} (nor .gz) here or in {self.benchmark}/",
            file=self.data,
            remedy=self.where,
        )

    def named(self, name: str) -> Path:
        """Return the file that a setting names: its path, or its name under --data as for `file`, taken literally."""
        if not Path(name).is_absolute():
            return self.files(glob.escape(name))[0]
        if not Path(name).is_file():
            raise InputError("no such file", file=name, remedy=f"look at what is set for {self.benchmark}")
        self.read.append(Path(name))
        return Path(name)


class Benchmark(Protocol):
    """What a benchmark module offers."""

    INFO: Info
    PUBLISHED: Sequence[Published]
    Options: type[Config]

    def load(self, source: Source, options: Any) -> Any:  # noqa: ANN401 - the module's own data and Options
        """Read the data.

        Raises:
            NotGiven: what it needs was not given.
            UsageError: an option is set wrongly.
            InputError: a file is missing or of another layout.
        """
        ...

    def evaluate(self, data: Any, system: Any, options: Any) -> Result:  # noqa: ANN401
        """Score one system."""
        ...


def load_benchmark(name: str) -> Any:  # noqa: ANN401 - a module
    """Return the module of a benchmark."""
    if not name.endswith(".py"):
        return registry.load(PACKAGE, name)
    path = Path(name)
    # Known to Python by its file name, so that a report can find the file's statistics again.
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise InputError("no such benchmark file", file=path, remedy="docs/evaluation.md says how to write one")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise InputError(f"cannot be imported: {type(error).__name__}: {error}", file=path) from error
    missing = [part for part in PLUGINS.parts if not hasattr(module, part)]
    if missing:
        raise InputError(f"is no benchmark: it lacks {', '.join(missing)}", file=path)
    return module


def load_benchmarks(names: Sequence[str]) -> dict[str, Any]:
    """Return the modules of benchmarks; each goes by its name, or by that of its file."""
    shipped = set(registry.names(PACKAGE))
    files: dict[str, str] = {}
    for name in names:
        stem = Path(name).stem
        if name.endswith(".py") and stem in shipped:
            raise UsageError(f"{name} would pass for Alphita's own benchmark {stem!r}; give the file another name")
        if files.setdefault(stem, name) != name:
            raise UsageError(f"{files[stem]} and {name} would both be called {stem!r}; give one another name")
    return {stem: load_benchmark(name) for stem, name in files.items()}


def settings_of(given: Sequence[str], modules: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return the settings of each benchmark: BENCHMARK.key=value, or key=value for all that know the key."""
    settings: dict[str, list[str]] = {name: [] for name in modules}
    for item in given:
        key, equals, value = item.partition("=")
        if not equals:
            raise UsageError(f"--set {item!r} is not of the form key=value or BENCHMARK.key=value")
        benchmark_name, dot, option = key.partition(".")
        if dot:
            if benchmark_name not in modules:
                raise UsageError(registry.unknown("benchmark", benchmark_name, modules))
            settings[benchmark_name].append(f"{option}={value}")
            continue
        takers = [name for name, module in modules.items() if key in module.Options.model_fields]
        if not takers:
            known = sorted({field for module in modules.values() for field in module.Options.model_fields})
            raise UsageError(registry.unknown("option", key, known))
        for name in takers:
            settings[name].append(item)
    return settings
