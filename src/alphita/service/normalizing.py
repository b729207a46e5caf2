"""Normalizing, free text, concepts, search and vectors over HTTP."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Hashable, Iterator, Sequence
from operator import attrgetter
from typing import Annotated, Any, NamedTuple, TypeVar

import numpy as np
from fastapi import APIRouter, Body, Depends, Path, Query, Request, Response
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field
from pydantic_core import to_json
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect

from alphita.annotation.annotator import Annotator
from alphita.annotation.annotator import Settings as Kept
from alphita.annotation.formats.jsonl import record_of
from alphita.annotation.spans import Category, Document
from alphita.answer.assigned import billable
from alphita.answer.normalizer import Normalizer
from alphita.answer.records import Candidate, Result
from alphita.index.neighbours import unit
from alphita.mappings.record import Decision, Method
from alphita.review.records import Unknown
from alphita.service import concepts
from alphita.service.batching import TURN, Batch, Batcher, OutOfTime, QueueFull, tokens
from alphita.service.concepts import EVERYTHING, Finder, Finders, FoundConcept, Narrowed
from alphita.service.failures import Refusal, documented, media_type, unknown
from alphita.service.settings import Settings
from alphita.terminology.store import Terminology
from alphita.terminology.text import clean_many

T = TypeVar("T")
JSON = "application/json"
# Digits of a vector's numbers: more than float32 has is noise.
VECTOR_DECIMALS = 7
_SURROGATE = re.compile("[\ud800-\udfff]")
ERRORS = documented(401, 403, 408, 413, 415, 422, 429, 500, 503, 504)
ASKED_TOGETHER = ("/normalize", "/embed", "/reconcile")

_CANDIDATE = tuple(Candidate.__dataclass_fields__)
_candidate_values = attrgetter(*_CANDIDATE)


class Mentions(BaseModel):
    """Strings to be mapped to concepts."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [
                {"mentions": ["hart attack", "T2DM", "mal di schiena"], "top": 3},
                {"mentions": ["CHF"], "contexts": ["admitted for congestive heart failure"], "explain": True},
            ]
        },
    )

    mentions: list[str] = Field(description="the mentions", fail_fast=True)
    top: int = Field(5, ge=1, description="candidates per mention")
    contexts: list[str | None] | None = Field(
        None, description="the surrounding text of each mention; it helps to resolve abbreviations", fail_fast=True
    )
    languages: list[str | None] | None = Field(
        None, fail_fast=True, description="the language of each mention (BCP-47)"
    )
    explain: bool = Field(False, description="explain each answer in one line")
    billable: bool = Field(False, description="answer with codes that can be billed (ICD-10-CM)")


class Answer(BaseModel):
    """The answer for one mention."""

    model_config = ConfigDict(extra="forbid")

    mention: str = Field(description="as it was sent", examples=["hart attack"])
    concept_id: str | None = Field(description="CURIE; null: no concept fits (NIL)", examples=["HP:0001658"])
    concept_name: str | None = Field(description="its preferred term", examples=["Myocardial infarction"])
    matched_term: str | None = Field(description="the nearest term, for NIL too", examples=["Heart attack"])
    similarity: float | None = Field(description="cosine, -1 to 1", examples=[0.93])
    confidence: float | None = Field(description="calibrated probability that the answer is right", examples=[0.98])
    method: Method = Field(description="exact, abbreviation, nearest or nil", examples=["nearest"])
    decision: Decision | None = Field(description="accept, review or nil; null uncalibrated", examples=["accept"])
    explanation: str | None = Field(description="why, in a line; null unless asked for")
    candidates: list[Candidate] = Field(description="best first; the first is the answer unless it is NIL")


class Answers(BaseModel):
    """One answer per mention, in order."""

    results: list[Answer]


class Texts(BaseModel):
    """Strings to be encoded."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"texts": ["heart attack"]}]})

    texts: list[str] = Field(description="texts to encode; they are cleaned like the index's terms", fail_fast=True)


class Vectors(BaseModel):
    """One vector per text, in order, of length 1."""

    vectors: list[list[float]]
    model: str = Field(description="content hash of the encoder")


class FoundConcepts(BaseModel):
    """Concepts, best first."""

    concepts: list[FoundConcept]


class FreeTexts(BaseModel):
    """Texts in which concepts are to be found."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{"texts": ["No seizures. She has short and curved fingers."]}]}
    )

    texts: list[str] = Field(description="texts, such as letters, notes or abstracts", fail_fast=True)
    exact: bool = Field(False, description="find names of the terminology only: fast, without confidence")
    precision: float | None = Field(None, ge=0, le=1, description="keep only mentions with at least this confidence")


