"""LOINC: the table of its terms, and where they are given the parts, the hierarchy and the linguistic variants.

Files are told by their names, wherever they lie in the folders or zip archives that are given; columns by their header.
The files are CSV with quotes and hold 100,000 to a million rows.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl
from pydantic import Field

from alphita.config import Config
from alphita.errors import InputError, Rejects
from alphita.terminology import languages, model
from alphita.terminology.loaders import _columns, _files, _tables
from alphita.terminology.loaders._columns import Sieve
from alphita.terminology.loaders._files import Member
from alphita.terminology.loaders._look import Look
from alphita.terminology.model import Tables

DESCRIPTION = "LOINC: Loinc.csv, or the release's folder or zip archive with parts, hierarchy and translations"

SOURCE = "LOINC"
AXES = ("COMPONENT", "PROPERTY", "TIME_ASPCT", "SYSTEM", "SCALE_TYP", "METHOD_TYP")
STATUSES = ("ACTIVE", "TRIAL", "DISCOURAGED", "DEPRECATED")
TERMS = ("loinc.csv", "loinctablecore.csv")
PART_LINKS = ("loincpartlink_primary.csv", "loincpartlink_supplementary.csv", "loincpartlink.csv")
HIERARCHIES = ("componenthierarchybysystem.csv", "multiaxialhierarchy.csv", "multi-axial_hierarchy.csv")
_NAMES = ("SHORTNAME", "DisplayName", "CONSUMER_NAME", "RELATEDNAMES2")
# How common the test is, among those performed and those ordered: 1 for the most common, 0 for none of the common ones.
_RANKS = ("COMMON_TEST_RANK", "COMMON_ORDER_RANK")
_OTHERS = ("CLASS", "CLASSTYPE", "STATUS", "DefinitionDescription", "EXTERNAL_COPYRIGHT_NOTICE")
_TERMS = ("LOINC_NUM LONG_COMMON_NAME", (*AXES, *_NAMES, *_RANKS, *_OTHERS))
_LINKS = ("LoincNumber PartNumber", ("PartName", "PartTypeName", "Property"))
_EDGES = ("IMMEDIATE_PARENT CODE", ("CODE_TEXT",))
# File -> the columns that it must have, and those that it may have.
COLUMNS: dict[str, tuple[str, Sequence[str]]] = {
    **dict.fromkeys(TERMS, _TERMS),
    **dict.fromkeys(PART_LINKS, _LINKS),
    **dict.fromkeys(HIERARCHIES, _EDGES),
    "part.csv": ("PartNumber PartName", ("PartTypeName", "PartDisplayName", "Status")),
    "consumername.csv": ("LoincNumber ConsumerName", ()),
    "mapto.csv": ("LOINC MAP_TO", ()),
    "variant": (
        "LOINC_NUM",
        (*AXES, "SHORTNAME", "LONG_COMMON_NAME", "RELATEDNAMES2", "LinguisticVariantDisplayName", "ConsumerName"),
    ),
}
# Names in the tables: term type, column in English and in a linguistic variant, and what else they are.
NAMES: tuple[tuple[str, str, str, dict[str, Any]], ...] = (
    ("LONG_COMMON_NAME", "LONG_COMMON_NAME", "LONG_COMMON_NAME", {}),
    ("DisplayName", "DisplayName", "LinguisticVariantDisplayName", {}),
    ("CONSUMER_NAME", "CONSUMER_NAME", "ConsumerName", {"type": "layperson"}),
    ("FSN", "FSN", "FSN", {}),
    ("SHORTNAME", "SHORTNAME", "SHORTNAME", {"type": "abbreviation"}),
)
# In this folder the release has a second Loinc.csv, of the terms of panels alone.
PANELS = "panelsandforms"
# deAT24LinguisticVariant.csv
_VARIANT = re.compile(r"([a-z]{2})([A-Z]{2})\d*LinguisticVariant\.csv")
_LOINC = r"^[0-9]{1,8}-[0-9]$"
_PART = r"^LP[0-9]{1,9}-[0-9]$"
_PART_NUMBER = _columns.matching("PartNumber", _PART, "not a part number")


class Options(Config):
    """Options of the LOINC loader."""

    languages: str = Field(
        "", description="linguistic variants to read (de,fr-CA); empty: all available; none: English only"
    )
    related_names: str = Field(
        "english",
        pattern="^(none|english|all)$",
        description="languages of RELATEDNAMES2 to read as terms with scope related: none, english, or all",
    )


def recognises(seen: Look) -> dict[str, str] | None:
    """See `Loader.recognises`: Loinc.csv or LoincTableCore.csv, with the columns that are needed."""
    file = seen.first(lambda file: file.name.lower() in TERMS and _folder(file) != PANELS)
    names = {name.strip(' "').upper() for name in file.first_line.split(",")} if file is not None else set()
    return {} if {"LOINC_NUM", "LONG_COMMON_NAME"} <= names else None


def load(paths: Sequence[Path], options: Options, rejects: Rejects) -> Tables:
    """Read a release into tables."""
    return _Reader(_files.members(paths), options, rejects).read()


def _folder(member: Member) -> str:
    return member.place.lower().rpartition("/")[0].rpartition("/")[2]


def _depth(member: Member) -> tuple[bool, int]:
    """Order files of one name: that of the release's own table first, then the outermost."""
    return _folder(member) != "loinctable", member.place.count("/")


