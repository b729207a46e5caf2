"""The options of an index, their defaults, and the folder of the names that come with Alphita."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple, get_args

from alphita import registry, shipped
from alphita.encoder.resolve import DEFAULT, MULTILINGUAL, SHIPPED
from alphita.errors import UsageError
from alphita.options import HOW, option
from alphita.registry import unknown
from alphita.terminology.languages import CLEARLY, ENGLISH, RECOGNISED, likelihoods, over_english, primary
from alphita.terminology.text import DEFAULT_RULES, RULES

if TYPE_CHECKING:
    from alphita.terminology.store import Terminology

Learn = Literal["no", "seconds", "minutes"]
LEARN: tuple[Learn, ...] = get_args(Learn)
BACKENDS = "alphita.index.backends"
GIVEN = "Model and external names of the index"
# The table of names: kind and location of its folder.
KIND = "names"
# The source of Alphita's own lists: a name can be in several groups, and counts in each.
OURS = "Alphita"
# The source of names that people confirmed in a review.
REVIEWED = "REVIEWED"
FOLDER = "models/alphita-names"
# A terminology or a list counts as having a language if this share of its names, and so many of a list's, are in it.
SPOKEN, MIN_CLEAR = 0.05, 3
# Minimum and maximum distinct strings by which their language is recognised, spread over the first ones.
MIN_STRINGS, MAX_STRINGS, LOOKED_AT = 20, 200, 1_000
# A language other than English must be more likely by this log-likelihood per character: for 20 of HPO's and ICD-9-CM's
# names in any of the languages it is above 0.16, and for names of drugs, which have no language, below 0.12.
SURE = 0.15


def shipped_folder() -> Path:
    """Return the folder of the table of names and the lists that come with Alphita."""
    return shipped.find(FOLDER)


class ConfirmedName(NamedTuple):
    """A phrase that a person settled as a name of a concept, with the scope and language of a term."""

    concept_id: str
    name: str
    scope: str
    language: str | None


@dataclass(frozen=True)
class Choice:
    """A user's options for an index.

    `names` are of any kind that `--to` takes, and precede those of Alphita; `confirmed`, of a review store
    (`calibrate.from_mappings.confirmed`), precede both.
    """

    borrow: bool = option(
        True,
        "--no-borrow",
        panel=GIVEN,
        help="Use no external names from other open vocabularies, and no clinical abbreviations.",
    )
    names: tuple[str, ...] = option(
        (),
        metavar="SOURCE",
        panel=GIVEN,
        help="Your own names: a table with an id and a name per row, or any terminology. A concept that has the id, or "
        "one of its names, also gets the others. Repeatable.",
    )
    learn: Learn = option(
        "seconds",
        panel=GIVEN,
        help="How long to learn from the terminology's synonyms: no, seconds or minutes (a head on the encoder's "
        "vectors); for `alphita index` also full (trains the whole encoder first; needs torch).",
    )
    model: str | None = option(
        None,
        panel=GIVEN,
        help="Model: alphita-en for English, or alphita-multi for other languages too; by default chosen by the "
        "languages of the terminology and of the strings. An X.index has its own.",
    )
    confirmed: tuple[ConfirmedName, ...] = ()

    def check(self) -> None:
        """Raise `UsageError` for a value that is not among the choices."""
        if self.model not in (None, *SHIPPED):
            raise UsageError(
                f"{unknown('model', str(self.model), SHIPPED)}; an index with another: "
                f"alphita index SOURCE --model {self.model} -o OUT.index"
            )
        if self.learn not in LEARN:
            raise UsageError(unknown("learning", self.learn, LEARN))


@dataclass(frozen=True)
class Building:
    """How an index is built; `rules` lists the cleaning rules, in order."""

    backend: str = option(
        "auto",
        panel=HOW,
        help="Vector search: auto (by the number of vectors), faiss (brute force), ivf_pq or hnsw (approximate, with "
        "measured recall), exact (the slow reference).",
    )
    letters: bool = option(
        True, "--no-letters", panel=HOW, help="Store no character n-grams: a smaller index that misses misspellings."
    )
    half: bool = option(
        False,
        panel=HOW,
        help="Store the vectors in half precision: half the size on disk, almost the same similarities.",
    )
    rules: Sequence[str] = DEFAULT_RULES

    def check(self) -> None:
        choices = ["auto", *registry.names(BACKENDS)]
        if self.backend not in choices:
            raise UsageError(unknown("backend", self.backend, choices))
        for rule in self.rules:
            if rule not in RULES:
                raise UsageError(unknown("cleaning rule", rule, RULES))


def model_for(languages: Iterable[str]) -> str:
    """Return Alphita's model for names and strings in these languages, given as BCP-47 tags."""
    return DEFAULT if {tag.partition("-")[0] for tag in languages} <= {ENGLISH} else MULTILINGUAL


def languages_of(terminology: Terminology) -> list[str]:
    """Return the languages of a terminology's names, most frequent first, without those of only a few names."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    rows = pc.value_counts(terminology.terms["language"]).to_pylist()
    counts = {row["values"]: row["counts"] for row in rows if row["values"] not in (None, "", "und")}
    least = SPOKEN * sum(counts.values())
    frequent = sorted((tag for tag, count in counts.items() if count >= least), key=lambda tag: -counts[tag])
    sample = np.unique(np.linspace(0, terminology.n_terms - 1, LOOKED_AT).astype(np.int64))
    seen = language_of(terminology.terms["string"].take(pa.array(sample)).to_pylist())
    return frequent if seen is None or any(tag.partition("-")[0] == seen for tag in frequent) else [*frequent, seen]


def language_of(strings: Iterable[str], tags: Iterable[str] = ()) -> str | None:
    """Return the language of the first strings, one of `languages.RECOGNISED`; None if they are too few.

    A list in which some are clearly not English, as in a hospital with two languages, has the language of these.

    Args:
        tags: the languages that the list gives for its strings (BCP-47), which precede what the strings look like.
    """
    given = Counter(primary(tag) for tag in islice(filter(None, tags), LOOKED_AT))
    for tag, count in given.most_common():
        if tag in RECOGNISED and tag != ENGLISH and count >= max(MIN_CLEAR, SPOKEN * given.total()):
            return tag
    some = list(dict.fromkeys(islice(strings, LOOKED_AT)))
    if len(some) < MIN_STRINGS:
        return None
    some = some[:: -(-len(some) // MAX_STRINGS)]
    text = "\n".join(some)
    scores = likelihoods(text, RECOGNISED)
    best = next(iter(scores))
    if scores[best] - scores[ENGLISH] > SURE * len(text):
        return best
    clear = Counter(tag for tag, over in (over_english(string, RECOGNISED) for string in some) if over > CLEARLY)
    return clear.most_common(1)[0][0] if clear.total() >= max(MIN_CLEAR, SPOKEN * len(some)) else ENGLISH
