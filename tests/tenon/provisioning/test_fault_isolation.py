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


def raising(bad: Callable[[set[str]], bool], asked: list[int]) -> Callable[[Problem, Expired], Plan]:
    """An engine that places whatever it is given, unless these pods are together."""

    def engine(given: Problem, _: Expired) -> Plan:
        asked.append(len(given.pods))
        if bad({found.name for found in given.pods}):
            raise KeyError("zone")
        return Plan(placements={"node": tuple(given.pods)})

    return engine


def placed(plan: Plan) -> set[str]:
    return {found.name for pods in plan.placements.values() for found in pods}


def test_without_a_fault_there_is_one_solve() -> None:
    asked: list[int] = []
    found = solve_isolated(problem(kinds(50), pool()), never, raising(lambda _: False, asked))
    assert (asked, found.apart, found.error) == ([50], {}, None)


@given(bad=st.sets(st.integers(0, 49), min_size=1, max_size=2))
def test_only_those_that_cause_it_are_set_apart(bad: set[int]) -> None:
    names = {f"p{number}" for number in bad}
    asked: list[int] = []
    found = solve_isolated(problem(kinds(50), pool()), never, raising(lambda given: bool(given & names), asked))
    assert {key.removeprefix("default/") for key in found.apart} == names
    assert len(placed(found.plan)) == 50 - len(names)
    assert set(found.apart.values()) == {"KeyError: 'zone'"}
    assert len(asked) <= MAX_SOLVES + 1


def test_of_two_that_only_fail_together_one_is_planned() -> None:
    found = solve_isolated(problem(kinds(20), pool()), never, raising(lambda given: {"p3", "p15"} <= given, []))
    assert list(found.apart) == ["default/p15"]
    assert len(placed(found.plan)) == 19


def test_pods_that_are_alike_stay_together() -> None:
    """A thousand replicas cost no more solves than one."""
    alike = [pod(f"bad-{number}", "7") for number in range(1000)]
    asked: list[int] = []
    engine = raising(lambda given: any(name.startswith("bad") for name in given), asked)
    found = solve_isolated(problem([*kinds(20), *alike], pool()), never, engine)
    assert len(found.apart) == 1000
    assert len(placed(found.plan)) == 20
    assert len(asked) < 20


def test_an_engine_that_always_fails_is_given_up_after_a_while() -> None:
    asked: list[int] = []
    found = solve_isolated(problem(kinds(500), pool()), never, raising(lambda _: True, asked))
    assert len(asked) <= MAX_SOLVES + 1
    assert len(found.apart) == 500
    assert found.failing is not None
    assert len(found.failing.pods) < 20


def test_the_search_ends_with_the_time_of_the_plan() -> None:
    asked: list[int] = []
    found = solve_isolated(problem(kinds(50), pool()), lambda: True, raising(lambda _: True, asked))
    assert (len(asked), len(found.apart)) == (1, 50)


def test_a_problem_that_was_written_is_solved_as_before() -> None:
    before = mixed()
    after = from_json(to_json(before))
    assert to_json(after) == to_json(before)
    assert solve(after) == solve(before)


def test_what_is_no_problem_is_refused() -> None:
    with pytest.raises(ValueError, match="truncated"):
        from_json(b"{")
