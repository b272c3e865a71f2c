"""The NodeRollouts and the recorded versions of NodePools, and which version each NodePool launches.

Both tables are empty in a cluster without NodeRollouts, and nothing here costs anything then.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import msgspec

from tenon.kube.records import ObjectRecord, ValueRecord
from tenon.rollout.revisions import Revision, UnreadableRevisionError, from_object, revision_name
from tenon.rollout.versions import PoolRollout, rollouts_by_pool
from worker.cache.refused_versions import RefusedVersions
from worker.cache.table import Table


def decode_revision(raw: bytes | msgspec.Raw) -> ValueRecord[Revision]:
    """Decode a ControllerRevision.

    Raises:
        ValueError: it holds no version of a NodePool.
    """
    body: dict[str, Any] = msgspec.json.decode(raw)
    metadata = body.get("metadata") or {}
    try:
        revision = from_object(body)
    except UnreadableRevisionError as error:
        raise ValueError(str(error)) from error
    return ValueRecord(revision.name, str(metadata.get("uid")), str(metadata.get("resourceVersion")), revision)


class NodeVersions:
    """The tables, and what follows from them for the NodePools of a cluster."""

    def __init__(self, changed: Callable[[str], None]) -> None:
        """``changed`` is called with the name of each NodeRollout or ControllerRevision that changes."""

        def listener(key: str, *_: object) -> None:
            changed(key)

        self.rollouts: Table[ObjectRecord] = Table(listener)
        self.revisions: Table[ValueRecord[Revision]] = Table(listener)
        self.refusals = RefusedVersions()

    def disconnect(self) -> None:
        """End the listeners, for a copy that is read in another thread."""
        self.rollouts.disconnect()
        self.revisions.disconnect()

    def revision(self, pool: str, digest: str) -> Revision | None:
        """A recorded version; None if it is not recorded."""
        record = self.revisions.get(revision_name(pool, digest)) if digest else None
        return record.value if record is not None else None

    def by_pool(self, pools: Mapping[str, Mapping[str, str]]) -> dict[str, PoolRollout]:
        """By name, what holds for each of these NodePools that a NodeRollout selects. ``pools``: their labels.

        No node of a wave is replaced while the version that its replacement must have is not recorded.
        """
        if not self.rollouts:
            return {}
        by_pool = rollouts_by_pool((record.body for record in self.rollouts), pools)
        return {pool: self._with_records(rollout) for pool, rollout in by_pool.items()}

    def _with_records(self, rollout: PoolRollout) -> PoolRollout:
        digest = rollout.replacement
        if not (rollout.wave_claims and digest) or self.revision(rollout.pool, digest) is not None:
            return rollout
        why = (
            f"ControllerRevision {revision_name(rollout.pool, digest)} does not exist, so its nodes cannot be launched"
        )
        return replace(rollout, wave_claims=frozenset(), message=why)
