from __future__ import annotations

import io
import json
from collections.abc import Sequence
from pathlib import Path

import polars as pl
import pytest

from alphita import artefact, printing, report
from alphita.errors import InputError, UsageError
from alphita.report import KIND, file_name
from alphita_lab.evaluation.report import comparison
from alphita_lab.evaluation.report.comparison import compare
from alphita_lab.evaluation.scoring.results import Metric, Result
from alphita_lab.evaluation.scoring.results import compare as paired
from tests.lab.evaluation.sample_report import entry, linking_result


def write(path: Path, benchmarks: dict[str, dict[str, Result]], **changes) -> Path:
    """Write a report folder, as a run does."""
    data = changes.pop("data", {"links/a.txt": "1" * 64, "terminology": "2" * 64})
    with artefact.create(path, KIND) as draft:
        (draft.path / "rows").mkdir()
        entries = []
        for name, results in benchmarks.items():
            entries.append(entry(name, results, None, **changes))
            for system, result in results.items():
                result.rows.write_parquet(draft.path / "rows" / f"{name}.{file_name(system)}.parquet")
        report.write(
            draft.path / "report.json", {"benchmarks": entries}, provenance=report.provenance(seed=0, data=data)
        )
    return path


@pytest.fixture
def results() -> dict[str, Result]:
    return {"better": linking_result(0.7, 1), "worse": linking_result(0.3, 2)}


def test_differences_are_those_of_a_run(tmp_path, results) -> None:
    first = write(tmp_path / "a", {"links": {"one": results["better"]}})
    second = write(tmp_path / "b", {"links": {"other": results["worse"]}})
    found = compare(first, second, seed=3)
    json.dumps(found, allow_nan=False)
    (benchmark,) = found["benchmarks"]
    (pair,) = benchmark["pairs"]
    assert (pair["first"], pair["second"]) == ("one", "other")
    assert pair["differences"] == paired(results["better"], results["worse"], seed=3)
    assert pair["problem"] is None
    assert pair["differences"][0]["difference"] > 0.3
    assert [one["metric"] for one in pair["figures"]] == ["accuracy@1", "accuracy@3", "accuracy@5"]
    assert benchmark["options"] == benchmark["data"] == found["provenance"] == {}


def test_systems_are_paired_by_name(tmp_path, results) -> None:
    first = write(tmp_path / "a", {"links": {"x/y": results["better"], "gone": results["worse"]}})
    second = write(tmp_path / "b", {"links": {"new": results["worse"], "x/y": results["worse"]}})
    (benchmark,) = compare(first, second)["benchmarks"]
    assert [(pair["first"], pair["second"]) for pair in benchmark["pairs"]] == [("x/y", "x/y")]
    assert benchmark["only_first"] == ["gone"]
    assert benchmark["only_second"] == ["new"]


