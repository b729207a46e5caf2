"""Conditions on attributes, `route=oral`: which products may be answered."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from alphita.errors import UsageError, shorten
from alphita.registry import unknown
from alphita.search.store import Opened
from alphita.terminology.text import clean


def allowed(search: Opened, conditions: Sequence[str]) -> NDArray[np.bool_] | None:
    """Return which products meet all conditions, (products,); None where there are none.

    Several conditions on one attribute ask for any of its values. A value is equal to one of the value's names after
    cleaning.

    Args:
        search: with the products.
        conditions: each "attribute=value".

    Raises:
        UsageError: a condition of another form, an unknown attribute or a value that no product has; the message
            offers near ones.
    """
    if not conditions:
        return None
    met: dict[str, NDArray[np.bool_]] = {}
    for condition in conditions:
        attribute, equals, value = (part.strip() for part in condition.partition("="))
        if not (attribute and equals and value):
            raise UsageError(f"a condition has the form attribute=value, not {condition!r}; e.g. route=oral")
        if attribute not in search.attributes:
            raise UsageError(unknown("attribute", attribute, search.attributes))
        found = _with_value(search, attribute, value)
        met[attribute] = met[attribute] | found if attribute in met else found
    return np.logical_and.reduce(list(met.values()))


def _with_value(search: Opened, attribute: str, value: str) -> NDArray[np.bool_]:
    triples = search.triples[search.triples[:, 1] == search.attributes.index(attribute)]
    values = search.value_names.named(int(search.value_names.strings.rows([clean(value)])[0]))
    products = triples[np.isin(triples[:, 2], values), 0]
    if not len(products):
        raise UsageError(
            f"no product has the value {shorten(value)!r} of {attribute!r}{_near(search, triples[:, 2], value)}"
        )
    found = np.zeros(len(search.products), bool)
    found[products] = True
    return found


def _near(search: Opened, values: NDArray[np.int32], wanted: str) -> str:
    """Return "; did you mean 'oral'?", or nothing."""
    names = {clean(name): name for name in search.values.column("name").take(np.unique(values)).to_pylist()}
    near = difflib.get_close_matches(clean(wanted), names, n=3, cutoff=0.6)
    return "; did you mean " + " or ".join(repr(names[one]) for one in near) + "?" if near else ""
