"""What all controllers share: batches, retries, isolation of failures, and metrics."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from typing import ClassVar

import pytest
from prometheus_client import REGISTRY

from activities.kubernetes.errors import ApiError
from tests.worker.background import in_background
from tests.worker.cache.objects import node
from tests.worker.fake_temporal import Cache
from worker.cache.changes import Change, Topic
from worker.controllers.base import BACKOFF, Controller, ObjectController, backoff

pytestmark = [pytest.mark.asyncio(loop_scope="function"), pytest.mark.looptime]


class Recording(Controller):
    """Notes when and what it reconciles; the first so many reconciles fail."""

    name = "recording"
    topics: ClassVar[Sequence[Topic]] = (Topic.NODE,)

    def __init__(self, cache: Cache, *, fails: int = 0, pause: float | None = None) -> None:
        super().__init__(cache)
        self._fails = fails
        self._pause = pause
        self.observations: list[tuple[float, list[str]]] = []

    async def reconcile(self, changes: Sequence[Change]) -> float | None:
        self.observations.append((asyncio.get_running_loop().time(), sorted(name for _, name in changes)))
        if self._fails:
            self._fails -= 1
            raise RuntimeError("unforeseen")
        return self._pause


class Periodic(Recording):
    """Watches nothing."""

    topics = ()


class Objects(ObjectController):
    """Notes which Nodes it reconciles and when; Node "bad" fails as often as told."""

    name = "objects"
    topics = (Topic.NODE,)
    settle = 0.0

    def __init__(self, cache: Cache, fails: int) -> None:
        super().__init__(cache)
        self._fails = fails
        self.observations: list[tuple[float, str]] = []

    async def reconcile_object(self, name: str) -> float | None:
        self.observations.append((asyncio.get_running_loop().time(), name))
        if name == "bad" and self._fails:
            self._fails -= 1
            raise ApiError(409, "Conflict", "changed meanwhile")
        return None


@contextlib.asynccontextmanager
async def running(controller: Controller) -> AsyncIterator[float]:
    """A running controller, and when it began."""
    async with in_background(controller.run()):
        await asyncio.sleep(0)
        yield asyncio.get_running_loop().time()


def value(metric: str, controller: str, **labels: str) -> float:
    """A metric of a controller as it is now."""
    return REGISTRY.get_sample_value(metric, {"controller": controller, **labels}) or 0.0


async def test_changes_gather_before_a_reconcile() -> None:
    cache = Cache()
    controller = Recording(cache)
    async with running(controller) as began:
        await asyncio.sleep(10)
        cache.publish(node("a"))
        await asyncio.sleep(controller.settle / 2)
        cache.publish(node("b"))
        await asyncio.sleep(10)
        assert [(at - began, names) for at, names in controller.observations] == [
            (0, []),
            (10 + controller.settle, ["a", "b"]),
        ]


async def test_a_controller_sets_least_and_longest_time_between_reconciles() -> None:
    cache = Cache()
    controller = Recording(cache)
    controller.interval, controller.resync = 5.0, 60.0
    async with running(controller) as began:
        cache.publish(node("a"))
        await asyncio.sleep(70)
        assert [at - began for at, _ in controller.observations] == pytest.approx([0, 5, 65 + controller.settle])


async def test_a_controller_without_topics_is_not_woken_by_changes() -> None:
    """It asks AWS once a period. With each change of the cluster it would use up the calls that the account allows."""
    cache = Cache()
    controller = Periodic(cache, pause=60.0)
    async with running(controller) as began:
        for number in range(10):
            cache.publish(node(f"n{number}"))
            await asyncio.sleep(5)
        await asyncio.sleep(20)
        assert [at - began for at, _ in controller.observations] == pytest.approx([0, 60 + controller.settle])


async def test_a_reconcile_that_fails_is_retried_with_its_changes(caplog: pytest.LogCaptureFixture) -> None:
    """MET-61: controller_runtime's metrics count it."""
    cache = Cache()
    errors = value("controller_runtime_reconcile_errors_total", "recording")
    failed = value("controller_runtime_reconcile_total", "recording", result="error")
    succeeded = value("controller_runtime_reconcile_total", "recording", result="success")
    retries = value("workqueue_retries_total", "recording", name="recording")
    controller = Recording(cache, fails=3)
    async with running(controller) as began:
        cache.publish(node("a"))
        await asyncio.sleep(60)
        assert [names for _, names in controller.observations] == [[], ["a"], ["a"], ["a"]]
        pauses = [0, *(backoff(n) + controller.settle for n in range(3))]
        assert [at - began for at, _ in controller.observations] == pytest.approx(
            [sum(pauses[: n + 1]) for n in range(4)]
        )
    assert value("controller_runtime_reconcile_errors_total", "recording") == errors + 3
    assert value("controller_runtime_reconcile_total", "recording", result="error") == failed + 3
    assert value("controller_runtime_reconcile_total", "recording", result="success") == succeeded + 1
    assert value("workqueue_retries_total", "recording", name="recording") == retries + 3
    assert value("controller_runtime_active_workers", "recording") == 0
    assert len([record for record in caplog.records if record.name == "controller.recording"]) == 1


async def test_an_object_that_fails_waits_longer_each_time_and_stops_no_other() -> None:
    cache = Cache()
    controller = Objects(cache, fails=3)
    async with running(controller) as began:
        cache.publish(node("bad"), node("good"))
        await asyncio.sleep(0.5)
        cache.publish(node("bad", unschedulable=True), node("good", unschedulable=True))
        await asyncio.sleep(120)
        assert [name for _, name in controller.observations].count("good") == 2
        tries = [at - began for at, name in controller.observations if name == "bad"]
        assert tries == pytest.approx([0, 1, 1 + 2, 1 + 2 + 4])


async def test_the_backoff_doubles_up_to_its_longest() -> None:
    assert [backoff(n) for n in (0, 1, 2, 100)] == [BACKOFF[0], 2 * BACKOFF[0], 4 * BACKOFF[0], BACKOFF[1]]
