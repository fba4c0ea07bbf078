# SPDX-License-Identifier: Apache-2.0
"""`PrintableConsole`: names of files, layers and studies are shown, and steer no terminal."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from tilewright.host.common.printable import printable_lines


class PrintableConsole(Console):
    """A console on which only its own styles and cursor movements are more than text."""

    def say(self, text: str) -> None:
        """Print a line as it is: no markup, no highlights, and the terminal breaks it."""
        self.print(text, highlight=False, markup=False, soft_wrap=True)

    def render_str(self, text: str, **options: Any) -> Text:
        """A text with visible escapes, before tables measure it."""
        return super().render_str(printable_lines(text), **options)

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """The segments of something, with visible escapes in what is no plain text yet."""
        for segment in super().render(renderable, options):
            yield (
                segment if segment.control else segment._replace(text=printable_lines(segment.text))
            )
