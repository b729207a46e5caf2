"""Names that an index borrows: what other vocabularies, the lenders, call the concepts of its terminology.

A concept and one of a lender are the same if an exact name of the one is, cleaned, a name of that one alone in the
lender's vocabulary, or if their ids are the same, or the terminology or the lender says that they are equivalent. Then
the concept gets the other names, unless a name is one of the terminology's own, or would come to two of its concepts.
Left out too is what contradicts the concept's own names (see `contradicting`; not of codes, each a class of things),
and what adds nothing: a plural, or the words of another name in another order. A short form among them ("DM") is no
name, and joins nothing: it has other meanings. It becomes a meaning of a short form.

A disease is not its sign, though it may be called so. "Hydrophobia" is another name of rabies, and no vocabulary's
first of anything: such a name alone does not make a concept that of a lender whose first name has no word like it. And
what more vocabularies have as two things than as one ("Turner syndrome", "gonadal dysgenesis") is not lent.

A lender is any terminology (a licensed vocabulary, one's own synonyms, also by the concepts' own ids), or a folder as
models/alphita-names:

names.parquet        source, id, name, language: the exact names of each concept, the preferred one first; and what
                     `prepared` adds
equivalents.parquet  id, other: two concepts that a vocabulary says are the same
unlent.tsv           id, name: a concept and a name that it would be lent, though it is another's
short_forms.tsv      short, long, share, language, english (see `normalizer.clinical`)
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from alphita import artefact
from alphita.errors import InputError
from alphita.index.choice import KIND, OURS, shipped_folder
from alphita.index.codes import equivalents
from alphita.index.contradicting import contradicted
from alphita.index.segment import Content
from alphita.terminology.text import DEFAULT_RULES, clean, clean_many, plain_words

if TYPE_CHECKING:
    from alphita.terminology.store import Terminology

NAMES, EQUIVALENTS, SHORT_FORMS = "names.parquet", "equivalents.parquet", "short_forms.tsv"
EXCLUDED = "unlent.tsv"
COLUMNS = ("source", "id", "name", "language")
PREPARED = (*COLUMNS, "key", "alone", "first")
# Of a lender whose names end so, they are those of codes, each a class of things: lent to these codes alone.
OF_CODES = "index"
MAX_CHARACTERS = 200


class Lender(NamedTuple):
    """What lends names.

    Attributes:
        equivalents: columns id and other: the concept `id`, of any terminology, is the concept `other` of `names`.
        given: sources that a user gives, each with the number of names that lend nothing, for nothing else has their
            id: which of their names is the first need mean nothing.
        unlent: the id of a concept, of any terminology, and a name that none but the user lends it.
    """

    names: pl.DataFrame
    equivalents: pl.DataFrame
    hash: str
    given: Mapping[str, int] = MappingProxyType({})
    unlent: tuple[tuple[str, str], ...] = ()


def shipped_lender() -> Lender:
    """Return the table of names that comes with Alphita."""
    folder = shipped_folder()
    manifest = artefact.verify(folder, KIND)
    try:
        names, equivalents = pl.read_parquet(folder / NAMES), pl.read_parquet(folder / EQUIVALENTS)
        names = names.with_columns(_FIRST).select(PREPARED)
        unlent = pl.read_csv(folder / EXCLUDED, separator="\t", quote_char=None, infer_schema=False).select(
            "id", "name"
        )
        equivalents = equivalents.select("id", "other")
        return Lender(names, equivalents, str(manifest["content_hash"]), unlent=tuple(unlent.iter_rows()))
    except (OSError, pl.exceptions.PolarsError) as error:
        raise InputError(f"damaged table of names: {error}", file=folder, remedy="install alphita again") from None


def lender_of(terminology: Terminology, borrower: Terminology | None = None) -> Lender:
    """Return a terminology as one that lends; to a borrower with the same ids, one name an id is enough."""
    source = str(terminology.manifest.get("sources", [{}])[0].get("name") or terminology.path.stem)
    names = names_of(terminology, source)
    ids = [] if borrower is None else borrower.concept_ids.to_pylist()
    lending = names.filter((pl.len().over("id") > 1) | pl.col("id").is_in(ids))
    given = {source: len(names) - len(lending)}
    return Lender(prepared(lending), _no_equivalents(), terminology.content_hash, given)


def names_of(terminology: Terminology, source: str) -> pl.DataFrame:
    """Return the exact names of the live concepts of a terminology: `COLUMNS`."""
    terms = terminology.terms
    frame = pl.DataFrame(
        {
            "concept": terminology.term_concept,
            "name": pl.Series(terms.column("string").cast("large_string").to_pylist(), dtype=pl.String),
            "language": pl.Series(_text(terms, "language"), dtype=pl.String),
            "exact": pc.equal(terms.column("scope").cast("string"), "exact").to_numpy(zero_copy_only=False),
            "first": terms.column("preferred").to_numpy(zero_copy_only=False),
            "made": pl.Series(_text(terms, "status"), dtype=pl.String),
        }
    )
    live = ~pl.Series(terminology.retired).cast(pl.Boolean)
    own = frame.filter(pl.col("exact") & (pl.col("made") != "machine").fill_null(True))
    own = own.filter(live.gather(own["concept"])).sort("concept", ~pl.col("first"), maintain_order=True)
    ids = pl.Series(terminology.concept_ids.cast("large_string").to_pylist(), dtype=pl.String)
    return own.select(source=pl.lit(source), id=ids.gather(own["concept"]), name="name", language="language")


def prepared(names: pl.DataFrame, rules: Sequence[str] = DEFAULT_RULES) -> pl.DataFrame:
    """Return names with what borrowing asks of them; those that no key is left of, or that are texts, are left out."""
    keyed = names.with_columns(key=pl.Series(clean_many(names["name"].to_list(), tuple(rules)), dtype=pl.String))
    keyed = keyed.filter((pl.col("key") != "") & (pl.col("name").str.len_chars() <= MAX_CHARACTERS))
    alone = (pl.col("id").n_unique().over("source", "key") == 1) | (pl.col("source") == OURS)
    return keyed.with_columns(_FIRST, alone=alone & ~pl.col("source").str.ends_with(OF_CODES)).select(PREPARED)


def _text(terms: object, name: str) -> list[str | None]:
    column = terms.column(name) if name in terms.column_names else None  # type: ignore[attr-defined]
    return column.cast("string").to_pylist() if column is not None else [None] * len(terms)  # type: ignore[arg-type]


def _no_equivalents() -> pl.DataFrame:
    return pl.DataFrame({"id": [], "other": []}, schema={"id": pl.String, "other": pl.String})


def together(lenders: Sequence[Lender]) -> Lender:
    """Return several as one."""
    return Lender(
        pl.concat([lender.names for lender in lenders]),
        pl.concat([lender.equivalents for lender in lenders]),
        artefact.hash_json([lender.hash for lender in lenders]),
        dict(each for lender in lenders for each in lender.given.items()),
        tuple(pair for lender in lenders for pair in lender.unlent),
    )


# The preferred name stands before the others of its concept.
_FIRST = pl.struct("source", "id").is_first_distinct().alias("first")
# Words with so many first letters in common are of one root.
_ROOT = 4
# "DM", "T2DM", "HbA1c", "cpc", "crd", but neither "Zika" nor "itch".
_SHORT = re.compile(r"(?=(.*[A-Z0-9]){2})(?=.*[A-Za-z])[A-Za-z0-9/+&.-]{2,6}|[a-z]{2,3}|[b-df-hj-np-tv-xz]{4,5}")


class Borrowed(NamedTuple):
    """What is borrowed.

    Attributes:
        names: concept (row), key (the cleaned name), name, source, language, via (the concept's name that it stands
            behind): at most one row for a concept and key.
        short_forms: short, long, source: short forms that a lender has among a concept's names.
        report: counts, for the manifest.
    """

    names: pl.DataFrame
    short_forms: list[tuple[str, str, str]]
    report: dict[str, Any]


def borrow(content: Content, terminology: Terminology, lender: Lender, rules: Sequence[str]) -> Borrowed:
    """Find the names that a terminology's concepts can borrow."""
    own = _own(content)
    lent = lender.names if tuple(rules) == DEFAULT_RULES else prepared(lender.names.select(COLUMNS), rules)
    lent = lent.with_row_index("order")
    links = _links(content, terminology, lender, own, lent)
    borrowed = links.join(lent, on=["source", "id"], how="inner")
    borrowed = borrowed.sort("concept", "order").unique(["concept", "key"], keep="first", maintain_order=True)
    borrowed = _without_unlent(borrowed, content, lender, rules)
    refused = pl.Series(contradicted(borrowed, own.filter("exact").with_columns(leads=True)))
    refused &= ~borrowed["source"].str.ends_with(OF_CODES)
    conflicting, borrowed = borrowed.filter(refused), borrowed.filter(~refused)
    total = len(borrowed)
    borrowed = borrowed.join(own.select("key").unique(), on="key", how="anti", maintain_order="left")
    is_short = _are_short(borrowed["name"])
    short = borrowed.filter(is_short)
    borrowed = borrowed.filter(~is_short).filter(pl.col("concept").n_unique().over("key") == 1)
    borrowed = _adding(_not_told_apart(borrowed, own, lent), own)
    report = {
        "hash": lender.hash,
        "names": len(borrowed),
        "concepts": borrowed["concept"].n_unique(),
        "linked": links["concept"].n_unique(),
        "left_out": total - len(borrowed),
        "conflicting": len(conflicting),
        "by_source": dict(borrowed.group_by("source").len().sort("source").iter_rows()),
        "given": _gave(lender, links, pl.concat([borrowed["source"], short["source"]]), conflicting["source"]),
    }
    short_forms = list(short.select("name", "via", "source").iter_rows())
    return Borrowed(borrowed.select("concept", "key", "name", "source", "language", "via"), short_forms, report)


