"""One contract over every format: what is written is read again, however odd; what is not is counted."""

from __future__ import annotations

import csv
import math
from collections import Counter
from dataclasses import astuple, replace
from itertools import chain, groupby, pairwise
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alphita import registry
from alphita.errors import InputError, Rejects, UsageError
from alphita.mappings.formats import Header, chosen, day_of, lost_anew
from alphita.mappings.record import COLUMNS, OF_FILES, OMOP, Mapping
from alphita.textio import UNCLOSED
from tests.mappings import sample

PACKAGE = "alphita.mappings.formats"
NAMES = registry.names(PACKAGE)
PLAIN = ["csv", "jsonl", "parquet", "tsv"]
READ = [name for name in NAMES if registry.load(PACKAGE, name).READS]
# A workbook holds text, but not every text.
TABLES = [*PLAIN, "xlsx"]
OTHERS = [name for name in READ if name not in TABLES]

METHODS = st.sampled_from(["exact", "abbreviation", "nearest"])
RELATIONS = st.sampled_from(["exact", "broad", "narrow", "related"])
STATUSES = st.sampled_from(["unreviewed", "approved", "rejected", "flagged", "ignored"])
TYPES = st.sampled_from(["maps_to", "maps_to_value"])
ROUTES = st.sampled_from(["exact", "letters", "vectors", "letters|vectors"])
text = sample.ODD
filled = text.filter(bool)
share = st.floats(0, 1).map(lambda x: round(x, 6) + 0.0)
CHOSEN = {"row", "mention", "rank", "method", "relation", "routes", "status", "mapping_type", "concept_id"} | set(
    OF_FILES
)
TEXTS = [name for name in COLUMNS if name not in CHOSEN | {"similarity", "confidence", "frequency", "omop_concept_id"}]
line = st.builds(
    Mapping,
    row=st.integers(1, 2**40),
    mention=filled,
    rank=st.integers(1, 3),
    concept_id=st.none() | st.sampled_from(["HP:0000001", "HP:0000002"]),
    similarity=st.none() | share | share.map(lambda x: -x),
    confidence=st.none() | share,
    method=METHODS,
    relation=st.none() | RELATIONS,
    routes=st.none() | ROUTES,
    frequency=st.none() | st.integers(0, 2**40),
    omop_concept_id=st.none() | st.integers(0, 2**40),
    status=STATUSES,
    mapping_type=TYPES,
    mention_vocabulary=st.none() | st.sampled_from(["LOCAL", "OTHER", "https://example.org/codes"]),
    extra=st.none() | st.sampled_from(['{"createdBy": "ben"}', '{"predicate_id": "owl:sameAs", "x": ""}']),
    **{name: st.none() | filled for name in TEXTS},
).map(lambda one: one if one.concept_id else replace(one, method="nil", relation=None, routes=None))


@pytest.mark.parametrize("name", NAMES)
def test_each_is_told_by_its_endings_and_by_its_own_name(name):
    module = registry.load("alphita.mappings.formats", name)
    endings = {suffix.rpartition(".")[2] for suffix in module.SUFFIXES}
    for suffix in (*module.SUFFIXES, *(f".{name}.{ending}" for ending in endings - {name})):
        assert chosen(Path(f"a.b{suffix}".upper()), "", "--format") is module


@pytest.mark.parametrize("name", PLAIN)
@settings(max_examples=40, deadline=None)
@given(lines=st.lists(line, max_size=6))
def test_a_plain_table_holds_everything(tmp_path_factory, name, lines):
    module = registry.load(PACKAGE, name)
    header = Header(columns=COLUMNS)
    out = sample.write(module, header, lines, tmp_path_factory.mktemp("format") / "out", pieces=2)
    back = sample.read(module, header, out) if lines or name != "jsonl" else []
    assert [astuple(one) for one in back] == [astuple(one) for one in lines]
    assert module.losses(header, lines) == {}


def differing(one: Mapping, other: Mapping) -> set[str]:
    """Return the fields that a reader finds changed; a number within rounding is not."""
    found = set()
    for name in COLUMNS:
        left, right = getattr(one, name), getattr(other, name)
        # That the codes of a file have one vocabulary is no loss, and extras are counted by their names.
        is_gain = name == "mention_vocabulary" and left is None
        if name in ("row", "extra", *OMOP) or left == right or is_gain:
            continue
        if isinstance(left, float) and isinstance(right, float) and math.isclose(left, right, abs_tol=0.0051):
            continue
        found.add(name)
    return found


