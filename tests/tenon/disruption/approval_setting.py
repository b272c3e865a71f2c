"""Clusters whose NodePools ask for approval, and commands that wait or were refused."""

from __future__ import annotations

from datetime import timedelta

from tenon.disruption.deciding import decide
from tenon.disruption.decision import Command, Decision
from tenon.disruption.methods import METHODS, moving_methods
from tenon.disruption.situation import Situation
from tenon.evolve import evolve
from tenon.messages.disruption import OpenCommand
from tenon.scheduling.deadline import never
from tests.tenon.disruption.clusters import NOW, Cluster, NodeSpec, PodSpec, PoolSpec, situation

BIG = PodSpec(cpu="1500m", memory="2Gi")
SMALL = PodSpec(cpu="100m", memory="128Mi")
WAITING = OpenCommand(
    command="drifted-1",
    reason="Drifted",
    pool="default",
    until=NOW + timedelta(days=2),
    since=NOW,
    hosts=["host"],
    awaits_replacement=True,
    awaits_approval=True,
)
REFUSED = evolve(WAITING, postponed=True, awaits_approval=False, refused="ann refused it: release in progress")


def decided(state: Situation) -> Decision:
    decision = decide(state, (*METHODS, *moving_methods(never)))
    for error in decision.failed.values():
        raise error
    return decision


def nodes_of(command: Command) -> list[str]:
    return [candidate.node.claim for candidate in command.candidates]


def drifted_cluster(number: int, **pool: object) -> Situation:
    nodes = {f"n{place}": NodeSpec(type="m5.large", drifted="AMIDrift", pods=[BIG]) for place in range(number)}
    spec = PoolSpec.model_validate({"consolidate_after": None, **pool})
    return situation(Cluster(pools={"default": spec}, nodes=nodes))
