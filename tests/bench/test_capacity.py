"""The arithmetic of the capacity page, over made-up rates whose results can be told by hand."""

from __future__ import annotations

import importlib
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alphita.errors import UsageError
from alphita.index.store import build
from tests.doubles import HashEncoder, small_terminology

sys.path.append(str(Path(__file__).parents[2] / "bench"))
capacity = importlib.import_module("capacity")
model = importlib.import_module("capacity_model")

RATES = model.Rates(
    start=10.0, reading=1e-6, writing=3e-6, encoding=1e-3, encoding_gpu=1e-5, exact=((10_000, 2e-4),),
    approximate=((1e6, 1e-3), (1e7, 2e-3)), letters=((10_000, 5e-5),), rest=5e-5, distinct=(1e6, 1e5), heaps=0.5,
    shuffle=100.0, output=20.0, worker=1e9, vectors=1500.0, grams=300.0, texts=200.0, approximate_index=60.0,
    quantiser=((1e6, 100.0), (1e7, 1000.0)),
)  # fmt: skip
SMALL = model.Machine("small", 4, 16e9, 0, 0.5)
GPU = model.Machine("gpu", 8, 64e9, 1, 3.6)


def run(rows: float, distinct: float, seconds: float, workers: int = 1, engine: str = "processes") -> dict[str, Any]:
    phases = {"Reading": {"busy": 2.0}, "Normalising": {"busy": 50.0}, "Writing": {"busy": 4.0}}
    return {
        "engine": engine, "workers": workers, "rows": rows, "distinct": distinct, "terms": 20_000, "seconds": seconds,
        "phases": phases, "shuffle_bytes": 1e7, "output_bytes": 4e7, "worker_bytes": 5e8,
    }  # fmt: skip


def step(**changed: Any) -> dict[str, Any]:
    return {
        "terms": 20_000, "backend": "faiss", "device": "cpu", "encoding": 1e-3, "nearest": 2e-4, "letters": 1e-4,
        "bytes": {"vectors": 3e7, "grams": 2e7, "texts": 1e7}, **changed,
    }  # fmt: skip


def large(n: int, mentions: float, seconds: float) -> dict[str, Any]:
    return {
        "n": n, "threads": None, "machine": {"cores": 2}, "search": {"mentions_per_second": mentions},
        "build": {"seconds": seconds, "bytes_a_vector": 61.0},
    }  # fmt: skip


def test_a_power_law_is_laid_through_neighbouring_points() -> None:
    points = ((100.0, 1.0), (1_000.0, 10.0), (100_000.0, 100.0))
    assert model.at(points, 100) == pytest.approx(1)
    assert model.at(points, 10_000) == pytest.approx(10 * 10**0.5)
    assert model.at(points, 10_000_000) == pytest.approx(1000)  # as between the last two
    assert model.at(points, 10) == pytest.approx(0.1)
    assert model.at(tuple(reversed(points)), 1_000) == pytest.approx(10)
    assert model.at(((100.0, 2.0),), 300) == pytest.approx(6)


@given(st.floats(1, 1e9), st.floats(1.01, 10))
def test_more_rows_have_more_distinct_questions_but_a_smaller_share(rows: float, times: float) -> None:
    few, many = (model.distinct(RATES, number) for number in (rows, rows * times))
    assert few <= many <= rows * times
    assert many / (rows * times) <= few / rows * (1 + 1e-9)


def test_heaps_law_goes_through_what_was_seen() -> None:
    assert model.distinct(RATES, 1e6) == pytest.approx(1e5)
    assert model.distinct(RATES, 1e8) == pytest.approx(1e6)
    assert model.distinct(RATES, 100) == 100


def test_a_job_on_cores() -> None:
    found = model.predict(RATES, 1e6, 10_000, SMALL)
    # 1e6 rows at 4 microseconds and 1e5 questions at 1.3 ms, on 4 cores.
    assert found.seconds == pytest.approx(10 + (4 + 130) / 4)
    assert found.core_seconds["nearest"] == pytest.approx(20)
    assert found.money == pytest.approx(found.seconds / 3600 * 0.5)
    assert found.memory == pytest.approx(2e7 + 4e9)
    assert (found.shuffle, found.output) == (pytest.approx(1e7), pytest.approx(2e7))
    assert found.beyond == ()
    ten = model.predict(RATES, 1e6, 10_000, SMALL, machines=10)
    assert ten.seconds - 10 == pytest.approx((found.seconds - 10) / 10)
    assert ten.memory == found.memory
    without = model.predict(RATES, 1e6, 10_000, SMALL, letters=False)
    assert found.seconds - without.seconds == pytest.approx(5 / 4)


