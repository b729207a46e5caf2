"""One contract over every format: what is written is read again, however odd; what is not is counted."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import astuple, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alphita import registry
from alphita.errors import InputError, Rejects, UsageError
from alphita.mappings.formats import Header, _names
from alphita.mappings.record import COLUMNS, Mapping
from tests.mappings import sample

PACKAGE = "alphita.mappings.formats"
NAMES = registry.names(PACKAGE)
PLAIN = ["csv", "jsonl", "parquet"]
OTHERS = [name for name in NAMES if name not in PLAIN]

METHODS = st.sampled_from(["exact", "abbreviation", "nearest"])
RELATIONS = st.sampled_from(["exact", "broad", "narrow", "related"])
STATUSES = st.sampled_from(["unreviewed", "approved", "rejected", "flagged", "ignored"])
TYPES = st.sampled_from(["maps_to", "maps_to_value"])
ROUTES = st.sampled_from(["exact", "letters", "vectors", "letters|vectors"])
text = sample.ODD
filled = text.filter(bool)
share = st.floats(0, 1).map(lambda x: round(x, 6) + 0.0)
CHOSEN = {"row", "mention", "rank", "method", "relation", "routes", "status", "mapping_type", "concept_id"}
TEXTS = [name for name in COLUMNS if name not in CHOSEN | {"similarity", "confidence", "frequency"}]
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
    status=STATUSES,
    mapping_type=TYPES,
    **{name: st.none() | filled for name in TEXTS},
).map(lambda one: one if one.concept_id else replace(one, method="nil", relation=None, routes=None))


def test_the_formats_are_the_files():
    assert NAMES == ["csv", "fhir_r4", "fhir_r5", "jsonl", "omop", "parquet", "sssom", "usagi"]


@pytest.mark.parametrize("name", NAMES)
def test_each_says_what_it_is(name):
    module = registry.load(PACKAGE, name)
    assert len(module.DESCRIPTION) > 5
    assert isinstance(module.STREAMS, bool)
    assert set(module.LOSSES) <= set(COLUMNS)
    first, second = module.__doc__.splitlines()[:2]
    assert "https://" in first or "http://" in first, "the first line names the specification"
    assert name in PLAIN or "Version" in second or "of the Common Data Model" in second


@pytest.mark.parametrize("name", PLAIN)
@settings(max_examples=40, deadline=None)
@given(lines=st.lists(line, max_size=6))
def test_a_plain_table_holds_everything(tmp_path_factory, name, lines):
    module = registry.load(PACKAGE, name)
    out = sample.write(module, Header(), lines, tmp_path_factory.mktemp("format") / "out", pieces=2)
    back = sample.read(module, Header(), out) if lines or name != "jsonl" else []
    assert [astuple(one) for one in back] == [astuple(one) for one in lines]
    assert module.losses(Header(), lines) == {}


def differing(one: Mapping, other: Mapping) -> set[str]:
    """Return the fields that a reader finds changed; a number within rounding is not."""
    found = set()
    for name in COLUMNS:
        left, right = getattr(one, name), getattr(other, name)
        if name == "row" or left == right:
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
    words = sum(number for what, number in said.items() if what not in COLUMNS)
    assert {what: number for what, number in said.items() if what in COLUMNS} == {
        what: number for what, number in counts.items() if what != "not there"
    }
    assert words == counts["not there"]
    assert {what for what in counts if what != "not there"} <= set(module.LOSSES)


@pytest.mark.parametrize("name", OTHERS)
def test_losses_of_two_runs_add_up(name):
    module, head = registry.load(PACKAGE, name), sample.header()
    lines = [
        sample.mapping(row=1, mention_code="a", scope="broad"),
        sample.mapping(row=1, mention_code="a", rank=2, concept_id="HP:0000002"),
        sample.mapping(row=2, mention_code="b", frequency=7, explanation="so"),
        sample.mapping(row=3, mention_code="c", status="ignored"),
    ]
    whole = module.losses(head, lines)
    apart = Counter(module.losses(head, lines[:2])) + Counter(module.losses(head, lines[2:]))
    assert whole == apart
    assert any(what.startswith("further candidates") for what in whole)


@pytest.mark.parametrize("name", NAMES)
def test_a_concept_of_several_codes_and_no_mappings_at_all(name, tmp_path):
    module, head = registry.load(PACKAGE, name), sample.header()
    two = sample.mapping(concept_id="HP:0000001|HP:0000002", mention_code="a")
    back = sample.read(module, head, sample.write(module, head, [two], tmp_path / "two"))
    if name not in PLAIN:
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


@pytest.mark.parametrize("name", PLAIN)
def test_losses_of_a_plain_table_without_some_columns(name):
    module = registry.load(PACKAGE, name)
    head = Header(columns=("row", "mention", "concept_id"))
    lines = [sample.mapping(comment="no", rank=1), sample.mapping(status="approved")]
    assert module.losses(head, lines) == {"comment": 1, "status": 1, "rank": 2, "method": 2}


def test_a_bad_row_of_a_plain_table_is_set_aside(tmp_path):
    from alphita.mappings.formats import csv

    path, out = tmp_path / "in.csv", tmp_path / "rejects.csv"
    path.write_text(
        "row,mention,concept_id,confidence,relation,status\n1,a,X:1,0.5,exact,\n2,b,X:1,1.5,,\n3,c,X:1,,wider,\n4,d\n"
        "5,e,X:1,,,done\nsix,f,X:1,,,\n7,g,,,,\n"
    )
    with Rejects(out) as rejects:
        back = list(csv.read(path, Header(), rejects))
    assert [(one.row, one.method, one.status) for one in back] == [
        (1, "nearest", "unreviewed"),
        (7, "nil", "unreviewed"),
    ]
    said = out.read_text().splitlines()[1:]
    assert [row.split(",")[1:4] for row in said] == [
        ["3", "confidence", "1.5"], ["4", "relation", "wider"], ["5", "", ""], ["6", "status", "done"],
        ["7", "row", "six"],
    ]  # fmt: skip
    assert "from 0 to 1" in said[0]


def test_a_whole_number_may_be_written_as_a_float(tmp_path):
    from alphita.mappings.formats import csv, jsonl

    path = tmp_path / "in.csv"
    path.write_text("mention,frequency\na,10.0\nb,\nc,1e+16\nd,2.5\ne,1e300\nf,inf\n")
    with Rejects(tmp_path / "rejects.csv") as rejects:
        back = list(csv.read(path, Header(), rejects))
    assert [one.frequency for one in back] == [10, None]
    assert [row.split(",")[1:4] for row in (tmp_path / "rejects.csv").read_text().splitlines()[1:]] == [
        ["4", "frequency", "1e+16"], ["5", "frequency", "2.5"], ["6", "frequency", "1e300"], ["7", "frequency", "inf"],
    ]  # fmt: skip
    path.write_text('{"mention": "a", "frequency": 10.0}\n{"mention": "b", "frequency": 2.5}\n')
    rejects = Rejects()
    assert [one.frequency for one in jsonl.read(path, Header(), rejects)] == [10]
    assert rejects.count == 1


def test_csv_lines_end_with_lf_and_quote_every_line_break():
    from alphita.mappings.formats import csv

    head = Header(columns=("row", "mention", "rank", "method"))
    lines = [sample.mapping(mention, None) for mention in ("a\rb", "c\nd", 'e"f')]
    assert csv.encode(head, lines) == b'1,"a\rb",1,nil\n1,"c\nd",1,nil\n1,"e""f",1,nil\n'


@pytest.mark.parametrize(
    ("file", "expected"),
    [("a.csv", "csv"), ("a.usagi.csv", "usagi"), ("A.SSSOM.TSV", "sssom"), ("a.conceptmap.json", "fhir_r5"),
     ("a.r4.json", "fhir_r4"), ("a.stcm.csv", "omop"), ("a.ndjson", "jsonl"), ("a.parquet", "parquet")],
)  # fmt: skip
def test_a_format_by_its_name(tmp_path, file, expected):
    assert _names.chosen(tmp_path / file, "", "--format").__name__.endswith(f".{expected}")


def test_no_format_by_its_name(tmp_path):
    with pytest.raises(UsageError, match="--from"):
        _names.chosen(tmp_path / "a.xml", "", "--from")
    with pytest.raises(UsageError, match="did you mean 'sssom'"):
        _names.chosen(tmp_path / "a.xml", "ssom", "--from")
