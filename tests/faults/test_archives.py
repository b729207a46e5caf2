"""Archives that are made to do harm: names that lead outside, links, and bombs.

Nothing is unpacked on disk, so that no name leads anywhere; what grows beyond all measure is refused, or read piece by
piece: no reader takes 2 GB.
"""

from __future__ import annotations

import gzip
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from alphita import textio, workbooks
from alphita.errors import AlphitaError, InputError, Rejects
from alphita.jobs.reading import MentionFile
from alphita.terminology.loaders import _files, icd10cm, obographs, table
from alphita_lab.training.text import corpora
from alphita_lab.verbalisation.generation import read_generated
from alphita_lab.verbalisation.prompts import read_prompts
from tests.books import book
from tests.doubles import SmallTerminology

MAX_BYTES = 2 * 2**30
# A bomb, unpacked: more than any reader may take.
BOMB = 3 * 2**30
BLOCK = 2**24
# Of lines of two characters a 96th, for a billion of them take hours: 17 million, which none may hold as rows.
SHORT_LINES = b'"\n'

READ_MENTIONS = """
from alphita.jobs.reading import MentionFile
for row in MentionFile(sys.argv[1], column=sys.argv[2] or None).rows():
    pass
"""
READ_TERMS = """
from pathlib import Path
from alphita.errors import Rejects
from alphita.terminology.loaders import {loader}
{loader}.load([Path(sys.argv[1])], {loader}.Options(), Rejects())
"""
READ_MAPPINGS = """
from pathlib import Path
from alphita.errors import Rejects
from alphita.mappings.formats import Header, {format}
for row in {format}.read(Path(sys.argv[1]), Header(), Rejects()):
    pass
"""
READ_SSSOM = """
from pathlib import Path
from alphita.errors import Rejects
from alphita.terminology import sssom
sssom.read(Path(sys.argv[1]), Rejects())
"""
READ_CORPUS = """
from pathlib import Path
from alphita_lab.training.text import corpora
for document in corpora.documents([Path(sys.argv[1])]):
    pass
"""
READ_SCORED = """
from pathlib import Path
from alphita.errors import Rejects
from alphita_lab.training.sentences import scored_pairs
scored_pairs.read(Path(sys.argv[1]), Rejects())
"""
READ_VECTORS = """
from pathlib import Path
from alphita_lab.evaluation.systems.word_vectors import WordVectorSystem
WordVectorSystem(Path(sys.argv[1]), lower=True, limit=None, name="x").encode(["fever"])
"""
READ_CONCEPT_VECTORS = """
from pathlib import Path
from alphita_lab.evaluation.systems.concept_vectors import ConceptVectorSystem
ConceptVectorSystem(Path(sys.argv[1]), name="x")
"""
READ_ATHENA = """
from pathlib import Path
from alphita.mappings.formats import omop
omop.load_concepts(Path(sys.argv[1]), ["OMOP:1"])
"""
PROGRAM = """
import resource, sys
# So that this machine does not suffer from what is not refused.
resource.setrlimit(resource.RLIMIT_AS, (8 * 2**30, 8 * 2**30))
from alphita.errors import AlphitaError
try:
{body}
except AlphitaError as error:
    print("error:", str(error)[:300])
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
"""


def zipped(path: Path, **members: bytes) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


@pytest.mark.parametrize(
    "name", ["../../out.csv", "{outside}/out.csv", "a/../../out.csv", "C:\\out.csv", "..\\out.csv"]
)
def test_names_that_lead_outside_lead_nowhere(tmp_path: Path, name: str) -> None:
    below = tmp_path / "a" / "b"
    below.mkdir(parents=True)
    outside = tmp_path / "outside"
    outside.mkdir()
    archive = zipped(below / "x.zip", **{name.format(outside=outside): b"id,term\nX:1,Fever\n"})
    tables = table.load([archive], table.Options(), Rejects(strict=True))
    assert tables.terms["string"].to_list() == ["Fever"]
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["x.zip"]


