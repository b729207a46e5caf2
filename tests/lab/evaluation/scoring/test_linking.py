from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alphita.terminology.text import clean
from alphita_lab.evaluation.scoring import linking
from alphita_lab.evaluation.scoring.linking import Queries, Targets
from alphita_lab.evaluation.scoring.results import figures_of
from tests.lab.evaluation.hash_systems import SharedLetters
from tests.reference import linking as reference

# Names that are equal after cleaning, one that cleaning leaves nothing of, and names of several concepts.
NAMES = ["Cold", "cold", "COLD ", "common cold", "Fever", "fever-like", "ache", "head ache", "Headache", "?", "pain"]
MENTIONS = [*NAMES, "colds", "head", "a fever", "painful", "zzz", "Ache!"]
CONCEPTS = ["C:1", "C:2", "C:3", "C:4", "C:5"]


def expected(mention: str, names: list[str], ids: list[str], k: int) -> list[tuple[float, str, str]]:
    system = SharedLetters()
    cleaned = [clean(name, system.rules) for name in names]
    values = {name: system.of(clean(mention, system.rules), name) for name in cleaned}
    return reference.rank({name: value for name, value in values.items() if value}, cleaned, ids, k)


TARGETS = st.lists(st.tuples(st.sampled_from(CONCEPTS), st.sampled_from(NAMES)), min_size=1, max_size=20)


@settings(max_examples=100)
@given(
    targets=TARGETS,
    mentions=st.lists(st.sampled_from(MENTIONS), max_size=6),
    k=st.integers(1, 7),
    at_first=st.integers(1, 3),
    at_once=st.integers(1, 3),
)
def test_rank_equals_the_reference(targets, mentions, k, at_first, at_once) -> None:
    ids, names = [one for one, _ in targets], [name for _, name in targets]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(linking, "STRINGS_PER_CONCEPT", at_first)
        patch.setattr(linking, "QUERIES_AT_ONCE", at_once)
        ranking = linking.rank(SharedLetters(), mentions, Targets(ids=ids, names=names), k)
    assert ranking.similarity.shape == ranking.concepts.shape == ranking.matched.shape == (len(mentions), k)
    for row, mention in enumerate(mentions):
        wanted = expected(mention, names, ids, k)
        missing = [-1] * (k - len(wanted))
        assert [ranking.ids[one] for one in ranking.concepts[row] if one >= 0] == [one for _, one, _ in wanted]
        assert [ranking.strings[one] for one in ranking.matched[row] if one >= 0] == [name for _, _, name in wanted]
        assert ranking.similarity[row].tolist() == [value for value, _, _ in wanted] + [0] * len(missing)
        assert ranking.concepts[row, len(wanted) :].tolist() == missing
        assert ranking.matched[row, len(wanted) :].tolist() == missing
        cleaned = [clean(name, SharedLetters.rules) for name in names]
        holders = {one for one, name in zip(ids, cleaned, strict=True) if wanted and name == wanted[0][2]}
        assert set(ranking.sharing_first(row)) == holders


def test_more_strings_are_asked_for_only_where_concepts_are_missing() -> None:
    names = [f"cold {number}" for number in range(40)] + ["cod"]
    system = SharedLetters()
    linking.rank(system, ["cold"], Targets(ids=["C:1"] * 40 + ["C:2"], names=names), 1)
    assert system.asked == [5]
    system = SharedLetters()
    ranking = linking.rank(system, ["cold"], Targets(ids=["C:1"] * 40 + ["C:2"], names=names), 2)
    assert system.asked == [10, 40, 41]
    assert ranking.concepts.tolist() == [[0, 1]]


GOLD = st.frozensets(st.sampled_from([*CONCEPTS, "C:gone", "C:lost"]), max_size=3)
PARTS = st.lists(st.tuples(st.sampled_from(MENTIONS), GOLD), min_size=1, max_size=3)


