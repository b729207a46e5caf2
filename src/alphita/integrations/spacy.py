"""A spaCy component: entities or spans -> concepts.

    nlp.add_pipe("alphita", config={"to": "hpo"})
    for entity in nlp("He had a heart attack.").ents:
        print(entity.text, entity.kb_id_, entity._.alphita.similarity)

It sets on each entity of `doc.ents`, or on each span of one group of `doc.spans`:

    span._.alphita      the `Result` (`alphita_annotate` sets an `Annotation`); None: this span was not looked up
    span._.concept_id   the concept's CURIE; None for NIL
    span.kb_id_         the same CURIE; left as it is for NIL

`nlp.pipe` looks up the mentions of a whole batch of docs together. A saved pipeline keeps the component's settings, not
the index: move it, and say so by `spacy.load(path, config={"components": {"alphita": {"to": "new.index"}}})`.

Use one process (`n_process=1`, as is spaCy's default): the encoder uses all cores. With more, each process opens the
index for itself; call `multiprocessing.set_start_method("spawn")` first, for a forked process would stand still at the
locks that the encoder's threads hold (where that would be, it raises instead).
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from alphita.annotation.formats.jsonl import annotation_of
from alphita.annotation.spans import Annotation
from alphita.answer.filters import Filters
from alphita.answer.normalizer import NAMES, Normalizer
from alphita.answer.records import Candidate, Result
from alphita.errors import MissingExtra, UsageError
from alphita.index.sources import index_of, located
from alphita.mappings.record import OmopConcept
from alphita.registry import unknown

try:
    from spacy.language import Language
    from spacy.pipeline import Pipe
    from spacy.tokens import Doc, Span
    from spacy.util import minibatch
except ModuleNotFoundError as missing:
    if missing.name != "spacy":
        raise
    raise MissingExtra("spacy", "spacy") from None

# Where a result's plain values are: spaCy keeps and moves them with the span.
VALUES = "alphita_values"
# Options of `Normalizer` that are the component's own.
ERRORS = ("error", "nil_error")


@dataclass(frozen=True)
class ComponentSettings:
    """What a component does; its config in a pipeline.

    Attributes:
        to: what to answer with, as for `alphita.load`.
        error: the allowed error, 0 to 1; None: the usual one, if calibrated.
        nil_error: the allowed share, among NIL answers, of those that have a concept, likewise.
        only_labels: look at spans with these labels alone; None: at all.
        spans_key: the group of `doc.spans`; None: `doc.ents`.
    """

    to: str
    top_k: int
    error: float | None
    nil_error: float | None
    context: bool
    only_labels: tuple[str, ...] | None
    spans_key: str | None
    prefix: str
    options: dict[str, Any]
    language: str


@Language.factory(
    "alphita",
    assigns=["token.ent_kb_id"],
    default_config={
        "top_k": 1,
        "error": None,
        "nil_error": None,
        "context": True,
        "only_labels": None,
        "spans_key": None,
        "prefix": "",
        "options": {},
    },
)
def make(
    nlp: Language,
    name: str,
    to: str,
    top_k: int,
    error: float | None,
    nil_error: float | None,
    context: bool,
    only_labels: list[str] | None,
    spans_key: str | None,
    prefix: str,
    options: dict[str, Any],
) -> ConceptNormalizer:
    """Make the component of a pipeline; for its config see `ComponentSettings`."""
    labels = None if only_labels is None else tuple(only_labels)
    return ConceptNormalizer(
        name, ComponentSettings(to, top_k, error, nil_error, context, labels, spans_key, prefix, options, nlp.lang)
    )


class _Found(NamedTuple):
    """The spans of one doc that are looked up, with their places in `doc.ents` or in the group."""

    doc: Doc
    spans: list[tuple[int, Span]]


class ConceptNormalizer(Pipe):
    """The component. Its index is opened when the first span needs it, once in each process."""

    def __init__(self, name: str, settings: ComponentSettings) -> None:
        _check(settings)
        self.name, self.settings = name, settings
        # By a whole path, for the program may change its folder before the first span comes.
        self._to = located(settings.to)
        self._normalizer: Normalizer | None = None
        self._process = os.getpid()
        register(settings.prefix)

    def __reduce__(self) -> tuple[Any, ...]:
        """Go to another process without the index, and with the error handler if one was set."""
        state = {name: value for name, value in vars(self).items() if name == "error_handler"}
        return ConceptNormalizer, (self.name, self.settings), state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)

    @property
    def normalizer(self) -> Normalizer:
        """The normalizer; opened when first used, and refused in a process that was forked later."""
        if self._normalizer is None:
            options = dict(self.settings.options)
            if "filters" in options:
                options["filters"] = _filters(options["filters"])
            index = index_of(self._to, language=self.settings.language)
            self._normalizer = Normalizer(index, **{name: getattr(self.settings, name) for name in ERRORS}, **options)
            self._process = os.getpid()
        if self._process != os.getpid():
            raise UsageError(
                "a forked process cannot use the encoder of the one it comes from; "
                "call multiprocessing.set_start_method('spawn') before nlp.pipe(..., n_process=2)"
            )
        return self._normalizer

    def __call__(self, doc: Doc) -> Doc:
        self._set([self._spans(doc)])
        return doc

    def pipe(self, stream: Iterable[Doc], *, batch_size: int = 128) -> Iterator[Doc]:
        """Set the concepts of the docs' spans, `batch_size` docs at a time.

        A doc that fails goes to the error handler (`nlp.set_error_handler`) and is left out, as is a batch.
        """
        handle = self.get_error_handler()
        for docs in minibatch(stream, batch_size):
            batch = []
            for doc in docs:
                try:
                    batch.append(self._spans(doc))
                except Exception as error:
                    handle(self.name, self, [doc], error)
            try:
                self._set(batch)
            except Exception as error:
                handle(self.name, self, [found.doc for found in batch], error)
            else:
                yield from (found.doc for found in batch)

    def _spans(self, doc: Doc) -> _Found:
        key, labels = self.settings.spans_key, self.settings.only_labels
        # A doc without any group is one in which nothing was found; one with others shows a wrong name.
        if key is not None and key not in doc.spans and len(doc.spans):
            raise UsageError(unknown("group of spans", key, doc.spans))
        spans = doc.ents if key is None else doc.spans.get(key, [])
        return _Found(
            doc, [(place, span) for place, span in enumerate(spans) if labels is None or span.label_ in labels]
        )

    def _set(self, batch: list[_Found]) -> None:
        """Look up the spans of some docs, together, and set what is found."""
        mentions = [span.text for found in batch for _, span in found.spans]
        if not mentions:
            return
        contexts = None
        if self.settings.context:
            contexts = [_context(found.doc.text, span.text) for found in batch for _, span in found.spans]
        results = iter(self.normalizer.normalize(mentions, top_k=self.settings.top_k, contexts=contexts))
        for found in batch:
            for place, span in found.spans:
                result = next(results)
                span._.set(self.settings.prefix + VALUES, asdict(result))
                if result.concept_id is not None:
                    _set_kb_id(span, result.concept_id, self.settings.spans_key, place)


def _context(text: str, mention: str) -> str | None:
    """Return the text that a mention stands in; None for one that is the mention alone, which tells nothing of it."""
    return None if text.strip() == mention.strip() else text


@dataclass(frozen=True)
class _Attribute:
    """How an attribute of a span is got from the values kept with it; plain, so that it goes to other processes."""

    of: Callable[[dict[str, Any]], Any]
    values: str

    def __call__(self, span: Span) -> Any:  # noqa: ANN401
        values = span._.get(self.values)
        return None if values is None else self.of(values)


def register(prefix: str = "") -> None:
    """Make the attributes of spans known to spaCy. Needed only to read stored docs in a program without the component.

    Raises:
        UsageError: another package or component has attributes of these names.
    """
    wanted: dict[str, dict[str, Any]] = {
        prefix + VALUES: {"default": None},
        prefix + "alphita": {"getter": _Attribute(_result, prefix + VALUES)},
        prefix + "concept_id": {"getter": _Attribute(_concept_id, prefix + VALUES)},
    }
    for name, kind in wanted.items():
        if Span.has_extension(name):
            default, _, getter, _ = Span.get_extension(name)
            if (default, getter) != (kind.get("default"), kind.get("getter")):
                raise UsageError(f"span._.{name} is another's already; give a prefix: config={{'prefix': 'my_', ...}}")
        else:
            Span.set_extension(name, **kind)


def _result(values: dict[str, Any]) -> Result | Annotation:
    if "context" in values:
        return annotation_of(values)
    candidates = tuple(
        Candidate(**_with_tuples(value) | {"omop": value["omop"] and OmopConcept(**value["omop"])})
        for value in values["candidates"]
    )
    return Result(**{**values, "candidates": candidates})


def _with_tuples(values: dict[str, Any]) -> dict[str, Any]:
    """Return values with tuples for lists, which is what stored docs and configs have for them."""
    return {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}


def _concept_id(values: dict[str, Any]) -> str | None:
    concept_id: str | None = values["concept_id"]
    return concept_id


def _set_kb_id(span: Span, concept_id: str, key: str | None, place: int) -> None:
    if key is None:
        # `doc.ents` makes its spans anew from the tokens each time.
        for token in span:
            token.ent_kb_id_ = concept_id
    else:
        span.doc.spans[key][place] = Span(span.doc, span.start, span.end, span.label, kb_id=concept_id, span_id=span.id)


def _check(settings: ComponentSettings) -> None:
    if settings.top_k < 1:
        raise UsageError(f"top_k must be 1 or more, not {settings.top_k}")
    for name in ERRORS:
        if (error := getattr(settings, name)) is not None and not 0.0 < error < 1.0:
            raise UsageError(f"{name} must be between 0 and 1, not {error}")
    known = [name for name in NAMES if name not in ERRORS]
    for name in settings.options:
        if name not in known:
            raise UsageError(unknown("option", name, known))
    _filters(settings.options.get("filters", {}))


def _filters(given: dict[str, Any]) -> Filters:
    known = inspect.signature(Filters).parameters
    for name, value in given.items():
        if name not in known:
            raise UsageError(unknown("filter", name, known))
        kind = bool if isinstance(known[name].default, bool) else list
        if not isinstance(value, kind):
            raise UsageError(f"the filter {name!r} must be a {kind.__name__}, not {value!r}")
    return Filters(**_with_tuples(given))
