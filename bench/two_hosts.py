"""Two hosts on one machine: a Ray cluster across two network namespaces, and one host is cut off while a job runs.

    sudo .venv/bin/python bench/two_hosts.py --watch OUT --files 4 -o two_hosts.json -- \\
        alphita normalize IN/ --index X.index -o OUT/ --engine ray --address {address}

Each host is a namespace (`ip netns`) with one end of a cable (a veth pair), an address, and a Ray node of `--cpus`
processor cores. The head is on the first, and the command runs there; `{address}` in it is the head's. Files are
shared, as on a network disk. Once there are `--files` more files below `--watch` than at the start, the cable is
pulled, unless `--keep`. The second host is not told, and goes on alone; the job must end on the first.

Written to `-o` and printed, as JSON: when the cable was pulled and with how many files; the seconds of processor time
that the workers on each host had taken by then and at the end; how many nodes Ray counted as alive; how the
command ended. Needs root. What was set up is removed whatever happens.
"""

from __future__ import annotations

import argparse
import json
import os
import secrets
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from types import FrameType
from typing import Any

from alphita import machine
from alphita.errors import AlphitaError, UsageError

ADDRESSES, PORT = ("10.213.77.1", "10.213.77.2"), 6379
# Seconds that a node may take to start, and a process to end.
TO_START, TO_END = 120.0, 10.0
Run = Callable[[Sequence[str]], str]


def run(command: Sequence[str]) -> str:
    """Run a command, and return what it prints.

    Raises:
        AlphitaError: it fails, or is not there.
    """
    try:
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout
    except FileNotFoundError:
        raise AlphitaError(f"there is no command {command[0]!r}; it comes with the package iproute2") from None
    except subprocess.CalledProcessError as error:
        raise AlphitaError(f"{' '.join(command)}: {error.stderr.strip() or f'exit {error.returncode}'}") from error


class Hosts:
    """Two namespaces with a cable between them; a context manager that removes them."""

    def __init__(self, run: Run = run) -> None:
        """Choose names that no other run has."""
        self._run, self._undo = run, ExitStack()
        self.names = [f"alphita-{os.getpid()}-{letter}" for letter in "ab"]
        self.ends = [f"al{os.getpid()}{letter}" for letter in "ab"]
        # Ray's nodes and drivers know each other by a token; this one is for this run.
        self.secret = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}

    def __enter__(self) -> Hosts:
        """Set up namespaces, cable and addresses.

        Raises:
            AlphitaError: not allowed, or not possible here.
        """
        try:
            for name in self.names:
                self._run(["ip", "netns", "add", name])
                self._undo.callback(self._remove, name)
            # Both ends are made where they belong; the cable goes with either namespace.
            self._run(
                ["ip", "link", "add", self.ends[0], "netns", self.names[0], "type", "veth",
                 "peer", "name", self.ends[1], "netns", self.names[1]]
            )  # fmt: skip
            for name, end, address, other in zip(self.names, self.ends, ADDRESSES, ADDRESSES[::-1], strict=True):
                self._run(["ip", "-n", name, "address", "add", f"{address}/24", "dev", end])
                self._run(["ip", "-n", name, "link", "set", "lo", "up"])
                self._run(["ip", "-n", name, "link", "set", end, "up"])
                # Ray learns a host's address from the way out.
                self._run(["ip", "-n", name, "route", "add", "default", "via", other])
        except BaseException:
            self._undo.close()
            raise
        return self

    def __exit__(self, *_error: object) -> None:
        """End what runs on the hosts, and remove them."""
        self._undo.close()

    def inside(self, host: int, command: Sequence[str]) -> list[str]:
        """Return the command that runs another on a host."""
        secret = [f"{name}={value}" for name, value in self.secret.items()]
        return ["ip", "netns", "exec", self.names[host], "env", *secret, *command]

    def cut(self) -> None:
        """Pull the cable."""
        self._run(["ip", "-n", self.names[1], "link", "set", self.ends[1], "down"])

    def processes(self, host: int) -> list[int]:
        """Return the ids of what runs on a host."""
        return [int(line) for line in self._run(["ip", "netns", "pids", self.names[host]]).split()]

    def _remove(self, name: str) -> None:
        host = self.names.index(name)
        for kind in (signal.SIGTERM, signal.SIGKILL):
            with suppress(AlphitaError):
                for process in self.processes(host):
                    with suppress(ProcessLookupError):
                        os.kill(process, kind)
                deadline = time.monotonic() + TO_END
                while self.processes(host) and time.monotonic() < deadline:
                    time.sleep(0.1)
        self._run(["ip", "netns", "delete", name])


def worker_seconds(processes: Sequence[int], root: Path = Path("/proc")) -> float:
    """Return the processor time, in seconds, that Ray's workers among some processes have taken."""
    seconds = 0.0
    for process in processes:
        # A process may end while it is looked at.
        with suppress(OSError, IndexError, ValueError):
            if b"ray::" not in (root / str(process) / "cmdline").read_bytes():
                continue
            # Its name is in brackets, and may have spaces; user and system time are the 12th and 13th after it.
            fields = (root / str(process) / "stat").read_text().rpartition(")")[2].split()
            seconds += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return round(seconds, 2)


def files_below(folder: Path) -> int:
    """Return how many finished files there are; hidden ones are being written."""
    return sum(path.is_file() and not path.name.startswith(".") for path in folder.rglob("*"))


