"""Audits: a sample of the accepted rows, its file, and what the answers prove."""

from __future__ import annotations

import csv
import io
import json
import stat
from collections import Counter
from dataclasses import MISSING, fields
from itertools import combinations

import numpy as np
import pytest

from alphita.calibrate.audit import draw, read_audit, write_audit
from alphita.calibrate.risk_coverage import finite_upper_limit
from alphita.errors import InputError, UsageError
from alphita.mappings.record import Mapping

HEADER = "row,right,accepted_rows,sample_rows,output,output_hash\n"
REQUIRED = {
    "row": 1,
    "rank": 1,
    "mention": "heart attack",
    "decision": "accept",
    "method": "nearest",
    "concept_id": "X:1",
    "concept_name": "Myocardial infarction",
    "matched_term": "heart attack, acute",
    "similarity": 0.9,
    "confidence": 0.99,
}


def mapping(**values):
    missing = {field.name: None for field in fields(Mapping) if field.default is MISSING}
    return Mapping(**{**missing, **REQUIRED, **values})


def accepted(n):
    return [mapping(row=row, mention=f"mention {row}") for row in range(1, n + 1)]


class TestDraw:
    def test_only_first_lines_of_accepted_rows(self):
        lines = [
            mapping(row=1),
            mapping(row=1, rank=2, decision=None),
            mapping(row=2, decision="review"),
            mapping(row=3, decision="nil", concept_id=None),
            mapping(row=4, decision=None),
            mapping(row=5),
            mapping(row=5, rank=2, decision="accept"),
        ]
        sample = draw(iter(lines), 10)
        assert ([one.row for one in sample.mappings], sample.accepted) == ([1, 5], 2)

    def test_every_set_of_rows_is_equally_likely(self):
        lines = accepted(6)
        counts = Counter(tuple(one.row for one in draw(lines, 3, seed=seed).mappings) for seed in range(10_000))
        sets = list(combinations(range(1, 7), 3))
        assert set(counts) == set(sets)
        squares = sum((counts[one] - 500) ** 2 / 500 for one in sets)
        # Chi-squared of 19 degrees of freedom: above 43.8 once in 1,000 times.
        assert squares < 43.8

    def test_the_seed_decides(self):
        lines = accepted(1000)
        first = draw(lines, 50, seed=1)
        assert first == draw(iter(lines), 50, seed=1)
        assert first != draw(lines, 50, seed=2)
        rows = [one.row for one in first.mappings]
        assert rows == sorted(set(rows))
        assert (len(rows), first.accepted) == (50, 1000)

    def test_nothing_to_draw(self):
        with pytest.raises(InputError, match="no row of the output was accepted"):
            draw([mapping(decision="review")], 5)
        with pytest.raises(ValueError, match="1 row or more, not 0"):
            draw(accepted(3), 0)


@pytest.fixture
def output(tmp_path):
    path = tmp_path / "mapped.csv"
    path.write_text("row,mention\n1,a\n")
    return path


@pytest.fixture
def audit(tmp_path, output):
    """An audit of 20 of 200 accepted rows, unanswered."""
    path = tmp_path / "audit.csv"
    write_audit(path, draw(accepted(200), 20), output)
    return path


def answer(path, answers, *, delimiter=",", encoding="utf-8"):
    """Fill the column `right` in, as a spreadsheet would write it."""
    rows = list(csv.DictReader(io.StringIO(path.read_text(encoding="utf-8"))))
    for row, said in zip(rows, answers, strict=True):
        row["right"] = said
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), delimiter=delimiter)
    writer.writeheader()
    writer.writerows(rows)
    path.write_bytes(text.getvalue().encode(encoding))


class TestFile:
    def test_what_the_reviewer_sees(self, tmp_path, output):
        odd = mapping(row=7, mention='two\nlines, "quoted"', mention_code="A;1", explanation="equal but for one letter")
        path = tmp_path / "a.csv"
        write_audit(path, draw([odd], 5), output)
        with path.open(newline="", encoding="utf-8") as file:
            (row,) = csv.DictReader(file)
        columns = (
            "row mention_code mention concept_id concept_name matched_term similarity confidence explanation right"
        )
        assert list(row)[:10] == columns.split()
        assert (row["row"], row["mention"], row["right"]) == ("7", odd.mention, "")
        assert (row["accepted_rows"], row["sample_rows"], row["output"]) == ("1", "1", "mapped.csv")
        assert stat.S_IMODE(path.stat().st_mode) == 0o600

    def test_answers_are_not_overwritten(self, audit, output):
        before = audit.read_bytes()
        with pytest.raises(UsageError, match="already exists"):
            write_audit(audit, draw(accepted(5), 5), output)
        assert audit.read_bytes() == before
        write_audit(audit, draw(accepted(5), 5), output, force=True)
        assert audit.read_bytes() != before


