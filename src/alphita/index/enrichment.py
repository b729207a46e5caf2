"""Additions to an index beyond its terminology: external names, a head, short forms.

Each part can be left out; by default all are on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from alphita import progress
from alphita.errors import InputError
from alphita.index import backends, external_names, out_of_scope_names
from alphita.index.choice import REVIEWED, ConfirmedName, Learn
from alphita.index.external_names import ExternalNames, NameSources
from alphita.index.learning import HeadSettings, Variants, is_held_back, learn
from alphita.index.neighbours import full, unit
from alphita.index.segment import EXTERNAL_STANDING, SCOPES, Content, Given
from alphita.terminology.store import Terminology, load_terminology
from alphita.terminology.text import clean_many

if TYPE_CHECKING:
    from alphita.index.encoding import Encoder

SHORT_FORM_COLUMNS = ("short", "long", "share", "language", "english")
# Sources do not state the frequency of a meaning. The longer a short form, the fewer meanings it has: share by letters.
ASSUMED_SHARES = (0.1, 0.1, 0.1, 0.25, 0.5, 0.8)
ROWS_AT_ONCE = 65_536
# Number of names that are misspelt for training and testing the head.
MISSPELT = 4_000
SETTINGS = {
    "seconds": HeadSettings(),
    "minutes": HeadSettings(1024, bunch=32, variants=0.3, rate=4e-3, most_steps=3_000, rounds=100.0),
}


class Enrichment(NamedTuple):
    """Additions to an index: sources of external names, and short forms (`SHORT_FORM_COLUMNS`); None for none."""

    sources: NameSources | None
    short_forms: pl.DataFrame | None
    learn: Learn

    def without_confirmed(self) -> Enrichment:
        """Return the additions without the phrases that people confirmed; that there are some remains known."""
        assert self.sources is not None
        names = self.sources.names.filter(~external_names.IS_REVIEWED)
        return self._replace(sources=self.sources._replace(names=names))


def load(
    names: Sequence[tuple[str, Path]],
    target: Terminology | None = None,
    *,
    borrow: bool,
    learn: Learn,
    confirmed: Sequence[ConfirmedName] = (),
) -> Enrichment:
    """Return the additions to an index: the user's names, and with `borrow` those that come with Alphita."""
    several, short = [external_names.confirmed_names(confirmed, target)] if confirmed else [], None
    for called, folder in names:
        sources = external_names.sources_of(load_terminology(folder), target)
        if not len(sources.names):
            raise InputError(
                "has no two names for one thing, nor an id of the terminology, so there is nothing to borrow",
                file=called,
                remedy="give a table with an id and a name per row; rows of one id are synonyms, and one row is enough "
                "where the id is the terminology's own",
            )
        several.append(sources)
    if borrow:
        several.append(external_names.shipped_names())
        short = read_short_forms(external_names.shipped_folder() / external_names.SHORT_FORMS)
    return Enrichment(external_names.together(several) if several else None, short, learn)


def read_short_forms(path: Path) -> pl.DataFrame:
    """Return a list of short forms with their meanings and frequencies."""
    try:
        frame = pl.read_csv(path, separator="\t", quote_char=None, infer_schema=False)
        return frame.select(SHORT_FORM_COLUMNS).with_columns(pl.col("share").cast(pl.Float32))
    except (OSError, pl.exceptions.PolarsError) as error:
        raise InputError(f"damaged list of short forms: {error}", file=path, remedy="install alphita again") from None


def enrich(
    content: Content, terminology: Terminology, given: Enrichment, rules: Sequence[str]
) -> tuple[Content, Given, dict[str, Any]]:
    """Return a segment's content with external names, its other additions, and figures for the manifest."""
    names, table, hashes = ExternalNames(pl.DataFrame(), [], {}), None, None
    facts: dict[str, Any] = {"borrowed": None}
    if given.sources is not None:
        names = external_names.find(content, terminology, given.sources, rules)
        content = extended(content, names.names)
        vocabularies = given.sources.names.filter(~external_names.IS_REVIEWED)
        absent = out_of_scope_names.absent(vocabularies, content.strings)["key"].to_list()
        words = out_of_scope_names.words_lacking(vocabularies, content.strings)
        hashes = np.unique(out_of_scope_names.hashed([*absent, *words]))
        facts = {"borrowed": names.report or None, "elsewhere": len(hashes)}
    if given.short_forms is not None or names.short_forms:
        table = short_forms_table(content, given.short_forms, names.short_forms, rules)
        facts["short_forms"] = len(table)
    return content, Given(table, hashes), facts


def say_given(facts: Mapping[str, Any]) -> None:
    """Print how the user's names were used, according to an index's manifest."""
    for counts in (facts.get("borrowed") or {}).get("given") or []:
        progress.say(
            f"names of {counts['source']}: {counts['names']:,} given, {counts['lent']:,} added, "
            f"{counts['conflicting']:,} left out because they contradict their concept's own; "
            f"ids of no concept: {counts['unknown']:,}"
        )


