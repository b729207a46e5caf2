"""What changed between two releases of a terminology: concepts, names, synonyms, parents, OMOP's flags and domains.

Concepts are compared by their id; where a prefix changed with the release, by the new one, and the change is shown.
"""

from __future__ import annotations

import csv
import json
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import polars as pl

from alphita import artefact
from alphita.errors import UsageError
from alphita.spreadsheets import Guard
from alphita.terminology import model, reading
from alphita.terminology.model import Tables
from alphita.terminology.store import DOMAIN, MAPS_TO, STANDARD, Terminology

# At least so many of the concepts under the old prefix stand under the new one, with their number and name.
MIN_SHARE = 0.5


def changed_prefixes(old: Terminology, new: Terminology) -> dict[str, str]:
    """Return which prefixes of the old release are which of the new one, which has no id under the old."""
    before, after = _ids(old), _ids(new)
    gone = before.join(after.select("prefix").unique(), on="prefix", how="anti")
    come = after.join(before.select("prefix").unique(), on="prefix", how="anti")
    total = dict(gone.group_by("prefix").len().iter_rows())
    same = gone.join(come, on=["number", "name"], suffix="_now").group_by("prefix", "prefix_now").len()
    best = same.sort("len", "prefix_now", descending=[True, False]).unique("prefix", keep="first", maintain_order=True)
    return {prefix: now for prefix, now, count in best.iter_rows() if count >= MIN_SHARE * total[prefix]}


def under(curie: str, changed: dict[str, str]) -> str:
    """Return an id under the new prefix of its own; as it is, if that did not change."""
    prefix, colon, number = curie.partition(":")
    return f"{changed[prefix]}:{number}" if colon and prefix in changed else curie


def _ids(terminology: Terminology) -> pl.DataFrame:
    """Return prefix, number and name (in lower case) of each concept."""
    frame = pl.DataFrame(
        {
            "id": pl.Series(terminology.concept_ids.to_pylist(), dtype=pl.String),
            "name": pl.Series(terminology.concept_names.to_pylist(), dtype=pl.String),
        }
    )
    parts = pl.col("id").str.splitn(":", 2)
    return frame.select(
        prefix=parts.struct.field("field_0"),
        number=parts.struct.field("field_1"),
        name=pl.col("name").str.to_lowercase(),
    ).drop_nulls("number")


# kind -> what it means, in the order of the report.
KINDS = {
    "added": "new concept; `new` is its name",
    "retired": "live before, retired now; `new` is what replaces it, `detail` what to consider instead",
    "merged": "gone as a concept; its id is now an alternative id of `new`",
    "removed": "gone without a trace",
    "restored": "retired before, live now",
    "replacement": "retired before and now; what replaces it changed",
    "gone": "retired before, no concept at all now; `new` is the concept that has its id as an alternative one, if any",
    "renamed": "another preferred term in this language",
    "synonym_added": "a string the concept did not have in this language; `detail` is its scope",
    "synonym_lost": "a string the concept has no more in this language; `detail` is its scope",
    "scope": "a synonym's scope changed: `detail` is the string",
    "standard": "OMOP's standard flag changed; `detail` is what the concept maps to now",
    "maps_to": "OMOP maps the concept to other ones",
    "domain": "another domain of OMOP",
    "moved": "`old` parents lost, `new` parents won",
}
COLUMNS = ("kind", "concept", "name", "language", "old", "new", "detail")
JOINT = " | "
EXAMPLES = 2
# An example is shown whole; a second one where the line has room for it.
WIDTH = 118
SUFFIXES = (".csv", ".tsv", ".json")