class Said(BaseModel):
    """What the text says of a mention, and the words that say it."""

    category: Category
    start: int = Field(description="first character of the words")
    end: int = Field(description="the character behind the last")
    cue: str = Field(examples=["No"])


class Beside(BaseModel):
    """A word beside a mention, or in it."""

    kind: str = Field(description="laterality or severity", examples=["severity"])
    value: str = Field(examples=["severe"])
    start: int
    end: int


class Mention(BaseModel):
    """A mention of a concept; places count Unicode code points of the text as it was sent."""

    start: int = Field(description="first character")
    end: int = Field(description="the character behind the last")
    mention: str = Field(examples=["seizures"])
    pieces: list[tuple[int, int]] | None = Field(None, description="its parts, where it has several")
    concept_id: str = Field(description="CURIE", examples=["HP:0001250"])
    concept_name: str = Field(description="its preferred term", examples=["Seizure"])
    matched_term: str = Field(description="the term that it equals or is nearest to", examples=["Seizures"])
    confidence: float | None = Field(description="calibrated probability that the concept is right; null: exact")
    decision: Decision | None = Field(description="accept or review; null uncalibrated", examples=["accept"])
    method: str = Field(description="exact, abbreviation or nearest", examples=["exact"])
    context: list[Said] = Field(description="empty: the text affirms it")
    modifiers: list[Beside] = Field(description="side and severity")


class Found(BaseModel):
    """What was found in one text."""

    annotations: list[Mention] = Field(description="by their place")


class AllFound(BaseModel):
    """One result per text, in order."""

    results: list[Found]


class AnnotateKind(NamedTuple):
    """The kind of a question to the annotator; only questions of one kind are answered together."""

    exact: bool
    precision: float | None


_ANSWER = tuple(Answer.model_fields)


class NormalizeKind(NamedTuple):
    """The kind of a question to the normaliser; only questions of one kind are answered together."""

    top: int
    explain: bool
    billable: bool = False


class EncodeKind(NamedTuple):
    """The kind of a question for a vector; `json`: as the JSON of its numbers."""

    json: bool = False


class Question(NamedTuple):
    """One string to be normalised or encoded."""

    string: str
    context: str | None = None
    language: str | None = None


class Work:
    """What the batcher's worker does: a normalizer, and an annotator that the first text makes."""

    def __init__(self, normalizer: Normalizer) -> None:
        self.normalizer = normalizer
        self._annotator: Annotator | None = None

    def __call__(self, kind: Hashable, questions: Sequence[Question], /) -> Sequence[Any]:
        """Return for each question the JSON of `Answer` or `Found`, or its vector (dim,) float32."""
        if isinstance(kind, NormalizeKind):
            return self._normalized(kind, questions)
        strings = [question.string for question in questions]
        if isinstance(kind, AnnotateKind):
            self._annotator = self._annotator or Annotator(self.normalizer)
            annotator = self._annotator.keeping(Kept(exact=kind.exact, precision=kind.precision))
            return [
                to_json({"annotations": [record_of(annotation) for annotation in annotated.annotations]})
                for annotated in annotator.annotate([Document("", string) for string in strings])
            ]
        vectors: NDArray[np.float32] = unit(
            self.normalizer.encoder().encode(clean_many(strings, self.normalizer.index.rules))
        )
        if kind == EncodeKind(json=True):
            return [to_json(row.tolist()) for row in np.round(vectors.astype(np.float64), VECTOR_DECIMALS)]
        return list(vectors)

    def _normalized(self, kind: NormalizeKind, questions: Sequence[Question]) -> list[bytes]:
        mentions, contexts, languages = (list(column) for column in zip(*questions, strict=True))
        normalizer = self.normalizer.narrowed(billable=True) if kind.billable else self.normalizer
        results = normalizer.normalize(
            mentions,
            top_k=kind.top,
            explain=kind.explain,
            contexts=contexts if any(contexts) else None,
            languages=languages if any(languages) else None,
        )
        return [encode(result, kind.top) for result in results]