@pytest.mark.parametrize("name", OTHERS)
@settings(max_examples=60, deadline=None)
@given(lines=st.lists(line, max_size=6))
def test_the_file_differs_from_what_was_written_by_the_counted_losses(tmp_path_factory, name, lines):
    module, head = registry.load(PACKAGE, name), sample.header()
    lines = [replace(one, row=at, mention_code=f"c{at}") for at, one in enumerate(lines, 1)]
    out = sample.write(module, head, lines, tmp_path_factory.mktemp("format") / "out", pieces=2)
    # Usagi keeps the ids of further candidates; here every mention has one mapping only.
    back = {one.mention_code: one for one in sample.read(module, head, out)}
    counts: Counter[str] = Counter()
    for one in lines:
        if one.mention_code in back:
            found = back.pop(one.mention_code)
            if found.concept_id and found.concept_id.startswith("OMOP:"):
                assert found.concept_id == f"OMOP:{sample.OMOP[one.concept_id].omop_concept_id}"
                found = replace(found, concept_id=one.concept_id)
            assert found.concept_id == one.concept_id
            counts.update(differing(one, found))
        else:
            counts["not there"] += 1
    assert not back
    said = module.losses(head, lines)
    extras = {word.partition(" ")[0] for one in lines for word in one.extras}
    words = sum(number for what, number in said.items() if what.partition(" ")[0] not in {*COLUMNS, *extras})
    assert {what: number for what, number in said.items() if what in COLUMNS} == {
        what: number for what, number in counts.items() if what != "not there"
    }
    assert words == counts["not there"]
    assert {what for what in counts if what != "not there"} <= set(module.LOSSES)


NOT_HELD = ["fhir_r5", "omop"]


@pytest.mark.parametrize("name", [name for name in READ if name not in NOT_HELD])
def test_a_nil_keeps_its_nearest_concept_which_is_no_answer(tmp_path, name):
    module, head = registry.load(PACKAGE, name), sample.header()
    nil = sample.mapping("no toe", None, mention_code="c", nearest_id="HP:0000001", nearest_name="Toe (left)")
    first, *others = sample.read(module, head, sample.write(module, head, [nil], tmp_path / "out"))
    assert (first.concept_id, first.comment) == (None, None)
    if name == "usagi":
        assert [(one.rank, one.concept_id) for one in others] == [(2, "OMOP:11")]
        assert module.losses(head, [nil]) == {"nearest_name": 1}
    else:
        assert (first.nearest_id, first.nearest_name, others) == ("HP:0000001", "Toe (left)", [])
        assert module.losses(head, [nil]) == {}


@pytest.mark.parametrize("name", NOT_HELD)
def test_a_nearest_concept_without_a_place_is_counted(name):
    nil = sample.mapping("no toe", None, mention_code="c", nearest_id="HP:0000001", nearest_name="Toe")
    lost = registry.load(PACKAGE, name).losses(sample.header(), [nil])
    assert lost == {"nearest_id": 1, "nearest_name": 1}


# Mentions that come again: next to one another or not, with another answer or none, among those that cannot be written.
again = st.lists(
    st.builds(
        sample.mapping,
        mention=st.sampled_from(["toe", "toe", "heel", "he\rel", ""]),
        concept_id=st.sampled_from(["HP:0000001", "HP:0000002", "HP:0000001|HP:0000002", "HP:0000009", None]),
        rank=st.integers(1, 2),
        status=STATUSES,
        frequency=st.none() | st.integers(0, 9),
        relation=st.none() | RELATIONS,
        comment=st.none() | st.just("so"),
        mapping_type=TYPES,
    ),
    min_size=1,
    max_size=12,
)


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=150, deadline=None)
@given(lines=again, data=st.data())
def test_a_file_and_its_losses_do_not_depend_on_how_mappings_come_in_runs(tmp_path_factory, name, lines, data):
    module, folder = registry.load(PACKAGE, name), tmp_path_factory.mktemp("runs")
    told = []
    head = sample.header(tell=told.append, columns=tuple(COLUMNS[:9]))
    lines = [replace(one, relation=one.relation if one.concept_id else None) for one in lines]
    # A row is one mention; a mapping that is not its first is a further line of it.
    numbers = [0]
    for one, other in pairwise(lines):
        numbers.append(numbers[-1] + (one.mention != other.mention or data.draw(st.booleans())))
    lines = [replace(one, row=number) for one, number in zip(lines, numbers, strict=True)]
    rows = [list(some) for _, some in groupby(lines, key=lambda one: one.row)]
    cuts = sorted({0, len(rows), *data.draw(st.lists(st.integers(0, len(rows))))})
    runs = [list(chain.from_iterable(rows[start:end])) for start, end in pairwise(cuts)]
    # How many rows go to one of Parquet's groups does depend on it.
    content = pq.read_table if name == "parquet" else Path.read_bytes
    whole = content(sample.write_runs(module, head, [lines], folder / "out"))
    said, told[:] = told[:], []
    assert content(sample.write_runs(module, head, runs, folder / "out")) == whole
    assert told == said
    losses: Counter[str] = Counter()
    held = ()
    for run in runs:
        losses.update(lost_anew(module, head, held, run))
        _, held = module.split_complete(head, [*held, *run])
    assert +losses == module.losses(head, lines)
    assert min(losses.values(), default=0) >= 0


