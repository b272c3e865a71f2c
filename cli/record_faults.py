"""What commands refuse or leave out of a record, because it cannot be added up or put in order."""

from __future__ import annotations

from collections.abc import Collection

from cli.record_source import RecordError
from tenon.sentences import first_few

NAMES = 5
"""How many clusters a sentence names."""


def require_one_cluster(clusters: Collection[str]) -> None:
    """Check that entries are of one cluster, as those of several are not to be mixed.

    Raises:
        RecordError: they are of several.
    """
    if len(clusters) > 1:
        names = first_few(sorted(clusters), NAMES)
        raise RecordError(f"The record has the clusters {names}: name one with --cluster.")


def without_zone(number: int) -> str:
    """Say that so many entries do not count, because it is not known when they happened."""
    if number == 1:
        return "1 entry of the record has a time without a zone, and does not count"
    return f"{number:,} entries of the record have times without a zone, and do not count"
