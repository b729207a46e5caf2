"""Every kind of line end is one line end, and places count the characters of the text that was given."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alphita.annotation.annotator import Annotator, Settings
from alphita.annotation.line_ends import lines_of
from alphita.annotation.spans import Annotated, Document

ENDS = ["\r\n", "\r", "\r\r\n", "\x85", "\u2028", "\u2029"]
TEXT = (
    "There is no evidence\nof seizures.\n\nDenies:\n- severe left\ncleft lip\n- multiple\nsclerosis (MS)\n\n\n"
    "Now hypotonia. MS.\nFamily history:\nShort and curved\nfingers\n\nCleft palate\n"
)


def annotated(annotator: Annotator, text: str) -> Annotated:
    [found] = annotator.annotate([Document("", text)])
    for one in found.annotations:
        assert text[one.start : one.end] == one.mention
        assert all(one.cue == text[one.start : one.end] for one in one.context)
    return found


def read(found: Annotated, end: str) -> list[tuple[object, ...]]:
    """Return what is said of each mention, and the words of all its parts, with line feeds."""
    text = found.document.text

    def words(one) -> str:
        return text[one.start : one.end].replace(end, "\n")

    return [
        (
            words(one),
            [words(piece) for piece in one.pieces],
            one.concept_id,
            one.decision,
            one.method,
            [(cue.category, words(cue)) for cue in one.context],
            [(side.kind, side.value, words(side)) for side in one.modifiers],
        )
        for one in found.annotations
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
