"""Says how a rollout goes on, from what the leader sees of its NodePools."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from temporalio.exceptions import ApplicationError

from activities.clock import utc_now
from activities.kubernetes.client import Kube
from activities.kubernetes.errors import ApiError
from activities.rollout import rollout_metrics
from activities.rollout.cluster import ObservedPoolNode, ObservedRollout, RolloutCluster
from activities.rollout.container_restarts import ContainerCounts, count_containers
from activities.rollout.launchable import LaunchableTypes
from activities.rollout.prometheus import ask_all
from activities.rollout.statuses import status_rows
from tenon.apis.nodepool import NodePool
from tenon.apis.noderollout import NodeRolloutSpec
from tenon.evolve import evolve
from tenon.messages.rollout import AdvanceRolloutInput, NodesBefore, PoolProgress, RolloutAdvance
from tenon.rollout.gates import GateResult, NodeEvidence, NodeStarts, QueryAnswer, judge
from tenon.rollout.progress import Observation, advance, has_new_version, look_again, may_begin, restored
from tenon.rollout.starting import starting_since
from tenon.rollout.turn import held_back
from tenon.sentences import shortened

MAX_COUNTED_NODES = 50
"""On how many nodes of each version containers are counted, because each node costs one request. The newest count."""
REQUESTS_AT_ONCE = 5
MAX_MESSAGE = 300
MAX_UNREADY, MAX_FAULTS = 200, 50
"""How many controllers and faults are remembered from before the first wave."""


class RolloutAdvancer:
    """Observes the NodePools of a NodeRollout, and decides with `tenon.rollout.progress`."""

    def __init__(
        self,
        cluster: RolloutCluster,
        kube: Kube,
        types: LaunchableTypes,
        now: Callable[[], datetime] = utc_now,
    ) -> None:
        self._types = types
        self._cluster = cluster
        self._kube = kube
        self._now = now

    async def advance(self, advance_input: AdvanceRolloutInput) -> RolloutAdvance:
        """Return how far the rollout is now.

        A NodePool whose pods cannot be listed stays as it is, and stops no other.

        Raises:
            ApplicationError: the cache is not complete yet.
        """
        if not self._cluster.synced():
            raise ApplicationError("the cluster cache is not synced yet", type="CacheBehind")
        rollout = self._cluster.rollout(advance_input.name)
        if rollout is None:
            rollout_metrics.measure(advance_input.name, [])
            return RolloutAdvance(exists=False)
        if rollout.model is None:  # the API server validates, so this is an object of a later release
            return RolloutAdvance(uid=rollout.uid, pools=advance_input.pools, written=True)
        spec, now = rollout.model.spec, self._now()
        is_same = advance_input.uid in ("", rollout.uid)  # else it was deleted and created again: it starts over
        before = {progress.pool: progress for progress in advance_input.pools if is_same}
        readable = {pool.metadata.name: pool for pool in self._cluster.pools_of(advance_input.name)}
        is_judged = any(_is_under_way(progress) for progress in before.values())
        answers = await ask_all(spec.gates.prometheus) if is_judged else {}  # once for all NodePools
        pools: list[PoolProgress] = []
        for name in sorted({*readable, *self._cluster.governed_by(advance_input.name)}):
            progress = before.get(name) or _restored(name, rollout)
            if name in readable:
                try:
                    observation = await self._observe(progress, rollout, readable[name], pools, answers, now)
                    progress = advance(progress, spec, observation, now)
                except ApiError as error:
                    why = f"the pods of a node cannot be listed: {error}"
                    progress = evolve(progress, message=shortened(why, MAX_MESSAGE))
            pools.append(progress)
        rollout_metrics.measure(advance_input.name, pools)
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
        answers: Mapping[str, QueryAnswer],
        now: datetime,
    ) -> Observation:
        assert rollout.model is not None
        spec = rollout.model.spec
        nodes = self._cluster.nodes_of(pool.metadata.name)
        gates: list[GateResult] = []
        starting: datetime | None = None
        if _is_under_way(progress):
            version = self._cluster.in_version(pool, progress.target)
            no_launch = await self._types.why_none(version) if version is not None else ""
            refusal = no_launch or (
                self._cluster.refusal(pool.metadata.name, progress.target) if progress.claims else ""
            )
            new = [observed.node for observed in nodes if has_new_version(progress, observed.node)]
            starting = starting_since(
                progress.starting_since,
                [node for node in new if not node.leaving],
                now,
                under_way=bool(progress.claims or no_launch),
                refused=bool(refusal),
            )
            gates = await self._judge(spec, progress, nodes, answers, now, NodeStarts(starting, refusal))
        observation = Observation(
            newest=self._cluster.newest(pool),
            nodes=[observed.node for observed in nodes],
            gates=gates,
            held_back=held_back(
                spec,
                earlier,
                frozen=self._cluster.frozen(pool),
                problems=rollout.problems,
                now=now,
                closed=self._cluster.closed(pool),
            ),
            starting_since=starting,
        )
        if not may_begin(progress, observation):
            return observation
        return replace(observation, before=await self._before(spec, progress, nodes, now))

    async def _before(
        self, spec: NodeRolloutSpec, progress: PoolProgress, nodes: Sequence[ObservedPoolNode], now: datetime
    ) -> NodesBefore:
        """What the nodes are like that do not have a version which failed."""
        versions = ("", progress.current)
        old = [observed for observed in nodes if observed.node.revision in versions and not observed.node.leaving]
        patience = timedelta(seconds=spec.gates.pods_ready_within.seconds or 0)
        waiting = (pod for observed in old for pod in observed.waiting_pods if pod.owner)
        unready = {pod.owner for pod in waiting if now - pod.placed > patience}
        counts: dict[str, ContainerCounts] = {}
        if spec.gates.restarts != "Ignore":
            counts = await self._count(_newest(old), now, sorted(unready))
        return NodesBefore(
            unready_owners=sorted(unready)[:MAX_UNREADY],
            faults=sorted(frozenset[str]().union(*(observed.faults for observed in old)))[:MAX_FAULTS],
            containers=sum(count.containers for count in counts.values()),
            crash_loops=sum(count.crash_loops for count in counts.values()),
        )

    async def _judge(
        self,
        spec: NodeRolloutSpec,
        progress: PoolProgress,
        nodes: Sequence[ObservedPoolNode],
        answers: Mapping[str, QueryAnswer],
        now: datetime,
        starts: NodeStarts,
    ) -> list[GateResult]:
        before = progress.before or NodesBefore()
        nodes = [observed for observed in nodes if not observed.node.leaving]  # what leaves says nothing any more
        new = [observed for observed in nodes if has_new_version(progress, observed.node)]
        old = [observed for observed in nodes if not has_new_version(progress, observed.node)]
        counts: dict[str, ContainerCounts] = {}
        if spec.gates.restarts != "Ignore":
            counts = await self._count([*_newest(new), *_newest(old)], progress.began or now, before.unready_owners)
        return judge(
            spec.gates,
            [_evidence(observed, counts, before.unready_owners) for observed in new],
            [_evidence(observed, counts, before.unready_owners) for observed in old],
            answers,
            now,
            before=before,
            replaced_at=progress.replaced_at,
            starts=starts,
        )

    async def _count(
        self, nodes: Sequence[ObservedPoolNode], since: datetime, ignored_owners: Sequence[str]
    ) -> dict[str, ContainerCounts]:
        """Return, by NodeClaim, what the containers on its node did. A node that is gone meanwhile has none."""
        limit = asyncio.Semaphore(REQUESTS_AT_ONCE)

        async def count(observed: ObservedPoolNode) -> ContainerCounts:
            async with limit:
                return await count_containers(self._kube, observed.node_name, since, ignored_owners)

        with_node = [observed for observed in nodes if observed.node_name]
        counts = await asyncio.gather(*map(count, with_node))
        return {observed.node.claim: counted for observed, counted in zip(with_node, counts, strict=True)}


def _is_under_way(progress: PoolProgress) -> bool:
    return progress.phase == "Progressing" and progress.began is not None


def _newest(nodes: Sequence[ObservedPoolNode]) -> list[ObservedPoolNode]:
    return sorted(nodes, key=lambda observed: observed.node.created, reverse=True)[:MAX_COUNTED_NODES]


def _restored(name: str, rollout: ObservedRollout) -> PoolProgress:
    """What the status says of a NodePool that nothing else remembers: its workflow was terminated, or is new."""
    rows = (row for row in rollout.status_rows if isinstance(row, Mapping) and row.get("name") == name)
    row = next(rows, None)
    return restored(row) if row is not None else PoolProgress(pool=name)


def _evidence(
    observed: ObservedPoolNode, counts: dict[str, ContainerCounts], ignored_owners: Sequence[str]
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
