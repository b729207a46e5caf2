"""Forms in texts: items with values, rows of tables, tick boxes, signs and lists, and what these say of findings."""

from __future__ import annotations

import itertools
import re
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alphita.annotation.annotator import Annotator
from alphita.annotation.context import load_rules
from alphita.annotation.forms import items_of
from alphita.annotation.spans import Document, Place, lines_of
from alphita.annotation.tokens import sentences_of

RULES = load_rules()
_MARKED = re.compile(r"\{([^{}]*)\}")
SHORT = {"+": (), "-": ("negated",), "?": ("possible",), "f": ("family",), "h": ("historical",), "c": ("hypothetical",)}


def assertions(marked: str) -> list[tuple[str, ...]]:
    """Return what is said of each {finding} of a text, by its categories."""
    text, places = "", []
    for number, part in enumerate(_MARKED.split(lines_of(marked).text)):
        if number % 2:
            places.append(Place(len(text), len(text) + len(part)))
        text += part
    sentences = sentences_of(text)
    contexts = RULES.read(text, sentences)
    numbers = [next(n for n, one in enumerate(sentences) if one.end > place.start) for place in places]
    return [
        tuple(one.category for one in contexts.of(number, [place], places))
        for place, number in zip(places, numbers, strict=True)
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # A value belongs to the item before it.
        ("{Seizures}: no, {ataxia}: yes", "-+"),
        ("{Seizures} (no), {ataxia} (yes)", "-+"),
        ("{Seizures} - no, {ataxia} - yes", "-+"),
        ("{Seizures} no, {ataxia} yes", "-+"),
        ("{Seizures}: N, {ataxia}: Y", "-+"),
        ("{Seizures}: No / {Ataxia}: Yes", "-+"),
        ("{Fever}: negative, {cough}: positive", "-+"),
        ("{fever}: denies, {cough}: endorses", "-+"),
        ("{Fièvre} : non, {toux} : oui", "-+"),
        ("{Fever}: yes, {cough}: no", "+-"),
        ("{Seizures} – none, {ataxia} – mild", "-+"),
        ("{Seizures}\tno", "-"),
        ("{Seizures} | no", "-"),
        ("{Seizures} -ve", "-"),
        ("{Seizures} neg", "-"),
        ("{Seizures}? No.", "-"),
        ("(-) {fever} (+) {cough}", "-+"),
        ("{fever}-, {cough}+", "-+"),
        ("[ ] {Seizures} [x] {Ataxia}", "-+"),
        ("☐ {Seizures} ☑ {Ataxia}", "-+"),
        ("{Seizures}: unknown", "?"),
        # Its brothers.
        ("{Fieber}: nein, {Husten}: ja", "-+"),
        ("{Fiebre}: no, {tos}: sí", "-+"),
        ("{Febbre}: no, {tosse}: sì", "-+"),
        ("{Fie\u0300vre} : absente ; {toux} : pre\u0301sente", "-+"),
        ("{Seizures} = no; {ataxia} = yes", "-+"),
        ("{Seizures}....no\n{Ataxia}....yes", "-+"),
        ("{Seizures}: none since 2010. {Ataxia}: yes, mild", "-+"),
        ("{Seizures}: no {Ataxia}: yes", "-+"),
        ("{Fever} absent {cough} present {rash} absent", "-+-"),
        ("{Nausea} ++ {vomiting} 0 {diarrhea} +", "+-+"),
        ("{Fever}, {cough}: no", "--"),
        ("{Seizures}?\nNo\n{Ataxia}?\nYes", "-+"),
        ("History of {seizures}: no. History of {ataxia}: yes", "-h"),
        ("Family history of {seizures}: yes", "f"),
        ("Family history:\n{seizures}: yes", "f"),
        ("{Jaundice}: resolved; {ataxia}: ongoing", "h+"),
        ("{Gout}: ?", "?"),
        # Tables.
        ("| Symptom | Status |\n|---|---|\n| {Fever} | No |\n| {Cough} | Yes |", "-+"),
        ("| Finding | Yes | No |\n| {Fever} | x | |\n| {Cough} | | x |", "+-"),
        ("{Ptosis}\tyes\tno\n{Nystagmus}\tno\tno", "+-"),
        ("HP:0001250\t{Seizure}\tabsent", "-"),
        ("finding,value\n{Fever},no\n{Cough},yes", "-+"),
        ("{Fever} | no | {Cough} | yes", "-+"),
        # Boxes.
        ("{Fever} [ ] {Cough} [X]", "-+"),
        ("{Fever}: [x] Yes [ ] No\n{Cough}: [ ] Yes [x] No", "+-"),
        ("{Fever} ☐ yes ☒ no", "-"),
        ("- [x] {Fever}\n  - [ ] {Cough}", "+-"),
        ("☑ {Fever}\n☒ {Cough}", "+-"),
        ("☒ {Fever}\n☐ {Cough}", "+-"),
        ("( ) {Anxiety} (x) {Insomnia}", "-+"),
        ("✓ {Fever}\n✗ {Cough}", "+-"),
        # Signs.
        ("+{fever} -{cough}", "+-"),
        ("+ {fever}\n- {cough}\n- {chills}", "+--"),
        ("+ve for {fever} and {chills}, -ve for {cough}", "++-"),
        ("- {fever}\n- {cough}", "++"),
        # Nobody has filled it in.
        ("{Ataxia}: ______\n{Fever}: no", "c-"),
        ("{Ataxia}  Y __  N _X_\n{Fever}  Y _x_  N __\n{Cough} Y __ N __", "-+c"),
        ("{Fieber} 0, {Diarrhoe} 0, {Obstipation} +", "--+"),
        # These are no forms.
        ("Impression: no {seizures}", "-"),
        ("{Headache}: no relief with ibuprofen", "+"),
        ("He had no {fever} present", "-"),
        ("Pre- and postnatal {growth delay}", "+"),
        ("{Deletion} of 5 (p15)", "+"),
        ("{Absent thumbs} and {fever}", "++"),
        ("No {ataxia with tremor}, no {thumbs absent} or {radii absent}", "---"),
        ("No {trisomy 1}, {trisomy 1}", "--"),
    ],
)
def test_a_value_belongs_to_its_item(text, expected):
    assert assertions(text) == [SHORT[sign] for sign in expected]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r", "\u2028", "\u2029", "\x85", "\x0c", "\n\x0c"])
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("There is no evidence\nof {seizures}.", "-"),
        ("There is no evidence \nof {seizures}.", "-"),
        ("There is no evidence\n   of {seizures}.", "-"),
        ("No {fever},\n{chills} or {cough}.", "---"),
        ("Denies {fever},\n{cough} or {chills}.", "---"),
        ("Kein {Fieber},\n{Husten} oder {Ikterus}.", "---"),
        ("Family history of {seizures},\n{ataxia} and {tremor}.", "fff"),
        ("No {fever}\n{Cough}", "-+"),
        ("No history of\n- {seizures}\n- {stroke}\nTakes aspirin for {headache}", "--+"),
        ("Negative for:\n  {fever}\n  {cough}\n\nPositive for:\n  {rash}", "--+"),
        ("Keine Hinweise auf\n{Aszites}.\n{Ikterus} besteht.", "-+"),
        ("Absent: {fever},\n{cough}\nPresent: {rash},\n{pruritus}", "--++"),
        ("Family history:\n{Gout}\n\nHe has {fever}.", "f+"),
        ("FH: {asthma}. The patient has {fever}. He has {cough}.", "f++"),
    ],
)
def test_a_cue_reaches_over_the_lines_of_its_list_whatever_ends_them(text, expected, end):
    assert assertions(text.replace("\n", end)) == [SHORT[sign] for sign in expected]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The patient is {seizure}-free.", "-"),
        ("{Pain}-free since 2010", "-"),
        ("free of {pain}", "-"),
        ("{Seizures} resolved.", "h"),
        ("{Fever} subsided", "h"),
        ("Her {rash} has resolved", "h"),
        ("Resolved {seizures}", "h"),
        ("{Seizures} have not resolved", "+"),
        ("Die {Gelbsucht} ist abgeklungen", "h"),
        ("La {fièvre} a disparu", "h"),
        ("La {fiebre} ha desaparecido", "h"),
        ("La {febbre} è scomparsa", "h"),
    ],
)
def test_what_is_over_is_past_and_what_is_free_of_it_has_it_not(text, expected):
    assert assertions(text) == [SHORT[sign] for sign in expected]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Any {fever}? N. Any {cough}? Y.", "-+"),
        ("Any {fever}? N Any {cough}? Y", "-+"),
        ("Any {fever}? No Any {cough}? Yes Any {rash}? No", "-+-"),
        ("Does he have {fever}? no\nDoes he have {cough}? yes", "-+"),
        ("{Fever}? – no; {cough}? – yes", "-+"),
        ("Has the patient had {seizures}? Never.", "-"),
        ("Were there {seizures}? - No", "-"),
        ("Is there {fever}? No, but {cough}.", "-+"),
        ("{Fever} was never noted.", "-"),
        ("{Fever} not noted, {cough} noted.", "-+"),
        ("Neither {fever} nor {cough}.", "--"),
        ("{Fever} is not present; {cough} is.", "-+"),
        ("{Fever} and {cough} were not observed.", "--"),
        ("No {fever} or {cough}, but {rash}.", "--+"),
        ("There was no {fever}, and {cough} was absent.", "--"),
        ("{Fever}, {cough} and {rash}: all absent.", "---"),
        ("{Fever}: absent. {Cough}: present.", "-+"),
        ("{Fever} and {cough} both negative.", "--"),
        ("The patient, without {fever}, has {cough}.", "-+"),
        ("{Cough} without {fever} or {rash}.", "+--"),
        ("{Cough} with no {fever}.", "+-"),
        ("{Fever} has not been present.", "-"),
        ("{Fever} has never been reported", "-"),
        ("{fever} ruled out by exam", "-"),
        ("Exam ruled out {fever}.", "-"),
        ("MRI showed no {atrophy} and no {calcification}.", "--"),
        ("Denies: {fever}, {cough}; reports: {rash}", "--+"),
        ("Negative: {fever}, {cough}. Positive: {rash}.", "--+"),
        ("No: {fever}, {cough}\nYes: {rash}", "--+"),
        ("The absence of {fever} was noted.", "-"),
        ("{fever} absent", "-"),
        ("{Pain} free", "-"),
        ("free from {pain} and {fever}", "--"),
        ("{seizure}-free and {pain}-free", "--"),
        ("{Seizure} freedom since 2012", "-"),
        ("no longer {vomiting}", "-"),
        ("Her {fever} has gone.", "h"),
        ("{Fever}, now resolved", "h"),
        ("{Fever} (resolved)", "h"),
        ("{Fever} - resolved", "h"),
        ("resolved: {fever}, {cough}", "hh"),
        ("{Fever} resolved, {cough} persists", "h+"),
        ("{Fever} and {cough} have resolved", "hh"),
        ("Past: {fever}. Present: {cough}.", "h+"),
        ("Childhood {asthma}, outgrown", "h"),
        ("{Asthma} until age 12", "h"),
        ("Mother and sister with {migraine}", "f"),
        ("{Migraine} in mother and aunt", "f"),
        ("{Migraine} (mother)", "f"),
        ("Mother: {migraine}; father: {gout}; patient: {asthma}", "ff+"),
        ("Both parents have {migraine}", "f"),
        ("Grandfather died of {stroke}", "f"),
        ("A cousin of the patient has {asthma}", "f"),
        ("Family: {migraine}, {gout}", "ff"),
        ("rule out {asthma}", "?"),
        ("r/o {asthma}", "?"),
        ("{asthma}?", "?"),
        ("? {asthma}", "?"),
        ("{Asthma} vs {bronchitis}", "??"),
        ("{Asthma} is possible", "?"),
        ("suspected {asthma} and {gout}", "??"),
        ("{Asthma}: to be excluded", "?"),
        ("to exclude {asthma}", "?"),
        ("not sure about {asthma}", "?"),
        ("if {fever} occurs", "c"),
        ("in case of {fever}", "c"),
        ("when {fever} develops, call", "c"),
        ("to prevent {fever}", "c"),
        ("risk of {fever}", "c"),
        ("watch for {fever} and {cough}", "cc"),
        ("Return for {fever}", "c"),
        ("Fieber: {Husten} verneint", "-"),
        ("{Husten} wird verneint", "-"),
        ("Kein {Husten}, jedoch {Fieber}", "-+"),
        ("{Husten} und {Fieber} bestehen nicht", "--"),
        ("weder {Husten} noch {Fieber}", "--"),
        ("{Husten} nicht vorhanden", "-"),
        ("keine {Husten} mehr", "-"),
        ("pas de {toux} ni {fièvre}", "--"),
        ("{toux} absente, {fièvre} présente", "-+"),
        ("pas de {toux}, mais {fièvre}", "-+"),
        ("sin {tos} ni {fiebre}", "--"),
        ("no tiene {tos} pero sí {fiebre}", "-+"),
        ("{tos} ausente", "-"),
        ("niega {tos} y {fiebre}", "--"),
        ("non {tosse} né {febbre}", "--"),
        ("{tosse} assente, {febbre} presente", "-+"),
        ("nega {tosse} e {febbre}", "--"),
        ("nessuna {tosse}, ma {febbre}", "-+"),
    ],
)
def test_a_short_note_is_read_in_five_languages(text, expected):
    assert assertions(text) == [SHORT[sign] for sign in expected]