def _gave(lender: Lender, links: pl.DataFrame, lent: pl.Series, conflicting: pl.Series) -> list[dict[str, Any]]:
    """Return what became of the names of each source that a user gives."""
    gave = []
    for source, alone in lender.given.items():
        mine = lender.names.filter(pl.col("source") == source)
        known = links.filter(pl.col("source") == source)["id"]
        unknown = alone + len(set(mine["id"]) - set(known))
        some = {
            "names": alone + len(mine),
            "lent": (lent == source).sum(),
            "conflicting": (conflicting == source).sum(),
        }
        gave.append({"source": source, **some, "unknown": unknown})
    return gave


def _own(content: Content) -> pl.DataFrame:
    """Return concept, key, name, whether it is exact and the terminology's own, for each term; best standing first."""
    terms = content.terms
    string = np.repeat(np.arange(len(content.strings)), np.diff(content.offsets))
    scope = terms.column("scope").cast("string") if "scope" in terms.column_names else None
    exact = np.ones(len(terms), bool) if scope is None else _true(pc.equal(scope, "exact"))
    exact &= _true(pc.is_null(terms.column("retired_concept")))
    frame = pl.DataFrame(
        {
            "concept": terms.column("concept").to_numpy(),
            "string": string,
            "exact": exact,
            "standing": content.standing,
            "key": pl.Series("key", content.strings.take(pa.array(string))),
            "name": pl.from_arrow(terms.column("string").combine_chunks()),
        }
    )
    return frame.sort("concept", "standing", maintain_order=True)


