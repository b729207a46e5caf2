"""FHIR R4 and R5 under /fhir/r4 and /fhir/r5, JSON only: capabilities, operations and batches of them.

Specification: http://hl7.org/fhir/R4/terminology-service.html and http://hl7.org/fhir/R5/terminology-service.html.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, get_args

from fastapi import APIRouter, Depends, Request, Response
from fastapi.responses import JSONResponse
from starlette.concurrency import run_in_threadpool

from alphita import __version__, clock, textio
from alphita.index.store import Index
from alphita.review import files
from alphita.review.memory import FinalMappings
from alphita.review.store import ReviewStore
from alphita.service import fhir_batch, fhir_codes, fhir_expand, fhir_translate
from alphita.service.access import Asker, Identity
from alphita.service.batching import Batcher
from alphita.service.failures import FORM, Fault, media_type, pairs_of
from alphita.service.fhir_batch import Pairs
from alphita.service.fhir_parameters import (
    COMPLEX,
    JSON_TYPES,
    MEDIA_TYPE,
    MEMBERS,
    Release,
    Values,
    answered,
    parameter,
    values_of,
)
from alphita.service.normalizing import Question, in_turns
from alphita.service.settings import Settings

VERSIONS: dict[Release, str] = {"r4": "4.0.1", "r5": "5.0.0"}
RELEASES: tuple[Release, ...] = get_args(Release)
DEFINITIONS = "http://hl7.org/fhir/OperationDefinition"
CONCEPT_MAP, CODE_SYSTEM, VALUE_SET = "ConceptMap", "CodeSystem", "ValueSet"
DESCRIPTION = "Alphita: reviewed mappings ($translate), and the concepts of an index"
NOTHING = "this service does not have that: /fhir/r4/metadata and /fhir/r5/metadata list what it has"
# Of the examples.
HPO, SEIZURE = "http://human-phenotype-ontology.org", "HP:0001250"
# What a client may accept that JSON answers.
ACCEPTED = (*JSON_TYPES, "*/*", "application/*", "text/*")
OPEN_FAULTS, FAULTS = (400, 406), (400, 401, 403, 404, 406, 413, 415, 422, 429, 503)
FORMAT = {
    "name": "_format",
    "in": "query",
    "schema": {"type": "string", "enum": list(JSON_TYPES)},
    "description": f"overrides the header Accept; every response is {MEDIA_TYPE}",
}
MODES = ("full", "normative", "terminology")
MODE = {"name": "mode", "in": "query", "schema": {"type": "string", "enum": list(MODES), "default": "full"}}


class FhirJson(JSONResponse):
    """An answer of FHIR, which the OpenAPI document shows as such."""

    media_type = MEDIA_TYPE


class Operation(NamedTuple):
    """An operation: its answer, its parameters by type, an example, and the parameters that may be repeated."""

    answer: Callable[..., dict[str, Any]]
    known: dict[str, str]
    example: dict[str, str]
    repeated: tuple[str, ...] = ()


class Server:
    """Answers the requests of one release, whether they come by themselves or in a batch."""

    def __init__(self, release: Release, store: ReviewStore | None, index: Index) -> None:
        self.release, self.index, self._store = release, index, store
        self._settled = FinalMappings(store.database) if store is not None else None
        self._started = clock.now().isoformat(timespec="seconds")
        look_up = partial(fhir_codes.look_up, index, release=release)
        validate = partial(fhir_codes.validate, index, release=release)
        a_map = {"r4": ("system", "code"), "r5": ("sourceSystem", "sourceCode")}[release]
        self.operations = {
            f"{CODE_SYSTEM}/$lookup": Operation(
                look_up, fhir_codes.LOOKUP, {"system": HPO, "code": SEIZURE}, fhir_codes.LOOKUP_REPEATED
            ),
            f"{CODE_SYSTEM}/$subsumes": Operation(
                partial(fhir_codes.subsumes, index),
                fhir_codes.SUBSUMES,
                {"system": HPO, "codeA": "HP:0012638", "codeB": SEIZURE},
            ),
            f"{CODE_SYSTEM}/$validate-code": Operation(
                partial(validate, of_set=False),
                fhir_codes.OF_SYSTEM,
                {"url": HPO, "code": SEIZURE, "display": "Seizure"},
            ),
            f"{CONCEPT_MAP}/$translate": Operation(
                self._translated,
                fhir_translate.KNOWN,
                dict(zip(a_map, ("http://lab.example/codes", "L1"), strict=True)),
                fhir_translate.REPEATED,
            ),
            f"{VALUE_SET}/$expand": Operation(
                partial(fhir_expand.expand, index), fhir_expand.EXPAND, {"url": HPO, "filter": "seiz"}
            ),
            f"{VALUE_SET}/$validate-code": Operation(
                partial(validate, of_set=True),
                fhir_codes.OF_SET,
                {"url": f"{HPO}?fhir_vs", "system": HPO, "code": SEIZURE},
            ),
        }

    def ask(self, method: str, path: str, pairs: Pairs, resource: object = None, *, asker: Identity) -> dict[str, Any]:
        """Return the resource that answers a request for a path below the base; `resource` None: none was sent."""
        if path == "metadata" and method == "GET":
            return self._metadata(dict(pairs))
        operation = self.operations.get(path)
        if operation is None:
            raise Fault("not-found", NOTHING, 404)
        if method not in ("GET", "POST"):
            raise Fault("not-supported", "operations are asked by GET or POST", 405)
        given = values_of(pairs, resource if method == "POST" else None, operation.known, operation.repeated)
        return self._translated(given, asker) if operation.answer == self._translated else operation.answer(given)

    def _metadata(self, query: Mapping[str, str]) -> dict[str, Any]:
        mode = query.get("mode", "full")
        if mode not in MODES:
            raise Fault("invalid", f"'mode' must be one of {', '.join(MODES)}")
        return self._terminology() if mode == "terminology" else self._statement()

    def _statement(self) -> dict[str, Any]:
        """Return the CapabilityStatement."""
        listed: dict[str, list[dict[str, str]]] = {}
        for path in self.operations:
            kind, _, name = path.partition("/$")
            listed.setdefault(kind, []).append({"name": name, "definition": f"{DEFINITIONS}/{kind}-{name}"})
        resources = [{"type": kind, "operation": operations} for kind, operations in listed.items()]
        return {
            "resourceType": "CapabilityStatement",
            **self._common(),
            "fhirVersion": VERSIONS[self.release],
            "format": ["json", MEDIA_TYPE],
            "rest": [{"mode": "server", "resource": resources, "interaction": [{"code": "batch"}]}],
        }

    def _terminology(self) -> dict[str, Any]:
        """Return the TerminologyCapabilities: the code systems that the index has concepts of, and how it answers."""
        systems = []
        for prefix in fhir_codes.rows_of(self.index):
            uri, _ = files.coding_of(f"{prefix}:0")
            system: dict[str, Any] = {"uri": uri, "subsumption": fhir_codes.has_parents(self.index)}
            if version := fhir_codes.version_of(self.index, prefix):
                system["version"] = [{"code": version, "isDefault": True}]
            # An index may be of a part of a system.
            systems.append(system | ({"content": "fragment"} if self.release == "r5" else {}))
        return {
            "resourceType": "TerminologyCapabilities",
            **self._common(),
            "codeSystem": sorted(systems, key=lambda system: str(system["uri"])),
            "expansion": {
                "hierarchical": False,
                "paging": True,
                "incomplete": False,
                "parameter": [{"name": name} for name in fhir_expand.FOLLOWED],
                "textFilter": "the code, or words of which each begins a word of the same name; the best fit first",
            },
            "validateCode": {"translations": True},
            "translation": {"needsMap": False},
        }

    def _common(self) -> dict[str, Any]:
        return {
            "status": "active",
            "date": self._started,
            "kind": "instance",
            "software": {"name": "Alphita", "version": __version__},
            "implementation": {"description": DESCRIPTION},
        }

    def _translated(self, values: Values, asker: Identity) -> dict[str, Any]:
        question = fhir_translate.question_of(values)
        if self._store is None or self._settled is None:
            raise Fault("not-found", "this service was started without a store of mappings (--mappings)", 404)
        store = self._store
        projects = [project.name for project in store.projects() if asker.may("read", project.name)]
        every = fhir_translate.matches(self._settled, projects, question)
        found = (match for match in every if asker.sees(store, match.row.project, match.row.row))
        return fhir_translate.answer(found, question, self.release)


def router(store: ReviewStore | None, index: Index, settings: Settings, batcher: Batcher[Question, Any]) -> APIRouter:
    """Return the routes."""
    routes = APIRouter(prefix="/fhir", tags=["FHIR"], dependencies=[Depends(_check_accepted)])
    for release in RELEASES:
        _add(routes, Server(release, store, index), settings, batcher)
    methods = ["GET", "POST", "PUT", "PATCH", "DELETE"]
    for path in ("", "/{path:path}"):
        routes.add_api_route(path, _nothing, methods=methods, include_in_schema=False)
    return routes


class Sent(NamedTuple):
    """Parameters of the query and of a form, and the resource in the body, not yet read."""

    pairs: Pairs
    body: bytes

    def resource(self) -> object:
        """Return the resource; None: there is none."""
        try:
            return textio.json_value(self.body) if self.body else None
        except ValueError:
            raise Fault("structure", "the body is not JSON") from None


async def _sent(request: Request) -> Sent:
    pairs, body = request.query_params.multi_items(), await request.body()
    kind = media_type(request)
    if kind == FORM:
        return Sent(pairs + await run_in_threadpool(pairs_of, body.decode("utf-8", "replace")), b"")
    if body and kind not in JSON_TYPES:
        raise Fault("not-supported", f"the body must be {MEDIA_TYPE}, or {FORM}", 415)
    return Sent(pairs, body)


def _add(routes: APIRouter, server: Server, settings: Settings, batcher: Batcher[Question, Any]) -> None:
    release = server.release

    def add(path: str, endpoint: Callable[..., Any], name: str, summary: str, **more: Any) -> None:  # noqa: ANN401
        routes.add_api_route(
            f"/{release}{path}",
            endpoint,
            operation_id=f"fhir_{release}_{name}",
            summary=f"{summary} ({release.upper()})",
            response_class=FhirJson,
            **more,
        )

    def got(path: str) -> Callable[..., Response]:
        def answer(request: Request, asker: Asker) -> Response:
            return FhirJson(server.ask("GET", path, request.query_params.multi_items(), asker=asker))

        return answer

    def posted(path: str) -> Callable[..., Response]:
        def answer(asker: Asker, sent: Sent = Depends(_sent)) -> Response:
            return FhirJson(server.ask("POST", path, sent.pairs, sent.resource(), asker=asker))

        return answer

    async def batch(request: Request, asker: Asker, sent: Sent = Depends(_sent)) -> Response:
        until = getattr(request.state, "deadline", math.inf)
        bundle, ask = await run_in_threadpool(sent.resource), partial(server.ask, asker=asker)
        entries = fhir_batch.answers(bundle, f"/fhir/{release}", ask, settings.max_rows, until)
        answers = await in_turns(batcher, request, entries)
        return Response(fhir_batch.bundle_of(answers), media_type=MEDIA_TYPE)

    described: dict[str, Any] = {"parameters": [MODE, FORMAT]}
    summary = "Capability statement, or terminology capabilities"
    add("/metadata", got("metadata"), "metadata", summary, openapi_extra=described, responses=_documented(OPEN_FAULTS))
    asked: dict[str, Any] = {"responses": _documented(FAULTS)}
    example = {"method": "GET", "url": f"{CODE_SYSTEM}/$lookup?system={HPO}&code={SEIZURE}"}
    bundle = {"resourceType": "Bundle", "type": "batch", "entry": [{"request": example}]}
    described = {"parameters": [FORMAT], "requestBody": _body(bundle)}
    for path in ("", "/"):
        shown = {"include_in_schema": not path, "methods": ["POST"], "openapi_extra": described}
        add(path, batch, f"batch{path}", "Batch of requests", **shown, **asked)
    for path, operation in server.operations.items():
        name = path.lower().replace("/$", "_").replace("-", "_")
        by_get, by_post = _described(operation)
        add(f"/{path}", got(path), f"{name}_get", path, methods=["GET"], openapi_extra=by_get, **asked)
        add(f"/{path}", posted(path), f"{name}_post", path, methods=["POST"], openapi_extra=by_post, **asked)


def _described(operation: Operation) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what OpenAPI says of an operation by GET and by POST."""
    example = operation.example
    queried = [
        {"name": one, "in": "query", "schema": {"type": kind if kind in ("boolean", "integer") else "string"}}
        | ({"example": example[one]} if one in example else {})
        for one, kind in operation.known.items()
        if kind not in COMPLEX
    ]
    given = [parameter(one, **{MEMBERS[operation.known[one]][0]: value}) for one, value in example.items()]
    body = _body(answered(*given))
    body["content"][FORM] = {"schema": {"type": "object"}, "example": example}
    return {"parameters": [*queried, FORMAT]}, {"parameters": [FORMAT], "requestBody": body}


