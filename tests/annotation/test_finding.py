"""Names in texts: word order, inflection, shared heads, and places in any Unicode."""

from __future__ import annotations

import itertools
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from alphita import textio
from alphita.annotation import annotator as annotator_module
from alphita.annotation.annotator import Annotator, Candidate, Settings, settle
from alphita.annotation.confidence import of_found
from alphita.annotation.finding import Finder
from alphita.annotation.names import Level, Names, learn
from alphita.annotation.spans import Annotated, Document, Place, lines_of
from alphita.annotation.tokens import root, sentences_of, tokens_of
from alphita.answer.normalizer import Normalizer
from alphita.index.store import Index, build
from tests.doubles import HashEncoder, SmallTerminology


@pytest.fixture(scope="module")
def finder(index):
    return Finder(Names(index))


def found(finder, text):
    return [
        (" … ".join(text[start:end] for start, end in hit.pieces), finder.names.index.strings[hit.row], hit.level)
        for sentence in sentences_of(text)
        for hit in finder.find(text, sentence)
    ]


@pytest.mark.parametrize("row", textio.packaged(__package__, "names_in_texts.tsv"), ids=lambda row: row["text"])
def test_a_name_is_found_as_it_is_written_in_texts(finder, row):
    """Line ends and soft hyphens are written as Python's escapes."""
    text, mention = (row[name].replace("\\n", "\n").replace("\\xad", "\xad") for name in ("text", "mention"))
    assert found(finder, text) == ([(mention, row["name"], Level[row["level"]])] if mention else [])


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("short and curved fingers", {"curved fingers", "short … fingers"}),
        ("short, thin or curved fingers", {"curved fingers", "short … fingers"}),
        ("She has cleft lip and palate.", {"cleft lip", "cleft … palate"}),
        ("short arms and curved fingers", {"curved fingers"}),
        ("short fingers and seizures", {"short fingers", "seizures"}),
    ],
)
def test_a_shared_head_belongs_to_each_part(finder, text, parts):
    assert {mention for mention, _, _ in found(finder, text)} == parts


def test_a_beginning_is_shared_with_the_part_behind_it_alone(finder):
    mentions = {mention for mention, _, _ in found(finder, "cleft lip, curved fingers and palate")}
    assert mentions == {"cleft lip", "curved fingers"}


@pytest.mark.parametrize(
    ("text", "halves"),
    [
        ("short and curved fingers", {"short and curved fingers": False}),
        ("short and bulbar fingers", {"short and bulbar fingers": True}),
        ("cleft lip and palate", {"cleft lip and palate": False}),
        ("cleft foot and palate", {"cleft foot and palate": True}),
    ],
)
def test_a_name_is_a_half_where_what_it_is_joined_with_is_none(finder, text, halves):
    hits = finder.find(text, sentences_of(text)[0])
    wholes = {text[hit.pieces[0].start : hit.pieces[-1].end]: hit for hit in hits if len(hit.pieces) > 1}
    assert {whole: hit.is_half(hits) for whole, hit in wholes.items()} == halves


def test_a_half_is_for_review_at_best(normalizer):
    annotator = Annotator(normalizer)
    both, half = annotator.annotate(
        [Document("", "He has short and curved fingers."), Document("", "He has short and bulbar fingers.")]
    )
    assert {one.concept_id for one in both.annotations} == {"HP:2", "HP:3"}
    assert all(one.decision != "accept" for one in half.annotations)


