"""The routes from a query to the products: how near each product is by each of them, and by which of its names.

    titles       the product's nearest name: mean of cosine and n-gram similarity; 1 if equal after cleaning
    values       the same of the names of its attributes' values; a value is carried to all products that have it
    predicted    sigma(gamma - || f(E(t + n)) - f(E(q)) ||), greatest over the attributes n: the query as a value that
                 the model believes the product to have, though the table lacks it; where the model has a projection f

`fused` is the greatest of them, and `SHARE` of what the others say, which orders the products that share a value. It
leaves out `predicted` where that does not even tell which of the table's products have a value (`Opened.predicts`).

Why the greatest: a query is a title or a value, seldom both, and the route that is not meant only adds noise to a sum.
Reciprocal ranks would lose more: hundreds of products share a value, and so its rank, and that they are at 1 and the
next at 0.5 would not show. `runs/qtrel.py` measures each route.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from alphita.index.neighbours import unit
from alphita.search.names import Names
from alphita.search.store import Opened

TITLES, VALUES, PREDICTED, FUSED = "titles", "values", "predicted", "fused"


@dataclass(frozen=True)
class Match:
    """Why a product was found by one route.

    Attributes:
        route: titles, values or predicted.
        attribute: the attribute whose value matched, or is predicted; None for a title.
        text: the title or value that matched, as written; None for a predicted value, which the table lacks.
        name: its name that is nearest to the query, cleaned; None for a predicted value.
        similarity: 0 to 1.
    """

    route: str
    attribute: str | None
    text: str | None
    name: str | None
    similarity: float

    def __str__(self) -> str:
        """Say it in one line: "indication: tympanitis 0.93"."""
        if self.text is None:
            return f"{self.attribute} predicted {self.similarity:.2f}"
        return f"{self.attribute or 'title'}: {self.text} {self.similarity:.2f}"


@dataclass(frozen=True)
class Product:
    """A product found.

    Attributes:
        id: CURIE.
        score: that it was ranked by: the similarity by the route asked; for `fused` see `alphita.search.routes`.
        matches: one for each route that says something about it, the nearest first.
    """

    id: str
    title: str
    score: float
    matches: tuple[Match, ...]

    @property
    def why(self) -> str:
        """The nearest match, as one line."""
        return str(self.matches[0])


ROUTES = (FUSED, TITLES, VALUES, PREDICTED)
# Of the lesser similarities in `fused`.
SHARE = 0.01
# Of a product of which a route says nothing.
NOTHING = np.float32(-np.inf)
Float32 = NDArray[np.float32]


class Found(NamedTuple):
    """What the routes say of all products for one query; None for a route that was not asked.

    Attributes:
        titles: (products,) similarity of the nearest name.
        values: (products,) similarity of the nearest value; `NOTHING` where a product has none.
        predicted: (products, attributes) similarity.
        value: (v,) similarity of each value.
    """

    titles: Float32 | None
    values: Float32 | None
    predicted: Float32 | None
    title_strings: Float32 | None
    value_strings: Float32 | None
    value: Float32 | None

    def score(self) -> Float32:
        """Return what the products are ranked by, (products,); `NOTHING` where no route that was asked says any."""
        routes = [self.titles, self.values, None if self.predicted is None else self.predicted.max(axis=1)]
        asked = [route for route in routes if route is not None]
        if len(asked) == 1:
            return asked[0]
        there = np.maximum(np.stack(asked), 0)
        greatest = there.max(axis=0)
        score: Float32 = greatest + np.float32(SHARE) * (there.sum(axis=0) - greatest)
        return score

    def product(self, search: Opened, row: int, score: float) -> Product:
        """Return one product with its matches, the nearest first; of equally near ones values before titles."""
        matches = []
        if self.values is not None and self.value is not None and self.values[row] > NOTHING:
            triples = search.triples[search.product_triples[row] : search.product_triples[row + 1]]
            _, attribute, value = triples[int(np.argmax(self.value[triples[:, 2]]))].tolist()
            name = _nearest(search.value_names, value, self.value_strings)
            written = search.values.column("name")[value].as_py()
            matches.append(Match(VALUES, search.attributes[attribute], written, name, float(self.values[row])))
        if self.titles is not None:
            name = _nearest(search.title_names, row, self.title_strings)
            written = search.products.column("title")[row].as_py()
            matches.append(Match(TITLES, None, written, name, float(self.titles[row])))
        if self.predicted is not None:
            best = int(np.argmax(self.predicted[row]))
            matches.append(Match(PREDICTED, search.attributes[best], None, None, float(self.predicted[row, best])))
        matches.sort(key=lambda match: -match.similarity)
        identifier, title = (search.products.column(name)[row].as_py() for name in ("id", "title"))
        return Product(identifier, title, score, tuple(matches))


class Routes:
    """Asks the routes of one search folder."""

    def __init__(self, search: Opened) -> None:
        self.search = search
        self._squares: Float32 | None = None

    def ask(self, queries: list[str], vectors: Float32, route: str) -> list[Found]:
        """Return what is found for each query.

        Args:
            vectors: (q, dim) float32 as training sees them, of any length.
        """
        search, scaled = self.search, unit(vectors)
        titles = values = projected = None
        if route in (FUSED, TITLES):
            titles = search.title_names.similarities(queries, scaled)
        if route in (FUSED, VALUES):
            values = search.value_names.similarities(queries, scaled)
        if search.projection is not None and (route == PREDICTED or (route == FUSED and search.predicts)):
            projected = search.projection(vectors)
        return [
            self._found(
                None if titles is None else titles[row],
                None if values is None else values[row],
                None if projected is None else projected[row],
            )
            for row in range(len(queries))
        ]

    def _found(self, titles: Float32 | None, values: Float32 | None, projected: Float32 | None) -> Found:
        search = self.search
        by_title = by_value = value = None
        if titles is not None:
            by_title = search.title_names.of_owners(titles)
        if values is not None:
            value = search.value_names.of_owners(values)
            by_value = np.full(len(search.products), NOTHING)
            starts = search.product_triples[:-1]
            filled = starts < search.product_triples[1:]
            if filled.any():
                by_value[filled] = np.maximum.reduceat(value[search.triples[:, 2]], starts[filled])
        predicted = None if projected is None else self._predicted(projected)
        return Found(by_title, by_value, predicted, titles, values, value)

    def _predicted(self, query: Float32) -> Float32:
        """Return the similarity of the projected query (d',) to each title with each attribute."""
        texts, projection = self.search.predicted, self.search.projection
        assert texts is not None
        assert projection is not None
        flat = texts.reshape(-1, texts.shape[2])
        if self._squares is None:
            self._squares = np.einsum("nd,nd->n", flat, flat)
        return projection.similarities(query, flat, self._squares).reshape(texts.shape[:2])


def _nearest(names: Names, owner: int, similarity: Float32 | None) -> str:
    assert similarity is not None
    return names.strings[names.best(owner, similarity)]
