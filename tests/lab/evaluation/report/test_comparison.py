from __future__ import annotations

import io
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

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


BETTER, WORSE = linking_result(0.7, 1), linking_result(0.3, 2)


def changed(result: Result, change: Callable[[pl.DataFrame], pl.DataFrame]) -> Result:
    return Result(change(result.rows), result.metrics)


def pair_of(folder: Path, ours: Result, theirs: Result, **names: str) -> dict[str, Any]:
    """Compare two reports of one system each."""
    write(folder / "a", {"links": {names.get("first", "one"): ours}})
    write(folder / "b", {"links": {names.get("second", "one"): theirs}})
    (benchmark,) = compare(folder / "a", folder / "b", seed=3)["benchmarks"]
    (pair,) = benchmark["pairs"]
    return pair


def printed(found: dict[str, Any], **options: Any) -> str:
    console = printing.console(width=400, record=True, file=io.StringIO(), **options)
    console.print(comparison.render(found))
    return console.export_text(styles=bool(options))


def test_differences_are_those_of_a_run(tmp_path) -> None:
    pair = pair_of(tmp_path, BETTER, WORSE, second="other")
    json.dumps(pair, allow_nan=False)
    assert (pair["first"], pair["second"], pair["problem"]) == ("one", "other", None)
    assert pair["differences"] == paired(BETTER, WORSE, seed=3)
    assert [one["metric"] for one in pair["figures"]] == ["accuracy@1", "accuracy@3", "accuracy@5"]
    found = compare(tmp_path / "a", tmp_path / "b")
    assert found["benchmarks"][0]["options"] == found["benchmarks"][0]["data"] == found["provenance"] == {}
    text = printed(found, force_terminal=True, color_system="standard")
    assert "one / other" in text
    one = found["benchmarks"][0]["pairs"][0]["differences"][0]
    # Bold: 0 lies outside the interval.
    assert f"\x1b[1m{100 * one['difference']:+.1f} [{100 * one['low']:+.1f}" in text


def test_systems_are_paired_by_name_and_what_differs_is_told(tmp_path) -> None:
    first = {"x/y": BETTER, "gone": WORSE}
    options = {"k": 5, "deep": {"x": 1, "y": 2}}
    write(tmp_path / "a", {"links": first, "left": first}, options=options)
    data = {"links/a.txt": "3" * 64, "right/b.txt": "4" * 64, "terminology": "2" * 64}
    second = {"new": WORSE, "x/y": WORSE}
    write(tmp_path / "b", {"links": second, "right": second}, options={"k": 7, "deep": {"x": 1}}, data=data)
    found = compare(tmp_path / "a", tmp_path / "b")
    assert (found["only_first"], found["only_second"]) == (["left"], ["right"])
    (benchmark,) = found["benchmarks"]
    assert [(pair["first"], pair["second"]) for pair in benchmark["pairs"]] == [("x/y", "x/y")]
    assert (benchmark["only_first"], benchmark["only_second"]) == (["gone"], ["new"])
    assert benchmark["options"] == {"k": [5, 7], "deep.y": [2, None]}
    assert benchmark["data"] == {"links/a.txt": ["1" * 64, "3" * 64]}
    text = printed(found)
    assert "Options differ: k: 5 / 7; deep.y: 2 / –." in text
    assert f"Data differ: links/a.txt: {'1' * 12} / {'3' * 12}." in text
    assert "Only named or run in the first: left." in text
    assert "Only in the second report: new." in text


OTHER_GOLD = pl.when(pl.col("query") == 7).then(pl.lit("Y")).otherwise("gold").alias("gold")


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda rows: rows.head(50), "different rows: 60 and 50"),
        (pl.DataFrame.reverse, "60 of 60 differ in query, first row 1: 0 and 59"),
        (lambda rows: rows.with_columns(OTHER_GOLD), "1 of 60 differ in gold, first row 8: 'X:0' and 'Y'"),
        (lambda rows: rows.with_columns(pl.col("query").cast(pl.String)), "column query holds Int64 and String"),
    ],
)
def test_rows_that_are_not_the_same_are_not_paired(tmp_path, change, problem) -> None:
    other = changed(WORSE, change)
    pair = pair_of(tmp_path, BETTER, other)
    assert problem in pair["problem"]
    assert pair["differences"] == []
    shares = [float(other.rows[f"right@{k}"].mean()) for k in (1, 3, 5)]
    assert [one["second"] for one in pair["figures"]] == pytest.approx(shares)
    assert "no paired difference" in printed(compare(tmp_path / "a", tmp_path / "b"))


