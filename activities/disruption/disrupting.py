"""Watches the cluster cache until a disruption method returns a command that the budgets allow."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from activities import loggers
from activities.clock import utc_now
from activities.cluster_view.interfaces import ClusterView
from activities.cluster_view.pacing import Pace
from activities.disruption import decision_metrics
from activities.disruption.held_node_events import HeldNodeEvents
from activities.disruption.moves import MoveFinder
from activities.disruption.repair_source import RepairSource, no_repair, repair_now
from activities.disruption.slowed_pools import SlowedPools
from activities.provisioning.budget_reporting import BudgetReporter
from activities.provisioning.buffers import BufferRoom
from tenon.disruption.commands.command_messages import command_id, to_message
from tenon.disruption.commands.open_commands import (
    awaiting_replacement,
    claims_of,
    claims_of_finished_commands,
    commands_without,
    hosts_of,
)
from tenon.disruption.deciding import decide
from tenon.disruption.methods import METHODS
from tenon.disruption.model import Command, Decision, Situation, policy_of
from tenon.messages.disruption import (
    AwaitDisruptionInput,
    DisruptionCommand,
    DisruptionDecision,
    MeasureInput,
    MeasureResult,
    OpenCommand,
    PassCursor,
    StepResult,
)

log = loggers.DISRUPTION

POLL_SECONDS = 1.0
"""The minimum number of seconds between two evaluations of a cluster that changes constantly."""
SHARE = 0.01
"""The fraction of a core that evaluations may use. Nodes leave no worse for leaving some seconds later, and the same
event loop plans for pods that wait.
"""
MAX_PAUSE = 5.0
"""The maximum number of seconds between two evaluations of a cluster that changes constantly."""
RECHECK_SECONDS = 30.0
"""Seconds after which budgets and schedules are evaluated even if nothing has changed in the cluster."""


class Disruptor:
    """Evaluates the disruption methods whenever the cluster has changed."""

    def __init__(
        self,
        view: ClusterView,
        now: Callable[[], datetime] = utc_now,
        nominated_nodes: Callable[[], Collection[str]] = frozenset,
        buffers: BufferRoom | None = None,
        moves: MoveFinder | None = None,
        budgets: BudgetReporter | None = None,
        slowed: SlowedPools | None = None,
        held_node_events: HeldNodeEvents | None = None,
        repair: RepairSource = no_repair,
    ) -> None:
        """``nominated_nodes`` returns the names of Nodes and NodeClaims that pods are nominated for. ``buffers``: where
        CapacityBuffers keep room. ``moves``: looks for commands that move pods; None for no such commands.
        ``budgets``: reports what the budgets allow. ``slowed``: gets what the workflow says of earlier commands.
        ``held_node_events``: reports nodes that something keeps from emptiness and consolidation. ``repair``: what
        node repair does, as for ``moves``.
        """
        self._moves = moves
        self._repair = repair
        self._budgets = budgets
        self._held_node_events = held_node_events
        self._slowed = slowed or SlowedPools()
        self._view = view
        self._nominated_nodes = nominated_nodes
        self._buffers = buffers or BufferRoom()
        self._now = now
        self._turn = 0
        self._pace = Pace(POLL_SECONDS, share=SHARE, longest=MAX_PAUSE)
        self._open_commands: Mapping[str, OpenCommand] = {}
        """As last reported by the disruption workflow, with what it was answered since."""
        self._workflow_cursor: PassCursor | None = None
        """Where the next pass goes on, as the workflow knows it."""

    async def await_candidates(self, disruption_input: AwaitDisruptionInput) -> DisruptionDecision:
        """Wait until a node may be disrupted within its budgets. Return no commands if the wait ends before that."""
        loop = asyncio.get_running_loop()
        give_up = loop.time() + disruption_input.wait_seconds
        self._turn += 1
        turn = self._turn
        self._open_commands = disruption_input.ledger
        self._slowed.update(disruption_input.savings)
        if self._moves is not None and self._moves.cursor is None:
            self._moves.resume(disruption_input.cursor)
            self._workflow_cursor = disruption_input.cursor
        while (seconds_left := give_up - loop.time()) > 0 and turn == self._turn:  # a newer call ends an older one
            if not (self._view.synced() and self._buffers.known):
                await self._view.nodes_changed(min(seconds_left, 1.0))
                continue
            with self._pace.measure():
                situation, decision, finished_claims = self._decide(disruption_input)
            if decision.commands:
                for command in decision.commands:
                    _report(command)
                return self._answer(
                    commands=[self._message(command) for command in decision.commands], finished_claims=finished_claims
                )
            running_pass = None
            if self._moves is not None:
                rest = commands_without(disruption_input.ledger, finished_claims)
                if moves := self._moves.take(replace(situation, postponed=claims_of(rest, postponed=True))):
                    return self._answer(commands=moves, finished_claims=finished_claims)
                if self._moves.cursor != self._workflow_cursor:
                    return self._answer(finished_claims=finished_claims)  # the workflow keeps it
                running_pass = self._moves.start(situation.nodes, rest)
            pause = min(seconds_left, RECHECK_SECONDS)
            if decision.next_pass is not None:
                pause = min(pause, max(0.05, (decision.next_pass - self._now()).total_seconds()))
            await self._wait(pause, running_pass)
            await self._pace.wait(give_up - loop.time())
        return DisruptionDecision()

    def _answer(self, *, finished_claims: list[str], commands: Sequence[DisruptionCommand] = ()) -> DisruptionDecision:
        """Return a decision, and note what it changes: a validation may come before the workflow's next report."""
        now = self._now()
        started = {
            candidate.claim: OpenCommand(
                command=command.id,
                reason=command.reason,
                pool=candidate.pool,
                until=now,
                since=now,
                hosts=[] if position else sorted(command.arrivals),
                awaits_replacement=command.terminate_first is not None,
            )
            for command in commands
            for position, candidate in enumerate(command.candidates)
        }
        self._open_commands = {**commands_without(self._open_commands, {*finished_claims, *started}), **started}
        self._workflow_cursor = self._moves.cursor if self._moves is not None else None
        return DisruptionDecision(
            commands=list(commands), finished_claims=finished_claims, cursor=self._workflow_cursor
        )

    def _message(self, command: Command) -> DisruptionCommand:
        """Return the command's message. One that does not depend on empty nodes may be repeated for the same nodes."""
        return to_message(command, ident="" if command.only_if_empty else command_id(command, self._now()))

    async def validate(self, command: DisruptionCommand) -> StepResult:
        """Check that a command that moves pods still holds."""
        if self._moves is None:
            return StepResult()
        return await self._moves.validate(command, self._open_commands)

    async def measure(self, measure_input: MeasureInput) -> MeasureResult:
        """Compare what a command saves with what was predicted."""
        if self._moves is None:
            return MeasureResult()
        return MeasureResult(pools=await self._moves.measure(measure_input.command, measure_input.leaving_claims))

    async def _wait(self, seconds: float, running_pass: asyncio.Future[Any] | None) -> None:
        """Wait until the nodes change or the pass ends, at the latest until the next pass is due."""
        if self._moves is not None:
            seconds = min(seconds, self._moves.due_in())
        change: asyncio.Future[Any] = asyncio.ensure_future(self._view.nodes_changed(seconds))
        try:
            await asyncio.wait(
                {change} if running_pass is None else {change, running_pass}, return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            change.cancel()

    def _decide(self, disruption_input: AwaitDisruptionInput) -> tuple[Situation, Decision, list[str]]:
        """The situation, what the methods decide in it, and the NodeClaims whose command is over."""
        nodes = self._view.managed_nodes()
        finished_claims = claims_of_finished_commands(disruption_input.ledger, nodes, self._now())
        pools = self._view.node_pools()
        rest = commands_without(disruption_input.ledger, finished_claims)
        situation = Situation(
            nodes=nodes,
            policies={pool.metadata.name: policy_of(pool) for pool in pools},
            now=self._now(),
            under_command=claims_of(rest, postponed=False),
            awaiting_replacement=awaiting_replacement(rest),
            nominated=frozenset(self._nominated_nodes()) | hosts_of(rest),
            buffer_hosts=self._buffers.hosts(),
            repair=repair_now(self._repair, nodes),
        )
        decision = decide(situation, METHODS, decision_metrics.timed)
        decision_metrics.report(decision, METHODS)
        if self._budgets is not None:
            self._budgets.report(situation, pools)
        if self._held_node_events is not None:
            self._held_node_events.report(situation, self._view.nodes_without_pool)
        return situation, decision, finished_claims


def _report(command: Command) -> None:
    decision_metrics.count(command)
    for candidate in command.candidates:
        log.info(
            "The worker found a node to disrupt",
            extra={
                "nodeclaim": candidate.node.claim,
                "nodepool": candidate.node.pool,
                "reason": command.reason,
                "since": candidate.since.isoformat(),
            },
        )
