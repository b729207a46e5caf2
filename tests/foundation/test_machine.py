from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from alphita import machine


@pytest.fixture
def cpuinfo(monkeypatch):
    """Sets what /proc/cpuinfo says; None: it cannot be read."""

    def set_text(text: str | None) -> None:
        def read_text(self: Path, *args: object, **kwargs: object) -> str:
            assert str(self) == "/proc/cpuinfo"
            if text is None:
                raise FileNotFoundError(str(self))
            return text

        monkeypatch.setattr(Path, "read_text", read_text)
        machine.flags.cache_clear()

    yield set_text
    machine.flags.cache_clear()


def test_flags_are_those_of_the_first_processor(cpuinfo):
    cpuinfo(
        "processor\t: 0\nmodel name\t: Some CPU @ 2GHz\nflags\t\t: fpu avx2 amx_bf16\n\nprocessor\t: 1\nflags\t: fpu\n"
    )
    assert machine.flags() == {"fpu", "avx2", "amx_bf16"}
    assert machine.has_amx()
    assert machine.fast_bf16()
    assert machine.describe() == {
        "processor": "Some CPU @ 2GHz",
        "cores": machine.cores(),
        "flags": ["amx_bf16", "avx2"],
        "system": platform.system(),
        "python": platform.python_version(),
    }


@pytest.mark.parametrize(
    ("vendor", "line", "amx", "bf16"),
    [
        ("AuthenticAMD", "avx512_bf16 avx2", False, True),
        ("AuthenticAMD", "avx512f avx512_vnni", False, False),
        ("GenuineIntel", "avx512_bf16 amx_bf16", True, True),
        ("GenuineIntel", "avx512_bf16 avx512_vnni", False, False),
        ("GenuineIntel", "amx_int8", False, False),
    ],
)
def test_fast_bf16_is_amx_or_amds_avx512(cpuinfo, vendor, line, amx, bf16):
    cpuinfo(f"vendor_id\t: {vendor}\nflags\t\t: {line}\n")
    assert (machine.has_amx(), machine.fast_bf16()) == (amx, bf16)


@pytest.mark.parametrize(("text", "flags"), [("Features\t: fp asimd bf16\n", {"fp", "asimd", "bf16"}), (None, set())])
def test_arm_calls_them_features_and_without_cpuinfo_there_are_none(cpuinfo, text, flags):
    cpuinfo(text)
    assert machine.flags() == flags
    assert not machine.fast_bf16()


def test_describe_is_json_and_names_this_machine():
    facts = machine.describe()
    assert json.loads(json.dumps(facts)) == facts
    assert facts["processor"]
    assert 1 <= facts["cores"] <= (os.cpu_count() or 1)
    assert set(facts["flags"]) <= machine.flags()


def test_cores_are_those_this_process_may_use():
    one = min(os.sched_getaffinity(0))
    code = f"import os; os.sched_setaffinity(0, {{{one}}}); from alphita import machine; print(machine.cores())"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout == b"1\n"


def run(code: str) -> list[str]:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.split()


def test_one_number_sets_every_pool():
    code = (
        "import os, sys; from alphita import machine; print(machine.set_threads(3))\n"
        "assert 'torch' not in sys.modules and 'faiss' not in sys.modules\n"
        "import faiss, polars\n"
        "print(*(os.environ[name] for name in machine.THREAD_VARIABLES), faiss.omp_get_max_threads(), "
        "polars.thread_pool_size())\n"
        "machine.set_threads(1); print(faiss.omp_get_max_threads(), os.environ['OMP_NUM_THREADS'])"
    )
    assert run(code) == ["3"] * 8 + ["1", "1"]


def test_few_compiled_products_are_kept_unless_it_is_said_otherwise():
    code = (
        "import os; os.environ['LRU_CACHE_CAPACITY'] = '7'; from alphita import machine; machine.set_threads(1)\n"
        "print(*(os.environ[name] for name in machine.PRODUCT_CACHES))"
    )
    assert run(code) == [machine.PRODUCTS_KEPT, "7"]


def test_by_default_there_is_one_thread_a_core_also_of_torch_where_it_is_imported_already():
    code = (
        "import torch; torch.set_num_threads(1); from alphita import machine\n"
        "print(*(machine.set_threads(count) == machine.cores() for count in (None, 0)))\n"
        "machine.set_threads(2); print(torch.get_num_threads())"
    )
    assert run(code) == ["True", "True", "2"]


@pytest.mark.parametrize(
    ("alphita", "xdg", "expected"),
    [
        ("/c/mine", "/c/xdg", "/c/mine"),
        (None, "/c/xdg", "/c/xdg/alphita"),
        (None, None, "/home/someone/.cache/alphita"),
        ("", "", "/home/someone/.cache/alphita"),
    ],
)
def test_the_cache_lies_where_it_is_told(monkeypatch, alphita, xdg, expected):
    monkeypatch.setenv("HOME", "/home/someone")
    for name, value in (("ALPHITA_CACHE", alphita), ("XDG_CACHE_HOME", xdg)):
        if value is None:
            monkeypatch.delenv(name, raising=False)
        else:
            monkeypatch.setenv(name, value)
    assert machine.cache_dir() == Path(expected)


@pytest.mark.parametrize(
    ("line", "files"),
    [
        ("0::/unit", {"unit/memory.max": 3_000, "unit/memory.current": 2_500, "unit/memory.stat": "inactive_file 100"}),
        (
            "0::/unit/none",
            {"memory.max": 700, "memory.current": 100, "memory.stat": "anon 1", "unit/memory.max": "max"},
        ),
        (
            "4:cpu,memory:/docker/x",
            {
                "memory/memory.limit_in_bytes": 1_000,
                "memory/memory.usage_in_bytes": 500,
                "memory/memory.stat": "cache 7\ntotal_inactive_file 100",
            },
        ),
    ],
)
def test_memory_is_what_the_limit_of_a_container_or_unit_leaves(tmp_path, monkeypatch, line, files):
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f"{content}\n")
    monkeypatch.setattr(machine, "CGROUPS", tmp_path)
    read, exists = Path.read_text, Path.exists
    ours = Path("/proc/self/cgroup")
    monkeypatch.setattr(Path, "exists", lambda self: self == ours or exists(self))
    monkeypatch.setattr(Path, "read_text", lambda self, *a, **k: f"{line}\n" if self == ours else read(self, *a, **k))
    assert machine.memory() == 600