@pytest.mark.parametrize("name", READ)
def test_a_concept_of_several_codes_and_no_mappings_at_all(name, tmp_path):
    module, head = registry.load(PACKAGE, name), sample.header()
    two = sample.mapping(concept_id="HP:0000001|HP:0000002", mention_code="a")
    back = sample.read(module, head, sample.write(module, head, [two], tmp_path / "two"))
    if name not in TABLES:
        assert len(back) == 2
        assert {one.mention_code for one in back} == {"a"}
    else:
        assert back == [two]
    empty = sample.write(module, head, [], tmp_path / "none")
    if name == "jsonl":
        with pytest.raises(InputError, match="empty"):
            sample.read(module, head, empty)
    else:
        assert sample.read(module, head, empty) == []


@pytest.mark.parametrize("name", sorted({*NAMES} - {*READ}))
def test_what_is_for_people_alone_shows_every_mapping(name, tmp_path):
    module, head = registry.load(PACKAGE, name), sample.header()
    lines = [
        replace(sample.mapping(), row=row, mention=f"string {row} here", concept_id=f"HP:{row:07}") for row in (1, 2)
    ]
    shown = sample.write(module, head, lines, tmp_path / "out", pieces=2).read_text(encoding="utf-8")
    assert all(line.mention in shown and line.concept_id in shown for line in lines)


@pytest.mark.parametrize("name", NAMES)
def test_a_private_part_makes_a_private_output(name, tmp_path):
    module, head = registry.load(PACKAGE, name), sample.header()
    for mode in (0o600, 0o644):
        part = tmp_path / "part"
        part.write_bytes(module.begin(head) + module.encode(head, [sample.mapping()]))
        part.chmod(mode)
        module.finish(head, part, tmp_path / f"out{mode}")
        assert bool((tmp_path / f"out{mode}").stat().st_mode & 0o077) == (mode == 0o644)


@pytest.mark.parametrize("name", NAMES)
def test_a_file_that_is_another_thing(name, tmp_path):
    module = registry.load(PACKAGE, name)
    for content in (b"", b"\xff\xfe\x00 nonsense", b"what,is\nthis,file\n"):
        path = tmp_path / "wrong"
        path.write_bytes(content)
        # Either the whole file is refused, or each of its rows is (JSON Lines cannot tell).
        with pytest.raises(InputError, match="wrong"):
            list(module.read(path, sample.header(), Rejects(strict=True)))
    with pytest.raises(InputError, match="nowhere"):
        list(module.read(tmp_path / "nowhere", sample.header(), Rejects()))


def rejected(path: Path) -> list[list[str]]:
    """Return the rows of a file of rejects: file, line, field, value, problem."""
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.reader(file))[1:]


@pytest.mark.parametrize(("name", "mark"), [("csv", ","), ("sssom", "\t"), ("usagi", ","), ("omop", ",")])
def test_of_a_quote_that_is_never_closed_the_first_line_alone_is_lost(tmp_path, name, mark):
    module, head = registry.load(PACKAGE, name), sample.header()
    lines = [sample.mapping(f"toe {at}", mention_code=f"c{at}", row=at) for at in range(100, 200)]
    path = sample.write(module, head, lines, tmp_path / "in")
    rows = path.read_text().splitlines()
    place = next(at for at, row in enumerate(rows) if "toe 103" in row)
    rows[place] = rows[place].replace("toe 103", '"toe 103')
    path.write_text("\n".join(rows) + "\n")
    with Rejects(tmp_path / "rejects.csv") as rejects:
        back = list(module.read(path, head, rejects))
    assert [one.mention for one in back] == [one.mention for one in lines if one.mention != "toe 103"]
    (said,) = rejected(tmp_path / "rejects.csv")
    assert (said[1], said[2], said[3][:79]) == (str(place + 1), "", rows[place][:79])
    assert said[4] == f"not a row of this format: {UNCLOSED}"