def extended(content: Content, names: pl.DataFrame) -> Content:
    """Return a segment's content with external names (`ExternalNames.names`), none of which is one of its strings."""
    if not len(names):
        return content
    keys = names["key"].unique().to_arrow().cast(pa.large_string())
    every = pa.concat_arrays([content.strings, keys])
    strings = every.take(pc.sort_indices(every))
    places = pc.index_in(every, value_set=strings).to_numpy(zero_copy_only=False)
    own = np.repeat(places[: len(content.strings)], np.diff(content.offsets))
    new = pc.index_in(names["key"].to_arrow().cast(pa.large_string()), value_set=strings)
    string = np.concatenate([own, new.to_numpy(zero_copy_only=False)]).astype(np.int64)
    given = {
        "string": names["name"],
        "concept": names["concept"],
        "language": names["language"],
        "source": names["source"],
        "scope": names["scope"],
        "preferred": [False] * len(names),
    }
    columns = {}
    for name in content.terms.column_names:
        before = content.terms.column(name)
        plain = before.cast(before.type.value_type) if pa.types.is_dictionary(before.type) else before
        added = pa.array(given[name], plain.type) if name in given else pa.nulls(len(names), plain.type)
        both = pa.concat_arrays([*plain.chunks, added])
        columns[name] = both.dictionary_encode() if pa.types.is_dictionary(before.type) else both
    via = pa.array(names["via"], pa.large_string())
    columns["borrowed_as"] = pa.concat_arrays([pa.nulls(len(content.terms), pa.large_string()), via])
    ranks = np.array([EXTERNAL_STANDING + 2 * SCOPES.index(scope) for scope in names["scope"]], np.uint8)
    standing = np.concatenate([content.standing, ranks])
    order = np.argsort(string, kind="stable")
    offsets = np.searchsorted(string[order], np.arange(len(strings) + 1)).astype(np.int64)
    terms = pa.table(columns).take(pa.array(order))
    return content._replace(strings=strings, offsets=offsets, terms=terms, standing=standing[order])


def learn_head(content: Content, encoder: Encoder, path: Path, how: Learn) -> tuple[Encoder, dict[str, Any]]:
    """Train a head for an index, and apply it to the vectors."""
    if getattr(encoder, "head", None) is not None:
        return encoder, {"reason": "the one of the index that was updated"}
    if not hasattr(encoder, "with_head"):
        return encoder, {"reason": "this encoder takes none"}
    vectors = np.load(path, mmap_mode="r+", allow_pickle=False)
    own, strings = own_names(content), content.strings.to_pylist()
    preferred = np.zeros(len(strings), bool)
    preferred[own.string[own.preferred]] = True
    held_back = is_held_back(strings) & ~preferred
    rows = np.sort(np.random.default_rng(0).permutation(np.unique(own.string[~held_back[own.string]]))[:MISSPELT])
    misspelt = backends.vary([strings[row] for row in rows.tolist()])
    noised = Variants(unit(encoder.encode(misspelt)), rows.astype(np.int64))
    learned = learn(vectors, (own.string, own.concept), held_back, noised=noised, settings=SETTINGS[how])
    if learned.head is not None:
        progress.say(
            f"a head was learned from {learned.report['strings']:,} names in {learned.report['seconds']:.0f} s"
        )
        for start in range(0, len(vectors), ROWS_AT_ONCE):
            part = slice(start, start + ROWS_AT_ONCE)
            vectors[part] = learned.head(full(vectors[part]))
        vectors.flush()
        encoder = encoder.with_head(learned.head)
    # Two indexes built in the same way are equal in everything except the time.
    return encoder, {name: value for name, value in learned.report.items() if "seconds" not in name}


class OwnNames(NamedTuple):
    """The exact names of live concepts, confirmed ones too: (m,) rows of strings and of concepts."""

    string: NDArray[np.int64]
    concept: NDArray[np.int64]
    preferred: NDArray[np.bool_]


def own_names(content: Content) -> OwnNames:
    """Return the exact names of the terminology, and those that people confirmed."""
    # The best standing is the exact scope: 0 for the preferred name, 1 for others.
    standing, source = np.asarray(content.standing), content.terms.column("source").cast(pa.string())
    confirmed = pc.fill_null(pc.equal(source, REVIEWED), False).to_numpy(zero_copy_only=False)
    rows = np.flatnonzero((standing <= 1) | (confirmed & (standing == EXTERNAL_STANDING)))
    string = np.searchsorted(content.offsets, rows, "right") - 1
    concept = content.terms.column("concept").to_numpy()[rows].astype(np.int64)
    return OwnNames(string.astype(np.int64), concept, np.asarray(content.standing)[rows] == 0)


def assumed_share(short: str) -> float:
    """Return the assumed share of a short form's meaning in a source, 0 to 1."""
    return ASSUMED_SHARES[min(sum(map(str.isalnum, short)), len(ASSUMED_SHARES) - 1)]


def short_forms_table(
    content: Content, listed: pl.DataFrame | None, external: Sequence[tuple[str, str, str]], rules: Sequence[str]
) -> pa.Table:
    """Return short, long, share, language, source, and whether the long form is a name of the terminology."""
    kept = ["short", "long", "share", "language", "source"]
    types = [pl.String, pl.String, pl.Float32, pl.String, pl.String]
    assumed = [(short, long, assumed_share(short), None, source) for short, long, source in external]
    frames = [pl.DataFrame(assumed, dict(zip(kept, types, strict=True)), orient="row")]
    if listed is not None:
        own = listed.with_columns(source=pl.lit("list"))
        english = own.filter(pl.col("english").fill_null("") != "").with_columns(long="english")
        frames += [frame.select(kept) for frame in (own, english)]
    frame = pl.concat(frames)
    keys = pl.Series("key", clean_many(frame["long"].to_list(), tuple(rules)), pl.String)
    strings = pl.Series("key", content.strings)
    frame = frame.with_columns(key=keys, known=keys.is_in(strings.implode()))
    same = [pl.col("short").str.to_lowercase(), "key"]
    frame = frame.reverse().unique([*same, "language"], keep="first", maintain_order=True).filter(pl.col("key") != "")
    # The list has the frequencies; meanings from sources, in any language, add nothing to it.
    is_listed = pl.col("source") == "list"
    frame = frame.filter(is_listed | ~is_listed.any().over(same))
    return frame.drop("key").to_arrow()
