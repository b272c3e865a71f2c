"""Finds free ports on loopback.

The range lies below the ports that Linux and macOS use for outgoing connections, so that no client takes a free port
just before its server starts. To start several sandboxes at once, give each its own range in ``TENON_SANDBOX_PORTS``
("20000-23999"), so that none takes a port just before another's server listens on it.
"""

from __future__ import annotations

import os
import random
import socket

LOOPBACK = "127.0.0.1"
RANGE = range(20_000, 32_000)
OWN_RANGE = "TENON_SANDBOX_PORTS"


def port_range() -> range:
    """The range to search for ports.

    Raises:
        OSError: ``TENON_SANDBOX_PORTS`` is malformed.
    """
    own_range = os.environ.get(OWN_RANGE)
    if not own_range:
        return RANGE
    first, _, last = own_range.partition("-")
    if not (first.isdecimal() and last.isdecimal() and 0 < int(first) <= int(last) < 65_536):
        raise OSError(f'{OWN_RANGE} is "{own_range}": write the first and the last port, as in 20000-23999')
    return range(int(first), int(last) + 1)


def is_free(port: int) -> bool:
    """Whether a server could listen on this port of loopback now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
    return True


def free_ports(count: int) -> list[int]:
    """Find ``count`` different free ports.

    Raises:
        OSError: the range has too few.
    """
    numbers: list[int] = []
    among = port_range()
    for port in random.SystemRandom().sample(among, len(among)):
        if is_free(port):
            numbers.append(port)
        if len(numbers) == count:
            return numbers
    raise OSError(f"only {len(numbers)} of {count} ports are free on {LOOPBACK} in {among.start}-{among.stop - 1}")
