"""The spaCy component, in blank pipelines with an entity ruler."""

from __future__ import annotations

import copy
import multiprocessing
import subprocess
import sys

import pytest
import spacy
from spacy.lang.en import English
from spacy.tokens import Doc, DocBin, Span, SpanGroup
from spacy.tokens.underscore import Underscore

from alphita.answer.normalizer import Normalizer
from alphita.errors import InputError, UsageError
from alphita.index.store import build
from tests.doubles import HashEncoder, SmallTerminology
from tests.integrations.conftest import HIDDEN

PATTERNS = [
    {"label": "DISEASE", "pattern": "cold"},
    {"label": "DISEASE", "pattern": "T2DM"},
    {"label": "DISEASE", "pattern": "zzzz"},
    {"label": "DISEASE", "pattern": "headach"},
    {"label": "DRUG", "pattern": "Aspirin", "id": "ruled"},
]


@pytest.fixture(autouse=True)
def _restored(monkeypatch):
    """The encoder is a double, and attributes made known to spaCy are forgotten afterwards."""
    monkeypatch.setattr("alphita.encoder.encoder.TermEncoder.load", HashEncoder.load)
    monkeypatch.setattr(Underscore, "span_extensions", dict(Underscore.span_extensions))


@pytest.fixture
def asked(monkeypatch) -> list[tuple[list[str], dict]]:
    """The calls of `Normalizer.normalize`."""
    calls = []
    original = Normalizer.normalize

    def counted(self, mentions, **options):
        calls.append((list(mentions), options))
        return original(self, mentions, **options)

    monkeypatch.setattr(Normalizer, "normalize", counted)
    return calls


@pytest.fixture
def ruled():
    """Make a pipeline that finds the patterns."""
    nlp = spacy.blank("en")
    nlp.add_pipe("entity_ruler").add_patterns(PATTERNS)
    return nlp


def added(nlp, index_path, name="alphita", **config):
    nlp.add_pipe("alphita", name=name, config={"to": str(index_path), **config})
    return nlp


def test_entities_get_concepts(ruled, index_path, normalizer):
    doc = added(ruled, index_path, top_k=2)("A cold, T2DM and headach.")
    assert [(entity.text, entity.kb_id_, entity._.concept_id) for entity in doc.ents] == [
        ("cold", "T:3", "T:3"),
        ("T2DM", "T:7", "T:7"),
        ("headach", "T:2", "T:2"),
    ]
    assert [entity._.alphita for entity in doc.ents] == normalizer.normalize(["cold", "T2DM", "headach"], top_k=2)
    assert [len(entity._.alphita.candidates) for entity in doc.ents] == [2, 2, 2]


def test_nil_and_what_was_not_looked_at(ruled, index_path):
    doc = added(ruled, index_path, only_labels=["DISEASE"])("zzzz and Aspirin for a cold")
    nil, drug, cold = doc.ents
    assert (nil.kb_id_, nil._.concept_id, nil._.alphita.method) == ("", None, "nil")
    assert (drug.kb_id_, drug._.concept_id, drug._.alphita, drug.id_) == ("", None, None, "ruled")
    assert (cold.kb_id_, cold.label_) == ("T:3", "DISEASE")
    assert doc[1:2]._.alphita is None
    ruled.remove_pipe("alphita")
    ruled.get_pipe("entity_ruler").add_patterns([{"label": "X", "pattern": "common cold", "id": "ruled"}])
    doc = ruled("zzzz cold, common cold")
    for token in doc[:2]:
        token.ent_kb_id_ = "OTHER:1"
    added(ruled, index_path).get_pipe("alphita")(doc)
    # NIL leaves another's id; an entity of several tokens stays whole.
    assert [(entity.text, entity.kb_id_, entity.id_) for entity in doc.ents] == [
        ("zzzz", "OTHER:1", ""),
        ("cold", "T:3", ""),
        ("common cold", "T:3", "ruled"),
    ]
    assert [token.ent_kb_id_ for token in doc[3:]] == ["T:3", "T:3"]


