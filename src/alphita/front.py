"""The front door: `alphita.normalize`, `annotate` and `load`, which do the usual in one call."""

from __future__ import annotations

import functools
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from alphita.artefact import MANIFEST
from alphita.errors import UsageError

if TYPE_CHECKING:
    from alphita.annotation.annotator import Annotator, Settings
    from alphita.annotation.spans import Annotation
    from alphita.answer.normalizer import Normalizer
    from alphita.answer.records import Result

# Options of each call; all others are the normaliser's own.
ASKED = ("top_k", "explain", "contexts", "languages")
OF_FRAMES = ("context", "prefix")


def load(to: Path | str, *, language: str | None = None, **options: Any) -> Normalizer:  # noqa: ANN401
    """Return a normaliser for a terminology: it maps strings to the concepts that they name.

        >>> normalizer = alphita.load("hpo")
        >>> normalizer.normalize(["heart attack"], top_k=3)[0].concept_name
        'Myocardial infarction'

    Args:
        to: "hpo" or "icd10cm"; the published file or folder of a terminology; an X.terminology or X.index folder. If
            there is no index yet, it is built first: for 40,000 names that takes half a minute, once.
        language: language of the strings, such as "it". Unless `model` is given, this and the languages of the
            terminology determine the model: alphita-en if all are English, otherwise alphita-multi.
        **options: `borrow`, `names`, `learn` and `model`, for the index (see `alphita.index.choice.Choice`);
            `mappings`, a review store, whose confirmed phrases become names in the index; and those of
            `alphita.Normalizer`: error, nil_error, target, filters, ...

    Raises:
        UsageError: there is no such terminology, or an option is wrong.
        InputError: it cannot be read.
    """
    from alphita.answer.normalizer import Normalizer
    from alphita.index.choice import Choice
    from alphita.index.sources import index_of

    options = _with_confirmed(options)
    chosen = {name: options.pop(name) for name in Choice.__dataclass_fields__ if name in options}
    return Normalizer(index_of(to, Choice(**chosen), language=language, threads=options.get("threads")), **options)


def normalize(mentions: Any, to: Path | str, *, column: str | None = None, **options: Any) -> Any:  # noqa: ANN401
    """Map strings to the concepts that they name, with confidence and a decision.

        >>> for result in alphita.normalize(["heart attack", "metformin 500 mg"], to="hpo"):
        ...     print(result.mention, result.concept_id, result.decision)
        heart attack HP:0001658 accept
        metformin 500 mg None nil
        >>> alphita.normalize(polars.DataFrame({"complaint": ["heart attack"]}), to="hpo", column="complaint")

    Args:
        mentions: a list of strings, an iterator of them, or an array of pyarrow or numpy; a polars or pandas series; a
            polars or pandas data frame, with `column`.
        to: see `alphita.load`. It is opened once, and kept for the next call. If there are at least 20 strings, their
            language also determines the model.
        column: the column of the data frame that contains the strings.
        **options: `top_k` and `explain`, with a list `contexts` and `languages`, as for `Normalizer.normalize`; with a
            data frame, `context`, a column, and `prefix`, for the names of the added columns; and those of
            `alphita.load`.

    Returns:
        For a list, an iterator or an array, one `Result` per string; for a series or a data frame, a data frame with
            the answers as columns.

    Raises:
        UsageError: there is no such terminology, or an option is wrong.
        InputError: the terminology cannot be read.
    """
    from alphita.answer.normalizer import listed
    from alphita.index.sources import is_index

    is_frame = _is_of(mentions, "DataFrame", "LazyFrame")
    if not is_frame and not _is_of(mentions, "Series"):
        mentions = listed(mentions)
    call_options = {name: options.pop(name) for name in (*ASKED, *(OF_FRAMES if is_frame else ())) if name in options}
    if options.keys().isdisjoint({"language", "model"}) and not is_index(to):
        options |= _language(mentions, column)
    normalizer = _kept(to, options)
    if is_frame:
        from alphita.integrations.frames import normalize_column

        if column is None:
            raise UsageError("say which column of the frame has the strings: column='NAME'")
        return normalize_column(mentions, column, normalizer, **call_options)
    if column is not None:
        raise UsageError("column= goes with a data frame")
    if _is_of(mentions, "Series"):
        from alphita.integrations.frames import normalize_series

        return normalize_series(mentions, normalizer, **call_options)
    results: list[Result] = normalizer.normalize(mentions, **call_options)
    return results


