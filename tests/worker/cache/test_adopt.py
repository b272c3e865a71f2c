"""A copy of the cluster's state: each table of it is copied, or is left out on purpose."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from worker.cache.state import ClusterState
from worker.cache.table import Table


def tables_of(part: object, path: str = "") -> Iterator[tuple[str, Table[Any]]]:
    """Yield the tables of a state and of its parts, by where they are."""
    values = part.items() if isinstance(part, dict) else vars(part).items()
    for name, value in values:
        if isinstance(value, Table):
            yield f"{path}{name}", value
        elif isinstance(value, dict) or (
            type(value).__module__.startswith("worker.cache.") and hasattr(value, "__dict__")
        ):
            yield from tables_of(value, f"{path}{name}.")


def test_no_table_of_a_copy_is_forgotten() -> None:
    """It would be empty in plans, and its listener would keep the copy in memory."""
    state, untouched = ClusterState(), ClusterState()
    state.adopt(untouched)
    listeners = {path: table._changed for path, table in tables_of(state)}
    assert {"limit_ranges", "storage.pvcs", "moving.pdbs", "buffer_targets.Deployment"} <= listeners.keys()
    disconnected = Table[Any](lambda _key, _before, _after: None)
    disconnected.disconnect()
    assert [path for path, listener in listeners.items() if listener is not disconnected._changed] == []
