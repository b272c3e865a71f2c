"""A disruption planner and the cluster that it plans for."""

from __future__ import annotations

from typing import Any

from activities.disruption.disrupting import Disruptor
from activities.disruption.repair_source import RepairSource, no_repair
from activities.disruption.situation_reader import SituationReader
from activities.disruption.situation_reporting import SituationReporter
from tenon.disruption.nodes import ManagedNode
from tenon.messages.disruption import AwaitDisruptionInput
from tests.activities.node.fake_kube import Recorder
from tests.activities.provisioning.fake_view import START, FakeView, loop_clock, node_pool

QUESTION = AwaitDisruptionInput(cluster="c", wait_seconds=600.0)
AFTER_A_MINUTE = "disruption/consolidateAfter"


def managed(name: str, **changed: Any) -> ManagedNode:
    """An empty node that was quiet since the test began."""
    facts: dict[str, Any] = {
        "claim": name,
        "uid": f"uid-{name}",
        "pool": "default",
        "initialized": True,
        "ready": True,
        "leaving": False,
        "empty": True,
        "quiet_since": START,
    }
    return ManagedNode(**{**facts, **changed})


class Setting:
    def __init__(
        self,
        *nodes: ManagedNode,
        after: str = "60s",
        budgets: list[dict[str, Any]] | None = None,
        repair: RepairSource = no_repair,
    ) -> None:
        self.view = FakeView()
        edits = {AFTER_A_MINUTE: after, "disruption/budgets": budgets or [{"nodes": "100%"}]}
        self.view.pools = [node_pool(edits=edits)]
        self.view.managed = list(nodes)
        self.now = loop_clock()
        self.nominated_nodes: set[str] = set()
        self.recorder = Recorder()
        situations = SituationReader(self.view, self.now, lambda: self.nominated_nodes, repair=repair)
        reporter = SituationReporter(self.view, self.recorder)
        self.disruptor = Disruptor(self.view, self.now, situations, reporter=reporter)

    def seconds(self) -> float:
        return (self.now() - START).total_seconds()
