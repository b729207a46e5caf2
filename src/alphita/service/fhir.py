"""FHIR R4 and R5 under /fhir/r4 and /fhir/r5, JSON only: capabilities and operations.

Specification: http://hl7.org/fhir/R4/terminology-service.html and http://hl7.org/fhir/R5/terminology-service.html.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, get_args

from fastapi import APIRouter, Depends, Request, Response
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute

from alphita import __version__, clock
from alphita.index.store import Index
from alphita.review import files
from alphita.review.memory import FinalMappings
from alphita.review.store import ReviewStore
from alphita.service import fhir_codes, fhir_translate, keys
from alphita.service.concepts import Finder
from alphita.service.failures import media_type
from alphita.service.fhir_codes import (
    COMPLEX,
    JSON_TYPES,
    MEDIA_TYPE,
    MEMBERS,
    Fault,
    Release,
    Values,
    from_query,
    from_resource,
    outcome,
    parameter,
)

VERSIONS: dict[Release, str] = {"r4": "4.0.1", "r5": "5.0.0"}
DEFINITIONS = "http://hl7.org/fhir/OperationDefinition"
CONCEPT_MAP, CODE_SYSTEM, VALUE_SET = "ConceptMap", "CodeSystem", "ValueSet"
# By resource: the operations, in the order of the alphabet.
OPERATIONS = {
    CODE_SYSTEM: ("lookup", "validate-code"),
    CONCEPT_MAP: ("translate",),
    VALUE_SET: ("expand", "validate-code"),
}
DESCRIPTION = "Alphita: reviewed mappings ($translate), and the concepts of an index"


def statement(release: Release, date: str) -> dict[str, Any]:
    """Return the CapabilityStatement; date: since when it holds, as FHIR writes it."""
    operations = {
        kind: [{"name": name, "definition": f"{DEFINITIONS}/{kind}-{name}"} for name in names]
        for kind, names in OPERATIONS.items()
    }
    return {
        "resourceType": "CapabilityStatement",
        **_common(date),
        "fhirVersion": VERSIONS[release],
        "format": ["json", MEDIA_TYPE],
        "rest": [
            {"mode": "server", "resource": [{"type": kind, "operation": listed} for kind, listed in operations.items()]}
        ],
    }


def terminology(index: Index, release: Release, date: str) -> dict[str, Any]:
    """Return the TerminologyCapabilities: the code systems that the index has concepts of, and how it answers."""
    systems = []
    for prefix in fhir_codes.prefixes_of(index):
        system: dict[str, Any] = {"uri": files.coding_of(f"{prefix}:0")[0], "subsumption": False}
        if version := fhir_codes.version_of(index, prefix):
            system["version"] = [{"code": version, "isDefault": True}]
        # An index may be of a part of a system.
        systems.append(system | ({"content": "fragment"} if release == "r5" else {}))
    return {
        "resourceType": "TerminologyCapabilities",
        **_common(date),
        "codeSystem": sorted(systems, key=lambda system: str(system["uri"])),
        "expansion": {
            "hierarchical": False,
            "paging": True,
            "incomplete": False,
            "parameter": [{"name": name} for name in fhir_codes.FOLLOWED],
            "textFilter": "the concepts that the text finds as it is typed, the best first",
        },
        "validateCode": {"translations": True},
        "translation": {"needsMap": False},
    }


def _common(date: str) -> dict[str, Any]:
    return {
        "status": "active",
        "date": date,
        "kind": "instance",
        "software": {"name": "Alphita", "version": __version__},
        "implementation": {"description": DESCRIPTION},
    }


RELEASES: tuple[Release, ...] = get_args(Release)
# The system of the examples.
HPO = "http://human-phenotype-ontology.org"
# What a client may accept that JSON answers.
ACCEPTED = (*JSON_TYPES, "*/*", "application/*", "text/*")
STATEMENT_FAULTS, OPERATION_FAULTS = (400, 406), (400, 401, 403, 404, 406, 415, 422, 429, 503)
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


def router(store: ReviewStore | None, index: Index) -> APIRouter:
    """Return the routes."""
    routes = APIRouter(prefix="/fhir", route_class=Route, tags=["FHIR"])
    started = clock.now().isoformat(timespec="seconds")
    for release in RELEASES:
        _add(routes, release, store, index, started)
    routes.add_api_route(
        "/{path:path}", _nothing, methods=["GET", "POST", "PUT", "PATCH", "DELETE"], include_in_schema=False
    )
    return routes


def _add(routes: APIRouter, release: Release, store: ReviewStore | None, index: Index, started: str) -> None:
    settled = FinalMappings(store.path) if store is not None else None

    def metadata(request: Request) -> Response:
        mode = request.query_params.get("mode", "full")
        if mode not in MODES:
            raise Fault("invalid", f"'mode' must be one of {', '.join(MODES)}")
        if mode == "terminology":
            return reply(terminology(index, release, started))
        return reply(statement(release, started))

    def translated(values: Values) -> dict[str, Any]:
        question = fhir_translate.question_of(values)
        if store is None or settled is None:
            raise Fault("not-found", "this service was started without a store of mappings (--mappings)", 404)
        projects = [project.name for project in store.projects()]
        return fhir_translate.answer(fhir_translate.matches(settled, projects, question), question, release)

    finder = Finder(index)
    routes.add_api_route(
        f"/{release}/metadata",
        metadata,
        methods=["GET"],
        summary=f"Capability statement, or terminology capabilities ({release.upper()})",
        operation_id=f"fhir_{release}_metadata",
        openapi_extra={"parameters": [MODE, FORMAT]},
        responses=_documented(STATEMENT_FAULTS),
        response_class=FhirJson,
    )
    of_map = {"r4": ("system", "code"), "r5": ("sourceSystem", "sourceCode")}[release]
    a_map = dict(zip(of_map, ("http://lab.example/codes", "L1"), strict=True))
    a_code = {"system": HPO, "code": "HP:0001250"}
    in_system, in_set = {"url": HPO, "code": "HP:0001250", "display": "Seizure"}, {"url": f"{HPO}?fhir_vs", **a_code}
    look_up = partial(fhir_codes.look_up, index, release=release)
    validate, expand = partial(fhir_codes.validate, index, release=release), partial(fhir_codes.expand, index, finder)
    for path, known, repeated, answered, example in (
        (f"{CONCEPT_MAP}/$translate", fhir_translate.KNOWN, fhir_translate.REPEATED, translated, a_map),
        (f"{CODE_SYSTEM}/$lookup", fhir_codes.LOOKUP, fhir_codes.LOOKUP_REPEATED, look_up, a_code),
        (f"{CODE_SYSTEM}/$validate-code", fhir_codes.OF_SYSTEM, (), partial(validate, of_set=False), in_system),
        (f"{VALUE_SET}/$validate-code", fhir_codes.OF_SET, (), partial(validate, of_set=True), in_set),
        (f"{VALUE_SET}/$expand", fhir_codes.EXPAND, (), expand, {"url": HPO, "filter": "seiz"}),
    ):
        _operation(routes, release, path, known, repeated, answered, example)


def _operation(
    routes: APIRouter,
    release: Release,
    path: str,
    known: dict[str, str],
    repeated: tuple[str, ...],
    answered: Callable[[Values], dict[str, Any]],
    example: dict[str, str],
) -> None:
    def get(request: Request) -> Response:
        return reply(answered(from_query(request.query_params.multi_items(), known, repeated)))

    def post(request: Request, body: bytes = Depends(_resource)) -> Response:
        return reply(answered(from_resource(body, known, repeated)))

    name = path.lower().replace("/$", "_").replace("-", "_")
    queried = [
        {"name": one, "in": "query", "schema": {"type": kind if kind in ("boolean", "integer") else "string"}}
        | ({"example": example[one]} if one in example else {})
        for one, kind in known.items()
        if kind not in COMPLEX
    ]
    given = [parameter(one, **{MEMBERS[known[one]][0]: value}) for one, value in example.items()]
    body = {"schema": {"type": "object"}, "example": {"resourceType": "Parameters", "parameter": given}}
    content = dict.fromkeys((MEDIA_TYPE, "application/json"), body)
    posted = {"parameters": [FORMAT], "requestBody": {"content": content, "required": True}}
    for endpoint, extra in ((get, {"parameters": [*queried, FORMAT]}), (post, posted)):
        routes.add_api_route(
            f"/{release}/{path}",
            endpoint,
            methods=[endpoint.__name__.upper()],
            summary=f"{path} ({release.upper()})",
            operation_id=f"fhir_{release}_{name}_{endpoint.__name__}",
            openapi_extra=extra,
            responses=_documented(OPERATION_FAULTS),
            dependencies=[Depends(keys.reviewer)],
            response_class=FhirJson,
        )


def _documented(statuses: Sequence[int]) -> dict[int | str, dict[str, Any]]:
    """Return the OpenAPI entries of the faults that an endpoint may answer with."""
    said = {"description": "OperationOutcome", "content": {MEDIA_TYPE: {"schema": {"type": "object"}}}}
    return dict.fromkeys(statuses, said)


async def _resource(request: Request) -> bytes:
    if media_type(request) not in JSON_TYPES:
        raise Fault("not-supported", f"the body must be {MEDIA_TYPE}", 415)
    return await request.body()


def _nothing(path: str) -> Response:
    operations = ", ".join(f"{kind}/${name}" for kind, names in OPERATIONS.items() for name in names)
    raise Fault("not-found", f"this service has metadata, {operations}, under /fhir/r4 and /fhir/r5", 404)


class Route(APIRoute):
    """A route that answers its own faults with an OperationOutcome; all other errors are answered by `failures`."""

    def get_route_handler(self) -> Callable[[Request], Awaitable[Response]]:  # type: ignore[override]
        handle = super().get_route_handler()

        async def answered(request: Request) -> Response:
            try:
                _check_accepted(request)
                return await handle(request)
            except Fault as fault:
                return reply(outcome(fault.code, fault.text), fault.status)

        return answered


def reply(resource: dict[str, Any], status: int = 200) -> Response:
    """Return a resource as the answer."""
    return FhirJson(resource, status)


def _check_accepted(request: Request) -> None:
    # A plus sign that was not escaped arrives as a space.
    asked = request.query_params.get("_format", "").strip().replace(" ", "+")
    wanted = asked or request.headers.get("accept") or "*/*"
    release = next((one for one in RELEASES if f"/fhir/{one}/" in request.url.path), None)
    version = VERSIONS[release].rpartition(".")[0] if release is not None else ""
    if not any(_is_answered(kind.lower(), version) for kind in wanted.split(",")):
        raise Fault("not-supported", f"this service answers in {MEDIA_TYPE} only, here of FHIR {version}", 406)


def _is_answered(kind: str, version: str) -> bool:
    """Return whether a media type with its parameters is what this service answers in, of a version of FHIR."""
    name, *parameters = (part.strip() for part in kind.split(";"))
    given = dict(part.replace(" ", "").partition("=")[::2] for part in parameters)
    refused = re.fullmatch(r"0(\.0*)?", given.get("q", "1")) is not None
    return name in ACCEPTED and not refused and given.get("fhirversion", version) in ("", version)
