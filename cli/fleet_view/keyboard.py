"""Reads keys from the terminal without waiting for Enter."""

from __future__ import annotations

import asyncio
import os
import termios
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from cli.fleet_view import view_state

_SEQUENCES = {
    "\x1b[A": view_state.UP,
    "\x1b[B": view_state.DOWN,
    "\x1bOA": view_state.UP,
    "\x1bOB": view_state.DOWN,
    "\x1b[5~": view_state.PAGE_UP,
    "\x1b[6~": view_state.PAGE_DOWN,
    "\x1b[H": view_state.HOME,
    "\x1b[F": view_state.END,
    "\x1b[1~": view_state.HOME,
    "\x1b[4~": view_state.END,
}
_CHARACTERS = {
    "\r": view_state.ENTER,
    "\n": view_state.ENTER,
    "\x1b": view_state.ESCAPE,
    "\x7f": view_state.BACKSPACE,
    "\x08": view_state.BACKSPACE,
    "\x03": view_state.INTERRUPT,
}


def keys_of(text: str) -> Iterator[str]:
    """Yield the keys in what the terminal sent at once. A sequence that is not known is skipped."""
    while text:
        sequence = next((known_sequence for known_sequence in _SEQUENCES if text.startswith(known_sequence)), "")
        if sequence:
            yield _SEQUENCES[sequence]
            text = text[len(sequence) :]
        elif text.startswith(("\x1b[", "\x1bO")):
            end = next(
                (place for place, letter in enumerate(text[2:], 2) if letter.isalpha() or letter == "~"), len(text)
            )
            text = text[end + 1 :]
        else:
            yield _CHARACTERS.get(text[0], text[0])
            text = text[1:]


@contextmanager
def reading_keys(descriptor: int, pressed: Callable[[str], None]) -> Iterator[None]:
    """Call ``pressed`` with each key until the block ends. Keys are not echoed, and Ctrl-C is a key."""
    loop, before = asyncio.get_running_loop(), termios.tcgetattr(descriptor)
    tty.setraw(descriptor, termios.TCSANOW)
    changed = termios.tcgetattr(descriptor)
    changed[1] = before[1]  # output is as before: a line end still returns to the first column
    termios.tcsetattr(descriptor, termios.TCSANOW, changed)

    def read() -> None:
        content = os.read(descriptor, 1024)
        if not content:  # the terminal has gone
            loop.remove_reader(descriptor)
            pressed(view_state.INTERRUPT)
        for key in keys_of(content.decode(errors="ignore")):
            pressed(key)

    loop.add_reader(descriptor, read)
    try:
        yield
    finally:
        loop.remove_reader(descriptor)
        termios.tcsetattr(descriptor, termios.TCSANOW, before)
