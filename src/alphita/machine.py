"""The machine the work runs on: processor flags, threads, caches."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import functools
import gc
import os
import platform
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from alphita.errors import AlphitaError, masked

try:
    import resource
except ImportError:  # Windows has none
    resource = None  # type: ignore[assignment]

THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "RAYON_NUM_THREADS",
    "POLARS_MAX_THREADS",
)
# How often a thread of GNU OpenMP looks for work before it sleeps. The default keeps it spinning for milliseconds, and
# where another program uses a core a training step then takes some ten times as long (docs/results/log.md).
SPIN_COUNT = "20000"
# What torch and oneDNN keep of products that they compiled, each for one size of a batch and with some 0.6 MB. By
# default it is 1,024 and a service's memory grows by hundreds of megabytes in its first hour (docs/results/log.md).
PRODUCT_CACHES = ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY")
PRODUCTS_KEPT = "256"
# Of addresses: what importing a small table takes (docs/results/log.md).
MIN_ADDRESSES = 600 * 2**20


@functools.cache
def flags() -> frozenset[str]:
    """Return the processor's feature flags as Linux names them (empty where they cannot be read)."""
    return frozenset(_cpuinfo("flags", "Features").split())


def _cpuinfo(*fields: str) -> str:
    """Return what Linux says of the first processor in the first of these fields; "" where it cannot be read."""
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith(fields):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return ""


def has_amx() -> bool:
    """Tell whether the processor multiplies bf16 tiles (Intel AMX)."""
    return "amx_bf16" in flags()


def has_vnni() -> bool:
    """Tell whether the processor sums products of 8 bits in 32 bits (VNNI, ARM's dot product): they never overflow."""
    return bool({"avx512_vnni", "avx_vnni", "asimddp"} & flags())


def fast_bf16() -> bool:
    """Tell whether the processor is faster in bf16 than in fp32: with AMX, or with AVX-512 BF16 unless it is
    Intel's."""
    return has_amx() or ("avx512_bf16" in flags() and _cpuinfo("vendor_id") != "GenuineIntel")


def cores() -> int:
    """Return the number of cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def set_threads(n: int | None) -> int:
    """Set the size of every thread pool (torch, FAISS, tokenizers, polars) to `n`, by default one a core."""
    n = n or cores()
    for variable in THREAD_VARIABLES:
        os.environ[variable] = str(n)
    os.environ.setdefault("GOMP_SPINCOUNT", SPIN_COUNT)
    keep_few_products()
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(n)
    if "faiss" in sys.modules:
        sys.modules["faiss"].omp_set_num_threads(n)
    _set_numpy_threads(n)
    return n


@functools.cache
def _numpy_threads() -> Any:  # noqa: ANN401 - a function of ctypes
    """Return what sets the threads of the OpenBLAS that NumPy's wheels bring along; None where NumPy has another."""
    import numpy

    for file in (Path(numpy.__file__).parents[1] / "numpy.libs").glob("libscipy_openblas*"):
        with contextlib.suppress(OSError, AttributeError):
            return ctypes.CDLL(str(file)).scipy_openblas_set_num_threads64_
    return None


def _set_numpy_threads(n: int) -> None:
    """Set NumPy's threads, of the whole process; before NumPy is loaded the variables do."""
    if "numpy" in sys.modules and (set_number := _numpy_threads()) is not None:
        set_number(n)


def keep_few_products() -> None:
    """Let torch and oneDNN keep few of the products that they compile, unless the environment says how many."""
    for variable in PRODUCT_CACHES:
        os.environ.setdefault(variable, PRODUCTS_KEPT)


_OWN = threading.local()


