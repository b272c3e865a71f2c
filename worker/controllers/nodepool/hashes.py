"""Writes the hashes by which drift is found, on NodePools and on NodeClaims that another controller hashed (DIS-75)."""

from __future__ import annotations

from activities.kubernetes.client import Kube
from activities.kubernetes.resources import NODECLAIMS, NODEPOOLS
from tenon.apis import labels
from tenon.apis.hashing import NODEPOOL_VERSION, migrated_hashes, nodepool_hashes
from tenon.apis.nodeclaim import DRIFTED
from tenon.apis.nodepool import NodePool
from tenon.kube.claim_record import ClaimRecord
from tenon.kube.records import ObjectRecord
from worker.cache.table import Table


class NodePoolHashes:
    """Compares the hashes in annotations with those of today's NodePools."""

    def __init__(self, kube: Kube, claims: Table[ClaimRecord]) -> None:
        self._kube = kube
        self._claims = claims
        self._foreign: dict[str, list[ClaimRecord]] = {}
        """By pool: the NodeClaims without Tenon's hash version, as of the last `observe`."""

    def observe(self) -> None:
        """Find the NodeClaims to judge, in one walk for all NodePools."""
        self._foreign = {}
        for claim in self._claims:
            if claim.annotations.get(labels.NODEPOOL_HASH_VERSION) != NODEPOOL_VERSION:
                self._foreign.setdefault(claim.pool, []).append(claim)

    async def write(self, record: ObjectRecord, pool: NodePool) -> None:
        """Write what is missing on a NodePool and its NodeClaims."""
        hashes = nodepool_hashes(pool)
        ours = record.annotations.get(labels.NODEPOOL_HASH_VERSION) == NODEPOOL_VERSION
        # Write the claims first: if this stops half-way, the pool still shows another controller's hash. Look for
        # claims with another's hash at every reconcile: the cache may see one after the pool already has Tenon's hash.
        for claim in self._foreign.get(record.name, ()):
            if ours and labels.NODEPOOL_HASH_VERSION not in claim.annotations:
                continue  # no controller has hashed it
            drifted = claim.is_true(DRIFTED)
            if change := migrated_hashes(claim.annotations, hashes, drifted=drifted):
                await self._kube.patch(NODECLAIMS, claim.name, {"metadata": {"annotations": change}})
        if any(record.annotations.get(key) != value for key, value in hashes.items()):
            await self._kube.patch(NODEPOOLS, record.name, {"metadata": {"annotations": hashes}})