def _links(
    content: Content, terminology: Terminology, lender: Lender, own: pl.DataFrame, lent: pl.DataFrame
) -> pl.DataFrame:
    """Return which concept is which of the lender's: concept, source, id, via."""
    ids = pl.from_arrow(content.concepts.table.column("id").combine_chunks())
    name = pl.from_arrow(content.concepts.table.column("name").combine_chunks())
    concepts = pl.DataFrame({"concept": np.arange(len(ids), dtype=np.int32), "own_id": ids, "label": name})
    leading = lent.filter("alone").select("key", "source", "id", "first")
    long = own.filter("exact").filter(~_are_short(own.filter("exact")["name"]))
    named = long.join(leading, on="key", how="inner")
    named = named.with_columns(
        strength=2 * pl.col("first").cast(pl.Int8) + (pl.col("standing") == 0).cast(pl.Int8)
    ).sort("concept", "strength", descending=[False, True], maintain_order=True)
    shared = pl.len().over("concept", "source", "id").alias("shared")
    named = named.with_columns(shared).unique(["concept", "source", "id"], keep="first", maintain_order=True)
    named = _without_signs(named.join(concepts, on="concept", maintain_order="left"), lent, lender.given)
    # Where a lender counts several of the concepts as one, the one that it is named for has its names.
    best = pl.col("strength") == pl.col("strength").max().over("source", "id")
    named = named.filter(best).filter(pl.len().over("source", "id") == 1)
    named = named.select("concept", "source", "id", via="name")
    of_ids = lent.select("source", "id").unique()
    told = [
        _stated(terminology),
        lender.equivalents.rename({"id": "own_id"}),
        concepts.select("own_id", other="own_id"),
    ]
    same = pl.concat(told).unique().rename({"other": "id"}).join(of_ids, on="id", how="inner")
    same = same.join(concepts, on="own_id", how="inner")
    # A statement by which one concept is two others, or two are one, says less than that they are the same; but a user
    # knows whose id it is.
    alone = (pl.len().over("concept", "source") == 1) & (pl.len().over("source", "id") == 1)
    meant = pl.col("source").is_in(list(lender.given)) & (pl.col("own_id") == pl.col("id"))
    same = same.filter(alone | meant).select("concept", "source", "id", via="label")
    links = pl.concat([named, same.cast({"concept": pl.Int32})]).unique(
        ["concept", "source", "id"], keep="first", maintain_order=True
    )
    # A vocabulary does not borrow from itself, but an index of its codes lends to them, and a user's list by their ids.
    links = links.join(concepts, on="concept", how="inner", maintain_order="left")
    itself = pl.col("own_id").str.split(":").list.first() == pl.col("id").str.split(":").list.first()
    itself &= ~meant & ((pl.col("own_id") != pl.col("id")) | ~pl.col("source").str.ends_with(OF_CODES))
    return links.filter(~itself).select("concept", "source", "id", "via")