@dataclass
class Changes:
    """The changes between two terminologies: facts of either, counts by kind, and a row a change (`COLUMNS`)."""

    old: dict[str, Any]
    new: dict[str, Any]
    counts: dict[str, int] = field(default_factory=dict)
    prefixes: dict[str, str] = field(default_factory=dict)
    table: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=dict.fromkeys(COLUMNS, pl.String)))

    def as_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return asdict(self) | {"table": self.table.to_dicts()}

    def summary(self) -> str:
        """Return one screen of text: what there is, how many changes of each kind, and examples."""
        lines = [_headline("old", self.old), _headline("new", self.new)]
        lines += [
            f"ids under {was}: are under {now}: now; they are compared by that" for was, now in self.prefixes.items()
        ]
        lines.append("")
        for kind, count in self.counts.items():
            shown = self.table.filter(pl.col("kind") == kind).head(EXAMPLES)
            line = f"{count:>9,}  {kind:<14}"
            for place, row in enumerate(shown.iter_rows(named=True)):
                added = f"{'; ' if place else ' '}{_example(row)}"
                line += added if not place or len(line + added) <= WIDTH else ""
            lines.append(line.rstrip())
        return "\n".join(lines)

    def write(self, path: Path) -> None:
        """Write it as .csv, .tsv or .json, by the name's suffix."""
        suffix = path.suffix.lower()
        if suffix not in SUFFIXES:
            raise UsageError(f"{path}: the name must end in one of {list(SUFFIXES)}")
        with artefact.atomic_file(path, "w", newline="") as file:
            if suffix == ".json":
                json.dump(self.as_json(), file, indent=1, ensure_ascii=False)
                return
            writer = csv.writer(file, delimiter="\t" if suffix == ".tsv" else ",", lineterminator="\n")
            writer.writerow(COLUMNS)
            writer.writerows(map(Guard(), self.table.iter_rows()))


def changes(old: Terminology, new: Terminology) -> Changes:
    """Compare two releases, the older first."""
    changed = changed_prefixes(old, new)
    before, after = _Release(old, changed), _Release(new, {})
    differences = pl.concat([*_of_concepts(before, after), *_of_live_ones(before, after)])
    order = pl.col("kind").replace_strict(list(KINDS), list(range(len(KINDS))), return_dtype=pl.Int32)
    table = differences.sort(order, "concept", "language", "old", "new", "detail")
    numbers = Counter(table["kind"].to_list())
    return Changes(_facts(old), _facts(new), {kind: numbers[kind] for kind in KINDS}, changed, table)


class _Release:
    """One release as frames by CURIE."""

    def __init__(self, terminology: Terminology, changed: dict[str, str]) -> None:
        tables = reading.tables_of(terminology)
        self.changed = changed
        self.ids = self._now(tables.concepts["id"])
        self.concepts = tables.concepts.select(id=self.ids, retired="retired").with_columns(
            name=pl.Series(terminology.concept_names.to_pylist(), dtype=pl.String)
        )
        self.terms = self._terms(tables)
        self.parents = self._parents(tables)
        self.replacements = self._replacements(tables)
        self.standard = self._values(tables.properties, "name", STANDARD, "value")
        xrefs = tables.xrefs.with_columns(self._now(tables.xrefs["object"]))
        self.maps_to = self._values(xrefs, "predicate", MAPS_TO, "object")
        self.domains = self._values(tables.semantic_types, "code", DOMAIN, "semantic_type")
        self.aliases = tables.aliases.select(
            self._now(tables.aliases["alias"]), self.ids.gather(tables.aliases["concept"]).alias("id")
        )

    def _now(self, ids: pl.Series) -> pl.Series:
        return ids if not self.changed else pl.Series(ids.name, [under(curie, self.changed) for curie in ids.to_list()])

    def _terms(self, tables: Tables) -> pl.DataFrame:
        """Return id, language, string, preferred, scope: one row a string, in its best role."""
        return tables.terms.select(
            self.ids.gather(tables.terms["concept"]).alias("id"),
            pl.col("language").cast(pl.String),
            "string",
            "preferred",
            pl.col("scope").cast(pl.String),
        ).unique(["id", "language", "string"], keep="first", maintain_order=True)

    def _values(self, table: pl.DataFrame, column: str, wanted: str, value: str) -> pl.DataFrame:
        """Return id and value: the values of a side table where a column is as wanted; several joined."""
        values = table.select(self.ids.gather(table["concept"]).alias("id"), pl.col(column, value).cast(pl.String))
        values = values.filter((pl.col(column) == wanted) & (pl.col(value) != pl.col("id")))
        return values.group_by("id").agg(value=pl.col(value).unique().sort().str.join(JOINT))

    def _parents(self, tables: Tables) -> pl.DataFrame:
        frame = tables.relations.filter(pl.col("relation").cast(pl.String).is_in(list(tables.parent_relations)))
        return pl.DataFrame({"id": self.ids.gather(frame["head"]), "parent": self.ids.gather(frame["tail"])}).unique()

    def _replacements(self, tables: Tables) -> pl.DataFrame:
        frame = tables.replacements.select(
            self.ids.gather(tables.replacements["concept"]).alias("id"),
            pl.col("predicate").cast(pl.String),
            self._now(tables.replacements["object"]),
        )
        return frame.group_by("id").agg(
            pl.col("object").filter(pl.col("predicate") == predicate).unique().sort().str.join(JOINT).alias(name)
            for name, predicate in (("replaced_by", model.REPLACED_BY), ("consider", model.CONSIDER))
        )


