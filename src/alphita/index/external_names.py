"""External names: names of an index's concepts in other vocabularies.

A concept is linked to one of another vocabulary, a source, if an exact name of it, cleaned, names only that one in the
source, if their ids are equal, or if the terminology or the source states that they are equivalent. The concept then
gets the other names, unless the terminology already has a name or two of its concepts would get it. Also left out are
names that contradict the concept's own names (`contradicted`; not names of codes, each a class of things), and names
that add nothing: plurals, or the words of another name in another order. A short form ("DM") is ambiguous, so it links
nothing and is not a name: it becomes a meaning of a short form.

A disease is not the same as its sign, although it may be named after it. "Hydrophobia" is another name of rabies, and
not the first name of anything in any vocabulary: it does not link a concept to one whose first name has no similar
word. Pairs that most vocabularies treat as two things ("Turner syndrome", "gonadal dysgenesis") are left out.

A source is any terminology (a licensed vocabulary, one's own synonyms, also by the concepts' own ids), or a folder like
models/alphita-names:

names.parquet        source, id, name, language: the exact names of each concept, the preferred one first; and the
                     columns of `prepared`
equivalents.parquet  id, other: two concepts that a vocabulary states to be the same
unlent.tsv           id, name: a concept and a name that it would get, although it belongs to another one
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
from alphita.index.choice import KIND, OURS, REVIEWED, ConfirmedName, shipped_folder
from alphita.index.concepts import equivalents
from alphita.index.segment import Content
from alphita.terminology.rules import RULES, Rule
from alphita.terminology.rules.lexicon import read
from alphita.terminology.rules.sets import OPPOSITE
from alphita.terminology.text import DEFAULT_RULES, clean, clean_many, plain_words

if TYPE_CHECKING:
    from alphita.terminology.store import Terminology

NAMES, EQUIVALENTS, SHORT_FORMS = "names.parquet", "equivalents.parquet", "short_forms.tsv"
EXCLUDED = "unlent.tsv"
COLUMNS = ("source", "id", "name", "language")
_NO_EQUIVALENTS = pl.DataFrame(schema={"id": pl.String, "other": pl.String})
_EXACT = pl.lit("exact").alias("scope")
IS_REVIEWED = pl.col("source") == REVIEWED
PREPARED = (*COLUMNS, "scope", "key", "alone", "first")
# A source with this ending has names of codes, each a class of things; only these codes get them.
OF_CODES = "index"
MAX_CHARACTERS = 200


class NameSources(NamedTuple):
    """Vocabularies with external names.

    `equivalents` states that the concept `id`, of any terminology, is the concept `other` of `names`. `given` counts,
    for each of the user's sources, the names that cannot be used because nothing else has their id; the order of its
    names may have no meaning. `excluded` are the id of a concept and a name that only the user's sources give it.
    """

    names: pl.DataFrame
    equivalents: pl.DataFrame
    hash: str
    given: Mapping[str, int] = MappingProxyType({})
    excluded: tuple[tuple[str, str], ...] = ()


def shipped_names() -> NameSources:
    """Return the table of names that comes with Alphita."""
    folder = shipped_folder()
    manifest = artefact.verify(folder, KIND)
    try:
        names, equivalents = pl.read_parquet(folder / NAMES), pl.read_parquet(folder / EQUIVALENTS)
        names = names.with_columns(_FIRST, _EXACT).select(PREPARED)
        excluded = pl.read_csv(folder / EXCLUDED, separator="\t", quote_char=None, infer_schema=False).select(
            "id", "name"
        )
        equivalents = equivalents.select("id", "other")
        return NameSources(names, equivalents, str(manifest["content_hash"]), excluded=tuple(excluded.iter_rows()))
    except (OSError, pl.exceptions.PolarsError) as error:
        raise InputError(f"damaged table of names: {error}", file=folder, remedy="install alphita again") from None


def sources_of(terminology: Terminology, target: Terminology | None = None) -> NameSources:
    """Return a terminology as a source; if `target` has the same ids, one name per id is enough."""
    source = str(terminology.manifest.get("sources", [{}])[0].get("name") or terminology.path.stem)
    names = names_of(terminology, source)
    ids = [] if target is None else target.concept_ids.to_pylist()
    useful = names.filter((pl.len().over("id") > 1) | pl.col("id").is_in(ids))
    return NameSources(prepared(useful), _NO_EQUIVALENTS, terminology.content_hash, {source: len(names) - len(useful)})


def confirmed_names(confirmed: Sequence[ConfirmedName], target: Terminology | None) -> NameSources:
    """Return the phrases that people confirmed as a source; without a language, they have the terminology's."""
    names = pl.DataFrame(confirmed, dict.fromkeys(("id", "name", "scope", "language"), pl.String), orient="row")
    if target is not None:
        usual = pl.Series(target.terms["language"].cast("large_string").to_pylist(), dtype=pl.String).mode().sort()[0]
        names = names.with_columns(pl.col("language").fill_null(usual))
    named = prepared(names.select(pl.lit(REVIEWED).alias("source"), "id", "name", "language", "scope"))
    return NameSources(named, _NO_EQUIVALENTS, artefact.hash_json(confirmed), {REVIEWED: 0})