@pytest.mark.parametrize("column", ["anchor", "synonym", "other", "title", "attribute", "value", "written"])
def test_every_column_that_asks_is_compared(tmp_path, column) -> None:
    one, another = (
        changed(BETTER, lambda rows, asked=asked: rows.with_columns(pl.lit(asked).alias(column)))
        for asked in ("one", "another")
    )
    assert f"60 of 60 differ in {column}, first row 1: 'one' and" in pair_of(tmp_path, one, another)["problem"]


@pytest.mark.parametrize("answers", [[[True], [False, True]], [0.5, 0.25], [[], [True]]])
def test_what_systems_answer_may_differ(tmp_path, answers) -> None:
    others = {"predicted": pl.lit(["Z"]), "matched": pl.lit(["z"]), "gold_name": pl.lit("elsewhere"), "overlap": 0.5}
    one, other = (
        changed(result, lambda rows, answer=answer: rows.with_columns(pl.Series("right", [answer] * 60)))
        for result, answer in zip((BETTER, WORSE), answers, strict=True)
    )
    pair = pair_of(tmp_path, one, changed(other, lambda rows: rows.with_columns(**others, covered=True)))
    assert pair["problem"] is None
    assert pair["differences"][0]["difference"] > 0.3


def resealed(path: Path, change: Callable[[dict[str, Any]], None] | None, *, rows: bool = True) -> Path:
    """Return a copy of a report of one system, changed."""
    report = json.loads((path / "report.json").read_text())
    if change is not None:
        change(report["benchmarks"][0]["systems"][0])
    sealed = path.with_name("sealed")
    with artefact.create(sealed, KIND, force=True) as draft:
        (draft.path / "report.json").write_text(json.dumps(report))
        if rows:
            shutil.copytree(path / "rows", draft.path / "rows")
    return sealed


def test_nothing_but_our_own_statistics_is_run(tmp_path) -> None:
    statistics = [
        "os:getcwd",
        "alphita_lab.evaluation.scoring.gone:mean",
        "alphita_lab.evaluation.scoring.results:gone",
    ]
    pair_of(tmp_path, BETTER, WORSE)

    def change(system: dict[str, Any]) -> None:
        for metric, statistic in zip(system["metrics"], statistics, strict=False):
            metric["statistic"] = statistic

    (found,) = compare(resealed(tmp_path / "a", change), tmp_path / "b", seed=3)["benchmarks"][0]["pairs"]
    assert found["differences"] == []
    assert found["problem"] == "cannot be worked out again from the rows: accuracy@1, accuracy@3, accuracy@5"


def test_a_statistic_that_has_no_name_or_column_is_told(tmp_path) -> None:
    odd = Metric("odd", ("right@1", "right@3"), lambda values: float(values.max()))
    result = Result(BETTER.rows, (*BETTER.metrics, odd))
    pair = pair_of(tmp_path, result, result)
    assert [one["metric"] for one in pair["differences"]] == ["accuracy@1", "accuracy@3", "accuracy@5"]
    assert pair["problem"] == "cannot be worked out again from the rows: odd"
    lacking = resealed(tmp_path / "a", lambda system: system["metrics"][0].update(columns=["gone"]))
    assert "the rows lack the column gone" in compare(lacking, lacking)["benchmarks"][0]["pairs"][0]["problem"]


def test_bad_input(tmp_path) -> None:
    first = write(tmp_path / "a", {"links": {"one": BETTER}})
    with pytest.raises(InputError, match="no such report"):
        compare(first, tmp_path / "none")
    with pytest.raises(UsageError, match="share no benchmark"):
        compare(first, write(tmp_path / "b", {"other": {"one": BETTER}}))
    without = resealed(first, None, rows=False)
    with pytest.raises(InputError, match="no readable rows of one on links"):
        compare(without, without)
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
