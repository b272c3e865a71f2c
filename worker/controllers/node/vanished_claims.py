"""The NodeClaims that vanished lately without a deletion, as after a restore of etcd.

If the leader reported each of them to its workflow, all these nodes would end at once. So the brake on sweeps applies
here too: if they are many, the sweep decides, which asks a person.
"""

from __future__ import annotations

from collections.abc import Container

from tenon.garbage_collection.brake import is_too_many

LATELY = 600.0
"""Seconds for which a NodeClaim counts: the default interval of the sweeps, so that a slow loss of many counts too."""


class VanishedClaims:
    """When each NodeClaim vanished, on a monotonic clock."""

    def __init__(self) -> None:
        self._at: dict[str, float] = {}

    def __contains__(self, name: object) -> bool:
        return name in self._at

    def __len__(self) -> int:
        return len(self._at)

    def add(self, name: str, now: float) -> None:
        """Remember that this NodeClaim vanished."""
        self._at[name] = now

    def forget(self, now: float, existing: Container[str]) -> None:
        """Forget those that vanished long ago or exist again."""
        self._at = {name: at for name, at in self._at.items() if now - at < LATELY and name not in existing}

    def are_too_many(self, existing: int) -> bool:
        """Whether so many vanished that the cause is probably not the nodes. ``existing``: NodeClaims that are left."""
        return is_too_many(len(self), existing + len(self))
