"""Metrics and logs of disruption decisions, which the pass for empty nodes and the pass for moves share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from activities import loggers, metrics, reported_gauges
from tenon.disruption.deciding import MethodReport, report_nothing
from tenon.disruption.decision import Command, Decision
from tenon.disruption.methods.base import Method
from tenon.disruption.methods.consolidation import nodes_within_consolidate_after
from tenon.disruption.pool_policy import PoolPolicy
from tenon.disruption.situation import Situation

log = loggers.DISRUPTION

MAX_SCORE = 100.0
"""What the histogram gets for higher scores, because the score of a move without disruption is infinite."""


@contextmanager
def timed(method: Method) -> Iterator[MethodReport]:
    """Measure how long a method's evaluation takes (MET-29)."""
    with metrics.EVALUATION_SECONDS.labels(method.reason.snake_case, method.consolidation_type).time():
        yield report_nothing


def report(decision: Decision, methods: Sequence[Method]) -> None:
    """Count the nodes that may leave, whatever the budgets allow (MET-32), and log which methods failed."""
    for reason in {method.reason for method in methods}:
        metrics.ELIGIBLE_NODES.labels(reason.snake_case).set(decision.eligible.get(reason, 0))
    for name, error in decision.failed.items():
        log.error("A disruption method failed, and the other methods go on", exc_info=error, extra={"method": name})


def count_moves(decision: Decision, policies: Mapping[str, PoolPolicy]) -> None:
    """Count the moves that consolidation judged, once for each NodePool, and the scores of Balanced (MET-35, -36)."""
    for command in decision.commands:
        if command.reason.traits.counts_savings:
            for pool in {candidate.node.pool for candidate in command.candidates}:
                metrics.CONSOLIDATION_MOVES.labels("approved", pool, policies[pool].consolidation_policy).inc()
    for verdict in decision.verdicts:
        labels = ("approved" if verdict.approved else "rejected", verdict.pool, "Balanced")
        metrics.CONSOLIDATION_SCORE.labels(*labels).observe(min(verdict.score, MAX_SCORE))
        if not verdict.approved:
            metrics.CONSOLIDATION_MOVES.labels(*labels).inc()


def measure_closed_destinations(situation: Situation) -> None:
    """Set how many nodes of each NodePool take no pods, because consolidateAfter is not over for them (DIS-31)."""
    closed = Counter(node.pool for node in nodes_within_consolidate_after(situation) if not node.leaving)
    reported_gauges.report(metrics.CLOSED_DESTINATIONS, {(pool,): closed[pool] for pool in situation.policies})


def count(command: Command) -> None:
    """Count a decision, and count it for each NodePool with a node in it (MET-30, MET-31)."""
    labels = (command.decision, command.reason.snake_case, command.consolidation_type)
    metrics.DECISIONS.labels(*labels).inc()
    for pool in {candidate.node.pool for candidate in command.candidates}:
        metrics.DECISIONS_BY_POOL.labels(pool, *labels).inc()
        if command.terminate_first is not None:
            why = command.terminate_first.reason.value
            metrics.TERMINATE_FIRST_DECISIONS.labels(pool, command.reason.snake_case, why).inc()