def _of_concepts(before: _Release, after: _Release) -> list[pl.DataFrame]:
    both = before.concepts.join(after.concepts, on="id", how="full", suffix="_now", coalesce=True)
    was = before.replacements.rename({"replaced_by": "was", "consider": "was_considered"})
    both = both.join(after.replacements, on="id", how="left").join(was, on="id", how="left")
    was_live, is_live = pl.col("retired").not_(), pl.col("retired_now").not_()
    heir = after.aliases.unique("alias", keep="first", maintain_order=True).rename({"id": "heir"})
    gone = both.filter(pl.col("name_now").is_null()).join(heir, left_on="id", right_on="alias", how="left")
    live_gone, has_heir = gone.filter(was_live), pl.col("heir").is_not_null()
    kept_retired = both.filter(pl.col("retired") & pl.col("retired_now"))
    return [
        _rows(both.filter(pl.col("name").is_null() & is_live), "added", name="name_now", new="name_now"),
        _rows(both.filter(was_live & pl.col("retired_now")), "retired", new="replaced_by", detail="consider"),
        _rows(live_gone.filter(has_heir), "merged", new="heir"),
        _rows(live_gone.filter(~has_heir), "removed"),
        _rows(both.filter(pl.col("retired") & is_live), "restored", name="name_now"),
        _rows(
            kept_retired.filter(pl.col("replaced_by").fill_null("") != pl.col("was").fill_null("")),
            "replacement",
            old="was",
            new="replaced_by",
            detail="consider",
        ),
        _rows(gone.filter(pl.col("retired")), "gone", new="heir"),
    ]


def _of_live_ones(before: _Release, after: _Release) -> list[pl.DataFrame]:
    """Return the changes of concepts that are live in both."""
    live = after.concepts.filter(~pl.col("retired")).join(
        before.concepts.filter(~pl.col("retired")).select("id"), on="id", how="semi"
    )
    names = live.select("id", "name")
    old_terms, new_terms = (release.terms.join(names, on="id") for release in (before, after))
    renamed = _renamed(old_terms, new_terms)
    return [
        _rows(renamed, "renamed", old="old_name", new="new_name", detail="value", language="language"),
        *_synonyms(old_terms, new_terms),
        *_restated(before, after, names),
        _moved(before, after, names),
    ]


def _restated(before: _Release, after: _Release, names: pl.DataFrame) -> list[pl.DataFrame]:
    """Return the changes of standard flag, "Maps to" and domain; a release without domains says nothing of them."""

    def both(old: pl.DataFrame, new: pl.DataFrame) -> pl.DataFrame:
        return names.join(old, on="id", how="left").join(new, on="id", how="left", suffix="_now")

    standard = both(before.standard, after.standard).with_columns(pl.col("value", "value_now").fill_null(""))
    changed, columns = pl.col("value") != pl.col("value_now"), {"old": "value", "new": "value_now"}
    standard = standard.filter(changed).join(after.maps_to.rename({"value": "maps_to"}), on="id", how="left")
    maps_to = both(before.maps_to, after.maps_to).with_columns(pl.col("value", "value_now").fill_null(""))
    maps_to = maps_to.filter(changed).join(standard, on="id", how="anti")
    return [
        _rows(standard, "standard", detail="maps_to", **columns),
        _rows(maps_to, "maps_to", **columns),
        _rows(both(before.domains, after.domains).filter(changed), "domain", **columns),
    ]


