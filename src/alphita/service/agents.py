"""Tools for language models, over the Model Context Protocol: the service's answers, and which of them may be used.

A model is given a code to use only where the decision is "accept"; otherwise it gets candidates and the reason.
"""

from __future__ import annotations

import functools
import logging
import time
from collections.abc import Awaitable, Callable, Hashable, Sequence
from typing import Annotated, Any, TypeAlias

from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.transport_security import TransportSecuritySettings
from mcp.types import ToolAnnotations
from pydantic import BaseModel, Field
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send

from alphita import __version__
from alphita.answer.normalizer import Normalizer
from alphita.errors import AlphitaError
from alphita.mappings.record import Decision
from alphita.service import app, keys, logs, normalizing
from alphita.service.batching import Batcher
from alphita.service.concepts import Concept, Finder, find_concept
from alphita.service.failures import Gate, Refusal, refusal_of
from alphita.service.limits import Limits, Origins
from alphita.service.normalizing import (
    AnnotateKind,
    Answer,
    Found,
    FoundConcepts,
    Mention,
    NormalizeKind,
    Question,
    Work,
    check_strings,
)
from alphita.service.settings import Settings
from alphita.service.workers import Worker
from alphita.terminology import prefixes

PATH = "/mcp"
# Candidates by default: what a model reads costs tokens.
TOP = 5
RULE = (
    'Use a code without a person only where "decision" is "accept". Where it is "review", show the candidates and the '
    'reason to a person. Where it is "nil", no code fits. Never choose or make up a code yourself.'
)
READ_ONLY = ToolAnnotations(read_only_hint=True, idempotent_hint=True, open_world_hint=False)


class Suggestion(BaseModel):
    """A concept that a string may name; it is no answer."""

    concept_id: str = Field(description="CURIE", examples=["HP:0001658"])
    concept_name: str = Field(description="its preferred term")
    matched_term: str = Field(description="its term nearest to the string")
    similarity: float | None = Field(None, description="cosine, -1 to 1")
    contradictions: tuple[str, ...] = Field(description="how the string and the term disagree")


class Decided(BaseModel):
    """The answer for one string."""

    mention: str = Field(description="as it was sent")
    decision: Decision = Field(description="accept: use the code; review: ask a person; nil: no code fits")
    concept_id: str | None = Field(description="CURIE; null unless the decision is accept", examples=["HP:0001658"])
    concept_name: str | None = Field(description="its preferred term")
    confidence: float | None = Field(
        description="calibrated probability that the decision's concept, or for nil that no concept, is right"
    )
    reason: str = Field(description="why, in a sentence")
    candidates: list[Suggestion] = Field(description="best first; for a person to choose from")


class AllDecided(BaseModel):
    """One answer per string, in order."""

    rule: str = RULE
    results: list[Decided]


class Mentioned(BaseModel):
    """A mention of a concept in a text; places count Unicode code points."""

    start: int = Field(description="first character")
    end: int = Field(description="the character behind the last")
    mention: str
    decision: Decision = Field(description="accept: use the code; review: ask a person")
    is_present: bool = Field(
        description="false: negated, only possible, past, or of another person; do not code it as present"
    )
    concept_id: str | None = Field(description="CURIE; null unless the decision is accept")
    concept_name: str | None = Field(description="its preferred term")
    confidence: float | None = Field(description="calibrated probability that the concept is right")
    reason: str = Field(description="why, in a sentence")
    candidates: list[Suggestion] = Field(description="for a person to confirm; empty if the code may be used")


class OfText(BaseModel):
    """What was found in one text."""

    mentions: list[Mentioned]


class AllMentioned(BaseModel):
    """One result per text, in order."""

    rule: str = RULE
    results: list[OfText]


class Checked(BaseModel):
    """Whether a code may be used for a string without a person."""

    may_be_used: bool = Field(description="false: do not use the code; ask a person")
    reason: str = Field(description="why, in a sentence")
    answer: Decided


# The most that `Settings.max_top` allows.
Top = Annotated[int, Field(ge=1, le=100, description="candidates per string")]
Strings = Annotated[list[str], Field(min_length=1, description="strings, each a disease, finding, drug or test")]
Curie = Annotated[str, Field(description="CURIE, such as HP:0001250")]
Asking: TypeAlias = Context
Billable = Annotated[bool, Field(description="ICD-10-CM: only codes that can be billed")]


# Candidates of all strings, and characters of all texts, of one call: what is larger keeps others waiting.
MAX_CANDIDATES, MAX_TEXT = 1_000, 50_000