@pytest.mark.parametrize("name", ["csv", "jsonl", "parquet", "usagi"])
def test_a_string_that_is_no_utf_8_is_set_aside(tmp_path, name):
    module, path = registry.load(PACKAGE, name), tmp_path / "in"
    if name == "csv":
        path.write_bytes(b"mention,concept_id\ncaf\xe9,X:1\nok,X:2\n")
    elif name == "usagi":
        path.write_bytes(b"sourceCode,sourceName,mappingStatus,conceptId\n1,caf\xe9,APPROVED,1\n2,ok,APPROVED,2\n")
    elif name == "jsonl":
        path.write_bytes(b'{"mention": "caf\xe9", "concept_id": "X:1"}\n{"mention": "ok", "concept_id": "X:2"}\n')
    else:
        pq.write_table(pa.table({"mention": unsound([b"caf\xe9", b"ok"]), "concept_id": ["X:1", "X:2"]}), path)
    with Rejects(tmp_path / "rejects.csv") as rejects:
        back = list(module.read(path, Header(), rejects))
    assert [one.mention for one in back] == ["ok"]
    first = "1" if name in ("jsonl", "parquet") else "2"
    field = "sourceName" if name == "usagi" else "mention"
    [row] = rejected(tmp_path / "rejects.csv")
    assert row[1:4] == [first, field, "caf?"]
    assert row[4].startswith("not valid UTF-8 text")
    assert (name in ("csv", "usagi")) == row[4].endswith("say --encoding cp1252")


def unsound(values: list[bytes | None]) -> pa.Array:
    """Return bytes as an array of strings, which Arrow takes at their word."""
    raw = pa.array(values, pa.binary())
    return pa.StringArray.from_buffers(len(raw), raw.buffers()[1], raw.buffers()[2], raw.buffers()[0])


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.string_view()])
def test_strings_of_parquet_that_are_no_utf_8_in_any_column_and_kind(tmp_path, kind):
    from alphita.mappings.formats import parquet

    names = unsound([b"good", b"b\xe9", b"good", None]).cast(kind)
    comments = unsound([None, b"x", b"\xff\xfe", b"caf\xc3\xa9"])
    table = {"mention": pa.array(["a", "b", "c", "d"], kind), "concept_name": names, "comment": comments}
    pq.write_table(pa.table(table | {"concept_id": ["X:1"] * 4, "rank": [1, 2, 3, None]}), tmp_path / "in")
    with Rejects(tmp_path / "rejects.csv") as rejects:
        back = list(parquet.read(tmp_path / "in", Header(), rejects))
    assert [(one.mention, one.concept_name, one.rank, one.comment) for one in back] == [
        ("a", "good", 1, None),
        ("d", None, 1, "café"),
    ]
    assert [row[1:4] for row in rejected(tmp_path / "rejects.csv")] == [
        ["2", "concept_name", "b?"],
        ["3", "comment", "??"],
    ]


def test_a_bad_row_of_a_plain_table_is_set_aside(tmp_path):
    from alphita.mappings.formats import csv as csv_format

    path, out = tmp_path / "in.csv", tmp_path / "rejects.csv"
    path.write_text(
        "row,mention,concept_id,confidence,relation,status\n1,a,X:1,0.5,exact,\n2,b,X:1,1.5,,\n3,c,X:1,,wider,\n4,d\n"
        "5,e,X:1,,,done\nsix,f,X:1,,,\n7,g,,,,\n"
    )
    with Rejects(out) as rejects:
        back = list(csv_format.read(path, Header(), rejects))
    assert [(one.row, one.method, one.status) for one in back] == [
        (1, "nearest", "unreviewed"),
        (7, "nil", "unreviewed"),
    ]
    said = rejected(out)
    assert [row[1:4] for row in said] == [
        ["3", "confidence", "1.5"],
        ["4", "relation", "wider"],
        ["5", "", "4,d"],
        ["6", "status", "done"],
        ["7", "row", "six"],
    ]
    assert "from 0 to 1" in said[0][4]


def test_a_whole_number_may_be_written_as_a_float(tmp_path):
    from alphita.mappings.formats import csv as csv_format
    from alphita.mappings.formats import jsonl

    path = tmp_path / "in.csv"
    path.write_text("mention,concept_id,frequency\na,X:1,10.0\nb,,\nc,,1e+16\nd,,2.5\ne,,1e300\nf,,inf\n")
    with Rejects(tmp_path / "rejects.csv") as rejects:
        back = list(csv_format.read(path, Header(), rejects))
    assert [one.frequency for one in back] == [10, None]
    assert [row.split(",")[1:4] for row in (tmp_path / "rejects.csv").read_text().splitlines()[1:]] == [
        ["4", "frequency", "1e+16"],
        ["5", "frequency", "2.5"],
        ["6", "frequency", "1e300"],
        ["7", "frequency", "inf"],
    ]
    path.write_text('{"mention": "a", "concept_id": null, "frequency": 10.0}\n{"mention": "b", "frequency": 2.5}\n')
    rejects = Rejects()
    assert [one.frequency for one in jsonl.read(path, Header(), rejects)] == [10]
    assert rejects.count == 1


