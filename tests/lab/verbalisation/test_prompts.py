from __future__ import annotations

import json

import numpy as np
import pytest

from alphita.errors import InputError, UsageError
from alphita_lab.verbalisation import prompts as module
from alphita_lab.verbalisation.definitions import Withheld
from alphita_lab.verbalisation.prompts import estimate, prompt, prompts, read_prompts, write_prompts


def fields(text: str) -> dict[str, str]:
    task, facts = text.split("\n\n")
    assert task == module.TASK
    return dict(line.split(": ", 1) for line in facts.splitlines())


def test_a_prompt_shows_names_and_graph(small):
    assert fields(prompt(small, small.resolve("T:04"))) == {
        "Names": "mitral leak; mitral regurgitation",
        "Semantic types": "Disorder",
        "Is a kind of": "heart disease",
        "Concepts beside it": "aortic leak",
        "Finding site": "heart valve",
        "Has symptom": "breathlessness",
        "Existing definition": "Mitral leak is a backward flow of blood through a gate that does not close.",
    }
    assert fields(prompt(small, small.resolve("T:01")))["Narrower concepts"] == "mitral leak; aortic leak"
    # A map is no fact, a retired concept no neighbour; where there is no English name another is shown.
    assert set(fields(prompt(small, small.resolve("T:05")))) == {
        "Names",
        "Is a kind of",
        "Concepts beside it",
        "Finding site",
    }
    assert fields(prompt(small, small.resolve("T:08")))["Names"] == "fuite"


def test_held_out_strings_and_triples_do_not_show(small):
    pairs = np.array([[small.resolve("T:02"), small.resolve("T:04")]])
    hidden = Withheld({"mitral regurgitation", "aortic", "backward"}, pairs, small.n_concepts)
    shown = fields(prompt(small, small.resolve("T:04"), hidden))
    assert shown["Names"] == "mitral leak"
    assert set(shown) == {"Names", "Semantic types", "Is a kind of", "Has symptom"}
    parent = np.array([[small.resolve("T:01"), small.resolve("T:04")]])
    shown = fields(prompt(small, small.resolve("T:04"), Withheld((), parent, small.n_concepts)))
    assert not {"Is a kind of", "Concepts beside it"} & set(shown)
    shown = fields(prompt(small, small.resolve("T:01"), Withheld((), parent, small.n_concepts)))
    assert shown["Narrower concepts"] == "aortic leak"


def test_long_lists_are_cut(make):
    rows = [{"id": "T:000", "term": "above"}]
    rows += [{"id": f"T:{n:03}", "term": f"below {n}", "parent": "T:000"} for n in range(1, 90)]
    terminology = make(rows, [])
    assert fields(prompt(terminology, 0))["Narrower concepts"].count(";") == module.MAX_NEIGHBOURS - 1
    assert len(prompt(terminology, 50)) < len(module.TASK) + 200


def test_written_and_read_again(small, tmp_path):
    rows = [small.resolve("T:07"), small.resolve("T:03")]
    hidden = Withheld({"lone"}, None, small.n_concepts)
    assert [concept for concept, _ in prompts(small, rows, hidden)] == ["T:03"]
    file = tmp_path / "p.jsonl"
    assert write_prompts(prompts(small, rows), file) == 2
    assert json.loads(file.read_text().splitlines()[0]).keys() == {"concept_id", "prompt"}
    assert list(read_prompts(file)) == list(prompts(small, rows))
    file.write_text(file.read_text() + '{"concept_id": "T:1"}\n')
    with pytest.raises(InputError, match=r"p\.jsonl:3"):
        list(read_prompts(file))
    with pytest.raises(InputError, match="cannot be read"):
        list(read_prompts(tmp_path / "none"))


def test_estimate():
    cost = estimate(["x" * 8, "y" * 9], price_per_million_input=100.0, price_per_million_output=1000.0)
    assert (cost.prompts, cost.input_tokens, cost.output_tokens) == (2, 2 + 3, 160)
    assert cost.price == pytest.approx((5 * 100 + 160 * 1000) / 1e6)
    assert estimate([], price_per_million_input=1, price_per_million_output=1).price == 0
    with pytest.raises(UsageError, match="prices must not be negative"):
        estimate(["x"], price_per_million_input=1, price_per_million_output=-1)