class Tools:
    """The tools; each one's docstring, and the rule where it gives answers, is what a model reads of it."""

    def __init__(self, normalizer: Normalizer, settings: Settings, batcher: Batcher[Question, Any]) -> None:
        self._normalizer, self._settings, self._batcher = normalizer, settings, batcher
        self._finder = Finder(normalizer.index)

    async def normalize(
        self, asking: Asking, mentions: Strings, top: Top = TOP, billable: Billable = False
    ) -> AllDecided:
        """Map medical strings to concepts of a terminology, each with a decision and its reason."""
        return AllDecided(results=await self._decided(asking, mentions, top, billable))

    async def check_code(self, asking: Asking, mention: str, concept_id: Curie, billable: Billable = False) -> Checked:
        """Ask this before you write down a code for a string: it says whether the code may be used without a person."""
        self._check("concept_id", [concept_id])
        [answer] = await self._decided(asking, [mention], TOP, billable)
        prefix = (answer.concept_id or "").partition(":")[0]
        rows = self._normalizer.allowed.row(concept_id), self._normalizer.allowed.row(answer.concept_id or "")
        if answer.decision != "accept":
            reason = f"{answer.decision}: {answer.reason}"
        elif answer.concept_id in (prefixes.normalize(concept_id), f"{prefix}:{concept_id}"):
            return Checked(may_be_used=True, reason=answer.reason, answer=answer)
        elif rows[0] >= 0 and rows[0] == rows[1]:
            reason = f"{concept_id} was replaced: use {answer.concept_id}"
        else:
            reason = f"another code is accepted, {answer.concept_id}: {answer.reason}"
        return Checked(may_be_used=False, reason=reason, answer=answer)

    async def annotate(self, asking: Asking, texts: Strings) -> AllMentioned:
        """Find the concepts that texts name. Only one whose is_present is true is a finding of the patient."""
        check_strings("texts", texts, self._settings.max_rows, self._settings.max_context)
        _check_size(sum(map(len, texts)), MAX_TEXT, "characters in all texts")
        found = await self._ask(asking, AnnotateKind(False, None), texts)
        return AllMentioned(results=await run_in_threadpool(lambda: [_of_text(one) for one in found]))

    async def lookup(self, asking: Asking, concept_id: Curie) -> Concept:
        """Show one concept: definition, synonyms, parents and children. This decides nothing."""
        self._check("concept_id", [concept_id])
        found = await run_in_threadpool(find_concept, concept_id, self._normalizer.index, None)
        if found is None:
            raise Refusal(404, "unknown_concept", "no concept has this id; find one with the tool search")
        return found

    async def search(self, asking: Asking, text: str, top: Top = 20) -> FoundConcepts:
        """List concepts with names like a text, or with an id or code. A result is no answer: for that, normalize."""
        self._check("text", [text])
        found = await normalizing.find(self._batcher, self._request(asking), self._finder, text, top)
        return FoundConcepts(concepts=found)

    async def _decided(self, asking: Asking, mentions: list[str], top: int, billable: bool) -> list[Decided]:
        self._check("mentions", mentions)
        _check_size(len(mentions) * top, MAX_CANDIDATES, "candidates of all mentions")
        if billable:
            self._normalizer.narrowed(billable=True)  # says so, where the index does not tell
        found = await self._ask(asking, NormalizeKind(top, True, billable), mentions)
        return await run_in_threadpool(lambda: [decide(Answer.model_validate_json(one)) for one in found])

    async def _ask(self, asking: Asking, kind: Hashable, strings: Sequence[str]) -> list[Any]:
        questions = [Question(string) for string in strings]
        return await normalizing.ask(self._batcher, self._request(asking), kind, questions)

    def _request(self, asking: Asking) -> Request:
        """Return the request of HTTP, with client and deadline; over stdin there is one client, with the same time."""
        state = {"deadline": time.monotonic() + self._settings.seconds}
        return asking.request_context.request or Request({"type": "http", "state": state})

    def _check(self, name: str, strings: Sequence[str]) -> None:
        check_strings(name, strings, self._settings.max_rows, self._settings.max_characters)


def _check_size(size: int, most: int, what: str) -> None:
    if size > most:
        raise Refusal(422, "too_many", f"{size:,} {what}, at most {most:,} a call")


def server(normalizer: Normalizer, settings: Settings, further: Sequence[Worker] = ()) -> MCPServer:
    """Return the server with its tools; the limits of the settings are those of each call."""
    made = MCPServer("alphita", version=__version__, instructions=RULE, log_level="ERROR", subscriptions=False)
    # Its messages may hold what was asked.
    logging.getLogger("mcp").setLevel(logging.CRITICAL)
    batcher = normalizing.batcher(Work(normalizer), settings)
    for worker in further:
        batcher.add(worker)
    tools = Tools(normalizer, settings, batcher)
    for tool in (tools.normalize, tools.check_code, tools.annotate, tools.lookup, tools.search):
        rule = RULE if tool in (tools.normalize, tools.annotate) else ""
        about = " ".join(filter(None, [*(tool.__doc__ or "").split(), rule]))
        made.add_tool(_bounded(tool), description=about, annotations=READ_ONLY, structured_output=True)
    return made