def test_csv_lines_end_with_lf_and_quote_every_line_break():
    from alphita.mappings.formats import csv as csv_format

    head = Header(columns=("row", "mention", "rank", "method"))
    lines = [sample.mapping(mention, None) for mention in ("a\rb", "c\nd", 'e"f')]
    assert csv_format.encode(head, lines) == b'1,"a\rb",1,nil\n1,"c\nd",1,nil\n1,"e""f",1,nil\n'


def test_no_format_by_its_name(tmp_path):
    with pytest.raises(UsageError, match="--from"):
        chosen(tmp_path / "a.xml", "", "--from")
    with pytest.raises(UsageError, match="did you mean 'sssom'"):
        chosen(tmp_path / "a.xml", "ssom", "--from")
    for wrong in ("", "ssom"):
        with pytest.raises(UsageError) as told:
            chosen(tmp_path / "a.xml", wrong, "--from", to_read=True)
        assert str(told.value).endswith(str(READ))


def test_a_workbook_holds_text_as_text_and_numbers_as_numbers(tmp_path):
    import openpyxl

    module, head = registry.load(PACKAGE, "xlsx"), sample.header()
    strings = ["=cmd|' /C calc'!A0", "+1", "-1", "@x", "1e5", "0012", "a\x07b", "two\nlines", " seizure", "x" * 40_000]
    lines = [sample.mapping(mention=string, similarity=0.25, frequency=7) for string in strings]
    out = sample.write(module, head, lines, tmp_path / "out.xlsx")
    sheet = openpyxl.load_workbook(out).active
    names = [cell.value for cell in next(sheet.iter_rows())]
    mentions = [row[names.index("mention")] for row in sheet.iter_rows(min_row=2)]
    assert [cell.data_type for cell in mentions] == ["s"] * len(strings)
    shown = [string.replace("\x07", " ")[:32_767] for string in strings]
    assert [cell.value for cell in mentions] == shown
    assert {row[names.index("similarity")].value for row in sheet.iter_rows(min_row=2)} == {0.25}
    assert module.losses(head, lines) == {"mention": 2}
    back = sample.read(module, head, out)
    assert [(one.mention, one.similarity, one.frequency, one.concept_id) for one in back] == [
        (string, 0.25, 7, lines[0].concept_id) for string in shown
    ]


def test_rows_beyond_a_sheet_go_to_the_next(tmp_path, monkeypatch):
    import openpyxl

    module, head = registry.load(PACKAGE, "xlsx"), sample.header()
    monkeypatch.setattr(module, "MAX_ROWS", 3)
    out = sample.write(module, head, [sample.mapping(row=row) for row in range(1, 6)], tmp_path / "out.xlsx")
    assert [sheet.max_row for sheet in openpyxl.load_workbook(out)] == [3, 3, 2]


@pytest.mark.parametrize(
    ("first", "name"),
    [("#curie_map:", "sssom"), ("subject_id\tpredicate_id", "sssom"), ("row\tmention\tconcept_id", "tsv"), ("", "tsv")],
)
def test_a_tsv_is_told_by_its_content_where_it_is_read(tmp_path, first, name):
    path = tmp_path / "in.tsv"
    path.write_text(first + "\n")
    assert chosen(path, "", "--from", to_read=True).__name__.endswith(f".{name}")
    assert chosen(path, "", "--format").__name__.endswith(".tsv")


def test_a_day_is_year_month_and_day():
    assert [day_of(text) for text in ("", "2026-01-31", "2024-02-29")] == ["", "2026-01-31", "2024-02-29"]
    for text in ("2026-02-29", "20260131", "2026-W05-6", "31.1.2026", "today", " "):
        with pytest.raises(UsageError, match=f"the date '{text}' is no day"):
            day_of(text)


@pytest.mark.parametrize("name", PLAIN)
def test_losses_of_a_plain_table_without_some_columns(name):
    module = registry.load(PACKAGE, name)
    head = Header(columns=("row", "mention", "concept_id"))
    lines = [sample.mapping(comment="no", rank=1), sample.mapping(status="approved")]
    assert module.losses(head, lines) == {"comment": 1, "decision": 1, "status": 1, "rank": 2, "method": 2}
