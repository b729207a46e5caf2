"""OMOP standardised vocabularies, as Athena hands them out: tab-delimited without quoting, despite their names (.csv).

A concept's id is its code in its own vocabulary (`SNOMEDCT:22298006`), and the OMOP id (`OMOP:4329847`) is an alias: so
an Athena download and a release of SNOMED CT or LOINC speak of the same concepts by the same ids, merge without a
mapping, and decisions outlive a change of vocabulary version; whoever has OMOP ids resolves those. Codes that do not
name one concept (the "OMOP generated" of metadata, codes used again for another meaning) leave the OMOP id as the id.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from pydantic import Field

from alphita import textio
from alphita.config import Config
from alphita.errors import InputError, Rejects, UsageError
from alphita.terminology import languages, model, prefixes
from alphita.terminology.languages import Language
from alphita.terminology.loaders import _columns, _files, _tables
from alphita.terminology.loaders._columns import Sieve, listed
from alphita.terminology.loaders._files import Member
from alphita.terminology.loaders._look import Look
from alphita.terminology.model import Tables
from alphita.terminology.store import CODE, DOMAIN, MAPS_TO, STANDARD, VOCABULARY

DESCRIPTION = "OMOP vocabularies from Athena: folder, zip archive or CONCEPT.csv and its companions"

PREFIX = "OMOP"
FEW_VALUES = ("domain_id", "vocabulary_id", "concept_class_id")
NAMES = ("concept_name", "concept_code", "standard_concept")
_VALID = ("valid_start_date", "valid_end_date", "invalid_reason")
# File -> the columns that are read.
COLUMNS = {
    "concept": ("concept_id", *NAMES, *FEW_VALUES, *_VALID),
    "concept_synonym": ("concept_id", "concept_synonym_name", "language_concept_id"),
    "concept_relationship": ("concept_id_1", "concept_id_2", "relationship_id", *_VALID),
    "relationship": ("relationship_id", "reverse_relationship_id"),
    "vocabulary": ("vocabulary_id",),
}
_REASON = _columns.one_of("invalid_reason", ["", "D", "U"], "must be D, U or empty")
_DATES = (
    _columns.date("valid_start_date"),
    _columns.date("valid_end_date"),
    (
        "valid_end_date",
        pl.col("valid_start_date") > pl.col("valid_end_date"),
        "valid_end_date lies before valid_start_date",
    ),
)
CONCEPT_CHECKS = (
    _columns.matching("concept_id", r"^(0|[1-9][0-9]{0,17})$", "not a number"),
    *_columns.text("concept_name", "name"),
    ("vocabulary_id", pl.col("vocabulary_id") == "", "an empty vocabulary"),
    _columns.one_of("standard_concept", ["", "S", "C"], "must be S, C or empty"),
    _REASON,
    *_DATES,
)
# Concepts of languages, by which CONCEPT_SYNONYM names them. What is not here is looked up by its name in CONCEPT.csv.
LANGUAGES = {int(row["concept_id"]): row["tag"] for row in textio.packaged(__package__, "omop_languages.tsv")}

REPLACED = ("Concept replaced by", "Concept same_as to")
TO_REVIEW = ("Concept poss_eq to", "Concept was_a to", "Concept alt_to to")
# What is no relation but says what to use instead.
POINTING = ("Maps to", *REPLACED, *TO_REVIEW)
# Each relationship stands twice, once from each end. These are the ends that are not wanted.
INVERSES = frozenset(
    (
        *("Subsumes", "Mapped from", "Value mapped from", "Unit mapped from", "Concept replaces"),
        *("Concept same_as from", "Concept poss_eq from", "Concept was_a from", "Concept alt_to from"),
    )
)


class Options(Config):
    """Options of the OMOP loader."""

    vocabularies: str = Field("", description="vocabulary ids to read (SNOMED,RxNorm), joined by commas; empty: all")
    semantic_types: str = Field(
        "domain,class",
        pattern="^(domain|class|domain,class)$",
        description="semantic types: the domain, the concept class, or both",
    )
    language: Language = Field("en", description="BCP-47 tag of concept_name; OMOP does not state it")
    languages: str = Field(
        "", description="BCP-47 tags of language concepts that Alphita does not know: 4182504=de,0=und"
    )
    relations: str = Field(
        "all", pattern="^(all|is_a)$", description="relationships to read as relations: all, or is_a only"
    )


def recognises(seen: Look) -> dict[str, str] | None:
    """See `Loader.recognises`: CONCEPT.csv, with its columns and tabs."""
    file = seen.first(lambda file: _kind(file) == "concept")
    return None if file is None or not {*COLUMNS["concept"]} <= {*file.first_line.lower().split("\t")} else {}


def load(paths: Sequence[Path], options: Options, rejects: Rejects) -> Tables:
    """Read an Athena download into tables."""
    return _Reader(_files.members(paths), options, rejects).read()


def _kind(member: Member) -> str:
    return member.name.lower().removesuffix(".csv")


class _Reader:
    """Reads the files, CONCEPT first, because all others name concepts by their OMOP id."""

    def __init__(self, members: Sequence[Member], options: Options, rejects: Rejects) -> None:
        self.options, self.sieve = options, Sieve(rejects)
        self.languages = LANGUAGES | _language_option(options.languages)
        self.vocabularies = listed(options.vocabularies)
        self.files: dict[str, Member] = {}
        for member in members:
            kind = _kind(member)
            if kind not in COLUMNS:
                self.sieve.dropped[f"file {member.name}"] += 1
            elif kind in self.files:
                raise UsageError(f"{member.place}: a second {kind.upper()}.csv; the first is {self.files[kind].place}")
            else:
                self.files[kind] = member
        if "concept" not in self.files:
            raise InputError(
                f"no CONCEPT.csv among the {len(members)} files",
                file=members[0].path if members else None,
                remedy="give the folder or the zip archive that Athena made",
            )

    def read(self) -> Tables:
        concepts = self._concepts()
        self._learn_languages(concepts)
        # From here on a concept is its row in this order.
        concepts = concepts.sort("concept_id")
        names = concepts["vocabulary_id"].unique().cast(pl.String).to_list()
        vocabulary = pl.col("vocabulary_id").cast(pl.String)
        concepts = concepts.with_columns(
            row=pl.int_range(pl.len(), dtype=pl.Int32),
            prefix=vocabulary.replace_strict(names, list(map(_prefix, names)), return_dtype=pl.String),
        )
        self.ids: NDArray[np.int64] = concepts["concept_id"].to_numpy()
        self.retired = concepts["retired"].to_numpy()
        concepts = _with_curies(concepts)
        self.curies = concepts["curie"]
        relations, replacements, xrefs = self._relationships()
        tables = Tables(
            concepts=concepts.select("source", "retired", id="curie"),
            terms=self._terms(concepts),
            source=PREFIX,
            relations=relations,
            replacements=replacements,
            xrefs=xrefs,
            semantic_types=self._semantic_types(concepts),
            aliases=concepts.filter(pl.col("curie") != _omop("concept_id")).select(
                concept="row", alias=_omop("concept_id")
            ),
            properties=_properties(concepts),
        )
        version = self._version()
        tables.sources = _files.sources(list(self.files.values()), "OMOP vocabularies", lambda _: version)
        tables.dropped = dict(self.sieve.dropped)
        return tables

    def _read(self, kind: str, **how: Any) -> pl.DataFrame:  # noqa: ANN401 - see `_tables.read_unquoted`
        return _tables.read_unquoted(self.files[kind], COLUMNS[kind], self.sieve.rejects, **how)

    def _good_concepts(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Check a block of CONCEPT, and shrink it: numbers for ids, codes for what repeats, `retired`, no dates."""
        return self.sieve.check(frame, *CONCEPT_CHECKS).select(
            pl.col("concept_id").cast(pl.Int64),
            *NAMES,
            *(pl.col(few).cast(pl.Categorical) for few in FEW_VALUES),
            (pl.col("invalid_reason") != "").alias("retired"),
            "file",
            "line",
        )

    def _concepts(self) -> pl.DataFrame:
        sieve, concepts = self.sieve, self._read("concept", prepare=self._good_concepts)
        repeated = ~pl.col("concept_id").is_first_distinct()
        concepts = sieve.check(concepts, ("concept_id", repeated, "this id was defined before"))
        # "No matching concept": it would name whatever has no name.
        self.left_out: NDArray[np.int64] = np.zeros(1, np.int64)
        concepts = sieve.drop(concepts, pl.col("concept_id") == 0, "the concept 0")
        if self.vocabularies:
            present = sorted(concepts["vocabulary_id"].unique().cast(pl.String).to_list())
            for name in self.vocabularies:
                if name not in present:
                    raise UsageError(f"option vocabularies: no concept of {name!r}; the file has {present}")
            unwanted = ~concepts["vocabulary_id"].cast(pl.String).is_in(self.vocabularies)
            self._learn_languages(concepts)
            self.left_out = np.append(0, np.sort(concepts.filter(unwanted)["concept_id"].to_numpy()))
            concepts = sieve.drop(concepts, unwanted, "concepts of other vocabularies")
        if concepts.is_empty():
            raise InputError("no usable concept in this file", file=self.files["concept"].place)
        return concepts

    def _semantic_types(self, concepts: pl.DataFrame) -> pl.DataFrame:
        columns = {"domain": DOMAIN, "class": "concept_class_id"}
        frames = [
            concepts.select(
                concept="row", semantic_type=pl.col(columns[kind]).cast(pl.String), code=pl.lit(columns[kind])
            )
            for kind in self.options.semantic_types.split(",")
        ]
        return pl.concat(frames).filter(pl.col("semantic_type") != "")

    def _terms(self, concepts: pl.DataFrame) -> pl.DataFrame:
        names = concepts.select(
            concept="row",
            string=pl.col("concept_name").str.strip_chars(),
            language=pl.lit(self.options.language),
            preferred=pl.lit(True),
        )
        parts = [names]
        if "concept_synonym" in self.files:
            parts.append(self._read("concept_synonym", prepare=self._good_synonyms))
        same = ("concept", "string", "language")
        terms = self.sieve.once(pl.concat(parts), same, "synonyms equal to the name or to another synonym")
        rows = terms["concept"]
        return terms.with_columns(
            source=concepts["source"].cast(pl.Categorical).gather(rows), code=concepts["code"].gather(rows)
        )

    def _good_synonyms(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Check a block of synonyms, and turn it into terms."""
        frame = self.sieve.check(frame, *_columns.text("concept_synonym_name", "synonym"))
        frame = self._at_concepts(frame, "concept_id")
        language = pl.col("language_concept_id").cast(pl.Int64, strict=False)
        language = language.replace_strict(self.languages, default=None, return_dtype=pl.String)
        problem = "no language is known for this concept; the option languages can name it"
        frame = frame.with_columns(language=language)
        frame = self.sieve.check(frame, ("language_concept_id", pl.col("language").is_null(), problem))
        string = pl.col("concept_synonym_name").str.strip_chars()
        return frame.select(concept="concept_id", string=string, language="language", preferred=pl.lit(False))

    def _learn_languages(self, concepts: pl.DataFrame) -> None:
        """Add the languages that have a concept of their own in this download: "Polish language" -> pl."""
        named = concepts.filter(pl.col("concept_name").str.contains(r"^[A-Z]\w+ language$"))
        for identifier, name in named.select("concept_id", "concept_name").iter_rows():
            if tag := languages.by_name().get(name.removesuffix(" language").lower()):
                self.languages.setdefault(identifier, tag)

    def _good_relationships(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Check a block of relationships, and drop what is not wanted: invalid ones, inverses, loops."""
        sieve, label = self.sieve, pl.col("relationship_id")
        frame = sieve.check(frame, _REASON)
        frame = sieve.drop(frame, pl.col("invalid_reason") != "", "invalid relationships")
        frame = sieve.drop(frame, label.is_in(self.unwanted), "the other direction of relationships")
        itself = pl.col("concept_id_1") == pl.col("concept_id_2")
        frame = sieve.drop(frame, itself, "relationships of a concept to itself")
        if self.options.relations == "is_a":
            frame = sieve.drop(frame, ~label.is_in(["Is a", *POINTING]), "relationships other than is_a")
        frame = sieve.check(frame, *_columns.text("relationship_id", "label"), *_DATES)
        frame = self._at_concepts(frame, "concept_id_1", "concept_id_2")
        # Here, block by block, for labels as strings would be a GB or more in a whole download.
        words = {name: model.snake_case(name) or name for name in frame["relationship_id"].unique().to_list()}
        words |= {name: name for name in POINTING}
        return frame.select(
            head="concept_id_1",
            tail="concept_id_2",
            label=label.replace(words).cast(pl.Categorical),
            points=label.is_in(POINTING),
        )

    def _relationships(self) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
        """Return (relations, replacements of retired concepts, "Maps to" as cross-references)."""
        if "concept_relationship" not in self.files:
            return model.empty("relations"), model.empty("replacements"), model.empty("xrefs")
        self.unwanted = self._unwanted()
        rows = self._read("concept_relationship", prepare=self._good_relationships)
        relations = rows.filter(~pl.col("points")).select("head", "tail", relation="label")
        pointed = rows.filter("points").with_columns(pl.col("label").cast(pl.String)).unique(maintain_order=True)
        pointed = pointed.with_columns(object=self.curies.gather(pointed["tail"]))
        xrefs = pointed.filter(pl.col("label") == "Maps to").select("object", concept="head", predicate=pl.lit(MAPS_TO))
        return relations, self._replacements(pointed), xrefs

    def _replacements(self, pointed: pl.DataFrame) -> pl.DataFrame:
        """Return what to use for a retired concept: a single successor replaces it; several are for a person."""
        mine = pointed.filter(pl.Series(self.retired[pointed["head"].to_numpy()])).rename({"head": "concept"})
        succeeded = pl.col("label").is_in(REPLACED).any().over("concept")
        followed = pl.col("label").is_in(REPLACED) | ((pl.col("label") == "Maps to") & ~succeeded)
        mine = mine.with_columns(followed=followed)
        n_targets = pl.col("tail").filter(pl.col("followed")).n_unique().over("concept")
        replaces = pl.col("followed") & (n_targets == 1)
        mine = mine.filter(pl.col("followed") | pl.col("label").is_in(TO_REVIEW))
        return model.successors(mine, replaces)

    def _unwanted(self) -> list[str]:
        """Return the relationships that repeat, from the other end, what another one states."""
        unwanted, kept = set(INVERSES), {"Is a", *POINTING}
        if "relationship" not in self.files:
            return sorted(unwanted)
        for label, inverse in self._read("relationship").select(COLUMNS["relationship"]).iter_rows():
            if label != inverse and not {label, inverse} & unwanted:
                # "Has ingredient" rather than "Ingredient of": from the whole to its part, as SNOMED CT states them.
                order = {name: (name not in kept, not name.startswith("Has "), name) for name in (label, inverse)}
                unwanted.add(max(order, key=order.__getitem__))
        return sorted(unwanted)

    def _at_concepts(self, frame: pl.DataFrame, *fields: str) -> pl.DataFrame:
        """Replace OMOP ids by rows of the concepts; refuse those that no concept has."""
        reason = "synonyms and relationships of concepts that are left out"
        return self.sieve.at_concepts(frame, fields, self.ids, self.left_out, reason)

    def _version(self) -> str | None:
        """Return the vocabularies' version, which VOCABULARY.csv gives for the vocabulary "None"."""
        if "vocabulary" not in self.files:
            return None
        rows = self._read("vocabulary", optional=["vocabulary_version"])
        versions = rows.filter(pl.col("vocabulary_id") == "None")["vocabulary_version"].to_list()
        return versions[0] if versions and versions[0] else None


def _with_curies(concepts: pl.DataFrame) -> pl.DataFrame:
    """Add `curie`: vocabulary:code where that names one concept, or one live one, else the OMOP id."""
    # HPO's codes have their prefix in them already.
    code = pl.col("concept_code").str.strip_prefix(pl.col("prefix") + pl.lit(":"))
    concepts = concepts.with_columns(given_code="concept_code", concept_code=code)
    same = ["prefix", "concept_code"]
    only_live = ~pl.col("retired") & ((~pl.col("retired")).sum().over(same) == 1)
    usable = pl.col("concept_code").str.contains(r"^\S{1,200}$") & ((pl.len().over(same) == 1) | only_live)
    curie = pl.when(usable).then(pl.col("prefix") + pl.lit(":") + pl.col("concept_code"))
    return concepts.with_columns(
        curie=curie.otherwise(_omop("concept_id")),
        # source:code must be a CURIE of this concept: the OMOP id is one where the code is not.
        source=pl.when(usable).then("prefix").otherwise(pl.lit(PREFIX)),
        code=pl.when(usable).then("concept_code").otherwise(pl.col("concept_id").cast(pl.String)),
    )


def _properties(concepts: pl.DataFrame) -> pl.DataFrame:
    """Return what OMOP says of each concept, vocabulary and code where its CURIE does not say them as OMOP does."""
    spelt = {source: prefixes.omop_vocabulary(source) for source in concepts["source"].unique().to_list()}
    vocabulary = pl.col("vocabulary_id").cast(pl.String)
    said = (
        (STANDARD, pl.col("standard_concept"), pl.col("standard_concept") != ""),
        (VOCABULARY, vocabulary, vocabulary != pl.col("source").replace(spelt)),
        (CODE, pl.col("given_code"), (pl.col("given_code") != pl.col("code")) & (pl.col("given_code") != "")),
    )
    return pl.concat(
        concepts.filter(when).select(concept="row", name=pl.lit(name), value=value) for name, value, when in said
    )


def _omop(column: str) -> pl.Expr:
    return pl.lit(f"{PREFIX}:") + pl.col(column).cast(pl.String)


def _prefix(vocabulary: str) -> str:
    """Return the CURIE prefix of a vocabulary: "SNOMED" -> "SNOMEDCT", "RxNorm Extension" -> "RxNorm_Extension"."""
    for row in prefixes.table().values():
        if row.omop_vocabulary_id == vocabulary:
            return row.prefix
    return re.sub(r"[^\w.-]+", "_", prefixes.canonical(vocabulary)).strip("_") or f"{PREFIX}_other"


def _language_option(option: str) -> dict[int, str]:
    tags = {}
    for part in listed(option):
        concept, equals, written = part.partition("=")
        tag = languages.normalize(written)
        if not equals or not concept.strip().isdecimal() or tag is None:
            raise UsageError(f"option languages: {part!r} is not of the form 4182504=de, with a known language")
        tags[int(concept)] = tag
    return tags