def _renamed(old: pl.DataFrame, new: pl.DataFrame) -> pl.DataFrame:

    def preferred(terms: pl.DataFrame, name: str) -> pl.DataFrame:
        chosen = terms.filter("preferred").group_by("id", "language", "name")
        return chosen.agg(pl.col("string").unique().sort().str.join(JOINT).alias(name), pl.col("string").alias("all"))

    both = preferred(old, "old_name").join(preferred(new, "new_name").drop("name"), on=["id", "language"])
    both = both.filter(pl.col("old_name") != pl.col("new_name"))
    kept = both.select("id", "language", string="old_name").join(new, on=["id", "language", "string"], how="semi")
    kept = kept.select("id", "language", value=pl.lit("the old name is a synonym now"))
    return both.join(kept, on=["id", "language"], how="left")


def _synonyms(old: pl.DataFrame, new: pl.DataFrame) -> list[pl.DataFrame]:
    key = ["id", "language", "string"]
    won = _not_renamed(new.join(old, on=key, how="anti"), old)
    lost = _not_renamed(old.join(new, on=key, how="anti"), new)
    scoped = old.join(new.select(*key, scope_now="scope"), on=key).filter(pl.col("scope") != pl.col("scope_now"))
    return [
        _rows(won, "synonym_added", new="string", detail="scope", language="language"),
        _rows(lost, "synonym_lost", old="string", detail="scope", language="language"),
        _rows(scoped, "scope", old="scope", new="scope_now", detail="string", language="language"),
    ]


def _not_renamed(terms: pl.DataFrame, other: pl.DataFrame) -> pl.DataFrame:
    """Leave out the preferred terms of which the other release has its own: the change of name tells them."""
    named = other.filter("preferred").select("id", "language", named=pl.lit(True)).unique()
    return terms.join(named, on=["id", "language"], how="left").filter(
        ~(pl.col("preferred") & pl.col("named").fill_null(False))
    )


def _moved(before: _Release, after: _Release, names: pl.DataFrame) -> pl.DataFrame:
    def listed(frame: pl.DataFrame, name: str) -> pl.DataFrame:
        return frame.group_by("id").agg(pl.col("parent").sort().str.join(JOINT).alias(name))

    lost = before.parents.join(after.parents, on=["id", "parent"], how="anti")
    won = after.parents.join(before.parents, on=["id", "parent"], how="anti")
    both = listed(lost, "lost").join(listed(won, "won"), on="id", how="full", coalesce=True).join(names, on="id")
    return _rows(both, "moved", old="lost", new="won")


def _rows(frame: pl.DataFrame, kind: str, *, name: str = "name", **columns: str) -> pl.DataFrame:
    """Return rows of the table; `columns` says which column of the frame each of its own comes from."""
    cells = {"concept": "id", "name": name, **columns}
    return frame.select(
        pl.lit(kind).alias("kind"),
        *(
            (pl.col(cells[column]).cast(pl.String).fill_null("") if column in cells else pl.lit("")).alias(column)
            for column in COLUMNS[1:]
        ),
    )


def facts(terminology: Terminology) -> dict[str, Any]:
    """Return a release's name, content_hash and versions."""
    given = (source.get("version") for source in terminology.manifest.get("sources", []))
    versions = list(dict.fromkeys(str(version) for version in given if version))
    return {"name": terminology.path.name, "content_hash": terminology.content_hash, "versions": versions}


def _facts(terminology: Terminology) -> dict[str, Any]:
    retired = int(terminology.retired.sum())
    numbers = {"live concepts": terminology.n_concepts - retired, "retired concepts": retired}
    return facts(terminology) | numbers | {"terms": terminology.n_terms}


def _headline(label: str, facts: dict[str, Any]) -> str:
    numbers = ", ".join(f"{facts[name]:,} {name}" for name in ("live concepts", "retired concepts", "terms"))
    return f"{label}: {facts['name']} ({', '.join(facts['versions'][:2]) or 'no version'}): {numbers}"


def _example(row: dict[str, str]) -> str:
    change = " -> ".join(filter(None, (row["old"], row["new"])))
    if row["kind"] == "standard":
        change = f"{row['old'] or 'non-standard'} -> {row['new'] or 'non-standard'}"
        change += f"; maps to {row['detail']}" if row["detail"] else ""
    concept = f"{row['concept']} {row['name']}" if row["name"] not in (row["old"], row["new"]) else row["concept"]
    return f"{concept}: {change}" if change else concept
