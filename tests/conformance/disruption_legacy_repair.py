"""A scenario of node repair as in Karpenter 1.14: nodes with conditions, and which of them are replaced."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC

from pydantic import Field

from tenon.disruption.repair.breaker import Breaker
from tenon.disruption.repair.legacy import fault_of
from tenon.kube.records import NodeCondition
from tests.conformance.disruption_head import DescribedScenario
from tests.tenon.disruption.clusters import NOW, Spec, duration


class SickNode(Spec):
    """A Node, and since when each of its conditions has its status (null: it does not say)."""

    pool: str = "default"
    conditions: dict[str, tuple[str, str | None]] = Field(default_factory=dict)


class Repairing(Spec):
    """Nodes, and how many more of each NodePool are healthy."""

    nodes: dict[str, SickNode]
    healthy: dict[str, int] = Field(default_factory=dict)


class ExpectedRepair(Spec):
    """Nodes whose time is over, and those that wait for it."""

    repaired: dict[str, str]
    """The condition that is the reason, such as ``Ready is Unknown``."""
    waits: dict[str, str] = Field(default_factory=dict)
    """In how much time a node is due."""
    healthy: list[str] = Field(default_factory=list)
    """Nodes that no policy names."""
    blocked: list[str] = Field(default_factory=list)
    """NodePools of which too many nodes are unhealthy."""


class LegacyRepairScenario(DescribedScenario):
    """Nodes of which some are unhealthy."""

    legacy_repair: Repairing
    expect: ExpectedRepair

    def failures(self) -> list[str]:
        """What is wrong with the nodes that are replaced."""
        faults = {
            name: fault
            for name, node in self.legacy_repair.nodes.items()
            if (fault := fault_of(list(_conditions(node)))) is not None
        }
        nodes = [(node.pool, name in faults) for name, node in self.legacy_repair.nodes.items()]
        nodes += [(pool, False) for pool, number in self.legacy_repair.healthy.items() for _ in range(number)]
        breaker = Breaker(nodes)
        blocked = sorted(pool for pool in {pool for pool, _ in nodes} if breaker.why_blocked(pool))
        expected_repair = ExpectedRepair(
            repaired={
                name: f"{fault.condition.type} is {fault.condition.status}"
                for name, fault in faults.items()
                if fault.due is not None and fault.due <= NOW and self.legacy_repair.nodes[name].pool not in blocked
            },
            waits={
                name: f"{(fault.due - NOW).total_seconds():.0f}s"
                for name, fault in faults.items()
                if fault.due is not None and fault.due > NOW
            },
            healthy=sorted(self.legacy_repair.nodes.keys() - faults.keys()),
            blocked=blocked,
        )
        return [] if expected_repair == self.expect else [f"expected {self.expect}", f"got      {expected_repair}"]


def _conditions(node: SickNode) -> Iterator[NodeCondition]:
    for type_, (status, ago) in node.conditions.items():
        since = (NOW - duration(ago)).astimezone(UTC).timestamp() if ago is not None else 0.0
        yield NodeCondition(type_, status, since)
