"""`alphita serve`: REST, FHIR and the review page."""

from __future__ import annotations

import signal
import socket
import sys
import types
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from alphita.cli._config_file import ConfigFile
from alphita.cli._from_spec import (
    AllowedError,
    Device,
    HelpAll,
    Learn,
    Names,
    NoBorrow,
    Precision,
    ShippedModel,
    Threads,
    option,
)
from alphita.errors import AlphitaError, UsageError
from alphita.normalizer.spec import chosen

if TYPE_CHECKING:
    from alphita.index.choice import Choice
    from alphita.service.checking import Parts
    from alphita.service.settings import Settings

WHO, HOW_MUCH, HOW = "Who may ask", "How much", "How"
BACKLOG = 512


def serve(
    to: Annotated[str | None, option("to")] = None,
    mappings: Annotated[
        Path | None, typer.Option("--mappings", "-m", help="Store of reviews, one SQLite file; made if it is missing.")
    ] = None,
    terminology: Annotated[
        Path | None, typer.Option(help="Terminology folder: concepts are shown with all that it knows of them.")
    ] = None,
    demo: Annotated[
        bool, typer.Option("--demo", help="Open a review of messy clinical strings, kept in ./demo; it needs nothing.")
    ] = False,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65_535, help="Port; 0: any free one.")] = 8080,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(help="A name by which this server may be called; repeatable.", rich_help_panel=WHO),
    ] = None,
    keys: Annotated[
        Path | None,
        typer.Option(
            help="API keys, each of one reviewer: lines of name, tab, SHA-256, tab, last day.", rich_help_panel=WHO
        ),
    ] = None,
    new_key: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Add a key for this reviewer to --keys, print it, and end.", rich_help_panel=WHO
        ),
    ] = None,
    key_days: Annotated[
        int | None, typer.Option(min=1, help="Days for which --new-key holds.", rich_help_panel=WHO)
    ] = None,
    trust_user_header: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Header in which a proxy says who asks, e.g. X-User.", rich_help_panel=WHO),
    ] = None,
    proxy: Annotated[
        list[str] | None,
        typer.Option(
            help="Address or network of that proxy, this machine by default; repeatable.", rich_help_panel=WHO
        ),
    ] = None,
    rate: Annotated[
        float, typer.Option(min=0, help="Requests a second of one client; 0: any number.", rich_help_panel=HOW_MUCH)
    ] = 100.0,
    max_rows: Annotated[int, typer.Option(min=1, help="Mentions a request.", rich_help_panel=HOW_MUCH)] = 1_000,
    max_characters: Annotated[int, typer.Option(min=1, help="Characters a mention.", rich_help_panel=HOW_MUCH)] = 1_000,
    max_body: Annotated[int, typer.Option(min=1, help="Bytes of a request's body.", rich_help_panel=HOW_MUCH)] = 2
    * 2**20,
    max_upload: Annotated[
        int, typer.Option(min=1, help="Bytes of a file imported for review.", rich_help_panel=HOW_MUCH)
    ] = 64 * 2**20,
    queue: Annotated[int, typer.Option(min=1, help="Mentions waiting at most.", rich_help_panel=HOW_MUCH)] = 8_192,
    seconds: Annotated[
        float, typer.Option(min=0.1, help="Seconds a request may take.", rich_help_panel=HOW_MUCH)
    ] = 30.0,
    file_seconds: Annotated[
        float, typer.Option(min=0.1, help="Seconds an import or export of reviews may take.", rich_help_panel=HOW_MUCH)
    ] = 300.0,
    batch_tokens: Annotated[int, typer.Option(min=1, help="Tokens normalised together.", rich_help_panel=HOW)] = 2_048,
    window_ms: Annotated[
        float, typer.Option(min=0, max=100, help="Wait for requests that are arriving.", rich_help_panel=HOW)
    ] = 2.0,
    log_mentions: Annotated[
        bool, typer.Option("--log-mentions", help="Log the strings, which may be patient data.", rich_help_panel=HOW)
    ] = False,
    error: AllowedError = None,
    no_borrow: NoBorrow = False,
    names: Names = None,
    learn: Learn = "seconds",
    model: ShippedModel = None,
    precision: Precision = "auto",
    device: Device = "auto",
    threads: Threads = None,
    check: Annotated[
        bool, typer.Option("--check", help="Say whether the server would start like this and answer, and end.")
    ] = False,
    config: ConfigFile = None,
    help_all: HelpAll = False,
) -> None:
    """Serve normalising, search, vectors and FHIR over HTTP, and the review page with --mappings.

    alphita serve --to hpo --mappings reviews.db

    Logs go to stderr as JSON lines, without the strings asked for. The server ends by Ctrl+C or SIGTERM, when the
    requests that it is at are answered.
    """
    from alphita.service import keys as doors
    from alphita.service.headers import LOOPBACK_NAMES
    from alphita.service.settings import Settings

    if new_key is not None:
        if keys is None:
            raise UsageError("say by --keys FILE where the key's hash is to be kept")
        print(doors.add(keys, new_key, doors.days_from_today(key_days) if key_days is not None else None))
        print(f"this key of {new_key} is shown only now; {keys} holds its hash", file=sys.stderr)
        return
    settings = Settings(
        host=host,
        port=port,
        keys=keys,
        trust_user_header=trust_user_header,
        log_mentions=log_mentions,
        rate=rate,
        max_rows=max_rows,
        max_characters=max_characters,
        max_body=max_body,
        max_upload=max_upload,
        queue=queue,
        seconds=seconds,
        file_seconds=file_seconds,
        batch_tokens=batch_tokens,
        window=window_ms / 1000,
        **({"proxies": tuple(proxy)} if proxy else {}),
    )
    settings.check()
    if keys is not None:
        doors.load(keys)  # a mistake in it is told of before anything is loaded
    if settings.is_loopback and settings.access != "header":
        hosts = (*LOOPBACK_NAMES, host, *(allow_host or ()))
        settings = settings.model_copy(update={"hosts": hosts})
    elif allow_host:
        settings = settings.model_copy(update={"hosts": tuple(allow_host)})
    _run(
        settings,
        to,
        mappings,
        terminology,
        demo,
        chosen(no_borrow, names, learn, model),
        {"error": error, "precision": precision, "device": device, "threads": threads},
        check=check,
    )


