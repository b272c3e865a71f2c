"""How long work tells what it is doing, on a terminal and in a pipe.

The sandbox's parts report sentences; who started them decides how they look. A terminal shows what is going on in
one moving line and keeps what is done; a pipe or a log gets plain lines, and of the moving ones only a few.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from rich.console import Console
from rich.markup import escape

QUIET_SECONDS = 15.0
"""A pipe hears of work that goes on at most this often."""


@dataclass(frozen=True)
class Progress:
    """One sentence: something done (``lasting``), or something that goes on."""

    text: str
    lasting: bool = True

    def __str__(self) -> str:
        return self.text


OnProgress = Callable[[Progress], None]


def silent(progress: Progress) -> None:
    """Tell nobody."""
    del progress


@contextmanager
def shown(console: Console) -> Iterator[OnProgress]:
    """A reporter for ``console``: a moving line on a terminal, plain lines elsewhere."""
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
