"""With worker versioning, a hundred live nodes pass to an image with another order of steps, and back.

Nodes launch, rest, drain, and wait behind a PodDisruptionBudget meanwhile. No run fails, no node waits for a worker.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from sandbox.cluster import Sandbox
from sandbox.kubelet.release import IMAGE
from tests.faults.drills.test_rolling import EXTRA_STEP
from tests.faults.drills.test_worker_versions import steps_of
from tests.image.container import stale
from tests.realpod import archives
from tests.realpod.rollouts import ANSWERS_WITHIN, NODES, Histories, Load, live_nodes, roll
from tests.sandbox_fixture import BOOT_SECONDS
from worker.runtime.temporal.version_routing import VersionRouting
from workflows import names

FIRST, OTHER = "first", "other"
"""The tags of both images. The chart makes them the build IDs of the worker's versions."""
VALUES = {"settings": {"workerVersioning": "Automatic", "workerVersionRamp": "10s"}}


@pytest.fixture(scope="module")
def sandbox(able: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    """A sandbox of its own, with versions of the worker."""
    if reason := stale():
        pytest.skip(reason)
    folder = tmp_path_factory.mktemp("versions")
    with Sandbox.start(folder / "state", boot_delay=BOOT_SECONDS, kubelet=True) as running:
        running.install(archives.with_tag(IMAGE, FIRST, folder / FIRST), VALUES)
        yield running


async def current(load: Load) -> str:
    """The build ID that Temporal sends tasks to."""
    queue = names.task_queue(load.sandbox.cluster_name)
    routing = await VersionRouting(load.client, queue, queue).read()
    assert routing is not None
    return routing.current


@pytest.mark.timeout(2400)
async def test_a_hundred_nodes_pass_to_another_version_and_back_and_none_fails_or_waits(
    sandbox: Sandbox, tmp_path: Path
) -> None:
    other = archives.with_extra_steps(IMAGE, OTHER, tmp_path / OTHER)
    ways: tuple[tuple[Callable[[], None], str, bool], ...] = (
        (lambda: sandbox.install(other, VALUES), OTHER, True),
        (sandbox.rollback, FIRST, False),
    )
    began = datetime.now(UTC)
    async with live_nodes(sandbox) as load:
        assert await current(load) == FIRST
        for replace, build_id, extra in ways:
            start = time.monotonic()
            await roll(load, replace)
            print(
                f"{build_id} serves, all is settled, and earlier pods are gone after {time.monotonic() - start:.0f} s"
            )
            assert await current(load) == build_id
            assert (EXTRA_STEP in await steps_of(load.client, sandbox, await load.drain_one())) is extra
        await load.settled()
    histories = await Histories.since(load.client, began)
    assert histories.runs > NODES
    assert (histories.tasks, histories.ended) == (Counter(), Counter())
    assert histories.longest_wait < ANSWERS_WITHIN