def names_of(terminology: Terminology, source: str) -> pl.DataFrame:
    """Return the exact names of the live concepts of a terminology: `COLUMNS`."""
    terms = terminology.terms

    def text(name: str) -> pl.Series:
        known = name in terms.column_names
        values = terms.column(name).cast("large_string").to_pylist() if known else [None] * len(terms)
        return pl.Series(values, dtype=pl.String)

    frame = pl.DataFrame(
        {
            "concept": terminology.term_concept,
            "name": text("string"),
            "language": text("language"),
            "exact": pc.equal(terms.column("scope").cast("string"), "exact").to_numpy(zero_copy_only=False),
            "first": terms.column("preferred").to_numpy(zero_copy_only=False),
            "status": text("status"),
        }
    )
    live = ~pl.Series(terminology.retired).cast(pl.Boolean)
    own = frame.filter(pl.col("exact") & (pl.col("status") != "machine").fill_null(True))
    own = own.filter(live.gather(own["concept"])).sort("concept", ~pl.col("first"), maintain_order=True)
    ids = pl.Series(terminology.concept_ids.cast("large_string").to_pylist(), dtype=pl.String)
    return own.select(source=pl.lit(source), id=ids.gather(own["concept"]), name="name", language="language")


def prepared(names: pl.DataFrame, rules: Sequence[str] = DEFAULT_RULES) -> pl.DataFrame:
    """Return names with the columns `PREPARED`, without names that are too long or empty after cleaning."""
    keyed = names.with_columns(key=pl.Series(clean_many(names["name"].to_list(), tuple(rules)), dtype=pl.String))
    keyed = keyed.filter((pl.col("key") != "") & (pl.col("name").str.len_chars() <= MAX_CHARACTERS))
    alone = (pl.col("id").n_unique().over("source", "key") == 1) | (pl.col("source") == OURS)
    # A confirmed phrase names its concept, but does not equate it with another one of that name.
    alone &= ~pl.col("source").str.ends_with(OF_CODES) & ~IS_REVIEWED
    scoped = keyed if "scope" in keyed.columns else keyed.with_columns(_EXACT)
    return scoped.with_columns(_FIRST, alone=alone).select(PREPARED)


def together(several: Sequence[NameSources]) -> NameSources:
    """Return several sources as one."""
    return NameSources(
        pl.concat([sources.names for sources in several]),
        pl.concat([sources.equivalents for sources in several]),
        artefact.hash_json([sources.hash for sources in several]),
        {name: count for sources in several for name, count in sources.given.items()},
        tuple(pair for sources in several for pair in sources.excluded),
    )


