"""Simulated targets: vocabularies, and parts of them, that are asked for names that other vocabularies have.

People write what their own vocabulary calls a thing, and lists differ in size, in synonyms, and in what they leave out.
So each target is a vocabulary, a random part or a branch of one, with its synonyms or with labels alone. It is indexed
with all defaults, without the names that are asked: names of equivalent concepts elsewhere, its own synonyms, and
everyday phrases; those that the encoder did not learn come first. One in twenty of these names leads to a neighbour of
its concept, and a few stay known as names that other vocabularies have. What a part leaves out is asked too, and what
names no finding: no concept fits.
"""

from __future__ import annotations

import random
import re
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl
import pyarrow as pa
from numpy.typing import NDArray

from alphita import textio
from alphita.calibrate import examples
from alphita.calibrate.examples import Examples
from alphita.calibrate.noise import noisy
from alphita.encoder.layout import has_learned
from alphita.index import external_names, segment
from alphita.index.choice import OURS, Building
from alphita.index.encoding import Blocks, Encoder
from alphita.index.enrichment import Enrichment
from alphita.index.out_of_scope_names import hashed
from alphita.index.store import Index, build
from alphita.mention import axes
from alphita.mention.short_forms import ENGLISH
from alphita.mention.words import count_words
from alphita.terminology import model, reading
from alphita.terminology.store import Terminology, load_terminology
from alphita.terminology.text import clean_many

LABELS, SYNONYMS = "labels", "synonyms"
# Names asked of one target, at most, and of each kind beside them.
MOST_NAMES, MOST_OTHERS = 900, 150
# Of the names asked, the share that is lent to a concept beside or above; names asked that are lent to their own.
LENT_ELSEWHERE, MOST_LENT = 0.05, 600
# Vocabularies with substances, which are asked as they are ordered.
SUBSTANCES = ("MeSH", "MeSH, drugs")
# Letters of a long word.
LONG = 7
OTHER_NAME, EVERYDAY, LENT, TRANSLATED = "other name", "everyday phrase", "lent name", "name in another language"
NEAR, FAR, NO_FINDING = "near", "far", "no finding"
# Random words asked; one in so many strings asked is known to be a name elsewhere; shares of names that are written as
# a product, and of these or with noise; share of products that are misspelt.
WORDS, KNOWN_ELSEWHERE, PRODUCT, NOISY, MISSPELT = 40, 25, 0.15, 0.6, 0.2
# How people write that a thing is past, or a relative's.
WRITTEN_STATUS = {
    axes.PAST: ("history of", "hx of", "h/o", "hx", "past history of", "previous", "s/p"),
    axes.FAMILY: ("family history of", "fhx of", "fh of", "family hx of", "fam hx"),
}


class Target(NamedTuple):
    """A part of a vocabulary.

    Attributes:
        names: `LABELS` or `SYNONYMS`.
        part: the share of its concepts at random, or a number of them; or the id above a branch; 1: all but a tenth.
    """

    vocabulary: str
    names: str = SYNONYMS
    part: float | int | str = 1
    seed: int = 0

    @property
    def name(self) -> str:
        """What it is called in reports."""
        return f"{self.vocabulary}, {self.names}, {self.part}" + (f", {self.seed}" if self.seed else "")


@dataclass(frozen=True)
class Made:
    """A target, its index, and what is asked of it, with the concepts of the index that are right."""

    target: Target
    index: Index
    asked: Examples


def make(
    target: Target,
    vocabulary: Terminology,
    encoder: Encoder,
    given: Enrichment,
    folder: Path,
    blocks: Blocks | None = None,
) -> Made:
    """Return a target, indexed in `folder` where it is not yet."""
    kept = _kept(vocabulary, target)
    place = folder / f"{zlib.crc32(target.name.encode()):08x}"
    terminology = place.with_suffix(".terminology")
    if not terminology.exists():
        _save(vocabulary, kept, target.names, terminology)
    part = load_terminology(terminology)
    asked = _names_asked(vocabulary, kept, part, given, encoder, target)
    lent = _lent_elsewhere(asked, part, target.seed)
    if not place.with_suffix(".index").exists():
        exclude = frozenset(asked["key"].to_list())
        build(
            part,
            encoder,
            place.with_suffix(".index"),
            exclude=exclude,
            enrichment=_without(given, exclude, lent),
            blocks=blocks,
        )
    index = Index.open(place.with_suffix(".index"))
    left_out = [*_names_left_out(vocabulary, kept, target), *_far(index, given, target.seed)]
    return Made(target, index, _examples(index, asked, left_out, _names_of_none(vocabulary, kept), target))


