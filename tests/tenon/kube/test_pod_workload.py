"""Which workload the name of a pod stands for."""

from __future__ import annotations

import pytest

from tenon.kube.pod_workload import workload_of


@pytest.mark.parametrize(
    ("pod", "workload"),
    [
        ("shop/web-5d7c9-x2k4p", "shop/web-5d7c9"),
        ("shop/db-0", "shop/db"),
        ("shop/backup-28471-9xk2l", "shop/backup-28471"),
        ("shop/migrate", "shop/migrate"),
    ],
)
def test_the_pods_of_a_controller_share_all_but_the_last_part_of_their_names(pod: str, workload: str) -> None:
    assert workload_of(pod) == workload
