from __future__ import annotations

from pathlib import Path

from alphita.encoder import learned
from alphita.encoder.encoder import TermEncoder
from tests.tiny import tiny_model


def test_a_list_tells_what_was_learned_and_goes_with_the_model(tmp_path: Path) -> None:
    asked = ["cold", "fever", "k\u00e4lte", "\ud800", ""]
    folder = tiny_model(tmp_path / "model")
    assert not learned.has_learned(folder, asked).any()
    learned.write(folder, ["fever", "\ud800", "fever", "k\u00e4lte"])
    assert learned.has_learned(folder, asked).tolist() == [False, True, True, True, False]
    TermEncoder.load(folder, precision="fp32").save(tmp_path / "copy", onnx=False)
    assert learned.has_learned(tmp_path / "copy", asked).tolist() == [False, True, True, True, False]
    assert learned.has_learned(folder, []).tolist() == []


def test_of_other_strings_few_are_taken_for_learned(tmp_path: Path) -> None:
    learned.write(tmp_path, (f"learned {number}" for number in range(100_000)))
    assert learned.has_learned(tmp_path, [f"learned {number}" for number in range(0, 100_000, 7)]).all()
    assert learned.has_learned(tmp_path, [f"new {number}" for number in range(100_000)]).mean() < 0.001
