"""A time zone whose clock is put forward or back in some minutes, as for daylight saving."""

from __future__ import annotations

import struct
import sysconfig
from datetime import datetime, timedelta
from pathlib import Path

NAME = "Drill/Shifting"
CHANGES_AT = timedelta(hours=2)
"""What the clock would show at the instant of the change."""


def write_zone(folder: Path, at: datetime, change: timedelta) -> tuple[str, timedelta]:
    """Write the zone into a folder.

    Args:
        folder: where the zone is found by its name.
        at: when the clock changes.
        change: by how much it is put forward; negative if it is put back.

    Returns:
        PYTHONTZPATH for processes that know it, and by how much its clock is ahead of UTC before the change.
    """
    begin_of_day = timedelta(hours=at.hour, minutes=at.minute)
    ahead = CHANGES_AT - begin_of_day
    abbreviations = b"DRL\0DRS\0"
    header = b"TZif" + bytes(16) + struct.pack(">6l", 0, 0, 0, 1, 2, len(abbreviations))
    kinds = struct.pack(">lBB", round(ahead.total_seconds()), 0, 0)
    kinds += struct.pack(">lBB", round((ahead + change).total_seconds()), change > timedelta(), 4)
    file = folder / NAME
    file.parent.mkdir(parents=True)
    file.write_bytes(header + struct.pack(">l", round(at.timestamp())) + bytes([1]) + kinds + abbreviations)
    system = sysconfig.get_config_var("TZPATH") or "/usr/share/zoneinfo"
    return f"{folder}:{system}", ahead
