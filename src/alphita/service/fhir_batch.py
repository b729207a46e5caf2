"""A batch: a Bundle of requests, each answered by its own status, in their order.

Specification, of R4 and the same of R5: http://hl7.org/fhir/R4/http.html#transaction and
http://hl7.org/fhir/R4/bundle.html.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from http import HTTPStatus
from typing import Any
from urllib.parse import urlsplit

from alphita.errors import AlphitaError
from alphita.service.failures import Fault, Refusal, outcome, pairs_of, refusal_of
from alphita.service.settings import Settings

Pairs = list[tuple[str, str]]
# Method, path below the base, parameters of the query, and the resource that is sent -> the resource that answers.
Ask = Callable[[str, str, Pairs, object], dict[str, Any]]


def answer(bundle: object, base: str, ask: Ask, settings: Settings) -> dict[str, Any]:
    """Return the Bundle of the answers.

    Args:
        bundle: the Bundle, as JSON gives it.
        base: the service's path, which a url may repeat.
        ask: answers one request.
        settings: they limit the entries, and the seconds of all together.
    """
    if not isinstance(bundle, dict) or bundle.get("resourceType") != "Bundle":
        raise Fault("structure", "the body must be a resource of type Bundle")
    if bundle.get("type") != "batch":
        raise Fault("not-supported", "Bundle.type must be 'batch': this service takes no transactions")
    entries = bundle.get("entry", [])
    if not isinstance(entries, list):
        raise Fault("structure", "Bundle.entry must be a list")
    if len(entries) > settings.max_rows:
        raise Fault("too-long", f"{len(entries):,} entries, at most {settings.max_rows:,} a batch", 413)
    until = time.monotonic() + settings.seconds
    answers = [_entry(entry, f"Bundle.entry[{place}]", base, ask, until) for place, entry in enumerate(entries)]
    return {"resourceType": "Bundle", "type": "batch-response", **({"entry": answers} if answers else {})}


def _entry(entry: object, name: str, base: str, ask: Ask, until: float) -> dict[str, Any]:
    try:
        if time.monotonic() > until:
            raise Fault("timeout", "the time of this batch is over: send fewer entries", 504)
        return {"resource": _asked(entry, name, base, ask), "response": {"status": _status(200)}}
    except (Refusal, AlphitaError) as error:
        refusal = error if isinstance(error, Refusal) else refusal_of(error)
        return {"response": {"status": _status(refusal.status), "outcome": outcome(refusal)}}


def _asked(entry: object, name: str, base: str, ask: Ask) -> dict[str, Any]:
    request = entry.get("request") if isinstance(entry, dict) else None
    if not isinstance(entry, dict) or not isinstance(request, dict):
        raise Fault("required", f"{name} needs a request")
    method, url = request.get("method"), request.get("url")
    if not isinstance(method, str) or not isinstance(url, str):
        raise Fault("required", f"{name}.request needs a method and a url")
    try:
        split = urlsplit(url)
    except ValueError:
        raise Fault("value", f"{name}.request.url is not a url") from None
    path = split.path.rpartition(base)[2].lstrip("/")
    return ask(method.upper(), path, pairs_of(split.query), entry.get("resource"))


def _status(status: int) -> str:
    return f"{status} {HTTPStatus(status).phrase}"