def in_other_languages(one: Made, names: Sequence[tuple[str, str]], languages: Sequence[str]) -> Made:
    """Return a target that is asked in other languages: names, short forms, and what is no finding.

    Args:
        names: ids of the vocabulary, each with a name; one that the target lacks is NIL.
    """
    index, chance = one.index, random.Random(f"{one.target.name} {languages}")
    new = index.rows(clean_many([name for _, name in names])) < 0
    rows = index.concept_rows([identifier for identifier, _ in names])
    there, gone = (np.flatnonzero(new & some).tolist() for some in (rows >= 0, rows < 0))
    drawn = chance.sample(there, min(MOST_NAMES, len(there))) + chance.sample(gone, min(2 * MOST_OTHERS, len(gone)))
    mentions = [noisy(names[row][1], chance) if chance.random() < MISSPELT else names[row][1] for row in drawn]
    notes = not_findings(one.target.seed, MOST_OTHERS, languages)
    concepts = np.concatenate([rows[drawn], np.full(len(notes), -1)]).astype(np.int64)
    nothing = np.full(len(concepts), -1)
    kinds = [TRANSLATED if rows[row] >= 0 else NEAR for row in drawn] + [NO_FINDING] * len(notes)
    named = Examples(mentions + notes, concepts, nothing, nothing, kinds)
    short = examples.short_forms(index, lambda _: True, most=MOST_OTHERS, seed=one.target.seed, languages=languages)
    return Made(one.target._replace(names="in " + ", ".join(languages)), index, examples.join([named, short]))


def _kept(vocabulary: Terminology, target: Target) -> NDArray[np.bool_]:
    """Return which concepts the target has, (n,)."""
    live = ~np.asarray(vocabulary.retired)
    chance = np.random.default_rng(zlib.crc32(target.name.encode()))
    drawn = chance.random(len(live))
    if isinstance(target.part, str):
        row = vocabulary.resolve(target.part)
        branch = np.zeros(len(live), bool)
        branch[[row, *vocabulary.descendants(row)]] = True
        return live & branch & (drawn > 0.1)
    if target.part == 1:
        return live & (drawn > 0.1)
    share = target.part if target.part < 1 else target.part / live.sum()
    return live & (drawn < share)


def _save(vocabulary: Terminology, kept: NDArray[np.bool_], names: str, out: Path) -> None:
    tables = reading.tables_of(vocabulary)
    place = np.cumsum(kept) - 1
    tables.concepts = tables.concepts.filter(pl.Series(kept))
    for name in ("terms", "definitions", "semantic_types", "xrefs", "aliases"):
        frame: pl.DataFrame = getattr(tables, name)
        own = frame.filter(pl.Series(kept[frame["concept"].to_numpy()]))
        if name == "terms":
            own = own.filter(pl.col("language").cast(pl.String).str.starts_with("en"))
            own = own.filter(pl.col("preferred")) if names == LABELS else own
        setattr(tables, name, own.with_columns(concept=pl.Series(place[own["concept"].to_numpy()])))
    links = tables.relations
    both = kept[links["head"].to_numpy()] & kept[links["tail"].to_numpy()]
    links = links.filter(pl.Series(both))
    tables.relations = links.with_columns(**{end: pl.Series(place[links[end].to_numpy()]) for end in ("head", "tail")})
    tables.replacements, tables.properties = model.empty("replacements"), model.empty("properties")
    model.save(tables, out, sources=tables.sources)


# What is asked.