# The preferred name precedes the others of its concept.
_FIRST = pl.struct("source", "id").is_first_distinct().alias("first")
# Words with this many first letters in common have the same root.
_ROOT = 4
# "DM", "T2DM", "HbA1c", "cpc", "crd", but neither "Zika" nor "itch".
_SHORT = re.compile(r"(?=(.*[A-Z0-9]){2})(?=.*[A-Za-z])[A-Za-z0-9/+&.-]{2,6}|[a-z]{2,3}|[b-df-hj-np-tv-xz]{4,5}")


class ExternalNames(NamedTuple):
    """The external names of the concepts.

    `names` has concept (row), key (the cleaned name), name, source, language, scope and via (the concept's own name
    that it accompanies), at most one row for a concept and key; `short_forms` are short, long and source.
    """

    names: pl.DataFrame
    short_forms: list[tuple[str, str, str]]
    report: dict[str, Any]


def find(content: Content, terminology: Terminology, sources: NameSources, rules: Sequence[str]) -> ExternalNames:
    """Find the names in the sources for a terminology's concepts."""
    own = _own(content)
    offered = (
        sources.names if tuple(rules) == DEFAULT_RULES else prepared(sources.names.select(*COLUMNS, "scope"), rules)
    )
    offered = offered.with_row_index("order")
    links = _links(content, terminology, sources, own, offered)
    borrowed = links.join(offered, on=["source", "id"], how="inner")
    # What a person decided about a phrase precedes all vocabularies.
    decided = offered.filter(IS_REVIEWED)["key"]
    borrowed = borrowed.filter(IS_REVIEWED | ~pl.col("key").is_in(decided.implode()))
    borrowed = borrowed.sort("concept", "order").unique(["concept", "key"], keep="first", maintain_order=True)
    borrowed = _without_excluded(borrowed, content, sources, rules)
    refused = pl.Series(contradicted(borrowed, own.filter("exact").with_columns(leads=True)))
    refused &= ~borrowed["source"].str.ends_with(OF_CODES)
    conflicting, borrowed = borrowed.filter(refused), borrowed.filter(~refused)
    total = len(borrowed)
    borrowed = borrowed.join(own.select("key").unique(), on="key", how="anti", maintain_order="left")
    is_short = _are_short(borrowed["name"]) & (borrowed["source"] != REVIEWED)
    short = borrowed.filter(is_short)
    borrowed = _of_standard(borrowed.filter(~is_short), content).filter(pl.col("concept").n_unique().over("key") == 1)
    borrowed = _adding(_not_told_apart(borrowed, own, offered), own)
    report = {
        "hash": sources.hash,
        "names": len(borrowed),
        "concepts": borrowed["concept"].n_unique(),
        "linked": links["concept"].n_unique(),
        "left_out": total - len(borrowed),
        "conflicting": len(conflicting),
        "by_source": dict(borrowed.group_by("source").len().sort("source").iter_rows()),
        "given": _gave(sources, links, pl.concat([borrowed["source"], short["source"]]), conflicting["source"]),
    }
    short_forms = list(short.select("name", "via", "source").iter_rows())
    columns = ("concept", "key", "name", "source", "language", "scope", "via")
    return ExternalNames(borrowed.select(columns), short_forms, report)


def _is_mapped(content: Content) -> pl.Expr:
    """Whether a concept is one of OMOP's that map to others."""
    return pl.col("concept").is_in(pl.Series(np.unique(content.maps_to[0]), dtype=pl.Int32).implode())


def _of_standard(borrowed: pl.DataFrame, content: Content) -> pl.DataFrame:
    """Leave out the names of concepts that map to others, where another concept has the same name."""
    is_mapped = _is_mapped(content)
    return borrowed.filter(~is_mapped | is_mapped.all().over("key"))


def _gave(
    sources: NameSources, links: pl.DataFrame, offered: pl.Series, conflicting: pl.Series
) -> list[dict[str, Any]]:
    """Return how the names of each of the user's sources were used."""
    rows = []
    for source, alone in sources.given.items():
        mine = sources.names.filter(pl.col("source") == source)
        known = links.filter(pl.col("source") == source)["id"]
        unknown = alone + len(set(mine["id"]) - set(known))
        some = {
            "names": alone + len(mine),
            "lent": (offered == source).sum(),
            "conflicting": (conflicting == source).sum(),
        }
        rows.append({"source": source, **some, "unknown": unknown})
    return rows