class _Reader:
    """Reads the files of a release, the terms' own first."""

    def __init__(self, members: Sequence[Member], options: Options, rejects: Rejects) -> None:
        self.options, self.sieve = options, Sieve(rejects)
        self.used: list[Member] = []
        self.files: dict[str, Member] = {}
        self.variants: list[tuple[str, Member]] = []
        wanted = _columns.only_languages(options.languages)
        for member in sorted(members, key=_depth):
            name = member.name.lower()
            if variant := _VARIANT.fullmatch(member.name):
                tag = f"{variant[1]}-{variant[2]}"
                if wanted is None or tag.lower() in wanted or variant[1] in wanted:
                    self.variants.append((tag, member))
                else:
                    self.sieve.count("linguistic variants that were not wanted", 1)
            elif name in COLUMNS and name not in self.files and _folder(member) != PANELS:
                self.files[name] = member
            else:
                self.sieve.count("files of the release that are not read", 1)
        if not self.files.keys() & {*TERMS}:
            raise InputError(
                f"no Loinc.csv among the {len(members)} files",
                file=members[0].path if members else None,
                remedy="give the release's folder, its zip archive, or LoincTable/Loinc.csv",
            )

    def read(self) -> Tables:
        loinc, parts = self._loinc(), self._parts()
        links = pl.concat([self.sieve.check(self._first([name]), _PART_NUMBER) for name in PART_LINKS])
        # The same hierarchy in another file of an older form says nothing new.
        edges = self._first(HIERARCHIES)
        edges = self.sieve.check(edges, ("CODE", pl.col("CODE") == "", "an empty code"))
        parts = _all_parts(parts, links, edges)
        deprecated = loinc.select("concept", retired=pl.col("STATUS") == "DEPRECATED")
        concepts = pl.concat([deprecated, parts.select("concept", "retired")])
        definitions = loinc.filter(_given("DefinitionDescription"))
        upwards = edges.filter(_given("IMMEDIATE_PARENT"))
        is_a = _edges(upwards, "CODE", pl.lit(model.IS_A).alias("relation"), "IMMEDIATE_PARENT")
        tables = Tables(
            concepts=concepts.select("retired", id="concept"),
            terms=self._terms(loinc, parts),
            relations=pl.concat([_link_relations(links), is_a]),
            definitions=definitions.select(
                "concept", "file", "line", text="DefinitionDescription", language=pl.lit("en")
            ),
            semantic_types=_semantic_types(loinc, parts),
            replacements=self._replacements(concepts),
            properties=_properties(loinc),
            source=SOURCE,
        )
        tables.sources = _files.sources(self.used, "LOINC", _version)
        tables.dropped = dict(self.sieve.dropped)
        return tables

    def _table(self, member: Member, kind: str) -> pl.DataFrame:
        self.used.append(member)
        needed, optional = COLUMNS[kind]
        return _tables.read_quoted(member, needed.split(), self.sieve.rejects, optional=optional)

    def _first(self, names: Sequence[str]) -> pl.DataFrame:
        """Return the first of the files that is there, or no rows."""
        for name in names:
            if member := self.files.get(name):
                return self._table(member, name)
        needed, optional = COLUMNS[names[0]]
        schema = {**dict.fromkeys([*needed.split(), *optional], pl.String), "file": pl.Categorical, "line": pl.Int64}
        return pl.DataFrame(schema=schema)

    def _loinc(self) -> pl.DataFrame:
        frame = self.sieve.check(
            self._first(TERMS).with_columns(STATUS=pl.col("STATUS").str.to_uppercase().replace("", "ACTIVE")),
            _columns.matching("LOINC_NUM", _LOINC, "not a LOINC number"),
            ("LOINC_NUM", ~pl.col("LOINC_NUM").is_first_distinct(), "this number was defined before"),
            _columns.one_of("STATUS", STATUSES, f"must be one of {list(STATUSES)}"),
        )
        if frame.is_empty():
            raise InputError("no usable term in this file", file=self.used[0].place)
        return frame.with_columns(concept=_curie("LOINC_NUM"), code="LOINC_NUM")

    def _parts(self) -> pl.DataFrame:
        """Return the parts that Part.csv defines: number, names, type, retired."""
        repeated = ~pl.col("PartNumber").is_first_distinct()
        frame = self._first(["part.csv"])
        frame = self.sieve.check(frame, _PART_NUMBER, ("PartNumber", repeated, "this part was defined before"))
        return frame.with_columns(retired=pl.col("Status").str.to_uppercase().is_in(["DEPRECATED", "INACTIVE"]))

    def _terms(self, loinc: pl.DataFrame, parts: pl.DataFrame) -> pl.DataFrame:
        consumer = self._first(["consumername.csv"])
        consumer = consumer.with_columns(concept=_curie("LoincNumber"), code="LoincNumber")
        terms = [
            *_names_in(loinc, "en"),
            _terms(consumer, "ConsumerName", "en", term_type="CONSUMER_NAME", type="layperson"),
        ]
        if self.options.related_names != "none":
            terms.append(_related(loinc, "en"))
        terms += [
            _terms(parts, "PartDisplayName", "en", term_type="PartDisplayName", preferred=True),
            _terms(parts, "PartName", "en", term_type="PartName"),
            *(frame for tag, member in self.variants for frame in self._variant(tag, member)),
        ]
        same = ["concept", "language", "string"]
        once = self.sieve.once(pl.concat(terms), same, "names equal to another one of the same term")
        # Some variants repeat the English name where there is no translation.
        exact = once.filter((pl.col("language") == "en") & (pl.col("scope") == "exact")).select("concept", "string")
        untranslated = once.filter(pl.col("language") != "en").join(exact, on=["concept", "string"], how="semi")
        self.sieve.count("translations equal to the English name", len(untranslated))
        if len(untranslated):
            once = once.join(untranslated.select(same), on=same, how="anti", maintain_order="left")
        return once

    def _variant(self, tag: str, member: Member) -> list[pl.DataFrame]:
        language = tag.partition("-")[0]
        if language not in languages.table():
            raise InputError(f"unknown language {language!r} in its name", file=member.place)
        frame = self._table(member, "variant").with_columns(concept=_curie("LOINC_NUM"), code="LOINC_NUM")
        related = [_related(frame, tag)] if self.options.related_names == "all" else []
        return [*_names_in(frame, tag), *related]

    def _replacements(self, concepts: pl.DataFrame) -> pl.DataFrame:
        """Return what MapTo.csv names: one target replaces a deprecated term; several are to be chosen from."""
        known = concepts["concept"].implode()
        problem = "no concept has this number"
        frame = self._first(["mapto.csv"]).with_columns(concept=_curie("LOINC"), object=_curie("MAP_TO"))
        frame = self.sieve.check(
            frame,
            ("LOINC", ~pl.col("concept").is_in(known), problem),
            ("MAP_TO", ~pl.col("object").is_in(known), problem),
        )
        frame = frame.unique(["concept", "object"], keep="first", maintain_order=True)
        frame = frame.join(concepts.select("concept", "retired"), on="concept", maintain_order="left")
        follow = pl.col("retired") & (pl.len().over("concept") == 1)
        return frame.select("concept", "object", "file", "line", model.predicate(follow))


