"""The mixes of the benchmark: the reference's own pods, whose bounds are known."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from benchmarks.catalogue import reference_pool
from benchmarks.go_random import GoRandom
from benchmarks.mixes import MIXES, diverse, first_users, preference, scheduling_pods
from tenon.resources import CPU, MEMORY
from tenon.scheduling.bound.lower_bound import lower_bound
from tenon.scheduling.model import Problem


def test_the_numbers_are_those_of_go() -> None:
    """BEN-04: rand.New(rand.NewSource(42)) draws these below 7 in Go."""
    source = GoRandom(42)
    assert [source.below(7) for _ in range(10)] == [5, 2, 4, 1, 5, 0, 6, 4, 4, 3]


def test_ben03_the_catalogue() -> None:
    pool = reference_pool()
    largest = max(pool.instance_types, key=lambda t: t.capacity[CPU])
    assert len(pool.instance_types) == 400
    assert largest.capacity == {"cpu": 400_000, "memory": 800 * 2**30, "pods": 4_000}
    assert Counter(o.capacity_type for o in largest.offerings) == {"spot": 2, "on-demand": 3}
    assert largest.offerings[0].price == pytest.approx(40 + 0.1 * 858.993459)


def test_ben04_the_diverse_mix_is_made_of_fifths() -> None:
    objects = diverse(503)
    spread = [c["topologyKey"] for o in objects for c in o["spec"].get("topologySpreadConstraints", ())]
    affinity = [key for o in objects for key in o["spec"].get("affinity", ())]
    assert Counter(spread) == {"topology.kubernetes.io/zone": 100, "kubernetes.io/hostname": 100}
    assert Counter(affinity) == {"podAffinity": 100, "podAntiAffinity": 100}
    assert len({o["metadata"]["uid"] for o in objects}) == 503


def test_ben05_the_preference_pods_are_equal() -> None:
    pods = scheduling_pods(preference(4))
    assert {(p.requests[CPU], p.requests[MEMORY]) for p in pods} == {(1000, 100 * 2**20)}
    assert not any(p.unsupported for p in pods)


def test_the_loads_of_the_first_users_ask_for_a_hundred_cpu() -> None:
    for count in (400, 100, 10):
        assert sum(p.requests[CPU] for p in scheduling_pods(first_users(count))) == 100_000
    with pytest.raises(ValueError, match="400, 100, 10"):
        first_users(7)


@pytest.mark.parametrize(
    ("mix", "count", "expected"),
    [("diverse", 500, 107), ("diverse", 1_000, 209), ("diverse", 5_000, 1_040), ("preference", 4_000, 1_262)],
)
def test_the_bounds_are_those_that_upstream_was_measured_against(mix: str, count: int, expected: float) -> None:
    """To 3 % only: it is not known which draws upstream was measured with. The 1,262 is exact."""
    pods = [replace(pod, unsupported="") for pod in scheduling_pods(MIXES[mix](count, 42))]
    assert lower_bound(Problem(pods, [reference_pool()])) == pytest.approx(expected, rel=0.03)