@pytest.mark.parametrize(
    ("text", "mentions"),
    [
        ("Siezures and hypotonnia", {"Siezures": "MISSPELT", "hypotonnia": "MISSPELT"}),
        ("He saw Hypotonnia.", {}),
        ("short fingurs", {"short fingurs": "MISSPELT"}),
        ("seizure and siezure", {"seizure": "SAME", "siezure": "MISSPELT"}),
    ],
)
def test_a_misspelt_finding_is_found_but_no_name_inside_a_sentence(finder, text, mentions):
    right = {"siezures": "seizures", "siezure": "seizure", "hypotonnia": "hypotonia", "fingurs": "fingers"}
    sentence = sentences_of(text)[0].spelt(text, right)
    hits = finder.find(text, sentence)
    assert {text[slice(*hit.pieces[0])]: hit.level.name for hit in hits} == mentions


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("fever and\u200bataxia", ["fever", "and", "ataxia"]),
        ("Seizures\u200b are", ["Seizures", "are"]),
        ("Seizures\ufeff.", ["Seizures"]),
        ("\u200eSeizures\u200f", ["Seizures"]),
        ("sei\u00adzures", ["sei\u00adzures"]),
        ("type A-1", ["type", "A-1"]),
    ],
)
def test_what_is_not_seen_is_no_letter_at_the_end_of_a_word(text, words):
    assert [text[token.start : token.end] for token in tokens_of(text)] == words


def test_a_box_or_a_value_parts_two_names(normalizer):
    text = "Cleft lip [ ] cleft palate [x]\nCleft lip (-) cleft palate (+)"
    found = Annotator(normalizer).annotate([Document("", text)])[0].annotations
    assert [(one.mention.lower(), one.said) for one in found] == [
        ("cleft lip", ("negated",)),
        ("cleft palate", ("affirmed",)),
    ] * 2


def test_names_that_cross_stand_both():
    def name(start, end):
        return Candidate(
            (Place(start, end),), "", f"T:{start}", "", "", 1.0, "accept", "exact", True, False, is_certain=True
        )

    assert settle([name(0, 10), name(5, 15)]) == [name(0, 10), name(5, 15)]
    assert settle([name(0, 10), name(5, 10)]) == [name(0, 10)]


def test_the_confidence_of_what_is_found_is_less_than_of_what_is_given():
    confidences = [of_found(given) for given in (0.0, 0.3, 0.6, 0.9, 0.99, 1.0)]
    assert confidences == sorted(confidences)
    assert 0 < confidences[0] < confidences[-1] < 1
    assert of_found(0.99) < 0.9


def test_words_that_join_sentences_make_no_name_of_what_stands_beside_them(finder):
    assert found(finder, "short of the affected fingers") == []


WORDS = "Seizure|short|fingers|and|curved|œdème|ö|\u202e|🧠|\r\n|\n| |.|, |-|\x00|�|½|10⁹|ﬁ|İ|ß|MS|(|\xad|癫痫|النوبة"
PIECES = st.sampled_from([*WORDS.split("|"), "type 2"])


@given(st.lists(PIECES | st.text(max_size=4), max_size=30).map("".join))
def test_places_are_of_the_text_as_it_was_given(finder, text):
    tokens = tokens_of(text)
    assert all(0 <= token.start < token.end <= len(text) for token in tokens)
    assert all(one.end <= other.start or (one[:2] == other[:2]) for one, other in itertools.pairwise(tokens))
    for sentence in sentences_of(text):
        for hit in finder.find(text, sentence):
            words = " ".join(text[start:end] for start, end in hit.pieces)
            if hit.level < Level.ROOTS:
                assert hit.asked == words
            said = sorted(filter(None, (root(token.form) for token in tokens_of(words))))
            own = sorted(filter(None, (root(token.form) for token in tokens_of(finder.names.index.strings[hit.row]))))
            assert said == own


@given(st.lists(PIECES | st.text(max_size=4), max_size=30).map("".join))
def test_every_word_is_in_one_sentence(text):
    sentences = sentences_of(text)
    assert [token for one in sentences for token in one.tokens] == tokens_of(text)
    assert all(one.end <= other.start for one, other in itertools.pairwise(sentences))


