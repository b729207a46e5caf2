"""What an index keeps of concepts: replacements of retired ones, graph, definitions, types, OMOP's columns, ids."""

from __future__ import annotations

import shutil

import numpy as np
import polars as pl
import pytest

from alphita import artefact
from alphita.answer.normalizer import Normalizer
from alphita.answer.omop import OmopConcepts
from alphita.errors import InputError
from alphita.index.concepts import MAPS_TO, mapped, replacements
from alphita.index.segment import RETIRED_STANDING
from alphita.index.store import Index, build
from alphita.mappings.formats import TargetInfo
from alphita.mappings.record import OmopConcept
from alphita.terminology.loaders import obo
from alphita.terminology.model import Tables
from alphita.terminology.store import load_terminology, save
from tests.doubles import HashEncoder
from tests.tables import loaded

# id, retired
CONCEPTS = [(f"T:{number}", number in "56789X") for number in "0123456789X"]
# A concept, its preferred name, and other names.
NAMES = (
    "1|Seizure|Fit 2|Focal_seizure 3|Cold 4|Low_temperature|Chill 5|Spell|seizure|Cold 6|Old_spell 7|Round_one "
    "8|Round_two 9|Undecided X|Gone"
)
TERMS = [
    (f"T:{concept}", name.replace("_", " "), name == names[0])
    for concept, *names in (row.split("|") for row in NAMES.split())
    for name in names
]
REPLACED = [(f"T:{old}", f"T:{new}") for old, new in ("51", "65", "78", "87", "91", "93", ("X", "404"))]
# T:0 has no term, so T:2's parent T:0 is passed through; T:3 and T:4 are each other's parents.
IS_A = [(f"T:{child}", f"T:{parent}") for child, parent in ("20", "01", "34", "43", "41", "1X", "X3")]


def tables(source: str = "T", **more: pl.DataFrame) -> Tables:
    made = Tables(
        concepts=pl.DataFrame(CONCEPTS, ["id", "retired"], orient="row").with_columns(source=pl.lit(source)),
        terms=pl.DataFrame(TERMS, ["concept", "string", "preferred"], orient="row").with_columns(
            language=pl.lit("en"), source=pl.lit(source)
        ),
        replacements=pl.DataFrame(REPLACED, ["concept", "object"], orient="row").with_columns(source=pl.lit(source)),
        relations=pl.DataFrame(IS_A, ["head", "tail"], orient="row").with_columns(
            relation=pl.lit("is_a"), source=pl.lit(source)
        ),
    )
    for name, frame in more.items():
        setattr(made, name, frame.with_columns(source=pl.lit(source)))
    return made


def rows(columns: list[str], *lines: tuple[str, ...]) -> pl.DataFrame:
    return pl.DataFrame(list(lines), columns, orient="row")


@pytest.fixture
def make(tmp_path):
    def make(made: Tables, **options) -> Index:
        save(made, tmp_path / "t.terminology", force=True)
        terminology = load_terminology(tmp_path / "t.terminology")
        return build(terminology, HashEncoder(), tmp_path / "t.index", force=True, **options)

    return make


def ids_of(index: Index, concepts) -> list[str]:
    every = index.segment.concepts.column("id").to_pylist()
    return [every[row] for row in concepts]


def terms_of(index: Index, string: str) -> list[tuple[str, str | None, bool]]:
    row = int(index.rows([string])[0])
    start, end = index.segment.offsets[row : row + 2]
    found = index.segment.terms.slice(start, end - start).to_pylist()
    ids = ids_of(index, [term["concept"] for term in found])
    return [(one, term["retired_concept"], term["preferred"]) for one, term in zip(ids, found, strict=True)]


def test_a_retired_concept_stands_for_its_only_replacement_at_the_end_of_the_chain(make, tmp_path):
    index = make(tables())
    terminology = load_terminology(tmp_path / "t.terminology")
    found = replacements(terminology)
    named = [None if row < 0 else terminology.concept_id(row) for row in found]
    assert named == ["T:0", "T:1", "T:2", "T:3", "T:4", "T:1", "T:1", None, None, None, None]
    assert terms_of(index, "spell") == [("T:1", "T:5", False)]
    assert terms_of(index, "old spell") == [("T:1", "T:6", False)]
    for string in ("round one", "round two", "undecided", "gone"):
        assert index.rows([string]).tolist() == [-1]