def _body(example: dict[str, Any]) -> dict[str, Any]:
    shown = {"schema": {"type": "object"}, "example": example}
    return {"content": {MEDIA_TYPE: shown, "application/json": shown}, "required": True}


def _documented(statuses: Sequence[int]) -> dict[int | str, dict[str, Any]]:
    """Return the OpenAPI entries of the faults that an endpoint may answer with."""
    said = {"description": "OperationOutcome", "content": {MEDIA_TYPE: {"schema": {"type": "object"}}}}
    return dict.fromkeys(statuses, said)


def _nothing() -> Response:
    raise Fault("not-found", NOTHING, 404)


def _check_accepted(request: Request) -> None:
    # A plus sign that was not escaped arrives as a space.
    asked = request.query_params.get("_format", "").strip().replace(" ", "+")
    wanted = asked or request.headers.get("accept") or "*/*"
    release = next((one for one in RELEASES if f"{request.url.path}/".startswith(f"/fhir/{one}/")), None)
    version = VERSIONS[release].rpartition(".")[0] if release is not None else ""
    if not any(_is_answered(kind.lower(), version) for kind in wanted.split(",")):
        raise Fault("not-supported", f"this service answers in {MEDIA_TYPE} only, here of FHIR {version}", 406)


def _is_answered(kind: str, version: str) -> bool:
    """Return whether a media type with its parameters is what this service answers in, of a version of FHIR."""
    name, *parameters = (part.strip() for part in kind.split(";"))
    given = dict(part.replace(" ", "").partition("=")[::2] for part in parameters)
    refused = re.fullmatch(r"0(\.0*)?", given.get("q", "1")) is not None
    return name in ACCEPTED and not refused and given.get("fhirversion", version) in ("", version)