def test_a_job_with_a_gpu_encodes_there() -> None:
    found = model.predict(RATES, 1e6, 10_000, GPU)
    assert found.seconds == pytest.approx(10 + (4 + 30) / 8 + 1)
    with pytest.raises(ValueError, match="no encoding on a GPU"):
        model.predict(replace(RATES, encoding_gpu=None), 1e6, 10_000, GPU)


def test_a_large_index_is_searched_approximately_and_said_to_be_beyond() -> None:
    steps = model.answering(RATES, 1e7)
    assert steps["nearest"] == pytest.approx(2e-3)
    assert steps["letters"] == pytest.approx(5e-2)
    assert model.index_bytes(RATES, 1e7) == pytest.approx(2.06e10)
    assert model.index_bytes(RATES, 1e4) == pytest.approx(2e7)
    assert model.index_bytes(RATES, 1e4, half=True) == pytest.approx(1.25e7)
    assert model.index_bytes(RATES, 1e7, letters=False, half=True) == pytest.approx(1.01e10)
    assert model.predict(RATES, 1e6, 1e4, SMALL, half=True, letters=False).memory == pytest.approx(0.95e7 + 4e9)
    assert model.predict(RATES, 1e8, 1e7, SMALL).beyond == ("rows", "letters")
    assert model.predict(RATES, 1e6, 3e7, SMALL, letters=False).beyond == ("nearest",)


def test_building_an_index_takes_encoding_everywhere_and_the_quantiser_once() -> None:
    assert model.build_seconds(RATES, 1e4, SMALL) == pytest.approx(10 + 10 / 4)
    assert model.build_seconds(RATES, 1e7, SMALL, machines=10) == pytest.approx(10 + 1e4 / 40 + 1000)
    assert model.build_seconds(RATES, 1e7, GPU) == pytest.approx(10 + 100 + 1000)


def test_rates_are_taken_from_the_first_run() -> None:
    runs = [run(1e6, 3e4, 60.0), run(4e6, 6e4, 100.0, workers=2)]
    rates = model.of_runs(runs, [step(), step(device="cuda", encoding=1e-5)], [large(1_000_000, 500.0, 60.0)])
    assert rates.start == pytest.approx(4.0)
    assert (rates.reading, rates.writing) == (pytest.approx(2e-6), pytest.approx(4e-6))
    assert rates.rest == pytest.approx(50 / 3e4 - 1.3e-3)
    assert rates.heaps == pytest.approx(0.5)  # twice as many in four times the rows
    assert rates.approximate == ((1_000_000, pytest.approx(4e-3)),)
    assert rates.quantiser == ((1_000_000, 60.0),)
    assert (rates.encoding, rates.encoding_gpu) == (1e-3, 1e-5)
    assert (rates.vectors, rates.grams, rates.texts) == (1500.0, 1000.0, 500.0)
    # What the first run took is predicted for it.
    again = model.predict(rates, 1e6, 20_000, model.Machine("one", 1, 0, 0, 0), questions=3e4)
    assert again.seconds == pytest.approx(60.0)


def test_what_is_missing_is_said() -> None:
    with pytest.raises(ValueError, match="give --heaps"):
        model.of_runs([run(1e6, 3e4, 60.0)], [step()], [])
    with pytest.raises(ValueError, match="--measure INDEX"):
        model.of_runs([run(1e6, 3e4, 60.0)], [step(device="cuda")], [], heaps=0.5)
    with pytest.raises(ValueError, match="compares all"):
        model.of_runs([run(1e6, 3e4, 60.0)], [step(backend="ivf_pq")], [], heaps=0.5)