def _run(
    settings: Settings,
    to: Path | str | None,
    mappings: Path | None,
    terminology: Path | None,
    demo: bool,
    choice: Choice,
    options: dict[str, Any],
    *,
    check: bool,
) -> None:
    from alphita import machine, progress

    options["threads"] = machine.set_threads(options["threads"])
    from alphita.index.sources import index_of
    from alphita.mappings.review.store import ReviewStore
    from alphita.normalizer.answering.normalizer import Normalizer
    from alphita.service import app, logs
    from alphita.service import demo as made
    from alphita.terminology.store import load_terminology

    if demo:
        if to or mappings or terminology:
            raise UsageError("--demo brings its own terminology and store; leave those out")
        to, mappings = made.SOURCE, made.STORE
    elif to is None:
        raise UsageError("say by --to what to answer with: hpo, a terminology's file, an index; or --demo to try it")
    if check:
        from alphita.service.checking import Parts

        source = to
        parts = Parts(
            settings,
            _listen,
            lambda: Normalizer(index_of(source, choice, threads=options["threads"]), **options),
            terminology,
            mappings,
        )
        _check(parts)
        return
    listening = _listen(settings)
    with listening:
        index = index_of(to, choice, threads=options["threads"])
        normalizer = Normalizer(index, **options)
        normalizer.encoder()  # a damaged model is told of now, not with the first request
        if demo:
            made.fill(made.STORE, normalizer)
        opened = load_terminology(terminology) if terminology is not None else None
        if opened is not None and opened.content_hash != normalizer.index.manifest["terminology_hash"]:
            progress.say(
                f"{to} was not built from {terminology} as it is: concepts of the one may be missing in the other; "
                f"give the index's own terminology, or build it again: alphita index {terminology} …"
            )
        store = ReviewStore.open(mappings, create=True) if mappings is not None else None
        try:
            logs.configure(mentions=settings.log_mentions)
            served = app.create(settings, normalizer, store, opened)
            _serve(served, settings, listening, show=demo and sys.stdout.isatty())
        finally:
            if store is not None:
                store.close()


def _check(parts: Parts) -> None:
    """Print what is found of each part of a server; leave with 1 where one would keep it from serving."""
    from alphita.service.checking import check

    wrong = 0
    for finding in check(parts):
        wrong += finding.state == "wrong"
        print(f"{finding.state:<6} {finding.part:<12} {finding.text}", flush=True)
    if wrong:
        raise typer.Exit(1)


def _listen(settings: Settings) -> socket.socket:
    listening = None
    try:
        addresses = socket.getaddrinfo(settings.host.strip("[]"), settings.port, type=socket.SOCK_STREAM)
        family, kind, protocol, _, address = addresses[0]
        # With the protocol named asyncio sends at once; otherwise each answer would wait 40 ms for an acknowledgement.
        listening = socket.socket(family, kind, protocol or socket.IPPROTO_TCP)
        if sys.platform != "win32":
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen(BACKLOG)
    except OSError as error:
        if listening is not None:
            listening.close()
        raise AlphitaError(
            f"cannot listen on {settings.host}:{settings.port}: {error.strerror or error}; try another --port"
        ) from None
    return listening


def _serve(
    served: Any,  # noqa: ANN401 - a FastAPI app
    settings: Settings,
    listening: socket.socket,
    *,
    show: bool,
) -> None:
    import webbrowser

    import uvicorn

    from alphita.service import logs

    config = uvicorn.Config(
        served,
        log_config=None,
        access_log=False,
        server_header=False,
        lifespan="on",
        backlog=BACKLOG,
        # What a client says of its own address is not believed; see `--proxy`.
        proxy_headers=False,
        timeout_graceful_shutdown=int(settings.seconds) + 1,
    )
    host, port = listening.getsockname()[:2]
    url = f"http://{f'[{host}]' if ':' in host else host}:{port}/"
    logs.event("listening", url=url, access=settings.access)
    print(f"serving on {url} (Ctrl+C ends it)", flush=True)
    if show:
        webbrowser.open(url)  # it connects already, and is answered in a moment
    # uvicorn hands the signal on when it has ended, which is no failure.
    before = signal.signal(signal.SIGTERM, _ended)
    try:
        uvicorn.Server(config).run(sockets=[listening])
    finally:
        signal.signal(signal.SIGTERM, before)
    logs.event("ended")


def _ended(_: int, __: types.FrameType | None) -> None:
    pass
