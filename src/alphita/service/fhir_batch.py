"""A batch: a Bundle of requests, each answered by its own status, in their order.

Specification, of R4 and the same of R5: http://hl7.org/fhir/R4/http.html#transaction and
http://hl7.org/fhir/R4/bundle.html.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from http import HTTPStatus
from typing import Any
from urllib.parse import urlsplit

from pydantic_core import to_json

from alphita.errors import AlphitaError
from alphita.service.failures import Fault, Refusal, outcome, pairs_of, refusal_of
from alphita.service.settings import MIB

# Of all answers of a batch, but for the last.
MAX_BYTES = 16 * MIB
Pairs = list[tuple[str, str]]
# Method, path below the base, parameters of the query, and the resource that is sent -> the resource that answers.
Ask = Callable[[str, str, Pairs, object], dict[str, Any]]


def answers(bundle: object, base: str, ask: Ask, most: int, until: float) -> Iterator[bytes]:
    """Return an iterator that answers one entry after the other, as JSON.

    Args:
        bundle: the Bundle, as JSON gives it.
        base: the service's path, which a url may repeat.
        ask: answers one request.
        most: entries of a Bundle.
        until: when the time is over, in seconds of `time.monotonic`.
    """
    if not isinstance(bundle, dict) or bundle.get("resourceType") != "Bundle":
        raise Fault("structure", "the body must be a resource of type Bundle")
    if bundle.get("type") != "batch":
        raise Fault("not-supported", "Bundle.type must be 'batch': this service takes no transactions")
    entries = bundle.get("entry", [])
    if not isinstance(entries, list):
        raise Fault("structure", "Bundle.entry must be a list")
    if len(entries) > most:
        raise Fault("too-long", f"{len(entries):,} entries, at most {most:,} a batch", 413)
    return _answered(entries, base, ask, until)


def _answered(entries: list[object], base: str, ask: Ask, until: float) -> Iterator[bytes]:
    size = 0
    for place, entry in enumerate(entries):
        over = "answers are too large" if size > MAX_BYTES else "time is over" if time.monotonic() > until else ""
        try:
            if over:
                raise Fault("too-costly", f"this batch's {over}: send fewer entries", 413)
            resource = _asked(entry, f"Bundle.entry[{place}]", base, ask)
            answer = to_json({"resource": resource, "response": {"status": _status(200)}})
        except (Refusal, AlphitaError) as error:
            refusal = error if isinstance(error, Refusal) else refusal_of(error)
            answer = to_json({"response": {"status": _status(refusal.status), "outcome": outcome(refusal)}})
        size += len(answer)
        yield answer


def bundle_of(answers: Sequence[bytes]) -> bytes:
    """Return the Bundle of the answers."""
    listed = b',"entry":[' + b",".join(answers) + b"]" if answers else b""
    return b'{"resourceType":"Bundle","type":"batch-response"' + listed + b"}"


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
