"""The engine fails or takes too long: whom it concerns is told, all others are planned."""

from __future__ import annotations

import asyncio
import gzip
import threading
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from activities.provisioning.solving import MAX_FILES, Limit, Solver
from tenon.messages.provisioning import PlanResult
from tenon.provisioning.problem_json import from_json
from tenon.provisioning.solving import solve_with_buffers
from tenon.scheduling.column_generation import columns
from tenon.scheduling.deadline import Expired
from tenon.scheduling.model import Plan, Problem
from tests.activities.provisioning.setting import BATCH, Setting
from tests.tenon.scheduling.builders import pod, pool, problem


class EngineFault(Exception):
    """What a fault of the engine raises."""


def failing_on(*names: str) -> Callable[[Problem, Expired], Plan]:
    """The engine, but for these pods."""

    def solve(problem: Problem, expired: Expired) -> Plan:
        if bad := {pod.name for pod in problem.pods} & set(names):
            raise EngineFault(f"no rank for {sorted(bad)}")
        return solve_with_buffers(problem, expired)

    return solve


def files(folder: Path) -> list[Path]:
    return list(folder.iterdir())


async def test_a_pod_on_which_the_engine_fails_is_reported_and_others_are_planned(tmp_path: Path) -> None:
    at = Setting(*(pod(f"p{number}", f"{100 + number}m") for number in range(50)))
    at.restart(Solver(failing_on("p17"), folder=tmp_path))
    result = await at.planner.plan(BATCH)
    assert (result.pods, result.unschedulable) == (50, 1)
    bought = [body["metadata"]["annotations"]["tenon.sh/planned-pods"] for body in at.kube.objects.values()]
    assert sum(text.count("=") for text in bought) == 49
    messages = [
        message for _, name, reason, message in at.recorder.events if (name, reason) == ("p17", "FailedScheduling")
    ]
    assert len(messages) == 1
    assert "EngineFault: no rank for ['p17']" in messages[0]
    assert at.batcher.undecided() == []
    at.now += timedelta(seconds=11)
    assert [result.name for result in at.batcher.undecided()] == ["p17"], "it is tried again, after a pause"


async def test_the_problem_is_kept_for_developers(tmp_path: Path) -> None:
    solver = Solver(failing_on("bad"), folder=tmp_path)
    await solver.solve(problem([pod(f"p{number}", f"{number + 1}") for number in range(8)] + [pod("bad", "9")], pool()))
    (path,) = files(tmp_path)
    survivors = from_json(gzip.decompress(path.read_bytes()))
    assert "bad" in {pod.name for pod in survivors.pods}
    assert len(survivors.pods) == 1
    assert path.stat().st_mode & 0o077 == 0
    with pytest.raises(EngineFault):
        failing_on("bad")(survivors, lambda: False)
    await solver.solve(problem([pod("bad")], pool()))
    assert files(tmp_path) == [path], "one file for one kind of failure"