def test_other_options_and_data_are_told(tmp_path, results) -> None:
    one = {"one": results["better"]}
    first = write(tmp_path / "a", {"links": one, "left": one}, options={"k": 5, "deep": {"x": 1, "y": 2}})
    changed = {"links/a.txt": "3" * 64, "right/b.txt": "4" * 64, "terminology": "2" * 64}
    second = write(tmp_path / "b", {"links": one, "right": one}, options={"k": 7, "deep": {"x": 1}}, data=changed)
    found = compare(first, second)
    assert found["only_first"] == ["left"]
    assert found["only_second"] == ["right"]
    (benchmark,) = found["benchmarks"]
    assert benchmark["options"] == {"k": [5, 7], "deep.y": [2, None]}
    assert benchmark["data"] == {"links/a.txt": ["1" * 64, "3" * 64]}
    console = printing.console(width=400, record=True, file=io.StringIO())
    console.print(comparison.render(found))
    text = console.export_text()
    assert "Options differ: k: 5 / 7; deep.y: 2 / –." in text
    assert f"Data differ: links/a.txt: {'1' * 12} / {'3' * 12}." in text
    assert "Only named or run in the first: left." in text


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda rows: rows.head(50), "different rows: 60 and 50"),
        (lambda rows: rows.reverse(), "60 of 60 differ in query, first row 1: 0 and 59"),
        (
            lambda rows: rows.with_columns(gold=pl.when(pl.col("query") == 7).then(pl.lit("Y")).otherwise("gold")),
            "1 of 60 differ in gold, first row 8: 'X:0' and 'Y'",
        ),
        (lambda rows: rows.with_columns(pl.col("query").cast(pl.String)), "column query holds Int64 and String"),
        (lambda rows: rows.drop("right@3"), "the rows lack the column right@3"),
    ],
)
def test_rows_that_are_not_the_same_are_not_paired(tmp_path, results, change, problem) -> None:
    first = write(tmp_path / "a", {"links": {"one": results["better"]}})
    other = linking_result(0.3, 2)
    second = write(tmp_path / "b", {"links": {"one": other}})
    path = second / "rows" / "links.one.parquet"
    change(other.rows).write_parquet(path)
    # Sealed again: the manifest tells every file's size.
    sealed = tmp_path / "sealed"
    with artefact.create(sealed, KIND) as draft:
        (draft.path / "rows").mkdir()
        for name in ("report.json", "rows/links.one.parquet"):
            (draft.path / name).write_bytes((second / name).read_bytes())
    (pair,) = compare(first, sealed)["benchmarks"][0]["pairs"]
    assert problem in pair["problem"]
    assert pair["differences"] == []
    assert [one["second"] for one in pair["figures"]] == pytest.approx(
        [float(other.rows[f"right@{k}"].mean()) for k in (1, 3, 5)]
    )
    console = printing.console(width=160, record=True, file=io.StringIO())
    console.print(comparison.render(compare(first, sealed)))
    assert "no paired difference" in console.export_text()


@pytest.mark.parametrize("column", ["anchor", "synonym", "other", "title", "attribute", "value", "written"])
def test_every_column_that_asks_is_compared(tmp_path, results, column) -> None:
    rows = results["better"].rows
    for name, asked in (("a", "one"), ("b", "another")):
        results["better"].rows = rows.with_columns(pl.lit(asked).alias(column))
        write(tmp_path / name, {"links": {"one": results["better"]}})
    (pair,) = compare(tmp_path / "a", tmp_path / "b")["benchmarks"][0]["pairs"]
    assert f"60 of 60 differ in {column}, first row 1: 'one' and 'another'" in pair["problem"]


@pytest.mark.parametrize("answers", [[[True], [False, True]], [0.5, 0.25], [[], [True]]])
def test_what_is_right_may_be_told_in_any_way(tmp_path, results, answers) -> None:
    rows = results["better"].rows
    for name, answer in zip(("a", "b"), answers, strict=True):
        results["better"].rows = rows.with_columns(pl.Series("right", [answer] * len(rows)))
        write(tmp_path / name, {"links": {"one": results["better"]}})
    (pair,) = compare(tmp_path / "a", tmp_path / "b")["benchmarks"][0]["pairs"]
    assert pair["problem"] is None


def test_what_systems_answer_may_differ(tmp_path, results) -> None:
    other = linking_result(0.3, 2)
    other.rows = other.rows.with_columns(
        predicted=pl.lit(["Z"]), matched=pl.lit(["z"]), gold_name=pl.lit("elsewhere"), overlap=0.5, covered=True
    )
    first = write(tmp_path / "a", {"links": {"one": results["better"]}})
    second = write(tmp_path / "b", {"links": {"one": other}})
    (pair,) = compare(first, second)["benchmarks"][0]["pairs"]
    assert pair["problem"] is None
    assert pair["differences"][0]["difference"] > 0.3


def test_a_statistic_that_has_no_name_is_told(tmp_path) -> None:
    result = linking_result(0.5, 1)
    result.metrics = (*result.metrics, Metric("odd", ("right@1", "right@3"), lambda values: float(values.max())))
    first = write(tmp_path / "a", {"links": {"one": result}})
    (pair,) = compare(first, first)["benchmarks"][0]["pairs"]
    assert [one["metric"] for one in pair["differences"]] == ["accuracy@1", "accuracy@3", "accuracy@5"]
    assert pair["problem"] == "cannot be worked out again from the rows: odd"