def _own(content: Content) -> pl.DataFrame:
    """Return concept, key, name, and whether it is the terminology's exact name, for each term; best standing first."""
    terms = content.terms
    string = np.repeat(np.arange(len(content.strings)), np.diff(content.offsets))
    exact = pc.is_null(terms.column("retired_concept"))
    if "scope" in terms.column_names:
        exact = pc.and_(exact, pc.fill_null(pc.equal(terms.column("scope").cast("string"), "exact"), False))
    frame = pl.DataFrame(
        {
            "concept": terms.column("concept").to_numpy(),
            "string": string,
            "exact": exact.to_numpy(zero_copy_only=False),
            "standing": content.standing,
            "key": pl.Series("key", content.strings.take(pa.array(string))),
            "name": pl.from_arrow(terms.column("string").combine_chunks()),
        }
    )
    return frame.sort("concept", "standing", maintain_order=True)


def _links(
    content: Content, terminology: Terminology, sources: NameSources, own: pl.DataFrame, offered: pl.DataFrame
) -> pl.DataFrame:
    """Return the links of concepts to those of the sources: concept, source, id, via."""
    ids = pl.from_arrow(content.concepts.table.column("id").combine_chunks())
    name = pl.from_arrow(content.concepts.table.column("name").combine_chunks())
    concepts = pl.DataFrame({"concept": np.arange(len(ids), dtype=np.int32), "own_id": ids, "label": name})
    leading = offered.filter("alone").select("key", "source", "id", "first")
    entries = _of_codes(concepts, offered, own).with_columns(entry=pl.lit(value=True))
    exact = pl.concat([own.filter("exact").with_columns(entry=pl.lit(value=False)), entries])
    long = exact.filter(~_are_short(exact["name"]))
    # An entry leads only to what is called so first: "antra" is no drug.
    named = long.join(leading, on="key", how="inner").filter(~pl.col("entry") | pl.col("first")).drop("entry")
    strengths = (~_is_mapped(content), pl.col("first"), pl.col("standing") == 0)
    named = named.with_columns(
        strength=pl.sum_horizontal(weight * one.cast(pl.Int8) for weight, one in zip((4, 2, 1), strengths, strict=True))
    ).sort("concept", "strength", descending=[False, True], maintain_order=True)
    shared = pl.len().over("concept", "source", "id").alias("shared")
    named = named.with_columns(shared).unique(["concept", "source", "id"], keep="first", maintain_order=True)
    named = _without_signs(named.join(concepts, on="concept", maintain_order="left"), offered, sources.given)
    # If a source treats several of the concepts as one, the concept with its first name gets its names.
    best = pl.col("strength") == pl.col("strength").max().over("source", "id")
    named = named.filter(best).filter(pl.len().over("source", "id") == 1)
    named = named.select("concept", "source", "id", via="name")
    of_ids = offered.select("source", "id").unique()
    stated = equivalents(terminology)
    own_ids = pl.Series(
        terminology.concept_ids.cast("large_string").to_pylist() if len(stated) else [], dtype=pl.String
    )
    statements = [
        stated.select(own_id=own_ids.gather(stated["concept"]), other="other"),
        sources.equivalents.rename({"id": "own_id"}),
        concepts.select("own_id", other="own_id"),
    ]
    same = pl.concat(statements).unique().rename({"other": "id"}).join(of_ids, on="id", how="inner")
    same = same.join(concepts, on="own_id", how="inner")
    # A statement that equates one concept with two others, or two with one, is not a real equivalence; but a user's ids
    # are trusted.
    alone = (pl.len().over("concept", "source") == 1) & (pl.len().over("source", "id") == 1)
    meant = pl.col("source").is_in(list(sources.given)) & (pl.col("own_id") == pl.col("id"))
    stated_alone = alone & ~(IS_REVIEWED & pl.col("id").is_in(concepts["own_id"].implode()))
    same = same.filter(stated_alone | meant).select("concept", "source", "id", via="label")
    links = pl.concat([named, same.cast({"concept": pl.Int32})]).unique(
        ["concept", "source", "id"], keep="first", maintain_order=True
    )
    # A vocabulary gets no names from itself, except codes from their index, and ids from a user's list.
    links = links.join(concepts, on="concept", how="inner", maintain_order="left")
    itself = pl.col("own_id").str.split(":").list.first() == pl.col("id").str.split(":").list.first()
    itself &= ~meant & ((pl.col("own_id") != pl.col("id")) | ~pl.col("source").str.ends_with(OF_CODES))
    return links.filter(~itself).select("concept", "source", "id", "via")


