"""Reports what a situation says about the whole cluster, whether a command comes of it or not."""

from __future__ import annotations

from activities import metrics
from activities.cluster_view.interfaces import ClusterView
from activities.disruption.approval_events import ApprovalEvents
from activities.disruption.held_node_events import HeldNodeEvents
from activities.kubernetes.events import EventPublisher
from activities.provisioning.budget_reporting import BudgetReporter
from activities.reported_gauges import report
from tenon.disruption.rules.approvals import waiting_since
from tenon.disruption.situation import Situation


class SituationReporter:
    """Reports commands that wait for a person, what budgets allow, and nodes that something keeps."""

    def __init__(self, view: ClusterView, recorder: EventPublisher) -> None:
        self._view = view
        self._approval_events = ApprovalEvents(recorder)
        self._budgets = BudgetReporter(recorder)
        self._held_node_events = HeldNodeEvents(recorder, view.node_uid)

    def close(self) -> None:
        """Give up the events that are not written yet."""
        self._approval_events.close()
        self._budgets.close()
        self._held_node_events.close()

    def report(self, situation: Situation) -> None:
        """Set the gauges, and write the events in the background. Each report decides itself when it is due again."""
        _measure_approvals(situation)
        self._approval_events.report(situation, self._view.node_pools)
        self._budgets.report(situation, self._view.node_pools())
        self._held_node_events.report(situation, self._view.nodes_without_pool)


def _measure_approvals(situation: Situation) -> None:
    """Set the gauges of commands that wait until a person approves them."""
    waiting = waiting_since(situation.approvals)
    series = {(pool, reason.snake_case): times for (pool, reason), times in waiting.items()}
    report(metrics.APPROVALS_WAITING, {labels: len(times) for labels, times in series.items()})
    longest = {labels: (situation.now - min(times)).total_seconds() for labels, times in series.items()}
    report(metrics.LONGEST_APPROVAL_WAIT, longest)
