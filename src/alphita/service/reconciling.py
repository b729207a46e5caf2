"""The reconciliation service, by which OpenRefine maps columns: queries, suggestions, previews, properties.

Specification, version 0.2: https://www.w3.org/community/reports/reconciliation/CG-FINAL-specs-0.2-20230410/. A type is
a semantic type, or a concept, for it and all below it. JSONP is not served: it would let any page read the answers.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Collection, Iterator, Mapping
from html import escape
from typing import Annotated, Any, Literal, NamedTuple, TypeVar

import numpy as np
import pyarrow.compute as pc
from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import HTMLResponse, JSONResponse
from numpy.typing import NDArray
from pydantic import BaseModel, Field, TypeAdapter, ValidationError
from pydantic_core import to_json
from starlette.concurrency import run_in_threadpool

from alphita import __version__
from alphita.answer.filters import Filters
from alphita.answer.normalizer import Normalizer
from alphita.errors import UsageError
from alphita.index.store import Index
from alphita.review import files
from alphita.service import normalizing, pages
from alphita.service.batching import Batcher
from alphita.service.concepts import Concept, Finders, FoundConcept, Named, find_concept, named
from alphita.service.failures import FORM, Refusal, check_values, documented, media_type, pairs_of
from alphita.service.normalizing import ERRORS, JSON, NormalizeKind, Question, check_strings
from alphita.service.settings import Settings
from alphita.terminology.store import Terminology

# An id behind it is a URI of the concept.
IDENTIFIERS = "https://identifiers.org/"
SCHEMA = "http://www.w3.org/2004/02/skos/core#Concept"
PATH = "/reconcile"
# Candidates of a query that does not say how many, suggestions of an answer, and names of a preview.
CANDIDATES, SUGGESTIONS, NAMES = 5, 20, 10
# Pixels of the frame of a preview.
WIDTH, HEIGHT = 420, 260
# Queries that clients are told to send at once.
BATCH = 50
# Concepts just below the root that are offered as types, and types of one request.
MAX_BRANCHES, MAX_TYPES = 40, 64
Item = dict[str, Any]
T = TypeVar("T")


class Property(NamedTuple):
    """A property that concepts have, and its values as cells of OpenRefine."""

    name: str
    description: str
    cells: Callable[[Concept], list[Item]]


def _texts(*values: str | None) -> list[Item]:
    return [{"str": value} for value in values if value]


PROPERTIES = {
    "id": Property("Id", "CURIE", lambda concept: _texts(concept.id)),
    "name": Property("Name", "preferred term", lambda concept: _texts(concept.name)),
    "code": Property("Code", "code in its system", lambda concept: _texts(files.coding_of(concept.id)[1])),
    "system": Property("System", "URI of the code system", lambda concept: _texts(files.coding_of(concept.id)[0])),
    "definition": Property("Definition", "text", lambda concept: _texts(concept.definition)),
    "synonyms": Property("Synonyms", "all terms", lambda concept: _texts(*(one.string for one in concept.synonyms))),
    "parents": Property("Parents", "concepts just above it", lambda concept: [entity(one) for one in concept.parents]),
    "types": Property("Types", "semantic types", lambda concept: _texts(*concept.types)),
    "replaced_by": Property("Replaced by", "for a retired concept", lambda concept: _texts(*concept.replaced_by)),
}
OFFERED = [{"id": key, "name": one.name, "description": one.description} for key, one in PROPERTIES.items()]
OF_QUERIES = [
    {"id": "context", "name": "Context", "description": "text around the mention; it helps to resolve abbreviations"},
    {"id": "language", "name": "Language", "description": "language of the mention, such as de"},
]


class Given(BaseModel):
    """What a query says besides the text; of several values the first counts."""

    pid: str
    v: Any

    def text(self) -> str | None:
        value = next(iter(self.v), None) if isinstance(self.v, list) else self.v
        value = value.get("id") if isinstance(value, dict) else value
        return value if isinstance(value, str) else None


class Asked(BaseModel):
    """One query."""

    query: str | None = None
    type: list[str] | str = []
    type_strict: Literal["any", "all", "should"] = "any"
    limit: float = Field(CANDIDATES, ge=1, allow_inf_nan=False)
    properties: list[Given] = []

    @property
    def types(self) -> list[str]:
        return [self.type] if isinstance(self.type, str) else self.type

    @property
    def question(self) -> Question | None:
        """The mention, by its text, else by its id or code; None: there is none."""
        more = {one.pid: one.text() for one in self.properties}
        mention = self.query or more.get("id") or more.get("code")
        return Question(mention, more.get("context"), more.get("language")) if mention else None


class Wanted(BaseModel):
    """A property that is asked for."""

    id: Literal[tuple(PROPERTIES)]  # type: ignore[valid-type]


class Extension(BaseModel):
    """The properties that are asked for, of these concepts."""

    ids: list[str]
    properties: list[Wanted]


QUERIES, EXTENSION = TypeAdapter(dict[str, Asked]), TypeAdapter(Extension)


class Types:
    """The types of an index's concepts."""

    def __init__(self, index: Index) -> None:
        self._index = index
        self.concepts = functools.lru_cache(MAX_BRANCHES + MAX_TYPES)(self._concepts)

    @functools.cached_property
    def branches(self) -> list[Item]:
        """The concepts just below the root, or the roots if they are several; none if they are many."""
        tops = self._index.segment.tops()
        rows = self._index.segment.children_of(int(tops[0])) if len(tops) == 1 else tops
        return [entity(one) for one in named(self._index, rows.tolist())] if len(rows) <= MAX_BRANCHES else []

    def all(self) -> list[Item]:
        """Return those that are offered: branches and semantic types."""
        table = self._index.segment.concepts
        if "semantic_types" not in table.column_names:
            return self.branches
        known = pc.unique(pc.list_flatten(table.column("semantic_types"))).drop_null().to_pylist()
        return [*self.branches, *({"id": one, "name": one} for one in sorted(known))]

    def row(self, identifier: str) -> int:
        return int(self._index.concept_rows([identifier])[0])

    def of(self, identifier: str) -> list[Item]:
        """Return the types of a concept of the index."""
        row = self.row(identifier)
        own = [{"id": one, "name": one} for one in self._index.concept(row).semantic_types]
        return own + [branch for branch in self.branches if self.concepts(branch["id"])[row]]

    def check(self, wanted: Collection[str]) -> None:
        """Refuse types that no concept has, and too many."""
        if len(wanted) > MAX_TYPES:
            raise Refusal(422, "too_many", f"{len(wanted):,} types, at most {MAX_TYPES} a request", field="queries")
        for one in wanted:
            self.concepts(one)

    def has(self, identifier: str, asked: Asked) -> bool:
        """Return whether a concept has the types that a query wants."""
        had = [bool(self.concepts(one)[self.row(identifier)]) for one in asked.types]
        return not had or (all(had) if asked.type_strict == "all" else any(had))

    def _concepts(self, type_: str) -> NDArray[np.bool_]:
        """Return which concepts have a type, (n_concepts,)."""
        filters = Filters(under=(type_,)) if self.row(type_) >= 0 else Filters(types=(type_,))
        try:
            return filters.concepts(self._index.segment)
        except UsageError:
            raise Refusal(422, "invalid", f"unknown type: ask {PATH}/suggest/type", field="queries") from None


