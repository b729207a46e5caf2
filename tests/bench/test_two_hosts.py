"""Two hosts: what is set up is removed whatever happens, and what is counted is counted right."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys

import pytest

from alphita.errors import AlphitaError, UsageError
from bench import two_hosts


class Commands:
    """Stands in for running: keeps what was run, and fails where it is told to."""

    def __init__(self, fails: str = "nothing", processes: str = "") -> None:
        self.run: list[str] = []
        self.fails, self.running = fails, processes

    def __call__(self, command):
        line = " ".join(command)
        self.run.append(line)
        if self.fails in line:
            raise AlphitaError(line)
        return self.running if "netns pids" in line else ""

    def names(self, what):
        return [line.split()[-1] for line in self.run if line.startswith(f"ip netns {what}")]


def test_hosts_are_removed_as_they_came():
    commands = Commands()
    with two_hosts.Hosts(commands) as hosts:
        assert commands.names("add") == hosts.names
        assert not commands.names("delete")
        hosts.cut()
        assert commands.run[-1] == f"ip -n {hosts.names[1]} link set {hosts.ends[1]} down"
    assert commands.names("delete") == hosts.names[::-1]
    assert all(len(name) < 16 for name in hosts.ends), "the kernel's limit"


@pytest.mark.parametrize("fails", ["link add", "address add 10.213.77.2", "link set lo up", "netns add alphita-%d-b"])
def test_hosts_half_set_up_are_removed(fails):
    commands = Commands(fails=fails.replace("%d", str(os.getpid())))
    with pytest.raises(AlphitaError), two_hosts.Hosts(commands):
        raise AssertionError("not set up")
    made = [name for name in commands.names("add") if "-a" in name or "netns add" not in fails]
    assert sorted(commands.names("delete")) == sorted(made)


def test_hosts_are_removed_after_an_error_and_the_second_in_spite_of_the_first():
    commands = Commands(fails="netns delete")
    with pytest.raises(AlphitaError), two_hosts.Hosts(commands) as hosts:
        raise KeyboardInterrupt
    assert sorted(commands.names("delete")) == hosts.names


def test_what_runs_on_a_host_is_ended(monkeypatch):
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    commands = Commands(processes=f"{process.pid}\n")
    kill = os.kill

    def killing(number, kind):
        assert number == process.pid
        kill(number, kind)
        process.wait()
        commands.running = ""

    monkeypatch.setattr(two_hosts.os, "kill", killing)
    with two_hosts.Hosts(commands):
        pass
    assert process.returncode == -signal.SIGTERM


def test_a_command_runs_inside_with_the_token_of_this_run():
    first, second = two_hosts.Hosts(Commands()), two_hosts.Hosts(Commands())
    command = first.inside(1, ["ray", "status"])
    assert command[:5] == ["ip", "netns", "exec", first.names[1], "env"]
    assert command[-2:] == ["ray", "status"]
    assert f"RAY_AUTH_TOKEN={first.secret['RAY_AUTH_TOKEN']}" in command
    assert first.secret["RAY_AUTH_TOKEN"] != second.secret["RAY_AUTH_TOKEN"]


def test_worker_seconds(tmp_path):
    ticks = os.sysconf("SC_CLK_TCK")

    def process(number, line, name, user, system):
        (tmp_path / str(number)).mkdir()
        (tmp_path / str(number) / "cmdline").write_bytes(line)
        numbers = [str(one) for one in range(1, 11)]
        (tmp_path / str(number) / "stat").write_text(
            f"{number} ({name}) S {' '.join(numbers)} {user * ticks} {system * ticks} 0 0 20"
        )

    process(10, b"ray::MapWorker(MapBatches(_Tasks)).submit\0", "ray::Map (x) y", 3, 2)
    process(11, b"ray::IDLE\0", "ray::IDLE", 1, 0)
    process(12, b"/usr/bin/gcs_server\0", "gcs_server", 50, 50)
    # The 13th is gone.
    assert two_hosts.worker_seconds([10, 11, 12, 13], tmp_path) == 6.0
    own = two_hosts.worker_seconds([os.getpid()])
    assert own == 0


def test_files_being_written_are_not_counted(tmp_path):
    assert two_hosts.files_below(tmp_path / "none yet") == 0
    (tmp_path / "deep" / "er").mkdir(parents=True)
    for name in ("a.parquet", "deep/b.parquet", "deep/er/c.json", "deep/.d.parquet"):
        (tmp_path / name).touch()
    assert two_hosts.files_below(tmp_path) == 3


class Here(two_hosts.Hosts):
    """Hosts that are this machine, for the part that measures."""

    def inside(self, host, command):
        return list(command)

    def processes(self, host):
        return []

    def cut(self):
        self.pulled = True


WRITE = "import pathlib, sys, time\nfor n in range(6): (pathlib.Path(sys.argv[1]) / str(n)).touch(); time.sleep(0.1)\n"


@pytest.mark.parametrize("keep", [False, True])
def test_the_cable_is_pulled_in_the_midst(keep, tmp_path, monkeypatch):
    monkeypatch.setattr(two_hosts, "alive", lambda hosts: 1)
    (tmp_path / "there before").touch()
    hosts = Here(Commands())
    script = WRITE + "print(sys.argv[2]); sys.exit(3)"
    command = [sys.executable, "-c", script, str(tmp_path), "to={address}"]
    found = two_hosts.measure(hosts, command, tmp_path, 3, keep, 60)
    assert hasattr(hosts, "pulled") is not keep
    assert (found["cut"] is None) is keep
    if not keep:
        assert 3 <= found["cut"]["files"] <= 6
        assert found["cut"]["after seconds"] <= found["seconds"]
    assert (found["files at the start"], found["files"]) == (1, 6)
    assert (found["ended"], found["exit"], found["nodes alive"]) == (True, 3, 1)
    assert found["output"] == ["to=10.213.77.1:6379"]
    json.dumps(found)


def test_what_takes_too_long_is_ended(tmp_path, monkeypatch):
    monkeypatch.setattr(two_hosts, "alive", lambda hosts: 0)
    command = [sys.executable, "-c", "import time; time.sleep(60)"]
    found = two_hosts.measure(Here(Commands()), command, tmp_path, 1, False, 0.3)
    assert not found["ended"]
    assert found["seconds"] < 10


def test_a_command_that_fails_is_named():
    with pytest.raises(AlphitaError, match="false: exit 1"):
        two_hosts.run(["false"])
    with pytest.raises(AlphitaError, match="there is no command 'no-such-command'"):
        two_hosts.run(["no-such-command"])


def test_wrong_options():
    with pytest.raises(UsageError, match=r"has no \{address\}"):
        two_hosts.parse(["--watch", "out", "--", "alphita", "normalize"])
    with pytest.raises(UsageError, match="1 or more"):
        two_hosts.parse(["--watch", "out", "--files", "0", "--", "x", "{address}"])
    options = two_hosts.parse(["--watch", "out", "--", "alphita", "-o", "out", "--address", "{address}"])
    assert options.command == ["alphita", "-o", "out", "--address", "{address}"]
    assert options.output is None


def test_root_is_asked_for(monkeypatch, capsys):
    monkeypatch.setattr(two_hosts.os, "geteuid", lambda: 1000)
    assert two_hosts.main(["--watch", "out", "--", "x", "{address}"]) == 2
    assert "need root" in capsys.readouterr().err


JOB = """
import sys
from alphita.distributed.ray import open_engine
from tests.distributed.engine_contract import Squares