def decide(result: Answer) -> Decided:
    """Return what a model is told: a code only if it may be used."""
    decision = result.decision or ("nil" if result.concept_id is None else "review")
    reason = result.explanation or ""
    if result.decision is None:
        reason += "; this index has no calibration, so that nothing is accepted"
    is_usable, shown = decision == "accept", Suggestion.model_fields
    return Decided(
        mention=result.mention,
        decision=decision,
        concept_id=result.concept_id if is_usable else None,
        concept_name=result.concept_name if is_usable else None,
        confidence=result.confidence,
        reason=reason,
        candidates=[Suggestion(**{name: getattr(one, name) for name in shown}) for one in result.candidates],
    )


def _of_text(found: bytes) -> OfText:
    return OfText(mentions=[_mentioned(one) for one in Found.model_validate_json(found).annotations])


def _mentioned(one: Mention) -> Mentioned:
    how = "equal to" if one.method == "exact" else "nearest to"
    reason = "; ".join(
        [
            f'{how} "{one.matched_term}" of {one.concept_name}',
            *(f'{said.category} by "{said.cue}"' for said in one.context),
        ]
    )
    is_usable = one.decision == "accept"
    near = Suggestion(
        concept_id=one.concept_id, concept_name=one.concept_name, matched_term=one.matched_term, contradictions=()
    )
    return Mentioned(
        **{name: getattr(one, name) for name in ("start", "end", "mention", "confidence")},
        decision="accept" if is_usable else "review",
        is_present=not one.context,
        concept_id=one.concept_id if is_usable else None,
        concept_name=one.concept_name if is_usable else None,
        reason=reason,
        candidates=[] if is_usable else [near],
    )


def _bounded(tool: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    """Return a tool whose errors say what to do and nothing that was sent; of a call only the size is logged."""

    @functools.wraps(tool)
    async def called(**given: Any) -> Any:  # noqa: ANN401 - of the tool
        rows = max((len(value) for value in given.values() if isinstance(value, list)), default=1)
        try:
            found = await tool(**given)
        except (AlphitaError, Refusal) as error:
            refusal = error if isinstance(error, Refusal) else refusal_of(error)
            logs.event("tool", tool=tool.__name__, rows=rows, refused=refusal.code)
            raise ToolError(refusal.message) from None
        except Exception as error:
            logs.LOGGER.error("a tool failed", exc_info=error)
            raise ToolError("it failed; see the server's log") from None
        logs.event("tool", tool=tool.__name__, rows=rows)
        return found

    return called


def create(normalizer: Normalizer, settings: Settings, further: Sequence[Worker] = ()) -> Starlette:
    """Return the server as a web app at /mcp, with the service's access and limits."""
    settings.check()
    ring = keys.KeyRing(settings.keys)
    # `Origins` does what the SDK's own check would.
    security = TransportSecuritySettings(enable_dns_rebinding_protection=False)
    mcp = server(normalizer, settings, further)
    for path in keys.OPEN:
        mcp.custom_route(path, methods=["GET"])(_ready)
    made = mcp.streamable_http_app(
        streamable_http_path=PATH,
        json_response=True,
        stateless_http=True,
        max_request_body_size=settings.max_body,
        transport_security=security,
    )
    figures = logs.Metrics(version=__version__, waiting=lambda: 0.0)
    figures.serve(normalizer.index)
    # The last that is added is the first that is passed.
    made.add_middleware(PostOnly)
    made.add_middleware(Limits, settings=settings)
    made.add_middleware(keys.Authentication, settings=settings, ring=ring)
    made.add_middleware(Origins, settings=settings)
    made.add_middleware(logs.RequestLog, metrics=figures)
    made.state.reload = functools.partial(app.reload, ring)
    return made


class PostOnly(Gate):
    """A middleware that refuses a stream of messages, for there are none between calls."""

    async def pass_on(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let the app answer a call."""
        if scope["path"] == PATH and scope["method"] != "POST":
            raise Refusal(405, "not_supported", "send calls by POST")
        if scope["path"] == PATH:
            scope["state"]["identity"].need("read")
        await self.app(scope, receive, send)


async def _ready(_: Request) -> Response:
    return JSONResponse({"status": "ready"})