def _of_codes(concepts: pl.DataFrame, offered: pl.DataFrame, own: pl.DataFrame) -> pl.DataFrame:
    """Return the names that an index of codes gives to the concepts, as names of theirs that stand last.

    What a code's index calls by its name has all the names that others give it: the heart attack of an infarction.
    """
    entries = offered.filter(pl.col("source").str.ends_with(OF_CODES))
    entries = entries.join(concepts.select("concept", id="own_id"), on="id", how="inner", maintain_order="left")
    last = own["standing"].max() if len(own) else 0
    entries = entries.with_columns(
        pl.lit(-1).alias("string"), pl.lit(value=True).alias("exact"), pl.lit(last).alias("standing")
    )
    return entries.select(own.columns).cast(own.schema)


def _without_excluded(
    borrowed: pl.DataFrame, content: Content, sources: NameSources, rules: Sequence[str]
) -> pl.DataFrame:
    """Return the names without those excluded for a concept."""
    ids = pl.Series(content.concepts.table.column("id").to_pylist(), dtype=pl.String)
    excluded = pl.DataFrame(sources.excluded, schema={"own_id": pl.String, "name": pl.String}, orient="row")
    keys = pl.Series("key", clean_many(excluded["name"].to_list(), tuple(rules)), dtype=pl.String)
    candidates = borrowed.with_columns(
        own_id=ids.gather(borrowed["concept"]), given=pl.col("source").is_in(list(sources.given))
    )
    refused = excluded.select("own_id", key=keys, given=pl.lit(value=False))
    left = candidates.join(refused, on=["own_id", "key", "given"], how="anti", maintain_order="left")
    return left.drop("own_id", "given")


def _are_short(names: pl.Series) -> pl.Series:
    """Return which names are short forms."""
    return pl.Series([_SHORT.fullmatch(name) is not None for name in names.to_list()], dtype=pl.Boolean)


def _without_signs(named: pl.DataFrame, offered: pl.DataFrame, given: Collection[str]) -> pl.DataFrame:
    """Return the links without those of a sign to a disease with the same name; see the module."""
    firsts = offered.filter("first")
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
    # For our own list, links to other vocabularies are excluded.
    refused = named.filter(pl.col("sign") & ~is_given & (pl.col("source") != OURS)).select("concept", "called").unique()
    flagged = named.join(
        refused.with_columns(refused=True), on=["concept", "called"], how="left", maintain_order="left"
    )
    return flagged.filter(pl.col("refused").is_null() | is_given)


def _akin(name: str | None, other: str) -> bool:
    """Tell whether two names have a word with the same root."""
    mine, theirs = ({word[:_ROOT] for word in plain_words(clean(text)) if word} for text in (name or "", other))
    return not mine.isdisjoint(theirs)