def annotate(texts: Any, to: Path | str, **options: Any) -> Any:  # noqa: ANN401
    """Find the concepts of a terminology in free text, with their assertion.

        >>> for found in alphita.annotate("No seizures. Short and curved fingers.", to="hpo"):
        ...     print(found.mention, found.concept_id, found.said)
        seizures HP:0001250 ('negated',)
        Short and curved fingers HP:0009381 ('affirmed',)
        curved fingers HP:0004095 ('affirmed',)

    Args:
        texts: one string, or a list of them.
        to: see `alphita.load`. It is opened once, and kept for the next call.
        **options: those of `alphita.annotation.annotator.Settings`: exact, precision, context_rules, ...; and those of
            `alphita.load`.

    Returns:
        For a string, a list of `Annotation`; for a list of strings, a list of such lists.

    Raises:
        UsageError: `texts` is not a string or list of strings, the terminology does not exist, or an option is wrong.
        InputError: the terminology or the context rules cannot be read.
    """
    from alphita.annotation.annotator import Settings
    from alphita.annotation.spans import Document

    many = [texts] if isinstance(texts, str) else texts
    if not isinstance(many, list | tuple) or not all(isinstance(text, str) for text in many):
        raise UsageError("give a string, or a list of strings")
    settings = {name: options.pop(name) for name in Settings.__dataclass_fields__ if name in options}
    annotator = _annotator(_kept(to, options), Settings(**settings))
    documents = [Document(str(number), text) for number, text in enumerate(many, 1)]
    annotations: list[list[Annotation]] = [list(document.annotations) for document in annotator.annotate(documents)]
    return annotations[0] if isinstance(texts, str) else annotations


@functools.lru_cache(maxsize=2)
def _annotator(normalizer: Normalizer, settings: Settings) -> Annotator:
    """Return the annotator of an earlier call, or a new one."""
    from alphita.annotation.annotator import Annotator

    return Annotator(normalizer, settings)


def _is_of(value: object, *names: str) -> bool:
    """Return whether a value is of a class of polars or pandas with one of these names; neither is imported."""
    libraries = (sys.modules.get("polars"), sys.modules.get("pandas"))
    kinds = tuple(kind for library in libraries for name in names if (kind := getattr(library, name, None)) is not None)
    return isinstance(value, kinds)


def _language(mentions: Any, column: str | None) -> dict[str, str]:  # noqa: ANN401
    """Return the language of strings as an option; none where it is English, or they are too few to tell."""
    from alphita.index.choice import ENGLISH, LOOKED_AT, language_of
    from alphita.integrations.frames import first_strings

    strings = mentions if isinstance(mentions, list | tuple) else first_strings(mentions, column, LOOKED_AT)
    language = language_of(string for string in strings if isinstance(string, str))
    return {} if language in (None, ENGLISH) else {"language": language}


def _with_confirmed(options: dict[str, Any]) -> dict[str, Any]:
    """Return the options with the confirmed phrases of a review store instead of `mappings`."""
    given = {name: value for name, value in options.items() if name != "mappings"}
    if options.get("mappings") is None:
        return given
    from alphita.calibrate.from_mappings import confirmed
    from alphita.review.store import ReviewStore

    with ReviewStore.open(options["mappings"]) as store:
        return given | {"confirmed": confirmed(store)}


def _kept(to: Path | str, options: dict[str, Any]) -> Normalizer:
    """Return the normaliser of an earlier call with the same source and options, or a new one."""
    options = _with_confirmed(options)
    path = Path(to).expanduser()
    manifest = path / MANIFEST
    files = [manifest] if manifest.exists() else sorted(path.rglob("*")) if path.is_dir() else [path]
    # Times alone may lie: a file that is put back may have its old one.
    facts = [(str(file), file.stat()) for file in files if file.is_file()]
    changed = tuple((name, fact.st_mtime_ns, fact.st_size, fact.st_ino) for name, fact in facts)
    given = tuple(sorted(options.items()))
    try:
        hash(given)
    except TypeError:  # an option that holds arrays, such as a calibration
        return load(to, **options)
    return _opened(str(to), changed, given)


@functools.lru_cache(maxsize=4)
def _opened(to: str, changed: tuple[tuple[str | int, ...], ...], options: tuple[tuple[str, Any], ...]) -> Normalizer:
    """Return a new normaliser; `changed` tells one version of the source from the next."""
    return load(to, **dict(options))