def _without_unlent(borrowed: pl.DataFrame, content: Content, lender: Lender, rules: Sequence[str]) -> pl.DataFrame:
    """Return the names but those that are not to be lent to a concept."""
    ids = pl.Series(content.concepts.table.column("id").to_pylist(), dtype=pl.String)
    unlent = pl.DataFrame(lender.unlent, schema={"own_id": pl.String, "name": pl.String}, orient="row")
    keys = pl.Series("key", clean_many(unlent["name"].to_list(), tuple(rules)), dtype=pl.String)
    told = borrowed.with_columns(
        own_id=ids.gather(borrowed["concept"]), given=pl.col("source").is_in(list(lender.given))
    )
    refused = unlent.select("own_id", key=keys, given=pl.lit(value=False))
    left = told.join(refused, on=["own_id", "key", "given"], how="anti", maintain_order="left")
    return left.drop("own_id", "given")


def _are_short(names: pl.Series) -> pl.Series:
    """Return which of some names are short forms."""
    return pl.Series([_SHORT.fullmatch(name) is not None for name in names.to_list()], dtype=pl.Boolean)


def _without_signs(named: pl.DataFrame, lent: pl.DataFrame, given: Collection[str]) -> pl.DataFrame:
    """Return the links but those of a sign to the disease that is called so, too; see the module."""
    firsts = lent.filter("first")
    called = firsts.select("source", "id", called="name")
    named = named.join(called, on=["source", "id"], how="left", maintain_order="left")
    others = firsts.join(named.select(id="own_id"), on="id", how="anti")
    is_first = pl.col("key").is_in(others["key"].implode())
    by_the_way = named.select((pl.col("shared") == 1) & ~is_first).to_series()
    other = [
        weak and not _akin(called, name) and not _akin(called, label)
        for weak, called, name, label in zip(by_the_way, *named["called", "name", "label"], strict=True)
    ]
    named = named.with_columns(pl.col("called").str.to_lowercase(), sign=pl.Series(other, dtype=pl.Boolean))
    is_given = pl.col("source").is_in(list(given))
    # Our own list is refused what another vocabulary is.
    refused = named.filter(pl.col("sign") & ~is_given & (pl.col("source") != OURS)).select("concept", "called").unique()
    told = named.join(refused.with_columns(refused=True), on=["concept", "called"], how="left", maintain_order="left")
    return told.filter(pl.col("refused").is_null() | is_given)


