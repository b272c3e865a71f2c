"""A cluster for tests of the search for moves, and methods that give the answer of the test."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from activities.disruption.move_events import MoveEvents
from activities.disruption.move_validation import MoveValidator
from activities.disruption.moves import MoveFinder
from activities.disruption.pass_pace import PassPace
from activities.disruption.repair_source import RepairSource, no_repair
from activities.disruption.saving_measurement import SavingMeasurement
from activities.disruption.situation_reader import SituationReader
from activities.disruption.situation_source import SituationSource
from activities.disruption.slowed_pools import SlowedPools
from activities.disruption.supply import SupplyReader
from activities.provisioning.account_commitments import CommitmentStore
from activities.provisioning.batching import Batcher
from activities.provisioning.launch_refusals import LaunchRefusals
from activities.provisioning.spot_scores import SpotScoreStore
from tenon.apis.disruptionfreeze import DisruptionFreeze
from tenon.apis.reasons import Reason
from tenon.disruption.decision import Candidate, Command, Proposal
from tenon.disruption.methods.base import Method
from tenon.disruption.nodes import ManagedNode, NodeDetail
from tenon.disruption.pool_policy import policy_of
from tenon.disruption.rules.pool_budgets import PoolBudgets
from tenon.disruption.situation import Situation
from tenon.messages.disruption import (
    DisruptionCommand,
)
from tests.activities.disruption.disruption_setting import managed
from tests.activities.node.fake_kube import Recorder
from tests.activities.provisioning.batch_window import KARPENTERS_WINDOW
from tests.activities.provisioning.fake_view import START, FakeTypes, FakeView, node_pool

LATER = START + timedelta(hours=1)
"""When passes run."""


class Scripted:
    """A method that gives one answer."""

    name = "scripted"

    def __init__(self, proposal: Proposal, reason: Reason, consolidation_type: str) -> None:
        self.reason = reason
        self.consolidation_type = consolidation_type
        self._proposal = proposal

    def cause(self, node: ManagedNode, situation: Situation) -> str:
        return "a test asks for it"

    def propose(self, eligible: Sequence[ManagedNode], budgets: PoolBudgets, situation: Situation) -> Proposal:
        return self._proposal


def command(*names: str, reason: Reason = Reason.UNDERUTILIZED, kind: str = "multi", **fields: Any) -> Command:
    """A command that deletes these nodes."""
    nodes = tuple(Candidate(managed(name, empty=False), since=START) for name in names)
    return Command("scripted", reason, kind, nodes, moves_pods=True, **fields)


def detail(name: str) -> NodeDetail:
    return NodeDetail(name, "m5.large", "us-west-2a", "on-demand", 0.1, (), 1.0, quiet_since=START)


class Setting:
    """A cluster with these nodes, a finder with scripted methods, and what is asked about its commands afterwards."""

    def __init__(self, *names: str, methods: Sequence[Method] = (), repair: RepairSource = no_repair) -> None:
        self.view = FakeView()
        self.view.pools = [node_pool(edits={"disruption/budgets": [{"nodes": "100%"}]})]
        self.view.managed = [managed(name, empty=False) for name in names]
        self.view.details = {name: detail(name) for name in names}
        self.recorder = Recorder()
        self.refusals = LaunchRefusals(now=lambda: LATER)
        self.commitments = CommitmentStore()
        self.spot_scores = SpotScoreStore()
        self.slowed = SlowedPools()
        self.types = FakeTypes()
        self.freezes: list[DisruptionFreeze] = []
        self.freed: list[threading.Thread] = []
        """The threads in which memory was freed."""
        batcher, events = (
            Batcher(self.view, lambda: START, refusals=self.refusals, window=KARPENTERS_WINDOW),
            MoveEvents(self.recorder, self.view.node_uid),
        )
        supply = SupplyReader(self.view, self.types, self.refusals)
        self.situations = SituationSource(
            self.view,
            supply,
            batcher,
            situations=SituationReader(
                self.view,
                lambda: LATER,
                batcher.nominated_nodes,
                repair=repair,
                freezes=lambda: self.freezes,
            ),
            slowed=self.slowed,
            now=lambda: LATER,
            commitments=self.commitments,
            spot_scores=self.spot_scores,
        )
        self.finder = MoveFinder(
            self.view,
            self.situations,
            events,
            lambda _: methods,
            PassPace(self.view, batcher, self.refusals),
            now=lambda: LATER,
            free_memory=self.free_memory,
        )
        self.validator = MoveValidator(self.view, self.situations, events, self.refusals, now=lambda: LATER)
        self.savings = SavingMeasurement(self.view, supply, events, self.commitments)

    def free_memory(self) -> None:
        self.freed.append(threading.current_thread())

    async def run_pass(self) -> list[DisruptionCommand]:
        look = self.finder.start(self.view.managed, {})
        assert look is not None
        await look
        return self.finder.take(self.situation())

    def situation(self, *, under_command: Sequence[str] = ()) -> Situation:
        """The nodes as they are now."""
        policies = {pool.metadata.name: policy_of(pool) for pool in self.view.pools}
        return Situation(self.view.managed, policies, START, under_command=frozenset(under_command))


def scripted(*commands: Command, reason: Reason = Reason.UNDERUTILIZED, kind: str = "multi", **events: Any) -> Scripted:
    return Scripted(Proposal(commands, **events), reason, kind)


def may_evict(at: Setting) -> None:
    at.view.eased += 1
