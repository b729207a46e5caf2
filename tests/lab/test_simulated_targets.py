"""Simulated targets: what is asked of a part of a vocabulary, and what its index was made without."""

from __future__ import annotations

import re

import numpy as np
import polars as pl
import pytest

from alphita import textio
from alphita.calibrate.examples import SYNONYM
from alphita.index.store import build
from alphita.mention import axes
from alphita.terminology.store import load_terminology
from alphita.terminology.text import clean_many
from alphita_lab import simulated_targets
from alphita_lab.simulated_targets import (
    EVERYDAY,
    LABELS,
    LENT,
    NEAR,
    NO_FINDING,
    OTHER_NAME,
    TRANSLATED,
    Made,
    Target,
    in_other_languages,
    make,
    not_findings,
)
from tests.lab.simulated import ENCODER, asked, made, names_elsewhere, vocabulary
from tests.stanzas import Stanza, ontology

WHOLE, BRANCH = Target("V"), Target("V", part="T:0000003")
TARGETS = (WHOLE, Target("V", LABELS, 120), BRANCH)
ASKED = (OTHER_NAME, EVERYDAY, SYNONYM)


@pytest.fixture(scope="module", params=TARGETS, ids=lambda target: target.name)
def one(request, tmp_path_factory) -> Made:
    return made(tmp_path_factory.mktemp("target"), {request.param: (240, 1)})[0]


@pytest.fixture(scope="module")
def full(tmp_path_factory) -> dict[str, set[str]]:
    """The cleaned names of each concept of the whole vocabulary."""
    terms = vocabulary(tmp_path_factory.mktemp("full") / "v.terminology", 240, 1)
    names: dict[str, set[str]] = {}
    strings = clean_many(terms.terms.column("string").to_pylist())
    for row, string in zip(terms.term_concept.tolist(), strings, strict=True):
        names.setdefault(terms.concept_ids[row].as_py(), set()).add(string)
    return names


def test_the_names_that_are_asked_are_not_in_the_index(one):
    kinds = np.array(one.asked.kinds)
    rows = np.flatnonzero(np.isin(kinds, ASKED))
    assert len(rows) >= (5 if one.target == BRANCH else 40)
    assert (one.index.rows(clean_many([one.asked.mentions[row] for row in rows.tolist()])) < 0).all()
    # A name asked of a concept is one that it has in the whole vocabulary or elsewhere, and it is asked once.
    concepts = one.asked.concepts[rows].tolist()
    assert len(concepts) == len(set(concepts))
    assert min(concepts) >= 0


def test_of_the_names_that_are_lent_few_lead_elsewhere(one):
    rows = np.flatnonzero(np.array(one.asked.kinds) == LENT).tolist()
    found = one.index.rows(clean_many([one.asked.mentions[row] for row in rows]))
    segment, right = one.index.segment, []
    for row, place in zip(rows, found.tolist(), strict=True):
        terms = slice(segment.offsets[place], segment.offsets[place + 1])
        assert place >= 0
        assert segment.borrowed[terms].all()
        right.append(one.asked.concepts[row] in segment.term_concept[terms])
    assert any(right)
    assert 0.8 < np.mean(right) < 1 or one.target == BRANCH


def test_what_is_asked_of_each_kind_names_its_concept(one, full):
    segment = one.index.segment
    ids, names = (segment.concepts.column(column).to_pylist() for column in ("id", "name"))
    for mention, concept, kind in zip(one.asked.mentions, one.asked.concepts.tolist(), one.asked.kinds, strict=True):
        if kind == SYNONYM:
            assert clean_many([mention])[0] in full[ids[concept]]
        elif kind in (OTHER_NAME, EVERYDAY):
            words = set(names[concept].lower().split())
            assert words < set(mention.split())
    assert all(asked(one, kind) for kind in ASKED) or one.target == BRANCH


def test_what_is_left_out_is_nil(one, full):
    ids = set(one.index.segment.concepts.column("id").to_pylist())
    gone = set().union(*(names for concept, names in full.items() if concept not in ids))
    near = asked(one, NEAR)
    assert near
    assert set(clean_many(near)) <= gone
    nil = {mention for mention, concept in zip(one.asked.mentions, one.asked.concepts, strict=True) if concept < 0}
    assert nil >= set(near)
    assert (one.index.rows(clean_many(sorted(nil))) < 0).all()


def test_parts_are_as_asked_for(one, full):
    terms = one.index.segment.terms.filter(~one.index.segment.borrowed)
    n = len(one.index.segment.concepts)
    if one.target == WHOLE:
        assert 0.8 * len(full) < n < len(full)
    elif one.target == BRANCH:
        assert all("nebbin" in name for name in one.index.segment.concepts.column("name").to_pylist())
    else:
        assert 90 < n < 150
        assert len(terms) == n


def test_a_seed_decides_what_is_asked(one, tmp_path):
    again, other = made(tmp_path, dict.fromkeys((one.target, one.target._replace(seed=1)), (240, 1)))
    assert again.asked.mentions == one.asked.mentions
    assert again.asked.kinds == one.asked.kinds
    np.testing.assert_array_equal(again.asked.concepts, one.asked.concepts)
    assert again.index.content_hash == one.index.content_hash
    assert set(other.asked.mentions) != set(one.asked.mentions)