def encode(result: Result, top: int) -> bytes:
    """Return an answer's JSON, as `Answer` has it."""
    answer = {name: getattr(result, name) for name in _ANSWER}
    answer["explanation"] = None if result.explanation is None else str(result.explanation)
    answer["candidates"] = [
        dict(zip(_CANDIDATE, _candidate_values(candidate), strict=True)) for candidate in result.candidates[:top]
    ]
    return to_json(answer)


def cost(question: Question) -> int:
    """Return about how many tokens a question costs, those too that an encoder cuts."""
    return tokens(question.string)


def batcher(
    work: Work, settings: Settings, observe: Callable[[Batch], None] = lambda batch: None
) -> Batcher[Question, Any]:
    """Return what answers questions in batches, by work."""
    window = settings.window_ms / 1000
    limits: dict[str, Any] = {"budget": settings.batch_tokens, "window": window, "capacity": settings.queue}
    return Batcher(work, cost=cost, observe=observe, **limits)


async def json_only(request: Request) -> None:
    """Refuse a body that does not say that it is JSON: a dependency of what takes one."""
    if media_type(request) != JSON:
        raise Refusal(415, "not_json", "send JSON, with the header Content-Type: application/json")


def router(
    settings: Settings,
    normalizer: Normalizer,
    terminology: Terminology | None,
    batcher: Batcher[Question, Any],
    finders: Finders,
) -> APIRouter:
    """Return the routes."""
    routes = APIRouter(tags=["Normalization"], responses=ERRORS)

    @routes.post("/normalize", response_model=Answers, dependencies=[Depends(json_only)])
    async def normalize(request: Request, asked: Annotated[Mentions, Body()]) -> Response:
        """Map each mention to its concept."""
        check_strings("mentions", asked.mentions, settings.max_rows, settings.max_characters)
        _check_top(asked.top, settings)
        for name, values in (("contexts", asked.contexts), ("languages", asked.languages)):
            if values is not None and len(values) != len(asked.mentions):
                raise Refusal(422, "invalid", f"{len(asked.mentions)} mentions, but {len(values)} {name}", field=name)
            check_strings(name, values or (), settings.max_rows, settings.max_context)
        nothing = [None] * len(asked.mentions)
        columns = (asked.mentions, asked.contexts or nothing, asked.languages or nothing)
        questions = [Question(*cells) for cells in zip(*columns, strict=True)]
        if asked.billable and billable(normalizer.index.segment) is None:
            problem = "this index does not tell which codes can be billed; leave it out"
            raise Refusal(422, "invalid", problem, field="billable")
        found = await ask(batcher, request, NormalizeKind(asked.top, asked.explain, asked.billable), questions)
        return Response(b'{"results":[' + b",".join(found) + b"]}", media_type=JSON)

    @routes.post("/embed", response_model=Vectors, dependencies=[Depends(json_only)])
    async def embed(request: Request, asked: Annotated[Texts, Body()]) -> Response:
        """Return the vectors of texts."""
        check_strings("texts", asked.texts, settings.max_rows, settings.max_characters)
        found = await ask(batcher, request, EncodeKind(json=True), [Question(text) for text in asked.texts])
        model = to_json(normalizer.index.manifest["model_hash"])
        return Response(b'{"vectors":[' + b",".join(found) + b'],"model":' + model + b"}", media_type=JSON)

    @routes.get("/search", response_model=FoundConcepts, responses=documented(404))
    async def search(
        request: Request,
        q: Annotated[str, Query(description="part of a term, or a concept's id or code", examples=["epilep"])],
        top: Annotated[int, Query(ge=1, description="number of concepts")] = 20,
        project: Annotated[str | None, Query(description="only the concepts that this review allows")] = None,
        narrowed: Annotated[Narrowed, Depends()] = Narrowed(),
    ) -> Response:
        """Search concepts by their terms, ids and codes, as you type."""
        check_strings("q", [q], 1, settings.max_characters)
        check_strings("project", [project], 1, settings.max_characters)
        _check_top(top, settings)
        request.state.asked = [q]
        try:
            finder = await run_in_threadpool(finders.of, project)
            # Of the store, which may hang, and nobody else is to wait.
            narrowed = await run_in_threadpool(finders.narrowed, project, narrowed)
        except Unknown as error:
            raise unknown(error, "unknown_project", "project") from None
        found = await find(batcher, request, finder, q, top, narrowed)
        return Response(to_json({"concepts": found}), media_type=JSON)

    @routes.get("/concepts/{identifier:path}", response_model=concepts.Concept, responses=documented(404))
    async def concept(identifier: Annotated[str, Path(examples=["HP:0001250"])]) -> Response:
        """Return a concept by its id (CURIE), with its replacement if it is retired."""
        found = await run_in_threadpool(concepts.find_concept, identifier, normalizer.index, terminology)
        if found is None:
            raise Refusal(404, "unknown_concept", "no concept has this id", field="identifier")
        return Response(found.model_dump_json(), media_type=JSON)

    return routes


