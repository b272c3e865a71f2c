"""Reads the record for a report, and says how far it is."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

from cli.record_faults import without_zone
from cli.record_source import entries
from cli.record_times import instant_of
from tenon.record.entries import Entry
from tenon.report.slimming import slim

EVERY = 5000
"""After how many entries the user sees a new count."""
MOST = 1_000_000
"""How many entries a report holds. A busy cluster of 500 nodes writes about 20,000 in a week."""
SHORTEST, LONGEST = timedelta(hours=1), timedelta(days=366)


def window_of(since: str, now: datetime) -> timedelta:
    """Return how far back a report looks.

    Raises:
        ValueError: the option is no time, or the window is shorter than an hour or longer than a year.
    """
    window = now - instant_of(since, now)
    if not SHORTEST <= window <= LONGEST:
        raise ValueError(f"--since {since!r} is out of bounds: a report looks back 1h to 366d")
    return window


def read_entries(
    record: str, since: datetime, cluster: str, say: Callable[[str], None]
) -> tuple[list[Entry], list[str]]:
    """Return the entries since a time, the last `MOST` of them, and what a reader must know about them.

    Raises:
        RecordError: the record cannot be read.
    """
    read: list[Entry] = []
    unplaced = 0
    for entry in entries(record, since, cluster=cluster):
        if entry.at.tzinfo is None:
            unplaced += 1
            continue
        read.append(slim(entry))
        if len(read) % EVERY == 0:
            say(f"Reading the record: {len(read):,} entries ...")
        if len(read) > 2 * MOST:
            del read[:-MOST]
    notes = [] if len(read) <= MOST else [f"The record has too many entries: only the last {MOST:,} count"]
    if unplaced:
        notes.append(without_zone(unplaced))
    if not read:
        notes.append("The record has no entries of this time")
    return read[-MOST:], notes
