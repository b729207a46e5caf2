"""Products ranked for a query, each with the reason: `alphita.search.ProductSearch`.

search = ProductSearch.load("drugs.search")
for product in search.rank(["tympanitis"], where=["route=oral"])[0]:
    print(product.title, product.why)
"""

from __future__ import annotations

import difflib
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from alphita.errors import UsageError, shorten
from alphita.index.encoding import Encoder
from alphita.registry import unknown
from alphita.search import projection, store
from alphita.search.routes import FUSED, NOTHING, PREDICTED, ROUTES, Found, Product, Routes
from alphita.search.store import Opened
from alphita.terminology.text import clean

QUERIES_AT_ONCE = 32
# An encoder cuts at some hundred tokens anyway.
MAX_CHARACTERS = 4096


class ProductSearch:
    """Ranks products for queries. The encoder is loaded when the first query comes.

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
            InputError: it is no search folder, is damaged, or was built with another encoder.
        """
        opened = store.load(path, verify=verify)
        return cls(opened, encoder=encoder, precision=precision, device=device, threads=threads)

    def __len__(self) -> int:
        """Return the number of products."""
        return len(self.opened.products)

    @property
    def attributes(self) -> list[str]:
        """Names of the attributes."""
        return list(self.opened.attributes)

    @property
    def routes(self) -> list[str]:
        """The routes that there are; `predicted` needs a model with a projection."""
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
        """Return the products of each query, best first; equals in the order of their ids.

        Args:
            queries: the strings.
            top: products wanted for each, 1 or more.
            route: one of `routes`; see the module `routes`.
            where: conditions "attribute=value"; several on one attribute ask for any of its values.

        Raises:
            UsageError: `queries` is no list of strings, or one is empty after cleaning; `top` is below 1; an unknown
                route, or one that the model lacks; an unknown attribute, or a value that no product has.
        """
        return list(self.stream(queries, top=top, route=route, where=where))

    def stream(
        self, queries: Sequence[str], *, top: int = 10, route: str = FUSED, where: Sequence[str] = ()
    ) -> Iterator[list[Product]]:
        """Yield what `rank` returns, query by query; the queries are looked at all together before the first."""
        if top < 1:
            raise UsageError(f"top must be 1 or more, not {top}")
        allowed = _allowed(self.opened, where)
        for found in self._found(queries, route):
            score = found.score()
            if allowed is not None:
                score = np.where(allowed, score, NOTHING)
            best = np.argsort(-score, kind="stable")[:top].tolist()
            yield [found.product(self.opened, row, float(score[row])) for row in best if score[row] > NOTHING]

    def scores(self, queries: Sequence[str], *, route: str = FUSED) -> NDArray[np.float32]:
        """Return what the products are ranked by, (queries, products), to measure with; -inf: a route says nothing.

        Products are in the order of `opened.products`; see `rank` for the rest.
        """
        scores = [ranking.score() for ranking in self._found(queries, route)]
        return np.stack(scores) if scores else np.empty((0, len(self)), np.float32)

    def _found(self, queries: Sequence[str], route: str) -> Iterator[Found]:
        self._check_route(route)
        cleaned = _cleaned(queries)
        for start in range(0, len(cleaned), QUERIES_AT_ONCE):
            block = cleaned[start : start + QUERIES_AT_ONCE]
            vectors = projection.unscaled(self.encoder()).encode(block)
            yield from self._routes.ask(block, vectors, route)

    def _check_route(self, route: str) -> None:
        if route not in ROUTES:
            raise UsageError(unknown("route", route, ROUTES))
        if route not in self.routes:
            raise UsageError(
                f"the route {route!r} needs a model with an attribute projection, as the recipe electra_em_pap makes; "
                f"this one has the routes {self.routes}"
            )


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