@settings(max_examples=100)
@given(targets=TARGETS, queries=st.lists(PARTS, min_size=1, max_size=6), ks=st.sampled_from([(1,), (1, 3), (1, 5, 9)]))
def test_evaluate_equals_the_reference(targets, queries, ks) -> None:
    ids, names = [one for one, _ in targets], [name for _, name in targets]
    cleaned = [clean(name, SharedLetters.rules) for name in names]
    asked = Queries(
        [tuple(mention for mention, _ in parts) for parts in queries],
        [tuple(one for _, one in parts) for parts in queries],
        {"language": ["it"] * len(queries)},
        [len(parts) > 1 for parts in queries],
    )
    assert asked.repeats() == len(queries) - len(set(map(tuple, queries)))
    result = linking.evaluate(SharedLetters(), asked, Targets(ids=ids, names=names), ks=ks, subsets=("language",))
    assert result.rows["query"].to_list() == list(range(len(queries)))
    assert [metric.name for metric in result.metrics] == [
        *(f"accuracy@{k}" for k in ks),
        "accuracy@1 (any concept of the name)",
    ]
    for row, parts in zip(result.rows.iter_rows(named=True), queries, strict=True):
        rankings = [expected(mention, names, ids, max(ks)) for mention, _ in parts]
        gold = [one for _, one in parts]
        assert [row[f"right@{k}"] for k in ks] == [reference.right(rankings, gold, k) for k in ks]
        assert row["shared@1"] == reference.shared(rankings, gold, cleaned, ids)
        assert row["covered"] == all(one & set(ids) for one in gold)
        assert not row["right@1"] or (row["covered"] and row["shared@1"])
        first = [name for one, name in zip(ids, cleaned, strict=True) if one in gold[0]]
        assert row["overlap"] == reference.overlap(clean(parts[0][0], SharedLetters.rules), first)
        assert (row["gold_name"] in first) if first else row["gold_name"] is None
        assert row["predicted"] == [one for _, one, _ in rankings[0][: linking.SHOWN]]
        assert row["matched"] == [name for _, _, name in rankings[0][: linking.SHOWN]]
        assert row["similarity"] == (rankings[0][0][0] if rankings[0] else 0)
        assert row["mention"] == " | ".join(mention for mention, _ in parts)
    assert result.notes == {
        "queries": len(queries),
        "composite": sum(len(parts) > 1 for parts in queries),
        "names": len(names),
        "concepts": len(set(ids)),
        "covered": int(result.rows["covered"].sum()),
        "without_answer": sum(not row for row in result.rows["predicted"].to_list()),
    }
    assert "language" in result.subsets
    for name in ("covered", "seen"):
        assert (name in result.subsets) == (result.rows[name].n_unique() > 1)
    figures = {(one.metric, one.subset): one for one in figures_of(result)}
    assert figures["accuracy@1", "all"].value == pytest.approx(result.rows["right@1"].to_numpy().mean())
    assert figures["accuracy@1", "language=it"].n == len(queries)


def test_tables_have_the_same_columns_whatever_was_answered(tmp_path) -> None:
    targets = Targets(ids=["C:1"], names=["cold"])
    answered = linking.evaluate(SharedLetters(), linking.simple(["cold"], ["C:1"]), targets).rows
    nothing = linking.evaluate(SharedLetters(), linking.simple(["zzz", "?"], ["C:9", "C:8"]), targets).rows
    none = linking.evaluate(SharedLetters(), linking.simple([], []), targets).rows
    assert nothing["predicted"].to_list() == [[], []]
    assert answered.schema == nothing.schema == none.schema
    assert len(pl.concat([answered, nothing, none])) == 3
    nothing.write_parquet(tmp_path / "rows.parquet")
    assert pl.read_parquet(tmp_path / "rows.parquet").equals(nothing)


def test_what_does_not_fit_together_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one: 0 and 0"):
        Targets(ids=[], names=[])
    with pytest.raises(ValueError, match="2 and 1"):
        Targets(ids=["C:1", "C:2"], names=["cold"])
    with pytest.raises(ValueError, match="1 queries, 0 gold answers"):
        Queries([("cold",)], [])
    with pytest.raises(ValueError, match="query 0 has 2 parts and 1 gold answers"):
        Queries([("cold", "fever")], [(frozenset(),)])
    with pytest.raises(ValueError, match="query 0 has 0 parts"):
        Queries([()], [()])
    with pytest.raises(ValueError, match="column 'fold' has 2 values for 1 queries"):
        linking.simple(["cold"], ["C:1"], fold=[1, 2])
    with pytest.raises(ValueError, match="'seen' has 2 values for 1 queries"):
        Queries([("cold",)], [(frozenset(["C:1"]),)], {}, [True, False])
