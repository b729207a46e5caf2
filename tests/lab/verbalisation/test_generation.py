from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from alphita.errors import AlphitaError, InputError, Rejects
from alphita_lab.verbalisation import generation
from alphita_lab.verbalisation.generation import generate, read_generated, wrong
from tests.lab.verbalisation.conftest import HERE
from tests.terminology.conftest import cases, read_rejects

ASKED = [(f"T:{number:02}", f"prompt {number}") for number in range(1, 8)]


def lines(path: Path) -> list[dict[str, str]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def write(path: Path, *entries: object) -> Path:
    path.write_text("".join((entry if isinstance(entry, str) else json.dumps(entry)) + "\n" for entry in entries))
    return path


class Model:
    """Answers from a list; what is an exception it raises."""

    def __init__(self, *answers: object) -> None:
        self.answers, self.asked = list(answers), []

    def __call__(self, prompt: str) -> str:
        self.asked.append(prompt)
        answer = self.answers.pop(0) if self.answers else f"The answer to {prompt}."
        if isinstance(answer, Exception):
            raise answer
        return answer  # type: ignore[return-value]


def test_answers_are_appended_and_not_asked_for_again(tmp_path):
    output = tmp_path / "new" / "g.jsonl"
    model = Model("  An answer\nof two lines. ")
    assert generate(model, ASKED[:3], output) == {"answered": 3}
    assert lines(output)[0] == {"concept_id": "T:01", "text": "An answer of two lines."}
    again = Model()
    assert generate(again, [*ASKED[:5], ASKED[0], ASKED[4]], output) == {"answered": 2, "answered before": 5}
    assert again.asked == ["prompt 4", "prompt 5"]
    assert [entry["concept_id"] for entry in lines(output)] == [concept for concept, _ in ASKED[:5]]
    assert not output.with_name("g.jsonl.rejects.jsonl").exists()


@pytest.mark.parametrize("half", ['{"concept_id": "T:03", "te', "x" * 70_000])
def test_a_half_written_line_is_dropped(tmp_path, half):
    output = tmp_path / "g.jsonl"
    generate(Model(), ASKED[:2], output)
    whole = output.read_text()
    output.write_text(whole + half)
    model = Model()
    generate(model, ASKED[:3], output)
    assert model.asked == ["prompt 3"]
    assert output.read_text().startswith(whole + '{"concept_id": "T:03"')
    output.write_text(half)
    generate(model, ASKED[:1], output)
    assert [entry["concept_id"] for entry in lines(output)] == ["T:01"]


def test_it_goes_on_after_a_kill(tmp_path):
    output = tmp_path / "g.jsonl"
    program = (
        "import os, signal, sys\n"
        "from alphita_lab.verbalisation.generation import generate\n"
        "def killed(prompt):\n"
        "    if prompt == 'prompt 8':\n        os.kill(os.getpid(), signal.SIGKILL)\n"
        "    return 'The answer to ' + prompt + '.'\n"
        "generate(killed, [(f'T:{n:02}', f'prompt {n}') for n in range(1, 501)], sys.argv[1])\n"
    )
    assert subprocess.run([sys.executable, "-c", program, str(output)]).returncode == -signal.SIGKILL
    done = output.read_bytes().count(b"\n")
    assert done == 7
    model = Model()
    wanted = [(f"T:{n:02}", f"prompt {n}") for n in range(1, done + 4)]
    assert generate(model, wanted, output) == {"answered": 3, "answered before": done}
    assert [entry["text"] for entry in lines(output)] == [f"The answer to {prompt}." for _, prompt in wanted]


def test_two_runs_do_not_write_one_file(tmp_path):
    output = tmp_path / "g.jsonl"

    def second(prompt: str) -> str:
        with pytest.raises(AlphitaError, match="another run is writing"):
            generate(Model(), ASKED, output)
        return "An answer as it should be."

    assert generate(second, ASKED[:1], output) == {"answered": 1}


def test_empty_long_and_refused_answers_are_set_aside_and_counted(tmp_path):
    output = tmp_path / "g.jsonl"
    model = Model("", None, "word " * 50, "I'm sorry, I cannot help.", "Unknown.", "A real answer.", " ... ")
    assert generate(model, ASKED, output, longest=100) == {
        "answered": 1,
        "set aside: empty": 3,
        "set aside: longer than 100 characters": 1,
        "set aside: a refusal": 2,
    }
    assert [entry["concept_id"] for entry in lines(output)] == ["T:06"]
    aside = lines(output.with_name("g.jsonl.rejects.jsonl"))
    assert [(entry["concept_id"], entry["problem"]) for entry in aside][2:4] == [
        ("T:03", "longer than 100 characters"),
        ("T:04", "a refusal"),
    ]
    # Neither are they asked for again, until their file is removed.
    again = Model()
    assert generate(again, ASKED, output) == {"answered before": 7}
    output.with_name("g.jsonl.rejects.jsonl").unlink()
    assert generate(again, ASKED, output) == {"answered": 6, "answered before": 1}


@pytest.mark.parametrize(("answer", "problem"), cases("answers.tsv", HERE))
def test_wrong_answers(answer, problem):
    assert wrong(answer) == (problem or None)


def test_half_an_emoji_costs_no_answer(tmp_path):
    model = Model("A benign tumour \ud83d of fat.", "A malignant one.")
    assert generate(model, ASKED[:2], tmp_path / "g.jsonl") == {"answered": 2}
    assert [line["text"] for line in lines(tmp_path / "g.jsonl")] == [
        "A benign tumour \ufffd of fat.",
        "A malignant one.",
    ]


def test_a_byte_order_mark_costs_no_line(small, tmp_path):
    file = tmp_path / "g.jsonl"
    file.write_text('{"concept_id": "T:07", "text": "A word that stands alone."}\n', encoding="utf-8-sig")
    assert read_generated(file, small, Rejects(strict=True)) == {"T:07": ["A word that stands alone."]}


def test_a_failing_callable_is_called_again(tmp_path, monkeypatch):
    waits: list[float] = []
    monkeypatch.setattr(generation.time, "sleep", waits.append)
    output = tmp_path / "g.jsonl"
    model = Model(OSError("down"), ValueError("odd"), "An answer at last.", *[OSError("down")] * 3, "Another answer.")
    assert generate(model, ASKED[:3], output, wait=0.5) == {"answered": 2, "failed": 1}
    assert waits == [0.5, 1.0, 0.5, 1.0]
    assert [entry["concept_id"] for entry in lines(output)] == ["T:01", "T:03"]
    # What failed is asked for by the next run.
    assert generate(Model(), ASKED[:3], output) == {"answered": 1, "answered before": 2}


def test_a_dead_service_ends_the_run_and_keeps_what_was_answered(tmp_path):
    output = tmp_path / "g.jsonl"
    model = Model("The first answer.", *[OSError("out of credit")] * 20)
    with pytest.raises(AlphitaError, match=r"5 concepts in a row, the last one T:06: OSError: out of credit"):
        generate(model, ASKED, output, attempts=2, wait=0)
    assert len(model.asked) == 11
    assert [entry["concept_id"] for entry in lines(output)] == ["T:01"]


def test_the_same_text_for_many_is_counted_and_warned_of(tmp_path, capsys):
    output = tmp_path / "g.jsonl"
    assert generate(Model(*["A disease."] * 3), ASKED[:3], output)["same text as another concept"] == 2
    assert "warning" not in capsys.readouterr().err
    assert generate(Model(*["A DISEASE"] * 3), ASKED[:6], output)["same text as another concept"] == 3
    assert "gave 5 concepts the same text: 'A DISEASE'" in capsys.readouterr().err


def test_a_file_of_something_else_is_not_added_to(tmp_path):
    for content in ('{"other": 1}\n', "no json\n"):
        output = tmp_path / "g.jsonl"
        output.write_text(content)
        with pytest.raises(InputError, match=r"g\.jsonl:1"):
            generate(Model(), ASKED, output)
        assert output.read_text() == content


def test_read(small, tmp_path):
    path = write(
        tmp_path / "g.jsonl",
        {"concept_id": "T:01", "text": " What the heart suffers from. "},
        {"concept_id": "T:02", "text": "An old answer."},
        {"concept_id": "X:99", "text": "Of a concept unknown."},
        "{half",
        "[1]",
        "",
        {"concept_id": "T:03"},
        {"concept_id": 3, "text": "No id."},
        {"concept_id": "T:04", "text": "I cannot say."},
        {"concept_id": "T:05", "text": "The same for two."},
        {"concept_id": "T:07", "text": "the same for two"},
        {"concept_id": "T:02", "text": "A new answer."},
        {"concept_id": "T:02", "text": "A new answer."},
        {"concept_id": "T:08", "text": "x" * 2000},
    )
    with Rejects(tmp_path / "r.csv") as rejects:
        assert read_generated(path, small, rejects) == {
            "T:01": ["What the heart suffers from."],
            "T:02": ["A new answer."],
        }
    told = [(int(row[1]), row[4]) for row in read_rejects(tmp_path / "r.csv")]
    assert sorted(told) == [
        (2, "line 12 has another text of this concept"),
        (3, "no concept has this id"),
        (4, "not a JSON object"),
        (5, "not a JSON object"),
        (7, "the text is empty"),
        (8, 'needs "concept_id" and "text", both strings'),
        (9, "the text is a refusal"),
        (10, "2 concepts have the same text"),
        (11, "2 concepts have the same text"),
        (14, "the text is longer than 1,500 characters"),
    ]
    assert set(read_generated(path, small)) == {"T:01", "T:02"}
    with pytest.raises(InputError, match=r"g\.jsonl:4"):
        read_generated(path, small, Rejects(strict=True))


def test_nothing_to_read(small, tmp_path):
    with pytest.raises(InputError, match="cannot be read"):
        read_generated(tmp_path / "none", small)
    for entries in ([], [{"concept_id": "X:1", "text": "Of nothing known."}]):
        with pytest.raises(InputError, match="no generated definition is left"):
            read_generated(write(tmp_path / "g.jsonl", *entries), small)
