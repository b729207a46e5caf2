"""What a search answers with."""

from __future__ import annotations

from dataclasses import dataclass

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
        title: its preferred name.
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
