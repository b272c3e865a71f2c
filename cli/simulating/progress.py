"""Shows a status line on the terminal while a large input is being processed."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Timer
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

SILENCE = 2.0
"""Seconds before the status line appears."""


@contextmanager
def show_progress(
    text: str, console: Console | None = None, silence: float = SILENCE
) -> Iterator[Callable[[str], None]]:
    """Show the text on standard error if the body takes longer than ``silence`` and a terminal is attached.

    Yields a function that replaces the text.
    """
    if console is None and sys.stderr.isatty():
        from rich.console import Console  # a plan that is printed as JSON needs nothing else of it

        console = Console(stderr=True)
    if console is None or not console.is_terminal:
        yield _ignore
        return
    status = console.status(text)
    timer = Timer(silence, status.start)
    timer.daemon = True
    timer.start()
    try:
        yield status.update
    finally:
        timer.cancel()
        timer.join()
        status.stop()


def _ignore(_text: str) -> None:
    """Show nothing."""