def test_a_workbook_with_names_that_lead_outside_is_read_or_refused(tmp_path: Path) -> None:
    book(tmp_path / "good.xlsx", A=[["mention"], ["fever"]])
    with zipfile.ZipFile(tmp_path / "good.xlsx") as good, zipfile.ZipFile(tmp_path / "bad.xlsx", "w") as bad:
        for entry in good.infolist():
            bad.writestr(entry, good.read(entry).replace(b"worksheets/sheet1.xml", b"../../../etc/passwd"))
        bad.writestr("../outside.xml", "<a/>")
    try:
        rows = [row.mention for row in MentionFile(tmp_path / "bad.xlsx").rows()]
    except AlphitaError:
        rows = []
    assert rows in ([], ["fever"])
    assert not (tmp_path.parent / "outside.xml").exists()


def bomb_of(kind: str, path: Path, begin: bytes, block: bytes) -> None:
    """Write a file of some kilobytes that unpacks to `begin` and `BOMB` bytes of `block`."""

    def pour(file: object) -> None:
        file.write(begin)  # type: ignore[attr-defined]
        for _ in range(size // BLOCK):
            file.write(block)  # type: ignore[attr-defined]

    size = BOMB // 96 if block == SHORT_LINES else BOMB
    block = block * (BLOCK // len(block))
    if kind == "gz":
        with gzip.open(path, "wb", compresslevel=1) as packed:
            pour(packed)
    else:
        with (
            zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
            archive.open(kind, "w", force_zip64=True) as member,
        ):
            pour(member)


def peak(program: str, *words: str | Path) -> tuple[int, str]:
    """Run a program; return the most memory that it took, and what it printed."""
    body = "\n".join(f"    {line}" for line in program.strip().splitlines())
    command = [sys.executable, "-c", PROGRAM.format(body=body), *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2_000:] or done.returncode
    return int(done.stdout.split()[-1]), done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("block", [b"\0", b"a", SHORT_LINES], ids=["nul", "line", "quote"])
@pytest.mark.parametrize(
    ("name", "program", "begin"),
    [
        ("x.csv.gz", READ_MENTIONS, b"mention,x\n"),
        ("x.jsonl.gz", READ_MENTIONS, b'{"mention": "'),
        ("x.tsv.gz", READ_TERMS.format(loader="table"), b"id\tterm\nX:1\tFever\n"),
        ("x.obo.gz", READ_TERMS.format(loader="obo"), b'format-version: 1.2\n\n[Term]\nid: X:1\nname: Fever\ndef: "'),
        ("x.json.gz", READ_TERMS.format(loader="obographs"), b'{"graphs": [{"nodes": ["'),
        ("x.xml.gz", READ_TERMS.format(loader="icd10cm"), b'<?xml version="1.0"?><ICD10CM.tabular><chapter name="'),
        ("x.xml.gz", READ_TERMS.format(loader="icd10cm"), b'<?xml version="1.0"?><ICD10CM.tabular>'),
        ("x.sssom.tsv.gz", READ_SSSOM, b"subject_id\tpredicate_id\tobject_id\nA:1\tskos:exactMatch\tB:1\n"),
        ("x.txt.gz", READ_CORPUS, b"Fever.\n"),
        ("x.jsonl.gz", READ_CORPUS, b'{"text": "'),
        ("x.tsv.gz", READ_SCORED, b"sentence1\tsentence2\tscore\na\tb\t1.0\n"),
        ("x.txt.gz", READ_VECTORS, b"fever 0.1 0.2\n"),
        ("x.txt.gz", READ_CONCEPT_VECTORS, b"C0000001 0.1 0.2\n"),
        ("CONCEPT.csv.gz", READ_ATHENA, b"concept_id\tdomain_id\tvocabulary_id\tconcept_code\n"),
    ],
    ids=[
        *("csv", "jsonl", "table", "obo", "obographs", "tag", "text of a tag", "sssom"),
        *("text", "text lines", "scored pairs", "word vectors", "concept vectors", "athena"),
    ],
)
def test_a_gzip_bomb(tmp_path: Path, name: str, program: str, begin: bytes, block: bytes) -> None:
    bomb_of("gz", tmp_path / name, begin, block)
    most, said = peak(program, tmp_path / name, "mention" if program is READ_MENTIONS else "")
    assert most < MAX_BYTES, said


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["long string", "many rows"])
def test_a_parquet_bomb(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "x.parquet"
    if kind == "long string":
        # 8,192 rows of a dictionary's one string of 16 MB: each row is that string again.
        column = pa.DictionaryArray.from_arrays(pa.array(np.zeros(8_192, np.int32)), pa.array(["a" * 2**24]))
        pq.write_table(pa.table({"mention": column}), path, compression="zstd")
    else:
        rows = pa.DictionaryArray.from_arrays(pa.array(np.zeros(10**8, np.int32)), pa.array(["fever"]))
        pq.write_table(pa.table({"mention": rows}), path, row_group_size=10**8)
    some = READ_MENTIONS.replace("pass", "\n    if row.number > 200_000: break")
    mappings = READ_MAPPINGS.format(format="parquet").replace("pass", "\n    if row.row > 200_000: break")
    for program in (some, mappings, READ_TERMS.format(loader="table")):
        most, said = peak(program, path, "mention")
        assert most < MAX_BYTES, said


@pytest.mark.parametrize("packed", [False, True])
def test_what_is_read_whole_has_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, packed: bool) -> None:
    monkeypatch.setattr(textio, "MAX_WHOLE_BYTES", 1_000)
    monkeypatch.setattr(_files, "MAX_WHOLE_BYTES", 1_000)
    path = tmp_path / "x.json.gz"
    for size, problem in ((1_000, "not JSON|no node"), (1_001, "and it is read whole")):
        content = b"[" + b" " * (size - 2) + b"]"
        path.write_bytes(gzip.compress(content) if packed else content)
        if packed:
            if size > 1_000:
                with pytest.raises(InputError, match=problem):
                    textio.read_text(path)
            else:
                assert len(textio.read_text(path)) == size
        with pytest.raises(InputError, match=f"{problem}|graphs"):
            obographs.load([path], obographs.Options(), Rejects())


def test_a_workbook_has_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = book(tmp_path / "x.xlsx", A=[["mention"], *(["fever"] for _ in range(500))])
    assert len(list(MentionFile(path).rows())) == 500
    monkeypatch.setattr(workbooks, "MAX_UNPACKED_BYTES", 10_000)
    with pytest.raises(InputError, match="the workbook unpacks to more than"):
        list(MentionFile(path).rows())


def test_a_line_has_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(textio, "MAX_LINE_CHARACTERS", 10)
    (tmp_path / "x").write_text("a" * 10 + "\n" + "b" * 9 + "\n")
    with pytest.raises(InputError, match="a line of more than") as caught:
        list(textio.streamed(tmp_path / "x"))
    assert caught.value.line == 1
    (tmp_path / "x").write_text("a" * 9 + "\n" + "b" * 10)
    assert [len(line) for _, line in textio.streamed(tmp_path / "x")] == [10, 10]


@pytest.mark.parametrize(
    ("name", "read"),
    [
        ("x.jsonl", read_prompts),
        ("x.jsonl", lambda path: read_generated(path, SmallTerminology([("T:1", "Headache", "exact")]))),
        ("x.jsonl", lambda path: corpora.documents([path])),
        ("x.csv", lambda path: table.load([path], table.Options(encoding="utf-16"), Rejects())),
    ],
    ids=["prompts", "answers", "corpus", "utf-16"],
)
def test_a_line_has_an_end_for_every_reader(
    name: str, read: Callable[[Path], Iterable[object]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(textio, "MAX_LINE_CHARACTERS", 50)
    (tmp_path / name).write_text("a" * 51, encoding="utf-16" if name == "x.csv" else "utf-8")
    with pytest.raises(InputError, match="a line of more than") as caught:
        list(read(tmp_path / name))
    assert caught.value.line == 1


def test_xml_has_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(icd10cm, "_BYTES_AT_ONCE", 20)
    monkeypatch.setattr(_files, "MAX_LINE_BYTES", 40)
    for told, content in {
        "a text or tag of more than": ("a" * 90, f"<chapter name='{'a' * 90}'/>", f"<!--{'a' * 90}-->"),
        "an element within 100 others": ("<a>" * 101,),
    }.items():
        for inside in content:
            (tmp_path / "x.xml").write_text(f'<?xml version="1.0"?>\n<ICD10CM.tabular>{inside}</ICD10CM.tabular>')
            with pytest.raises(InputError, match=told):
                icd10cm.load([tmp_path / "x.xml"], icd10cm.Options(), Rejects())
