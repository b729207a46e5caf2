"""What the abbreviations of a mention stand for."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alphita import textio
from alphita.errors import InputError, UsageError
from alphita.index.store import build
from alphita.mention import abbreviations
from alphita.mention.abbreviations import MAX_SPANS, MOST, Abbreviations, Expansion
from alphita.mention.short_forms import Meaning
from tests.doubles import HashEncoder, SmallTerminology

CHF = Meaning("CHF", "congestive heart failure")
MI = Meaning("MI", "myocardial infarction")
ALL = Meaning("ALL", "acute lymphoblastic leukemia")
AS = Meaning("AS", "aortic stenosis")
KNOWN = Abbreviations([CHF, MI, ALL, AS])


def strings(found):
    return [expansion.string for expansion in found]


def write(tmp_path, text, name="own.csv"):
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return path


# --- where an abbreviation may stand ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("check", "mention", "expected"),
    [tuple(row.values()) for row in textio.packaged(__package__, "abbreviations.tsv") if "expanded" in row["check"]],
)
def test_an_abbreviation_is_written_out(check, mention, expected):
    """Wherever it stands, in any case but where capitals say nothing."""
    found = strings(KNOWN.expand(mention))
    if check == "is expanded":
        assert bool(found) is (expected == "yes")
    else:
        assert found == ([expected] if expected else [])


def test_a_short_form_listed_in_small_letters_matches_in_any_case():
    known = Abbreviations([], [Meaning("hx", "history"), Meaning("as", "aortic stenosis")])
    assert strings(known.expand("HX of AS")) == ["history of aortic stenosis"]


def test_the_expansion_says_what_and_whence():
    assert KNOWN.expand("old MI") == [
        Expansion("old myocardial infarction", "MI", "myocardial infarction", "terminology", False)
    ]
    known = Abbreviations([MI], [Meaning("hx", "history")])
    assert known.expand("hx of MI") == [
        Expansion("history of myocardial infarction", "hx; MI", "history; myocardial infarction", "list; terminology")
    ]


# --- definitions -----------------------------------------------------------------------------------------------------


def test_a_mention_that_defines_its_own():
    nothing = Abbreviations()
    long = "congestive heart failure"
    assert nothing.expand("congestive heart failure (CHF)") == [Expansion(long, "CHF", long, "input", True)]
    assert nothing.expand("CHF (congestive heart failure; 3 of 9)") == [Expansion(long, "CHF", long, "input", True)]
    assert strings(nothing.expand("acute congestive heart failure (CHF), severe")) == [
        "acute congestive heart failure, severe",
        "congestive heart failure",
    ]
    assert strings(nothing.expand("heart failure (HF) and HF of the left")) == [
        "heart failure and HF of the left",
        "heart failure",
        "heart failure and of the left",
    ]


def test_a_definition_in_the_own_context_silences_all_others():
    known = Abbreviations([Meaning("CT", "computed tomography")], [Meaning("CT", "chemotherapy")])
    known.learn(["connective tissue (CT)"])
    assert [one.source for one in known.expand("CT")] == ["list", "input", "terminology"]
    assert known.expand("CT", "copper toxicosis (CT) in terriers") == [
        Expansion("copper toxicosis", "CT", "copper toxicosis", "input", True)
    ]
    # It holds for that row only.
    assert len(known.expand("CT", "terriers")) == 3
    # The mention's own definition stands above the context's.
    assert strings(known.expand("cell type (CT) CT", "copper toxicosis (CT)"))[0] == "cell type CT"
    assert "copper toxicosis" not in " ".join(strings(known.expand("cell type (CT) CT", "copper toxicosis (CT)")))


def test_two_definitions_in_one_context_are_not_decided():
    found = Abbreviations().expand("AB", "alpha bone (AB), later atrial block (AB)")
    assert [(one.string, one.decided) for one in found] == [("alpha bone", False), ("atrial block", False)]


def test_what_the_file_defines_oftenest_comes_first():
    known = Abbreviations()
    known.learn(["acute bone (AB)", "atrial block (AB)", "no", "Atrial block (AB)"])
    known.learn(["heart failures (HFs)"])
    assert strings(known.expand("AB")) == ["atrial block", "acute bone"]
    assert strings(known.expand("HF")) == ["heart failures"]


# --- ambiguity and context -------------------------------------------------------------------------------------------

AMBIGUOUS = Abbreviations(
    [
        Meaning("MS", "multiple sclerosis", ("Disseminated sclerosis", "demyelinating disease")),
        Meaning("MS", "mitral stenosis", ("Narrowing of the mitral valve",)),
        Meaning("MS", "morphine sulfate"),
    ]
)


def test_an_ambiguous_one_gives_all_in_their_order():
    found = AMBIGUOUS.expand("MS")
    assert strings(found) == ["multiple sclerosis", "mitral stenosis", "morphine sulfate"]
    assert not any(one.decided for one in found)


@pytest.mark.parametrize(
    ("context", "first", "decided"),
    [
        ("known stenosis of a valve", "mitral stenosis", True),  # one word of the long form, one of another name
        ("Demyelinating lesions", "multiple sclerosis", True),  # by another name
        ("given morphine SULFATE", "morphine sulfate", True),
        ("mitral, multiple", "multiple sclerosis", False),  # one word each
        ("of the", "multiple sclerosis", False),  # words that carry nothing
        ("", "multiple sclerosis", False),
    ],
)
def test_the_context_orders_them(context, first, decided):
    found = AMBIGUOUS.expand("MS", context)
    assert found[0].string == first
    assert [one.decided for one in found] == [decided, False, False]
    rest = [one for one in strings(AMBIGUOUS.expand("MS")) if one != first]
    assert strings(found)[1:] == rest


def test_no_more_than_eight_of_a_mention():
    known = Abbreviations([Meaning("AB", f"alpha {letter}one") for letter in "abcdefghijkl"])
    assert strings(known.expand("AB")) == [f"alpha {letter}one" for letter in "abcdefgh"]
    assert len(known.expand("AB with AB")) == MOST


def test_a_long_form_in_another_language_is_left_out():
    known = Abbreviations(
        [], [Meaning("IC", "insuffisance cardiaque", (), "fr"), Meaning("IC", "intensive care", (), "en")]
    )
    for tag in ("fr-CH", "fr_FR"):
        assert strings(known.expand("IC", language=tag)) == ["insuffisance cardiaque"]
    assert len(known.expand("IC")) == 2


# --- the terminology -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def taught(tmp_path_factory):
    rows = [
        ("T:1", "Myocardial infarction", "exact", None),
        ("T:1", "Heart attack", "exact", None),
        ("T:1", "MI", "exact", "abbreviation"),
        ("T:2", "Reflux of the gullet", "exact", None),
        ("T:2", "Gullet back flow disease", "exact", None),
        ("T:2", "GBFD", "exact", "abbreviation"),
        ("T:2", "XYZ", "exact", "abbreviation"),
        ("T:3", "Low red blood cell count", "exact", None),
        ("T:3", "Low RBC count", "exact", "abbreviation"),
        ("T:3", "Few red cells", "exact", None),
        ("T:4", "Low hemoglobin", "exact", None),
        ("T:4", "Reduced hemoglobin", "exact", None),
        ("T:4", "Low Hb", "exact", "abbreviation"),
        ("T:5", "Mitral insufficiency", "exact", None),
        ("T:5", "MI", "related", "abbreviation"),
        ("T:6", "Gone disease", "exact", None),
        ("T:6", "GD", "exact", "abbreviation"),
    ]
    terminology = SmallTerminology([row[:3] for row in rows], retired=["T:6"], types=[row[3] for row in rows])
    return build(terminology, HashEncoder(), tmp_path_factory.mktemp("taught") / "x.index")


def test_what_a_terminology_teaches(taught):
    known = Abbreviations.of_index(taught)
    kept = {short: long for short, long, *_ in known.to_json()["terminology"]}
    assert kept == {
        "MI": "Myocardial infarction",
        "GBFD": "Gullet back flow disease",  # made of its letters
        "XYZ": "Reflux of the gullet",  # the preferred name
        "RBC": "red blood cell",
        "Hb": "hemoglobin",
    }
    assert strings(known.expand("high RBC count")) == ["high red blood cell count"]
    assert [one.source for one in known.expand("MI")] == ["terminology"]
    # Another name of the concept stands in the context.
    assert known.expand("MI", "an attack last year")[0].decided


def test_an_index_without_abbreviations_teaches_none(index_path):
    from alphita.index.store import Index

    assert Abbreviations.of_index(Index.open(index_path)).to_json()["terminology"] == []


# --- the list --------------------------------------------------------------------------------------------------------


def test_a_list_is_read(tmp_path):
    path = write(tmp_path, '\ufefflong,Short,note\nhistory,hx,x\n"heart failure, congestive",CHF,\n\nhoax,hx,\n')
    known = KNOWN.with_list(path)
    assert strings(known.expand("hx of asthma")) == ["history of asthma", "hoax of asthma"]
    assert [(one.long, one.source) for one in known.expand("CHF")] == [
        ("heart failure, congestive", "list"),
        ("congestive heart failure", "terminology"),
    ]
    assert KNOWN.expand("hx of asthma") == []  # the other one stays as it was
    tabs = write(tmp_path, "short\tlong\tlanguage\nIC\tinsuffisance, cardiaque\tfr\n", "own.tsv")
    assert strings(KNOWN.with_list(tabs).expand("IC", language="fr")) == ["insuffisance, cardiaque"]


LONG_CHAIN = "".join(f"X{number}Y,X{number + 1}Y z\n" for number in range(300)) + "X300Y,end\n"


@pytest.mark.parametrize(
    ("rows", "mention", "expected"),
    [
        (
            "HFpEF,HF with pEF\nHF,heart failure\npEF,preserved EF\nEF,ejection fraction\n",
            "HFpEF",
            ["heart failure with preserved ejection fraction"],
        ),
        ("HFpEF,HF with pEF\nHF,heart failure\n", "old HF", ["old heart failure"]),
        # Through an ambiguous one it gives several.
        ("AB,CD disease\nCD,Crohn\nCD,celiac\n", "AB", ["Crohn disease", "celiac disease"]),
        (LONG_CHAIN, "X0Y", ["end" + " z" * 300]),
    ],
    ids=["chain", "end of a chain", "ambiguous", "long"],
)
def test_chains_are_expanded_through(tmp_path, rows, mention, expected):
    known = Abbreviations().with_list(write(tmp_path, "short,long\n" + rows))
    assert strings(known.expand(mention)) == expected


@pytest.mark.parametrize(
    ("rows", "circle", "line"),
    [
        ("AA,BB\nBB,AA\n", "AA -> BB -> AA", 2),
        ("xx,plain\nAA,BB disease\nBB,old CC\nCC,AA of the hip\n", "AA -> BB -> CC -> AA", 3),
        ("AA,AA disease\n", "AA -> AA", 2),
        ("AA,good\nAA,BB\nBB,one AA\n", "AA -> BB -> AA", 2),
    ],
)
def test_a_circle_is_shown(tmp_path, rows, circle, line):
    path = write(tmp_path, "short,long\n" + rows)
    with pytest.raises(InputError, match="in a circle") as caught:
        Abbreviations().with_list(path)
    assert (caught.value.value, caught.value.line, caught.value.file) == (circle, line, path)
    assert caught.value.remedy


@pytest.mark.parametrize(
    ("text", "problem", "line", "field"),
    [
        ("", "is empty", None, None),
        ("short,lang\nA,b\n", "has no column 'long'; did you mean 'lang'", 1, "long"),
        ("short,long,long\nAB,b,c\n", "has the column 'long' twice", 1, "long"),
        ("short,long\nAB,alpha bone\n,beta\n", "an empty cell", 3, "short"),
        ("short,long\nAB, \n", "an empty cell", 2, "long"),
        ("short,long\nAB,--\n", "no letter or digit", 2, "long"),
        ("short,long\nAB,ab.\n", "stands for itself", 2, "long"),
        ("short,long\nAB\n", "1 cells, but the header has 2", 2, None),
        ("short,long\nAB,a, b\n", "3 cells, but the header has 2", 2, None),
        ('short,long\nAB,"never closed\n', "not a row", 2, None),
    ],
)
def test_a_bad_list_is_refused(tmp_path, text, problem, line, field):
    path = write(tmp_path, text)
    with pytest.raises(InputError, match=problem) as caught:
        Abbreviations().with_list(path)
    assert (caught.value.file, caught.value.line, caught.value.field) == (path, line, field)


def test_a_list_that_is_no_text_or_not_there_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"cannot be read: No such file"):
        Abbreviations().with_list(tmp_path / "none.csv")
    path = tmp_path / "latin.csv"
    path.write_bytes("short,long\nÄB,ärger\n".encode("latin-1"))
    with pytest.raises(InputError, match="not UTF-8"):
        Abbreviations().with_list(path)


def test_an_expansion_that_grows_without_measure_is_refused(tmp_path):
    rows = [f"X{number}Y,X{number + 1}Y X{number + 1}Y" for number in range(40)] + ["X40Y,end"]
    with pytest.raises(InputError, match="more than 1000 characters"):
        Abbreviations().with_list(write(tmp_path, "\n".join(["short,long", *rows])))


# --- many, and saving ------------------------------------------------------------------------------------------------


def test_many_give_what_each_gives_alone():
    mentions = ["CHF", "x", "MS", "", "old MI", "MS"]
    contexts = ["congenital hip fault (CHF)", None, "mitral", None, None, "morphine"]
    known = Abbreviations([CHF, MI, *AMBIGUOUS._sources["terminology"].meanings()])
    together = known.expand_many(mentions, contexts)
    assert together == [known.expand(*pair) for pair in zip(mentions, contexts, strict=True)]
    assert [len(found) for found in together] == [1, 0, 3, 0, 1, 3]
    with pytest.raises(UsageError, match="6 mentions, but 1 contexts"):
        known.expand_many(mentions, ["x"])


def test_the_work_grows_no_faster_than_the_mention(monkeypatch):
    counted = []
    true_clean = abbreviations.clean

    def counting(text, *rules):
        counted.append(len(text))
        return true_clean(text, *rules)

    monkeypatch.setattr(abbreviations, "clean", counting)
    work = []
    for words in (2_000, 8_000):
        text = "seen with MI and CHF, no AS " * (words // 7)
        counted.clear()
        assert KNOWN.expand(text)
        work.append(sum(counted) / len(text))
    assert work[1] < 1.1 * work[0]


def test_of_a_whole_text_the_first_abbreviations_are_written_out():
    [found] = KNOWN.expand("CHF, " * (MAX_SPANS + 1))
    assert found.string == "congestive heart failure, " * MAX_SPANS + "CHF"


def test_saving_keeps_terminology_and_list_but_no_input(tmp_path):
    known = AMBIGUOUS.with_list(write(tmp_path, "short,long,language\nhx,history,en\n"))
    known.learn(["private disease (PD)"])
    kept = json.loads(json.dumps(known.to_json()))
    assert "private" not in json.dumps(kept)
    again = Abbreviations.from_json(kept)
    assert again.to_json() == known.to_json()
    for mention, context in (("hx of MS", None), ("MS", "mitral")):
        assert again.expand(mention, context) == known.expand(mention, context)
    assert known.expand("PD") != []
    assert again.expand("PD") == []


@pytest.mark.parametrize("kept", [{}, [], None, {"format": 9}, {"format": 1, "terminology": [["a"]], "list": []}])
def test_damaged_json_is_refused(kept):
    with pytest.raises(InputError, match="damaged abbreviations"):
        Abbreviations.from_json(kept)


@given(st.lists(st.sampled_from(["CHF", "MS", "ALL", "all", "heart", "(", ")", "[x]", "MS)", "é", "-"]), max_size=6))
def test_any_mention_gets_distinct_expansions_of_other_text(words):
    mention = " ".join(words)
    known = Abbreviations([CHF, ALL, *AMBIGUOUS._sources["terminology"].meanings()])
    found = known.expand(mention, "mitral valve")
    assert len(found) <= MOST
    assert len(set(strings(found))) == len(found)
    assert mention not in strings(found)
    assert ("CHF" not in words) or found
