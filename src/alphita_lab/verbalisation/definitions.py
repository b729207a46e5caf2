"""Definitions made fit to train on: tidied, and dropped where they would teach letters instead of meaning.

One that only repeats the name ("Cold. A disease named cold.") is matched by its letters, so it is dropped. For the same
reason the subject goes: of "Seizure is a sudden discharge ..." remains "A sudden discharge ...".
"""

from __future__ import annotations

import html
import itertools
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from alphita.terminology.languages import speaks
from alphita.terminology.reading import rows_of
from alphita.terminology.store import Terminology
from alphita.terminology.text import clean

# --- what no text may show -------------------------------------------------------------------------------------------

# Scripts that write no spaces between words: each sign is a word of its own.
_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff"
_WORD = re.compile(f"[{_UNSPACED}]|[^\\W_{_UNSPACED}]+")


def words(string: str) -> list[str]:
    """Return the words of a string, cleaned; punctuation is none, so that "Type-2 (adult)" is type, 2, adult."""
    return split(clean(string))


def split(cleaned: str) -> list[str]:
    """Return the words of a string that is cleaned already."""
    return _WORD.findall(cleaned)


class Withheld:
    """Held-out strings, and (p, 2) rows of concepts whose triples must not show, in whatever direction."""

    def __init__(self, strings: Collection[str], pairs: NDArray[np.integer[Any]] | None, n_concepts: int) -> None:
        self._strings: set[str] = set()
        lengths: dict[str, set[int]] = {}
        for string in strings:
            if parts := words(string):
                self._strings.add(" ".join(parts))
                lengths.setdefault(parts[0], set()).add(len(parts))
        self._lengths = {first: sorted(numbers) for first, numbers in lengths.items()}
        self._n = n_concepts
        self._pairs = np.empty(0, np.int64) if pairs is None else np.unique(self._coded(pairs[:, 0], pairs[:, 1]))

    def is_in(self, text: str) -> bool:
        """Say whether a held-out string stands in `text`, as whole words, whatever the case and punctuation."""
        if not self._strings:
            return False
        words_of_text = words(text)
        return any(
            " ".join(words_of_text[place : place + length]) in self._strings
            for place, word in enumerate(words_of_text)
            for length in self._lengths.get(word, ())
        )

    def joins(self, heads: NDArray[np.int32], tails: NDArray[np.int32]) -> NDArray[np.bool_]:
        """Say for each of (m,) heads and tails whether they are a held-out pair, in either order."""
        return np.isin(self._coded(heads, tails), self._pairs)

    def _coded(self, heads: NDArray[np.integer[Any]], tails: NDArray[np.integer[Any]]) -> NDArray[np.int64]:
        return np.minimum(heads, tails).astype(np.int64) * self._n + np.maximum(heads, tails)


# --- definitions -----------------------------------------------------------------------------------------------------

MIN_WORDS = 3
MAX_CHARACTERS = 1_000
ROWS = 65_536  # read at a time

_TAG = re.compile(r"</?(?:a|b|br|div|em|i|li|p|span|strong|sub|sup|ul)\b[^<>]*>", re.IGNORECASE)
_SOURCE = (
    r"(?:(?:PMID|PMC|ISBN|DOI|URL|GOC?|MGI|OBOL|GO_REF|ORCID|NCI|MSH|Wikipedia|WP|SNOMED|UMLS|CUI|OMIM|ORPHA)\b"
    r"|https?:|www\.|[A-Za-z_]{2,15}:[A-Za-z0-9_./-]+)"
)
_MAY_HAVE_MARKERS = re.compile(
    r"[\[({]|https?:|www\.|references?|sources?|see also|reviewed|PMID|DOI|ISBN", re.IGNORECASE
)
_MARKERS = [
    # [PMID:123, GOC:ab], [WP,modified], [Automatically generated definition], (PMID:123), [1], [2,3], {xref="..."}
    re.compile(rf"\s*\[\s*{_SOURCE}[^\[\]]*\]", re.IGNORECASE),
    re.compile(r"\s*\[\s*automatically generated[^\[\]]*\]", re.IGNORECASE),
    re.compile(r"\s*\[[A-Z]{2,}[^\[\]]{0,80}\](?=\W*$)"),
    re.compile(r"\s*\(\s*(?:PMID|PMC|ISBN|DOI|URL|https?:|www\.|ORCID)[^()]*\)", re.IGNORECASE),
    re.compile(r"\s*\([^()]*\bPMID:?\s*\d+\)", re.IGNORECASE),
    re.compile(r"\s*\[\d+(?:\s*[,–-]\s*\d+)*\]"),
    re.compile(r"\s*\{\s*\w+=\"[^{}]*\}"),
    # Where a dictionary was copied: (From Some Book, 27th ed), (Some Author, 1998; p. 12), (NCI)
    re.compile(r"\s*\((?:adapted |modified )?from:? [^()]*\)(?=\W*$)", re.IGNORECASE),
    re.compile(r"\s*\([^()]*(?:\d(?:st|nd|rd|th) ed\b|, (?:19|20)\d\d\b)[^()]*\)(?=\W*$)", re.IGNORECASE),
    re.compile(r"\s*\(NCI\b[^()]*\)(?=\W*$)"),
    # The list at the end: "References: ...", "PMID: 123, 456", a bare address.
    re.compile(
        r"(?:^|(?<=[.;)]))\s*(?:(?:references?|sources?|see also|reviewed in)\s*:|see also http).*$", re.IGNORECASE
    ),
    re.compile(r"\s*\b(?:PMIDs?|DOI|ISBN)\s*:?\s*\d[\d\s,;./A-Za-z-]*$", re.IGNORECASE),
    re.compile(r"\s*(?:https?://|www\.)\S+\s*$", re.IGNORECASE),
]
_SPACE_BEFORE = re.compile(r"\s+([.,;:])(?=\s|$)")
_TWO_STOPS = re.compile(r"(?<!\.)\.\s*\.$")
_UNDERSCORE = re.compile(r"(?<=[^\W_])_(?=[^\W_])")
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufeff\u200b-\u200f]")
_SENTENCE_END = re.compile(r"[.!?。](?=\s|$)")


