"""Shows the progress of long work, on a terminal and in a pipe.

The sandbox's parts report sentences, and the caller decides how to show them. A terminal shows current work in one
updating line and keeps what is done. A pipe or a log gets plain lines, with only a few of the updates.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from rich.console import Console
from rich.markup import escape

QUIET_SECONDS = 15.0
"""Minimum seconds between two updates about current work in a pipe."""


@dataclass(frozen=True)
class Progress:
    """One sentence about something done (``lasting``) or about current work."""

    text: str
    lasting: bool = True

    def __str__(self) -> str:
        return self.text


OnProgress = Callable[[Progress], None]


def silent(progress: Progress) -> None:
    """Report nothing."""
    del progress


@contextmanager
def shown(console: Console) -> Iterator[OnProgress]:
    """A reporter for ``console``: an updating line on a terminal, plain lines elsewhere."""
    if console.is_terminal:
        with console.status("") as status:

            def on_terminal(progress: Progress) -> None:
                if progress.lasting:
                    console.print(f"[green]✓[/] {escape(progress.text)}", highlight=False)
                else:
                    status.update(escape(progress.text))

            yield on_terminal
        return
    last = 0.0

    def on_pipe(progress: Progress) -> None:
        nonlocal last
        now = time.monotonic()
        if progress.lasting or now - last >= QUIET_SECONDS:
            console.print(progress.text, highlight=False, markup=False, soft_wrap=True)
            last = now

    yield on_pipe