def _akin(name: str | None, other: str) -> bool:
    """Tell whether two names have a word of one root."""
    mine, theirs = ({word[:_ROOT] for word in plain_words(clean(text)) if word} for text in (name or "", other))
    return not mine.isdisjoint(theirs)


def _not_told_apart(borrowed: pl.DataFrame, own: pl.DataFrame, lent: pl.DataFrame) -> pl.DataFrame:
    """Leave out names that more vocabularies have, and the concept's first name, as first names of two things than as
    names of one."""
    label = own.filter(pl.col("standing") == 0).select("concept", label="key").unique("concept")
    told = lent.select("key", "source", "id", "first")
    pairs = borrowed.select("concept", "key").join(label, on="concept")
    both = pairs.join(told, on="key").join(told.rename({"key": "label"}), on=["label", "source"], suffix="_of_label")
    by_source = both.group_by("concept", "key", "source").agg(
        same=(pl.col("id") == pl.col("id_of_label")).any(), two=pl.col("first").any() & pl.col("first_of_label").any()
    )
    apart = (~pl.col("same") & pl.col("two")).sum() > pl.col("same").sum()
    found = by_source.group_by("concept", "key").agg(apart=apart).filter("apart")
    return borrowed.join(found, on=["concept", "key"], how="anti", maintain_order="left")


def _stated(terminology: Terminology) -> pl.DataFrame:
    """Return own_id and other of what the terminology says is equivalent."""
    frame = equivalents(terminology)
    ids = pl.Series(terminology.concept_ids.cast("large_string").to_pylist() if len(frame) else [], dtype=pl.String)
    return frame.select(own_id=ids.gather(frame["concept"]), other="other")


def _adding(found: pl.DataFrame, own: pl.DataFrame) -> pl.DataFrame:
    """Leave out names whose words are those of another name of the concept, but for their order and number."""
    some = own.filter(pl.col("concept").is_in(found["concept"].unique().to_list())).select("concept", "key")
    known = some.select("concept", words=_words(some["key"])).unique()
    told = found.with_columns(words=_words(found["key"]))
    told = told.join(known, on=["concept", "words"], how="anti", maintain_order="left")
    return told.unique(["concept", "words"], keep="first", maintain_order=True)


def _words(keys: pl.Series) -> pl.Series:
    return pl.Series("words", [" ".join(sorted(plain_words(key))) for key in keys.to_list()], dtype=pl.String)


def _true(values: Any) -> NDArray[np.bool_]:  # noqa: ANN401 - a boolean array, chunked or not
    return np.array(pc.fill_null(values, False).to_numpy(zero_copy_only=False), bool)
