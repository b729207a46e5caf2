from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from alphita.terminology.loaders import rxnorm
from tests.terminology import fuzz

WORDS = st.text(
    st.characters(codec="utf-8", categories=("L", "N", "P"), exclude_characters="|"), min_size=1, max_size=9
)
IDS = st.integers(1, 30).map(str)


@fuzz.examples(25)
@given(
    st.dictionaries(IDS, st.lists(WORDS, min_size=1, max_size=3), min_size=1, max_size=10),
    st.lists(st.tuples(st.integers(0, 99), st.sampled_from(["isa", "has_form"]), st.integers(0, 99), st.booleans())),
)
def test_written_loaded_saved_and_opened_it_is_the_same(
    concepts: dict[str, list[str]], pairs: list[tuple[int, str, int, bool]]
) -> None:
    names, atoms, relations, wanted = [], [], [], set()
    for concept, terms in concepts.items():
        for term in terms:
            atom = str(len(names) + 7_000)
            atoms.append((concept, atom))
            names.append(f"{concept}|ENG||||||{atom}||||RXNORM|IN|{concept}|{term}||N||\n")
    for first, label, second, by_atom in pairs:
        (tail, tail_atom), (head, head_atom) = atoms[first % len(atoms)], atoms[second % len(atoms)]
        ends = ("", tail_atom, "", head_atom) if by_atom else (tail, "", head, "")
        relations.append(f"{ends[0]}|{ends[1]}|X|RN|{ends[2]}|{ends[3]}|X|{label}|||RXNORM||||||\n")
        if head != tail:
            wanted.add((f"RXNORM:{head}", label, f"RXNORM:{tail}"))
    with tempfile.TemporaryDirectory() as name:
        (Path(name) / "RXNCONSO.RRF").write_text("".join(names), encoding="utf-8")
        if relations:
            (Path(name) / "RXNREL.RRF").write_text("".join(relations), encoding="utf-8")
        terminology = fuzz.saved_and_opened(rxnorm, Path(name), rxnorm.Options(relation_label="rela"))
        found = [terminology.concept(row) for row in range(terminology.n_concepts)]
        assert {shown.id: [term.string for term in shown.terms] for shown in found} == {
            f"RXNORM:{concept}": terms for concept, terms in concepts.items()
        }
        assert {(shown.id, *pair) for shown in found for pair in shown.relations} == wanted
        parents = {(shown.id, parent) for shown in found for parent in shown.parents}
        assert parents == {(head, tail) for head, label, tail in wanted if label == "isa"}
