"""Every metric of Karpenter 1.15 is there, or docs/metrics.md says why not; and its dashboards' queries find series.

`karpenter_metrics.txt` has the names of Karpenter's own reference, and of what 1.15 added to it.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.declared_metrics import declared, series
from tests.docs.documents import ROOT, text_of

NAMES = (Path(__file__).parent / "karpenter_metrics.txt").read_text().split()
FILTERS = {"arch", "capacity_type", "instance_type", "nodepool", "zone"}
"""The variables of Karpenter's capacity dashboard."""
QUERIES = {
    "karpenter_nodes_created_total": {"nodepool"},
    "karpenter_nodes_terminated_total": {"nodepool"},
    "karpenter_voluntary_disruption_eligible_nodes": {"reason"},
    "karpenter_nodeclaims_disrupted_total": {"nodepool"},
    "karpenter_voluntary_disruption_decisions_total": {"consolidation_type", "decision"},
    "karpenter_pods_state": {*FILTERS, "namespace", "node", "phase"},
    "karpenter_nodepools_usage": {"resource_type", "nodepool"},
    "karpenter_nodepools_limit": {"resource_type", "nodepool"},
    "karpenter_nodes_allocatable": {*FILTERS, "resource_type"},
    "karpenter_nodes_total_daemon_requests": {*FILTERS, "resource_type", "node_name"},
    "karpenter_nodes_total_pod_requests": {*FILTERS, "resource_type", "node_name"},
    "karpenter_nodes_termination_duration_seconds": {"quantile"},
    "karpenter_pods_startup_duration_seconds": {"quantile"},
    "controller_runtime_reconcile_time_seconds_bucket": {"controller", "le"},
    "controller_runtime_reconcile_time_seconds_count": {"controller"},
    "controller_runtime_reconcile_total": {"controller"},
}
"""What the panels and variables of Karpenter's two dashboards read, and by which labels."""


def missing() -> set[str]:
    """The names that docs/metrics.md says are missing."""
    section = text_of(ROOT / "docs" / "metrics.md").partition("## Which of Karpenter's metrics are missing?\n")[2]
    return set(re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE))


def test_each_metric_of_karpenter_is_there_or_documented_as_missing() -> None:
    absent = missing()
    assert {name for name in NAMES if name not in declared()} == absent


@pytest.mark.parametrize("name", QUERIES)
def test_karpenters_dashboards_find_their_series(name: str) -> None:
    assert QUERIES[name] <= series()[name]
