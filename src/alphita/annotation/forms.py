"""Forms in a text: items and their values, as "Seizures: no", rows of tables, tick boxes, signs.

The words for values are those of `mention.cues.values`. Only what is laid out as a form is read: an item, a separator
and a value that nothing but its own explanation follows; a value without a separator counts where others do alike.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from alphita.annotation.spans import Place
from alphita.mention.cues import values
from alphita.mention.cues.values import PRESENT

NEGATED = "negated"
# Characters of an item, at most, and words of an item with a value behind a space.
MAX_ITEM, MAX_WORDS = 120, 6


class Item(NamedTuple):
    """An item, text[start:end]; its assertion, "present" or a category of cues; the value or box that gives it."""

    start: int
    end: int
    assertion: str
    value: Place


_VALUES = values.table()
_LINE = re.compile(r"[^\n]++")
_SEPARATOR = re.compile(r"[:=：]|\.{3,}+|_{3,}+|…++|\?|(?<=\s)[-–—]++(?=\s)|[(\[]")
# Nobody has filled it in.
_BLANK = re.compile(r"(?>_{2,}|[.]{3,}|…+)(?=[ \t]*(?:\Z|[,;|\n]))")
# "Eyes: negative for diplopia."
_FOR = re.compile(r"(?:negative|neg|positive|pos|[-+]ve)\s+for\b", re.I)
_STAGE = re.compile(r"\b(?:stage|grade|type|score|level|stadium|grad|typ|stade|estadio|grado|tipo|stadio)\s+0\Z", re.I)
_CLOSED = re.compile(r"[ ]*+(?:\Z|[,;.!|/)\](\[]|(?:19|20)\d\d\b)")
_BOUNDARY = re.compile(r"[;!?:|]|[.](?=\s)|\s/\s")
_COMMA = re.compile(r"[,，、]|\s/\s")
_CUT = re.compile(r"[,，、;:|!]|[.](?=\s|\Z)|\s/\s")
_BULLET = re.compile(r"[ \t]*+(?:(?:[-–—*•·+]|\d{1,3}[.)])[ \t]++)?")
_BOX = re.compile(r"\[[ ]?[xX✓✔]?[ ]?\]|\( \)|\([xX]\)|[☐☑☒□■✓✔✅✗✘❌🗹◻◼]\ufe0f?")
_OPTION = re.compile(r"(?<!\w)(?P<value>[^\W\d_]{1,4})[ :]*_+ ?(?P<tick>[xX✓✔])? ?_+(?!\w)")
_UNTICKED = re.compile(r"[\[(] *[\])]|[☐□◻✗✘❌]")
_SIGN_BEFORE = re.compile(r"(?<![^\s,;])(?:[-+−–]ve for(?=\s)|[-+−–](?!ve\b)(?=[^\W\d_]))")
_SIGN_BEHIND = re.compile(r"(?<=[^\W\d_])[-+−]{1,3}(?=[\s,;.)]|\Z)")
_LEADING_SIGN = re.compile(r"[ \t]*+[-+](?=[ \t]*+[^\W\d_])")
_LETTER = re.compile(r"[^\W\d_]")
_CELL = re.compile(r"[^\t|]+")
_CELL_END = re.compile(r"[\t|]")
_TICK = re.compile(r"[xX✓✔]")


def items_of(text: str) -> list[Item]:
    """Return the items of a text that have a value, by their place; none overlaps another."""
    if "☑" in text and "☐" not in text:
        # Beside ticks, without an empty box, a cross says no.
        text = text.replace("☒", "✗")
    lines = [Place(*line.span()) for line in _LINE.finditer(text)]
    items: list[Item] = []
    table = _Table(text)
    signed = _signed_lists(text, lines)
    for number, line in enumerate(lines):
        items += (
            _options(text, line)
            or _boxes(text, line)
            or table.row(lines, number)
            or [
                item
                for cell in _CELL.finditer(text, *line)
                for item in _inline(text, Place(*cell.span()), lines, number)
            ]
            or ([signed[number]] if number in signed else [])
            or _answer_below(text, lines, number)
        )
    return sorted(items)


def _has_letter(text: str, start: int, end: int) -> bool:
    return _LETTER.search(text, start, end) is not None


def _value_at(text: str, start: int, end: int) -> tuple[str, Place] | None:
    """Return assertion and place of the value that begins at a place, spaces before it left out."""
    while start < end and text[start] in " \t":
        start += 1
    if (blank := _BLANK.match(text, start, end)) is not None:
        return "hypothetical", Place(*blank.span())
    found = None if _FOR.match(text, start, end) else _VALUES.behind.match(text, start, end)
    return found and (values.assertion_of(found[0]), Place(*found.span()))


def _whole_value(text: str, place: Place) -> tuple[str, Place] | None:
    """Return assertion and place of a value that is all of a cell, or all but its explanation."""
    found = _value_at(text, *place)
    return found if found and _is_closed(text, found[1].end, place.end) else None


def _is_closed(text: str, start: int, end: int) -> bool:
    return _CLOSED.match(text, start, end) is not None or _VALUES.follows.match(text, start, end) is not None


# Items in a line: "Seizures: no, ataxia (mild)".


class _Mark(NamedTuple):
    """A separator, from `start`, and the value behind it."""

    start: int
    assertion: str
    value: Place


def _inline(text: str, part: Place, lines: Sequence[Place], number: int) -> list[Item]:
    marks = _marks(text, part)
    if not marks:
        return _signed(text, part) or _bare(text, part, lines, number)
    if text[marks[0].start] in "([" and not _has_letter(text, part.start, marks[0].start):
        # "(+) headache (-) fever": the values come first.
        ends = [mark.start for mark in marks[1:]] + [part.end]
        return [Item(mark.value.end, end, mark.assertion, mark.value) for mark, end in zip(marks, ends, strict=True)]
    found = []
    before = part.start
    for mark in marks:
        low = max(before, mark.start - MAX_ITEM)
        start = _last(_BOUNDARY, text, low, mark.start)
        if before > part.start or text[mark.start] not in ":=：":
            start = _last(_COMMA, text, start, mark.start)
        if start > before:
            found += _bare(text, Place(before, start), lines, number)
        if _has_letter(text, start, mark.start):
            found.append(Item(start, mark.start, mark.assertion, mark.value))
        before = mark.value.end
    return found + _bare(text, Place(before, part.end), lines, number)


def _last(pattern: re.Pattern[str], text: str, start: int, end: int) -> int:
    """Return where the last match ends that a letter follows; `start` if there is none."""
    while end > start and not text[end - 1].isalpha():
        end -= 1
    for match in pattern.finditer(text, start, end):
        start = match.end()
    return start


def _marks(text: str, part: Place) -> list[_Mark]:
    """Return the values behind separators that nothing but an explanation or the next item follows."""
    found = []
    for separator in _SEPARATOR.finditer(text, *part):
        value = _value_at(text, separator.end(), part.end)
        if value is not None:
            found.append(_Mark(separator.start(), *value))
    kept: list[_Mark] = []
    for mark, following in pairwise([*found, None]):
        assert mark is not None
        is_closed = _is_closed(text, mark.value.end, part.end)
        if not is_closed and following is not None and following.start - mark.value.end < MAX_ITEM:
            # "Chills: no Cough: yes".
            is_closed = _CUT.search(text, mark.value.end, following.start) is None
        if is_closed and (not kept or mark.start >= kept[-1].value.end):
            kept.append(mark)
    return kept


# Values behind a space: "headache no, dizziness yes"; "fever absent cough present".


def _bare(text: str, part: Place, lines: Sequence[Place], number: int) -> list[Item]:
    segments = _segments(text, part)
    valued = [(segment, items) for segment in segments if (items := _sequence(text, segment))]
    if not valued:
        return []
    is_list = len(valued) > 2 or (len(valued) > 1 and 3 * len(valued) >= 2 * len(segments))
    is_list = is_list or any(len(items) > 1 for _, items in valued)
    is_list = is_list or (
        len(segments) == 1 and any(_ends_in_value(text, lines, near) for near in (number - 1, number + 1))
    )
    weak = _VALUES.weak
    if part.end == lines[number].end and number + 1 < len(lines) and _begins_low(text, lines[number + 1]):
        # "There is no", and the sentence goes on below.
        weak = weak | _DETERMINERS
    return [
        item for _, items in valued for item in items if is_list or values.key(text[slice(*item.value)]) not in weak
    ]


def _begins_low(text: str, line: Place) -> bool:
    first = _LETTER.search(text, *line)
    return first is not None and first[0].islower()


def _segments(text: str, part: Place) -> list[Place]:
    found = []
    start = part.start
    for cut in _CUT.finditer(text, *part):
        found.append(Place(start, cut.start()))
        start = cut.end()
    found.append(Place(start, part.end))
    return [place for place in found if _has_letter(text, *place) or _value_at(text, *place)]


def _ends_in_value(text: str, lines: Sequence[Place], number: int) -> bool:
    """Tell whether there is such a line, of one item."""
    if not 0 <= number < len(lines) or lines[number].size > MAX_ITEM:
        return False
    segments = _segments(text, lines[number])
    return len(segments) == 1 and bool(_sequence(text, segments[0]))


def _sequence(text: str, segment: Place) -> list[Item]:
    """Return the items of a segment that a value ends."""
    if segment.size > MAX_ITEM or not _may_end_in_value(text[segment.start : segment.end].rstrip()):
        return []
    start = _BULLET.match(text, *segment).end()  # type: ignore[union-attr]
    found = []
    place = start
    for word in _WORD_START.finditer(text, start, segment.end):
        if word.start() < place:
            continue
        value = _VALUES.bare.match(text, word.start(), segment.end)
        if value is None:
            continue
        is_last = not text[value.end() : segment.end].strip()
        if not _has_letter(text, start, word.start()) or len(text[start : word.start()].split()) > MAX_WORDS:
            return []
        if not is_last and values.key(value[0]) in _DETERMINERS:
            continue
        found.append(Item(start, word.start(), values.assertion_of(value[0]), Place(*value.span())))
        start = place = value.end()
    return found if found and not _has_letter(text, start, segment.end) else []


_WORD_START = re.compile(r"(?<=\s)\S")
# Before a finding these negate it: "had no fever present".
_DETERMINERS = frozenset({"no", "non", "nein", "keine", "keiner", "denies", "denied", "niega", "nega", "verneint"})
_LAST_WORDS = frozenset(value.split()[-1] for value in _VALUES.assertions)


def _may_end_in_value(segment: str) -> bool:
    words = segment.rsplit(None, 1)
    return len(words) == 2 and values.key(words[1]) in _LAST_WORDS and not _STAGE.search(segment)


# Signs on a word: "+fever -cough", "fever+ cough-", and lists whose lines begin with them.


def _sign(sign: str) -> str:
    return PRESENT if "+" in sign else NEGATED


def _signed(text: str, part: Place) -> list[Item]:
    for pattern, is_before in ((_SIGN_BEFORE, True), (_SIGN_BEHIND, False)):
        signs = list(pattern.finditer(text, *part))
        if not any("+" in sign[0] for sign in signs) or (len(signs) < 2 and "for" not in signs[0][0]):
            continue
        found = []
        before = part.start
        for sign, following in pairwise([*signs, None]):
            assert sign is not None
            if is_before:
                end = following.start() if following else part.end
                cut = (_BOUNDARY if "for" in sign[0] else _CUT).search(text, sign.end(), end)
                found.append(Item(sign.end(), cut.start() if cut else end, _sign(sign[0]), Place(*sign.span())))
            else:
                start = _last(_CUT, text, max(before, sign.start() - MAX_ITEM), sign.start())
                found.append(Item(start, sign.start(), _sign(sign[0]), Place(*sign.span())))
                before = sign.end()
        return found
    return []


def _signed_lists(text: str, lines: Sequence[Place]) -> dict[int, Item]:
    """Return the items of lines that begin with a sign, by line, in lists that have both signs."""
    found: dict[int, Item] = {}
    block: dict[int, Item] = {}
    for number, line in enumerate(lines):
        sign = _LEADING_SIGN.match(text, *line)
        if sign is not None:
            place = Place(sign.end() - 1, sign.end())
            block[number] = Item(sign.end(), line.end, _sign(sign[0]), place)
        if sign is None or not _is_next(lines, number):
            found |= block if len({item.assertion for item in block.values()}) > 1 else {}
            block = {}
    return found


def _is_next(lines: Sequence[Place], number: int) -> bool:
    """Tell whether no empty line is between a line and the next."""
    return number + 1 < len(lines) and lines[number + 1].start == lines[number].end + 1


def _answer_below(text: str, lines: Sequence[Place], number: int) -> list[Item]:
    """Return the item whose value is alone on the next line: "Seizures?", "no"."""
    line = lines[number]
    if line.size > MAX_ITEM or not _is_next(lines, number) or text[slice(*line)].rstrip()[-1:] not in (":", "?"):
        return []
    below = lines[number + 1]
    value = _value_at(text, *below)
    if value is None or text[value[1].end : below.end].strip(" ."):
        return []
    return [Item(line.start, line.end, *value)]


# Tick boxes: "[x] fever [ ] cough", "fever [x]", "fever: [x] yes [ ] no".


def _boxes(text: str, line: Place) -> list[Item]:
    boxes = [Place(*box.span()) for box in _BOX.finditer(text, *line)]
    if not boxes or (len(boxes) == 1 and text[boxes[0].start] == "(" and _has_letter(text, line.start, boxes[0].start)):
        return []
    ends = [box.start for box in boxes[1:]] + [line.end]
    labels = [Place(box.end, end) for box, end in zip(boxes, ends, strict=True)]
    told = [_value_at(text, *label) for label in labels]
    if all(told) and _has_letter(text, line.start, boxes[0].start):
        return list(_ticked_values(text, line, boxes, labels))
    if _has_letter(text, line.start, boxes[0].start) and not _has_letter(text, *labels[-1]):
        starts = [line.start] + [box.end for box in boxes[:-1]]
        return [Item(start, box.start, _tick(text, box), box) for start, box in zip(starts, boxes, strict=True)]
    return [Item(*label, _tick(text, box), box) for label, box in zip(labels, boxes, strict=True)]


def _options(text: str, line: Place) -> list[Item]:
    """Return the item of a line whose values have lines to write on: "Seizures Y __ N _x_"."""
    found = list(_OPTION.finditer(text, *line))
    told = [_VALUES.bare.fullmatch(option["value"]) for option in found]
    ticked = [option for option in found if option["tick"]]
    if len(found) < 2 or not all(told) or len(ticked) > 1:
        return []
    place = Place(*(ticked[0].span("value") if ticked else found[0].span()))
    said = values.assertion_of(ticked[0]["value"]) if ticked else "hypothetical"
    return [Item(line.start, found[0].start(), said, place)]


def _tick(text: str, box: Place) -> str:
    return NEGATED if _UNTICKED.match(text, box.start) else PRESENT


def _ticked_values(text: str, line: Place, boxes: Sequence[Place], labels: Sequence[Place]) -> Iterator[Item]:
    """Yield the items of boxes that stand before values: the value whose box is ticked is theirs."""
    start, end = line.start, boxes[0].start
    ticked: tuple[str, Place] | None = None
    for box, label in zip(boxes, labels, strict=True):
        value = _value_at(text, *label)
        assert value is not None
        if _tick(text, box) == PRESENT:
            ticked = value
        if _has_letter(text, value[1].end, label.end) or label.end == line.end:
            if ticked is not None:
                yield Item(start, end, *ticked)
            start, end, ticked = value[1].end, label.end, None


# Rows of tables.


class _Table:
    """Rows of a text, and the last row that may be the heads of columns."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._heads: list[tuple[str, Place] | None] = []

    def row(self, lines: Sequence[Place], number: int) -> list[Item]:
        """Return the items of a line that tabs, bars, or like its neighbours a single comma, part into cells."""
        text, line = self.text, lines[number]
        cells = _cells(text, line)
        if len(cells) < 2:
            is_list = any(len(_pair(text, lines, near)) == 2 for near in (number - 1, number + 1))
            cells = _pair(text, lines, number) if is_list else []
        if len(cells) < 2:
            return []
        told = [_whole_value(text, cell) if text[slice(*cell)].strip() else None for cell in cells]
        ticks = [place for place, cell in enumerate(cells) if _TICK.fullmatch(text[slice(*cell)].strip())]
        if len(ticks) == 1 and len(self._heads) > ticks[0] and (head := self._heads[ticks[0]]) is not None:
            return [Item(cell.start, cell.end, head[0], cells[ticks[0]]) for cell in cells[:1]]
        if len(ticks) == 0 and len({one[0] for one in told if one}) > 1:
            self._heads = told
        return list(self._items(cells, told))

    def _items(self, cells: Sequence[Place], told: Sequence[tuple[str, Place] | None]) -> Iterator[Item]:
        """Yield what stands before each run of values; of several values one that says present counts."""
        items: list[Place] = []
        run: list[tuple[str, Place]] = []
        for cell, value in [*zip(cells, told, strict=True), (None, None)]:
            if value is not None:
                run.append(value)
                continue
            if cell is not None and not self.text[slice(*cell)].strip():
                continue
            if run:
                value = next((one for one in run if one[0] == PRESENT), run[0])
                if items:
                    yield Item(items[0].start, items[-1].end, *value)
                items, run = [], []
            if cell is not None:
                items.append(cell)


def _cells(text: str, line: Place) -> list[Place]:
    """Return the cells of a row, empty ones too, but for those outside bars at both ends."""
    cuts = [cut.start() for cut in _CELL_END.finditer(text, *line)]
    if not cuts:
        return []
    places = [Place(start + 1, end) for start, end in pairwise([line.start - 1, *cuts, line.end])]
    if "|" in text[slice(*places[0])] or not text[slice(*places[0])].strip():
        places = places[1:]
    return places[:-1] if not text[slice(*places[-1])].strip() and text[cuts[-1]] == "|" else places


def _pair(text: str, lines: Sequence[Place], number: int) -> list[Place]:
    """Return the two cells of a line with a single comma or semicolon and a value behind it; [] of any other."""
    if not 0 <= number < len(lines) or lines[number].size > MAX_ITEM:
        return []
    line = lines[number]
    item, comma, value = text[slice(*line)].replace(";", ",").partition(",")
    behind = Place(line.start + len(item) + 1, line.end)
    told = _value_at(text, *behind) if comma and "," not in value else None
    if told is None or text[told[1].end : line.end].strip():
        return []
    return [Place(line.start, behind.start - 1), behind]
