"""GSC+: 228 abstracts annotated with HPO concepts, to be found again from the mention alone.

The ids are of 2016. One that has been merged into another concept stands for that one, and one that was retired for the
concept that replaced it, if it is one only; the rest is not covered. How many are still live is in the notes.
"""

from __future__ import annotations

import re

from alphita import textio
from alphita.errors import InputError
from alphita_lab.evaluation.benchmarks import Source, about
from alphita_lab.evaluation.benchmarks import _terminology_targets as names
from alphita_lab.evaluation.benchmarks._terminology_targets import Data
from alphita_lab.evaluation.benchmarks._terminology_targets import evaluate as evaluate

INFO, PUBLISHED = about(__name__)
_LINE = re.compile(r"\[(\d+)::(\d+)\]\tHP[_:](\d{7}) \| (.+)")


class Options(names.NameFilter):
    """Which names the mentions are ranked against."""


def load(source: Source, options: Options) -> Data:
    """Read the annotations."""
    mentions, gold = [], []
    terminology = source.require_terminology()
    for path in source.files("ann/*", "GSC+/ann/*"):
        for number, line in textio.lines(path):
            match = _LINE.fullmatch(line.rstrip())
            if not match:
                raise InputError("is not [from::to], a tab, HP_... | mention", file=path, line=number, value=line)
            gold.append(f"HP:{match[3]}")
            mentions.append(match[4].strip())
    if not mentions:
        raise InputError("the files hold no annotation", file=source.read[0])
    dictionary = names.terminology_dictionary(terminology, {curie: curie for curie in gold}, options)
    how = [dictionary.how[curie] for curie in gold]
    ids = [[curie] for curie in gold]
    columns: names.Columns = {"id": how, "semantic_type": dictionary.types_of(ids)}
    return dictionary.data(mentions, ids, columns, ("id",), {"queries whose id is live": how.count("live")})
