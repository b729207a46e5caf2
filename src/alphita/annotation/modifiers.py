"""Which side and how severe: words that stand beside a mention, or in it."""

from __future__ import annotations

from bisect import bisect_left, bisect_right

from alphita.annotation.function_words import CONJUNCTIONS
from alphita.annotation.spans import Modifier
from alphita.annotation.tokens import Sentence
from alphita.mention.cues import bare

_WORDS = {
    (
        "laterality",
        "left",
    ): "left left-sided lt sinistra sinistro links linke linker linkes linken gauche izquierda izquierdo",
    (
        "laterality",
        "right",
    ): "right right-sided rt destra destro rechts rechte rechter rechtes rechten droite droit derecha derecho",
    (
        "laterality",
        "bilateral",
    ): "bilateral bilaterally both bilaterale bilaterali beidseits beidseitig beidseitige bilaterales",
    ("laterality", "unilateral"): "unilateral unilaterally monolaterale einseitig einseitige unilaterale",
    ("severity", "mild"): "mild slight minor lieve lievi leicht leichte leichter leichtes leger legere leve leves",
    (
        "severity",
        "moderate",
    ): "moderate moderately moderata moderato massig massige mäßig moderee modere moderada moderado",
    (
        "severity",
        "severe",
    ): "severe severely marked profound grave gravi schwer schwere schwerer schweres severa severo severes",
}
_VALUES = {word: kind for kind, words in _WORDS.items() for word in words.split()}
SEVERITY = "severity"
# Words before the mention, and behind it, that are looked at.
BEFORE, BEHIND = 3, 4


def modifiers_of(sentence: Sentence, start: int, end: int) -> tuple[Modifier, ...]:
    """Return the side and the severity of a mention, each once, the nearest: none beyond a comma or a break."""
    tokens = sentence.tokens
    first = bisect_right(tokens, start, key=lambda token: token.end)
    last = bisect_left(tokens, end, key=lambda token: token.start) - 1
    if first > last:
        return ()
    low = first
    while low > max(0, first - BEFORE) and not tokens[low].joins and tokens[low - 1].form not in CONJUNCTIONS:
        low -= 1
    high = last
    while high < min(len(tokens) - 1, last + BEHIND) and not tokens[high + 1].joins:
        if tokens[high + 1].form in CONJUNCTIONS:
            break
        high += 1
    near = sorted(range(low, high + 1), key=lambda place: max(first - place, place - last, 0))
    found: dict[str, Modifier] = {}
    for place in near:
        known = _VALUES.get(bare(tokens[place].form))
        # "Scoliosis, severe" is one thing, "scoliosis with severe pain" another.
        is_behind = place > last and known is not None and known[0] == SEVERITY
        if known is not None and known[0] not in found and not is_behind:
            found[known[0]] = Modifier(*known, tokens[place].start, tokens[place].end)
    return tuple(found.values())
