"""What consolidation would do next, if nothing changes until then: which waits end with time, and what follows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial

from tenon.apis.reasons import Reason
from tenon.disruption.deciding import decide
from tenon.disruption.decision import Command, Decision
from tenon.disruption.methods import METHODS
from tenon.disruption.methods.base import Method
from tenon.disruption.rules.blockers import free_at
from tenon.disruption.rules.budgets import opens_at
from tenon.disruption.rules.pool_budgets import Members, gone_first, members_of, unavailable_nodes
from tenon.disruption.rules.windows import opening_of
from tenon.disruption.search.carried_out import carried_out
from tenon.disruption.situation import Situation
from tenon.messages.base import REBOOT
from tenon.scheduling.model import Plan

MAX_TIMES = 4
"""How many times are tried until one has a command. Each is a whole search."""


@dataclass(frozen=True, slots=True)
class ForecastTime:
    """A time at which a wait is over, and what consolidation would do then."""

    at: datetime
    commands: tuple[Command, ...]
    is_latest: bool = False
    """Whether earlier times were left out, at which consolidation may act already."""


@dataclass(frozen=True, slots=True)
class Forecast:
    """What the methods decide now, and what consolidation would do next."""

    decision: Decision
    later: Situation
    """The situation once the commands of now have begun."""
    forecast_times: list[ForecastTime]
    """The next times at which consolidation may act; empty if it acts now, or never by itself."""

    @property
    def acts_now(self) -> bool:
        """Whether consolidation has a command now."""
        return any(map(is_consolidation, self.decision.commands))


def forecast(situation: Situation, methods: Sequence[Method], leaving: Sequence[Command] = ()) -> Forecast:
    """Return what the methods decide now, and what consolidation would do next if nothing changes until then.

    Args:
        situation: the cluster with its model.
        methods: those that move pods. The others are always asked.
        leaving: commands that nodes leave by already, without being listed in the situation.

    Raises:
        Exception: a method failed; its error.
    """
    decision = _decided(situation, methods)
    later = _after(situation, (*leaving, *decision.commands))
    acts_now = any(map(is_consolidation, decision.commands))
    consolidation = [method for method in methods if method.reason.traits.is_consolidation]
    decide_later = partial(_commands_of, consolidation)
    return Forecast(decision, later, [] if acts_now else next_consolidation(later, decide_later))


def _decided(situation: Situation, methods: Sequence[Method]) -> Decision:
    decision = decide(situation, (*METHODS, *methods))
    for error in decision.failed.values():
        raise error
    return decision


def _commands_of(methods: Sequence[Method], situation: Situation) -> tuple[Command, ...]:
    return _decided(situation, methods).commands


def _after(situation: Situation, commands: Sequence[Command]) -> Situation:
    """Return the situation once the commands have begun: their nodes are leaving, and their pods have moved."""
    model = situation.model
    assert model is not None
    pool_names = {pool.name for pool in model.problem.pools}
    node_names = {node.name for node in model.problem.nodes}
    on_nodes = {claim for claim, detail in model.details.items() if detail.node in node_names}
    moves = [
        (
            [candidate.node.claim for candidate in command.candidates if candidate.node.claim in on_nodes],
            Plan(tuple(claim for claim in command.new_claims if claim.pool in pool_names), dict(command.destinations)),
        )
        for command in commands
        if command.decision != REBOOT
    ]
    leaving = frozenset(candidate.node.claim for command in commands for candidate in command.candidates)
    return replace(
        situation,
        under_command=situation.under_command | leaving,
        destinations=frozenset(name for command in commands for name in command.destinations),
        model=carried_out(model, [move for move in moves if move[0]]).model,
    )


def is_consolidation(command: Command) -> bool:
    """Whether the command removes nodes because they are empty or underutilized."""
    return command.reason.traits.is_consolidation


def next_consolidation(situation: Situation, decide: Callable[[Situation], tuple[Command, ...]]) -> list[ForecastTime]:
    """Return the next times at which a wait is over, up to the first at which consolidation would do something.

    Args:
        situation: the cluster as the commands of now leave it.
        decide: returns commands in a situation, of consolidation and of what goes before it.
    """
    forecast_times: list[ForecastTime] = []
    times = sorted(set(_ends_of_waits(situation)))
    leaves_out = len(times) > MAX_TIMES
    if leaves_out:  # the last time is that at which most waits are over
        times = [*times[: MAX_TIMES - 1], times[-1]]
    for at in times:
        commands = tuple(filter(is_consolidation, decide(replace(situation, now=at))))
        forecast_times.append(ForecastTime(at, commands, leaves_out and at == times[-1]))
        if commands:
            break
    return forecast_times


def _ends_of_waits(situation: Situation) -> Iterator[datetime]:
    """When time alone frees a node for consolidation, or when budgets or windows let a NodePool lose one."""
    members, gone_claims = members_of(situation), gone_first(situation)
    waiting: set[tuple[str, Reason]] = set()
    for node in situation.nodes:
        reason = Reason.EMPTY if node.empty else Reason.UNDERUTILIZED
        at = free_at(node, situation, reason)
        if at is None:
            continue
        waiting.add((node.pool, reason))
        if at > situation.now:
            yield at
    for pool, reason in waiting:
        policy = situation.policies[pool]
        unavailable = len(unavailable_nodes(situation, pool, reason)) + list(gone_claims.values()).count(pool)
        opens = opens_at(
            policy.budgets,
            reason,
            total=members.get(pool, Members()).total,
            unavailable=unavailable,
            now=situation.now,
        )
        for opening in (opens, opening_of(policy.windows, reason, situation.now)):
            if opening is not None and opening > situation.now:
                yield opening
