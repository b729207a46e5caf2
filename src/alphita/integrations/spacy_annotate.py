"""A spaCy component: texts -> the mentions in them, their concepts and what the text says of them.

    nlp = spacy.blank("en")
    nlp.add_pipe("alphita_annotate", config={"to": "hpo"})
    for entity in nlp("No seizures. She has short fingers.").ents:
        print(entity.text, entity.kb_id_, entity._.alphita.said)

It makes entities of `doc.ents`, or with `spans_key` spans of that group of `doc.spans`, with their `kb_id_`, and

    span._.alphita      the `Annotation`: concept, confidence, context, modifiers; its places count the doc's text
    span._.concept_id   the concept's CURIE

A span has whole tokens. Entities may not overlap: of "short and curved fingers" the longer one becomes one, a group
of spans has both; an entity that is there already gives way to a mention in its place. For processes and saved
pipelines see `alphita.integrations.spacy`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spacy.language import Language
from spacy.pipeline import Pipe
from spacy.tokens import Doc, Span
from spacy.util import filter_spans, minibatch

from alphita.annotation.annotator import Annotator, Settings
from alphita.annotation.formats.jsonl import record_of
from alphita.annotation.spans import Annotation, Document
from alphita.integrations.spacy import VALUES, ComponentSettings, ConceptNormalizer

LABEL = "CONCEPT"


@dataclass(frozen=True)
class FindingSettings:
    """What is found, and where it is put; the component's config in a pipeline, as `ComponentSettings`."""

    to: str
    exact: bool
    precision: float | None
    context_rules: str | None
    spans_key: str | None
    label: str
    prefix: str
    options: dict[str, Any]
    language: str


@Language.factory(
    "alphita_annotate",
    assigns=["doc.ents", "token.ent_kb_id"],
    default_config={
        "exact": False,
        "precision": None,
        "context_rules": None,
        "spans_key": None,
        "label": LABEL,
        "prefix": "",
        "options": {},
    },
)
def make(
    nlp: Language,
    name: str,
    to: str,
    exact: bool,
    precision: float | None,
    context_rules: str | None,
    spans_key: str | None,
    label: str,
    prefix: str,
    options: dict[str, Any],
) -> ConceptFinder:
    """Make the component of a pipeline; for its config see `FindingSettings`."""
    return ConceptFinder(
        name, FindingSettings(to, exact, precision, context_rules, spans_key, label, prefix, options, nlp.lang)
    )


class ConceptFinder(Pipe):
    """The component. Its index is opened with the first doc, once in each process."""

    def __init__(self, name: str, settings: FindingSettings) -> None:
        self.name, self.settings = name, settings
        rules = None if settings.context_rules is None else Path(settings.context_rules)
        self._kept = Settings(exact=settings.exact, precision=settings.precision, context_rules=rules)
        self._opened = ConceptNormalizer(
            name,
            ComponentSettings(
                settings.to, 1, None, None, False, None, None, settings.prefix, settings.options, settings.language
            ),
        )
        self._annotator: Annotator | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        state = {name: value for name, value in vars(self).items() if name == "error_handler"}
        return ConceptFinder, (self.name, self.settings), state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)

    @property
    def annotator(self) -> Annotator:
        normalizer = self._opened.normalizer
        if self._annotator is None:
            self._annotator = Annotator(normalizer, self._kept)
        return self._annotator

    def __call__(self, doc: Doc) -> Doc:
        self._set([doc])
        return doc

    def pipe(self, stream: Iterable[Doc], *, batch_size: int = 128) -> Iterator[Doc]:
        """Find the mentions of docs, `batch_size` of them at a time.

        A batch that fails goes to the error handler (`nlp.set_error_handler`) and is left out.
        """
        handle = self.get_error_handler()
        for batch in minibatch(stream, batch_size):
            docs = list(batch)
            try:
                self._set(docs)
            except Exception as error:
                handle(self.name, self, docs, error)
            else:
                yield from docs

    def _set(self, docs: Sequence[Doc]) -> None:
        found = self.annotator.annotate([Document("", doc.text) for doc in docs])
        for doc, annotated in zip(docs, found, strict=True):
            spans = [span for annotation in annotated.annotations if (span := self._span(doc, annotation)) is not None]
            if self.settings.spans_key is not None:
                doc.spans[self.settings.spans_key] = spans
                continue
            entities = filter_spans(spans)
            taken = {token.i for span in entities for token in span}
            others = [ent for ent in doc.ents if taken.isdisjoint(range(ent.start, ent.end))]
            doc.set_ents([*entities, *others])

    def _span(self, doc: Doc, one: Annotation) -> Span | None:
        span = doc.char_span(
            one.start, one.end, label=self.settings.label, kb_id=one.concept_id, alignment_mode="expand"
        )
        if span is not None:
            span._.set(self.settings.prefix + VALUES, record_of(one))
        return span
