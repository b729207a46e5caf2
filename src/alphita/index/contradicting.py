"""Names that contradict those of the concept that they are for: "acute bronchitis" is no name of a chronic one.

Two names contradict each other if they are at opposite ends of something, by the rules that compare mentions with names
or by `sets.OPPOSITE`. Numbers ("type 1" and "type 2", "stage 3" and "stage 4") and "with" and "without" count only
where all other words are the same: there are several ways of counting, and of what is there.
"""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from alphita.terminology.rules import RULES, Rule
from alphita.terminology.rules.lexicon import read
from alphita.terminology.rules.sets import OPPOSITE

_RULES: dict[str, Rule] = {
    **{name: RULES[name] for name in ("course", "laterality", "number", "sex", "stage")},
    "opposite": OPPOSITE,
}
_NUMBERS = ("number", "stage")
# Each rule with the bits of its codes that are compared together.
_AXES = [(name, bits) for name, rule in _RULES.items() for bits in getattr(rule, "axes", (-1,))]
# "With" and "without".
_WITH = OPPOSITE.axes[0]


def contradicted(names: pl.DataFrame, own: pl.DataFrame) -> NDArray[np.bool_]:
    """Tell which names contradict a name of their concept on something of which no leading one agrees with them."""
    own = own.select("concept", "name", "leads").join(names, on="concept", how="semi")
    said = _said(pl.concat([names["name"], own["name"]]).unique())
    mine = names.select("concept", "name").with_row_index("row").join(said, on="name")
    pairs = mine.join(own.join(said, on="name"), on="concept", suffix="_own")
    rows, leads = pairs["row"].to_numpy(), pairs["leads"].to_numpy()
    same = (pairs["rest"] == pairs["rest_own"]).to_numpy()
    told = np.zeros(len(names), bool)
    for name, bits in _AXES:
        left, right = (pairs[column].to_numpy() & bits for column in (name, f"{name}_own"))
        clash, agreed = _RULES[name].contradict(left, right), _RULES[name].agree(left, right) & leads
        if name in _NUMBERS or (name, bits) == ("opposite", _WITH):
            clash &= same
        told[np.setdiff1d(rows[clash], rows[agreed])] = True
    return told


def _said(names: pl.Series) -> pl.DataFrame:
    """Return name, what it says by each rule, and rest, its other words in order; of those that say anything."""
    concerned: dict[str, list[str]] = {}
    rows = []
    for name in names.to_list():
        text = read(name)
        for word in text.words:
            if word not in concerned:
                concerned[word] = [one for one, rule in _RULES.items() if rule.concerns(word)]
        found = {one: _RULES[one].find(text) for word in text.words for one in concerned[word]}
        codes = [_RULES[one].code([each.value for each in found.get(one, [])]) for one in _RULES]
        if any(codes):
            used = {word for some in found.values() for each in some for word in each.words.split()}
            rows.append((name, *codes, " ".join(sorted(set(text.shown) - used))))
    return pl.DataFrame(rows, {"name": pl.String, **dict.fromkeys(_RULES, pl.Int64), "rest": pl.String}, orient="row")
