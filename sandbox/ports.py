"""Free ports on loopback.

The range lies below where Linux and macOS take the ports of outgoing connections from, so that a port found free is
not taken by somebody's client in the moment before its server starts.
"""

from __future__ import annotations

import random
import socket

RANGE = range(20_000, 32_000)


def is_free(port: int) -> bool:
    """Whether a server could listen on 127.0.0.1:``port`` now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def free_ports(count: int) -> list[int]:
    """``count`` different free ports; raises OSError when the range has too few."""
    found: list[int] = []
    for port in random.SystemRandom().sample(RANGE, len(RANGE)):
        if is_free(port):
            found.append(port)
        if len(found) == count:
            return found
    raise OSError(f"only {len(found)} of {count} ports are free on 127.0.0.1 in {RANGE.start}-{RANGE.stop}")