def with_statistics(first: Path, statistics: Sequence[str]) -> Path:
    """Return a copy of a report that names these statistics for the metrics of its one system."""
    loaded = json.loads((first / "report.json").read_text())
    for metric, statistic in zip(loaded["benchmarks"][0]["systems"][0]["metrics"], statistics, strict=True):
        metric["statistic"] = statistic
    sealed = first.with_name("sealed")
    with artefact.create(sealed, KIND) as draft:
        (draft.path / "rows").mkdir()
        (draft.path / "report.json").write_text(json.dumps(loaded))
        (draft.path / "rows" / "links.one.parquet").write_bytes((first / "rows" / "links.one.parquet").read_bytes())
    return sealed


def test_a_report_made_before_scoring_had_its_name_is_compared_alike(tmp_path, results) -> None:
    first = write(tmp_path / "a", {"links": {"one": results["better"]}})
    second = write(tmp_path / "b", {"links": {"one": results["worse"]}})
    earlier = with_statistics(first, ["alphita_lab.evaluation.results:mean"] * 3)
    (pair,) = compare(earlier, second)["benchmarks"][0]["pairs"]
    assert len(pair["differences"]) == 3
    assert pair == compare(first, second)["benchmarks"][0]["pairs"][0]


def test_nothing_but_our_own_statistics_is_run(tmp_path, results) -> None:
    first = write(tmp_path / "a", {"links": {"one": results["better"]}})
    sealed = with_statistics(first, ["os:getcwd", "alphita.gone:mean", "alphita.errors:gone"])
    (pair,) = compare(sealed, first)["benchmarks"][0]["pairs"]
    assert pair["differences"] == []
    assert pair["problem"] == "cannot be worked out again from the rows: accuracy@1, accuracy@3, accuracy@5"


def test_bad_input(tmp_path, results) -> None:
    one = {"one": results["better"]}
    first = write(tmp_path / "a", {"links": one})
    with pytest.raises(InputError, match="no such report"):
        compare(first, tmp_path / "none")
    with pytest.raises(UsageError, match="share no benchmark"):
        compare(first, write(tmp_path / "b", {"other": one}))
    (first / "rows" / "links.one.parquet").unlink()
    with pytest.raises(InputError, match=r"links\.one\.parquet is missing"):
        compare(first, first)
    for name, text, problem in (
        ("torn", "{", "no readable report"),
        ("quickstart", '{"format_version": 1, "sample": {}}', "not a report of"),
        ("later", '{"format_version": 9, "benchmarks": []}', "another version"),
        ("list", "[]", "not a report of"),
    ):
        with artefact.create(tmp_path / name, KIND) as draft:
            (draft.path / "report.json").write_text(text)
        with pytest.raises(InputError, match=problem):
            compare(tmp_path / name, first)
    with artefact.create(tmp_path / "no rows", KIND) as draft:
        (draft.path / "report.json").write_bytes((first / "report.json").read_bytes())
    with pytest.raises(InputError, match="no readable rows of one on links"):
        compare(tmp_path / "no rows", tmp_path / "no rows")


def test_tables(tmp_path, results) -> None:
    first = write(tmp_path / "a", {"links": {"one": results["better"]}})
    second = write(tmp_path / "b", {"links": {"other": results["worse"]}})
    found = compare(first, second)
    console = printing.console(width=140, record=True, file=io.StringIO(), force_terminal=True, color_system="standard")
    console.print(comparison.render(found))
    text = console.export_text(styles=True)
    assert "one / other" in text
    one = found["benchmarks"][0]["pairs"][0]["differences"][0]
    # Bold: 0 lies outside the interval.
    assert one["low"] > 0
    assert f"\x1b[1m{100 * one['difference']:+.1f} [{100 * one['low']:+.1f}" in text
