"""SCH-011: a solve that must come to an end gives what it has, and each pod is in exactly one part of its plan."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from tenon.apis import labels
from tenon.kube.pod import Pod
from tenon.kube.pod_rules import PodRules, PodTerm, SpreadRule
from tenon.kube.selectors import LabelSelector
from tenon.scheduling.engine import solve
from tenon.scheduling.model import Plan, Problem
from tests.scheduling.builders import node, pod, pool, problem


def after(steps: int) -> Callable[[], bool]:
    """No more time once it was asked for so often."""
    left = iter(range(steps))
    return lambda: next(left, None) is None


def parts(plan: Plan) -> list[str]:
    """The keys of the pods in all parts of a plan, in order."""

    def keys() -> Iterator[str]:
        for claim in plan.claims:
            yield from (found.key for found in claim.pods)
        for placed in plan.placements.values():
            yield from (found.key for found in placed)
        yield from plan.unschedulable
        yield from plan.unreached

    return sorted(keys())


APART = PodRules(anti_affinity=(PodTerm(labels.HOSTNAME, LabelSelector()),))
EVEN = PodRules(spreads=(SpreadRule(labels.ZONE, 1, LabelSelector()),))


def mixed() -> Problem:
    """Plain pods, pods that look at others, and pods that fit nowhere; room on a node that is there."""
    pods: list[Pod] = [pod(f"plain-{n}", f"{100 + n}m") for n in range(20)]
    pods += [replace(pod(f"apart-{n}", f"{200 + n}m"), rules=APART) for n in range(5)]
    pods += [replace(pod(f"even-{n}", f"{300 + n}m"), rules=EVEN) for n in range(5)]
    pods += [pod(f"huge-{n}", f"{5000 + n}") for n in range(5)]
    return problem(pods, pool(), nodes=[node("n1", cpu="1")])


@pytest.mark.parametrize("steps", [0, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144, 233, 377, 610, 987])
def test_every_pod_is_in_one_part_wherever_the_time_ends(steps: int) -> None:
    given = mixed()
    plan = solve(given, after(steps))
    assert parts(plan) == sorted(found.key for found in given.pods)
    assert not any("huge" in found.key for claim in plan.claims for found in claim.pods)


def test_without_time_nothing_is_bought_and_nothing_is_said() -> None:
    given = mixed()
    plan = solve(given, lambda: True)
    assert plan == Plan(unreached=frozenset(found.key for found in given.pods))


def test_what_has_a_place_by_then_keeps_it() -> None:
    """A plan that ends in its middle has some pods, and says nothing of those whose turn did not come."""
    given = mixed()
    plans = [solve(given, after(steps)) for steps in range(0, 400, 7)]
    assert any(plan.unreached and (plan.claims or plan.placements) for plan in plans)


def test_with_time_to_spare_the_plan_is_the_same() -> None:
    given = mixed()
    plan = solve(given, after(10**9))
    assert plan == solve(given)
    assert plan.unreached == frozenset()
