from __future__ import annotations

import gzip
import inspect
import math
import re
from pathlib import Path

import pytest

from alphita import config, registry
from alphita.errors import InputError, UsageError
from alphita_lab.evaluation.benchmarks import PACKAGE, Info, Published, Source, load_benchmark
from alphita_lab.evaluation.run import FITS
from tests.doubles import small_terminology

NAMES = registry.names(PACKAGE)
TASKS = ("normalization", "similarity", "clustering", "relations", "fine-tuned")
SYSTEMS = tuple(FITS)

# Shares, F1 and correlations lie between -1 and 1; these do not: a sum over neighbours, ranks, a score of steps.
UNBOUNDED = ("MCSM", "MR", "mean rank", "PAIR")


@pytest.mark.parametrize("name", NAMES)
def test_info(name) -> None:
    info = load_benchmark(name).INFO
    assert isinstance(info, Info)
    assert info.task in TASKS
    assert info.systems in SYSTEMS
    assert isinstance(info.needs, tuple)
    assert info.needs
    assert set(info.needs) <= {"data", "terminology"}
    assert isinstance(info.tested_on_real_data, bool)
    for text in (info.title, info.citation, info.where, info.main_metric):
        assert isinstance(text, str)
        assert text == text.strip() != ""
        assert "\n" not in text
    assert len(info.title) <= 90


@pytest.mark.parametrize("name", NAMES)
def test_published_numbers(name) -> None:
    published = load_benchmark(name).PUBLISHED
    assert isinstance(published, tuple | list)
    for one in published:
        assert isinstance(one, Published)
        assert one.system
        assert one.metric
        assert math.isfinite(one.value)
        assert -1 <= one.value <= 1 or one.metric in UNBOUNDED, one
        assert re.search(r"[12]\d\d\d, (table|figure|section|appendix) ", one.source + " "), one.source
        assert one.subset == "all" or re.fullmatch(r"[^=]+=.+", one.subset) or one.subset.startswith("mean of "), (
            one.subset
        )
        assert one.differs is None or one.differs.strip()
        assert one.slip is None or one.slip.strip()
    told = [(one.system, one.metric, one.subset, one.source) for one in published]
    assert len(set(told)) == len(told)


@pytest.mark.parametrize("name", NAMES)
def test_options_have_defaults_and_say_what_they_mean(name) -> None:
    module = load_benchmark(name)
    assert issubclass(module.Options, config.Config)
    config.resolve(module.Options)
    for option in config.options(module.Options):
        assert option.default != "required", option.name
        assert option.description.strip(), option.name
    with pytest.raises(UsageError, match="colour"):
        config.resolve(module.Options, sets=["colour=red"])
    if "seed" in module.Options.model_fields:
        with pytest.raises(UsageError, match="seed"):
            config.resolve(module.Options, sets=["seed=-1"])


@pytest.mark.parametrize("name", NAMES)
def test_functions_and_docstring(name) -> None:
    module = load_benchmark(name)
    assert len(module.__doc__.strip().splitlines()[0]) > 20
    for function, arguments in (("load", ["source", "options"]), ("evaluate", ["data", "system", "options"])):
        assert list(inspect.signature(getattr(module, function)).parameters) == arguments
        assert getattr(module, function).__doc__


@pytest.mark.parametrize("name", NAMES)
def test_without_its_input_a_benchmark_says_what_it_needs(name, tmp_path) -> None:
    module = load_benchmark(name)
    options = config.resolve(module.Options)
    with pytest.raises(UsageError, match="|".join(f"--{one}" for one in module.INFO.needs)):
        module.load(Source(None, None, name, module.INFO.where), options)
    if "data" in module.INFO.needs:
        terminology = small_terminology() if "terminology" in module.INFO.needs else None
        with pytest.raises(InputError, match="finds no ") as caught:
            module.load(Source(tmp_path, terminology, name, module.INFO.where), options)
        assert caught.value.file == tmp_path
        assert caught.value.remedy == module.INFO.where


def test_an_unknown_benchmark() -> None:
    with pytest.raises(UsageError, match="unknown benchmark 'psytarr'; did you mean 'psytar'"):
        load_benchmark("psytarr")


# Source


def source(folder: Path | None) -> Source:
    return Source(folder, None, "bench", "from its authors")


def test_files_are_looked_for_in_the_benchmarks_own_folder_first(tmp_path) -> None:
    (tmp_path / "a.txt").write_text("outside")
    looked = source(tmp_path)
    assert looked.file("a.txt") == tmp_path / "a.txt"
    (tmp_path / "bench").mkdir()
    (tmp_path / "bench" / "a.txt.gz").write_bytes(gzip.compress(b"inside"))
    assert looked.file("a.txt") == tmp_path / "bench" / "a.txt.gz"
    assert looked.file("a.txt") == tmp_path / "bench" / "a.txt.gz"
    assert looked.read == [tmp_path / "a.txt", tmp_path / "bench" / "a.txt.gz"]


def test_all_files_of_the_first_name_that_fits(tmp_path) -> None:
    (tmp_path / "deep").mkdir()
    for name in ("b_2.txt", "b_1.txt.gz", "c.txt", "deep/d.txt"):
        (tmp_path / name).write_bytes(b"x")
    (tmp_path / "b_3.txt").mkdir()
    looked = source(tmp_path)
    assert [path.name for path in looked.files("a_*.txt", "b_*.txt", "c.txt")] == ["b_1.txt.gz", "b_2.txt"]
    assert looked.file("none.txt", "deep/d.txt") == tmp_path / "deep" / "d.txt"
    assert looked.files("a_*.txt", optional=True) == []
    # One that lies there unpacked too is one file.
    (tmp_path / "b_2.txt.gz").write_bytes(gzip.compress(b"2"))
    for name in ("b_*.txt", "b_*"):
        assert [path.name for path in looked.files(name)] == ["b_1.txt.gz", "b_2.txt"]
    assert looked.file("a.txt", optional=True) is None
    assert len(looked.read) == 3


@pytest.mark.parametrize("folder", ["", "nowhere"])
def test_no_such_file_says_what_was_looked_for_and_where_to_get_it(folder, tmp_path) -> None:
    with pytest.raises(InputError, match=r"bench finds no a\.txt or b_\*\.txt \(nor \.gz\)") as caught:
        source(tmp_path / folder).file("a.txt", "b_*.txt")
    assert caught.value.file == tmp_path / folder
    assert "from its authors" in str(caught.value)
    assert "bench/" in str(caught.value)


def test_no_folder_and_no_terminology() -> None:
    with pytest.raises(UsageError, match=r"the benchmark bench needs its files: --data FOLDER\. from its authors"):
        source(None).file("a.txt", optional=True)
    with pytest.raises(UsageError, match="the benchmark bench needs a terminology: --terminology"):
        source(None).require_terminology()
    terminology = small_terminology()
    assert Source(None, terminology).require_terminology() is terminology
