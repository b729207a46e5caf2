"""The clinical entities of E3C's English texts, as sets that `alphita evaluate ner` reads.

    python runs/e3c_entities.py ANNOTATIONS TEXTS -o OUT

ANNOTATIONS is e3c_english.tsv, with the columns set, layer, doc, begin, end and mention; TEXTS are the JSON Lines of
layer 2, with id and text. The texts of layer 1 are not needed: OUT/E3C.test.tsv has the texts of layer 2 whose
entities people have checked (the set data_validation), OUT/E3C.train.tsv the others, annotated by a program.

Some offsets count marks that the texts have lost, so each entity is sought a little before its place, too.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import study
from alphita import textio
from alphita.artefact import atomic_file
from alphita.errors import InputError
from alphita.progress import say

TYPE, LAYER = "clinical", "layer2"
PARTS = {"train": "data_annotation", "test": "data_validation"}
COLUMNS = ("set", "layer", "doc", "begin", "end", "mention")
# A text stands in one line of one column; each of these becomes one space, so that no place moves.
IN_ONE_LINE = str.maketrans("\t\n\r", "   ")
# Marks that a text has lost between an entity and the one before, at most.
LOST_AT_ONCE = 20

Entity = tuple[int, int, str]
Span = tuple[int, int]


def read_texts(path: Path) -> dict[str, str]:
    """Return id -> text."""
    found = {}
    for number, line in textio.lines(path):
        try:
            one = json.loads(line)
            found[str(one["id"])] = str(one["text"])
        except (ValueError, KeyError, TypeError):
            raise InputError("expected an object with id and text", file=path, line=number, value=line[:80]) from None
    return found


def read_entities(path: Path) -> dict[str, dict[str, list[Entity]]]:
    """Return part -> document -> entities of layer 2 as they are annotated: begin, end, mention."""
    found: dict[str, dict[str, list[Entity]]] = {part: defaultdict(list) for part in PARTS}
    parts = {name: part for part, name in PARTS.items()}
    for number, cells in textio.columns(path, COLUMNS, "\t", quotes=None):
        row = dict(zip(COLUMNS, cells, strict=True))
        if row["layer"] != LAYER or row["set"] not in parts:
            continue
        if not (row["begin"].isdecimal() and row["end"].isdecimal() and row["mention"]):
            raise InputError("has no place and mention", file=path, line=number, value="\t".join(cells))
        found[parts[row["set"]]][row["doc"]].append((int(row["begin"]), int(row["end"]), row["mention"]))
    return found


def placed(text: str, entities: Sequence[Entity]) -> tuple[list[Span], int]:
    """Return where entities stand, of those that overlap the longest, and how many are left out."""
    found: list[Span] = []
    lost = drift = 0
    for begin, _, mention in sorted(entities):
        place = begin - drift
        start = text.rfind(mention, max(place - LOST_AT_ONCE, 0), max(place, 0) + len(mention))
        if start < 0:
            lost += 1
            continue
        drift = begin - start
        found.append((start, start + len(mention)))
    kept: list[Span] = []
    for start, end in sorted(found, key=lambda span: span[0] - span[1]):
        if any(start < other[1] and other[0] < end for other in kept):
            lost += 1
        else:
            kept.append((start, end))
    return sorted(kept), lost


def write_sets(annotations: Path, texts: Path, out: Path) -> None:
    """Write E3C.train.tsv and E3C.test.tsv."""
    by_id, entities = read_texts(texts), read_entities(annotations)
    checked = set(entities["test"])
    out.mkdir(parents=True, exist_ok=True)
    for part, documents in entities.items():
        chosen = [name for name in sorted(documents) if name in by_id and (part == "test" or name not in checked)]
        if not chosen:
            raise InputError(f"has no text of the set {PARTS[part]}, {LAYER}", file=texts)
        count = lost = 0
        with atomic_file(out / f"E3C.{part}.tsv", "w") as file:
            file.write("query\tentities\n")
            for name in chosen:
                # A reader of the table takes white space and quotes off the ends.
                text = by_id[name].translate(IN_ONE_LINE).strip(' "')
                spans, missed = placed(text, documents[name])
                count, lost = count + len(spans), lost + missed
                file.write(f"{text}\t{';'.join(f'{start}:{end}:{TYPE}' for start, end in spans)}\n")
        say(
            f"{out / f'E3C.{part}.tsv'}: {len(chosen):,} texts, {count:,} entities; left out: {lost:,} entities, "
            f"{len(documents) - len(chosen):,} texts"
        )


def main(words: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("annotations", type=Path, metavar="ANNOTATIONS", help="e3c_english.tsv")
    parser.add_argument("texts", type=Path, metavar="TEXTS", help="the texts of layer 2, JSON Lines")
    parser.add_argument("--output", "-o", type=Path, required=True, help="the folder of both sets")
    given = parser.parse_args(words)
    return study.status(lambda: write_sets(given.annotations, given.texts, given.output))


if __name__ == "__main__":
    sys.exit(main())
