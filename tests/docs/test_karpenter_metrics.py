"""Every metric of Karpenter 1.15 is there, or docs/metrics.md says why not; and its dashboards' queries find series.

`karpenter_metrics.txt` has the names of Karpenter's own reference, and of what 1.15 added to it.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.declared_metrics import bounds, declared, series
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


STEPS: list[float] = [
    *(0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9, 1, 1.25, 1.5),
    *(1.75, 2, 2.5, 3, 3.5, 4, 4.5, 5, 6, 7, 8, 9, 10, 15, 20, 25, 30, 40, 50, 60, 120, 150, 300, 450, 600),
]
CONDITIONS: list[float] = [0.5, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192]
MINUTE, HOUR, DAY = 60, 3600, 86400
BUCKETS: dict[str, list[float]] = {
    "karpenter_scheduler_scheduling_duration_seconds": STEPS,
    "karpenter_pods_bound_duration_seconds": STEPS,
    "karpenter_pods_provisioning_bound_duration_seconds": STEPS,
    "karpenter_pods_provisioning_startup_duration_seconds": STEPS,
    "karpenter_pods_scheduling_decision_duration_seconds": STEPS,
    "karpenter_voluntary_disruption_decision_evaluation_duration_seconds": STEPS,
    "karpenter_consolidation_score": [0.1, 0.25, 0.33, 0.5, 1, 2, 5, 10],
    "karpenter_nodes_reboot_duration_seconds": [10, 20, 40, 80, 160, 320, 640, 1280],
    "karpenter_nodes_reboot_recovery_duration_seconds": [10, 20, 40, 80, 160, 320, 640, 1280],
    "karpenter_nodes_lifetime_duration_seconds": [
        *(MINUTE * minutes for minutes in (15, 30, 45)),
        *(HOUR * hours for hours in (1, 2, 4, 6, 8, 10, 12, 16, 20)),
        *(DAY * days for days in (1, 2, 3, 5, 10, 15, 20, 25, 30)),
    ],
    "karpenter_nodeclaims_termination_duration_seconds": [2**power for power in range(12)],
    "karpenter_nodeclaims_instance_termination_duration_seconds": [2**power for power in range(11)],
    **{
        f"operator_{kind}_status_condition_transition_seconds": CONDITIONS
        for kind in ("nodeclaim", "nodepool", "node", "ec2nodeclass", "capacitybuffer")
    },
    **{
        f"operator_{kind}_termination_duration_seconds": CONDITIONS
        for kind in ("nodeclaim", "nodepool", "node", "ec2nodeclass", "capacitybuffer")
    },
}
"""The upper bounds of Karpenter's histograms, which queries and recording rules name as the label ``le``."""


def missing() -> set[str]:
    """The names that docs/metrics.md says are missing."""
    section = text_of(ROOT / "docs" / "metrics.md").partition("## Which of Karpenter's metrics are missing?\n")[2]
    return set(re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE))


def test_each_metric_of_karpenter_is_there_or_documented_as_missing() -> None:
    absent = missing()
    assert {name for name in NAMES if name not in declared()} == absent


@pytest.mark.parametrize("name", BUCKETS)
def test_n15_051_n15_524_histograms_have_karpenters_buckets(name: str) -> None:
    """MET-01, MET-10, MET-14, MET-35, MET-60: a query for another bucket finds nothing, and says nothing."""
    assert bounds()[name] == [*BUCKETS[name], float("inf")]


@pytest.mark.parametrize("name", QUERIES)
def test_karpenters_dashboards_find_their_series(name: str) -> None:
    assert QUERIES[name] <= series()[name]