PIECES = st.sampled_from(
    [
        *(
            "Seizure",
            "hypotonia",
            "no",
            "yes",
            "family history",
            "denies",
            "nein",
            "free",
            "דלקת",
            "no\u200b",
            "é",
            "e\u0301",
        ),
        *(
            ": ",
            "\t",
            " | ",
            "[ ]",
            "[x]",
            "☐",
            "(",
            ")",
            "((",
            "[[",
            "? ",
            " - ",
            "+",
            "-",
            ", ",
            ". ",
            "; ",
            "...",
            "\u202e",
        ),
        *("\n", "\r\n", "\r", "\u2028", "\x0c", "\n\n", "\r\n   ", "  ", "- ", "1. "),
    ]
)


@given(st.lists(PIECES, max_size=60).map("".join))
@settings(max_examples=300, deadline=None)
def test_any_form_is_read_and_its_places_are_those_of_the_text(text):
    items = items_of(lines_of(text).text)
    assert items == sorted(items)
    assert all(0 <= one.start <= one.end <= len(text) for one in items)
    assert all(before.end <= after.start for before, after in itertools.pairwise(items))


@given(st.lists(PIECES, max_size=40).map("".join))
@settings(max_examples=150, deadline=None)
def test_every_finding_of_any_form_is_found_where_it_stands(annotator, text):
    annotated = annotator.annotate([Document("", text)])[0]
    for one in annotated.annotations:
        assert text[one.start : one.end] == one.mention
        assert all(text[context.start : context.end] == context.cue for context in one.context)
    found = {one.start for one in annotated.annotations}
    alone = re.finditer(r"(?<![\w\u0301-])Seizure(?![\w\u0301-])", text)
    assert {place.start() for place in alone} <= found


