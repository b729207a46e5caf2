from __future__ import annotations

import pytest

from alphita.answer.normalizer import Normalizer
from alphita.errors import Rejects
from alphita.index.store import build
from alphita.service.concepts import Concept, Named, Synonym, find_concept
from alphita.terminology import store
from alphita.terminology.loaders import obo
from tests.doubles import HashEncoder
from tests.service.asking import client_of, code_of

ONTOLOGY = """format-version: 1.2
ontology: toy

[Term]
id: TOY:0000001
name: Ailment

[Term]
id: TOY:0000002
name: Wobbling gait
def: "A gait that <b>wobbles</b>." [me:1]
synonym: "Wobbly walk" EXACT layperson []
synonym: "Unsteadiness" BROAD []
alt_id: TOY:0000020
is_a: TOY:0000001 ! Ailment

[Term]
id: TOY:0000003
name: Staggering walk
synonym: "Staggers" EXACT []
is_obsolete: true
replaced_by: TOY:0000002

[Term]
id: TOY:0000004
name: Forgotten ailment
is_obsolete: true
"""


@pytest.fixture(scope="module")
def parts(tmp_path_factory):
    folder = tmp_path_factory.mktemp("concepts")
    path = folder / "toy.obo"
    path.write_text(ONTOLOGY)
    with Rejects() as rejects:
        store.save(obo.load([path], obo.Options(), rejects), folder / "toy.terminology", rejects=rejects)
    terminology = store.load_terminology(folder / "toy.terminology")
    return build(terminology, HashEncoder(), folder / "toy.index"), terminology


@pytest.fixture(params=["index", "terminology"])
def look(request, parts):
    index, terminology = parts
    return lambda one: find_concept(one, index, terminology if request.param == "terminology" else None)


def test_a_concept_is_the_same_from_index_and_terminology(look):
    found = look("TOY:0000002")
    assert found == Concept(
        id="TOY:0000002",
        name="Wobbling gait",
        definition="A gait that <b>wobbles</b>.",
        synonyms=found.synonyms,
        parents=[Named(id="TOY:0000001", name="Ailment")],
        types=[],
        retired=False,
        replaced_by=[],
    )
    assert found.synonyms[0] == Synonym(string="Wobbling gait", language="en", scope="exact")
    assert {(one.string, one.scope) for one in found.synonyms} == {
        ("Wobbling gait", "exact"),
        ("Wobbly walk", "exact"),
        ("Unsteadiness", "broad"),
    }


def test_a_retired_concept_says_what_replaces_it(look):
    found = look("TOY:0000003")
    assert (found.id, found.name, found.retired) == ("TOY:0000003", "Staggering walk", True)
    assert found.replaced_by == ["TOY:0000002"]
    assert {one.string for one in found.synonyms} == {"Staggering walk", "Staggers"}


def test_an_alias_names_its_concept(look):
    assert look("TOY:0000020").id == "TOY:0000002"


@pytest.mark.parametrize("identifier", ["TOY:9", "", " ", "../../etc/passwd", "TOY:0000002/..", "\x00", "x" * 5_000])
def test_what_is_no_id_is_not_found(look, identifier):
    assert look(identifier) is None


def test_a_retired_concept_without_replacement_is_known_to_the_terminology(parts):
    index, terminology = parts
    found = find_concept("TOY:0000004", index, terminology)
    assert (found.name, found.retired, found.replaced_by) == ("Forgotten ailment", True, [])
    assert find_concept("TOY:0000004", index, None) is None


@pytest.mark.parametrize("with_terminology", [False, True])
def test_concepts_over_http(parts, with_terminology):
    index, terminology = parts
    normalizer = Normalizer(index, encoder=HashEncoder())
    with client_of(normalizer, terminology=terminology if with_terminology else None) as client:
        answer = client.get("/concepts/TOY:0000002").json()
        assert set(answer) == {"id", "name", "definition", "synonyms", "parents", "types", "retired", "replaced_by"}
        assert answer["parents"] == [{"id": "TOY:0000001", "name": "Ailment"}]
        assert client.get("/concepts/TOY%3A0000003").json()["replaced_by"] == ["TOY:0000002"]
        for path in ("TOY:9", "..%2f..%2fetc%2fpasswd", "%00", "a/b/c", "%ff"):
            refused = client.get(f"/concepts/{path}")
            assert refused.status_code == 404
            assert code_of(refused) == "unknown_concept"
