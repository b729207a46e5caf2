"""What people decided before, over HTTP: the mapping memory, asked before the normaliser."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Body, Depends, Request
from pydantic import BaseModel, ConfigDict, Field

from alphita.mappings.record import Relation
from alphita.review.records import Decision, Kind
from alphita.review.store import ReviewStore, Unknown
from alphita.service.failures import Refusal, documented
from alphita.service.normalizing import check_strings, json_only
from alphita.service.settings import Settings


class Remembering(BaseModel):
    """Strings of one source."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{"source": "LAB_SYSTEM", "mentions": ["hart attack", "T2DM"]}]}
    )

    source: str = Field(description="where the strings come from, as the projects say it")
    mentions: list[str] = Field(description="the strings; compared after cleaning")
    project: str | None = Field(None, description="only what was decided in this project")


class Remembered(BaseModel):
    """A decision that settles what a string means."""

    mention: str = Field(description="as it was sent", examples=["hart attack"])
    kind: Kind = Field(examples=["accept"])
    concept_id: str | None = Field(description="CURIE; null: no concept fits", examples=["HP:0001658"])
    relation: Relation | None = Field(description="how the concept stands to the string", examples=["exact"])
    reviewer: str = Field(examples=["ann"])
    at: str = Field(description="ISO 8601, UTC; empty: not known", examples=["2030-06-15T09:30:00+00:00"])
    project: str = Field(examples=["lab 2030"])


class Memory(BaseModel):
    """One decision per string, in order; null where nothing is settled."""

    mappings: list[Remembered | None]


def router(settings: Settings, store: ReviewStore) -> APIRouter:
    """Return the route."""
    routes = APIRouter(tags=["Review"], responses=documented(401, 403, 404, 408, 413, 415, 422, 429, 500, 503, 504))

    @routes.post("/mappings", dependencies=[Depends(json_only)])
    def mappings(request: Request, asked: Annotated[Remembering, Body()]) -> Memory:
        """Return what people decided about equal strings of a source."""
        check_strings("mentions", asked.mentions, settings.max_rows, settings.max_characters)
        check_strings("source", [asked.source], 1, settings.max_characters)
        check_strings("project", [asked.project], 1, settings.max_characters)
        request.state.rows, request.state.asked = len(asked.mentions), asked.mentions
        try:
            known = store.remembered(asked.source, asked.mentions, project=asked.project)
        except Unknown as error:
            raise Refusal(404, "unknown_project", str(error), field="project") from None
        found = [known.get(mention) for mention in asked.mentions]
        pairs = zip(asked.mentions, found, strict=True)
        return Memory(mappings=[None if one is None else _remembered(mention, one) for mention, one in pairs])

    return routes


def _remembered(mention: str, one: Decision) -> Remembered:
    return Remembered(
        mention=mention,
        kind=one.kind,
        concept_id=one.concept_id,
        relation=one.relation,
        reviewer=one.reviewer,
        at=one.at,
        project=one.project,
    )
