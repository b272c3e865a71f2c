"""All rules, in the order in which equal sums of money are shown."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tenon.report.advice.base import Advice, Question
from tenon.report.advice.drains import drains_that_wait
from tenon.report.advice.expiring import expire_together
from tenon.report.advice.pinned import pinned_by_pods, protected_nodes
from tenon.report.advice.underused import budgets_that_allow_nothing, consolidation_is_off, nodes_that_are_not_ready
from tenon.report.advice.workloads import pods_without_requests

Rule = Callable[[Question], Iterator[Advice]]

RULES: tuple[Rule, ...] = (
    drains_that_wait,
    nodes_that_are_not_ready,
    pinned_by_pods,
    protected_nodes,
    consolidation_is_off,
    budgets_that_allow_nothing,
    expire_together,
    pods_without_requests,
)


def advice_on(question: Question) -> list[Advice]:
    """Return the advice of all rules, the most expensive first."""
    advice = [item for rule in RULES for item in rule(question)]
    return sorted(advice, key=lambda item: -(item.dollars_a_day or 0.0))