def annotation_router(settings: Settings, normalizer: Normalizer, batcher: Batcher[Question, Any]) -> APIRouter:
    """Return the route of free text."""
    routes = APIRouter(tags=["Free text"], responses=ERRORS)

    @routes.post("/annotate", response_model=AllFound, dependencies=[Depends(json_only)])
    async def annotate(request: Request, asked: Annotated[FreeTexts, Body()]) -> Response:
        """Find the concepts in each text, with their assertion."""
        check_strings("texts", asked.texts, settings.max_rows, settings.max_context)
        if asked.precision is not None and (asked.exact or normalizer.calibration is None):
            why = "exact mentions have" if asked.exact else "this index has"
            raise Refusal(422, "invalid", f"{why} no confidence to choose by; leave it out", field="precision")
        questions = [Question(text) for text in asked.texts]
        found = await ask(batcher, request, AnnotateKind(asked.exact, asked.precision), questions)
        return Response(b'{"results":[' + b",".join(found) + b"]}", media_type=JSON)

    return routes


async def find(
    batcher: Batcher[Question, Any],
    request: Request,
    finder: Finder,
    typed: str,
    top: int,
    narrowed: Narrowed = EVERYTHING,
) -> list[FoundConcept]:
    """Return the concepts that are found by what was typed, best first."""
    vector = (await ask(batcher, request, EncodeKind(), [Question(typed)]))[0] if finder.needs_vector(typed) else None
    return await run_in_threadpool(finder.find, typed, top, vector, narrowed)


async def ask(
    batcher: Batcher[Question, Any], request: Request, kind: Hashable, questions: Sequence[Question]
) -> list[Any]:
    """Return the answers to a request's questions, in order; refuse the request if too many wait, or for too long."""
    state = request.state
    state.rows, state.asked = len(questions), [question.string for question in questions]
    whose: dict[str, Any] = {"client": getattr(state, "turn", ""), "deadline": getattr(state, "deadline", None)}
    try:
        return await batcher.ask(kind, questions, getattr(state, "arrival", None), **whose)
    except QueueFull as full:
        raise Refusal(503, "queue_full", "too many mentions are waiting", retry_after=full.seconds) from None
    except OutOfTime as over:
        problem = f"time is over: {over.left:,} of {len(questions):,} were not answered, and will not be; send fewer"
        raise Refusal(503, "out_of_time", problem, retry_after=batcher.seconds_to_wait()) from None


async def in_turns(batcher: Batcher[Question, Any], request: Request, steps: Iterator[T]) -> list[T]:
    """Return what steps give; they are worked on in threads, in turns between which others are answered."""
    done, is_over = list[T](), False

    def work() -> bool:
        until = time.perf_counter() + TURN
        for step in steps:
            done.append(step)
            if time.perf_counter() > until:
                return False
        return True

    while not is_over:
        began = time.perf_counter()
        is_over = await run_in_threadpool(work)
        if await request.is_disconnected():
            raise ClientDisconnect
        await batcher.give_way(getattr(request.state, "turn", ""), time.perf_counter() - began)
    return done


def check_strings(name: str, values: Sequence[str | None], most: int, characters: int) -> None:
    """Make sure that strings are text, and within the limits."""
    if len(values) > most:
        raise Refusal(422, "too_many", f"{len(values):,} {name}, at most {most:,} a request", field=name)
    for place, value in enumerate(values):
        if value is None:
            continue
        field = f"{name}.{place}"
        if len(value) > characters:
            raise Refusal(422, "too_long", f"{len(value):,} characters, at most {characters:,}", field=field)
        if not value.isascii() and _SURROGATE.search(value):
            raise Refusal(422, "no_text", "it holds half of a surrogate pair, which is not text", field=field)


def _check_top(top: int, settings: Settings) -> None:
    if top > settings.max_top:
        raise Refusal(422, "invalid", f"top may be {settings.max_top} at most", field="top")
