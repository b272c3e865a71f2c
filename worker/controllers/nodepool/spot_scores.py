"""Reads Spot placement scores for the NodePools that follow them, so that plans choose zones by them.

AWS limits how many new configurations an account may have scored in a day. So each is read once an hour, or when
its NodePool changes, and few are new. Without scores a NodePool buys as if it did not follow them, and has an event
that says why.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from activities.cluster_view.interfaces import Types
from activities.ec2.errors import EC2Error
from activities.kubernetes.event_references import pool_reference
from activities.kubernetes.events import EventPublisher
from activities.provisioning.offerings import instance_types_by_pool
from activities.provisioning.spot_scores import SpotScoreStore
from tenon.apis import labels
from tenon.apis.nodepool import NodePool
from tenon.apis.purchase_goals import goals_of
from tenon.kube.event_reasons import EventReason
from tenon.provisioning.planning_policy import PlanPolicy
from tenon.provisioning.problem import scheduling_pools
from tenon.provisioning.readiness import usable_pools
from tenon.scheduling.offerings.spot_scores import Configuration, configuration_of
from worker.cache.changes import Change
from worker.cache.cluster import ClusterCache
from worker.cache.planning_view import PlanningView
from worker.controllers.base import Controller

EVERY = 3600.0
"""Seconds between two reads for a NodePool."""
AFTER_FAILURE = 600.0
"""Seconds until the next read if AWS refuses one, or if it would be one too many."""
AFTER_RETRYABLE_FAILURE = 60.0
"""Seconds until the next read if AWS throttles one or does not answer."""
DAY = 24 * 3600.0
MOST_CONFIGURATIONS = 20
"""How many configurations the worker has scored in a day. AWS does not say its limit, which other users of the account
share."""
TOO_MANY = (
    f"{MOST_CONFIGURATIONS} other configurations were scored in the last 24 hours, and AWS limits them: let fewer "
    "NodePools follow scores, or give them the same instance types"
)

Version = tuple[str, int, str]
"""The UID and the generation of a NodePool, and which version of it a NodeRollout launches."""


@dataclass(frozen=True, slots=True)
class _Failure:
    """Why there are no scores, and how soon they are read again."""

    why: str
    pause: float = AFTER_FAILURE


class Reader(Protocol):
    """What AWS says, as `activities.ec2.spot_scores.SpotScoresReader` does."""

    def read(self, configuration: Configuration) -> Mapping[str, int]:
        """Return the score of each zone, by zone ID. Blocking."""
        ...


class SpotPlacementScoresController(Controller):
    """Keeps the scores in `SpotScoreStore`."""

    name = "spotplacementscores"
    object_field = "nodepool"
    topics = ()
    resync = 15.0

    def __init__(
        self,
        recorder: EventPublisher,
        cache: ClusterCache,
        view: PlanningView,
        types: Types,
        store: SpotScoreStore,
        reader: Reader,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(cache)
        self._recorder = recorder
        self._view = view
        self._types = types
        self._store = store
        self._reader = reader
        self._clock = clock
        self._next_reads: dict[Version, float] = {}
        """By version of a NodePool, when its scores are due. A changed NodePool may launch other types."""
        self._scored_at: dict[Configuration, float] = {}
        """When each configuration of the last day was scored."""
        self._failures: dict[str, _Failure] = {}
        """By NodePool, how its last read failed. A log line says each once."""

    async def reconcile(self, changes: Sequence[Change]) -> float | None:  # noqa: ARG002
        """Read the scores that are due."""
        pools = {pool.metadata.name: pool for pool in self._view.node_pools() if _follows(pool)}
        self._store.keep_only(pools.keys())
        now = self._clock()
        versions = {_version(pool) for pool in pools.values()}
        self._next_reads = {version: due for version, due in self._next_reads.items() if version in versions}
        self._failures = {name: failure for name, failure in self._failures.items() if name in pools}
        due_pools = [pool for _, pool in sorted(pools.items()) if self._next_reads.get(_version(pool), now) <= now]
        usable = usable_pools(due_pools, self._view.node_class, self._view)
        if not usable:
            return None
        # Refused offerings count: they come and go, and each set of types is a new configuration.
        overlaid = await instance_types_by_pool(self._view, self._types, usable)
        engine_pools = await asyncio.to_thread(
            scheduling_pools, self._view.snapshot(), overlaid.pools_with_types, PlanPolicy()
        )
        scores: dict[Configuration, Mapping[str, int] | _Failure] = {}
        for (pool, _), engine_pool in zip(overlaid.pools_with_types, engine_pools, strict=True):
            name, version = pool.metadata.name, _version(pool)
            self._next_reads[version] = now + AFTER_FAILURE
            if await self.isolate(name, self._refresh(pool, configuration_of(engine_pool), scores)):
                self._next_reads[version] = now + (self._failures[name].pause if name in self._failures else EVERY)
        return None

    async def _refresh(
        self,
        pool: NodePool,
        configuration: Configuration | None,
        scores: dict[Configuration, Mapping[str, int] | _Failure],
    ) -> None:
        """Read the scores of a NodePool, or take those that were read for another one with the same types."""
        name = pool.metadata.name
        if configuration is None:  # it allows too few types by now
            self._failures.pop(name, None)
            self._store.replace(name, {})
            return
        if configuration not in scores:
            scores[configuration] = await self._read(configuration)
        answer = scores[configuration]
        if isinstance(answer, _Failure):
            await self._report(pool, answer)
        else:
            self._failures.pop(name, None)
            self._store.replace(name, answer)

    async def _report(self, pool: NodePool, failure: _Failure) -> None:
        name = pool.metadata.name
        if self._failures.get(name) != failure:
            self._failures[name] = failure
            self._log.warning(
                "The worker cannot read Spot placement scores for a NodePool",
                extra={"nodepool": name, "error": failure.why},
            )
        message = f"Spot placement scores cannot be read, so plans soon choose zones without them: {failure.why}"
        await self._recorder.publish(pool_reference(pool), EventReason.SPOT_SCORES_UNKNOWN, message)

    async def _read(self, configuration: Configuration) -> Mapping[str, int] | _Failure:
        """Return the scores by zone ID, or why there are none."""
        now = self._clock()
        self._scored_at = {key: at for key, at in self._scored_at.items() if now < at + DAY}
        if configuration not in self._scored_at and len(self._scored_at) >= MOST_CONFIGURATIONS:
            return _Failure(TOO_MANY)
        try:
            scores = await asyncio.to_thread(self._reader.read, configuration)
        except EC2Error as error:
            return _Failure(error.explained, AFTER_RETRYABLE_FAILURE if error.retryable else AFTER_FAILURE)
        self._scored_at[configuration] = now
        return scores


def _version(pool: NodePool) -> Version:
    metadata = pool.metadata
    return metadata.uid, metadata.generation, metadata.annotations.get(labels.REVISION, "")


def _follows(pool: NodePool) -> bool:
    goals = goals_of(pool.metadata.annotations)
    return goals is not None and goals.placement_scores is not None