def _not_told_apart(borrowed: pl.DataFrame, own: pl.DataFrame, offered: pl.DataFrame) -> pl.DataFrame:
    """Leave out names that, in more vocabularies than not, are the first name of another thing than the concept's first
    name."""
    label = own.filter(pl.col("standing") == 0).select("concept", label="key").unique("concept")
    vocabulary = offered.filter(~IS_REVIEWED).select("key", "source", "id", "first")
    pairs = borrowed.filter(~IS_REVIEWED).select("concept", "key").join(label, on="concept")
    both = pairs.join(vocabulary, on="key").join(
        vocabulary.rename({"key": "label"}), on=["label", "source"], suffix="_of_label"
    )
    by_source = both.group_by("concept", "key", "source").agg(
        same=(pl.col("id") == pl.col("id_of_label")).any(), two=pl.col("first").any() & pl.col("first_of_label").any()
    )
    apart = (~pl.col("same") & pl.col("two")).sum() > pl.col("same").sum()
    refused = by_source.group_by("concept", "key").agg(apart=apart).filter("apart")
    return borrowed.join(refused, on=["concept", "key"], how="anti", maintain_order="left")


def _adding(found: pl.DataFrame, own: pl.DataFrame) -> pl.DataFrame:
    """Leave out names with the same words as another name of the concept, apart from order and number."""
    own = own.filter(pl.col("concept").is_in(found["concept"].unique().to_list()))

    def with_words(frame: pl.DataFrame) -> pl.DataFrame:
        words = [" ".join(sorted(plain_words(key))) for key in frame["key"].to_list()]
        return frame.with_columns(words=pl.Series(words, dtype=pl.String))

    left = with_words(found).join(
        with_words(own).select("concept", "words").unique(), on=["concept", "words"], how="anti", maintain_order="left"
    )
    return left.unique(["concept", "words"], keep="first", maintain_order=True)


_RULES: dict[str, Rule] = {
    **{name: RULES[name] for name in ("course", "laterality", "number", "sex", "stage")},
    "opposite": OPPOSITE,
}
_NUMBERS = ("number", "stage")
# Each rule, with the bits of its codes that are compared together.
_AXES = [(name, bits) for name, rule in _RULES.items() for bits in getattr(rule, "axes", (-1,))]
# "With" and "without".
_WITH = OPPOSITE.axes[0]


def contradicted(names: pl.DataFrame, own: pl.DataFrame) -> NDArray[np.bool_]:
    """Tell which names contradict a name of their concept in a respect in which no leading name agrees with them."""
    own = own.select("concept", "name", "leads").join(names, on="concept", how="semi")
    spoken = _said(pl.concat([names["name"], own["name"]]).unique())
    mine = names.select("concept", "name").with_row_index("row").join(spoken, on="name")
    pairs = mine.join(own.join(spoken, on="name"), on="concept", suffix="_own")
    rows, leads = pairs["row"].to_numpy(), pairs["leads"].to_numpy()
    same = (pairs["rest"] == pairs["rest_own"]).to_numpy()
    refused = np.zeros(len(names), bool)
    for name, bits in _AXES:
        left, right = (pairs[column].to_numpy() & bits for column in (name, f"{name}_own"))
        clash, agreed = _RULES[name].contradict(left, right), _RULES[name].agree(left, right) & leads
        if name in _NUMBERS or (name, bits) == ("opposite", _WITH):
            clash &= same
        refused[np.setdiff1d(rows[clash], rows[agreed])] = True
    return refused


def _said(names: pl.Series) -> pl.DataFrame:
    """Return name, its value for each rule, and rest, its other words in order, for names with any value."""
    concerned: dict[str, list[str]] = {}
    rows = []
    for name in names.to_list():
        text = read(name)
        for word in text.words:
            if word not in concerned:
                concerned[word] = [rule_name for rule_name, rule in _RULES.items() if rule.concerns(word)]
        hits = {rule_name: _RULES[rule_name].find(text) for word in text.words for rule_name in concerned[word]}
        codes = [_RULES[rule_name].code([hit.value for hit in hits.get(rule_name, [])]) for rule_name in _RULES]
        if any(codes):
            used = {word for some in hits.values() for hit in some for word in hit.words.split()}
            rows.append((name, *codes, " ".join(sorted(set(text.shown) - used))))
    return pl.DataFrame(rows, {"name": pl.String, **dict.fromkeys(_RULES, pl.Int64), "rest": pl.String}, orient="row")