def _all_parts(parts: pl.DataFrame, links: pl.DataFrame, edges: pl.DataFrame) -> pl.DataFrame:
    """Return the parts of Part.csv and those that only links or the hierarchy name, once each."""
    in_edges = edges.filter(pl.col("CODE").str.contains(_PART))
    in_edges = in_edges.with_columns(PartNumber="CODE", PartName="CODE_TEXT", PartTypeName=pl.lit(""))
    columns = ["PartNumber", "PartTypeName", "PartName", "PartDisplayName", "file", "line", "retired"]
    others = {"PartDisplayName": pl.lit(""), "retired": pl.lit(False)}
    named = [frame.with_columns(**others).select(columns) for frame in (links, in_edges)]
    every_part = pl.concat([parts.select(columns), *named])
    every_part = every_part.unique("PartNumber", keep="first", maintain_order=True)
    return every_part.with_columns(concept=_curie("PartNumber"), code="PartNumber")


def _names_in(frame: pl.DataFrame, language: str) -> list[pl.DataFrame]:
    """Return the names in the English table, or in a linguistic variant."""
    own = language == "en"
    axes = pl.concat_str(AXES, separator=":").str.strip_chars_end(":")
    # A name of fewer axes than the first two says nothing.
    frame = frame.with_columns(FSN=pl.when(_given(AXES[0]) & _given(AXES[1])).then(axes).otherwise(pl.lit("")))
    return [
        _terms(
            frame,
            english if own else variant,
            language,
            term_type=term_type,
            preferred=own and term_type == "LONG_COMMON_NAME",
            **more,
        )
        for term_type, english, variant, more in NAMES
    ]