@pytest.fixture(scope="module")
def annotator(normalizer):
    return Annotator(normalizer)


@pytest.mark.parametrize(
    "part",
    [
        "Item number: no\n",
        "Seizures: no, ataxia: yes, ",
        "the patient has no seizure and a headache ",
        "[ ] [x] seizures ",
        "[[(( ",
        "a\tno\t",
        "| ",
        "+fever -cough ",
        "fever no, ",
        "? ",
        "- fever\n",
        "No history of\n- fever\n",
        "Family history: fever. ",
        "חום: לא, ",
        "    ",
    ],
)
def test_a_long_form_takes_time_in_proportion_to_its_length(part):
    def seconds(size: int) -> float:
        text = part * (size // len(part))
        began = time.process_time()
        RULES.read(text, sentences_of(text))
        return time.process_time() - began

    seconds(1_000)
    # A quadratic one would take sixteen times as long.
    assert min(seconds(80_000) for _ in range(2)) < 9 * min(seconds(20_000) for _ in range(2)) + 0.05


def test_the_items_of_ten_thousand_lines_have_each_its_value():
    text = "".join(f"Finding {number}: {'yes' if number % 3 else 'no'}\r\n" for number in range(10_000))
    items = items_of(lines_of(text).text)
    assert [one.assertion for one in items] == ["present" if number % 3 else "negated" for number in range(10_000)]
