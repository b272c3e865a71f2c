"""Collects, for a scrape, the metrics that the worker's processes have as text: in files, and on sockets.

What does not answer is left out, because the other metrics say what is wrong.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from pathlib import Path

from activities.metrics import TEXT_SOCKET_SUFFIX, TEXT_SUFFIX

ANSWER_SECONDS = 8.0
"""How long a process may take for its next piece. Prometheus waits ten seconds for a scrape, if not told otherwise."""
PIECE = 2**18


def scraped_texts(folder: str) -> Iterator[bytes]:
    """The texts in pieces."""
    for path in sorted(Path(folder).glob(f"*{TEXT_SUFFIX}")):
        with contextlib.suppress(FileNotFoundError):  # the leader has just ended
            yield path.read_bytes()
    for path in sorted(Path(folder).glob(f"*{TEXT_SOCKET_SUFFIX}")):
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(ANSWER_SECONDS)
            connection.connect(str(path))
            while piece := connection.recv(PIECE):
                yield piece
