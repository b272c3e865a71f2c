"""Runs the scheduling engine for the planner: in a thread, with a time limit, and despite pods that it fails on.

If a solve reaches the limit, its partial result is the plan. A cancelled solve ends before the cancellation propagates,
so no solve outlives its plan. If the engine raises, the pods that cause the error are set apart, and the problem is
written to a file for developers.
"""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import tempfile
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from activities import loggers, metrics
from activities.in_progress import SOLVES
from tenon.provisioning.fault_isolation import IsolatedPlan, Solve, solve_isolated
from tenon.provisioning.problem_json import to_json
from tenon.provisioning.solving import BatchSolver
from tenon.scheduling.deadline import Expired
from tenon.scheduling.model import Plan, Problem

log = loggers.PROVISIONER

MAX_SECONDS = 60.0
"""Seconds that one solve may take (SCH-011). The rest of the plan must fit in the remaining time of its activity."""
FOLDER = Path(tempfile.gettempdir()) / "tenon-problems"
"""The directory for problems that the engine failed on."""
MAX_FILES = 3
MAX_BYTES = 8 * 2**20
"""The maximum size of one file. In a pod, this directory is in memory."""
_MAX_ERROR_TEXT = 200


class Limit:
    """A time limit that can be ended early. The solving thread calls it to ask whether the time is over."""

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        """Start the time limit now."""
        self._clock = clock
        self._until = clock() + seconds
        self._ended = False

    def __call__(self) -> bool:
        """Whether the time is over."""
        return self._ended or self._clock() >= self._until

    def part(self, share: float) -> Expired:
        """Return a limit for this share of the time that is left. It is over when this one is, at the latest."""
        now = self._clock()
        until = now + share * max(0.0, self._until - now)
        return lambda: self() or self._clock() >= until

    def end(self) -> None:
        """End the time limit now."""
        self._ended = True


@dataclass(frozen=True, slots=True)
class Solved:
    """A plan, and the pods that it lacks because the engine failed on them: pod key to the reason."""

    plan: Plan
    failed: Mapping[str, str]
    seconds: float


class Solver:
    """Solves problems, and learns how many pods the engine can decide in its time limit."""

    def __init__(
        self,
        solve: Solve | None = None,
        *,
        longest: float = MAX_SECONDS,
        folder: Path = FOLDER,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``solve`` is the engine, ``clock`` returns monotonic seconds."""
        self._solve = solve or BatchSolver()
        self._longest = longest
        self._folder = folder
        self._clock = clock
        self._solves = 0
        self._most: int | None = None
        """The maximum number of pods for the engine, set after it decided nothing for more pods in its time."""

    async def solve(self, problem: Problem, part: float = 1.0) -> Solved:
        """Solve a problem within ``part`` of the time limit.

        On cancellation, wait until the thread has ended.
        """
        began = self._clock()
        limit = Limit(self._longest * part, self._clock)
        portion = self._portion(problem)
        thread = asyncio.ensure_future(asyncio.to_thread(self._run, portion, limit))
        try:
            self._solves += 1
            with SOLVES.during(str(self._solves)):
                isolated_plan = await asyncio.shield(thread)
        finally:
            limit.end()
            while not thread.done():
                await _quietly(thread)
        self._learn(len(portion.pods), isolated_plan.plan)
        portion_keys = {pod.key for pod in portion.pods}
        beyond = frozenset(pod.key for pod in problem.pods if pod.key not in portion_keys)
        plan = replace(isolated_plan.plan, unreached=isolated_plan.plan.unreached | beyond)
        if plan.unreached:
            metrics.SCHEDULING_TIMEOUTS.labels("provisioner").inc()
            log.warning(
                "The plan took too long, and the pods that it did not reach are in the next one",
                extra={
                    "limit-seconds": self._longest * part,
                    "pod-count": len(problem.pods),
                    "unreached": len(plan.unreached),
                },
            )
        sentences = {key: _sentence(why) for key, why in isolated_plan.apart.items()}
        return Solved(plan, sentences, self._clock() - began)

    def _run(self, problem: Problem, limit: Limit) -> IsolatedPlan:
        isolated_plan = solve_isolated(problem, limit, self._solve)
        if isinstance(self._solve, BatchSolver) and (failures := self._solve.take_failures()):
            log.warning(
                "The solver failed to improve the new nodes of a plan, which stay as they were packed before",
                extra={"error": failures[0], "pod-count": len(problem.pods)},
            )
        if isolated_plan.error is not None and isolated_plan.failing is not None:
            metrics.SCHEDULING_FAILURES.labels("provisioner").inc()
            log.error(
                "The scheduling engine failed on some pods and plans the others: report this with the problem file",
                exc_info=isolated_plan.error,
                extra={
                    "pods": sorted(isolated_plan.apart)[:5],
                    "pod-count": len(isolated_plan.apart),
                    "problem": self._keep(isolated_plan),
                },
            )
        return isolated_plan

    def _portion(self, problem: Problem) -> Problem:
        """The problem, reduced to its oldest pods if the engine has decided nothing for so many before."""
        if self._most is None or len(problem.pods) <= self._most:
            return problem
        oldest = sorted(problem.pods, key=lambda pod: (bool(pod.buffer), pod.created, pod.uid))
        return replace(problem, pods=oldest[: self._most])

    def _learn(self, pod_count: int, plan: Plan) -> None:
        if not plan.unreached:
            self._most = None if self._most is None or pod_count < self._most else 2 * self._most
        elif not (plan.claims or plan.placements or plan.unschedulable):
            self._most = max(1, pod_count // 2)

    def _keep(self, isolated_plan: IsolatedPlan) -> str:
        """Write the problem that the engine failed on. Return the path of the file, or why it was not written."""
        assert isolated_plan.failing is not None
        assert isolated_plan.error is not None
        frames = traceback.extract_tb(isolated_plan.error.__traceback__)
        origin = f"{type(isolated_plan.error).__name__} {[(frame.name, frame.lineno) for frame in frames[-3:]]}"
        path = self._folder / f"problem-{hashlib.sha256(origin.encode()).hexdigest()[:8]}.json.gz"
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if path.exists():
                return f"{path} (of an earlier failure of the same kind)"
            if len(list(self._folder.glob("problem-*"))) >= MAX_FILES:
                return f"not written: {self._folder} holds {MAX_FILES} of them, delete those that were reported"
            text = gzip.compress(to_json(isolated_plan.failing), mtime=0)
            if len(text) > MAX_BYTES:
                return f"not written: it has {len(text)} bytes, more than the limit of {MAX_BYTES}"
            path.touch(mode=0o600)
            path.write_bytes(text)
        except OSError as error:
            return f"not written: {error}"
        return str(path)


async def _quietly(thread: asyncio.Future[IsolatedPlan]) -> None:
    """Wait for the thread, but ignore its result and any cancellation."""
    try:
        await asyncio.wait([thread])
    except asyncio.CancelledError:
        log.debug("The plan was cancelled again while the engine stops")


def _sentence(error: str) -> str:
    return (
        f"Tenon failed to plan for it because of an internal error ({error[:_MAX_ERROR_TEXT]}): please report it with"
        " the file that the worker's log names. Tenon retries with growing pauses"
    )
