"""Search among products: `ProductSearch` ranks them for a query and says why."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from alphita.search.product_search import ProductSearch as ProductSearch

__all__ = ["ProductSearch"]


def __getattr__(name: str) -> Any:  # noqa: ANN401 - PEP 562
    # Whoever only parses a command line need not wait for the arrays' libraries.
    if name == "ProductSearch":
        from alphita.search.product_search import ProductSearch

        return ProductSearch
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
