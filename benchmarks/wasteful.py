"""A cluster of which about half is waste, for the benchmark of consolidation.

It is what a cluster looks like after its load fell: nodes of many sizes, each with some of the pods that it was bought
for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from random import Random

from benchmarks.catalogue import ec2_pool
from benchmarks.mixes import CPU, MEMORY
from tenon.apis import labels
from tenon.apis.nodepool import Budget
from tenon.disruption.cluster_model import ClusterModel
from tenon.disruption.decision import Command
from tenon.disruption.nodes import ManagedNode, NodeDetail
from tenon.disruption.pool_policy import PoolPolicy
from tenon.disruption.search.carried_out import carried_out
from tenon.disruption.search.cost import rescheduling_cost
from tenon.disruption.situation import Situation
from tenon.kube.pod import Pod
from tenon.kube.requirements import IN, Requirement
from tenon.messages.disruption import PassCursor
from tenon.resources import CPU as CORES
from tenon.resources import parse_resources, total
from tenon.scheduling.model import InstanceType, Node, Offering, Plan, Problem
from tenon.scheduling.offerings.type_table import TypeTables

CATEGORY = "karpenter.k8s.aws/instance-category"
NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
FAMILIES = ("c5", "m5", "r5", "c6i", "m6i", "r6i")
SIZES = ("xlarge", "2xlarge", "4xlarge", "8xlarge")
SHARES = (8, 8, 3, 1)
"""How often each of `SIZES` comes up."""

LOOK_AHEAD = 20
"""How many pods a node passes over before it counts as full."""
RESTING = "the rest of its pods"


@dataclass(frozen=True)
class Wasteful:
    """The cluster as a disruption method sees it."""

    situation: Situation
    model: ClusterModel

    def after(self, commands: Sequence[Command]) -> Wasteful:
        """Return the cluster as the commands leave it, with new nodes of their cheapest types.

        Nodes to which pods moved are protected until `rested`, because consolidation lets these pods rest.
        """
        moves = [
            (
                [candidate.node.claim for candidate in command.candidates],
                Plan(command.replacements, command.destinations),
            )
            for command in commands
        ]
        later = carried_out(self.model, moves)
        removal = {claim for claims, _ in moves for claim in claims}
        pool_of = {name: item.pool for claims, plan in moves for name, item in later.named(claims, plan)}
        hosts = {name for _, plan in moves for name in plan.placements}
        managed = [
            replace(node, protected_by=RESTING if node.node in hosts else node.protected_by)
            for node in self.situation.nodes
            if node.claim not in removal
        ]
        managed += [replace(_managed(name, pool_of[name], empty=False), protected_by=RESTING) for name in later.new]
        details = {
            claim: replace(detail, quiet_since=detail.quiet_since or NOW)
            for claim, detail in later.model.details.items()
        }
        model = replace(later.model, details=details, tables=TypeTables(self.model.tables))
        return Wasteful(replace(self.situation, nodes=managed, model=model), model)

    def rested(self) -> Wasteful:
        """Return the cluster once all pods have rested."""
        nodes = [replace(node, protected_by="") for node in self.situation.nodes]
        return replace(self, situation=replace(self.situation, nodes=nodes))

    def at(self, cursor: PassCursor) -> Wasteful:
        """Return the cluster with the next look at this place."""
        return replace(self, situation=replace(self.situation, cursor=cursor))


def wasteful_cluster(nodes: int, pods: int, seed: int, budget: str = "100%", node_pools: int = 1) -> Wasteful:
    """Build a cluster of on-demand nodes, each filled to a random share. Its pods may run in every NodePool."""
    random = Random(seed)
    pool = ec2_pool()
    pool = replace(pool, requirements=pool.requirements.with_(Requirement.new(CATEGORY, IN, ("c", "m", "r"))))
    names = ["default", *(f"pool-{number:02}" for number in range(1, node_pools))]
    kinds = [
        (kind, offerings)
        for kind in pool.instance_types
        if kind.name.partition(".")[0] in FAMILIES
        and kind.name.partition(".")[2] in SIZES
        and (offerings := [o for o in kind.offerings if o.available and o.capacity_type == labels.ON_DEMAND])
    ]
    weights = [SHARES[SIZES.index(kind.name.partition(".")[2])] for kind, _ in kinds]
    drawn = [random.choices(kinds, weights)[0] for _ in range(nodes)]
    waiting = [_pod(number, random) for number in range(pods)]
    cores = sum(pod.requests[CORES] for pod in waiting) / sum(kind.allocatable[CORES] for kind, _ in drawn)
    shares = [min(1.0, random.random() * 2 * cores) for _ in drawn]
    output, managed, details = [], [], {}
    for number, (kind, offerings) in enumerate(drawn):
        offering = random.choice(offerings)
        mine = _fill(kind, waiting, shares[number])
        name = f"node-{number:05}"
        output.append(_node(name, names[number % node_pools], kind, offering, mine))
        managed.append(_managed(f"claim-{number:05}", names[number % node_pools], name, empty=not mine))
        details[managed[-1].claim] = NodeDetail(
            node=name,
            instance_type=kind.name,
            zone=offering.zone,
            capacity_type=offering.capacity_type,
            price=offering.price,
            pods=mine,
            cost=rescheduling_cost((0, 0) for _ in mine),
            quiet_since=NOW - timedelta(hours=1),
        )
    model = ClusterModel(Problem((), [replace(pool, name=name) for name in names], output), details)
    policies = {name: PoolPolicy(name, timedelta(0), (Budget(nodes=budget),)) for name in names}
    return Wasteful(Situation(managed, policies, NOW, model=model), model)


def _managed(claim: str, pool: str, node: str = "", *, empty: bool) -> ManagedNode:
    return ManagedNode(
        claim=claim,
        uid=claim,
        pool=pool,
        initialized=True,
        ready=True,
        leaving=False,
        empty=empty,
        quiet_since=NOW,
        node=node or claim,
    )


def _pod(number: int, random: Random) -> Pod:
    requests = parse_resources({"cpu": random.choice(CPU), "memory": random.choice(MEMORY), "pods": 1})
    return Pod("default", f"p-{number}", f"uid-{number}", requests)


def _fill(kind: InstanceType, waiting: list[Pod], share: float) -> tuple[Pod, ...]:
    """Take pods until this share of the node is full: those of the next few that fit."""
    free = {name: units * share for name, units in kind.allocatable.items()}
    pods: list[Pod] = []
    passed = 0
    while passed < len(waiting) and passed < LOOK_AHEAD:
        pod = waiting[-1 - passed]
        if any(units > free.get(name, 0) for name, units in pod.requests.items()):
            passed += 1
            continue
        pods.append(waiting.pop(-1 - passed))
        free = {name: units - pod.requests.get(name, 0) for name, units in free.items()}
    return tuple(pods)


def _node(name: str, pool: str, kind: InstanceType, offering: Offering, pods: Sequence[Pod]) -> Node:
    values = {
        key: requirement.values[0] for key, requirement in kind.requirements.items() if len(requirement.values) == 1
    }
    own = {
        labels.INSTANCE_TYPE: kind.name,
        labels.ZONE: offering.zone,
        labels.CAPACITY_TYPE: offering.capacity_type,
        labels.NODEPOOL: pool,
        labels.HOSTNAME: name,
    }
    return Node(name, {**values, **own}, (), kind.allocatable, total(pod.requests for pod in pods), pods=tuple(pods))
