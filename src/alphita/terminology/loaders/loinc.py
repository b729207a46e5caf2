"""LOINC: the table of its terms, and where they are given the parts, the hierarchy and the linguistic variants.

Files are told by their names, wherever they lie in the folders or zip archives that are given; columns by their header.
The files are CSV with quotes and hold 100,000 to a million rows.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import polars as pl
from pydantic import Field

from alphita.config import Config
from alphita.errors import InputError, Rejects, UsageError
from alphita.terminology import languages, model
from alphita.terminology.loaders import _files, _release
from alphita.terminology.loaders._files import Member
from alphita.terminology.loaders._look import Look
from alphita.terminology.loaders._release import Sieve, listed
from alphita.terminology.model import Tables

DESCRIPTION = "LOINC: Loinc.csv, or the release's folder or zip archive with parts, hierarchy and translations"

SOURCE = "LOINC"
AXES = ("COMPONENT", "PROPERTY", "TIME_ASPCT", "SYSTEM", "SCALE_TYP", "METHOD_TYP")
STATUSES = ("ACTIVE", "TRIAL", "DISCOURAGED", "DEPRECATED")
HIERARCHIES = ("componenthierarchybysystem.csv", "multiaxialhierarchy.csv", "multi-axial_hierarchy.csv")
PART = ("PartNumber", "PartTypeName", "PartName", "PartDisplayName")
PART_LINKS = ("loincpartlink_primary.csv", "loincpartlink_supplementary.csv", "loincpartlink.csv")
TERMS = ("loinc.csv", "loinctablecore.csv")
OTHERS = (*TERMS, "mapto.csv", "part.csv", "consumername.csv")
# There the release has a second Loinc.csv, of the terms of panels alone.
PANELS = "panelsandforms"
# deAT24LinguisticVariant.csv
_VARIANT = re.compile(r"([a-z]{2})([A-Z]{2})\d*LinguisticVariant\.csv")
_LOINC = r"^[0-9]{1,8}-[0-9]$"
_PART = r"^LP[0-9]{1,9}-[0-9]$"


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
    return None if file is None or not {"LOINC_NUM", "LONG_COMMON_NAME"} <= {*_names(file.first_line)} else {}


def load(paths: Sequence[Path], options: Options, rejects: Rejects) -> Tables:
    """Read a release into tables."""
    return _Reader(_files.members(paths), options, rejects).read()


def _names(header: str) -> list[str]:
    return [name.strip(' "').upper() for name in header.split(",")]


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
        wanted = _language_option(options.languages)
        for member in sorted(members, key=_depth):
            name = member.name.lower()
            if variant := _VARIANT.fullmatch(member.name):
                tag = f"{variant[1]}-{variant[2]}"
                if wanted is None or tag.lower() in wanted or variant[1] in wanted:
                    self.variants.append((tag, member))
                else:
                    self.sieve.count("linguistic variants that were not wanted", 1)
            elif name in (*HIERARCHIES, *PART_LINKS, *OTHERS) and name not in self.files and _folder(member) != PANELS:
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
        """Read all files that were found, the terms' own first."""
        loinc = self._loinc()
        parts = self._parts()
        links = self._links()
        edges = self._edges()
        found_parts = self._all_parts(parts, links, edges)
        deprecated = loinc.select("concept", retired=pl.col("STATUS") == "DEPRECATED")
        concepts = pl.concat([deprecated, found_parts.select("concept", "retired")])
        self.known = concepts["concept"].implode()
        tables = Tables(
            concepts=concepts.select("retired", id="concept", source=pl.lit(SOURCE)),
            terms=self._terms(loinc, found_parts),
            relations=pl.concat([self._link_relations(links), self._is_a(edges)]),
            definitions=_with_source(
                loinc.filter(_given("DefinitionDescription")).select(
                    "concept", "file", "line", text="DefinitionDescription", language=pl.lit("en")
                )
            ),
            semantic_types=self._semantic_types(loinc, found_parts),
            replacements=self._replacements(concepts),
            properties=self._properties(loinc),
        )
        tables.sources = _release.sources(self.used, "LOINC", _version)
        tables.dropped = dict(self.sieve.dropped)
        return tables

    # --- files -------------------------------------------------------------------------------------------------------

    def _table(self, member: Member, columns: Sequence[str], optional: Sequence[str] = ()) -> pl.DataFrame:
        """Return the columns of a file as stripped strings, with file and line; optional ones are "" where lacking."""
        self.used.append(member)
        return _release.read_quoted(member, columns, self.sieve.rejects, optional=optional)

    def _loinc(self) -> pl.DataFrame:
        member = self.files.get("loinc.csv") or self.files["loinctablecore.csv"]
        names = (*AXES, "SHORTNAME", "DisplayName", "CONSUMER_NAME", "RELATEDNAMES2")
        others = ("CLASS", "CLASSTYPE", "STATUS", "DefinitionDescription", "EXTERNAL_COPYRIGHT_NOTICE")
        frame = self._table(member, ["LOINC_NUM", "LONG_COMMON_NAME"], [*names, *others])
        number = pl.col("LOINC_NUM")
        frame = self.sieve.refuse(frame, "LOINC_NUM", ~number.str.contains(_LOINC), "not a LOINC number")
        frame = self.sieve.refuse(frame, "LOINC_NUM", ~number.is_first_distinct(), "this number was defined before")
        frame = frame.with_columns(STATUS=pl.col("STATUS").str.to_uppercase().replace("", "ACTIVE"))
        unknown = ~pl.col("STATUS").is_in(STATUSES)
        frame = self.sieve.refuse(frame, "STATUS", unknown, f"must be one of {list(STATUSES)}")
        if frame.is_empty():
            raise InputError("no usable term in this file", file=member.place)
        return frame.with_columns(concept=_curie("LOINC_NUM"), code="LOINC_NUM")

    def _parts(self) -> pl.DataFrame:
        """Return the parts that Part.csv defines: concept, code, type, names, retired."""
        member = self.files.get("part.csv")
        if member is None:
            return _no_rows(*PART).with_columns(retired=pl.lit(False))
        frame = self._table(member, ["PartNumber", "PartName"], ["PartTypeName", "PartDisplayName", "Status"])
        number = pl.col("PartNumber")
        frame = self.sieve.refuse(frame, "PartNumber", ~number.str.contains(_PART), "not a part number")
        frame = self.sieve.refuse(frame, "PartNumber", ~number.is_first_distinct(), "this part was defined before")
        status = pl.col("Status").str.to_uppercase()
        return frame.select(*PART, "file", "line", retired=status.is_in(["DEPRECATED", "INACTIVE"]))

    def _links(self) -> pl.DataFrame:
        columns = ["LoincNumber", "PartNumber"]
        optional = ["PartName", "PartTypeName", "Property"]
        frames = []
        for name in PART_LINKS:
            if member := self.files.get(name):
                frame = self._table(member, columns, optional)
                bad = ~pl.col("PartNumber").str.contains(_PART)
                frames.append(self.sieve.refuse(frame, "PartNumber", bad, "not a part number"))
        return pl.concat(frames) if frames else _no_rows(*columns, *optional)

    def _edges(self) -> pl.DataFrame:
        columns = ["IMMEDIATE_PARENT", "CODE"]
        optional = ["CODE_TEXT"]
        for name in HIERARCHIES:
            if member := self.files.get(name):
                frame = self._table(member, columns, optional)
                # The same hierarchy in another file of an older form says nothing new.
                return self.sieve.refuse(frame, "CODE", pl.col("CODE") == "", "an empty code")
        return _no_rows(*columns, *optional)

    def _all_parts(self, parts: pl.DataFrame, links: pl.DataFrame, edges: pl.DataFrame) -> pl.DataFrame:
        """Return the parts of Part.csv and those that only links or the hierarchy name, once each."""
        in_edges = edges.filter(pl.col("CODE").str.contains(_PART))
        in_edges = in_edges.with_columns(PartNumber="CODE", PartName="CODE_TEXT", PartTypeName=pl.lit(""))
        said = {"PartDisplayName": pl.lit(""), "retired": pl.lit(False)}
        named = [frame.with_columns(**said).select(parts.columns) for frame in (links, in_edges)]
        every_part = pl.concat([parts, *named])
        every_part = every_part.unique("PartNumber", keep="first", maintain_order=True)
        return every_part.with_columns(concept=_curie("PartNumber"), code="PartNumber")

    # --- terms -------------------------------------------------------------------------------------------------------

    def _terms(self, loinc: pl.DataFrame, parts: pl.DataFrame) -> pl.DataFrame:
        english = [*self._names(loinc, "en"), *self._consumer_names()]
        if self.options.related_names != "none":
            english.append(_related(loinc, "en"))
        english += [
            _terms(parts, "PartDisplayName", "en", term_type="PartDisplayName", preferred=True),
            _terms(parts, "PartName", "en", term_type="PartName"),
        ]
        terms = pl.concat(english)
        for tag, member in self.variants:
            terms = pl.concat([terms, self._variant(tag, member)])
        same = ["concept", "language", "string"]
        once = self.sieve.once(terms, same, "names equal to another one of the same term")
        # Some variants repeat the English name where there is no translation.
        exact = once.filter((pl.col("language") == "en") & (pl.col("scope") == "exact")).select("concept", "string")
        untranslated = once.filter(pl.col("language") != "en").join(exact, on=["concept", "string"], how="semi")
        self.sieve.count("translations equal to the English name", len(untranslated))
        if len(untranslated):
            once = once.join(untranslated.select(same), on=same, how="anti", maintain_order="left")
        return _with_source(once)

    def _names(self, frame: pl.DataFrame, language: str) -> list[pl.DataFrame]:
        """Return the names that the English table has, and the linguistic variants but for the display's name."""
        own = language == "en"
        axes = pl.concat_str(AXES, separator=":").str.strip_chars_end(":")
        # A name of fewer axes than the first two says nothing.
        named = frame.with_columns(FSN=pl.when(_given(AXES[0]) & _given(AXES[1])).then(axes).otherwise(pl.lit("")))
        return [
            _terms(frame, "LONG_COMMON_NAME", language, term_type="LONG_COMMON_NAME", preferred=own),
            _terms(frame, "DisplayName" if own else "LinguisticVariantDisplayName", language, term_type="DisplayName"),
            _terms(
                frame, "CONSUMER_NAME" if own else "ConsumerName", language, term_type="CONSUMER_NAME", type="layperson"
            ),
            _terms(named, "FSN", language, term_type="FSN"),
            _terms(frame, "SHORTNAME", language, term_type="SHORTNAME", type="abbreviation"),
        ]

    def _consumer_names(self) -> list[pl.DataFrame]:
        member = self.files.get("consumername.csv")
        if member is None:
            return []
        frame = self._table(member, ["LoincNumber", "ConsumerName"])
        frame = frame.with_columns(concept=_curie("LoincNumber"), code="LoincNumber")
        return [_terms(frame, "ConsumerName", "en", term_type="CONSUMER_NAME", type="layperson")]

    def _variant(self, tag: str, member: Member) -> pl.DataFrame:
        language, _, _ = tag.partition("-")
        if language not in languages.table():
            raise InputError(f"its name says the language {language!r}, which is not known", file=member.place)
        names = ("SHORTNAME", "LONG_COMMON_NAME", "RELATEDNAMES2", "LinguisticVariantDisplayName", "ConsumerName")
        frame = self._table(member, ["LOINC_NUM"], [*AXES, *names])
        frame = frame.with_columns(concept=_curie("LOINC_NUM"), code="LOINC_NUM")
        terms = self._names(frame, tag)
        if self.options.related_names == "all":
            terms.append(_related(frame, tag))
        return pl.concat(terms)

    # --- the rest ----------------------------------------------------------------------------------------------------

    def _link_relations(self, links: pl.DataFrame) -> pl.DataFrame:
        """Return term -> part, called by the property that links them: "component", "system", "analyte_core", ..."""
        # http://loinc.org/property/analyte-core; where a file has no such column, the part's type.
        word = pl.when(_given("Property")).then(pl.col("Property").str.extract(r"([^/]+)/*$")).otherwise("PartTypeName")
        labels = links.select(word=word)["word"].fill_null("")
        names = {label: model.snake_case(label) or "part" for label in labels.unique().to_list()}
        relation = labels.replace_strict(names, return_dtype=pl.String) if names else labels
        return _with_source(
            links.select(
                "file",
                "line",
                head=_curie("LoincNumber"),
                relation=relation.alias("relation"),
                tail=_curie("PartNumber"),
            )
        )

    def _is_a(self, edges: pl.DataFrame) -> pl.DataFrame:
        edges_up = edges.filter(_given("IMMEDIATE_PARENT"))
        return _with_source(
            edges_up.select(
                "file", "line", head=_curie("CODE"), relation=pl.lit(model.IS_A), tail=_curie("IMMEDIATE_PARENT")
            )
        )

    def _semantic_types(self, loinc: pl.DataFrame, parts: pl.DataFrame) -> pl.DataFrame:
        classes = loinc.filter(_given("CLASS")).select("concept", semantic_type="CLASS", code="CLASSTYPE")
        kinds = parts.filter(_given("PartTypeName")).select(
            "concept", semantic_type="PartTypeName", code=pl.lit("part")
        )
        typed = pl.concat([classes, kinds]).with_columns(code=pl.col("code").replace("", None))
        return _with_source(typed)

    def _replacements(self, concepts: pl.DataFrame) -> pl.DataFrame:
        """Return what MapTo.csv names: one target replaces a deprecated term; several are to be chosen from."""
        member = self.files.get("mapto.csv")
        if member is None:
            return model.empty("replacements")
        frame = self._table(member, ["LOINC", "MAP_TO"]).with_columns(concept=_curie("LOINC"), object=_curie("MAP_TO"))
        for column, field in (("concept", "LOINC"), ("object", "MAP_TO")):
            unknown = ~pl.col(column).is_in(self.known)
            frame = self.sieve.refuse(frame, field, unknown, "no concept has this number")
        frame = frame.unique(["concept", "object"], keep="first", maintain_order=True)
        frame = frame.join(concepts.select("concept", "retired"), on="concept", maintain_order="left")
        follow = pl.col("retired") & (pl.len().over("concept") == 1)
        return _with_source(frame.select("concept", "object", "file", "line", model.predicate(follow)))

    def _properties(self, loinc: pl.DataFrame) -> pl.DataFrame:
        """Return the axes, the status where it is not ACTIVE, and the notice that third parties' content must carry."""
        status = loinc.with_columns(STATUS=pl.col("STATUS").replace("ACTIVE", ""))
        columns = {**{axis: axis.lower() for axis in AXES}, "STATUS": "status"}
        columns["EXTERNAL_COPYRIGHT_NOTICE"] = "copyright_notice"
        frames = [
            status.filter(_given(column)).select("concept", "file", "line", name=pl.lit(name), value=column)
            for column, name in columns.items()
        ]
        return _with_source(pl.concat(frames))


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


