"""The snapshot files of a release of SNOMED CT: found by their names, read as the current versions of components."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

import polars as pl

from alphita.errors import InputError
from alphita.terminology.loaders import _release
from alphita.terminology.loaders._files import Member
from alphita.terminology.loaders._look import Look
from alphita.terminology.loaders._sieve import Sieve

SCTID = r"^[1-9][0-9]{5,17}$"
NO_SCTID = "not an SCTID: 6 to 18 digits"
# FileType_ContentType_Summary+ReleaseType-Language_Country+Namespace_Date; editions fill in the summary as they like:
# sct2_Concept_UKCLSnapshot_GB1000000_20250101.txt, sct2_Description_SpanishExtensionSnapshot-es_INT_20250331.txt.
_RELEASE_TYPE = r"\w*?(Snapshot|Full|Delta)(?:-[A-Za-z-]+)?_.*\.txt"
_KINDS = "Concept|Description|TextDefinition|Relationship|RelationshipConcreteValues"
_COMPONENT = re.compile(rf"x?sct2_({_KINDS})_{_RELEASE_TYPE}")
_REFSET = re.compile(rf"x?der2_cRefset_\w*?(Association|Language){_RELEASE_TYPE}")
_OF_A_KIND = re.compile(rf"x?(?:sct2_(?:{_KINDS})_|der2_cRefset_\w*?(?:Association|Language)).*\.txt")


def recognised(seen: Look) -> dict[str, str] | None:
    """Tell whether snapshots of concepts and of descriptions are there; see `Loader.recognises`."""
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


class Components:
    """The components of a release, kind by kind.

    Attributes:
        files: snapshots by kind, as in their names: Concept, Description, ..., Association, Language.
        used: those that were read.
    """

    def __init__(self, members: Sequence[Member], sieve: Sieve) -> None:
        self.sieve = sieve
        self.files: dict[str, list[Member]] = {}
        self.used: list[Member] = []
        for member in members:
            match = _COMPONENT.fullmatch(member.name) or _REFSET.fullmatch(member.name)
            if match and match[2] == "Snapshot":
                self.files.setdefault(match[1], []).append(member)
                continue
            sieve.count("files of the release that are not read", 1)
            if not match and _OF_A_KIND.fullmatch(member.name):
                problem = "not read: its name has neither Snapshot nor Full nor Delta where RF2 wants it"
                sieve.rejects.add(problem, file=member.place)
        _check_kinds(self.files, members)

    def read(self, kind: str, columns: dict[str, str], *, key: str = "sctid") -> pl.DataFrame:
        """Return the current version of each component of a kind."""
        members = self.files.get(kind, [])
        self.used += members
        if not members:
            kinds = {name: pl.Int64 if what == "id" else pl.String for name, what in columns.items()}
            schema = {"id": pl.Int64, "effectiveTime": pl.Int32, "active": pl.Boolean, **kinds}
            return pl.DataFrame(schema={**schema, "file": pl.Categorical, "line": pl.Int64})
        versions = pl.concat([self._of_a_file(member, columns, key) for member in members])
        if len(members) == 1:
            return versions
        versions = versions.sort("effectiveTime", descending=True, maintain_order=True)
        return self.sieve.once(versions, ["id"], f"{kind}: other versions of a component in another file")

    def live(self, kind: str, columns: dict[str, str], reason: str) -> pl.DataFrame:
        """Return the active components of a kind, as `read`; the others are counted under `reason`."""
        return self.sieve.drop(self.read(kind, columns), ~pl.col("active"), reason)

    def _of_a_file(self, member: Member, columns: dict[str, str], key: str) -> pl.DataFrame:
        sieve, is_member = self.sieve, key == "uuid"
        # An id that is no number becomes one that no concept has, and is refused as such with the others.
        ids = [
            pl.col(name).cast(pl.Int64, strict=False).fill_null(-1) for name, what in columns.items() if what == "id"
        ]
        own = pl.col("id").hash() if is_member else pl.col("id").cast(pl.Int64)

        def shrunk(frame: pl.DataFrame) -> pl.DataFrame:
            """Check a block, and make ids numbers, so that millions of rows stay small."""
            if not is_member:
                frame = sieve.refuse(frame, "id", ~pl.col("id").str.contains(SCTID), NO_SCTID)
            frame = sieve.refuse(frame, "active", ~pl.col("active").is_in(["0", "1"]), "must be 0 or 1")
            frame = sieve.dates(frame, "effectiveTime")
            return frame.with_columns(pl.col("effectiveTime").cast(pl.Int32), pl.col("active") == "1", *ids, own)

        names = ["id", "effectiveTime", "active", *columns]
        frame = _release.read_unquoted(member, names, sieve.rejects, prepare=shrunk)
        field, repeated = "referencedComponentId" if is_member else "id", ~pl.col("id").is_first_distinct()
        return sieve.refuse(frame, field, repeated, "its id was defined before in this file")
