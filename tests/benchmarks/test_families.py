"""The families of small batches: each case is the same every time, can be read, and can be planned."""

from __future__ import annotations

import pytest

from benchmarks.families import Family, as_table, problem_for, run
from benchmarks.random_families import FAMILIES, LARGEST, SMALLEST, case
from tenon.scheduling.model import InstanceType, Problem
from tests.tenon.scheduling.builders import CATALOG

TYPES: list[InstanceType] = list(CATALOG)


def problem(family: str, number: int) -> Problem:
    return problem_for(case(family, number), TYPES)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_number_always_gives_the_same_case(family: str) -> None:
    assert case(family, 3) == case(family, 3)
    assert case(family, 3) != case(family, 4)


@pytest.mark.parametrize("family", sorted(set(FAMILIES) - {"devices"}))
def test_every_case_is_a_small_batch(family: str) -> None:
    assert all(SMALLEST <= len(problem(family, number).pods) <= LARGEST for number in range(3))


def test_families_state_their_rule() -> None:
    """The figures of a family say something about its rule only if its cases have it."""
    assert any(pod.required_terms for pod in problem("selectors", 0).pods)
    assert any(pod.rules.affinity or pod.rules.anti_affinity for pod in problem("affinity", 0).pods)
    assert any(pod.rules.spreads for pod in problem("spread", 0).pods)
    assert any(pod.tolerations for pod in problem("taints", 0).pods)
    assert any(pod.requests.get("nvidia.com/gpu") for pod in problem("devices", 0).pods)
    assert all(pool.limits for pool in problem("limits", 0).pools)
    assert len(problem("existing", 0).nodes) >= 5


def test_a_family_is_compared_with_first_fit() -> None:
    family: Family = run("plain", 2, TYPES)
    assert (family.cases, len(family.kept_pods), family.leftover, family.first_fit_left) == (2, 2, 0, 0)
    assert 0 < family.bound <= family.price <= family.first_fit_price
    assert as_table({"plain": family}).row_count == 1
