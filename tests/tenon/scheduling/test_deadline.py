"""SCH-011: a solve that must come to an end gives what it has, and each pod is in exactly one part of its plan."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tenon.scheduling.engine import solve
from tenon.scheduling.model import Plan
from tests.tenon.scheduling.mixed_problem import mixed


def after(steps: int) -> Callable[[], bool]:
    """No more time once it was asked for so often."""
    remainder = iter(range(steps))
    return lambda: next(remainder, None) is None


def parts(plan: Plan) -> list[str]:
    """The keys of the pods in all parts of a plan, in order."""

    def keys() -> Iterator[str]:
        for claim in plan.claims:
            yield from (pod.key for pod in claim.pods)
        for placed in plan.placements.values():
            yield from (result.key for result in placed)
        yield from plan.unschedulable
        yield from plan.unreached

    return sorted(keys())


@pytest.mark.parametrize("steps", [0, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144, 233, 377, 610, 987])
def test_every_pod_is_in_one_part_wherever_the_time_ends(steps: int) -> None:
    value = mixed()
    plan = solve(value, after(steps))
    assert parts(plan) == sorted(pod.key for pod in value.pods)
    assert not any("huge" in pod.key for claim in plan.claims for pod in claim.pods)


def test_without_time_nothing_is_bought_and_nothing_is_said() -> None:
    value = mixed()
    plan = solve(value, lambda: True)
    assert plan == Plan(unreached=frozenset(pod.key for pod in value.pods))


def test_what_has_a_place_by_then_keeps_it() -> None:
    """A plan that ends in its middle has some pods, and says nothing of those whose turn did not come."""
    value = mixed()
    plans = [solve(value, after(steps)) for steps in range(0, 400, 7)]
    assert any(plan.unreached and (plan.claims or plan.placements) for plan in plans)


def test_with_time_to_spare_the_plan_is_the_same() -> None:
    value = mixed()
    plan = solve(value, after(10**9))
    assert plan == solve(value)
    assert plan.unreached == frozenset()
