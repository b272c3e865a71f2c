"""Evaluates an iCalendar in a process of its own: ``python -m activities.disruption.calendar_process ZONE NOW``.

The calendar comes on stdin, and the times go to stdout as JSON. A calendar from the internet may take any time and
memory, and only a process can be given limits of both.
"""

from __future__ import annotations

import json
import os
import resource
import sys
from datetime import datetime
from typing import Any

CPU_SECONDS = 10
MEMORY_MIB = 400
"""Of addresses, of which Python alone takes some 50. The worker's own limit is larger."""
OUT_OF_MEMORY = 3
"""The exit status of a process without memory. It cannot print an answer, because that needs memory too."""
TOO_MUCH = f"takes more than {CPU_SECONDS} s or {MEMORY_MIB} MiB to evaluate"


def main() -> None:
    """Print the times, or what is wrong with the calendar."""
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS + 1))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_MIB * 1024 * 1024,) * 2)
    try:
        print(json.dumps(_answer(sys.argv[1], datetime.fromisoformat(sys.argv[2]))))
    except MemoryError:
        os._exit(OUT_OF_MEMORY)


def _answer(timezone: str, now: datetime) -> dict[str, Any]:
    from tenon.disruption.freezes.icalendar_events import CalendarError, times_in

    try:
        times = times_in(sys.stdin.buffer.read(), timezone, now)
    except CalendarError as error:
        return {"problem": str(error)}
    events = [[event.start.isoformat(), event.end.isoformat()] for event in times.events]
    return {"events": events, "knownUntil": times.known_until.isoformat()}


if __name__ == "__main__":
    main()