def start_nodes(hosts: Hosts, cpus: int, folder: Path, undo: ExitStack) -> None:
    """Start Ray's head and its other node.

    Raises:
        AlphitaError: they are not there in time.
    """
    ray = str(Path(sys.executable).with_name("ray"))
    for host, address in enumerate(ADDRESSES):
        place = ["--head", f"--port={PORT}", "--include-dashboard=false"] if host == 0 else [f"--address={head()}"]
        command = [
            ray, "start", *place, f"--node-ip-address={address}", f"--num-cpus={cpus}",
            f"--temp-dir={folder / str(host)}", "--disable-usage-stats", "--object-store-memory=200000000", "--block",
        ]  # fmt: skip
        log = undo.enter_context((folder / f"{host}.log").open("w"))
        node = subprocess.Popen(hosts.inside(host, command), stdout=log, stderr=subprocess.STDOUT)
        undo.callback(end, node)
        deadline = time.monotonic() + TO_START
        while alive(hosts) <= host:
            if node.poll() is not None or time.monotonic() > deadline:
                raise AlphitaError(f"host {host} has no Ray node: {(folder / f'{host}.log').read_text()[-2000:]}")
            time.sleep(0.5)


def head() -> str:
    """Return the cluster's address."""
    return f"{ADDRESSES[0]}:{PORT}"


def alive(hosts: Hosts) -> int:
    """Return how many nodes Ray counts as alive; 0 where none answers."""
    code = (
        f"import ray; ray.init({head()!r}, logging_level='CRITICAL', log_to_driver=False); "
        "print(sum(node['Alive'] for node in ray.nodes()))"
    )
    asked = subprocess.run(
        hosts.inside(0, [sys.executable, "-c", code]), capture_output=True, text=True, timeout=TO_START
    )  # fmt: skip
    return int(asked.stdout.split()[-1]) if asked.returncode == 0 else 0


def end(process: subprocess.Popen[Any]) -> None:
    """End a process that was started here."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(TO_END)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def measure(hosts: Hosts, command: Sequence[str], watch: Path, files: int, keep: bool, limit: float) -> dict[str, Any]:
    """Run the command on the first host, pull the cable in its midst, and tell what happened.

    Args:
        hosts: with Ray running.
        command: what is run; `{address}` is the cluster's.
        watch: the folder whose files are counted.
        files: as many more than at the start, and the cable is pulled.
        keep: it is not.
        limit: seconds that the command may take.
    """
    command = [part.replace("{address}", head()) for part in command]
    found: dict[str, Any] = {"command": command, "files at the start": files_below(watch), "cut": None}
    began = time.monotonic()
    with tempfile.TemporaryFile("w+") as said:
        job = subprocess.Popen(hosts.inside(0, command), stdout=said, stderr=subprocess.STDOUT)
        try:
            while job.poll() is None and time.monotonic() - began < limit:
                made = files_below(watch) - found["files at the start"]
                if found["cut"] is None and made >= files and not keep:
                    hosts.cut()
                    found["cut"] = {"after seconds": since(began), "files": made, "worker seconds": work(hosts)}
                time.sleep(0.05)
            found |= {"ended": job.poll() is not None, "exit": job.poll(), "seconds": since(began)}
        finally:
            end(job)
        said.seek(0)
        found |= {
            "files": files_below(watch) - found["files at the start"],
            "worker seconds": work(hosts),
            "nodes alive": alive(hosts),
        }
        found["output"] = said.read()[-2000:].splitlines()
    return found


def work(hosts: Hosts) -> list[float]:
    """Return the seconds of processor time that the workers there now have taken, on each host."""
    return [worker_seconds(hosts.processes(host)) for host in (0, 1)]


def since(began: float) -> float:
    """Return the seconds since a moment of the monotonic clock."""
    return round(time.monotonic() - began, 1)


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line.

    Raises:
        UsageError: no command is given, or a number is too small.
    """
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--watch", type=Path, required=True, help="Folder whose files are counted.")
    parser.add_argument("--files", type=int, default=4, help="New files until the cable is pulled.")
    parser.add_argument("--keep", action="store_true", help="Do not pull the cable.")
    parser.add_argument("--cpus", type=int, default=1, help="Processor cores of each host.")
    parser.add_argument("--limit", type=float, default=3600, help="Seconds that the command may take.")
    parser.add_argument("-o", "--output", type=Path, help="Report, JSON.")
    parser.add_argument("command", nargs="+", help="After '--': what runs on the first host.")
    options = parser.parse_args(arguments)
    if options.files < 1 or options.cpus < 1:
        raise UsageError("--files and --cpus must be 1 or more")
    if not any("{address}" in part for part in options.command):
        raise UsageError("the command has no {address}, so it would not use the cluster")
    return options


def main(arguments: Sequence[str] | None = None) -> int:
    """Set up, measure, remove; return 0 if the command ended well."""

    def stop(_signal: int, _frame: FrameType | None) -> None:
        raise SystemExit(1)

    try:
        options = parse(arguments)
        if os.geteuid() != 0:
            raise UsageError("network namespaces need root: sudo .venv/bin/python bench/two_hosts.py ...")
        # As an interruption from the keyboard does: what is open is closed on the way out.
        signal.signal(signal.SIGTERM, stop)
        # Paths of Ray's sockets are short: at most 107 bytes.
        with tempfile.TemporaryDirectory(prefix="two", dir="/tmp") as folder, ExitStack() as undo:
            hosts = undo.enter_context(Hosts())
            start_nodes(hosts, options.cpus, Path(folder), undo)
            found = measure(hosts, options.command, options.watch, options.files, options.keep, options.limit)
    except AlphitaError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    report = json.dumps(found | {"machine": machine.describe()}, indent=2)
    print(report)
    if options.output is not None:
        options.output.write_text(report + "\n", encoding="utf-8")
    return 0 if found["exit"] == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