def test_a_retired_term_never_stands_before_a_live_one(make):
    index = make(tables())
    assert terms_of(index, "cold") == [("T:3", None, True), ("T:1", "T:5", False)]
    # The replacement is called so itself: nothing to add.
    assert terms_of(index, "seizure") == [("T:1", None, True)]
    retired = np.array([one is not None for one in index.segment.terms.column("retired_concept").to_pylist()])
    assert retired.sum() == 3
    assert index.segment.standing[retired].min() >= RETIRED_STANDING > index.segment.standing[~retired].max()
    assert RETIRED_STANDING + 9 < 256
    index = make(tables(), exclude=frozenset({"spell"}))
    assert [string in list(index.strings) for string in ("spell", "old spell")] == [False, True]


def test_parents_pass_through_what_has_no_live_terms_and_circles_end(make):
    index = make(tables())
    one, two, three, four = (int(row) for row in index.concept_rows(["T:1", "T:2", "T:3", "T:4"]))
    assert index.concept_rows(["T:0"]).tolist() == [-1]
    parents = {row: ids_of(index, index.segment.parents_of(row)) for row in (one, two, three, four)}
    assert parents == {one: ["T:3"], two: ["T:1"], three: ["T:4"], four: ["T:1", "T:3"]}
    assert ids_of(index, index.segment.descendants(one)) == ["T:2", "T:3", "T:4"]
    assert ids_of(index, index.segment.descendants(two)) == []
    # Of a circle none is above all.
    assert index.segment.tops().tolist() == []


def test_ids_aliases_and_retired_ids_find_their_concept(make):
    aliases = rows(["concept", "alias"], ("T:2", "U:9"), ("T:6", "U:1"), ("T:9", "U:2"))
    index = make(tables(aliases=aliases))
    wanted = "T:1=T:1 T:5=T:1 T:6=T:1 U:9=T:2 U:1=T:1 U:2= T:9= T:404= = T:2=T:2"
    found = dict(pair.split("=") for pair in wanted.split())
    concepts = index.concept_rows(list(found))
    assert [ids_of(index, [row])[0] if row >= 0 else "" for row in concepts] == list(found.values())


def test_codes_of_other_vocabularies_find_their_concepts(make):
    stated = rows(
        ["concept", "predicate", "object"],
        ("T:1", "oboInOwl:hasDbXref", "UMLS:C1"),
        ("T:1", "skos:exactMatch", "MESH:D1"),
        ("T:2", "oboInOwl:hasDbXref", "MESH:D2"),
        ("T:1", "oboInOwl:hasDbXref", "MESH:D2"),
        ("T:1", "oboInOwl:hasDbXref", "MESH:D2"),
        ("T:2", "skos:broadMatch", "MESH:D3"),
        ("T:1", "oboInOwl:hasDbXref", "T:2"),
        ("T:X", "oboInOwl:hasDbXref", "MESH:D4"),
    )
    index = make(tables(xrefs=stated))
    asked = ["UMLS:C1", "MESH:D1", "MESH:D2", "MESH:D3", "T:2", "MESH:D4", "", "UMLS:C"]
    found = [["T:1"], ["T:1"], ["T:1", "T:2"], [], [], [], [], []]
    assert [ids_of(index, rows) for rows in index.coded(asked)] == found
    assert index.coded([]) == []
    # The codes of exact terms count too.
    coded = tables()
    code = pl.when(pl.col("string") == "Fit").then(pl.lit("91")).when(pl.col("string") == "Spell").then(pl.lit("5"))
    coded.terms = coded.terms.with_columns(source=pl.lit("SNOMEDCT_US"), code=code, scope=pl.lit("exact"))
    index = make(coded)
    assert [ids_of(index, rows) for rows in index.coded(["SNOMEDCT:91", "SNOMEDCT:5"])] == [["T:1"], []]


