"""What a user of Karpenter 1.15 has works unchanged: the environment and the manifests (N15-641, N15-642).

`test_chart.py` renders the values, and `tests/e2e/test_karpenter_1_15.py` applies the manifests.
"""

from __future__ import annotations

from tenon.manifests.checking import check
from tests.deploy.user_of_karpenter_1_15 import environment, manifests
from worker.settings import load_all


def test_n15_641_the_environment_of_its_deployment_loads() -> None:
    loaded = load_all({}, environment())
    assert loaded.warnings == []
    settings = loaded.settings
    assert settings.feature_gates.node_repair
    assert settings.feature_gates.reserved_capacity
    assert not settings.feature_gates.pod_deletion_cost_management
    assert (settings.cluster_name, settings.interruption_queue) == ("orders", "orders")
    assert settings.security_group_refresh_interval.total_seconds() == 60


def test_n15_641_n15_642_validate_finds_no_fault_in_its_manifests() -> None:
    checked = check([("manifests.yaml", manifests("orders"))])
    assert checked.faults == []
    assert (checked.checked, checked.skipped) == (2, {"Deployment": 1})
