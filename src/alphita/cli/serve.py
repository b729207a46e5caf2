"""`alphita serve`: REST, FHIR and the review page."""

from __future__ import annotations

import signal
import socket
import sys
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from alphita import clock, drafts, printing
from alphita.cli._from_spec import ConfigFile, with_options
from alphita.errors import AlphitaError, UsageError
from alphita.index.choice import Choice
from alphita.jobs.spec import ERROR, NIL_ERROR, TO
from alphita.options import HOW, Running, group, option
from alphita.service.settings import WHO, Settings, is_loopback

if TYPE_CHECKING:
    from alphita.answer.normalizer import NormalizerOptions
    from alphita.index.store import Index
    from alphita.service.checking import Parts


@dataclass(frozen=True, kw_only=True)
class ServeSpec:
    """What to serve, to whom and how."""

    to: str | None = option(None, like=TO)
    mappings: Path | None = option(
        None,
        "--mappings",
        "-m",
        help="Review store, created if missing. Phrases confirmed before the start become names in the index.",
    )
    terminology: Path | None = option(None, help="Terminology folder, to show concepts with all their data.")
    check: bool = option(False, help="Check whether the server would start and answer with these options, and exit.")
    json: bool = option(False, help="With --check: print JSON, one object per part, instead of text.")
    demo: bool = option(False, help="Open a review of messy clinical strings, stored in ./demo; needs no other option.")
    settings: Settings = group(Settings)
    new_key: str | None = option(
        None, metavar="NAME", panel=WHO, help="Add a key for this reviewer to --keys, print it, and exit."
    )
    key_days: int | None = option(None, least=1, panel=WHO, help="Days for which the new key is valid.")
    error: float | None = option(None, like=ERROR)
    nil_error: float | None = option(None, like=NIL_ERROR)
    given: Choice = group(Choice)
    running: Running = group(Running, panel=HOW)

    def answering(self) -> NormalizerOptions:
        from alphita.answer.normalizer import NormalizerOptions

        return NormalizerOptions(error=self.error, nil_error=self.nil_error, **asdict(self.running))


@partial(with_options, config=ConfigFile)
def serve(spec: ServeSpec) -> None:
    """Serve normalisation, search, vectors and FHIR over HTTP, and the review page with --mappings.

    alphita serve --to hpo --mappings reviews.db

    Logs go to stderr as JSON lines, without mentions. On Ctrl+C or SIGTERM the server finishes the requests in progress
    and stops. On SIGHUP it reopens the file that stderr points to, reads --keys again, and opens the index anew.
    """
    from alphita.service import keys

    settings = spec.settings
    if spec.new_key is not None:
        if settings.keys is None:
            raise UsageError("say by --keys FILE where the key's hash is to be kept")
        last_day = keys.days_from_today(spec.key_days) if spec.key_days is not None else None
        print(keys.add(settings.keys, spec.new_key, last_day))
        print(f"this key of {spec.new_key} is shown only now; {settings.keys} holds its hash", file=sys.stderr)
        return
    _run(replace(spec, settings=usable(settings, checking=spec.check)))


def usable(settings: Settings, *, checking: bool = False) -> Settings:
    """Return settings with the names of this machine, after a check of access and keys.

    Args:
        checking: keys that are over are no error.
    """
    from alphita.service import keys
    from alphita.service.limits import LOOPBACK_NAMES

    settings.check()
    if settings.keys is not None:
        held = keys.load(settings.keys)  # an error in it is reported before anything is loaded
        if not checking:
            keys.usable(settings.keys, held, clock.today())
    names = (*LOOPBACK_NAMES, settings.host) if is_loopback(settings.host) else ()
    return replace(settings, hosts=(*names, *settings.hosts))


