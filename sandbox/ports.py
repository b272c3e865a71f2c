"""Free ports on loopback.

The range lies below where Linux and macOS take the ports of outgoing connections from, so that a port found free is
not taken by somebody's client in the moment before its server starts. Who starts several sandboxes at once gives each a
range of its own in ``TENON_SANDBOX_PORTS`` ("20000-23999"), so that none takes a port in the moment before another's
server listens on it.
"""

from __future__ import annotations

import os
import random
import socket

RANGE = range(20_000, 32_000)
OWN_RANGE = "TENON_SANDBOX_PORTS"


def port_range() -> range:
    """Where ports are looked for; raises OSError for a range that is none."""
    told = os.environ.get(OWN_RANGE)
    if not told:
        return RANGE
    first, _, last = told.partition("-")
    if not (first.isdecimal() and last.isdecimal() and 0 < int(first) <= int(last) < 65_536):
        raise OSError(f'{OWN_RANGE} is "{told}": write the first and the last port, as in 20000-23999')
    return range(int(first), int(last) + 1)


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
    among = port_range()
    for port in random.SystemRandom().sample(among, len(among)):
        if is_free(port):
            found.append(port)
        if len(found) == count:
            return found
    raise OSError(f"only {len(found)} of {count} ports are free on 127.0.0.1 in {among.start}-{among.stop - 1}")
