"""Standard streams as commands find them: closed, on a full disk, or with nobody who reads any more."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

_UNWRITABLE = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EPIPE}


def open_what_is_closed() -> None:
    """Let what is written to a closed stream be lost, as its caller wants it, and not end up in another file."""
    sys.stdout = sys.stdout or _nowhere()
    sys.stderr = sys.stderr or _nowhere()


def _nowhere() -> TextIO:
    return Path(os.devnull).open("w", encoding="utf-8")


@contextmanager
def unwritable_output_told() -> Iterator[None]:
    """End with status 1 and a sentence where the output cannot be written; without one where nobody reads it.

    Raises:
        SystemExit: what the command ended with, or 1.
    """
    try:
        try:
            yield
        finally:
            sys.stdout.flush()
    except OSError as error:
        if error.errno not in _UNWRITABLE or error.filename is not None:
            raise
        if error.errno != errno.EPIPE:
            print(f"tenon: the output cannot be written: {error.strerror}", file=sys.stderr)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what is left in the buffer has nowhere to go
        raise SystemExit(1) from None
