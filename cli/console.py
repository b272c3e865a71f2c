"""The console that commands print tables and sentences to: as wide as the terminal, or unlimited in files and pipes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.padding import Padding
from rich.segment import Segment
from rich.text import Text

UNLIMITED = 100_000
_CONTROL = dict.fromkeys((*range(0x09), *range(0x0B, 0x20), *range(0x7F, 0xA0)))


class TextConsole(Console):
    """Prints no control characters of texts: those of other people, such as reasons, must not steer a terminal."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Yield the segments that are printed."""
        for segment in super().render(renderable, options):
            text = segment.text if segment.control else printable(segment.text)
            yield segment if text == segment.text else Segment(text, segment.style)


def printable(text: str) -> str:
    """Return the text without control characters, but for newlines and tabs."""
    return text.translate(_CONTROL)


class _File(TextConsole):
    """Truncates and wraps nothing, and leaves out the spaces at the end of a line."""

    def __init__(self) -> None:
        super().__init__(width=UNLIMITED, emoji=False)

    def print(self, *objects: Any, **options: Any) -> None:
        """Print the objects."""
        with self.capture() as printed:
            super().print(*objects, **options)
        self.file.write("\n".join(line.rstrip() for line in printed.get().split("\n")))


def indented(text: str | Text) -> Padding:
    """Return a long sentence of which all lines are indented, also those that a terminal wraps."""
    return Padding(Text(text) if isinstance(text, str) else text, (0, 0, 0, 2), expand=False)


def output_console() -> Console:
    """Return the console for standard output."""
    console = TextConsole(emoji=False)  # nothing that Tenon prints is one, and their list takes long to load
    return console if console.is_terminal else _File()