@pytest.mark.parametrize(("docs", "batch", "calls"), [(7, 3, 3), (7, 100, 1), (1, 1, 1)])
def test_the_mentions_of_a_batch_are_looked_up_together(ruled, index_path, asked, docs, batch, calls):
    nlp = added(ruled, index_path)
    assert [doc.text for doc in nlp.pipe(["nothing", "", "here"])] == ["nothing", "", "here"]
    assert (asked, nlp.get_pipe("alphita")._normalizer) == ([], None)
    texts = [f"text {number}: cold and T2DM" for number in range(docs)]
    made = list(nlp.pipe(texts, batch_size=batch))
    assert [len(mentions) for mentions, _ in asked] == [2 * min(batch, docs - start) for start in range(0, docs, batch)]
    assert len(asked) == calls
    assert [doc.text for doc in made] == texts
    assert all([entity.kb_id_ for entity in doc.ents] == ["T:3", "T:7"] for doc in made)


def test_the_docs_text_is_the_context(ruled, index_path, asked):
    nlp = added(ruled, index_path)
    list(nlp.pipe(["a cold", "T2DM, cold", "cold", " cold ", "cold."]))
    nlp.remove_pipe("alphita")
    list(added(ruled, index_path, context=False).pipe(["a cold"]))
    assert [options["contexts"] for _, options in asked] == [
        # A doc that is the mention alone is none.
        ["a cold", "T2DM, cold", "T2DM, cold", None, None, "cold."],
        None,
    ]


def test_an_abbreviation_defined_elsewhere_in_the_doc_is_expanded(tmp_path, index_path):
    listed = tmp_path / "own.csv"
    listed.write_text("short,long\nHA,hepatitis A\n")
    nlp = spacy.blank("en")
    nlp.add_pipe("entity_ruler").add_patterns([{"label": "X", "pattern": "SZS"}])
    added(nlp, index_path, options={"abbreviations": str(listed)})
    defined, alone = nlp.pipe(["Epileptic seizure (ES) is feared. The SZS came.", "The SZS came."])
    assert all(one._.alphita.method != "abbreviation" for doc in (defined, alone) for one in doc.ents)
    nlp.get_pipe("entity_ruler").add_patterns([{"label": "X", "pattern": "ES"}])
    defined, alone = nlp.pipe(["Epileptic seizure (ES) is feared. No ES today.", "No ES today."])
    assert [(entity._.alphita.method, entity.kb_id_) for entity in defined.ents] == [("abbreviation", "T:1")] * 2
    assert alone.ents[0]._.alphita.method != "abbreviation"


@pytest.fixture
def grouped(index_path):
    """Make a pipeline over the groups of spans, and a doc with one."""
    nlp = added(spacy.blank("en"), index_path, spans_key="sc", only_labels=["A"])
    doc = nlp.make_doc("a common cold and headache")
    spans = [Span(doc, 1, 3, "A", span_id="one"), Span(doc, 2, 3, "A"), Span(doc, 4, 5, "B", kb_id="K:1")]
    doc.spans["sc"] = SpanGroup(doc, name="sc", attrs={"kept": 1}, spans=spans)
    doc.spans["other"] = [Span(doc, 4, 5, "A")]
    return nlp, doc


def test_spans_of_a_group_may_overlap(grouped):
    nlp, doc = grouped
    nlp(doc)
    group = doc.spans["sc"]
    assert [(span.text, span.label_, span.kb_id_, span.id_, span._.concept_id) for span in group] == [
        ("common cold", "A", "T:3", "one", "T:3"),
        ("cold", "A", "T:3", "", "T:3"),
        ("headache", "B", "K:1", "", None),
    ]
    assert group.attrs == {"kept": 1}
    assert [span.kb_id_ for span in doc.spans["other"]] == [""]
    assert doc.ents == ()


def test_a_wrong_group_is_told_and_no_group_is_none(grouped):
    nlp, doc = grouped
    doc.spans["scc"] = doc.spans.pop("sc")
    with pytest.raises(UsageError, match="unknown group of spans 'sc'; did you mean 'scc'"):
        nlp(doc)
    assert nlp("no group here").ents == ()


def test_a_failing_doc_goes_to_the_error_handler(grouped):
    nlp, bad = grouped
    bad.spans["scc"] = bad.spans.pop("sc")
    good = nlp.make_doc("headache")
    good.spans["sc"] = [Span(good, 0, 1, "A")]
    with pytest.raises(UsageError, match="unknown group"):
        list(nlp.pipe([bad, good]))
    failed = []
    nlp.set_error_handler(lambda name, proc, docs, error: failed.append((name, docs, type(error))))
    (left,) = nlp.pipe([bad, good])
    assert left.spans["sc"][0].kb_id_ == "T:2"
    assert failed == [("alphita", [bad], UsageError)]


