"""Random terminologies: written as OBO, loaded, saved, opened and compared."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from alphita.errors import Rejects
from alphita.terminology import store
from alphita.terminology.loaders import obo
from alphita.terminology.model import SCOPES
from alphita.terminology.splits import hold_out_synonyms
from alphita.terminology.store import Terminology
from alphita.terminology.text import clean

SIGNS = st.characters(codec="utf-8", exclude_categories=("Cc", "Cs", "Zl", "Zp", "Zs"))
WORDS = st.text(SIGNS, min_size=1, max_size=8) | st.sampled_from(
    ['a "quoted" one', "back\\slash", "{x} ! y", "[z]", "a,b;c"]
)
SYNONYMS = st.tuples(WORDS, st.sampled_from(SCOPES))
IDS = st.integers(1, 60).map(lambda number: f"T:{number:03}")


@dataclass
class Random:
    """Concepts with terms (string, scope), the name first; edges; alternative ids; retired ones."""

    terms: dict[str, list[tuple[str, str]]]
    edges: set[tuple[str, str, str]]
    alt_ids: dict[str, str]
    retired: set[str]


@st.composite
def terminologies(draw: st.DrawFn) -> Random:
    ids = draw(st.lists(IDS, min_size=1, max_size=12, unique=True))
    terms = {concept: [(draw(WORDS), "exact"), *draw(st.lists(SYNONYMS, max_size=4, unique=True))] for concept in ids}
    edge = st.tuples(st.sampled_from(ids), st.sampled_from(["is_a", "part_of"]), st.sampled_from(ids))
    alt_ids = {f"T:9{number:02}": draw(st.sampled_from(ids)) for number in range(draw(st.integers(0, 3)))}
    return Random(terms, draw(st.sets(edge, max_size=20)), alt_ids, draw(st.sets(st.sampled_from(ids), max_size=3)))


def escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


def as_obo(content: Random, folder: Path) -> Path:
    lines = ["format-version: 1.2", ""]
    for concept, terms in content.terms.items():
        lines += ["[Term]", f"id: {concept}", f"name: {escaped(terms[0][0]).replace('!', chr(92) + '!')}"]
        lines += [f'synonym: "{escaped(string)}" {scope.upper()} []' for string, scope in terms[1:]]
        lines += [f"alt_id: {alias}" for alias, owner in content.alt_ids.items() if owner == concept]
        for head, label, tail in sorted(content.edges):
            if head == concept:
                lines.append(f"is_a: {tail} ! x" if label == "is_a" else f"relationship: {label} {tail}")
        lines += ["is_obsolete: true"] * (concept in content.retired) + [""]
    path = folder / "x.obo"
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def check(terminology: Terminology, content: Random) -> None:
    assert terminology.concept_ids.to_pylist() == sorted(content.terms)
    for concept, terms in content.terms.items():
        found = terminology.concept(concept)
        assert sorted((term.string, term.scope) for term in found.terms) == sorted(terms)
        assert found.name == terms[0][0]
        assert found.retired == (concept in content.retired)
        assert {(concept, label, tail) for label, tail in found.relations} == {
            edge for edge in content.edges if edge[0] == concept
        }
        assert concept in [terminology.concept_id(row) for row in terminology.search(terms[0][0])]
        parents = {tail for head, label, tail in content.edges if head == concept and label == "is_a"}
        assert set(found.parents) == parents
        assert found.row not in terminology.ancestors(found.row)
    check_csr(terminology)


def check_csr(terminology: Terminology) -> None:
    n = terminology.n_concepts
    offsets = terminology.concept_terms
    assert (offsets[0], offsets[-1], len(offsets)) == (0, terminology.n_terms, n + 1)
    assert np.array_equal(np.repeat(np.arange(n), np.diff(offsets)), terminology.term_concept)
    rows, training = terminology.training_terms()
    assert (training[0], training[-1], len(training)) == (0, len(rows), n + 1)
    assert np.array_equal(np.repeat(np.arange(n), np.diff(training)), terminology.term_concept[rows])
    assert not terminology.retired[terminology.term_concept[rows]].any()
    for row in range(n):
        strings = [
            clean(text)
            for text in terminology.terms["string"].take(rows[training[row] : training[row + 1]]).to_pylist()
        ]
        assert len(strings) == len(set(strings))
        assert "" not in strings
    triples = terminology.triples.tolist()
    assert triples == sorted(triples)
    assert [list(t) for row in range(n) for t in terminology.outgoing(row).tolist()] == triples
    assert sorted(t for row in range(n) for t in terminology.incoming(row).tolist()) == triples
    assert all(t[2] == row for row in range(n) for t in terminology.incoming(row).tolist())


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(terminologies(), st.integers(0, 5))
def test_written_loaded_saved_and_opened_it_is_the_same(content, seed):
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        tables = obo.load([as_obo(content, folder)], obo.Options(), Rejects(None, strict=True))
        store.save(tables, folder / "t.terminology")
        terminology = store.load_terminology(folder / "t.terminology")
        check(terminology, content)
        for alias, owner in content.alt_ids.items():
            assert terminology.concept_id(terminology.resolve(alias)) == owner
        split = hold_out_synonyms(terminology, fraction=0.7, seed=seed)
        for string, owner in zip(split.strings, split.concept_ids, strict=True):
            live = [row for row in terminology.search(string) if not terminology.retired[row]]
            assert [terminology.concept_id(row) for row in live] == [owner]
            assert clean(string) != clean(terminology.concept(owner).name)
