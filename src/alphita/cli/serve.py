"""`alphita serve`: REST, FHIR and the review page."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import socket
import sys
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

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


# The number of the first socket that systemd opens.
FIRST_OF_SYSTEMD = 3


@dataclass(frozen=True, kw_only=True)
class ServeSpec:
    """What to serve, to whom and how."""

    to: str | None = option(None, like=TO)
    mappings: str | None = option(
        None,
        "--mappings",
        "-m",
        metavar="STORE",
        help="Review store, created if missing: a SQLite file or postgresql://user@host/database. Phrases confirmed "
        "before the start become names in the index.",
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
    role: tuple[str, ...] = option(
        (),
        panel=WHO,
        help="Role of the new key: reader, reviewer, adjudicator (by default), administrator, monitor, or one of "
        "--rights; repeatable.",
    )
    error: float | None = option(None, like=ERROR)
    nil_error: float | None = option(None, like=NIL_ERROR)
    given: Choice = group(Choice)
    running: Running = group(Running, panel=HOW)
    # What --check tells of options that cannot be used; whether those of --config are not known at all.
    wrong: tuple[str, ...] = ()
    unread: bool = False

    def answering(self) -> NormalizerOptions:
        from alphita.answer.normalizer import NormalizerOptions

        return NormalizerOptions(error=self.error, nil_error=self.nil_error, **asdict(self.running))


@partial(with_options, config=ConfigFile)
def serve(spec: ServeSpec) -> None:
    """Serve normalisation, search, vectors and FHIR over HTTP, and the review page with --mappings.

    alphita serve --to hpo --mappings reviews.db

    Logs go to stderr as JSON lines, without mentions. On Ctrl+C or SIGTERM the server finishes the requests in progress
    and stops. On SIGHUP it reopens the files of its logs, reads --keys and --rights again, and opens the index anew.
    """
    from alphita.service import access, keys

    settings = spec.settings
    if spec.new_key is not None:
        if settings.keys is None:
            raise UsageError("--new-key needs --keys FILE, where the key's hash is stored")
        roles = access.Roles(settings.rights)
        roles.check(spec.role)
        last_day = keys.days_from_today(spec.key_days) if spec.key_days is not None else None
        print(keys.add(settings.keys, spec.new_key, last_day, spec.role))
        may = ", ".join(roles.identity(spec.new_key, key=spec.role).rights())
        said = f"this key of {spec.new_key} is shown only now; {settings.keys} holds its hash; it may: {may}"
        print(said, file=sys.stderr)
        return
    if spec.role:
        raise UsageError("--role goes with --new-key NAME")
    if spec.check:
        _check(spec)
    else:
        _run(replace(spec, settings=usable(settings)))


def usable(settings: Settings) -> Settings:
    """Return settings with the names of this machine, after a check of access and keys."""
    from alphita.service import access, keys
    from alphita.service.limits import LOOPBACK_NAMES

    settings.check()
    access.Roles(settings.rights)
    if settings.keys is not None:
        # An error in it is reported before anything is loaded.
        keys.usable(settings.keys, keys.load(settings.keys), clock.today())
    names = (
        (*LOOPBACK_NAMES, settings.host, urlsplit(settings.url).hostname or "") if is_loopback(settings.host) else ()
    )
    return replace(settings, hosts=(*names, *settings.hosts))


def _run(spec: ServeSpec) -> None:
    from alphita import machine, progress

    threads = machine.set_threads(spec.running.threads)
    options = replace(spec.answering(), threads=threads)
    from alphita.answer.normalizer import Normalizer
    from alphita.review.store import ReviewStore
    from alphita.service import app, logs, review_files
    from alphita.service.checking import confidence
    from alphita.service.workers import Reopening, default_processes, workers_for
    from alphita.terminology.store import load_terminology

    to, mappings = _served(spec)
    listening = listen(spec.settings)
    drafts.clear_up()
    with listening:
        if spec.demo:
            review_files.DEMO_STORE.parent.mkdir(parents=True, exist_ok=True)
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
            others = workers_for(index, options, processes, spec.settings.log_mentions)
            served = app.create(spec.settings, normalizer, store, opened, others, reopening)
            run_app(served, spec.settings, listening, show=spec.demo and sys.stdout.isatty())
        finally:
            if store is not None:
                store.close()


def _index_of(to: str, given: Choice, mappings: str | None, threads: int) -> Index:
    """Return the index that is to be served, with the phrases confirmed by now; it may have to be built."""
    from alphita.calibrate.from_mappings import confirmed
    from alphita.index.sources import index_of
    from alphita.review import database
    from alphita.review.store import ReviewStore

    if mappings is not None and database.look(mappings, 10.0).version is not None:
        with ReviewStore.open(mappings) as decided:
            given = replace(given, confirmed=confirmed(decided))
    return index_of(to, given, threads=threads)


def _served(spec: ServeSpec) -> tuple[str, str | None]:
    """Return what is answered with, and the store of reviews."""
    from alphita.service import review_files

    if spec.demo:
        if spec.to or spec.mappings or spec.terminology:
            raise UsageError("--demo brings its own terminology and store; leave those out")
        return review_files.DEMO_TO, str(review_files.DEMO_STORE)
    if spec.to is None:
        raise UsageError("--to is missing: give hpo, a terminology's file or an index; or use --demo to try it")
    return spec.to, spec.mappings


def _check(spec: ServeSpec) -> None:
    """Print the state of each part of a server; exit with 1 if one would prevent it from serving.

    With 2 if the file of options cannot be read: what it may name is not checked.
    """
    from alphita import machine
    from alphita.answer.normalizer import Normalizer
    from alphita.index.sources import index_of
    from alphita.service.checking import Parts, check
    from alphita.service.review_files import DEMO_STORE

    def normalizer() -> Normalizer:
        to, _ = _served(spec)
        threads = machine.set_threads(spec.running.threads)
        options = replace(spec.answering(), threads=threads)
        return Normalizer(index_of(to, spec.given, threads=threads), options=options)

    mappings = str(DEMO_STORE) if spec.demo else spec.mappings
    wrong = 0
    opening = normalizer if spec.to or spec.demo or not spec.unread else None
    for finding in check(Parts(spec.settings, listen, opening, spec.terminology, mappings, spec.wrong, spec.unread)):
        wrong += finding.state == "wrong"
        if spec.json:
            printing.print_rows([asdict(finding)])
        else:
            print(f"{finding.state:<6} {finding.part:<12} {finding.text}", flush=True)
    if wrong:
        raise typer.Exit(2 if spec.unread else 1)


def listen(settings: Settings) -> socket.socket:
    """Return a socket that listens on the address of the settings."""
    from alphita.service import limits

    if (listening := _of_systemd(settings)) is not None:
        return listening
    if settings.socket is not None:
        try:
            return UnixSocket(settings.socket, limits.connection_limits()[1])
        except OSError as error:
            raise AlphitaError(f"cannot listen on {settings.socket}: {error.strerror or error}") from None
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
        remedy = f"try another {'--port' if error.errno in (errno.EADDRINUSE, errno.EACCES) else '--host'}"
        where = f"{settings.host}:{settings.port}"
        raise AlphitaError(f"cannot listen on {where}: {error.strerror or error}; {remedy}") from None
    return listening


class UnixSocket(socket.socket):
    """A socket in the file system that its owner and group may use, and that goes when it is closed."""

    def __init__(self, path: Path, backlog: int) -> None:
        super().__init__(socket.AF_UNIX)
        self.path: Path | None = None
        if path.is_socket():
            with socket.socket(socket.AF_UNIX) as other:
                if other.connect_ex(str(path)) != errno.ECONNREFUSED:
                    raise OSError(errno.EADDRINUSE, "another server listens there")
            path.unlink()  # its server was killed
        before = os.umask(0o117)
        try:
            self.bind(str(path))
            self.listen(backlog)
        finally:
            os.umask(before)
        self.path = path

    def close(self) -> None:
        """Close and remove it."""
        super().close()
        if self.path is not None:
            self.path.unlink(missing_ok=True)
            self.path = None


def _of_systemd(settings: Settings) -> socket.socket | None:
    """Return the socket that systemd opened for this process; None: it opened none."""
    if os.environ.get("LISTEN_PID") != str(os.getpid()):
        return None
    given = socket.socket(fileno=FIRST_OF_SYSTEMD)
    if (given.family == socket.AF_UNIX) != (settings.socket is not None):
        raise UsageError("--socket must be given if systemd listens on a Unix socket, and only then")
    if settings.socket is None:
        replace(settings, host=given.getsockname()[0]).check()
    return given


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
    host, port = listening.getsockname()[:2] if settings.socket is None else (str(settings.socket), 0)
    url = f"http://{f'[{host}]' if ':' in host else host}:{port}/" if port else f"unix:{host}"
    logs.event("listening", url=url, access=settings.access)
    print(f"serving on {url} (Ctrl+C ends it)", flush=True)
    if show:
        webbrowser.open(url)  # it connects already, and is answered in a moment
    # A thread that works keeps those that answer waiting for so many seconds, again and again.
    sys.setswitchinterval(0.0002)
    server = uvicorn.Server(config)
    was_terminal = sys.stderr.isatty()

    def reload(*_: object) -> None:
        if was_terminal and not sys.stderr.isatty():  # it was closed, and nobody could end the server by Ctrl+C
            server.should_exit = True
        else:
            # Not in the midst of what the loop is at, which an error here would end.
            asyncio.get_running_loop().call_soon_threadsafe(served.state.reload)

    # uvicorn hands SIGTERM on when it has ended, which is no failure.
    handlers = {signal.SIGTERM: lambda *_: None, signal.SIGHUP: reload}
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        server.run(sockets=[listening])
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    logs.event("ended")