def test_a_failing_batch_goes_to_the_error_handler(ruled, index_path, monkeypatch):
    nlp = added(ruled, index_path)
    failed = []
    nlp.set_error_handler(lambda name, proc, docs, error: failed.append((name, [doc.text for doc in docs])))
    original = Normalizer.normalize

    def choosy(self, mentions, **options):
        if "T2DM" in mentions:
            raise RuntimeError("full")
        return original(self, mentions, **options)

    monkeypatch.setattr(Normalizer, "normalize", choosy)
    made = list(nlp.pipe(["cold", "a cold", "T2DM", "cold T2DM", "the cold"], batch_size=2))
    assert [doc.text for doc in made] == ["cold", "a cold", "the cold"]
    assert failed == [("alphita", ["T2DM", "cold T2DM"])]


def test_two_indexes_under_two_prefixes(ruled, index_path, tmp_path):
    drugs = tmp_path / "drugs.index"
    build(SmallTerminology([("D:1", "Aspirin", "exact")]), HashEncoder(), drugs)
    added(ruled, index_path, only_labels=["DISEASE"])
    added(ruled, drugs, name="drugs", prefix="drug_", only_labels=["DRUG"])
    cold, aspirin = ruled("cold Aspirin").ents
    assert (cold._.concept_id, cold._.drug_concept_id, cold._.drug_alphita, cold.kb_id_) == ("T:3", None, None, "T:3")
    assert (aspirin._.concept_id, aspirin._.drug_concept_id, aspirin.kb_id_) == (None, "D:1", "D:1")
    assert aspirin._.drug_alphita.concept_name == "Aspirin"


def test_anothers_attribute_is_not_taken(ruled, index_path):
    Span.set_extension("concept_id", default="theirs", force=True)
    with pytest.raises(UsageError, match=r"span\._\.concept_id is another's already; give a prefix"):
        added(ruled, index_path)
    doc = added(ruled, index_path, prefix="my_")("a cold")
    assert (doc.ents[0]._.concept_id, doc.ents[0]._.my_concept_id) == ("theirs", "T:3")


def test_a_saved_pipeline_keeps_its_settings_and_not_the_index(ruled, index_path, tmp_path, monkeypatch):
    added(ruled, index_path, top_k=2, only_labels=["DISEASE"], options={"floor": 0.9})
    wanted = ruled("cold headach Aspirin").ents
    ruled.to_disk(tmp_path / "saved")
    assert not any(index_path.name in str(path) for path in (tmp_path / "saved").rglob("*"))
    assert {path.suffix for path in (tmp_path / "saved").rglob("*")}.isdisjoint({".pkl", ".pickle", ".npy"})
    again = spacy.load(tmp_path / "saved")
    assert again.get_pipe("alphita").settings == ruled.get_pipe("alphita").settings
    found = again("cold headach Aspirin").ents
    assert [one._.alphita for one in found] == [one._.alphita for one in wanted]
    assert [one._.alphita and one._.alphita.method for one in found] == ["exact", "nil", None]
    with pytest.raises(InputError, match="no such file or folder"):
        spacy.load(tmp_path / "saved", config={"components": {"alphita": {"to": str(tmp_path / "none.index")}}})
    monkeypatch.chdir(index_path.parent)
    moved = spacy.load(tmp_path / "saved", config={"components": {"alphita": {"to": index_path.name}}})
    monkeypatch.chdir(tmp_path)
    assert moved("cold").ents[0].kb_id_ == "T:3"
    from_bytes = English.from_config(ruled.config).from_bytes(ruled.to_bytes())
    assert from_bytes.get_pipe("alphita").settings == ruled.get_pipe("alphita").settings


@pytest.mark.parametrize("store", ["bytes", "docbin"])
def test_stored_docs_keep_their_results(ruled, index_path, store):
    doc = added(ruled, index_path, top_k=3)("a cold, zzzz")
    if store == "bytes":
        again = Doc(ruled.vocab).from_bytes(doc.to_bytes())
    else:
        stored = DocBin(docs=[doc], store_user_data=True).to_bytes()
        (again,) = DocBin().from_bytes(stored).get_docs(ruled.vocab)
    assert [entity._.alphita for entity in again.ents] == [entity._.alphita for entity in doc.ents]
    assert again.ents[0]._.alphita.candidates[0].homonyms == ("T:5", "T:4")
    assert again.ents[0].kb_id_ == "T:3"
    part = doc[:2].as_doc(copy_user_data=True)
    assert [entity._.concept_id for entity in part.ents] == ["T:3"]
    assert [entity._.concept_id for entity in Doc.from_docs([doc, doc]).ents] == ["T:3", None] * 2


