"""A plot of two shares as an SVG file of its own: written by hand, so that calibrating needs no plotting library.

Colours follow the reader's light or dark setting; both axes begin at 0 and are printed as percentages.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

import numpy as np

WIDTH, HEIGHT = 460, 400
LEFT, RIGHT, TOP, BOTTOM = 58, 18, 54, 84
STEPS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2)
STYLE = (
    ".alphita-plot{--ink:#222;--paper:#fff;--s0:#0077bb;--s1:#c2410c}"
    "@media (prefers-color-scheme:dark){.alphita-plot{--ink:#ddd;--paper:#161616;--s0:#66b2e6;--s1:#f28c50}}"
    ".alphita-plot text{font:12px system-ui,sans-serif;fill:var(--ink)}"
    ".alphita-plot .title{font-size:14px;font-weight:600}"
    ".alphita-plot .grid{stroke:var(--ink);stroke-opacity:.18}"
)

Points = Sequence[tuple[float, float]]


class Drawing:
    """Axes, and what is drawn on them."""

    def __init__(self, title: str, note: str, *, x_label: str, y_label: str, y_max: float = 1.0) -> None:
        step = next((step for step in STEPS if y_max <= 6 * step), STEPS[-1])
        self.y_max = min(1.0, max(1, np.ceil(y_max / step - 1e-9)) * step)
        self.title = title
        self._marks = [
            f'<text class="title" x="14" y="22">{escape(title)}</text>',
            f'<text x="14" y="41">{escape(note)}</text>',
        ]
        self._keys = 0
        for share in np.linspace(0, 1, 6).tolist():
            x = self._x(share)
            self._marks += [
                f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" y2="{HEIGHT - BOTTOM}"/>',
                f'<text x="{x:.1f}" y="{HEIGHT - BOTTOM + 17}" text-anchor="middle">{100 * share:.4g}%</text>',
            ]
        for tick in np.arange(0, self.y_max + step / 2, step).tolist():
            y = self._y(tick)
            self._marks += [
                f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>',
                f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{round(100 * tick, 6):.4g}%</text>',
            ]
        middle, centre = (LEFT + WIDTH - RIGHT) / 2, (TOP + HEIGHT - BOTTOM) / 2
        self._marks += [
            f'<text x="{middle}" y="{HEIGHT - BOTTOM + 37}" text-anchor="middle">{escape(x_label)}</text>',
            f'<text transform="translate(14 {centre}) rotate(-90)" text-anchor="middle">{escape(y_label)}</text>',
        ]

    def line(self, points: Points, name: str, *, colour: str = "var(--s0)", dashes: str = "") -> None:
        """Draw a curve through (x, y) shares, with an entry of the legend."""
        look = f'fill="none" stroke="{colour}" stroke-width="2"' + (f' stroke-dasharray="{dashes}"' if dashes else "")
        path = " ".join(f"{self._x(x):.2f},{self._y(y):.2f}" for x, y in points)
        self._marks.append(f'<polyline points="{path}" {look}/>')
        x, y = self._key(name)
        self._marks.append(f'<polyline points="{x},{y} {x + 24},{y}" {look}/>')

    def dots(self, points: Points, bars: Points, texts: Sequence[str], name: str, *, colour: str = "var(--s0)") -> None:
        """Draw dots with vertical bars (low and high end of each) and the texts shown when pointed at."""
        for (x, y), (low, high), text in zip(points, bars, texts, strict=True):
            self._marks.append(
                f'<g><title>{escape(text)}</title><path d="M{self._x(x):.2f} {self._y(low):.2f}V{self._y(high):.2f}" '
                f'stroke="{colour}" stroke-width="1.5"/>{self._dot(self._x(x), self._y(y), colour)}</g>'
            )
        x, y = self._key(name)
        self._marks.append(self._dot(x + 12, y, colour))

    def svg(self) -> str:
        """Return the file's text."""
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" class="alphita-plot" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
            f'aria-label="{escape(self.title)}"><style>{STYLE}</style>'
            f'<rect width="{WIDTH}" height="{HEIGHT}" fill="var(--paper)"/>\n' + "\n".join(self._marks) + "\n</svg>\n"
        )

    def _key(self, name: str) -> tuple[float, float]:
        """Write the next entry of the legend; return where its sign goes."""
        x, y = LEFT + 190 * self._keys, HEIGHT - 18
        self._keys += 1
        self._marks.append(f'<text x="{x + 30}" y="{y + 4}">{escape(name)}</text>')
        return x, y

    def _dot(self, x: float, y: float, colour: str) -> str:
        return f'<circle cx="{x:.2f}" cy="{y:.2f}" r="3.5" fill="{colour}"/>'

    def _x(self, share: float) -> float:
        return LEFT + share * (WIDTH - LEFT - RIGHT)

    def _y(self, share: float) -> float:
        return HEIGHT - BOTTOM - share / self.y_max * (HEIGHT - TOP - BOTTOM)
