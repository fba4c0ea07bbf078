# SPDX-License-Identifier: Apache-2.0
"""A drawing as SVG, in a light and a dark theme: text stays text, no font or script is loaded."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final
from xml.sax.saxutils import escape, quoteattr

Point = tuple[float, float]

THEMES: Final = {
    "light": {
        "ink": "#1f2328", "soft": "#59636e", "line": "#8c959f", "faint": "#d1d9e0",
        "panel": "#f6f8fa", "back": "#ffffff",
    },
    "dark": {
        "ink": "#f0f3f6", "soft": "#b1bac4", "line": "#768390", "faint": "#444c56",
        "panel": "#2d333b", "back": "#22272e",
    },
}  # fmt: skip
"""Colours by their purpose."""

HUES: Final = {
    "blue": ("#0072b2", "#56b4e9"), "orange": ("#d55e00", "#e69f00"),
    "green": ("#00795c", "#2fc59b"), "purple": ("#a4527f", "#e39cc4"),
    "grey": ("#6e7781", "#9ea7b3"),
}  # fmt: skip
"""Colours that the colour-blind can tell apart (Okabe and Ito), for a light and a dark ground."""

LETTER: Final = 0.56
"""Mean width of a letter as a part of the font's size."""


@dataclass(kw_only=True)
class Drawing:
    """Shapes in pixels from the top left corner; a title for those who do not see them."""

    width: float
    height: float
    theme: str
    title: str
    shapes: list[str] = field(default_factory=list)

    def colour(self, name: str) -> str:
        """A purpose or a hue as a colour of this theme."""
        if name in HUES:
            return HUES[name][self.theme == "dark"]
        return THEMES[self.theme].get(name, name)

    def rect(
        self, x: float, y: float, width: float, height: float, *,
        fill: str = "panel", line: str = "", radius: float = 4, opacity: float = 1,
    ) -> None:  # fmt: skip
        """A box; no outline unless it is given a line."""
        edge = f' stroke="{self.colour(line)}"' if line else ""
        clear = f' fill-opacity="{opacity:g}"' if opacity < 1 else ""
        self.shapes.append(
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" '
            f'rx="{radius:g}" fill="{self.colour(fill)}"{clear}{edge}/>'
        )

    def text(
        self, x: float, y: float, words: str, *,
        size: float = 13, colour: str = "ink", anchor: str = "start", bold: bool = False,
        turned: bool = False,
    ) -> None:  # fmt: skip
        """A line of text on a base line; ``anchor`` is start, middle or end."""
        weight = ' font-weight="600"' if bold else ""
        turn = f' transform="rotate(-90 {x:.1f} {y:.1f})"' if turned else ""
        self.shapes.append(
            f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size:g}" fill="{self.colour(colour)}" '
            f'text-anchor="{anchor}"{weight}{turn}>{escape(words)}</text>'
        )

    def line(
        self, points: Iterable[Point], *,
        colour: str = "line", width: float = 1, dashes: str = "", arrow: bool = False,
    ) -> None:  # fmt: skip
        """Straight pieces; ``arrow`` gives the last one a head."""
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        dashed = f' stroke-dasharray="{dashes}"' if dashes else ""
        head = f' marker-end="url(#{colour})"' if arrow else ""
        self.shapes.append(
            f'<polyline points="{path}" fill="none" stroke="{self.colour(colour)}" '
            f'stroke-width="{width:g}" stroke-linejoin="round"{dashed}{head}/>'
        )

    def area(self, points: Iterable[Point], *, colour: str, opacity: float) -> None:
        """A filled outline."""
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        self.shapes.append(
            f'<polygon points="{path}" fill="{self.colour(colour)}" fill-opacity="{opacity:g}"/>'
        )

    def box(
        self, x: float, y: float, width: float, height: float, head: str, *lines: str,
        fill: str = "panel", line: str = "line",
    ) -> None:  # fmt: skip
        """A box with a head and smaller lines in its middle."""
        self.rect(x, y, width, height, fill=fill, line=line)
        top = y + height / 2 - 8 * len(lines) + 4.5
        self.text(x + width / 2, top, head, anchor="middle", bold=True)
        for number, words in enumerate(lines):
            self.text(
                x + width / 2, top + 16 * (number + 1), words,
                size=11, colour="soft", anchor="middle",
            )  # fmt: skip

    def svg(self) -> str:
        """The file."""
        heads = "".join(
            f'<marker id="{name}" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" '
            f'markerHeight="7" orient="auto-start-reverse"><path d="M0 0L8 4L0 8z" '
            f'fill="{self.colour(name)}"/></marker>'
            for name in ("line", *HUES)
            if any(f"url(#{name})" in shape for shape in self.shapes)
        )
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width:g} {self.height:g}" '
            f'width="{self.width:g}" height="{self.height:g}" role="img" '
            f"aria-label={quoteattr(self.title)} "
            'font-family="system-ui, -apple-system, Segoe UI, DejaVu Sans, sans-serif">\n'
            f"<title>{escape(self.title)}</title>\n<defs>{heads}</defs>\n"
            f'<rect width="{self.width:g}" height="{self.height:g}" rx="6" '
            f'fill="{self.colour("back")}"/>\n' + "\n".join(self.shapes) + "\n</svg>\n"
        )