def _run(spec: ServeSpec) -> None:
    from alphita import machine, progress

    threads = machine.set_threads(spec.running.threads)
    options = replace(spec.answering(), threads=threads)
    from alphita.answer.normalizer import Normalizer
    from alphita.index.sources import index_of
    from alphita.review.store import ReviewStore
    from alphita.service import app, logs, review_files
    from alphita.service.checking import Parts, confidence
    from alphita.service.workers import Reopening, default_processes
    from alphita.terminology.store import load_terminology

    to, mappings = spec.to, spec.mappings

    if spec.demo:
        if to or mappings or spec.terminology:
            raise UsageError("--demo brings its own terminology and store; leave those out")
        to, mappings = review_files.DEMO_TO, review_files.DEMO_STORE
    elif to is None:
        raise UsageError("say by --to what to answer with: hpo, a terminology's file, an index; or --demo to try it")
    if spec.check:
        _check(
            Parts(
                spec.settings,
                listen,
                lambda: Normalizer(index_of(to, spec.given, threads=threads), options=options),
                spec.terminology,
                mappings,
            ),
            spec.json,
        )
        return
    listening = listen(spec.settings)
    drafts.clear_up()
    with listening:
        open_index = partial(_index_of, to, spec.given, mappings, threads)
        index = open_index()
        processes = spec.settings.processes or default_processes(options.device, threads)
        options = replace(options, threads=machine.set_threads(max(1, threads // processes)))
        normalizer = Normalizer(index, options=options)
        normalizer.encoder()  # a damaged model is reported now, not with the first request
        if spec.demo:
            review_files.fill_demo(review_files.DEMO_STORE, normalizer)
        opened = load_terminology(spec.terminology) if spec.terminology is not None else None
        if opened is not None and opened.content_hash != normalizer.index.manifest["terminology_hash"]:
            progress.say(
                f"{to} was not built from {spec.terminology} as it is: concepts of the one may be missing in the "
                f"other; give the index's own terminology, or build it again: alphita index {spec.terminology} …"
            )
        store = ReviewStore.open(mappings, create=True) if mappings is not None else None
        try:
            logs.configure(mentions=spec.settings.log_mentions)
            if (finding := confidence(normalizer)).state != "ok":
                logs.warn("no calibration of its own", message=finding.text)
            reopening = Reopening(open_index, options, spec.settings.log_mentions, spec.terminology, processes)
            served = app.create(spec.settings, normalizer, store, opened, reopening.further(index), reopening)
            run_app(served, spec.settings, listening, show=spec.demo and sys.stdout.isatty())
        finally:
            if store is not None:
                store.close()


def _index_of(to: str, given: Choice, mappings: Path | None, threads: int) -> Index:
    """Return the index that is to be served, with the phrases confirmed by now; it may have to be built."""
    from alphita.calibrate.from_mappings import confirmed
    from alphita.index.sources import index_of
    from alphita.review.store import ReviewStore

    if mappings is not None and mappings.exists():
        with ReviewStore.open(mappings) as decided:
            given = replace(given, confirmed=confirmed(decided))
    return index_of(to, given, threads=threads)


def _check(parts: Parts, as_json: bool) -> None:
    """Print the state of each part of a server; exit with 1 if one would prevent it from serving."""
    from alphita.service.checking import check

    wrong = 0
    for finding in check(parts):
        wrong += finding.state == "wrong"
        if as_json:
            printing.print_rows([asdict(finding)])
        else:
            print(f"{finding.state:<6} {finding.part:<12} {finding.text}", flush=True)
    if wrong:
        raise typer.Exit(1)


def listen(settings: Settings) -> socket.socket:
    """Return a socket that listens on the address of the settings."""
    from alphita.service import limits

    listening = None
    try:
        addresses = socket.getaddrinfo(settings.host.strip("[]"), settings.port, type=socket.SOCK_STREAM)
        family, kind, protocol, _, address = addresses[0]
        # With the protocol named asyncio sends at once; otherwise each answer would wait 40 ms for an acknowledgement.
        listening = socket.socket(family, kind, protocol or socket.IPPROTO_TCP)
        if sys.platform != "win32":
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen(limits.connection_limits()[1])
    except OSError as error:
        if listening is not None:
            listening.close()
        raise AlphitaError(
            f"cannot listen on {settings.host}:{settings.port}: {error.strerror or error}; try another --port"
        ) from None
    return listening


def run_app(
    served: Any,  # noqa: ANN401 - a FastAPI app
    settings: Settings,
    listening: socket.socket,
    *,
    show: bool = False,
) -> None:
    """Answer requests until the process is told to end."""
    import webbrowser

    import uvicorn

    from alphita.service import limits, logs

    config = uvicorn.Config(
        served,
        http=limits.Connection,
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        lifespan="on",
        backlog=limits.connection_limits()[1],
        # A client's statement about its address is not trusted; see `--proxy`.
        proxy_headers=False,
        timeout_graceful_shutdown=int(settings.seconds) + 1,
    )
    host, port = listening.getsockname()[:2]
    url = f"http://{f'[{host}]' if ':' in host else host}:{port}/"
    logs.event("listening", url=url, access=settings.access)
    print(f"serving on {url} (Ctrl+C ends it)", flush=True)
    if show:
        webbrowser.open(url)  # it connects already, and is answered in a moment
    # A thread that works keeps those that answer waiting for so many seconds.
    sys.setswitchinterval(0.001)
    server = uvicorn.Server(config)
    was_terminal = sys.stderr.isatty()

    def reload(*_: object) -> None:
        if was_terminal and not sys.stderr.isatty():  # it was closed, and nobody could end the server by Ctrl+C
            server.should_exit = True
        else:
            served.state.reload()

    # uvicorn hands SIGTERM on when it has ended, which is no failure.
    handlers = {signal.SIGTERM: lambda *_: None, signal.SIGHUP: reload}
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        server.run(sockets=[listening])
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    logs.event("ended")