def test_a_point_after_a_title_ends_no_sentence():
    text = "Seen by Dr. Smith on 3.5 mg, i.e. little. No fits! New line?\nYes"
    assert [text[one.start : one.end] for one in sentences_of(text)] == [
        "Seen by Dr. Smith on 3.5 mg, i.e. little",
        "No fits",
        "New line",
        "Yes",
    ]


def test_a_long_line_without_an_end_is_cut():
    sentences = sentences_of("seizure and fever " * 1000)
    assert max(len(sentence.tokens) for sentence in sentences) == 400
    assert sum(len(sentence.tokens) for sentence in sentences) == 3000


ORGANS = ("cyst", "failure", "stone")
ROWS = [
    *((f"T:{part}", f"{organ} {part}", "exact") for part in ORGANS for organ in ("Renal", "Kidney")),
    ("T:tumor", "Renal tumor", "exact"),
    ("T:talus", "Congenital vertical talus", "exact"),
    ("T:web", "Syndactyly", "exact"),
    ("T:fused", "Proximal symphalangism", "exact"),
    ("T:web", "symphalangism", "exact"),
    ("T:web", "NFM", "exact"),
]


@pytest.fixture(scope="module")
def named(tmp_path_factory):
    path = tmp_path_factory.mktemp("names") / "small.index"
    build(SmallTerminology(ROWS), HashEncoder(), path)
    return Index.open(path)


def hits(index, text):
    finder = Finder(Names(index))
    return [
        (hit.asked, index.strings[hit.row], hit.level) for one in sentences_of(text) for hit in finder.find(text, one)
    ]


def test_roots_that_few_concepts_or_few_names_swap_stand_for_nothing():
    def names(number, left, right):
        return [[(left, f"part{place}"), (right, f"part{place}")] for place in range(number)]

    assert learn(names(3, "kidney", "renal")) == {"kidney": ("renal",), "renal": ("kidney",)}
    assert learn(names(2, "kidney", "renal")) == {}
    alone = [[("finger", f"bone{place}")] for place in range(100)] + [
        [("hand", f"bone{place}")] for place in range(100)
    ]
    assert learn(names(3, "finger", "hand") + alone) == {}
    # One word against another is no name with one in the other's place.
    assert learn([[("kidney",), ("renal",)]] * 5) == {}


def test_a_word_stands_for_another_where_the_names_say_so(named):
    assert hits(named, "a kidney tumor") == [("kidney tumor", "renal tumor", Level.ALIKE)]
    assert hits(named, "a kidney talus") == []


def test_a_name_is_found_without_what_says_how_it_is_where_nothing_else_has_that_name(named):
    assert hits(named, "vertical talus") == [("vertical talus", "congenital vertical talus", Level.ALIKE)]


def test_borrowed_short_forms_and_words_that_other_names_hold_are_not_looked_for(named):
    borrowed = np.isin(named.segment.terms.column("string").to_pylist(), ["symphalangism", "NFM"])
    segment = SimpleNamespace(
        offsets=named.segment.offsets,
        terms=named.segment.terms,
        term_concept=named.segment.term_concept,
        standing=np.where(borrowed, 20, named.segment.standing),
        borrowed=borrowed,
    )
    # Its own names they are found by.
    assert [name for _, name, _ in hits(named, "symphalangism, NFM")] == ["symphalangism", "nfm"]
    some = SimpleNamespace(strings=named.strings, segment=segment)
    assert hits(some, "symphalangism, NFM") == [("symphalangism", "proximal symphalangism", Level.ALIKE)]


def test_what_is_only_alike_is_left_to_the_normalizer(named):
    normalizer = Normalizer(named, encoder=HashEncoder())
    exact = Annotator(normalizer, Settings(exact=True)).annotate([Document("1", "kidney cyst, kidney tumor")])
    assert [annotation.mention for annotation in exact[0].annotations] == ["kidney cyst"]


def candidate(start, end, concept="A", confidence=0.5, certain=False, name=False, pieces=None):
    pieces = pieces or (Place(start, end),)
    return Candidate(pieces, "", concept, concept, concept, confidence, "review", "nearest", name, False, certain)