def _singular(word: str) -> str:
    return word[:-1] if len(word) > 3 and word.endswith("s") else word


# A definition of only these and the words of the names says nothing.
_FILLER_WORDS = (
    "a an the this that these those it its is are was were be being of or and in on to for by with as which any some"
    " all one kind type form sort class group term name named called known also other synonym used describe refers"
    " means defined definition concept disease disorder condition syndrome finding entity thing something medical"
    " clinical not otherwise specified nos see characterized"
)
_FILLER = frozenset(map(_singular, _FILLER_WORDS.split()))
_ARTICLE = re.compile(r"^(?:an?|the)\s+", re.IGNORECASE)
_ASIDE = re.compile(r"\s*\([^()]{1,80}\)\s*$")
_AFTER_SUBJECT = re.compile(
    r"\s*[:.]\s+|\s+[-–—]\s+|,?\s+(?:is|are|was|were)\s+(?:defined as\s+)?|\s+(?:refers to|means|denotes|designates)\s+"
)


def tidy(text: str) -> str:
    """Return a definition without mark-up, source markers, lists of references and needless white space."""
    text = html.unescape(text)
    if "<" in text:
        text = _TAG.sub(" ", text)
    text = " ".join(_UNDERSCORE.sub(" ", _CONTROL.sub(" ", text)).split())
    before = ""
    while text != before:
        before = text
        if _MAY_HAVE_MARKERS.search(text):
            for marker in _MARKERS:
                text = marker.sub("", text)
        text = text.strip(" ;,")
        if len(text) > 1 and text[0] == text[-1] == '"' and '"' not in text[1:-1]:
            text = text[1:-1].strip()
        text = _TWO_STOPS.sub(".", _SPACE_BEFORE.sub(r"\1", text))
    return text


def repeats(text: str, names: Collection[str]) -> bool:
    """Say whether `text` holds only the words of one name, whole names, and words that say nothing."""
    text_words = [_singular(word) for word in words(text)]
    content = {word for word in text_words if word not in _FILLER}
    parts = [[_singular(word) for word in split(name)] for name in names]
    if not content or any(content <= set(name) for name in parts):
        return True
    if not content <= {word for name in parts for word in name}:
        return False
    for name in sorted(filter(None, parts), key=len, reverse=True):
        text_words = _without(text_words, name)
    return all(word in _FILLER for word in text_words)


def without_subject(text: str, names: Collection[str]) -> str:
    """Return "A sudden ..." for "NAME is a sudden ...", "NAME (N) refers to a sudden ..." or "NAME: a sudden ..."."""
    for match in itertools.islice(_AFTER_SUBJECT.finditer(text), 3):
        subject = text[: match.start()]
        # "A red blood cell. In mammals ..." is not a heading and its text. The parenthesis may be the name's own.
        wholes = [subject] if match[0].strip() == "." else [subject, _ARTICLE.sub("", subject)]
        forms = {clean(form) for whole in wholes for form in (whole, _ASIDE.sub("", whole))}
        if any(form in names or (form[-1:] == "s" and form[:-1] in names) for form in forms):
            rest = text[match.end() :].strip()
            return rest[:1].upper() + rest[1:] if len(words(rest)) >= MIN_WORDS else text
    return text


