"""The scores of kube-scheduler. The numbers are computed by hand from its formulas in whole numbers."""

from __future__ import annotations

import numpy as np

from tenon.shadow.kube_scores import balanced, least_allocated, spread


def rows(*values: tuple[float, float]) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    return np.array(values, float)


def test_an_emptier_node_has_a_higher_score() -> None:
    """(4000 - 3000) * 100 / 4000 = 25 and (10000 - 5000) * 100 / 10000 = 50, whose mean is 37 in whole numbers."""
    scores = least_allocated(
        rows((3000, 5000), (1000, 0), (4000, 10000)), rows((4000, 10000), (4000, 10000), (4000, 10000))
    )
    assert list(scores) == [37, 87, 0]


def test_a_resource_that_a_node_lacks_does_not_count() -> None:
    assert list(least_allocated(rows((1000, 0)), rows((4000, 0)))) == [75]


def test_a_pod_that_makes_cpu_and_memory_alike_has_a_higher_score() -> None:
    """From 50 % and 0 % (75) to 50 % and 50 % (100) is 50 + (50 + 25) / 2 = 87; to 100 % and 0 % (50) it is 62."""
    allocatable = rows((4000, 8000), (4000, 8000))
    before = rows((2000, 0), (2000, 0))
    assert list(balanced(before, rows((2000, 4000), (4000, 0)), allocatable)) == [87, 62]


def test_nodes_with_fewer_pods_of_the_workload_have_a_higher_score() -> None:
    """Raw, in one zone with three pods: 0, 1 and 2 pods weigh ln 5, the zone's three ln 3, and the skews add 6: 9, 11
    and 13. So the scores are 100 * (13 + 9 - raw) / 13.
    """
    scores = spread(np.array([0.0, 1.0, 2.0]), np.array([3.0, 3.0, 3.0]), zones=1)
    assert list(scores) == [100, 84, 69]


def test_a_zone_with_fewer_pods_has_a_higher_score() -> None:
    """Raw, in two zones with 0 and 4 pods: the skews add 6, and the zone's pods weigh ln 4: 6 and 12."""
    scores = spread(np.array([0.0, 0.0]), np.array([0.0, 4.0]), zones=2)
    assert list(scores) == [100, 50]
