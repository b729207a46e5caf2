"""Files of mappings, from any format to any other and back: the same, or what is printed counts the difference."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from alphita import registry
from alphita.cli.mappings import app
from alphita.mappings.formats import Header
from alphita.mappings.record import COLUMNS, OMOP, Mapping, bare
from tests.mappings import sample

PACKAGE = "alphita.mappings.formats"
READ = [name for name in registry.names(PACKAGE) if registry.load(PACKAGE, name).READS]
# What each format's files say of a row beside its mapping, or in other words; "" says nothing.
EXTRAS = {
    "ADD_INFO:ward": ["3 West", ""],
    "createdBy": ["ben", ""],
    "createdOn": ["1690000000000", ""],
    "assignedReviewer": ["cy", ""],
    "mappingStatus": ["AUTO_MAPPED", "INVALID_TARGET", ""],
    "equivalence": ["EQUIVALENT", "subsumes", "equal", ""],
    "domainId": ["Condition", ""],
    "predicate_id": ["owl:equivalentClass", "rdfs:subClassOf", "skos:mappingRelation", "oboInOwl:hasDbXref", ""],
    "mapping_justification": ["semapv:MappingChaining", "semapv:LexicalMatching", ""],
    "author_id": ["orcid:0000-0002-1825-0097", ""],
    "target_vocabulary_id": ["SNOMED", ""],
    "valid_start_date": ["2020-01-01", ""],
}
extras = st.fixed_dictionaries({}, optional={name: st.sampled_from(words) for name, words in EXTRAS.items()})
mappings = st.builds(
    lambda concept, extra, **known: bare(1, known.pop("code"), "", concept, **known).with_extras(
        {name: text for name, text in extra.items() if text}
    ),
    concept=st.none() | st.sampled_from(["OMOP:437663", "OMOP:31967"]),
    extra=extras,
    code=st.none() | st.sampled_from(["0012", "NANDO:1", "1.50", "a/b%20"]),
    mention_vocabulary=st.none() | st.sampled_from(["NANDO", "HP", "LOCAL_2020", "https://example.org/codes"]),
    status=st.sampled_from(["unreviewed", "approved", "rejected", "flagged", "ignored"]),
    relation=st.none() | st.sampled_from(["exact", "broad", "narrow", "related"]),
    reviewer=st.none() | st.just("ann"),
    comment=st.none() | st.sampled_from(["so", 'a "b", c; d|e']),
    frequency=st.none() | st.integers(1, 9),
)


def written(name: str, lines: list[Mapping], path: Path) -> list[Mapping]:
    """Write mappings in a format, as well as it can; return what it then says."""
    module = registry.load(PACKAGE, name)
    vocabulary = "LOCAL" if name == "omop" else ""
    header = Header(source_vocabulary=vocabulary, with_review=True, tell=lambda text: None).for_mappings(lines)
    sample.write(module, header, lines, path)
    return sample.read(module, Header(), path)


def converted(path: Path, of: str, out: Path, name: str) -> Counter[str]:
    """Convert a file as a user does; return what is printed of losses."""
    words = ["convert", str(path), "--from", of, "-o", str(out), "--format", name, "--with-review", "--force"]
    words += ["--source-vocabulary", "LOCAL"] if name == "omop" else []
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, (result.output, result.exception)
    lost = Counter[str]()
    for line in result.stdout.splitlines():
        if line.startswith("  not in this format: "):
            for what, number in re.findall(r"(.+?) \(([\d,]+)\)(?:, |$)", line.partition(": ")[2]):
                lost[what] += int(number.replace(",", ""))
    for told in (r"warning: ([\d,]+) rows? left out", r": left out: ([\d,]+) rows?"):
        for number in re.findall(told, result.output):
            lost["set aside"] += int(number.replace(",", ""))
    return lost


def said(mapping: Mapping) -> dict[str, object]:
    """Return all that a mapping says, by the names that losses are counted by."""
    columns = {name: getattr(mapping, name) for name in COLUMNS if name not in ("row", "extra", *OMOP)}
    return columns | mapping.extras


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(of=st.sampled_from(READ), to=st.sampled_from(READ), lines=st.lists(mappings, min_size=1, max_size=3))
def test_it_is_the_same_or_the_difference_is_counted(tmp_path_factory, of, to, lines):
    folder = tmp_path_factory.mktemp("convert")
    lines = [
        Mapping(**{name: getattr(line, name) for name in COLUMNS} | {"row": row, "mention": f"string {row}"})
        for row, line in enumerate(lines, 1)
    ]
    before = written(of, lines, folder / "first")
    if not before:
        return
    lost = converted(folder / "first", of, folder / "other", to)
    lost += converted(folder / "other", to, folder / "back", of)
    # Where every row was set aside, nothing is in the file.
    read = (
        sample.read(registry.load(PACKAGE, of), Header(), folder / "back") if (folder / "back").stat().st_size else ()
    )
    after = {(one.mention, one.rank): one for one in read}
    differences = Counter[str]()
    for one in before:
        back = after.get((one.mention, one.rank))
        if back is None:
            differences["whole"] += 1
            continue
        then, now = said(one), said(back)
        differences.update(name for name in then if then[name] is not None and now.get(name) != then[name])
    named = {what.partition(" ")[0] if what.partition(" ")[0] in EXTRAS else what: 0 for what in lost}
    for what, number in lost.items():
        named[what.partition(" ")[0] if what.partition(" ")[0] in EXTRAS else what] += number
    whole = sum(number for what, number in named.items() if what not in (*COLUMNS, *EXTRAS))
    assert differences.pop("whole", 0) <= whole, (differences, lost)
    assert all(number <= named.get(name, 0) for name, number in differences.items()), (differences, lost)


@pytest.mark.parametrize("to", READ)
def test_a_subject_comes_back_with_its_own_prefix_or_is_counted(tmp_path, to):
    table = (
        "#curie_map:\n#  NANDO: https://example.org/NANDO_\n#mapping_set_id: https://example.org/set\n"
        "subject_id\tsubject_label\tpredicate_id\tobject_id\tmapping_justification\n"
        "NANDO:0012\tKennedy\towl:equivalentClass\tOMOP:437663\tsemapv:ManualMappingCuration\n"
    )
    source, back = tmp_path / "in.sssom.tsv", tmp_path / "back.sssom.tsv"
    source.write_text(table)
    lost = converted(source, "sssom", tmp_path / "other", to)
    if not lost["set aside"]:
        lost += converted(tmp_path / "other", to, back, "sssom")
        assert back.read_text().count("NANDO:0012") + lost["mention_code"] == 1
        assert back.read_text().count("owl:equivalentClass") + lost["predicate_id owl:equivalentClass"] == 1
    assert "NANDO:NANDO" not in "".join(path.read_text(errors="replace") for path in tmp_path.iterdir())
