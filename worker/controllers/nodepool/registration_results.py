"""Remembers whether the last NodeClaims of each NodePool registered, for its condition NodeRegistrationHealthy.

The results are in memory. A new leader takes over what the condition says, and counts NodeClaims that it sees register
or fail.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from tenon.apis.nodepool import NodePool
from tenon.kube.claim_record import ClaimRecord
from tenon.provisioning.registration_health import (
    RESULTS,
    RegistrationResult,
    is_outdated,
    recovered_results,
    result_of,
)
from worker.cache.changes import Change, Topic
from worker.cache.table import Table


@dataclass(slots=True)
class _PoolResults:
    generation: int
    class_generation: int | None
    results: deque[RegistrationResult]
    """Oldest first."""


class RegistrationResults:
    """The last results of each NodePool."""

    def __init__(self, claims: Table[ClaimRecord]) -> None:
        self._claims = claims
        self._counted: dict[str, str] = {}
        """By NodeClaim: the UID of the claim whose result is counted."""
        self._new: dict[str, list[RegistrationResult]] = {}
        """By NodePool: results that are not among the results of the pool yet."""
        self._results: dict[str, _PoolResults] = {}
        """By the UID of the NodePool."""

    def skip_present(self) -> None:
        """Count no NodeClaim that has its result already."""
        for claim in self._claims:
            self._observe(claim)
        self._new.clear()

    def observe(self, changes: Sequence[Change]) -> None:
        """Note the results of the NodeClaims that changed."""
        for topic, name in changes:
            if topic is Topic.CLAIM:
                claim = self._claims.get(name)
                if claim is None:
                    self._counted.pop(name, None)
                else:
                    self._observe(claim)

    def _observe(self, claim: ClaimRecord) -> None:
        if self._counted.get(claim.name) == claim.uid:
            return
        result = result_of(claim)
        if result is not None:
            self._counted[claim.name] = claim.uid
            self._new.setdefault(claim.pool, []).append(result)

    def of(self, pool: NodePool, class_generation: int | None) -> Sequence[RegistrationResult]:
        """The results that count for a NodePool. A change of the pool or its class drops those before it."""
        generation = pool.metadata.generation
        results = self._results.get(pool.metadata.uid)
        if results is None:
            recovered = () if is_outdated(pool, class_generation) else recovered_results(pool)
            results = _PoolResults(generation, class_generation, deque(recovered, RESULTS))
            self._results[pool.metadata.uid] = results
        elif generation != results.generation or class_generation not in (None, results.class_generation):
            results.results.clear()
        results.generation = generation
        results.class_generation = class_generation or results.class_generation
        results.results.extend(self._new.pop(pool.metadata.name, ()))
        return tuple(results.results)

    def forget_all_but(self, pools: Collection[NodePool]) -> None:
        """Drop the results of NodePools that are gone."""
        uids = {pool.metadata.uid for pool in pools}
        self._results = {uid: pool_results for uid, pool_results in self._results.items() if uid in uids}
        names = {pool.metadata.name for pool in pools}
        self._new = {name: results for name, results in self._new.items() if name in names}
