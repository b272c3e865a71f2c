"""Which pods an engine that raises is to be spared."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenon.kube.pod import Pod
from tenon.provisioning.fault_isolation import MAX_SOLVES, solve_isolated
from tenon.provisioning.problem_json import from_json, to_json
from tenon.scheduling.deadline import Expired, never
from tenon.scheduling.engine import solve
from tenon.scheduling.model import Plan, Problem
from tests.tenon.scheduling.builders import pod, pool, problem
from tests.tenon.scheduling.mixed_problem import mixed


def kinds(count: int) -> list[Pod]:
    return [pod(f"p{number}", f"{100 + number}m") for number in range(count)]


def raising(bad: Callable[[set[str]], bool], numbers: list[int]) -> Callable[[Problem, Expired], Plan]:
    """An engine that places whatever it is given, unless these pods are together."""

    def engine(problem: Problem, _: Expired) -> Plan:
        numbers.append(len(problem.pods))
        if bad({pod.name for pod in problem.pods}):
            raise KeyError("zone")
        return Plan(placements={"node": tuple(problem.pods)})

    return engine


def placed(plan: Plan) -> set[str]:
    return {pod.name for pods in plan.placements.values() for pod in pods}


def test_without_a_fault_there_is_one_solve() -> None:
    numbers: list[int] = []
    isolated_plan = solve_isolated(problem(kinds(50), pool()), never, raising(lambda _: False, numbers))
    assert (numbers, isolated_plan.apart, isolated_plan.error) == ([50], {}, None)


@given(bad=st.sets(st.integers(0, 49), min_size=1, max_size=2))
def test_only_those_that_cause_it_are_set_apart(bad: set[int]) -> None:
    names = {f"p{number}" for number in bad}
    numbers: list[int] = []
    isolated_plan = solve_isolated(
        problem(kinds(50), pool()), never, raising(lambda value: bool(value & names), numbers)
    )
    assert {key.removeprefix("default/") for key in isolated_plan.apart} == names
    assert len(placed(isolated_plan.plan)) == 50 - len(names)
    assert set(isolated_plan.apart.values()) == {"KeyError: 'zone'"}
    assert len(numbers) <= MAX_SOLVES + 1


def test_of_two_that_only_fail_together_one_is_planned() -> None:
    isolated_plan = solve_isolated(problem(kinds(20), pool()), never, raising(lambda value: {"p3", "p15"} <= value, []))
    assert list(isolated_plan.apart) == ["default/p15"]
    assert len(placed(isolated_plan.plan)) == 19


def test_pods_that_are_alike_stay_together() -> None:
    """A thousand replicas cost no more solves than one."""
    equal_items = [pod(f"bad-{number}", "7") for number in range(1000)]
    numbers: list[int] = []
    engine = raising(lambda value: any(name.startswith("bad") for name in value), numbers)
    isolated_plan = solve_isolated(problem([*kinds(20), *equal_items], pool()), never, engine)
    assert len(isolated_plan.apart) == 1000
    assert len(placed(isolated_plan.plan)) == 20
    assert len(numbers) < 20


def test_an_engine_that_always_fails_is_given_up_after_a_while() -> None:
    numbers: list[int] = []
    isolated_plan = solve_isolated(problem(kinds(500), pool()), never, raising(lambda _: True, numbers))
    assert len(numbers) <= MAX_SOLVES + 1
    assert len(isolated_plan.apart) == 500
    assert isolated_plan.failing is not None
    assert len(isolated_plan.failing.pods) < 20


def test_the_search_ends_with_the_time_of_the_plan() -> None:
    numbers: list[int] = []
    isolated_plan = solve_isolated(problem(kinds(50), pool()), lambda: True, raising(lambda _: True, numbers))
    assert (len(numbers), len(isolated_plan.apart)) == (1, 50)


def test_a_problem_that_was_written_is_solved_as_before() -> None:
    before = mixed()
    after = from_json(to_json(before))
    assert to_json(after) == to_json(before)
    assert solve(after) == solve(before)


def test_what_is_no_problem_is_refused() -> None:
    with pytest.raises(ValueError, match="truncated"):
        from_json(b"{")
