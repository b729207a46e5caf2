"""Following a page as a reader does: block after block in one folder, servers in the background."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

from tests.docs.blocks import Block, commands
from tests.docs.given import give
from tests.waiting import free_port

ROOT = Path(__file__).parents[2]
SECONDS = 3600
# Why a block may stay unrun, and what must then stand in it: a reason that is not true is a fault of the page.
NOT_RUN = {
    "needs Docker": r"\bdocker\b",
    "needs Kubernetes": r"\bkubectl\b",
    "needs several machines": r"\b10\.0\.0\.\d+|//head:|--nproc-per-node",
    "changes the machine": r"\bsudo\b|/var/lib/",
    "leaves a server running": r"cleanup_mode=None",
    "needs the corpus itself": r"--data DATA\b",
    "another program's": r"\b(scispacy|AutoModel|medcat)\b",
    "measures for minutes": r"\bpython bench/",
    "trains for long": r"\balphita train\b|\bruns/(?:\w+\.sh|experiments\.py run)|quickstart --train",
}
# What a block uses that not every machine has: words of the block -> a module, or a program.
MODULES = {
    r"--engine spark|\bpyspark\b": "pyspark",
    r"\bmteb\b": "mteb",
    r"\boaklib\b": "oaklib",
    r"--engine ray|\bimport ray\b": "ray",
    r"\balphita mcp\b": "mcp",
}
PROGRAMS = {r"\bpsql\b": "psql", r"\bcurl\b": "curl"}
# Inside the blocks that run, what installs or tests is not done again; `test_every_command_exists` looks at its words.
SHIMS = {
    "make": '#!/bin/sh\n[ "$1" = quickstart ] && exec alphita quickstart\nexec {make} -n "$@"\n',
    "pip": "#!/bin/sh\nexit 0\n",
    "alphita": '#!/bin/sh\nexec {python} -m alphita "$@"\n',
}
DATABASE = re.compile(r"\bpsql\b")


def installs(block: Block) -> bool:
    """Whether a block does nothing but install."""
    return block.language == "sh" and all(
        words[0] == "." or words[0].endswith("pip") or words[1:3] == ["-m", "venv"] for _, words in commands(block.text)
    )


def serves(block: Block) -> bool:
    """Whether a block ends with a server that answers until it is stopped."""
    if block.language != "sh" or block.text.rstrip().endswith("&"):
        return False
    *_, (_, last) = commands(block.text)
    if last[:2] == ["alphita", "mcp"]:
        return "--http" in last
    return last[:2] == ["alphita", "serve"] and not {"--check", "--new-key", "--help", "--help-all"} & set(last)


def lacking(block: Block) -> str | None:
    """Return the module or program that a block uses and this machine has not."""
    for words, module in MODULES.items():
        if re.search(words, block.text) and importlib.util.find_spec(module) is None:
            return module
    for words, program in PROGRAMS.items():
        if block.language == "sh" and re.search(words, block.text) and shutil.which(program) is None:
            return program
    return None


class Reader:
    """Who follows one page, in a copy of the repository of its own."""

    def __init__(self, folder: Path, programs: Path, database: str | None = None) -> None:
        """Lay out the repository, as a fresh clone with the packages installed.

        Args:
            folder: where; empty.
            programs: where what stands for `make` and `pip` is put; empty.
            database: the address of a PostgreSQL database.
        """
        self.folder, self.database = folder, database
        self.port = free_port()
        self.server: subprocess.Popen[bytes] | None = None
        self.begun = False
        folder.mkdir(exist_ok=True)
        _clone(folder)
        for name, text in SHIMS.items():
            (programs / name).write_text(text.format(make=shutil.which("make"), python=sys.executable))
            (programs / name).chmod(0o755)
        path = os.pathsep.join([str(programs), str(Path(sys.prefix) / "bin"), os.environ["PATH"]])
        # The installed package may be another copy; this one is meant.
        self.environment = os.environ | {
            "PATH": path,
            "PYTHONPATH": os.pathsep.join(
                filter(None, [str(folder / "src"), str(folder / "examples"), os.environ.get("PYTHONPATH")])
            ),
        }
        if database is not None:
            parts = urllib.parse.urlsplit(database)
            self.environment |= {
                "PGHOST": urllib.parse.parse_qs(parts.query)["host"][0],
                "PGUSER": parts.username or "",
                "PGDATABASE": parts.path.strip("/"),
            }

    def follow(self, block: Block) -> None:
        """Run a block.

        Raises:
            AssertionError: it failed; names the block, and holds what it printed.
        """
        give(block.file, block.text, self.folder, not self.begun)
        self.begun = True
        text = self._here(block.text)
        # Each block is a shell of its own; what a reader exports stays.
        for _, words in commands(text) if block.language == "sh" else ():
            if words[0] == "export":
                self.environment |= dict(word.split("=", 1) for word in words[1:])
        program = ["bash", "-euo", "pipefail", "-c"] if block.language == "sh" else [sys.executable, "-c"]
        if serves(block):
            self._serve([*program, text], block)
            return
        done = subprocess.run(
            [*program, text],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        assert done.returncode == 0, f"{block}\n{text}\n{done.stdout[-4000:]}"

    def leave(self) -> None:
        """Stop what still runs, and clear the folder away."""
        # A server that a page starts and ends by its number, where the page failed in between.
        for started in self.folder.glob("*.pid"):
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(started.read_text()), signal.SIGTERM)
        self._stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _here(self, text: str) -> str:
        """Give the page's port one of this machine that is free."""
        text = (
            re.sub(r"\balphita serve (?=--to|--demo)", "alphita serve --port 8080 ", text)
            if "--port" not in text
            else text
        )
        return text.replace("8080", str(self.port))

    def _serve(self, command: list[str], block: Block) -> None:
        self._stop()
        log = self.folder / "served.log"
        with open(log, "wb") as output:
            self.server = subprocess.Popen(
                command,
                cwd=self.folder,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        until = time.monotonic() + SECONDS
        while not _answers(self.port):
            ended = self.server.poll() is not None or time.monotonic() > until
            assert not ended, f"{block}\n{command[-1]}\n{log.read_text(errors='replace')[-4000:]}"
            time.sleep(0.2)

    def _stop(self) -> None:
        if self.server is not None and self.server.poll() is None:
            os.killpg(self.server.pid, signal.SIGTERM)
            self.server.wait(60)


def _answers(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/ready", timeout=5) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def _clone(folder: Path) -> None:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)
    for name in sorted({file.partition("/")[0] for file in listed.stdout.split("\0") if file}):
        if name == "examples":
            shutil.copytree(ROOT / name, folder / name)
        else:
            # What is large, or compiled, is only read.
            (folder / name).symlink_to(ROOT / name)
    (folder / ".venv").symlink_to(sys.prefix)