def is_one_thread() -> bool:
    """Tell whether the calling thread is within `one_thread`."""
    return getattr(_OWN, "depth", 0) > 0


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Let NumPy, torch and FAISS work within the calling thread: for work that is done before others are awake."""
    _OWN.depth = getattr(_OWN, "depth", 0) + 1
    torch, faiss = sys.modules.get("torch"), sys.modules.get("faiss")
    # Each thread has its own number, so the work of others goes on with theirs; only one that first uses torch just now
    # takes over this one.
    counts = torch and torch.get_num_threads(), faiss and faiss.omp_get_max_threads()
    _set_numpy_threads(1)
    try:
        if torch:
            torch.set_num_threads(1)
        if faiss:
            faiss.omp_set_num_threads(1)
        yield
    finally:
        _OWN.depth -= 1
        # NumPy's number is the process's own, and another thread may be in here too.
        _set_numpy_threads(threads())
        if torch:
            torch.set_num_threads(counts[0])
        if faiss:
            faiss.omp_set_num_threads(counts[1])


def threads() -> int:
    """Return how many threads a native library may use."""
    return int(os.environ.get("OMP_NUM_THREADS") or 0) or cores()


@functools.cache
def keep_freed_memory() -> None:
    """Keep large blocks of freed memory for reuse (glibc; elsewhere nothing happens)."""
    mmap_threshold, trim_threshold = -3, -1  # M_MMAP_THRESHOLD and M_TRIM_THRESHOLD of malloc.h
    _set_malloc({mmap_threshold: 2**30, trim_threshold: 2**31 - 1})


def _set_malloc(values: dict[int, int]) -> None:
    with contextlib.suppress(OSError, AttributeError):
        mallopt = ctypes.CDLL(None).mallopt
        for name, value in values.items():
            mallopt(name, value)


def fit_addresses() -> None:
    """Take fewer addresses where they are limited (`ulimit -v`, `-d`): call it before the libraries are loaded."""
    if resource is None:
        return
    limits = [resource.getrlimit(which)[0] for which in (resource.RLIMIT_AS, resource.RLIMIT_DATA)]
    allowed = min((limit for limit in limits if limit != resource.RLIM_INFINITY), default=None)
    if allowed is None:
        return
    if allowed < MIN_ADDRESSES:
        raise AlphitaError(
            f"this process may have {allowed >> 20:,} MB of memory (ulimit -v, -d), and {MIN_ADDRESSES >> 20:,} MB "
            "are needed at the least, 2,000 MB with a model; allow it more: ulimit -v unlimited -d unlimited"
        )
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    arenas = -8  # M_ARENA_MAX of malloc.h
    _set_malloc({arenas: 2})


CGROUPS = Path("/sys/fs/cgroup")


def memory() -> int:
    """Return the bytes of memory that are free for this process: on the machine, or within its container or unit.

    Where the system tells nothing, it is 4 GiB.
    """
    rooms = [*_rooms()]
    with contextlib.suppress(OSError, ValueError, IndexError):
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable"):
                rooms.append(int(line.split()[1]) * 1024)
    return max(0, min(rooms, default=4 * 2**30))


def _rooms() -> Iterator[int]:
    """Yield what the limits of the control groups leave: of containers, of units of systemd (MemoryMax)."""
    groups = Path("/proc/self/cgroup")
    for line in groups.read_text().splitlines() if groups.exists() else ():
        _, kinds, path = line.split(":", 2)
        if kinds and "memory" not in kinds.split(","):
            continue
        base, names = CGROUPS, ("memory.max", "memory.current", "inactive_file")
        if kinds:
            base, names = CGROUPS / "memory", ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
        place = base / path.strip("/")
        while place.is_relative_to(base):
            with contextlib.suppress(OSError, ValueError):  # "max", or no such group in this container
                most, used = (int((place / name).read_text()) for name in names[:2])
                facts = dict(row.split() for row in (place / "memory.stat").read_text().splitlines())
                yield most - used + int(facts.get(names[2], 0))
            place = place.parent


def cache_dir() -> Path:
    """Return the folder for caches: `$ALPHITA_CACHE`, or `alphita` in the user's cache folder."""
    if given := os.environ.get("ALPHITA_CACHE"):
        return Path(given)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "alphita"


def cache_folder(kind: str) -> Path:
    """Return a folder of the cache, made if it is not there."""
    folder = cache_dir() / kind
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    if folder.is_symlink():
        raise OSError(errno.ELOOP, "a link is not followed", str(folder))
    return folder


def command() -> list[str]:
    """Return the command line of this program, without passwords."""
    return [Path(sys.argv[0]).name, *map(masked, sys.argv[1:])]


def describe() -> dict[str, Any]:
    """Return what a reported figure needs to say of its machine."""
    matrix = [f for f in ("amx_bf16", "amx_int8", "avx512_bf16", "avx512_vnni", "avx512f", "avx2") if f in flags()]
    return {
        "processor": _cpuinfo("model name") or platform.processor() or platform.machine(),
        "cores": cores(),
        "flags": matrix,
        "system": platform.system(),
        "python": platform.python_version(),
    }


@contextlib.contextmanager
def uncollected() -> Iterator[None]:
    """Keep the garbage collector from walking, again and again, over millions of objects that live to the end."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def settle() -> None:
    """Free garbage, and leave all else out of later collections: each would hold every thread as it looks at that."""
    gc.unfreeze()
    gc.collect()
    gc.freeze()
