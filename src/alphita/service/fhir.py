"""FHIR R4 and R5 under /fhir/r4 and /fhir/r5: what it can (`fhir_capabilities`), and the operations.

Specification: http://hl7.org/fhir/R4/terminology-service.html and http://hl7.org/fhir/R5/terminology-service.html. JSON
only. Every error is an OperationOutcome. `$translate` serves what people have reviewed; suggestions are at /normalize.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, get_args

from fastapi import APIRouter, Depends, Request, Response
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute

from alphita import clock
from alphita.index.store import Index
from alphita.review.final_decisions import SettledMappings
from alphita.review.store import ReviewStore
from alphita.service import fhir_capabilities, fhir_expand, fhir_lookup, fhir_translate, fhir_validate, keys
from alphita.service.fhir_capabilities import CODE_SYSTEM, CONCEPT_MAP, OPERATIONS, VALUE_SET, VERSIONS
from alphita.service.fhir_parameters import (
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
from alphita.service.searching import Finder

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
    settled = SettledMappings(store.path) if store is not None else None

    def metadata(request: Request) -> Response:
        mode = request.query_params.get("mode", "full")
        if mode not in MODES:
            raise Fault("invalid", f"'mode' must be one of {', '.join(MODES)}")
        if mode == "terminology":
            return reply(fhir_capabilities.terminology(index, release, started))
        return reply(fhir_capabilities.statement(release, started))

    def translated(values: Values) -> Response:
        question = fhir_translate.asked(values)
        if store is None or settled is None:
            raise Fault("not-found", "this service was started without a store of mappings (--mappings)", 404)
        projects = [project.name for project in store.projects()]
        found = fhir_translate.matches(settled, projects, question)
        return reply(fhir_translate.answer(found, question, release))

    def looked_up(values: Values) -> Response:
        return reply(fhir_lookup.answer(index, values, release))

    def validated(values: Values) -> Response:
        return reply(fhir_validate.answer(index, values, release, of_set=False))

    def validated_in_set(values: Values) -> Response:
        return reply(fhir_validate.answer(index, values, release, of_set=True))

    finder = Finder(index)

    def expanded(values: Values) -> Response:
        return reply(fhir_expand.answer(index, finder, values))

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
    for path, known, repeated, answered, example in (
        (f"{CONCEPT_MAP}/$translate", fhir_translate.KNOWN, fhir_translate.REPEATED, translated, a_map),
        (f"{CODE_SYSTEM}/$lookup", fhir_lookup.KNOWN, fhir_lookup.REPEATED, looked_up, a_code),
        (f"{CODE_SYSTEM}/$validate-code", fhir_validate.OF_SYSTEM, (), validated, in_system),
        (f"{VALUE_SET}/$validate-code", fhir_validate.OF_SET, (), validated_in_set, in_set),
        (f"{VALUE_SET}/$expand", fhir_expand.KNOWN, (), expanded, {"url": HPO, "filter": "seiz"}),
    ):
        _operation(routes, release, path, known, repeated, answered, example)


def _operation(
    routes: APIRouter,
    release: Release,
    path: str,
    known: dict[str, str],
    repeated: tuple[str, ...],
    answered: Callable[[Values], Response],
    example: dict[str, str],
) -> None:
    def get(request: Request) -> Response:
        return answered(from_query(request.query_params.multi_items(), known, repeated))

    def post(request: Request, body: bytes = Depends(_resource)) -> Response:
        return answered(from_resource(body, known, repeated))

    name = path.lower().replace("/$", "_").replace("-", "_")
    summary = f"{path} ({release.upper()})"
    responses = _documented(OPERATION_FAULTS)
    queried = [
        {"name": one, "in": "query", "schema": {"type": kind if kind in ("boolean", "integer") else "string"}}
        | ({"example": example[one]} if one in example else {})
        for one, kind in known.items()
        if kind not in COMPLEX
    ]
    given = [parameter(one, **{MEMBERS[known[one]][0]: value}) for one, value in example.items()]
    body = {"schema": {"type": "object"}, "example": {"resourceType": "Parameters", "parameter": given}}
    content = dict.fromkeys((MEDIA_TYPE, "application/json"), body)
    caller = [Depends(keys.reviewer)]
    routes.add_api_route(
        f"/{release}/{path}",
        get,
        methods=["GET"],
        summary=summary,
        operation_id=f"fhir_{release}_{name}_get",
        openapi_extra={"parameters": [*queried, FORMAT]},
        responses=responses,
        dependencies=caller,
        response_class=FhirJson,
    )
    routes.add_api_route(
        f"/{release}/{path}",
        post,
        methods=["POST"],
        summary=summary,
        operation_id=f"fhir_{release}_{name}_post",
        openapi_extra={"parameters": [FORMAT], "requestBody": {"content": content, "required": True}},
        responses=responses,
        dependencies=caller,
        response_class=FhirJson,
    )


def _documented(statuses: Sequence[int]) -> dict[int | str, dict[str, Any]]:
    """Return the OpenAPI entries of the faults that an endpoint may answer with."""
    said = {"description": "OperationOutcome", "content": {MEDIA_TYPE: {"schema": {"type": "object"}}}}
    return dict.fromkeys(statuses, said)


async def _resource(request: Request) -> bytes:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind not in JSON_TYPES:
        raise Fault("not-supported", f"the body must be {MEDIA_TYPE}", 415)
    return await request.body()


def _nothing(path: str) -> Response:
    operations = ", ".join(f"{kind}/${name}" for kind, names in OPERATIONS.items() for name in names)
    raise Fault("not-found", f"this service has metadata, {operations}, under /fhir/r4 and /fhir/r5", 404)


class Route(APIRoute):
    """A route that answers its own faults with an OperationOutcome; all other errors are answered by `failures`."""

    def get_route_handler(self) -> Callable[[Request], Awaitable[Response]]:  # type: ignore[override]
        """Return what answers a request."""
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
