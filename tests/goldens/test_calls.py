"""Wrong calls of every command: the exit code and what is said."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.cli.command import alphita
from tests.goldens.golden import Table, masked

FIXTURES = Path(__file__).parents[1] / "fixtures"
# A new call is a line of calls.tsv, whose other cells ALPHITA_UPDATE_GOLDENS=1 fills in.
CALLS = [line.split("\t")[0] for line in Path(__file__).with_name("calls.tsv").read_text("utf-8").splitlines()[1:]]
TABLE = Table("calls", ("call", "exit", "said"), CALLS)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("calls")
    (folder / "words.csv").write_text("mention,code\nsore toe,1\n")
    (folder / "text.txt").write_text("a sore toe\n")
    (folder / "concepts.csv").write_text("id,term\nT:1,toe ache\nT:2,headache\n")
    pq.write_table(pa.table({"mention": ["sore toe"]}), folder / "in.parquet")
    (folder / "serve.toml").write_text('prot = 8081\nto = "hpo"\n')
    shutil.copy(FIXTURES / "terminology" / "small.obo", folder)
    (folder / "benchmarks").symlink_to(FIXTURES / "benchmarks")
    assert alphita("terminology", "import", "table", folder / "concepts.csv", "-o", folder / "X.terminology") == 0
    return folder


@pytest.mark.parametrize("call", CALLS)
def test_wrong_calls(
    call: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setattr("alphita.machine.set_threads", lambda threads: threads or 1)
    before = sorted(folder.iterdir())
    code = alphita(*call.split())
    # Of click's boxes the words, without how it is used.
    said = " ".join(re.sub(r"[\u2500-\u257f]", " ", masked(capsys.readouterr().err, folder)).split())
    said = said.partition(" Error: ")[2] or said
    # Long lists of choices grow with every new one.
    said = re.sub(r"(choose from \[|Possible options: )[^])]{40,}", r"\1…", said)
    assert TABLE.row(call, (str(code), said)) == (str(code), said)
    assert code, f"{call} is right"
    assert [path for path in folder.iterdir() if path not in before and path.suffix != ".csv"] == []