def places(candidates):
    return [(one.start, one.end, one.concept_id) for one in settle(candidates)]


SHARED = candidate(0, 9, "A", certain=True, pieces=(Place(0, 3), Place(6, 9)))
PART, WHOLE = candidate(5, 9, certain=True), candidate(0, 9, certain=True)
LONGEST = [
    candidate(0, 4, "A", 0.99, certain=True),
    candidate(0, 9, "B", 0.9, certain=True),
    candidate(0, 20, "C", 0.99),
]


@pytest.mark.parametrize(
    ("some", "standing"),
    [
        # The longest certain one; of uncertain ones the most confident.
        ([*LONGEST, candidate(0, 20, "C", 0.99)], [(0, 9, "B")]),
        ([candidate(0, 9, "A", 0.4), candidate(3, 6, "B", 0.6)], [(3, 6, "B")]),
        # What says no more than its part gives way, unless it is a name.
        ([WHOLE, PART], [(5, 9, "A")]),
        ([WHOLE._replace(is_name=True), PART], [(0, 9, "A")]),
        # Parts that share a head stand beside each other.
        ([SHARED, candidate(4, 9, "B", certain=True)], [(0, 9, "A"), (4, 9, "B")]),
    ],
)
def test_what_stands(some, standing):
    assert places(some) == standing


SPANS = st.tuples(st.integers(0, 20), st.integers(1, 8), st.sampled_from("ABC"), st.floats(0, 1), st.booleans())


@given(st.lists(SPANS, max_size=12))
def test_what_stands_never_overlaps_and_nothing_could_be_added(spans):
    some = [candidate(start, start + size, concept, sure, certain) for start, size, concept, sure, certain in spans]
    standing = settle(some)
    assert all(one.end <= other.start for one, other in itertools.pairwise(standing))
    assert bool(standing) == bool(some)


ENDS = ["\r\n", "\r", "\r\r\n", "\x85", "\u2028", "\u2029"]
TEXT = (
    "There is no evidence\nof seizures.\n\nDenies:\n- severe left\ncleft lip\n- multiple\nsclerosis (MS)\n\n\n"
    "Now hypotonia. MS.\nFamily history:\nShort and curved\nfingers\n\nCleft palate\n"
)


def annotated(annotator: Annotator, text: str) -> Annotated:
    [found] = annotator.annotate([Document("", text)])
    for one in found.annotations:
        assert text[one.start : one.end] == one.mention
        assert all(context.cue == text[context.start : context.end] for context in one.context)
    return found


def read(found: Annotated, end: str) -> list[tuple[object, ...]]:
    """Return what is said of each mention, and the words of all its parts, with line feeds."""
    text = found.document.text

    def words(one) -> str:
        return text[one.start : one.end].replace(end, "\n")

    return [
        (
            words(annotation),
            [words(piece) for piece in annotation.pieces],
            annotation.concept_id,
            annotation.decision,
            annotation.method,
            [(cue.category, words(cue)) for cue in annotation.context],
            [(side.kind, side.value, words(side)) for side in annotation.modifiers],
        )
        for annotation in found.annotations
    ]


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("end", ENDS)
def test_every_kind_of_line_end_is_one(normalizer, end, exact):
    annotator = Annotator(normalizer, Settings(exact=exact))
    plain = read(annotated(annotator, TEXT), "\n")
    said = {words: [category for category, _ in context] for words, *_, context, _ in plain}
    assert said["seizures"] == ["negated"]
    assert "Short and curved\nfingers" in said
    assert read(annotated(annotator, TEXT.replace("\n", end)), end) == plain