with open_engine(None, sys.argv[1]) as engine:
    opening = Squares(sys.argv[2], slow=0)
    engine.check(opening)
    print(sorted(receipt["square"] for _, receipt in engine.run(opening, range(8), what="Squaring")))
"""


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0 or shutil.which("ip") is None, reason="namespaces need root and iproute2")
def test_a_job_ends_though_a_host_is_cut_off(tmp_path):
    script, notes, report = tmp_path / "job.py", tmp_path / "notes", tmp_path / "report.json"
    script.write_text(JOB)
    notes.mkdir()
    command = [sys.executable, str(script), "{address}", str(notes)]
    environment = os.environ | {"PYTHONPATH": os.getcwd()}
    before = subprocess.run(["ip", "netns"], capture_output=True).stdout
    options = ["--watch", str(notes), "--files", "6", "--limit", "300", "-o", str(report), "--", *command]
    ended = subprocess.run([sys.executable, "bench/two_hosts.py", *options], env=environment, capture_output=True)
    found = json.loads(report.read_text())
    assert ended.returncode == found["exit"] == 0, ended
    assert found["cut"]["files"] < found["files"] == 16
    assert min(found["cut"]["worker seconds"]) > 0
    assert found["nodes alive"] == 1
    assert found["output"][-1] == str([task**2 for task in range(8)])
    assert subprocess.run(["ip", "netns"], capture_output=True).stdout == before