async def test_a_solver_of_programs_that_fails_is_logged_and_fails_no_plan(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(columns.SOLVER_OPTIONS, "simplex_iteration_limit", 0)
    pods = [pod(f"p{number}", f"{900 + 100 * number}m", "3Gi") for number in range(40)]
    solved = await Solver().solve(problem(pods, pool()))
    assert sum(len(claim.pods) for claim in solved.plan.claims) == len(pods)
    (record,) = [record for record in caplog.records if "solver failed" in record.getMessage()]
    assert "Iteration limit" in record.__dict__["error"]


async def test_no_more_than_a_few_problems_are_kept(tmp_path: Path) -> None:
    for number in range(MAX_FILES):
        (tmp_path / f"problem-{number}").touch()
    plan = await Solver(failing_on("bad"), folder=tmp_path).solve(problem([pod("bad")], pool()))
    assert plan.failed.keys() == {"default/bad"}
    assert len(files(tmp_path)) == MAX_FILES


async def test_a_folder_that_cannot_be_written_does_not_matter(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    plan = await Solver(failing_on("bad"), folder=tmp_path / "file").solve(
        problem([pod("bad"), pod("good", "2")], pool())
    )
    assert plan.failed.keys() == {"default/bad"}
    assert len(plan.plan.claims) == 1


def stopped_after(pods: int) -> Callable[[Problem, Expired], Plan]:
    """An engine that comes to the end of its time after so many pods."""

    def solve(problem: Problem, expired: Expired) -> Plan:
        reached = problem.pods[:pods]
        plan = solve_with_buffers(Problem(reached, problem.pools), expired)
        return Plan(plan.claims, unreached=frozenset(pod.key for pod in problem.pods[pods:]))

    return solve


async def test_sch011_a_plan_out_of_time_is_written_and_the_rest_joins_the_next_batch() -> None:
    at = Setting(pod("a"), pod("b"), pod("c"))
    at.restart(Solver(stopped_after(2)))
    first = await at.planner.plan(BATCH)
    assert (first.pods, first.unreached, len(first.claims)) == (3, 1, 1)
    assert [result.name for result in at.batcher.undecided()] == ["c"], "at once"
    assert ("Pod", "c", "FailedScheduling") in [event[:3] for event in at.recorder.events]
    second = await at.planner.plan(BATCH.model_copy(update={"batch": 42}))
    assert (second.pods, second.unreached, len(second.claims)) == (1, 0, 1)


async def test_sch011_pods_that_are_too_many_for_any_plan_are_planned_in_portions() -> None:
    """An engine that decides nothing for eight pods in its time is given four, then two; so all have their turn."""

    def slow(problem: Problem, expired: Expired) -> Plan:
        if len(problem.pods) > 3:
            return Plan(unreached=frozenset(pod.key for pod in problem.pods))
        return solve_with_buffers(problem, expired)

    solver, planned = Solver(slow), set[str]()
    pods = [pod(f"p{number}", created=float(number)) for number in range(8)]
    for _ in range(10):
        plan = (await solver.solve(problem([pod for pod in pods if pod.key not in planned], pool()))).plan
        planned |= {pod.key for claim in plan.claims for pod in claim.pods}
    assert planned == {pod.key for pod in pods}


async def test_a_solve_reads_its_limit_off_the_clock() -> None:
    seconds = iter(range(0, 10_000, 10))
    plan = await Solver(longest=60.0, clock=lambda: float(next(seconds))).solve(
        problem([pod(f"p{number}", f"{number + 1}") for number in range(40)], pool())
    )
    assert plan.plan.unreached


async def test_a_cancelled_plan_ends_its_solve_before_the_next_one_begins() -> None:
    """No two engines work at once, and none works for a plan that nobody waits for."""
    working: list[str] = []
    begun, may_look = threading.Event(), threading.Event()

    def endless(problem: Problem, expired: Expired) -> Plan:
        working.append("begins")
        begun.set()
        may_look.wait()
        while not expired():
            pass
        working.append("ends")
        return solve_with_buffers(problem)

    at = Setting(pod("a"))
    at.restart(Solver(endless, longest=10_000.0))
    given_up = asyncio.create_task(at.planner.plan(BATCH))
    await asyncio.to_thread(begun.wait)
    after: asyncio.Task[PlanResult] = asyncio.create_task(at.planner.plan(BATCH))
    given_up.cancel()
    given_up.cancel()
    may_look.set()
    with pytest.raises(asyncio.CancelledError):
        await given_up
    assert working[:2] == ["begins", "ends"]
    after.cancel()
    with pytest.raises(asyncio.CancelledError):
        await after
    assert working.count("begins") == working.count("ends"), "no thread is left"
    assert at.kube.objects == {}


@pytest.mark.parametrize("parent", ["end", "time"])
def test_a_part_of_a_limit_is_over_when_the_limit_is(parent: str) -> None:
    seconds = 0.0
    limit = Limit(10.0, lambda: seconds)
    seconds = 4.0
    part = limit.part(0.5)
    seconds = 6.9
    assert not part()
    if parent == "end":
        limit.end()
    else:
        seconds = 7.0
    assert part()