def test_predictions_are_compared_with_runs() -> None:
    runs = [
        run(1e6, 3e4, 60.0), run(1e6, 3e4, 70.0, engine="ray"), run(4e6, 6e4, 64.0, workers=2),
        run(4e6, 6e4, 80.0, workers=2, engine="ray"),
    ]  # fmt: skip
    found = capacity.check(model.of_runs(runs, [step()], []), runs)
    # 4 s of start, Ray's 14; 24 s of rows and 100 s of questions, by two.
    assert [(one["engine"], one["measured"]) for one in found] == [("processes", 64.0), ("ray", 80.0)]
    assert [one["predicted"] for one in found] == [pytest.approx(66), pytest.approx(76)]
    assert [one["ratio"] for one in found] == [pytest.approx(66 / 64), pytest.approx(0.95)]


def test_the_page_is_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib")
    (tmp_path / "runs.json").write_text(json.dumps({"runs": [run(4e6, 6e4, 64.0, 2), run(1e6, 3e4, 60.0)]}))
    (tmp_path / "steps.json").write_text(json.dumps(step()))
    (tmp_path / "gpu.json").write_text(json.dumps(step(device="cuda", encoding=1e-5)))
    (tmp_path / "large.json").write_text(json.dumps([large(1_000_000, 500.0, 60.0), large(15_000_000, 250.0, 900.0)]))
    files = {name: str(tmp_path / f"{name}.json") for name in ("runs", "steps", "gpu", "large")}
    capacity.main([
        "--runs", files["runs"], "--steps", files["steps"], files["gpu"], "--large", files["large"], "--check",
        "--rows", "1e6,1e9", "--terms", "1e5,1.5e7", "--machines", "1,10", "-o", str(tmp_path / "page"),
    ])  # fmt: skip
    text = capsys.readouterr().out
    assert text.strip() == (tmp_path / "page" / "capacity.md").read_text().strip()
    assert len([line for line in text.splitlines() if " × machine of " in line]) == 2 * 2 * 2 * 2
    assert "| processes | 2 | 4,000,000 | 60,000 | 64 s | 66 s | 1.03 |" in text
    report = json.loads((tmp_path / "page" / "capacity.json").read_text())
    assert {one["terms"] for one in report["predictions"]} == {1e5, 1.5e7}
    assert report["rates"]["heaps"] == pytest.approx(0.5)
    assert (tmp_path / "page" / "capacity.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(UsageError, match="give --runs and --steps"):
        capacity.main(["-o", str(tmp_path)])


def test_numbers_read_well() -> None:
    assert [capacity.span(seconds) for seconds in (59, 150, 7_300, 200_000)] == ["59 s", "2.5 min", "2.0 h", "2.3 d"]
    assert [capacity.size(number) for number in (2e6, 3.25e9, 1.5e12)] == ["2 MB", "3.2 GB", "1.5 TB"]
    assert [capacity.whole(number) for number in (12, 1234.5, 1e9)] == ["12", "1,230", "1,000,000,000"]


def test_steps_are_measured_on_an_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Encoder(HashEncoder):
        precision = "fp32"

    index = build(small_terminology(), Encoder(), tmp_path / "x.index")
    monkeypatch.setattr("alphita.machine.set_threads", lambda threads: threads)
    monkeypatch.setattr("alphita.encoder.encoder.TermEncoder.load", lambda path, **_: Encoder())
    found = capacity.measure(index.path, "cpu", 40, 0)
    assert (found["terms"], found["backend"], found["index"]) == (12, "faiss", index.content_hash)
    assert 10 < found["questions"] <= 40
    assert all(0 < found[name] < 1 for name in ("encoding", "nearest", "letters"))
    assert 12 * 64 * 4 < found["bytes"]["vectors"] < 12 * 64 * 4 + 200
    assert min(found["bytes"].values()) > 0
    bare = build(small_terminology(), Encoder(), tmp_path / "bare.index", letters=False)
    without = capacity.measure(bare.path, "cpu", 40, 0)
    assert (without["letters"], without["bytes"]["grams"]) == (None, 0)
    kinds = {"segments/000/vectors.npy": {"size": 1}, "segments/000/ivf_pq.faiss": {"size": 2}, "model/x": {"size": 4}}
    assert capacity.bytes_of(kinds) == {"vectors": 1, "grams": 0, "texts": 0}