def _ignore(name, proc, docs, error):
    """Leave failing docs out."""


def test_it_goes_to_another_process_without_its_index(ruled, index_path):
    nlp = added(ruled, index_path)
    nlp.set_error_handler(_ignore)
    wanted = nlp("cold").ents[0]._.alphita
    # By the same state that a process is started with.
    other = copy.copy(nlp.get_pipe("alphita"))
    assert other.get_error_handler() is _ignore
    assert (other.settings, other._normalizer) == (nlp.get_pipe("alphita").settings, None)
    doc = ruled.make_doc("cold")
    doc.ents = [Span(doc, 0, 1, "X")]
    assert other(doc).ents[0]._.alphita == wanted


def test_a_forked_process_does_not_use_its_parents_encoder(ruled, index_path, monkeypatch):
    nlp = added(ruled, index_path)
    nlp("cold")
    monkeypatch.setattr("alphita.integrations.spacy.os.getpid", lambda: -1)
    with pytest.raises(UsageError, match=r"set_start_method\('spawn'\)"):
        nlp("cold")


def test_two_processes(ruled, index_path):
    # Spawned processes have the true encoder; equal strings need none.
    texts = ["a cold", "T2DM", "nothing", "Aspirin and cold"] * 3
    nlp = added(ruled, index_path, only_labels=["DISEASE"])
    before = multiprocessing.get_start_method(allow_none=True)
    multiprocessing.set_start_method("spawn", force=True)
    try:
        made = list(nlp.pipe(texts, n_process=2, batch_size=3))
    finally:
        multiprocessing.set_start_method(before, force=True)
    assert [doc.text for doc in made] == texts
    assert [[entity._.concept_id for entity in doc.ents] for doc in made] == [["T:3"], ["T:7"], [], [None, "T:3"]] * 3
    assert nlp.get_pipe("alphita")._normalizer is None


@pytest.mark.parametrize(
    ("config", "problem"),
    [
        ({"top_k": 0}, "top_k must be 1 or more, not 0"),
        ({"error": 1.5}, "error must be between 0 and 1, not 1.5"),
        ({"nil_error": 1.5}, "nil_error must be between 0 and 1, not 1.5"),
        ({"options": {"flor": 0.2}}, "unknown option 'flor'; did you mean 'floor'"),
        ({"options": {"encoder": 1}}, "unknown option 'encoder'"),
        ({"options": {"filters": {"type": ["a"]}}}, "unknown filter 'type'; did you mean 'types'"),
        ({"options": {"filters": {"types": "T047"}}}, "the filter 'types' must be a list, not 'T047'"),
    ],
)
def test_wrong_config_is_told_when_the_component_is_added(ruled, index_path, config, problem):
    with pytest.raises(UsageError, match=problem):
        added(ruled, index_path, **config)


def test_filters_come_from_the_config(ruled, tmp_path):
    path = tmp_path / "two.index"
    build(SmallTerminology([("A:1", "Cold", "exact"), ("B:1", "Cold", "exact")]), HashEncoder(), path)
    nlp = added(ruled, path, options={"filters": {"languages": ["en"]}})
    assert nlp("cold").ents[0].kb_id_ == "A:1"
    assert nlp.get_pipe("alphita").normalizer.filters.languages == ("en",)
    nlp.remove_pipe("alphita")
    with pytest.raises(UsageError, match="language"):
        added(nlp, path, options={"filters": {"languages": ["xx"]}})("cold")


def test_stored_docs_are_read_without_the_component_and_without_spacy_the_extra_is_named(ruled, index_path, tmp_path):
    added(ruled, index_path)("a cold").to_disk(tmp_path / "doc")
    reading = (
        "import spacy\n"
        "from spacy.tokens import Doc\n"
        "from alphita.integrations.spacy import register\n"
        "register()\n"
        f"doc = Doc(spacy.blank('en').vocab).from_disk({str(tmp_path / 'doc')!r})\n"
        "print(doc.ents[0]._.alphita.concept_name, doc.ents[0]._.concept_id)"
    )
    importing = (
        HIDDEN.format("spacy") + "\n"
        "from alphita.errors import AlphitaError\n"
        "try: import alphita.integrations.spacy\n"
        "except AlphitaError as error: print(error)"
    )
    for code, text in (
        (reading, "Cold T:3\n"),
        (importing, "this needs spacy, which is not installed: pip install 'alphita[spacy]'\n"),
    ):
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        assert (done.stdout, done.stderr) == (text, "")
