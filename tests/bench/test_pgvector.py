"""Small runs of the benches of PostgreSQL, and the judge of what readers saw."""

from __future__ import annotations

import collections
import importlib
import json
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from alphita.errors import InputError
from alphita.index.servers import Hit, pgvector

sys.path.append(str(Path(__file__).parents[2] / "bench"))
readers = importlib.import_module("pgvector_readers")
index = importlib.import_module("pgvector_index")
shared = importlib.import_module("postgres_server")


def test_readers_of_a_small_index_see_one_release_at_a_time(postgres, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(readers, "QUIET_SECONDS", 0.1)
    out = tmp_path / "r.json"
    assert readers.main(["200", "--readers", "3", "--changes", "2", "--to", postgres, "--output", str(out)]) == 0
    found = json.loads(out.read_text())
    assert (found["errors"], found["mixed"], found["backwards"]) == ({}, 0, 0)
    assert found["answers"] > 10
    assert len(found["searches_by_release"]) >= 2
    # 20 strings go and 20 come; 20 take another name.
    assert [one["strings_added"] for one in found["updates"]] == [20, 20]
    assert all(20 < one["terms_added"] == one["terms_removed"] <= 40 for one in found["updates"])
    with pgvector.connect(postgres, readers.NAME) as server, pytest.raises(InputError, match="there is no index"):
        server.facts()


@pytest.fixture(scope="module")
def made():
    return readers.Made(200, 0)


def answer(made, place: int, asked: list[int], release: str) -> list[list[Hit]]:
    terms = [made.contents[place].term(number) for number in asked]
    return [
        [Hit(shared.name(number), 1.0, *term[1:7], release)] if number in made.numbers[place] else []
        for number, term in zip(asked, terms, strict=True)
    ]


def test_wrong_answers_are_counted(made):
    asked = made.changing[:40]
    seen: collections.Counter[str] = collections.Counter()

    def counted(found: list[list[Hit]], last: int = 0) -> tuple[int, dict[str, int]]:
        seen.clear()
        return readers.judge(made, asked, found, seen, last), dict(+seen)

    old, new = answer(made, 0, asked.tolist(), "4"), answer(made, 1, asked.tolist(), "5")
    assert counted(old) == (4, {"answers": 1})
    assert counted(new, 4) == (5, {"answers": 1})
    assert counted(old, 5) == (4, {"answers": 1, "backwards": 1})
    assert counted(old[:20] + new[20:], 3) == (3, {"mixed": 1})  # two releases
    assert counted([[hit._replace(release="5") for hit in line] for line in old]) == (5, {"mixed": 1})
    assert counted([[], *new[1:]] if new[0] else [*new[:1], [], *new[2:]])[1] == {"mixed": 1}  # one is lacking
    assert counted([[] for _ in asked], 7) == (7, {"mixed": 1})
    seen.clear()
    near = [hits[0] for hits in new if hits][: readers.NEIGHBOURS]
    assert readers.judge_near(made, near, seen, 0) == 5
    assert readers.judge_near(made, near[:-1], seen, 5) == 5
    assert readers.judge_near(made, [near[0]._replace(concept_name="another"), *near[1:]], seen, 5) == 5
    assert dict(+seen) == {"answers": 1, "release 5": 1, "mixed": 2}


def test_both_contents_differ_as_said(made):
    first, second = made.numbers
    assert len(first - second) == len(second - first) == 20
    names = [{number: content.term(number).concept_name for number in first & second} for content in made.contents]
    changed = sum(names[0][number] != names[1][number] for number in first & second)
    assert changed == 20
    assert sorted(made.contents[0].strings(0, 200)) == made.contents[0].strings(0, 200)


def test_a_small_run_beside_faiss(postgres, tmp_path):
    given = SimpleNamespace(n=1500, queries=60, threads=1, seed=0, backends=["faiss"], clients=[2])
    found = index.measure(given, postgres, tmp_path)
    assert json.loads(json.dumps(found)) == found
    for name in ("faiss", "pgvector"):
        assert found[name]["recall_at_1"] >= 0.95
        assert found[name]["queries_per_second"] > 0
        assert found[name]["bytes_a_vector"] >= 768
    assert found["pgvector"]["recall_at_1_of_probes"] >= 0.99
    assert found["pgvector"]["bytes"]["vectors"] > 0
    assert found["pgvector"]["queries_per_second_by_clients"].keys() == {"2"}
    assert found["pgvector"]["copy_seconds"] + found["pgvector"]["link_seconds"] < found["pgvector"]["seconds"]


def test_a_folder_that_is_not_there_is_told(tmp_path, capsys):
    with pytest.raises(SystemExit) as end:
        index.main(["5", "--folder", str(tmp_path / "none")])
    assert end.value.code == 2
    assert "none: there is no such folder" in capsys.readouterr().err


def test_a_server_is_started_with_its_settings_and_goes():
    import psycopg

    with shared.running(None, shared_buffers="16MB") as address, psycopg.connect(address) as connection:
        assert shared.versions(connection)["shared_buffers"] == "16MB"
        folder = Path(connection.execute("SHOW data_directory").fetchone()[0])
        assert folder.exists()
    assert not folder.exists()
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(address)


def test_the_content_is_numbered():
    content = shared.MadeContent(np.eye(4), np.array([1, 3, 4, 9]), frozenset({4}))
    assert content.strings(1, 3) == ["made term 000000003", "made term 000000004"]
    assert [(row, term.concept_name) for row, term in content.terms(1, 3)] == [
        (1, "concept 1"), (2, "concept 1 by another name"),
    ]  # fmt: skip
