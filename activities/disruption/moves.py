"""Looks for disruption commands that move pods, in a thread on a snapshot of the cluster.

A pass simulates many placements, so it takes longer than a pass for empty nodes and never delays one. `pass_pace` says
when it begins, `pass_memory` what it leaves for the next one.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TypeVar

from activities import loggers, metrics
from activities.clock import utc_now
from activities.cluster_view.interfaces import ClusterView
from activities.disruption import decision_metrics, search_spans
from activities.disruption.move_events import MoveEvents
from activities.disruption.move_messages import MoveMessages
from activities.disruption.pass_memory import PassMemory
from activities.disruption.pass_pace import PassPace
from activities.disruption.situation_source import SituationSource
from activities.provisioning.solving import Limit
from activities.record.decisions import DecisionRecorder
from activities.tracing import spans
from activities.tracing.catalogue import Phase
from tenon.apis.reasons import Reason
from tenon.disruption.commands.leaving_together import leaving_together
from tenon.disruption.deciding import MAX_COMMANDS, decide
from tenon.disruption.decision import Command, Decision, DisruptionBlocked
from tenon.disruption.methods import moving_methods
from tenon.disruption.methods.base import Method
from tenon.disruption.methods.gates import NO_GATES, DecisionGates
from tenon.disruption.nodes import ManagedNode
from tenon.disruption.rules.approvals import why_refused
from tenon.disruption.search.size_limits import MAX_OPEN, how_many_fit
from tenon.disruption.situation import Situation
from tenon.disruption.validation import still_allowed
from tenon.messages.disruption import DisruptionCommand, OpenCommand, PassCursor

log = loggers.DISRUPTION

MAX_LAUNCHING = 25
"""How many of them launch nodes. NodeClaims are large, and all commands of a pass must fit in a message."""
MAX_SECONDS = 60.0
"""Seconds after which a pass gives what it has found."""
DRIFT_SHARE = 0.5
"""The part of this time that drift may use. Its candidates may all be nodes that cannot leave, in every pass."""

Result = TypeVar("Result")

MethodsFor = Callable[[Limit], Sequence[Method]]
"""Returns the methods that move pods, which stop when the time limit is over."""


def methods_within(limit: Limit, gates: DecisionGates = NO_GATES) -> Sequence[Method]:
    """Return the methods that move pods. Drift comes first and leaves a share of the time for consolidation."""
    return moving_methods(limit, gates, drift_expired=limit.part(DRIFT_SHARE))


class MoveFinder:
    """Finds commands that move pods. One pass runs at a time."""

    def __init__(
        self,
        view: ClusterView,
        situations: SituationSource,
        events: MoveEvents,
        methods: MethodsFor,
        pace: PassPace,
        now: Callable[[], datetime] = utc_now,
        free_memory: Callable[[], None] = lambda: None,
        decisions: DecisionRecorder | None = None,
    ) -> None:
        """``situations``: what a pass decides from. ``pace``: when passes begin.

        ``free_memory`` is called in a thread after each pass, because its model of the cluster is large. ``decisions``:
        keeps what a pass decided and what it decided from; None for nothing.
        """
        self._view = view
        self._situations = situations
        self._events = events
        self._methods = methods
        self._pace = pace
        self._now = now
        self._free_memory = free_memory
        self._decisions = decisions
        self._memory = PassMemory()
        self._refused: Mapping[str, DisruptionBlocked] = {}
        """By NodeClaim, why the refusal of a command keeps it."""
        self._pass: asyncio.Task[list[DisruptionCommand]] | None = None
        self._limit: Limit | None = None

    def close(self) -> None:
        """End the pass that runs."""
        self._events.close()
        if self._limit is not None:
            self._limit.end()
        if self._pass is not None:
            self._pass.cancel()

    def start(
        self, nodes: Sequence[ManagedNode], open_commands: Mapping[str, OpenCommand]
    ) -> asyncio.Task[list[DisruptionCommand]] | None:
        """Start a pass if one is due. Returns the pass that runs, if any.

        Args:
            nodes: all nodes.
            open_commands: the open and the failed commands, by NodeClaim.
        """
        self._refused = why_refused(open_commands)
        if self._pass is not None or not self._pace.is_due() or len(open_commands) >= MAX_OPEN:
            return self._pass
        outline = self._memory.added_to(self._situations.outline(nodes, open_commands))
        if self._pace.lets_begin(outline, new_round=self._memory.round_is_over()):
            self._pass = asyncio.create_task(self._find_and_free(nodes, open_commands))
        return self._pass

    @property
    def cursor(self) -> PassCursor | None:
        """Where the next pass goes on, for the workflow, which keeps it; None until `resume` says it."""
        return self._memory.cursor

    def why_blocked(self) -> Mapping[str, DisruptionBlocked]:
        """By NodeClaim, why it cannot leave although it should, each in a clause. Events do not say the refusals."""
        return {**self._memory.why_blocked, **self._refused}

    def resume(self, cursor: PassCursor) -> None:
        """Go on where the passes of an earlier leader ended."""
        self._memory.cursor = cursor

    def due_in(self) -> float:
        """Return in how many seconds `start` may start a pass. A pass that runs ends by itself."""
        if self._pass is not None:
            return MAX_SECONDS
        return self._pace.due_in()

    def take(self, situation: Situation) -> list[DisruptionCommand]:
        """Return the commands of the pass that ended, without those that are not allowed any more.

        ``situation``: the nodes and the open commands as they are now. It needs no model.
        """
        finished_pass = self._pass
        if finished_pass is None or not finished_pass.done():
            return []
        self._pass = None
        if finished_pass.cancelled():
            return []
        if (error := finished_pass.exception()) is not None:
            self._pace.retry_soon()
            log.error("The worker failed to search for nodes to disrupt and retries", exc_info=error)
            return []
        return still_allowed(finished_pass.result(), situation)

    async def _find_and_free(
        self, nodes: Sequence[ManagedNode], open_commands: Mapping[str, OpenCommand]
    ) -> list[DisruptionCommand]:
        try:
            with search_spans.search(Phase.PASS, self._now()):
                return await self._find(nodes, open_commands)
        finally:
            await asyncio.to_thread(self._free_memory)

    async def _find(
        self, nodes: Sequence[ManagedNode], open_commands: Mapping[str, OpenCommand]
    ) -> list[DisruptionCommand]:
        limit = self._limit = Limit(MAX_SECONDS)
        self._pace.pass_begins(new_round=self._memory.round_is_over())
        try:
            situation, supply = await self._situations.with_model(nodes, open_commands, self._compute)
            situation = self._memory.added_to(situation)
            assert situation.model is not None
            self._situations.use_again(situation.model.tables)
            methods = self._methods(limit)
            decision = await self._compute(decide, situation, methods, search_spans.method_span)
            _count_timeouts(methods, limit)
            whole_decision, decision = decision, replace(decision, commands=_first(decision.commands))
            self._memory.ended_at(decision.cursor)
            complete = not (decision.failed or decision.is_cut or limit())
        except BaseException:
            self._pace.pass_failed()
            raise
        finally:
            self._limit = None
        self._pace.pass_ends(
            found_moves=bool(decision.commands),
            ends_round=complete and self._memory.round_is_over(),
            at_once=any(command.reason is Reason.UNHEALTHY for command in decision.commands),
        )
        if self._decisions is not None:
            self._decisions.decided(situation, whole_decision, complete=complete)
        move_messages = MoveMessages(situation, supply, self._now())
        with spans.phase(Phase.COMMANDS):
            messages = await asyncio.to_thread(lambda: [move_messages.of(command) for command in decision.commands])
        messages = messages[: how_many_fit(messages)]
        decision = replace(decision, commands=decision.commands[: len(messages)])
        messages = search_spans.recorded(decision, messages, len(nodes), complete=complete)
        _report(decision, methods, situation)
        decision_metrics.measure_closed_destinations(situation)
        self._events.decided(decision, situation, self._view.node_pools())
        self._memory.remember_blocked(decision, nodes, self._now())
        return leaving_together(messages, self._now())

    async def _compute(self, function: Callable[..., Result], *arguments: object) -> Result:
        """Run a function in a thread and add its CPU time, so that waiting for EC2 or for a core does not count."""

        def timed() -> tuple[Result, float]:
            began = time.thread_time()
            return function(*arguments), time.thread_time() - began

        result, seconds = await asyncio.to_thread(timed)
        self._pace.add(seconds)
        return result


def _first(commands: Sequence[Command]) -> tuple[Command, ...]:
    """Return the commands to start now, without those beyond the limits."""
    first_commands: list[Command] = []
    launching = 0
    for command in commands:
        launching += bool(command.replacements)
        if len(first_commands) < MAX_COMMANDS and not (command.replacements and launching > MAX_LAUNCHING):
            first_commands.append(command)
    return tuple(first_commands)


def _count_timeouts(methods: Sequence[Method], limit: Limit) -> None:
    """Count consolidation that a pass's time limit cut short (MET-33)."""
    if limit():
        for kind in {method.consolidation_type for method in methods} - {""}:
            metrics.CONSOLIDATION_TIMEOUTS.labels(kind).inc()


def _report(decision: Decision, methods: Sequence[Method], situation: Situation) -> None:
    decision_metrics.report(decision, methods)
    decision_metrics.count_moves(decision, situation.policies)
    for command in decision.commands:
        decision_metrics.count(command)
        names = [candidate.node.claim for candidate in command.candidates]
        if command.repair is not None:
            log.info("The worker selected a repair policy", extra={"nodeclaims": names, **command.repair.details()})
        log.info(
            "The worker found nodes to disrupt",
            extra={
                "nodeclaims": names,
                "reason": command.reason,
                "decision": command.decision,
                "replacements": len(command.replacements),
                "saving": round(command.expected, 4),
            },
        )