Prefix = Annotated[str, Query(description="beginning of a name", examples=["seiz"])]
Cursor = Annotated[int, Query(ge=0, le=100, description="suggestions to skip")]


def router(
    settings: Settings,
    normalizer: Normalizer,
    terminology: Terminology | None,
    batcher: Batcher[Question, Any],
    finders: Finders,
) -> APIRouter:
    """Return the routes."""
    routes = APIRouter(prefix=PATH, tags=["Reconciliation"], responses=ERRORS, default_response_class=JSONResponse)
    index, types, finder = normalizer.index, Types(normalizer.index), finders.of(None)
    concept_of = functools.partial(find_concept, index=index, terminology=terminology)

    async def answer(request: Request, pairs: list[tuple[str, str]]) -> Response:
        given = dict(pairs)
        if "callback" in given:
            raise Refusal(422, "invalid", "JSONP is not served: allow the page's origin by --allow-origin")
        if len(pairs) > 1 or {*given} - {"queries", "extend"}:
            raise Refusal(422, "invalid", "give 'queries' or 'extend', and nothing else")
        if "extend" in given:
            extension = _read(EXTENSION, given, "extend", settings)
            check_strings("extend", extension.ids, settings.max_rows, settings.max_characters)
            return await _json(extended, extension, concept_of)
        if "queries" not in given:
            return await _json(manifest, _base(request), index, types, settings)
        asked = _read(QUERIES, given, "queries", settings)
        if len(asked) > settings.max_rows:
            raise Refusal(413, "too_many", f"{len(asked):,} queries, at most {settings.max_rows:,} a request")
        questions = {key: question for key, one in asked.items() if (question := one.question) is not None}
        check_strings("queries", [one.string for one in questions.values()], settings.max_rows, settings.max_characters)
        for others in ([one.context for one in questions.values()], [one.language for one in questions.values()]):
            check_strings("queries", others, settings.max_rows, settings.max_context)
        await run_in_threadpool(types.check, {type_ for one in asked.values() for type_ in one.types})
        # What is of other types is left out, so that more are looked at.
        most = max([settings.max_top if one.types else one.limit for one in asked.values()], default=1)
        kind = NormalizeKind(int(min(most, settings.max_top)), False)
        answers = await normalizing.ask(batcher, request, kind, [*questions.values()])
        found = dict(zip(questions, answers, strict=True))
        return await _json(
            lambda: {key: {"result": candidates(one, found.get(key), types)} for key, one in asked.items()}
        )

    async def by_get(request: Request) -> Response:
        """Return the service manifest, or answer `queries` or `extend`, each an object of JSON."""
        return await answer(request, request.query_params.multi_items())

    async def by_post(request: Request) -> Response:
        """Answer `queries` or `extend`, each an object of JSON in a form; without either return the manifest."""
        body = await request.body()
        if body and media_type(request) != FORM:
            raise Refusal(415, "no_form", f"send a form, with the header Content-Type: {FORM}")
        pairs = await run_in_threadpool(pairs_of, body.decode("utf-8", "replace"))
        return await answer(request, [*request.query_params.multi_items(), *pairs])

    properties = {name: {"type": "string"} for name in ("queries", "extend")}
    example = {"queries": '{"q0": {"query": "siezure", "limit": 3}}'}
    form = {"content": {FORM: {"schema": {"type": "object", "properties": properties}, "example": example}}}
    queried = [{"name": name, "in": "query", "schema": schema} for name, schema in properties.items()]
    for path in ("", "/"):
        add = functools.partial(routes.add_api_route, path, include_in_schema=not path)
        add(by_get, openapi_extra={"parameters": queried})
        add(by_post, methods=["POST"], openapi_extra={"requestBody": form})

    async def found(request: Request, prefix: str, most: int) -> list[FoundConcept]:
        check_strings("prefix", [prefix], 1, settings.max_characters)
        return await normalizing.find(batcher, request, finder, prefix, most) if prefix.strip() else []

    @routes.get("/suggest/entity")
    async def suggest_entity(request: Request, prefix: Prefix = "", cursor: Cursor = 0) -> Response:
        """Suggest concepts as you type."""
        concepts = (await found(request, prefix, cursor + SUGGESTIONS))[cursor:]
        return await _json(lambda: {"result": [entity(one) | {"notable": types.of(one.id)} for one in concepts]})

    @routes.get("/suggest/type")
    async def suggest_type(request: Request, prefix: Prefix = "", cursor: Cursor = 0) -> Response:
        """Suggest types: semantic types, and concepts that have others below them."""
        concepts = await found(request, prefix, SUGGESTIONS)

        def suggested() -> Item:
            offered = [one for one in types.all() if begins(prefix, one["name"])]
            upper = [entity(one) for one in concepts if len(index.segment.children_of(types.row(one.id)))]
            every = {one["id"]: one for one in [*offered, *upper]}
            return {"result": [*every.values()][cursor : cursor + SUGGESTIONS]}

        return await _json(suggested)

    @routes.get("/suggest/property")
    async def suggest_property(prefix: Prefix = "", cursor: Cursor = 0) -> Response:
        """Suggest properties: of concepts, and of queries."""
        fitting = [one for one in [*OFFERED, *OF_QUERIES] if begins(prefix, one["id"], one["name"])]
        return await _json(lambda: {"result": fitting[cursor : cursor + SUGGESTIONS]})

    @routes.get("/properties")
    async def propose(
        type_: Annotated[str | None, Query(alias="type", description="any: all concepts have the same")] = None,
        limit: Annotated[int, Query(ge=1, le=100)] = SUGGESTIONS,
    ) -> Response:
        """Propose properties by which a table can be extended."""
        of = {} if type_ is None else {"type": type_}
        return await _json(lambda: {"properties": OFFERED[:limit], "limit": limit, **of})

    @routes.get("/preview", responses=documented(404), response_class=HTMLResponse)
    async def preview(identifier: Annotated[str, Query(alias="id", examples=["HP:0001250"])]) -> Response:
        """Return a small page about a concept."""
        concept = await run_in_threadpool(concept_of, identifier)
        if concept is None:
            raise Refusal(404, "unknown_concept", "no concept has this id", field="id")
        return pages.respond(concept.name, [*_preview(concept)], settings.origins)

    return routes