def _terms(
    frame: pl.DataFrame,
    column: str,
    language: str,
    *,
    term_type: str,
    scope: str = "exact",
    type: str | None = None,
    preferred: bool = False,
) -> pl.DataFrame:
    return frame.filter(_given(column)).select(
        "concept",
        "code",
        "file",
        "line",
        string=column,
        language=pl.lit(language),
        scope=pl.lit(scope),
        preferred=pl.lit(preferred),
        type=pl.lit(type, dtype=pl.String),
        term_type=pl.lit(term_type),
    )


def _related(frame: pl.DataFrame, language: str) -> pl.DataFrame:
    """Return RELATEDNAMES2, words joined by semicolons, that belong to the term's parts: related, not equal."""
    split = frame.with_columns(pl.col("RELATEDNAMES2").str.split(";")).explode("RELATEDNAMES2")
    split = split.with_columns(pl.col("RELATEDNAMES2").str.strip_chars().fill_null(""))
    return _terms(split, "RELATEDNAMES2", language, term_type="RELATEDNAMES2", scope="related")


def _edges(frame: pl.DataFrame, head: str, relation: pl.Expr, tail: str) -> pl.DataFrame:
    return frame.select("file", "line", relation, head=_curie(head), tail=_curie(tail))


def _link_relations(links: pl.DataFrame) -> pl.DataFrame:
    """Return term -> part, called by the property that links them: "component", "system", "analyte_core", ..."""
    # http://loinc.org/property/analyte-core; where a file has no such column, the part's type.
    word = pl.when(_given("Property")).then(pl.col("Property").str.extract(r"([^/]+)/*$")).otherwise("PartTypeName")
    links = links.with_columns(relation=word.fill_null(""))
    names = {label: model.snake_case(label) or "part" for label in links["relation"].unique().to_list()}
    return _edges(links, "LoincNumber", pl.col("relation").replace(names), "PartNumber")


def _semantic_types(loinc: pl.DataFrame, parts: pl.DataFrame) -> pl.DataFrame:
    classes = loinc.filter(_given("CLASS")).select("concept", semantic_type="CLASS", code="CLASSTYPE")
    kinds = parts.filter(_given("PartTypeName")).select("concept", semantic_type="PartTypeName", code=pl.lit("part"))
    return pl.concat([classes, kinds]).with_columns(code=pl.col("code").replace("", None))


def _properties(loinc: pl.DataFrame) -> pl.DataFrame:
    """Return the axes, the ranks, the status where it is not ACTIVE, and the notice that copies must carry."""
    unranked = {column: pl.col(column).replace("0", "") for column in _RANKS}
    status = loinc.with_columns(STATUS=pl.col("STATUS").replace("ACTIVE", ""), **unranked)
    columns = {axis: axis.lower() for axis in (*AXES, *_RANKS)}
    columns |= {"STATUS": "status", "EXTERNAL_COPYRIGHT_NOTICE": "copyright_notice"}
    frames = [
        status.filter(_given(column)).select("concept", "file", "line", name=pl.lit(name), value=column)
        for column, name in columns.items()
    ]
    return pl.concat(frames)


def _given(column: str) -> pl.Expr:
    return pl.col(column) != ""


def _curie(column: str) -> pl.Expr:
    return pl.lit(f"{SOURCE}:") + pl.col(column)


def _version(member: Member) -> str | None:
    """Return the version in the archive's or the folder's name: Loinc_2.78.zip, Loinc_2.78/LoincTable/Loinc.csv."""
    parts = reversed(member.path.parts[-4:])
    matches = (re.search(r"loinc[_-]?v?(\d+\.\d+)", part, re.IGNORECASE) for part in parts)
    return next((match[1] for match in matches if match), None)
