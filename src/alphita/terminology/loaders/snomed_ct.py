"""SNOMED CT in Release Format 2: the snapshot files of one edition, or of the International one and its extensions.

Files are told by their names (`sct2_Concept_Snapshot_INT_20250101.txt`, ...), wherever they lie in the folders or zip
archives that are given. Where several files hold versions of one component, the one of the latest effectiveTime counts,
as the format's specification asks of an edition that is put together from modules.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Sequence
from pathlib import Path

import numpy as np
import polars as pl
from pydantic import Field

from alphita import textio
from alphita.config import Config
from alphita.errors import InputError, Rejects, UsageError
from alphita.terminology import languages, model
from alphita.terminology.loaders import _columns, _files, _tables
from alphita.terminology.loaders._columns import Sieve, listed
from alphita.terminology.loaders._files import Member
from alphita.terminology.loaders._look import Look
from alphita.terminology.model import Tables

SCTID = r"^[1-9][0-9]{5,17}$"
NO_SCTID = "not an SCTID: 6 to 18 digits"
# FileType_ContentType_Summary+ReleaseType-Language_Country+Namespace_Date; editions fill in the summary as they like:
# sct2_Concept_UKCLSnapshot_GB1000000_20250101.txt, sct2_Description_SpanishExtensionSnapshot-es_INT_20250331.txt.
_RELEASE_TYPE = r"\w*?(Snapshot|Full|Delta)(?:-[A-Za-z-]+)?_.*\.txt"
_KINDS = "Concept|Description|TextDefinition|Relationship|RelationshipConcreteValues"
_COMPONENT = re.compile(rf"x?sct2_({_KINDS})_{_RELEASE_TYPE}")
_REFSET = re.compile(rf"x?der2_cRefset_\w*?(Association|Language){_RELEASE_TYPE}")
_OF_A_KIND = re.compile(rf"x?(?:sct2_(?:{_KINDS})_|der2_cRefset_\w*?(?:Association|Language)).*\.txt")


# Kind -> its columns beyond id, effectiveTime and active, by what they hold. "id" is an SCTID.
COLUMNS = {
    "Concept": {},
    "Description": {"conceptId": "id", "languageCode": "text", "typeId": "id", "term": "text"},
    "TextDefinition": {"conceptId": "id", "languageCode": "text", "typeId": "id", "term": "text"},
    "Relationship": dict.fromkeys(("sourceId", "destinationId", "typeId", "characteristicTypeId"), "id"),
    "RelationshipConcreteValues": {"sourceId": "id", "value": "text", "typeId": "id", "characteristicTypeId": "id"},
    "Association": dict.fromkeys(("refsetId", "referencedComponentId", "targetComponentId"), "id"),
    "Language": dict.fromkeys(("refsetId", "referencedComponentId", "acceptabilityId"), "id"),
}
# Their members have UUIDs.
REFERENCE_SETS = ("Association", "Language")


def recognises(seen: Look) -> dict[str, str] | None:
    """See `Loader.recognises`: snapshots of concepts and of descriptions."""
    if not any(_OF_A_KIND.fullmatch(file.name) for file in seen.members):
        return None
    snapshots = [file for file in seen.members if "effectiveTime" in file.first_line]
    named = [_COMPONENT.fullmatch(file.name) for file in snapshots]
    _check_kinds({match[1] for match in named if match and match[2] == "Snapshot"}, seen.members)
    return {}


def _check_kinds(kinds: Collection[str], members: Sequence[Member]) -> None:
    for kind in ("Concept", "Description"):
        if kind not in kinds:
            raise InputError(
                f"no {kind} snapshot among the files; its name is like sct2_{kind}_Snapshot…_INT_20250101.txt",
                file=members[0].path if members else None,
                remedy="give the release's folder Snapshot, or its zip archive; Full and Delta are not read",
            )


DESCRIPTION = "SNOMED CT, RF2 snapshot: folders, zip archives or files"

SOURCE = "SNOMEDCT"
IS_A = 116680003
STATED = 900000000000010007
FSN = 900000000000003001
SYNONYM = 900000000000013009
DEFINITION = 900000000000550004
PREFERRED = 900000000000548007

SAME_AS = 900000000000527005
REPLACED_BY = 900000000000526001
# Followed without a person, where a concept has but one such target.
REPLACING = (SAME_AS, REPLACED_BY)
# WAS A, PARTIALLY EQUIVALENT TO, POSSIBLY EQUIVALENT TO, POSSIBLY REPLACED BY, ALTERNATIVE: for a person to decide.
TO_REVIEW = (900000000000528000, 1186924009, 900000000000523009, 1186921001, 900000000000530003)

# The aliases of language reference sets in the appendix of the Expression Constraint Language's specification.
DIALECTS = {row["alias"]: int(row["id"]) for row in textio.packaged(__package__, "snomed_ct_dialects.tsv")}

# A fully specified name and the tag at its end: "Myocardial infarction (disorder)".
TAG = r"^(.*\S)\s*\(([^()]+)\)\s*$"


class Options(Config):
    """Options of the SNOMED CT loader."""

    dialect: str = Field(
        "",
        description="language reference sets that mark preferred terms, best first, joined by commas: en-US, en-GB, "
        "es, ... or their ids; empty: the fully specified name without its tag is the concept's name",
    )
    languages: str = Field("", description="languages of terms and definitions to read (en,es); empty: all")
    inactive_concepts: bool = Field(True, description="read retired concepts, their terms and their replacements")


def load(paths: Sequence[Path], options: Options, rejects: Rejects) -> Tables:
    """Read a release into tables."""
    return _Reader(_files.members(paths), options, rejects).read()


class _Reader:
    """Reads the files of a release, kind by kind; concepts first, because all others name them."""

    def __init__(self, members: Sequence[Member], options: Options, rejects: Rejects) -> None:
        self.options, self.sieve = options, Sieve(rejects)
        self.languages = _columns.only_languages(options.languages, regions=False)
        self.files: dict[str, list[Member]] = {}
        self.used: list[Member] = []
        for member in members:
            match = _COMPONENT.fullmatch(member.name) or _REFSET.fullmatch(member.name)
            if match and match[2] == "Snapshot":
                self.files.setdefault(match[1], []).append(member)
                continue
            self.sieve.count("files of the release that are not read", 1)
            if not match and _OF_A_KIND.fullmatch(member.name):
                problem = "not read: its name has neither Snapshot nor Full nor Delta where RF2 wants it"
                self.sieve.rejects.add(problem, file=member.place)
        _check_kinds(self.files, members)

    def read(self) -> Tables:
        concepts = self._concepts()
        self.ids = np.sort(concepts["id"].to_numpy())
        concepts = concepts.sort("id")
        self.active = concepts["active"].to_numpy()
        descriptions = self._descriptions()
        tables = Tables(
            concepts=concepts.select(_curie("id").alias("id"), retired=~pl.col("active")),
            terms=pl.DataFrame(),
            source=SOURCE,
        )
        tables.terms = self._terms(descriptions)
        tables.semantic_types = self._semantic_types(descriptions)
        definitions = self._in_languages(descriptions.filter(pl.col("typeId") == DEFINITION))
        tables.definitions = definitions.select("concept", text="term", language="languageCode")
        labels = self._labels(descriptions)
        tables.relations = self._relations(labels)
        tables.properties = self._concrete_values(labels)
        tables.replacements, tables.xrefs = self._associations()
        tables.sources = _files.sources(self.used, "SNOMED CT", _files.release_date)
        tables.dropped = dict(self.sieve.dropped)
        return tables

    def _of_kind(self, kind: str) -> pl.DataFrame:
        """Return the current version of each component of a kind."""
        members = self.files.get(kind, [])
        self.used += members
        if not members:
            types = {name: pl.Int64 if what == "id" else pl.String for name, what in COLUMNS[kind].items()}
            schema = {"id": pl.Int64, "effectiveTime": pl.Int32, "active": pl.Boolean, **types}
            return pl.DataFrame(schema={**schema, "file": pl.Categorical, "line": pl.Int64})
        versions = pl.concat([self._of_a_file(member, kind) for member in members])
        if len(members) == 1:
            return versions
        versions = versions.sort("effectiveTime", descending=True, maintain_order=True)
        return self.sieve.once(versions, ["id"], f"{kind}: other versions of a component in another file")

    def _active(self, kind: str, reason: str) -> pl.DataFrame:
        """Return the active components of a kind; the others are counted under `reason`."""
        return self.sieve.drop(self._of_kind(kind), ~pl.col("active"), reason)

    def _of_a_file(self, member: Member, kind: str) -> pl.DataFrame:
        columns, is_member = COLUMNS[kind], kind in REFERENCE_SETS
        checks = [_columns.one_of("active", ["0", "1"], "must be 0 or 1"), _columns.date("effectiveTime")]
        if not is_member:
            checks.insert(0, _columns.matching("id", SCTID, NO_SCTID))
        # An id that is no number becomes one that no concept has, and is refused as such with the others.
        numbers = [
            pl.col(name).cast(pl.Int64, strict=False).fill_null(-1) for name, what in columns.items() if what == "id"
        ]
        own = pl.col("id").hash() if is_member else pl.col("id").cast(pl.Int64)

        def shrunk(frame: pl.DataFrame) -> pl.DataFrame:
            """Check a block, and make ids numbers, so that millions of rows stay small."""
            frame = self.sieve.check(frame, *checks)
            return frame.with_columns(pl.col("effectiveTime").cast(pl.Int32), pl.col("active") == "1", *numbers, own)

        names = ["id", "effectiveTime", "active", *columns]
        frame = _tables.read_unquoted(member, names, self.sieve.rejects, prepare=shrunk)
        field, repeated = "referencedComponentId" if is_member else "id", ~pl.col("id").is_first_distinct()
        return self.sieve.check(frame, (field, repeated, "its id was defined before in this file"))

    def _at_concepts(self, frame: pl.DataFrame, kind: str, *fields: str) -> pl.DataFrame:
        """Replace SCTIDs by rows of the concepts; refuse those that no concept has."""
        return self.sieve.at_concepts(frame, fields, self.ids, self.left_out, f"{kind} of inactive concepts")

    def _concepts(self) -> pl.DataFrame:
        concepts = self._of_kind("Concept")
        self.left_out = np.empty(0, np.int64)
        if not self.options.inactive_concepts:
            self.left_out = concepts.filter(~pl.col("active"))["id"].to_numpy()
            concepts = self.sieve.drop(concepts, ~pl.col("active"), "inactive concepts")
        if concepts.is_empty():
            raise InputError("no concept in this file", file=self.files["Concept"][0].place)
        return concepts

    def _descriptions(self) -> pl.DataFrame:
        """Return the active descriptions and text definitions: id, concept (a row), languageCode, typeId, term."""
        frames = []
        limits = {"Description": model.MAX_TERM_CHARACTERS, "TextDefinition": model.MAX_TEXT_CHARACTERS}
        unknown_type = ~pl.col("typeId").is_in([FSN, SYNONYM, DEFINITION])
        for kind, limit in limits.items():
            frame = self._active(kind, f"inactive {kind.lower()}s")
            frame = self.sieve.check(
                frame.with_columns(pl.col("languageCode").str.to_lowercase()),
                _columns.one_of("languageCode", [*languages.table()], "unknown language code"),
                ("typeId", unknown_type, "neither a name, a synonym nor a definition"),
                *_columns.text("term", "string", limit),
            )
            frame = self._at_concepts(frame, kind, "conceptId")
            frames.append(frame.select("id", pl.col("conceptId").alias("concept"), "languageCode", "typeId", "term"))
        return pl.concat(frames)

    def _in_languages(self, descriptions: pl.DataFrame) -> pl.DataFrame:
        """Leave out other languages; not before, for all names serve for semantic types and relation labels."""
        if not self.languages:
            return descriptions
        others = ~pl.col("languageCode").is_in(sorted(self.languages))
        return self.sieve.drop(descriptions, others, "terms and definitions of other languages")

    def _terms(self, descriptions: pl.DataFrame) -> pl.DataFrame:
        """Return names without their tags, and synonyms; the same string of a concept and language once."""
        names = self._in_languages(descriptions.filter(pl.col("typeId") != DEFINITION))
        is_name = pl.col("typeId") == FSN
        stripped = pl.col("term").str.extract(TAG, 1)
        names = names.select(
            "id",
            "concept",
            language="languageCode",
            is_name=is_name,
            string=pl.when(is_name)
            .then(stripped.fill_null(pl.col("term")))
            .otherwise(pl.col("term"))
            .str.strip_chars(),
        )
        names = self._with_preference(names)
        once = names.group_by("concept", "language", "string", maintain_order=True).agg(
            pl.col("is_name").any(), pl.col("is_name").all().alias("only_name"), pl.col("rank").min()
        )
        reason = "strings equal to another of the concept (a name without its tag, say)"
        self.sieve.count(reason, len(names) - len(once))
        # Best first, for that order is kept where preference does not tell them apart: it decides a concept's name.
        once = once.sort(
            "concept", "rank", ~pl.col("is_name"), pl.col("language") != "en", maintain_order=True, nulls_last=True
        )
        codes = pl.Series(self.ids).cast(pl.String).gather(once["concept"])
        return once.select(
            "concept",
            "string",
            "language",
            preferred=pl.col("rank").is_not_null(),
            code=codes,
            term_type=pl.when("only_name").then(pl.lit("FSN")).otherwise(pl.lit("SYN")),
        )

    def _with_preference(self, names: pl.DataFrame) -> pl.DataFrame:
        """Add `rank`: the place in the option of the first dialect that prefers this synonym, or null."""
        dialects = [_dialect(word) for word in listed(self.options.dialect)]
        if not dialects:
            return names.with_columns(rank=pl.lit(None, dtype=pl.Int32))
        members = self._of_kind("Language").filter(pl.col("active"))
        refsets = members["refsetId"].unique()
        for dialect in dialects:
            if dialect not in refsets:
                words = {identifier: word for word, identifier in DIALECTS.items()}
                known = sorted(words.get(refset, str(refset)) for refset in refsets.to_list())
                raise UsageError(
                    f"option dialect: no member of the language reference set {dialect} in these files; "
                    f"they have {known or 'no language reference set'}"
                )
        ranks = pl.DataFrame({"refsetId": dialects, "rank": range(len(dialects))}, schema_overrides={"rank": pl.Int32})
        preferred = members.filter(pl.col("acceptabilityId") == PREFERRED).join(ranks, on="refsetId")
        preferred = preferred.group_by("referencedComponentId").agg(pl.col("rank").min())
        names = names.join(preferred, left_on="id", right_on="referencedComponentId", how="left", maintain_order="left")
        # The fully specified name is preferred among such names; the preferred term is a synonym.
        return names.with_columns(rank=pl.when(~pl.col("is_name")).then("rank"))

    def _semantic_types(self, descriptions: pl.DataFrame) -> pl.DataFrame:
        """Return the tag of each concept's name; of the English one where there is one, for tags are translated."""
        names = descriptions.filter(pl.col("typeId") == FSN)
        names = names.with_columns(tag=pl.col("term").str.extract(TAG, 2).str.strip_chars())
        names = self.sieve.drop(names, pl.col("tag").is_null(), "names without a tag: no semantic type")
        names = names.filter(pl.col("tag") != "")
        names = names.sort(pl.col("languageCode") != "en", maintain_order=True).unique("concept", keep="first")
        return names.sort("concept").select("concept", semantic_type="tag")

    def _labels(self, descriptions: pl.DataFrame) -> dict[int, str]:
        """Return attribute concepts' names: 363698007 -> "finding_site"; those of the same name keep their id."""
        names = descriptions.filter(pl.col("typeId") == FSN)
        names = names.filter(pl.col("term").str.contains(r"\((attribute|linkage concept)\)\s*$"))
        english = names.sort(pl.col("languageCode") != "en", maintain_order=True).unique("concept", keep="first")
        words = {
            int(self.ids[row]): model.snake_case(re.sub(TAG, r"\1", term))
            for row, term in english.select("concept", "term").iter_rows()
        }
        live = {int(self.ids[row]) for row in english["concept"].to_list() if self.active[row]}
        all_uses, taken = Counter(words.values()), Counter(words[concept] for concept in live)
        labels = {
            concept: word
            for concept, word in words.items()
            if word and (taken if concept in live else all_uses)[word] == 1
        }
        return labels | {IS_A: model.IS_A}

    def _relations(self, labels: dict[int, str]) -> pl.DataFrame:
        relationships = self._live("Relationship")
        relationships = self._at_concepts(relationships, "Relationship", "sourceId", "destinationId")
        return relationships.select(
            head="sourceId", relation=_label("typeId", labels, relationships), tail="destinationId"
        )

    def _concrete_values(self, labels: dict[int, str]) -> pl.DataFrame:
        """Return attributes with a number or string for value, as properties: ("has_..._value", "500")."""
        kind, pattern = "RelationshipConcreteValues", r'^(#[-+]?[0-9]+(\.[0-9]+)?|"(?s:.+)"|true|false)$'
        problem = 'must be #number, "text", true or false'
        values = self.sieve.check(self._live(kind), _columns.matching("value", pattern, problem))
        values = self._at_concepts(values, kind, "sourceId")
        text = pl.col("value").str.strip_prefix("#")
        text = pl.when(pl.col("value").str.starts_with('"')).then(text.str.slice(1, text.str.len_chars() - 2))
        return values.select(
            concept="sourceId",
            name=_label("typeId", labels, values),
            value=text.otherwise(pl.col("value").str.strip_prefix("#")),
        )

    def _live(self, kind: str) -> pl.DataFrame:
        """Return active relationships that are not merely stated; the inferred form says all that those do."""
        relationships = self._active(kind, "inactive relationships")
        return self.sieve.drop(relationships, pl.col("characteristicTypeId") == STATED, "stated relationships")

    def _associations(self) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Return (replacements of retired concepts, all associations as cross-references with their kind)."""
        kind = "Association"
        component = pl.col("referencedComponentId")
        associations = self._of_kind(kind).filter(pl.col("active"))
        associations = self.sieve.check(associations, ("referencedComponentId", component < 0, NO_SCTID))
        # The two digits before the check digit say what an SCTID names: 00 and 10 a concept, others not.
        of_others = ~(component // 10 % 100).is_in([0, 10])
        associations = self.sieve.drop(associations, of_others, "associations of descriptions and other components")
        associations = associations.with_columns(object=_curie("targetComponentId"))
        associations = self._at_concepts(associations, kind, "referencedComponentId", "targetComponentId")
        associations = associations.rename({"referencedComponentId": "concept"})
        associations = associations.unique(["concept", "refsetId", "targetComponentId"], maintain_order=True)
        xrefs = associations.select("concept", "object", predicate=_curie("refsetId"))
        retired = pl.Series(~self.active[associations["concept"].to_numpy()])
        known = pl.col("refsetId").is_in([*REPLACING, *TO_REVIEW])
        associations = associations.filter(retired & associations.select(known.alias("known"))["known"])
        replacing = pl.col("refsetId").is_in(REPLACING)
        n_targets = pl.col("targetComponentId").filter(replacing).n_unique().over("concept")
        replacements = model.successors(associations, replacing & (n_targets == 1))
        return replacements, xrefs


def _curie(column: str) -> pl.Expr:
    return pl.lit(f"{SOURCE}:") + pl.col(column).cast(pl.String)


def _label(column: str, labels: dict[int, str], frame: pl.DataFrame) -> pl.Expr:
    """Name relationship types; one without a name of its own is called by its CURIE."""
    types = frame[column].unique().to_list()
    names = [labels.get(concept, f"{SOURCE}:{concept}") for concept in types]
    return pl.col(column).replace_strict(types, names, return_dtype=pl.String).cast(pl.Categorical)


def _dialect(word: str) -> int:
    word = word.lower().replace("_", "-")
    if word in DIALECTS:
        return DIALECTS[word]
    if re.fullmatch(r"[1-9]\d{5,17}", word):
        return int(word)
    raise UsageError(
        f"option dialect: unknown dialect {word!r}; choose from {sorted(DIALECTS)}, or give the id of a language "
        "reference set"
    )