def _given(column: str) -> pl.Expr:
    return pl.col(column) != ""


def _curie(column: str) -> pl.Expr:
    return pl.lit(f"{SOURCE}:") + pl.col(column)


def _with_source(frame: pl.DataFrame) -> pl.DataFrame:
    return frame.with_columns(source=pl.lit(SOURCE))


def _no_rows(*columns: str) -> pl.DataFrame:
    return pl.DataFrame(schema={**dict.fromkeys(columns, pl.String), "file": pl.Categorical, "line": pl.Int64})


def _version(member: Member) -> str | None:
    """Return the version in the archive's or the folder's name: Loinc_2.78.zip, Loinc_2.78/LoincTable/Loinc.csv."""
    for part in reversed(member.path.parts[-4:]):
        if found := re.search(r"loinc[_-]?v?(\d+\.\d+)", part, re.IGNORECASE):
            return found[1]
    return None


def _language_option(option: str) -> frozenset[str] | None:
    """Return the wanted languages in lower case; None for all."""
    words = [word.lower().replace("_", "-") for word in listed(option)]
    if not words:
        return None
    for word in words:
        if word != "none" and word.partition("-")[0] not in languages.table():
            raise UsageError(f"option languages: {word!r} is not a language, such as de or fr-CA; or none")
    return frozenset(words)