def test_what_is_shown_of_a_concept(make):
    index = make(
        tables(
            definitions=rows(
                ["concept", "text", "language"],
                ("T:1", "A sudden event.", "en"),
                ("T:1", "Again.", "en"),
                ("T:5", "Old words.", "en"),
            ),
            semantic_types=rows(["concept", "semantic_type"], ("T:1", "Sign"), ("T:1", "Event"), ("T:1", "Sign")),
        )
    )
    shown = index.concept(int(index.concept_rows(["T:1"])[0]))
    assert (shown.id, shown.name, shown.source) == ("T:1", "Seizure", "T")
    assert shown.definition == "A sudden event."
    assert sorted(shown.semantic_types) == ["Event", "Sign"]
    assert shown.parents == ("Cold",)
    bare = index.concept(int(index.concept_rows(["T:3"])[0]))
    assert (bare.definition, bare.semantic_types) == (None, ())
    assert "omop_concept_id" not in index.segment.concepts.column_names


def test_omop_columns(make):
    index = make(
        tables(
            "SNOMEDCT",
            aliases=rows(["concept", "alias"], ("T:1", "OMOP:4029498"), ("T:2", "OMOP:77"), ("T:5", "OMOP:5")),
            semantic_types=rows(
                ["concept", "semantic_type", "code"],
                ("T:1", "Condition", "domain_id"),
                ("T:1", "Disorder", "concept_class_id"),
                ("T:2", "Condition", "domain_id"),
            ),
            properties=rows(
                ["concept", "name", "value"],
                ("T:1", "comment", "x"),
                ("T:1", "standard_concept", "S"),
                ("T:2", "vocabulary_id", "RxNorm Extension"),
                ("T:2", "concept_code", "OMOP1"),
            ),
        )
    )
    columns = ("omop_concept_id", "vocabulary", "domain", "concept_class", "standard")
    found = index.segment.concepts.select(["id", *columns]).to_pylist()
    shown = {line["id"]: tuple(line[name] for name in columns) for line in found}
    assert shown["T:1"] == (4029498, "SNOMED", "Condition", "Disorder", "S")
    assert shown["T:2"] == (77, "RxNorm Extension", "Condition", None, None)
    assert shown["T:3"] == (None, "SNOMED", None, None, None)
    assert ids_of(index, index.concept_rows(["OMOP:77", "OMOP:5"])) == ["T:2", "T:1"]
    omop = OmopConcepts(index)
    assert omop.of_id("OMOP:4029498") == OmopConcept(4029498, "1", "SNOMED", "Condition", "Disorder", "S")
    assert omop.of_id("T:2") == OmopConcept(77, "OMOP1", "RxNorm Extension", "Condition", None, None)
    assert omop.of_id("T:3") is omop.of_id("T:99") is omop.of_id(None) is None
    of_any, of_own = omop.targets(), omop.targets(replaced=False)
    assert of_any("OMOP:5") == of_own("T:1") == TargetInfo(4029498, "Condition", "SNOMED", True)
    assert of_own("OMOP:5") is None


def mapping_tables() -> Tables:
    """T:1 and T:2 are standard. T:3 maps to T:1, T:4 to both, T:0 to what is not standard, T:5 is retired."""
    pairs = {"T:3": ["T:1"], "T:4": ["T:1", "T:2", "T:1"], "T:0": ["T:3"], "T:5": ["T:2"], "T:1": ["T:2"]}
    xrefs = [(one, MAPS_TO, other) for one, others in pairs.items() for other in others]
    return tables(
        properties=rows(
            ["concept", "name", "value"],
            ("T:1", "standard_concept", "S"),
            ("T:2", "standard_concept", "S"),
            ("T:3", "standard_concept", "C"),
        ),
        xrefs=rows(["concept", "predicate", "object"], *xrefs, ("T:3", "skos:closeMatch", "T:2")),
    )


