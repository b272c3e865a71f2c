"""Watches the cluster cache until a disruption method returns a command that the budgets allow."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any

from temporalio.exceptions import ApplicationError

from activities import loggers
from activities.clock import utc_now
from activities.cluster_view.interfaces import ClusterView
from activities.cluster_view.pacing import Pace
from activities.disruption import decision_metrics, search_spans
from activities.disruption.move_validation import MoveValidator
from activities.disruption.moves import MoveFinder
from activities.disruption.situation_reader import SituationReader
from activities.disruption.situation_reporting import SituationReporter
from activities.disruption.slowed_pools import SlowedPools
from activities.record.decisions import DecisionRecorder
from activities.tracing import spans
from activities.tracing.catalogue import Phase
from tenon.apis.reasons import Reason
from tenon.disruption.commands.command_messages import new_command_id, to_message
from tenon.disruption.commands.open_commands import (
    claims_of,
    claims_of_finished_commands,
    commands_without,
    only_waits,
    opened,
)
from tenon.disruption.deciding import decide
from tenon.disruption.decision import Command, Decision
from tenon.disruption.methods import METHODS, has_cause
from tenon.disruption.rules.approvals import approvals_of, no_longer_wanted
from tenon.disruption.situation import Situation
from tenon.disruption.validation import Validation, overtaken, validated_empty
from tenon.evolve import evolve
from tenon.messages.disruption import (
    AwaitDisruptionInput,
    DisruptionCommand,
    DisruptionDecision,
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
        situations: SituationReader | None = None,
        moves: MoveFinder | None = None,
        validator: MoveValidator | None = None,
        reporter: SituationReporter | None = None,
        slowed: SlowedPools | None = None,
        decisions: DecisionRecorder | None = None,
    ) -> None:
        """``situations``: what commands for empty nodes are decided from; the same reader as for ``moves``.

        ``moves``: looks for commands that move pods, which ``validator`` looks at again before they are carried out;
        None for no such commands. ``reporter``: hears of each situation. ``slowed``: gets what the workflow says of
        earlier commands. ``decisions``: keeps decisions about empty and expired nodes; None for nothing.
        """
        self._view = view
        self._now = now
        self._situations = situations or SituationReader(view, now)
        self._moves = moves
        self._validator = validator
        self._reporter = reporter
        self._slowed = slowed or SlowedPools()
        self._decisions = decisions
        self._turn = 0
        self._pace = Pace(POLL_SECONDS, share=SHARE, longest=MAX_PAUSE)
        self._open_commands: Mapping[str, OpenCommand] = {}
        """As last reported by the disruption workflow, with what it was answered since."""
        self._approved: set[str] = set()
        """Commands that a person approved and that were validated, until the workflow reports them."""
        self._approving = asyncio.Lock()
        """One after another, so that two of them do not get the same place in a budget."""
        self._workflow_cursor: PassCursor | None = None
        """Where the next pass goes on, as the workflow knows it."""

    def close(self) -> None:
        """End the pass that runs, and give up the events that are not written yet."""
        if self._moves is not None:
            self._moves.close()
        if self._reporter is not None:
            self._reporter.close()

    async def await_candidates(self, disruption_input: AwaitDisruptionInput) -> DisruptionDecision:
        """Wait until a node may be disrupted within its budgets. Return no commands if the wait ends before that."""
        loop = asyncio.get_running_loop()
        give_up = loop.time() + disruption_input.wait_seconds
        self._turn += 1
        turn = self._turn
        finished_claims: list[str] = []
        self._open_commands = self._with_approved(disruption_input.ledger, forget=True)
        self._slowed.update(disruption_input.savings)
        if self._moves is not None and self._moves.cursor is None:
            self._moves.resume(disruption_input.cursor)
            self._workflow_cursor = disruption_input.cursor
        while (seconds_left := give_up - loop.time()) > 0 and turn == self._turn:  # a newer call ends an older one
            ledger = self._with_approved(disruption_input.ledger)
            if not self._situations.is_ready():
                await self._view.nodes_changed(min(seconds_left, 1.0))
                continue
            with search_spans.search(Phase.EVALUATE, self._now()):
                with self._pace.measure():
                    situation, decision, finished_claims = self._decide(ledger)
                if decision.commands:
                    messages = [self._message(command) for command in decision.commands]
                    messages = search_spans.recorded(decision, messages, len(situation.nodes))
                else:
                    messages = []
                    spans.discard()  # as nearly always, once a second
            if messages:
                if self._decisions is not None:
                    self._decisions.decided(situation, decision, complete=not decision.failed)
                for command in decision.commands:
                    _report(command)
                return self._answer(commands=messages, finished_claims=finished_claims)
            if any(ledger[claim].awaits_approval for claim in finished_claims):
                return self._answer(finished_claims=finished_claims)  # the command hears that it need not wait
            if only_waits(ledger, finished_claims, {node.claim for node in situation.nodes}):
                return self._answer(finished_claims=finished_claims)
            running_pass = None
            if self._moves is not None:
                rest = commands_without(ledger, finished_claims)
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
        return DisruptionDecision(finished_claims=finished_claims if turn == self._turn else [])

    def _answer(self, *, finished_claims: list[str], commands: Sequence[DisruptionCommand] = ()) -> DisruptionDecision:
        """Return a decision, and note what it changes: a validation may come before the workflow's next report."""
        now = self._now()
        started = {claim: entry for command in commands for claim, entry in opened(command, now, now).items()}
        self._open_commands = {**commands_without(self._open_commands, {*finished_claims, *started}), **started}
        self._workflow_cursor = self._moves.cursor if self._moves is not None else None
        return DisruptionDecision(
            commands=list(commands), finished_claims=finished_claims, cursor=self._workflow_cursor
        )

    def _message(self, command: Command) -> DisruptionCommand:
        """Return the command's message. One that does not depend on empty nodes may be repeated for the same nodes."""
        return to_message(command, ident="" if command.only_if_empty else new_command_id(command, self._now()))

    async def validate(self, command: DisruptionCommand) -> StepResult:
        """Check that a command that moves pods, or that a person approved, still holds."""
        if command.approval is None:
            if self._validator is None:
                return StepResult()
            return await self._validator.validate(command, self._open_commands, partial(self._overtaken, command))
        async with self._approving:
            if command.only_if_empty:
                step = self._validate_empty(command)
            elif self._validator is not None:
                # It ends with the check, so nothing is awaited between that and the moment when the command counts.
                step = await self._validator.validate(command, self._open_commands, partial(self._overtaken, command))
            else:
                step = StepResult(failure="this worker moves no pods")
            if not (step.failure or step.waits):
                self._approved.add(command.id)
                self._open_commands = self._with_approved(self._open_commands)
            return step

    def _overtaken(self, command: DisruptionCommand) -> Validation:
        """Whether a command that was just validated may still start."""
        return overtaken(command, self._without(command))

    def _without(self, command: DisruptionCommand) -> Situation:
        """The situation now, with the nodes of other commands under command."""
        others = {claim: entry for claim, entry in self._open_commands.items() if entry.command != command.id}
        return self._situations.read(self._view.managed_nodes(), others)

    def _validate_empty(self, command: DisruptionCommand) -> StepResult:
        """Check which nodes of an approved command are still empty, and whether budgets allow them."""
        if not self._situations.is_ready():
            raise ApplicationError("the cluster cache is not synced yet", type="CacheBehind")
        validation, claims = validated_empty(command, self._without(command))
        if validation.is_full:
            return StepResult(waits=validation.why)
        if validation.why:
            return StepResult(failure=validation.why)
        candidates = [candidate for candidate in command.candidates if candidate.claim in claims]
        return StepResult(
            instead=evolve(command, candidates=candidates) if len(claims) < len(command.candidates) else None
        )

    def _with_approved(self, ledger: Mapping[str, OpenCommand], *, forget: bool = False) -> Mapping[str, OpenCommand]:
        """Return the open commands with those that have been approved and validated, so that budgets count them.

        The workflow may not have reported them yet. ``forget``: those that it has reported are not remembered longer.
        """
        if not self._approved:
            return ledger
        unreported = {
            entry.command for entry in ledger.values() if entry.awaits_approval and entry.command in self._approved
        }
        if forget:
            self._approved &= unreported
        if not unreported:
            return ledger
        now = self._now()
        return {
            claim: evolve(entry, awaits_approval=False, since=now) if entry.command in unreported else entry
            for claim, entry in ledger.items()
        }

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

    def _decide(self, ledger: Mapping[str, OpenCommand]) -> tuple[Situation, Decision, list[str]]:
        """The situation, what the methods decide in it, and the NodeClaims whose command is over."""
        nodes = self._view.managed_nodes()
        finished_claims = claims_of_finished_commands(ledger, nodes, self._now())
        rest = commands_without(ledger, finished_claims)
        situation = self._situations.read(nodes, rest)
        if stale := _no_longer_wanted(rest, situation):
            finished_claims += stale
            situation = replace(situation, approvals=approvals_of(commands_without(rest, stale)))
        decision = decide(situation, METHODS, decision_metrics.timed)
        decision_metrics.report(decision, METHODS)
        if self._reporter is not None:
            self._reporter.report(situation)
        return situation, decision, finished_claims


def _no_longer_wanted(open_commands: Mapping[str, OpenCommand], situation: Situation) -> list[str]:
    """Return the NodeClaims whose command waits for a person although the cluster has no reason for it any more."""
    waiting = {claim: entry for claim, entry in open_commands.items() if entry.awaits_approval}
    if not waiting:
        return []
    nodes = {node.claim: node for node in situation.nodes if node.claim in waiting}
    causes = {claim: has_cause(node, situation, Reason(waiting[claim].reason)) for claim, node in nodes.items()}
    return no_longer_wanted(waiting, nodes.values(), causes)


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
