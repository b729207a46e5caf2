"""Products ranked for a query, each with the reason: `alphita.search.ProductSearch`.

search = ProductSearch.load("drugs.search")
for product in search.rank(["tympanitis"], where=["route=oral"])[0]:
    print(product.title, product.why)
"""

from __future__ import annotations

import difflib
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from alphita.errors import UsageError, shorten
from alphita.index.encoding import Encoder
from alphita.index.neighbours import unit
from alphita.registry import unknown
from alphita.search import projection, store
from alphita.search.store import Names, Opened
from alphita.terminology.text import clean

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
        score: that it was ranked by: the similarity by the route asked; for `fused` see the module.
        matches: one for each route that says something about it, the nearest first.
    """

    id: str
    title: str
    score: float
    matches: tuple[Match, ...]

    @property
    def why(self) -> str:
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
        titles, values: (products,) similarity of the nearest name, and value; `NOTHING` where a product has none.
        predicted: (products, attributes) similarity.
        title_strings, value_strings, value: similarity of each title, of each value's name, and of each value.
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
        given = [route for route in routes if route is not None]
        if len(given) == 1:
            return given[0]
        there = np.maximum(np.stack(given), 0)
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
        """Return what is found for each query, of vectors (q, dim) as training sees them, of any length."""
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
        predicted = None
        if projected is not None:
            texts, projection = search.predicted, search.projection
            assert texts is not None
            assert projection is not None
            flat = texts.reshape(-1, texts.shape[2])
            if self._squares is None:
                self._squares = np.einsum("nd,nd->n", flat, flat)
            predicted = projection.similarities(projected, flat, self._squares).reshape(texts.shape[:2])
        return Found(by_title, by_value, predicted, titles, values, value)


def _nearest(names: Names, owner: int, similarity: Float32 | None) -> str:
    assert similarity is not None
    return names.strings[names.best(owner, similarity)]


QUERIES_AT_ONCE = 32
# An encoder cuts at some hundred tokens anyway.
MAX_CHARACTERS = 4096


class ProductSearch:
    """Ranks products for queries. The encoder is loaded with the first query.

    Attributes:
        opened: the search folder.
    """

    def __init__(
        self,
        opened: store.Opened,
        *,
        encoder: Encoder | None = None,
        precision: str = "auto",
        device: str = "auto",
        threads: int | None = None,
    ) -> None:
        if encoder is not None:
            opened.check_encoder(encoder)
        self.opened = opened
        self.precision, self.device, self.threads = precision, device, threads
        self._encoder = encoder
        self._loading = threading.Lock()
        self._routes = Routes(opened)

    @classmethod
    def load(
        cls,
        path: Path | str,
        *,
        verify: bool | None = None,
        encoder: Encoder | None = None,
        precision: str = "auto",
        device: str = "auto",
        threads: int | None = None,
    ) -> ProductSearch:
        """Open the folder at `path`; see the class and `store.load`.

        Raises:
            InputError: it is not a search folder, is damaged, or was built with another encoder.
        """
        opened = store.load(path, verify=verify)
        return cls(opened, encoder=encoder, precision=precision, device=device, threads=threads)

    def __len__(self) -> int:
        return len(self.opened.products)

    @property
    def attributes(self) -> list[str]:
        """Names of the attributes."""
        return list(self.opened.attributes)

    @property
    def routes(self) -> list[str]:
        """The available routes; `predicted` needs a model with a projection."""
        return [route for route in ROUTES if route != PREDICTED or self.opened.projection is not None]

    def encoder(self) -> Encoder:
        """Return the encoder, loading it the first time."""
        with self._loading:
            if self._encoder is None:
                from alphita.encoder.encoder import TermEncoder

                encoder: Encoder = TermEncoder.load(
                    self.opened.model_path, precision=self.precision, device=self.device, threads=self.threads
                )
                self.opened.check_encoder(encoder)
                self._encoder = encoder
            return self._encoder

    def rank(
        self, queries: Sequence[str], *, top: int = 10, route: str = FUSED, where: Sequence[str] = ()
    ) -> list[list[Product]]:
        """Return the products for each query, best first; products with equal scores in order of their ids.

        Args:
            queries: the strings.
            top: number of products per query, 1 or more.
            route: one of `routes`; see the module `routes`.
            where: conditions "attribute=value"; several on the same attribute are alternatives.

        Raises:
            UsageError: `queries` is not a list of strings, or one is empty after cleaning; `top` is below 1; the route
                is unknown, or the model lacks it; the attribute is unknown, or no product has the value.
        """
        return list(self.stream(queries, top=top, route=route, where=where))

    def stream(
        self, queries: Sequence[str], *, top: int = 10, route: str = FUSED, where: Sequence[str] = ()
    ) -> Iterator[list[Product]]:
        """Yield the results of `rank`, query by query; all queries are checked before the first result."""
        if top < 1:
            raise UsageError(f"top must be 1 or more, not {top}")
        allowed = _allowed(self.opened, where)
        for findings in self._found(queries, route):
            score = findings.score()
            if allowed is not None:
                score = np.where(allowed, score, NOTHING)
            best = np.argsort(-score, kind="stable")[:top].tolist()
            yield [findings.product(self.opened, row, float(score[row])) for row in best if score[row] > NOTHING]

    def scores(self, queries: Sequence[str], *, route: str = FUSED) -> NDArray[np.float32]:
        """Return the scores of products, (queries, products), for evaluation; -inf if a route gives none.

        Products are in the order of `opened.products`; see `rank` for the rest.
        """
        scores = [ranking.score() for ranking in self._found(queries, route)]
        return np.stack(scores) if scores else np.empty((0, len(self)), np.float32)

    def _found(self, queries: Sequence[str], route: str) -> Iterator[Found]:
        if route not in ROUTES:
            raise UsageError(unknown("route", route, ROUTES))
        if route not in self.routes:
            raise UsageError(
                f"the route {route!r} needs a model with an attribute projection, as the recipe electra_em_pap makes; "
                f"this one has the routes {self.routes}"
            )
        cleaned = _cleaned(queries)
        for start in range(0, len(cleaned), QUERIES_AT_ONCE):
            block = cleaned[start : start + QUERIES_AT_ONCE]
            vectors = projection.unscaled(self.encoder()).encode(block)
            yield from self._routes.ask(block, vectors, route)


def _cleaned(queries: Sequence[str]) -> list[str]:
    if isinstance(queries, str):
        raise UsageError("rank takes a list of queries, not one string: rank([query])")
    cleaned = []
    for place, query in enumerate(queries):
        if not isinstance(query, str):
            raise UsageError(f"query {place + 1} is not a string but {type(query).__name__}")
        cleaned.append(clean(query[:MAX_CHARACTERS]))
        if not cleaned[-1]:
            raise UsageError(f"query {place + 1} is empty after cleaning: {query[:MAX_CHARACTERS]!r:.80}")
    return cleaned


def _allowed(search: Opened, conditions: Sequence[str]) -> NDArray[np.bool_] | None:
    """Return which products meet all conditions, (products,); None where there are none."""
    if not conditions:
        return None
    met: dict[str, NDArray[np.bool_]] = {}
    for condition in conditions:
        attribute, equals, value = (part.strip() for part in condition.partition("="))
        if not (attribute and equals and value):
            raise UsageError(f"a condition has the form attribute=value, not {condition!r}; e.g. route=oral")
        if attribute not in search.attributes:
            raise UsageError(unknown("attribute", attribute, search.attributes))
        products = _with_value(search, attribute, value)
        met[attribute] = met[attribute] | products if attribute in met else products
    return np.logical_and.reduce(list(met.values()))


def _with_value(search: Opened, attribute: str, value: str) -> NDArray[np.bool_]:
    triples = search.triples[search.triples[:, 1] == search.attributes.index(attribute)]
    values = search.value_names.named(int(search.value_names.strings.rows([clean(value)])[0]))
    products = triples[np.isin(triples[:, 2], values), 0]
    if not len(products):
        raise UsageError(
            f"no product has the value {shorten(value)!r} of {attribute!r}{_near(search, triples[:, 2], value)}"
        )
    having = np.zeros(len(search.products), bool)
    having[products] = True
    return having


def _near(search: Opened, values: NDArray[np.int32], wanted: str) -> str:
    """Return "; did you mean 'oral'?", or nothing."""
    names = {clean(name): name for name in search.values.column("name").take(np.unique(values)).to_pylist()}
    near = difflib.get_close_matches(clean(wanted), names, n=3, cutoff=0.6)
    return "; did you mean " + " or ".join(repr(names[name]) for name in near) + "?" if near else ""