def shortened(text: str, most: int) -> str:
    """Return the whole sentences within `most` characters; where there is none, the whole words."""
    if len(text) <= most:
        return text
    ends = [match.end() for match in _SENTENCE_END.finditer(text, 0, most)]
    return text[: ends[-1]] if ends else text[:most].rsplit(" ", 1)[0]


def fit(text: str, names: list[str], withheld: Withheld, kind: str, counts: Counter[str]) -> str | None:
    """Return a concept's definition as it is trained on, or None; what was done to it is counted."""
    tidied = tidy(text)
    cleaned = {clean(name) for name in names}
    definition = without_subject(tidied, cleaned)
    if definition != tidied:
        counts[f"{kind}: began with the concept's name, which was taken off"] += 1
    length = len(words(definition))
    if length and repeats(definition, cleaned):
        counts[f"{kind}: repeats the name"] += 1
        return None
    if length < MIN_WORDS:
        counts[f"{kind}: fewer than {MIN_WORDS} words"] += 1
        return None
    if len(definition) > MAX_CHARACTERS:
        counts[f"{kind}: cut to {MAX_CHARACTERS:,} characters"] += 1
        definition = shortened(definition, MAX_CHARACTERS)
    if withheld.is_in(definition):
        counts[f"{kind}: holds a held-out string"] += 1
        return None
    return definition


def definitions(
    terminology: Terminology, languages: Collection[str], withheld: Withheld, counts: Counter[str]
) -> tuple[NDArray[np.int32], list[str]]:
    """Return the written definitions of live concepts that are fit: (n,) int32 rows and n texts."""
    table = terminology.side_table("definitions").select(["concept", "text", "language"])

    def rows() -> Iterator[tuple[int, str]]:
        for start in range(0, len(table), ROWS):
            part = table.slice(start, ROWS)
            for concept, text, language in zip(
                *(part.column(name).to_pylist() for name in part.column_names), strict=True
            ):
                if not any(speaks(language, tag) for tag in languages):
                    counts["definition: of another language"] += 1
                elif terminology.retired[concept]:
                    counts["definition: of a retired concept"] += 1
                else:
                    yield concept, text

    return _fit_all(terminology, rows(), withheld, "definition", counts)


def generated_definitions(
    terminology: Terminology, texts: Mapping[str, Sequence[str]], withheld: Withheld, counts: Counter[str]
) -> tuple[NDArray[np.int32], list[str]]:
    """Return the generated definitions of live concepts that are fit: (n,) int32 rows, ascending, and n texts."""
    rows = rows_of(terminology, texts)
    live = {curie: row for curie, row in rows.items() if not terminology.retired[row]}
    for problem, count in (
        ("no concept has this id", len(texts) - len(rows)),
        ("of a retired concept", len(rows) - len(live)),
    ):
        if count:
            counts[f"generated: {problem}"] += count
    pairs = sorted((row, text) for curie, row in live.items() for text in texts[curie])
    return _fit_all(terminology, iter(pairs), withheld, "generated", counts)


def names_of(terminology: Terminology, rows: NDArray[np.integer]) -> list[list[str]]:
    """Return all names of each concept, whatever their language and scope; the preferred ones first."""
    starts, ends = terminology.concept_terms[rows], terminology.concept_terms[rows + 1]
    lengths = ends - starts
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    terms = np.repeat(starts - offsets[:-1], lengths) + np.arange(offsets[-1])
    strings = terminology.terms.column("string").take(terms).to_pylist()
    return [strings[start:end] for start, end in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True)]


def _fit_all(
    terminology: Terminology, rows: Iterator[tuple[int, str]], withheld: Withheld, kind: str, counts: Counter[str]
) -> tuple[NDArray[np.int32], list[str]]:
    concepts: list[int] = []
    texts: list[str] = []
    while batch := list(itertools.islice(rows, ROWS)):
        known, places = np.unique(np.array([concept for concept, _ in batch], np.int64), return_inverse=True)
        names = names_of(terminology, known)
        for (concept, text), place in zip(batch, places.tolist(), strict=True):
            definition = fit(text, names[place], withheld, kind, counts)
            if definition is not None:
                concepts.append(concept)
                texts.append(definition)
    return np.array(concepts, np.int32), texts


def _without(text_words: list[str], name: list[str]) -> list[str]:
    left: list[str] = []
    place = 0
    while place < len(text_words):
        if text_words[place : place + len(name)] == name:
            place += len(name)
        else:
            left.append(text_words[place])
            place += 1
    return left
