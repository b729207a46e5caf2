"""The spaCy component that finds mentions, in blank pipelines."""

from __future__ import annotations

import pytest
import spacy
from spacy.tokens import DocBin
from spacy.tokens.underscore import Underscore

import alphita.integrations.spacy_annotate  # noqa: F401 - makes the component known
from alphita.errors import UsageError
from tests.doubles import HashEncoder

TEXT = "No seizure. Severe headache after ZZZ."


@pytest.fixture(autouse=True)
def _restored(monkeypatch):
    monkeypatch.setattr("alphita.encoder.encoder.TermEncoder.load", HashEncoder.load)
    monkeypatch.setattr(Underscore, "span_extensions", dict(Underscore.span_extensions))


def pipeline(index_path, *, ruled=(), **config):
    nlp = spacy.blank("en")
    if ruled:
        nlp.add_pipe("entity_ruler").add_patterns([{"label": "RULED", "pattern": one} for one in ruled])
    nlp.add_pipe("alphita_annotate", config={"to": str(index_path), "exact": True, **config})
    return nlp


def test_an_entity_in_the_same_place_gives_way_and_others_stay(index_path):
    doc = pipeline(index_path, ruled=["Severe headache", "ZZZ"])(TEXT)
    assert [(entity.text, entity.label_) for entity in doc.ents] == [
        ("seizure", "CONCEPT"),
        ("headache", "CONCEPT"),
        ("ZZZ", "RULED"),
    ]


def test_a_group_of_spans_is_set_and_kept_with_the_doc(index_path):
    nlp = pipeline(index_path, spans_key="found", label="HPO")
    docs = list(nlp.pipe([TEXT, "nothing", ""]))
    assert [len(doc.spans["found"]) for doc in docs] == [2, 0, 0]
    assert not docs[0].ents
    stored = DocBin(docs=docs, store_user_data=True).to_bytes()
    again = next(DocBin().from_bytes(stored).get_docs(nlp.vocab))
    assert [span._.alphita.concept_id for span in again.spans["found"]] == ["T:1", "T:2"]


def test_a_saved_pipeline_finds_the_same(index_path, tmp_path):
    pipeline(index_path).to_disk(tmp_path / "nlp")
    assert len(spacy.load(tmp_path / "nlp")(TEXT).ents) == 2


def test_wrong_settings_are_told_when_the_component_is_made(index_path):
    with pytest.raises(UsageError, match="precision must be between 0 and 1"):
        pipeline(index_path, precision=2.0, exact=False)
    with pytest.raises(UsageError, match="unknown option 'flor'"):
        pipeline(index_path, options={"flor": 0.2})