@given(st.lists(st.sampled_from(["\n", *ENDS, "a", "no ", "\U0001f637", "\x0b"])))
def test_places_are_those_of_the_given_text(parts):
    given_text = "".join(parts)
    lines = lines_of(given_text)
    assert not set(lines.text) & set("\r\x85\u2028\u2029")
    for place, sign in enumerate(lines.text):
        start, end = lines.given_place(place, place + 1)
        assert given_text[start:end] == sign if sign != "\n" else lines_of(given_text[start:end]).text == "\n"
    assert lines.given_place(0, len(lines.text)) == (0, len(given_text))


BODY = [
    ("T:top", "Abnormality of the ear", "exact"),
    ("T:outer", "Ear anomalies", "exact"),
    ("T:heart", "Abnormality of the heart", "exact"),
    ("T:lip", "Lip malformation", "exact"),
    ("T:retina", "Retinal atrophy", "exact"),
    ("T:choroid", "Choroidal atrophy", "exact"),
    ("T:arm", "Short arms", "exact"),
    ("T:jaw", "Mandibular hyperplasia", "exact"),
    ("T:nevi", "Multiple nevi", "exact"),
    ("T:eosin", "Eosinophilia", "exact"),
    ("T:myopia", "Severe myopia", "exact"),
    ("T:loss", "Hearing loss", "exact"),
    ("T:severe", "Severe hearing loss", "exact"),
    ("T:membrane", "Condylar membranes", "exact"),
]


@pytest.fixture(scope="module")
def body(tmp_path_factory):
    path = tmp_path_factory.mktemp("body") / "small.index"
    build(SmallTerminology(BODY), HashEncoder(), path)
    return Index.open(path)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("ear anomalies", ["abnormality of the ear"]),
        ("otic anomalies", ["abnormality of the ear"]),
        ("cardiac involvement", []),
        ("involvement of the heart", ["abnormality of the heart"]),
        ("changes of the heart membranes", []),
        ("involvement of the lip", []),
        ("atrophy of the retina and the choroid", ["choroidal atrophy", "retinal atrophy"]),
        ("atrophy of the retina, choroid, and", ["choroidal atrophy", "retinal atrophy"]),
        ("the short arm of chromosome 4", []),
        ("short arms", ["short arms"]),
        ("hyperplasia of the mandible", ["mandibular hyperplasia"]),
        ("hyperplasia of the mandibular membranes", []),
        ("numerous nevi", ["multiple nevi"]),
        ("eosinophilic", ["eosinophilia"]),
        ("eosinophilic membranes", []),
        ("severe myopia, and hearing loss", ["hearing loss", "severe myopia"]),
    ],
)
def test_words_mean_what_they_say_together(body, text, names):
    assert sorted({name for _, name, _ in hits(body, text)}) == names


@pytest.mark.parametrize(
    ("asked", "matched", "denies"),
    [
        ("anicteric sclera", "Icteric sclera", True),
        ("normal phagocytosis", "Abnormal phagocytosis", True),
        ("normal pressure hydrocephalus", "Normal pressure hydrocephalus", False),
        ("anuria", "Anuria", False),
        ("nonedematous", "Edema", True),
    ],
)
def test_what_words_deny_is_no_finding(asked, matched, denies):
    assert annotator_module._denies(asked, matched) == denies


@pytest.mark.parametrize(
    ("text", "concepts"),
    [
        ("MS was found.", {"HP:7"}),
        ("Mitral stenosis (MS) was found; MS.", set()),
        ("Multiple sclerosis (MS) was found.", {"HP:7"}),
        ("The gene of myotonia (MS) was found.", set()),
        ("Heart rate (HR) was high in MS.", set()),
    ],
)
def test_a_short_form_means_what_its_text_says(normalizer, text, concepts):
    found = Annotator(normalizer).annotate([Document("", text)])[0].annotations
    assert {one.concept_id for one in found} & {"HP:7"} == concepts


def test_a_phrase_that_cuts_a_name_in_two_gives_way():
    name = candidate(5, 14, "B", certain=True, name=True)
    assert places([candidate(0, 10, "A", 0.9, certain=True), name]) == [(5, 14, "B")]
