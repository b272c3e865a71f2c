"""Says how a rollout goes on, from what the leader sees of its NodePools."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

from temporalio.exceptions import ApplicationError

from activities.clock import utc_now
from activities.kubernetes.client import Kube
from activities.kubernetes.errors import ApiError
from activities.rollout.cluster import ObservedNode, ObservedRollout, RolloutCluster
from activities.rollout.container_restarts import ContainerCounts, count_containers
from activities.rollout.prometheus import ask_all
from activities.rollout.statuses import status_rows
from tenon.apis.nodepool import NodePool
from tenon.apis.noderollout import NodeRolloutSpec
from tenon.messages.rollout import AdvanceRolloutInput, PoolProgress, RolloutAdvance
from tenon.rollout.gates import GateResult, NodeEvidence, judge
from tenon.rollout.progress import Observation, advance, has_new_version, look_again
from tenon.rollout.turn import held_back

MAX_COUNTED_NODES = 50
"""On how many nodes of each version containers are counted, because each node costs one request. The newest count."""
REQUESTS_AT_ONCE = 5


class RolloutAdvancer:
    """Observes the NodePools of a NodeRollout, and decides with `tenon.rollout.progress`."""

    def __init__(self, cluster: RolloutCluster, kube: Kube, now: Callable[[], datetime] = utc_now) -> None:
        self._cluster = cluster
        self._kube = kube
        self._now = now

    async def advance(self, advance_input: AdvanceRolloutInput) -> RolloutAdvance:
        """Return how far the rollout is now.

        Raises:
            ApplicationError: the cache is not complete yet.
            ApiError: the API server did not list the pods of a node.
        """
        if not self._cluster.synced():
            raise ApplicationError("the cluster cache is not synced yet", type="CacheBehind")
        rollout = self._cluster.rollout(advance_input.name)
        if rollout is None:
            return RolloutAdvance(exists=False)
        if rollout.model is None:  # the API server validates, so this is an object of a later release
            return RolloutAdvance(uid=rollout.uid, pools=advance_input.pools, written=True)
        spec, now = rollout.model.spec, self._now()
        is_same = advance_input.uid in ("", rollout.uid)  # else it was deleted and made again: it begins anew
        before = {progress.pool: progress for progress in advance_input.pools if is_same}
        pools: list[PoolProgress] = []
        for pool in self._cluster.pools_of(advance_input.name):
            name = pool.metadata.name
            progress = before.get(name, PoolProgress(pool=name))
            observation = await self._observe(progress, rollout, pool, pools, now)
            pools.append(advance(progress, spec, observation, now))
        waits = [seconds for progress in pools if (seconds := look_again(progress, spec)) is not None]
        return RolloutAdvance(
            uid=rollout.uid,
            pools=pools,
            written=status_rows(pools) == list(rollout.status_rows),
            look_again=min(waits, default=None),
        )

    async def _observe(
        self,
        progress: PoolProgress,
        rollout: ObservedRollout,
        pool: NodePool,
        earlier: Sequence[PoolProgress],
        now: datetime,
    ) -> Observation:
        assert rollout.model is not None
        spec = rollout.model.spec
        nodes = self._cluster.nodes_of(pool.metadata.name)
        gates: list[GateResult] = []
        if progress.phase == "Progressing" and progress.began is not None:
            gates = await self._judge(spec, progress, nodes, progress.began, now)
        return Observation(
            newest=self._cluster.newest(pool),
            nodes=[observed.node for observed in nodes],
            gates=gates,
            unready_owners=_unready_owners(spec, nodes, now),
            held_back=held_back(spec, earlier, frozen=self._cluster.frozen(pool), problems=rollout.problems, now=now),
        )

    async def _judge(
        self,
        spec: NodeRolloutSpec,
        progress: PoolProgress,
        nodes: Sequence[ObservedNode],
        since: datetime,
        now: datetime,
    ) -> list[GateResult]:
        new = [observed for observed in nodes if has_new_version(progress, observed.node)]
        old = [observed for observed in nodes if not has_new_version(progress, observed.node)]
        counts: dict[str, ContainerCounts] = {}
        if spec.gates.restarts != "Ignore":
            counts = await self._count([*_newest(new), *_newest(old)], since, progress.unready_before)
        return judge(
            spec.gates,
            [_evidence(observed, counts, progress.unready_before) for observed in new],
            [_evidence(observed, counts, progress.unready_before) for observed in old],
            await ask_all(spec.gates.prometheus),
            now,
        )

    async def _count(
        self, nodes: Sequence[ObservedNode], since: datetime, ignored_owners: Sequence[str]
    ) -> dict[str, ContainerCounts]:
        """Return, by NodeClaim, what the containers on its node did. A node that is gone meanwhile has none."""
        limit = asyncio.Semaphore(REQUESTS_AT_ONCE)

        async def count(observed: ObservedNode) -> ContainerCounts:
            async with limit:
                return await count_containers(self._kube, observed.node_name, since, ignored_owners)

        with_node = [observed for observed in nodes if observed.node_name]
        try:
            counts = await asyncio.gather(*map(count, with_node))
        except ApiError as error:
            raise ApplicationError(
                f"the pods of a node cannot be listed: {error}", type=type(error).__name__
            ) from error
        return {observed.node.claim: counted for observed, counted in zip(with_node, counts, strict=True)}


def _newest(nodes: Sequence[ObservedNode]) -> list[ObservedNode]:
    return sorted(nodes, key=lambda observed: observed.node.created, reverse=True)[:MAX_COUNTED_NODES]


def _unready_owners(spec: NodeRolloutSpec, nodes: Sequence[ObservedNode], now: datetime) -> set[str]:
    patience = timedelta(seconds=spec.gates.pods_ready_within.seconds or 0)
    waiting = (pod for observed in nodes for pod in observed.waiting_pods if pod.owner)
    return {pod.owner for pod in waiting if now - pod.placed > patience}


def _evidence(
    observed: ObservedNode, counts: dict[str, ContainerCounts], ignored_owners: Sequence[str]
) -> NodeEvidence:
    counted = counts.get(observed.node.claim, ContainerCounts())
    return NodeEvidence(
        claim=observed.node.claim,
        created=observed.node.created,
        initialized=observed.node.initialized,
        containers=counted.containers,
        restarts=counted.restarts,
        crash_loops=counted.crash_loops,
        waiting_pods=[pod for pod in observed.waiting_pods if pod.owner not in ignored_owners],
        faults=observed.faults,
    )
