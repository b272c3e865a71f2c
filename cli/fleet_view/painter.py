"""Paints lines on a terminal, and sends only those that changed: on a slow connection, a whole screen takes seconds."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TextIO

from rich.console import Console
from rich.text import Text

LINE = "\x1b[{};1H\x1b[2K{}"
"""Goes to a line, clears it and writes it. To clear after writing would remove the last character of a full line."""
CLEAR = "\x1b[2J"


class Painter:
    """The alternate screen of a terminal, which `close` gives back as it was."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._file: TextIO = console.file  # type: ignore[assignment]
        self._size = (0, 0)
        self._painted: list[str] = []
        console.set_alt_screen(True)
        console.show_cursor(False)

    @property
    def size(self) -> tuple[int, int]:
        """Width and height. Rich believes COLUMNS and LINES, which do not change with the terminal."""
        try:
            columns, lines = os.get_terminal_size(self._file.fileno())
        except OSError:
            columns, lines = self._console.size
        return (columns, lines) if columns and lines else (80, 24)

    def paint(self, lines: Sequence[Text]) -> None:
        """Show these lines."""
        texts = [self._encoded(line) for line in lines]
        size, output = self.size, []
        if size != self._size:
            self._size, self._painted = size, []
            output.append(CLEAR)
        for number, text in enumerate(texts):
            if number >= len(self._painted) or self._painted[number] != text:
                output.append(LINE.format(number + 1, text))
        self._painted = texts
        if output:
            self._file.write("".join(output))
            self._file.flush()

    def close(self) -> None:
        """Return to the ordinary screen."""
        self._console.show_cursor(True)
        self._console.set_alt_screen(False)

    def _encoded(self, line: Text) -> str:
        with self._console.capture() as captured:
            self._console.print(line, end="", soft_wrap=True, highlight=False)
        return captured.get()
