"""Handles standard streams that are closed, on a full disk, or whose reader has gone."""

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
    """Discard output to a closed stream. Otherwise it could end up in the next file that the process opens."""
    sys.stdout = sys.stdout or _nowhere()
    sys.stderr = sys.stderr or _nowhere()


def _nowhere() -> TextIO:
    return Path(os.devnull).open("w", encoding="utf-8")


@contextmanager
def report_unwritable_output() -> Iterator[None]:
    """Exit with status 1 and a message if the output cannot be written; without a message if its reader has gone.

    Raises:
        SystemExit: the command's own exit, or status 1.
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
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # discards what remains in the buffer
        raise SystemExit(1) from None
