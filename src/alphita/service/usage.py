"""Metrics of each process of a server, which the kernel tells, and of the disks that it writes to."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

MEMORY = {"VmRSS": "resident", "RssAnon": "anonymous", "RssFile": "mapped"}
TICKS = os.sysconf("SC_CLK_TCK")


class Usage:
    """Memory and processor time of the processes, by name, and room on the disks of folders, by name."""

    def __init__(self, folders: Mapping[str, Path], pids: Callable[[], Mapping[str, int]]) -> None:
        self.folders, self.pids = folders, pids

    def collect(self) -> Iterator[Metric]:
        memory = GaugeMetricFamily(
            "alphita_memory_bytes", "Memory of each process; what is mapped is shared.", labels=("process", "kind")
        )
        seconds = CounterMetricFamily(
            "alphita_cpu_seconds", "Processor time of each process that runs now.", labels=("process",)
        )
        for name, pid in self.pids().items():
            try:
                status = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
                times = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            except (OSError, ValueError):
                continue  # it ended, or this is no Linux
            for field, kind in MEMORY.items():
                if field in status:
                    memory.add_metric((name, kind), int(status[field].split()[0]) * 1024)
            seconds.add_metric((name,), (int(times[11]) + int(times[12])) / TICKS)
        yield memory
        yield seconds
        room = GaugeMetricFamily("alphita_disk_free_bytes", "Free room on the disk of each part.", labels=("part",))
        for part, folder in self.folders.items():
            room.add_metric((part,), shutil.disk_usage(folder).free)
        yield room
