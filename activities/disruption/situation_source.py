"""The situation that a search for moves decides in, and that a command is validated in: the cluster, with its model.

A search and a validation must see the same cluster, or a validation ends commands that the next search finds again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Protocol, TypeVar

from activities.clock import utc_now
from activities.cluster_view.interfaces import ClusterView, DisruptionCluster
from activities.disruption.situation_reader import SituationReader
from activities.disruption.slowed_pools import SlowedPools
from activities.disruption.supply import Supply, SupplyReader
from activities.provisioning.account_commitments import CommitmentStore
from activities.provisioning.batching import Batcher
from activities.provisioning.spot_scores import SpotScoreStore
from activities.tracing import spans
from activities.tracing.catalogue import Phase
from tenon.disruption.cluster_model import ClusterModel, model_of
from tenon.disruption.commands.open_commands import claims_of
from tenon.disruption.covered_nodes import with_coverage
from tenon.disruption.history.savings import slowed_pools
from tenon.disruption.nodes import ManagedNode
from tenon.disruption.scored_zones import with_scores
from tenon.disruption.search.pods_elsewhere import PodsElsewhere
from tenon.disruption.situation import Situation
from tenon.kube.pod import Pod
from tenon.messages.disruption import DisruptionCommand, OpenCommand
from tenon.messages.provisioning import LaunchBreaker
from tenon.provisioning.launch_refusals import held_as_a_whole, without_held_types
from tenon.provisioning.planning_policy import PlanPolicy
from tenon.provisioning.problem import problem_of, scheduling_pools
from tenon.scheduling.offerings.type_table import TypeTables

MAX_REMEMBERED = 1000
"""The maximum number of commands of which new hosts are remembered."""

Result = TypeVar("Result")


class Compute(Protocol):
    """Runs a function in a thread."""

    async def __call__(self, function: Callable[..., Result], /, *arguments: object) -> Result:
        """Return what the function returns."""
        ...


class SituationSource:
    """States the situation as the cluster is now."""

    def __init__(
        self,
        view: ClusterView,
        supply: SupplyReader,
        batcher: Batcher,
        situations: SituationReader,
        policy: PlanPolicy | None = None,
        slowed: SlowedPools | None = None,
        now: Callable[[], datetime] = utc_now,
        commitments: CommitmentStore | None = None,
        spot_scores: SpotScoreStore | None = None,
    ) -> None:
        """``supply``: what the NodePools can buy. ``batcher``: knows the room that pods are nominated for, and what EC2
        refuses, which no replacement is made of. ``situations``: what the model is added to. ``policy``: the
        operator's settings that affect plans. ``slowed``: the pools whose moves do not pay. ``commitments``: the
        Reserved Instances and Savings Plans that cover nodes. ``spot_scores``: the Spot placement scores of NodePools
        that follow them.
        """
        self._view = view
        self._supply = supply
        self._batcher = batcher
        self._policy = policy or PlanPolicy()
        self._situations = situations
        self._slowed = slowed or SlowedPools()
        self._now = now
        self._commitments = commitments or CommitmentStore()
        self._spot_scores = spot_scores or SpotScoreStore()
        self._elsewhere = PodsElsewhere()
        self._tables = TypeTables()
        """The index of the instance types, as the last pass left it."""
        self._new_hosts: dict[str, frozenset[str]] = {}
        """By command that takes other replacements than it was decided with, the NodeClaims that its pods move to."""

    def is_ready(self) -> bool:
        """Whether there is a situation to decide in: see `SituationReader.is_ready`."""
        return self._situations.is_ready()

    def outline(self, nodes: Sequence[ManagedNode], open_commands: Mapping[str, OpenCommand]) -> Situation:
        """The situation with what passes know, but without its model, which takes long to build.

        Args:
            nodes: all nodes.
            open_commands: the open and the failed commands, by NodeClaim.
        """
        situation = self._situations.read(nodes, open_commands)
        return replace(
            situation,
            postponed=claims_of(open_commands, postponed=True),
            nominated=situation.nominated | self._new_hosts_of(open_commands),
            slowed=slowed_pools(self._slowed.savings, open_commands, situation.now),
        )

    async def with_model(
        self, nodes: Sequence[ManagedNode], open_commands: Mapping[str, OpenCommand], compute: Compute
    ) -> tuple[Situation, Supply]:
        """The situation with its model, and what the pools can buy. ``compute`` runs what takes long."""
        rollouts = self._view.rollouts()  # of the same moment as the versions of their waves
        with spans.phase(Phase.TYPES):
            supply = await self._supply.read()
        with spans.phase(Phase.PROBLEM):
            snapshot = self._view.snapshot()
            warm = frozenset(self._view.warm_nodes())
            reserved = self._batcher.reserved()
            breakers = self._batcher.refusals.breakers(self._view.node_pools())
            of_waves = self._batcher.refusals.breakers(self._view.wave_pools())
            coverage = await compute(self._commitments.coverage, list(self._view.all_claims()))
            model = await compute(
                _model, snapshot, warm, supply, self._policy, reserved, breakers, of_waves, self._tables
            )
            model = with_scores(await compute(with_coverage, model, coverage), self._spot_scores.scores_of)
            elsewhere = await compute(self._elsewhere.added_to, nodes, model.details, self._now())
        return replace(self.outline(elsewhere, open_commands), model=model, rollouts=rollouts), supply

    def use_again(self, tables: TypeTables) -> None:
        """Let later models use this index of the instance types, as far as the types are the same."""
        self._tables = tables

    def has_other_replacements(self, command: DisruptionCommand) -> None:
        """Remember that a command moves its pods elsewhere than it was decided, which the workflow does not know."""
        self._new_hosts[command.id] = frozenset(command.arrivals)
        while len(self._new_hosts) > MAX_REMEMBERED:
            del self._new_hosts[next(iter(self._new_hosts))]

    def _new_hosts_of(self, open_commands: Mapping[str, OpenCommand]) -> frozenset[str]:
        """The new NodeClaims that open commands move pods to (DIS-62), which the workflow does not know."""
        still_open = {entry.command for entry in open_commands.values() if not entry.postponed}
        return frozenset[str]().union(*(self._new_hosts.get(command_id, frozenset()) for command_id in still_open))


def _model(
    snapshot: DisruptionCluster,
    warm: Collection[str],
    supply: Supply,
    policy: PlanPolicy,
    reserved: Mapping[str, Sequence[Pod]],
    breakers: Mapping[str, LaunchBreaker],
    of_waves: Mapping[str, LaunchBreaker],
    tables: TypeTables,
) -> ClusterModel:
    usual = supply.usual
    static = {pool.metadata.name for pool, _ in usual.pools_with_types if pool.spec.replicas is not None}
    problem = problem_of(snapshot, [], without_held_types(usual.pools_with_types, breakers, breakers), policy, reserved)
    # A warm node has room for pods that tolerate its taint, but no move may count on it: nothing would start it.
    nodes = [replace(node, closed=True) if node.name in warm else node for node in problem.nodes]
    details = snapshot.node_details(usual.types_by_pool())  # the nodes of held types have their prices all the same
    model = model_of(replace(problem, nodes=nodes), details, static, held_as_a_whole(breakers), tables)
    wave_pools = scheduling_pools(
        snapshot, without_held_types(supply.waves.pools_with_types, of_waves, of_waves), policy
    )
    return replace(model, wave_pools={pool.name: pool for pool in wave_pools}) if wave_pools else model