def test_a_target_that_is_there_is_not_indexed_again(tmp_path, monkeypatch):
    terms, given = vocabulary(tmp_path / "v.terminology", 60, 1), names_elsewhere()
    first = make(WHOLE, terms, ENCODER, given, tmp_path)
    monkeypatch.setattr(simulated_targets, "build", lambda *_, **__: pytest.fail("it was indexed again"))
    again = make(WHOLE, load_terminology(tmp_path / "v.terminology"), ENCODER, given, tmp_path)
    assert again.asked.mentions == first.asked.mentions


def test_some_names_lead_to_what_is_beside_or_above(tmp_path):
    terms = vocabulary(tmp_path / "v.terminology", 400, 1)
    ids = terms.concept_ids.to_pylist()[20:]
    frame = pl.DataFrame({"id": ids, "key": ids, "name": ids})
    found = simulated_targets._lent_elsewhere(frame, terms, 3)
    assert 0 < len(found) < 0.15 * len(ids)
    for concept, key, _ in found.iter_rows():
        parents = set(terms.parents(terms.resolve(key)).tolist())
        row = terms.resolve(concept)
        assert concept != key
        assert row in parents or parents & set(terms.parents(row).tolist())


def test_what_is_past_is_asked_by_the_other_names_of_the_thing(tmp_path):
    things = [(f"{word} disease", f"{word} illness") for word in ("zelbor", "gantim", "orvish", "pelcot", "drallic")]
    stanzas = [Stanza(row, list(names)) for row, names in enumerate(things, 1)]
    stanzas += [Stanza(row + 20, [f"personal history of {names[0]}"]) for row, names in enumerate(things, 1)]
    index = build(ontology(tmp_path / "v.terminology", stanzas), ENCODER, tmp_path / "v.index")
    found = simulated_targets._with_status(index, 0)
    ids = index.segment.concepts.column("id").to_pylist()
    wanted = {other: f"T:{row + 20:07}" for row, (_, other) in enumerate(things, 1)}
    leads = tuple(f"{lead} " for lead in simulated_targets.WRITTEN_STATUS[axes.PAST])
    for mention, concept in zip(found.mentions, found.concepts.tolist(), strict=True):
        assert mention.startswith(leads)
        assert {ids[concept]} == {one for other, one in wanted.items() if mention.endswith(other)}
    assert len(found.mentions) == len(things)
    plain = build(ontology(tmp_path / "p.terminology", stanzas[:5]), ENCODER, tmp_path / "p.index")
    assert not simulated_targets._with_status(plain, 0).mentions


def test_substances_are_asked_as_they_are_ordered():
    names, concepts = [f"substance{number}" for number in range(400)], list(range(400))
    found = simulated_targets._ordered(names, concepts, Target("MeSH"))
    assert not simulated_targets._ordered(names, concepts, Target("DOID")).mentions
    own = [mention.startswith(f"substance{c} ") for mention, c in zip(found.mentions, found.concepts, strict=True)]
    assert 0.6 < np.mean(own) < 0.95
    assert all(" " in mention for mention in found.mentions)
    assert any(any(sign.isdigit() for sign in mention.split(" ", 1)[1]) for mention in found.mentions)


def test_notes_that_name_no_finding():
    table = textio.packaged(simulated_targets.__package__, "not_findings.tsv")
    used = {word for row in table for word in re.findall(r"{(\w+)}", row["pattern"])}
    assert used == {row["kind"][1:-1] for row in table if row["kind"].startswith("{")}
    found = not_findings(0, 400)
    assert found == not_findings(0, 400)
    assert found != not_findings(1, 400)
    assert len(set(found)) == len(found) > 250
    assert not any(set(one) & set("{}|") for one in found)
    assert all(one == one.strip() for one in found)
    others = not_findings(0, 400, ("de", "it"))
    assert not set(others) & set(found)
    assert {"Befund folgt", "vive solo"} <= set(others)


def test_a_target_is_asked_in_other_languages(tmp_path):
    (one,) = made(tmp_path, {Target("V", LABELS, 120): (240, 1)})
    ids = one.index.segment.concepts.column("id").to_pylist()
    names = [*((identifier, f"schmerz nummer {row}") for row, identifier in enumerate(ids)), ("V:0", "fehlt ganz")]
    found = in_other_languages(one, [*names, (ids[0], one.index.strings.array[0].as_py())], ("de",)).asked
    by_kind = {kind: [row for row, other in enumerate(found.kinds) if other == kind] for kind in set(found.kinds)}
    assert len(by_kind[TRANSLATED]) == len(ids)
    right = [found.mentions[row] == names[found.concepts[row]][1] for row in by_kind[TRANSLATED]]
    assert 0.6 < np.mean(right) < 1
    assert [found.concepts[row] for row in by_kind[NEAR]] == [-1]
    assert all(found.concepts[row] == -1 for row in by_kind[NO_FINDING])


def test_those_are_asked(one):
    assert set(asked(one, NO_FINDING)) <= set(not_findings(one.target.seed, 2 * simulated_targets.MOST_OTHERS))
    assert len(asked(one, NO_FINDING)) > 200