def manifest(base: str, index: Index, types: Types, settings: Settings) -> Item:
    """Return the service manifest; base: the service's URL, without a slash at its end."""
    sources = ", ".join(str(source.get("name")) for source in index.manifest.get("sources", ())) or index.path.stem
    here = base + PATH
    suggest = {
        name: {"service_url": here, "service_path": f"/suggest/{name}"} for name in ("entity", "type", "property")
    }
    preview = f"{here}/preview?id={{{{id}}}}"
    return {
        "versions": ["0.2"],
        "name": f"Alphita: {sources}",
        "identifierSpace": IDENTIFIERS,
        "schemaSpace": SCHEMA,
        "serviceVersion": __version__,
        "batchSize": min(BATCH, settings.max_rows),
        "defaultTypes": types.branches,
        "view": {"url": preview},
        "preview": {"url": preview, "width": WIDTH, "height": HEIGHT},
        "suggest": suggest,
        "extend": {"propose_properties": {"service_url": here, "service_path": "/properties"}, "property_settings": []},
    }


def candidates(asked: Asked, answer: bytes | None, types: Types) -> list[Item]:
    """Return the candidates of a query, best first.

    The score is 100 times the confidence for the concept that is the answer, else the similarity, and never above that
    of the candidate before; only what needs no review is a match.

    Args:
        answer: the JSON of `normalizing.Answer`; None: the query had no text.
    """
    if answer is None:
        return []
    known, found, score = json.loads(answer), list[tuple[bool, Item]](), 1.0
    for place, one in enumerate(known["candidates"]):
        likely = max(0.0, one["similarity"])
        if place == 0 and known["confidence"] is not None:
            likely = known["confidence"] if known["concept_id"] else min(likely, 1 - known["confidence"])
        score = min(score, likely)
        item = {
            "id": one["concept_id"],
            "name": one["concept_name"],
            "description": one["matched_term"],
            "type": types.of(one["concept_id"]),
            "score": round(100 * score, 2),
            "match": place == 0 and known["decision"] == "accept" and one["concept_id"] == known["concept_id"],
            "features": [{"id": "similarity", "value": one["similarity"]}],
        }
        found.append((types.has(one["concept_id"], asked), item))
    if asked.type_strict == "should":
        found.sort(key=lambda of: not of[0])
    return [item for fits, item in found if fits or asked.type_strict == "should"][: int(asked.limit)]