def _names_asked(
    vocabulary: Terminology,
    kept: NDArray[np.bool_],
    part: Terminology,
    given: Enrichment,
    encoder: Encoder,
    target: Target,
) -> pl.DataFrame:
    """Return names that the index is made without: id, key, name and kind; at most one of a concept."""
    assert given.sources is not None
    content = segment.collect(part, Building().rules, frozenset())
    lent = external_names.find(content, part, given.sources, Building().rules).names
    ids = pl.Series(content.concepts.table.column("id").to_pylist(), dtype=pl.String)
    kind = pl.when(pl.col("source") == OURS).then(pl.lit(EVERYDAY)).otherwise(pl.lit(OTHER_NAME))
    others = lent.select("key", "name", kind=kind, id=ids.gather(lent["concept"]))
    own = _own_synonyms(vocabulary, kept)
    if target.names == LABELS:
        own = own.filter(~pl.col("key").is_in(pl.Series(content.strings.to_pylist()).implode()))
    frame = pl.concat([others.select("id", "key", "name", "kind"), own.select("id", "key", "name", "kind")])
    frame = frame.unique(["key"], keep="none", maintain_order=True)
    learned = has_learned(encoder.folder, frame["key"].to_list())  # type: ignore[attr-defined]
    drawn = np.random.default_rng(target.seed + 1).random(len(frame)) + 0.7 * learned
    frame = frame.with_columns(drawn=pl.Series(drawn), learned=pl.Series(learned)).sort("drawn")
    # An everyday phrase first, where there is one: they are few.
    frame = frame.sort(pl.col("kind") != EVERYDAY, maintain_order=True).unique("id", keep="first", maintain_order=True)
    everyday = frame.filter(pl.col("kind") == EVERYDAY).head(MOST_NAMES // 3)
    frame = pl.concat([everyday, frame.filter(pl.col("kind") != EVERYDAY).sort("drawn").head(MOST_NAMES)])
    most = max(1, len(ids) // 2)
    return frame.sort("drawn").head(min(most, MOST_NAMES))


def _own_synonyms(vocabulary: Terminology, kept: NDArray[np.bool_]) -> pl.DataFrame:
    """Return the exact English names of the kept concepts that name them alone and are not preferred."""
    terms = vocabulary.terms
    frame = pl.DataFrame(
        {
            "concept": np.asarray(vocabulary.term_concept),
            "name": terms.column("string").to_pylist(),
            "scope": terms.column("scope").cast("string").to_pylist(),
            "language": terms.column("language").cast("string").to_pylist(),
            "preferred": terms.column("preferred").to_numpy(zero_copy_only=False),
        }
    ).filter(pl.col("language").str.starts_with("en"))
    frame = frame.with_columns(key=pl.Series(clean_many(frame["name"].to_list()), dtype=pl.String))
    alone = (pl.col("concept").n_unique().over("key") == 1) & ~pl.col("preferred").any().over("key")
    frame = frame.filter(alone & (pl.col("scope") == "exact") & (pl.col("key") != ""))
    frame = frame.filter(pl.Series(kept[frame["concept"].to_numpy()]))
    ids = pl.Series(vocabulary.concept_ids.cast("large_string").to_pylist(), dtype=pl.String)
    return frame.select("key", "name", id=ids.gather(frame["concept"]), kind=pl.lit(examples.SYNONYM))


def not_findings(seed: int, most: int, languages: Sequence[str] = (ENGLISH,)) -> list[str]:
    """Return phrases of notes that name no disease or finding, by the patterns of `not_findings.tsv`."""
    chance = random.Random(f"{seed} not findings")
    patterns: list[str] = []
    words: dict[str, list[str]] = {}
    for row in textio.packaged(__package__, "not_findings.tsv"):
        if row["kind"].startswith("{"):
            words[row["kind"][1:-1]] = row["pattern"].split("|")
        elif row["language"] in languages:
            patterns.append(row["pattern"])
    made = (
        re.sub(r"{(\w+)}", lambda part: chance.choice(words[part[1]]), chance.choice(patterns)) for _ in range(most)
    )
    return list(dict.fromkeys(made))


class LeftOut(NamedTuple):
    """A string that names nothing of a target."""

    name: str
    kind: str


# How a drug is ordered, with | between.
STRENGTHS = "{} mg|{}mg|{} mcg|{} mg/ml|{} ml|0.{}%|{} g|{} units|{}|{} mcg/h|{} mmol|{}/{} mg"
FORMS = (
    "tab|tabs|tablets|cap|caps|inj|iv|po|po bid|po qd|daily|bid|tds|q6h|q4h prn|nocte|mane|od|"
    "1 tab at night|2 puffs prn|inhaler|neb|nebs q4h|eye drops|1 gtt OU bid|cream|ointment|patch|"
    "transdermal|MR|XR|SR|er 24h|susp|syrup|sl prn|spray|sc|im|gastro-res|w/ food|infusion|drip|vial|amp|"
    "pen|x 7 days|as directed|prn pain|chewable"
)


def prescribed(name: str, chance: random.Random) -> str:
    """Return a name as it is ordered: "metformin 500 mg tab"."""
    numbers = [chance.choice((1, 2, 5, 10, 20, 25, 40, 50, 75, 100, 250, 500, 850)) for _ in range(2)]
    words = [name]
    words += [chance.choice(STRENGTHS.split("|")).format(*numbers)] if chance.random() < 0.8 else []
    words += [chance.choice(FORMS.split("|"))] if chance.random() < 0.8 or len(words) == 1 else []
    return " ".join(words)


def _far(index: Index, given: Enrichment, seed: int) -> list[LeftOut]:
    """Return names of other vocabularies' concepts that the index lacks, as people write them, and everyday phrases."""
    assert given.sources is not None
    names = given.sources.names
    known = names["key"].is_in(pl.Series(index.strings.array).implode())
    there = names.filter(known).select("source", "id").unique()
    lacking = names.join(there, on=["source", "id"], how="anti", maintain_order="left")
    chance = random.Random(f"{seed} far")
    drawn = []
    for is_ours, most in ((pl.col("source") != OURS, 2 * MOST_OTHERS), (pl.col("source") == OURS, MOST_OTHERS // 2)):
        some = lacking.filter(is_ours)["key"].unique(maintain_order=True)
        rows = np.random.default_rng(seed).permutation(len(some))[:most].tolist()
        drawn += [some[row] for row in rows]
    drawn += _like_words(index, lacking, seed)
    written = []
    for name in drawn:
        way = chance.random()
        if way < PRODUCT:
            name = prescribed(name, chance)
        elif way < NOISY:
            name = noisy(name, chance)
        written.append(LeftOut(name, FAR))
    return written + [LeftOut(name, NO_FINDING) for name in not_findings(seed, 2 * MOST_OTHERS)]


def _like_words(index: Index, lacking: pl.DataFrame, seed: int) -> list[str]:
    """Return names of one word that resemble a word of the index, but are others: "aerophagia", "xerophagia"."""
    from rapidfuzz import process
    from rapidfuzz.distance import OSA

    mine = [word for word in count_words(index.strings.array) if len(word) >= LONG]
    others = lacking["key"].unique(maintain_order=True).str.extract_all(rf"\p{{Alphabetic}}{{{LONG},}}").list.explode()
    others = others.drop_nulls().unique(maintain_order=True)
    others = others.filter(~others.is_in(mine))
    drawn = [others[row] for row in np.random.default_rng(seed).permutation(len(others))[: 8 * MOST_OTHERS].tolist()]
    found = (process.extractOne(word, mine, scorer=OSA.distance, score_cutoff=2) for word in drawn)
    return [word for word, best in zip(drawn, found, strict=True) if best is not None][:MOST_OTHERS]


def _names_left_out(vocabulary: Terminology, kept: NDArray[np.bool_], target: Target) -> list[LeftOut]:
    """Return a name of each of some concepts that the target has not."""
    gone = ~kept & ~np.asarray(vocabulary.retired)
    if isinstance(target.part, str):
        row = vocabulary.resolve(target.part)
        branch = [row, *vocabulary.descendants(row)]
        inside = np.zeros(len(gone), bool)
        inside[branch] = True
        chance = np.random.default_rng(target.seed).random(len(gone))
        gone &= inside | (chance < inside.mean())
    of = np.asarray(vocabulary.term_concept)
    english = np.array([(one or "").startswith("en") for one in vocabulary.terms.column("language").to_pylist()], bool)
    rows = np.flatnonzero(gone[of] & english)
    rows = np.random.default_rng(target.seed).permutation(rows)
    _, first = np.unique(of[rows], return_index=True)
    rows = np.random.default_rng(target.seed + 1).permutation(rows[first])[: 3 * MOST_OTHERS]
    return [LeftOut(name, NEAR) for name in vocabulary.terms.column("string").take(pa.array(rows)).to_pylist()]


def _lent_elsewhere(asked: pl.DataFrame, part: Terminology, seed: int) -> pl.DataFrame:
    """Return names of some of the concepts asked for that a concept beside or above them gets: id, key, name.

    Vocabularies draw lines in different places, so a name that one lends is not always the concept's.
    """
    chance = random.Random(seed)
    rows = []
    for identifier, key, name in asked.select("id", "key", "name").iter_rows():
        if chance.random() >= LENT_ELSEWHERE:
            continue
        row = part.resolve(identifier)
        parents = [int(one) for one in part.parents(row)]
        near = [*parents, *(int(one) for parent in parents for one in part.children(parent) if one != row)]
        if near:
            rows.append((part.concept_ids[chance.choice(near)].as_py(), key, name))
    return pl.DataFrame(rows, schema={"id": pl.String, "key": pl.String, "name": pl.String}, orient="row")


def _without(given: Enrichment, exclude: frozenset[str], lent: pl.DataFrame) -> Enrichment:
    """Return what an index is given, without some names; a part of them stays, as names of other things."""
    assert given.sources is not None
    names = given.sources.names
    out = names["key"].is_in(pl.Series(sorted(exclude)).implode())
    misled = lent.with_columns(
        source=pl.lit("elsewhere"),
        language=pl.lit("en"),
        scope=pl.lit("exact"),
        alone=pl.lit(value=True),
        first=pl.lit(value=False),
    ).select(names.columns)
    apart = names.filter(out).filter(pl.col("key").hash(0) % KNOWN_ELSEWHERE == 0)
    apart = apart.filter(~pl.col("key").is_in(lent["key"].implode()))
    apart = apart.with_columns(id="left out:" + pl.col("key"), alone=pl.lit(value=True), first=pl.lit(value=True))
    apart = apart.filter(pl.col("source") != OURS).unique("key", keep="first", maintain_order=True)
    # Only a source that is given may lend by the target's own ids.
    lending = {**given.sources.given, "elsewhere": 0}
    names = pl.concat([names.filter(~out), apart, misled])
    return given._replace(sources=given.sources._replace(names=names, given=lending))


def _names_of_none(vocabulary: Terminology, kept: NDArray[np.bool_]) -> frozenset[str]:
    """Return the cleaned names of the concepts that the target has not."""
    gone = np.flatnonzero(~kept[np.asarray(vocabulary.term_concept)])
    return frozenset(clean_many(vocabulary.terms.column("string").take(pa.array(gone)).to_pylist()))


def _lent(index: Index, misled: frozenset[str], seed: int) -> Examples:
    """Return external names that the index has, but for those in `misled`."""
    alone = np.diff(index.segment.offsets) == 1
    rows = np.flatnonzero(alone & index.segment.borrowed[index.segment.offsets[:-1]])
    rows = np.random.default_rng(seed).permutation(rows)[:MOST_LENT]
    strings = index.strings.array.take(pa.array(rows)).to_pylist()
    kept = [place for place, string in enumerate(strings) if string not in misled]
    concepts = index.segment.term_concept[index.segment.offsets[rows[kept]]].astype(np.int64)
    found = examples.itself([strings[place] for place in kept], concepts)
    return found._replace(kinds=[LENT] * len(kept))


def _ordered(names: Sequence[str], concepts: Sequence[int], target: Target) -> Examples:
    """Return names of substances as they are ordered, some of them misspelt."""
    chance = random.Random(f"{target.seed} ordered")
    rows = range(len(names) if target.vocabulary in SUBSTANCES else 0)
    some = chance.sample(rows, min(4 * MOST_OTHERS, len(rows)))
    written = [noisy(names[row], chance) if chance.random() < MISSPELT else names[row] for row in some]
    found = examples.itself([prescribed(name, chance) for name in written], np.array([concepts[row] for row in some]))
    return found._replace(kinds=[OTHER_NAME] * len(some))


def _with_status(index: Index, seed: int) -> Examples:
    """Return other names of things that are past, or a relative's, where the target tells these apart.

    "Hx of breast cancer" of "personal history of malignant neoplasm of breast", where the neoplasm is called so, too.
    """
    habits, segment, chance = axes.habits_of(index.strings.array, index.rows), index.segment, random.Random(seed)
    found: dict[str, int] = {}
    for name, (_, status, rest) in axes.with_status(index.strings.array).items():
        row, thing = index.rows([name, rest]).tolist()
        if thing < 0 or not habits.tells(status):
            continue
        concept = segment.term_concept[segment.offsets[thing]]
        own = segment.term_concept[segment.offsets[row]]
        others = np.flatnonzero(segment.term_concept == concept)
        for other in {int(one) - 1 for one in np.searchsorted(segment.offsets, others, "right")} - {thing}:
            string = index.strings.array[other].as_py()
            found[f"{chance.choice(WRITTEN_STATUS[status])} {string}"] = int(own)
    some = chance.sample(sorted(found), min(MOST_OTHERS, len(found)))
    return examples.itself(some, np.array([found[one] for one in some], np.int64))._replace(
        kinds=[OTHER_NAME] * len(some)
    )


def _examples(
    index: Index, asked: pl.DataFrame, left_out: Sequence[LeftOut], of_none: frozenset[str], target: Target
) -> Examples:
    """Return all that is asked of an index; `of_none` are names of concepts that it lacks."""
    rows = index.concept_rows(asked["id"].to_list())
    found = index.rows(asked["key"].to_list())
    is_own = (found >= 0) & ~index.segment.borrowed[index.segment.offsets[np.maximum(found, 0)]]
    there = np.flatnonzero((rows >= 0) & ~is_own)
    names = asked["name"].to_list()
    kinds = [LENT if row >= 0 else kind for row, kind in zip(found.tolist(), asked["kind"].to_list(), strict=True)]
    nothing = np.full(len(there), -1)
    named = Examples([names[row] for row in there], rows[there], nothing, nothing, [kinds[row] for row in there])
    own, concepts = examples.own_names(index, seed=target.seed, most=12 * MOST_OTHERS)
    several = [
        np.arange(start, min(start + 3 * MOST_OTHERS, len(own))) for start in range(0, len(own), 3 * MOST_OTHERS)
    ]
    several += [np.zeros(0, np.int64)] * 4
    strings = [[own[row] for row in rows.tolist()] for rows in several]
    gone = [one for one in left_out if index.rows(clean_many([one.name]))[0] < 0]
    nothing = np.full(len(gone), -1)
    none = Examples([one.name for one in gone], nothing, nothing, nothing, [one.kind for one in gone])
    # Few strings of people are names in any vocabulary.
    strings_asked = clean_many([*named.mentions, *none.mentions])
    unknown = hashed([one for one in strings_asked if zlib.crc32(one.encode()) % KNOWN_ELSEWHERE])
    index.segment.elsewhere = np.setdiff1d(index.segment.elsewhere, unknown)
    typed = examples.with_noise(index, strings[1], concepts[several[1]], hide=False, seed=target.seed)
    longer = concepts[np.concatenate(several[2:4])]
    lent = _lent(index, frozenset(asked["key"].to_list()), target.seed)
    lacking = dict.fromkeys(of_none, -1) | dict(zip(asked["key"].to_list(), rows.tolist(), strict=True))
    parts = [
        named,
        _ordered(strings[2] + lent.mentions, [*concepts[several[2]], *lent.concepts], target),
        examples.itself(strings[0][:MOST_OTHERS], concepts[several[0]][:MOST_OTHERS]),
        typed.take(np.arange(min(MOST_OTHERS, len(typed.mentions)))),
        examples.abbreviated(index, strings[2] + strings[3], longer, most=MOST_OTHERS, seed=target.seed),
        examples.short_forms(index, lambda _: True, most=2 * MOST_OTHERS, seed=target.seed, lacking=lacking),
        _with_status(index, target.seed),
        lent,
        none,
        examples.foreign(index, WORDS, seed=target.seed),
    ]
    return examples.join([part for part in parts if part.mentions])
