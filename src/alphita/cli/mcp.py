"""`alphita mcp`: tools for language models (Model Context Protocol)."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from pathlib import Path

from alphita import machine
from alphita.cli._from_spec import with_options
from alphita.cli.serve import listen, run_app, usable
from alphita.errors import UsageError, require
from alphita.index.choice import Choice
from alphita.jobs.spec import CONCEPTS, ERROR, NIL_ERROR, TO, Concepts
from alphita.options import HOW, Running, group, option
from alphita.service.settings import WHO, Settings


@dataclass(frozen=True, kw_only=True)
class McpSpec:
    """What the tools answer with, how and to whom."""

    to: str = option(..., like=TO)
    http: str | None = option(
        None, metavar="HOST:PORT", help="Serve over HTTP at http://HOST:PORT/mcp; by default over stdin and stdout."
    )
    keys: Path | None = option(
        None, panel=WHO, help="File of API keys for --http; make them with 'alphita serve --keys FILE --new-key NAME'."
    )
    hosts: tuple[str, ...] = option(
        (), "--allow-host", panel=WHO, help="Host name that clients may use for this server; repeatable."
    )
    max_rows: int = option(100, least=1, help="Maximum strings or texts per call.")
    error: float | None = option(None, like=ERROR)
    nil_error: float | None = option(None, like=NIL_ERROR)
    concepts: Concepts = group(Concepts, panel=CONCEPTS)
    given: Choice = group(Choice)
    running: Running = group(Running, panel=HOW)

    def settings(self) -> Settings:
        """Return the address, access and limits, checked."""
        settings = Settings(keys=self.keys, hosts=self.hosts, max_rows=self.max_rows)
        if self.http is not None:
            host, _, port = self.http.rpartition(":")
            if not host or not port.isdecimal():
                raise UsageError(f"--http {self.http!r} is not HOST:PORT; write it as 127.0.0.1:8080")
            settings = replace(settings, host=host.strip("[]"), port=int(port))
        elif self.keys is not None or self.hosts:
            raise UsageError("--keys and --allow-host go with --http HOST:PORT")
        return usable(settings)


@with_options
def mcp(spec: McpSpec) -> None:
    """Give a language model tools that map strings, and say which answers may be used without a person.

    alphita mcp --to hpo

    A client starts this command and talks to it over stdin and stdout. Nothing that it asks is logged.
    """
    require("mcp", "mcp")
    settings = spec.settings()
    threads = machine.set_threads(spec.running.threads)
    from alphita.answer.normalizer import Normalizer, NormalizerOptions
    from alphita.index.sources import index_of
    from alphita.service import agents, logs, workers

    # A further process answers small calls beside a large one, which other clients may send.
    processes = 1 if spec.http is None else min(2, workers.default_processes(spec.running.device, threads))
    how = asdict(spec.running) | {"threads": machine.set_threads(threads // processes), "target": spec.concepts.target}
    options = NormalizerOptions(error=spec.error, nil_error=spec.nil_error, filters=spec.concepts.filters(), **how)
    normalizer = Normalizer(index_of(spec.to, spec.given, threads=threads), options=options)
    normalizer.normalize(["warm up"])
    machine.settle()
    logs.configure()
    if spec.http is None:
        agents.server(normalizer, settings).run("stdio")
        return
    with listen(settings) as listening:
        further = workers.workers_for(normalizer.index, options, processes) if workers.is_room() else ()
        for worker in further:
            worker.warm_up()
        run_app(agents.create(normalizer, settings, further), settings, listening)