def extended(asked: Extension, concept_of: Callable[[str], Concept | None]) -> Item:
    """Return the values of properties of concepts; a concept that is not known has none."""
    keys = dict.fromkeys(one.id for one in asked.properties)
    found = {one: concept_of(one) for one in dict.fromkeys(asked.ids)}
    rows = {
        one: {key: PROPERTIES[key].cells(concept) if concept is not None else [] for key in keys}
        for one, concept in found.items()
    }
    return {"meta": [{"id": key, "name": PROPERTIES[key].name} for key in keys], "rows": rows}


def _preview(concept: Concept) -> Iterator[str]:
    yield f"<h1>{escape(concept.name)}</h1><p><code>{escape(concept.id)}</code></p>"
    if concept.retired:
        yield f"<p><strong>Retired</strong>; use {escape(', '.join(concept.replaced_by)) or 'another'}</p>"
    if concept.definition:
        yield f"<p>{escape(concept.definition)}</p>"
    names = [one.string for one in concept.synonyms if one.string != concept.name]
    more = f", and {len(names) - NAMES} more" if len(names) > NAMES else ""
    parents = [f"{one.name} ({one.id})" for one in concept.parents]
    for title, text in (("Synonyms", ", ".join(names[:NAMES]) + more), ("Parents", ", ".join(parents))):
        if text:
            yield f"<p>{title}: {escape(text)}</p>"


def _read(model: TypeAdapter[T], given: Mapping[str, str], name: str, settings: Settings) -> T:
    content = given[name].encode("utf-8", "replace")
    check_values(content, settings.max_values)
    try:
        return model.validate_json(content)
    except ValidationError as error:
        raise Refusal(422, "invalid", error.errors()[0]["msg"], field=name) from None


def entity(concept: Named) -> Item:
    """Return a concept as a suggestion or a value."""
    term = concept.matched_term if isinstance(concept, FoundConcept) else concept.name
    return {"id": concept.id, "name": concept.name} | ({"description": term} if term != concept.name else {})


def begins(prefix: str, *names: str) -> bool:
    """Return whether a word of any of the names begins so."""
    return any(f" {prefix.strip().lower()}" in f" {name.lower()}" for name in names)


def _base(request: Request) -> str:
    """Return the service's URL, as the client or its proxy asked for it."""
    said = request.headers.get("x-forwarded-proto", "")
    url = request.base_url.replace(scheme=said) if said in ("http", "https") else request.base_url
    return str(url).rstrip("/")


async def _json(content: Callable[..., Item], *arguments: Any) -> Response:  # noqa: ANN401 - those of `content`
    """Return what a function, which may take its time, gives as JSON."""
    return Response(to_json(await run_in_threadpool(content, *arguments)), media_type=JSON)