class TestRead:
    def test_the_certificate(self, audit, output):
        answer(audit, ["yes"] * 17 + ["no"] * 2 + [""])
        found = read_audit(audit, output=output)
        assert (found.output, found.accepted, found.sampled, found.wrong, found.unanswered) == (
            "mapped.csv",
            200,
            20,
            2,
            1,
        )
        assert found.observed == pytest.approx(3 / 20)
        assert found.most_wrong == finite_upper_limit(3, 20, 200)
        assert found.bound == found.most_wrong / 200
        assert json.loads(json.dumps(found.to_json()))["bound"] == found.bound
        assert found.text() == (
            f"At most {100 * found.bound:g}% of the 200 accepted rows of mapped.csv are wrong, with 95% confidence "
            "(20 drawn at random, 2 wrong, 1 unanswered and counted as wrong)."
        )
        stricter = read_audit(audit, delta=0.01)
        assert stricter.bound > found.bound
        assert "99% confidence" in stricter.text()

    @pytest.mark.parametrize(
        ("n", "size", "answers", "most_wrong", "shown"),
        [(700, 300, ["yes"], 5, "0.72%"), (8, 50, ["no", "yes"], 4, "50%")],
    )
    def test_the_sentence_rounds_upwards(self, tmp_path, output, n, size, answers, most_wrong, shown):
        path = tmp_path / "a.csv"
        write_audit(path, draw(accepted(n), size), output)
        answer(path, answers * (min(n, size) // len(answers)))
        found = read_audit(path)
        assert (found.most_wrong, found.bound) == (most_wrong, most_wrong / n)
        assert found.text().split()[2] == shown
        assert "unanswered" not in found.text()

    @pytest.mark.parametrize("said", [("Yes", "NO"), ("y", "n"), ("TRUE", "False"), ("1", "0"), (" yes ", "no\t")])
    def test_ways_to_say_it(self, audit, said):
        answer(audit, [said[0]] * 15 + [said[1]] * 5)
        assert (read_audit(audit).wrong, read_audit(audit).unanswered) == (5, 0)

    @pytest.mark.parametrize(
        ("delimiter", "encoding"), [(";", "utf-8-sig"), ("\t", "utf-8"), (";", "cp1252"), (",", "utf-8-sig")]
    )
    def test_as_spreadsheets_save_it(self, tmp_path, output, delimiter, encoding):
        path = tmp_path / "a.csv"
        write_audit(path, draw([mapping(row=1, mention="œdème"), mapping(row=2)], 2), output)
        answer(path, ["yes", "no"], delimiter=delimiter, encoding=encoding)
        assert read_audit(path).wrong == 1

    def test_the_limit_holds_in_95_of_100_audits(self, tmp_path):
        rng = np.random.default_rng(0)
        population = np.arange(500) < 40
        held = 0
        for _ in range(1500):
            wrong = int(rng.choice(population, 60, replace=False).sum())
            held += finite_upper_limit(wrong, 60, 500) >= 40
        # At least 95%, less four standard errors; and not always, or it would be no limit.
        assert 0.95 - 4 * (0.95 * 0.05 / 1500) ** 0.5 <= held / 1500 < 1


def damaged(audit, output, how):
    """Fill the audit in, and harm it."""
    answer(audit, ["yes"] * 10 + ["perhaps" if how == "answer" else "" if how == "none" else "yes"] + [""] * 9)
    if how == "none":
        answer(audit, [""] * 20)
    lines = audit.read_text().splitlines(keepends=True)
    if how == "another sample":
        other = audit.with_name("other.csv")
        write_audit(other, draw(accepted(300), 20), output)
        lines.append(other.read_text().splitlines(keepends=True)[-1])
    elif how == "taken out":
        lines = lines[:-3]
    elif how == "twice":
        lines = [*lines[:-1], lines[1]]
    elif how == "output":
        output.write_text("row,mention\n1,b\n")
    audit.write_text("".join(lines))


class TestBad:
    @pytest.mark.parametrize(
        ("how", "message"),
        [
            ("answer", r"audit.csv:12: .*neither yes nor no \(field 'right', value 'perhaps'\)"),
            ("none", "no row has been answered yet"),
            ("taken out", "17 rows, but 20 of 200 were drawn; leave every row"),
            ("twice", r"audit.csv:21: a row stands twice \(field 'row'"),
            ("another sample", r"audit.csv:22: rows of different samples \(field 'accepted_rows'"),
            ("output", "not the one that the sample was drawn from"),
        ],
    )
    def test_a_sample_that_was_harmed(self, audit, output, how, message):
        damaged(audit, output, how)
        with pytest.raises(InputError, match=message):
            read_audit(audit, output=output)

    @pytest.mark.parametrize(
        ("content", "message"),
        [
            ("", "the file is empty"),
            ("row,wright\n", r":1: has no column 'right'; did you mean 'wright'"),
            (HEADER, "no rows"),
            (HEADER + "1,yes\n", ":2: 2 cells, but the header has 6"),
            (HEADER + "x,yes,9,1,o,h\n", r":2: not a whole .*'row'.*'x'"),
            (HEADER + "1,yes,9.0,1,o,h\n", "'accepted_rows'.*'9.0'"),
            (HEADER + "1,yes,0,1,o,h\n", "1 rows, but 1 of 0"),
            (HEADER + '"1"x,yes,1,1,o,h\n', r":2: not a row of a table"),
        ],
    )
    def test_not_an_audit(self, tmp_path, content, message):
        path = tmp_path / "a.csv"
        path.write_text(content)
        with pytest.raises(InputError, match=message):
            read_audit(path)
