"""Free text over HTTP: the mentions in it, their concepts and what the text says of them."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Annotated, Any, NamedTuple

from fastapi import APIRouter, Body, Depends, Request, Response
from pydantic import BaseModel, ConfigDict, Field
from pydantic_core import to_json

from alphita.annotation.annotator import Annotator
from alphita.annotation.annotator import Settings as Kept
from alphita.annotation.formats.jsonl import record_of
from alphita.annotation.spans import Category, Document
from alphita.answer.normalizer import Normalizer
from alphita.mappings.record import Decision
from alphita.service import normalizing
from alphita.service.batching import CHARACTERS_A_TOKEN, Batcher
from alphita.service.failures import Refusal, documented
from alphita.service.settings import Settings


class FreeTexts(BaseModel):
    """Texts in which concepts are to be found."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{"texts": ["No seizures. She has short and curved fingers."]}]}
    )

    texts: list[str] = Field(description="texts, such as letters, notes or abstracts")
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


class Wanted(NamedTuple):
    """The kind of a question to the annotator; only questions of one kind are answered together."""

    exact: bool
    precision: float | None


class Work:
    """What the batcher's worker does: texts by an annotator, which the first of them makes; all else by another."""

    def __init__(self, normalizer: Normalizer) -> None:
        self.normalizer, self._others = normalizer, normalizing.Work(normalizer)
        self._annotator: Annotator | None = None

    def __call__(self, kind: Hashable, questions: Sequence[normalizing.Question], /) -> Sequence[Any]:
        """Return for each text the JSON of `Found`; for another question what `normalizing.Work` does."""
        if not isinstance(kind, Wanted):
            return self._others(kind, questions)
        if self._annotator is None:
            self._annotator = Annotator(self.normalizer)
        annotator = self._annotator.keeping(Kept(exact=kind.exact, precision=kind.precision))
        documents = [Document("", question.string) for question in questions]
        return [
            to_json({"annotations": [record_of(annotation) for annotation in found.annotations]})
            for found in annotator.annotate(documents)
        ]


def cost(question: normalizing.Question) -> int:
    """Return about how many tokens a question costs: those of a long text are not cut."""
    return max(normalizing.cost(question), len(question.string) // CHARACTERS_A_TOKEN)


def router(settings: Settings, normalizer: Normalizer, batcher: Batcher[normalizing.Question, Any]) -> APIRouter:
    """Return the route."""
    routes = APIRouter(tags=["Free text"], responses=documented(401, 403, 408, 413, 415, 422, 429, 500, 503, 504))

    @routes.post("/annotate", response_model=AllFound, dependencies=[Depends(normalizing.json_only)])
    async def annotate(request: Request, asked: Annotated[FreeTexts, Body()]) -> Response:
        """Find the concepts in each text, with their assertion."""
        normalizing.check_strings("texts", asked.texts, settings.max_rows, settings.max_context)
        if asked.precision is not None and (asked.exact or normalizer.calibration is None):
            why = "exact mentions have" if asked.exact else "this index has"
            raise Refusal(422, "invalid", f"{why} no confidence to choose by; leave it out", field="precision")
        questions = [normalizing.Question(text) for text in asked.texts]
        found = await normalizing.ask(batcher, request, Wanted(asked.exact, asked.precision), questions)
        return Response(b'{"results":[' + b",".join(found) + b"]}", media_type=normalizing.JSON)

    return routes