def test_terms_of_non_standard_concepts_stand_for_what_these_map_to(make, tmp_path):
    index = make(mapping_tables())
    terminology = load_terminology(tmp_path / "t.terminology")
    pairs = [(terminology.concept_id(head), terminology.concept_id(tail)) for head, tail in mapped(terminology)]
    assert pairs == [("T:3", "T:1"), ("T:4", "T:1"), ("T:4", "T:2")]
    assert terms_of(index, "cold") == [("T:3", None, True), ("T:1", "T:5", False), ("T:1", "T:3", False)]
    assert terms_of(index, "chill") == [("T:4", None, False), ("T:1", "T:4", False), ("T:2", "T:4", False)]
    assert terms_of(index, "fit") == [("T:1", None, False)]
    other = np.array([one is not None for one in index.segment.terms.column("retired_concept").to_pylist()])
    assert index.segment.standing[other].min() >= RETIRED_STANDING > index.segment.standing[~other].max()
    assert ids_of(index, index.concept_rows(["T:3", "T:4"])) == ["T:3", "T:4"]
    named = {"cold": ["T:3", "T:1"], "chill": ["T:4", "T:1", "T:2"], "fit": ["T:1"]}
    joined = {
        string: index.segment.mapped_homonyms(index.rows([string] * len(ids)), index.concept_rows(ids)).tolist()
        for string, ids in named.items()
    }
    # T:1 and T:2 are two concepts all the same.
    assert joined == {"cold": [1, 1], "chill": [2, 1, 1], "fit": [0]}
    assert len(index) == len(set(index.strings))
    index = make(mapping_tables(), exclude=frozenset({"chill"}))
    assert index.rows(["chill"]).tolist() == [-1]
    assert len(terms_of(index, "low temperature")) == 3


def test_what_an_index_of_an_earlier_build_lacks_is_said(make, tmp_path, capsys):
    index = make(tables())
    assert index.segment.lacking == ()
    assert "earlier build" not in capsys.readouterr().err
    for file in sorted((index.path / "segments/000").iterdir()):
        if file.is_dir():
            continue
        copy = tmp_path / file.name
        with artefact.create(copy, "index") as draft:
            shutil.copytree(index.path, draft.path, dirs_exist_ok=True)
            (draft.path / "segments/000" / file.name).unlink()
            kept = {name: value for name, value in index.manifest.items() if name not in artefact.RESERVED}
            draft.fields.update(kept)
        # What no segment can do without stops it; else it is said.
        try:
            lacking = Index.open(copy).segment.lacking
        except InputError:
            continue
        assert lacking
        assert f"lacks {lacking[0]}; build it again" in capsys.readouterr().err


def test_an_index_of_an_earlier_version_opens_with_what_it_has(make):
    index = make(tables())
    from alphita.index.segment import Segment

    folder = index.path / "segments/000"
    for name in ("parents.npy", "parent_offsets.npy", "known_ids.arrow", "known_rows.npy", "codes.arrow"):
        (folder / name).unlink()
    segment = Segment(folder)
    assert segment.concept_rows(["T:1", "T:5"]).tolist() == [index.concept_rows(["T:1"])[0], -1]
    assert segment.coded(["T:1", "MESH:D1"]) == [[], []]
    assert segment.parents_of(0).tolist() == []
    with pytest.raises(InputError, match=r"without parents of concepts.*build the index again"):
        segment.descendants(0)


def test_scopes_of_a_real_terminology_folder(tmp_path):
    text = "format-version: 1.2\n\n[Term]\nid: T:0000001\nname: Seizure\n"
    text += 'synonym: "Epileptic seizure" EXACT []\nsynonym: "Fits" BROAD []\n'
    text += '\n[Term]\nid: T:0000002\nname: Fit and well\nsynonym: "Fits" EXACT []\n'
    text += "\n[Term]\nid: T:0000003\nname: obsolete Spell\nis_obsolete: true\n"
    (tmp_path / "t.obo").write_text(text)
    terminology = loaded(obo, [tmp_path / "t.obo"], tmp_path / "t.terminology")
    index = build(terminology, HashEncoder(), tmp_path / "t.index")
    assert list(index.strings) == ["epileptic seizure", "fit and well", "fits", "seizure"]
    assert index.manifest["terminology_hash"] == terminology.content_hash
    found = Normalizer(index, encoder=HashEncoder()).normalize(["FITS"], top_k=2)[0]
    assert [(c.concept_id, c.concept_name, c.scope) for c in found.candidates] == [
        ("T:0000002", "Fit and well", "exact"),
        ("T:0000001", "Seizure", "broad"),
    ]
