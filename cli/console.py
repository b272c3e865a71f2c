"""The console that commands print tables and sentences to: as wide as the terminal, or unlimited in files and pipes."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

UNLIMITED = 100_000


class _File(Console):
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
    console = Console(emoji=False)  # nothing that Tenon prints is one, and their list takes long to load
    return console if console.is_terminal else _File()
