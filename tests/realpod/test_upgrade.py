"""A hundred live nodes pass to this commit's image and chart and back, while nodes launch and drain.

Nothing is lost or bought twice, and no workflow fails.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from sandbox.cluster import Sandbox
from tests.image.container import stale
from tests.realpod import archives
from tests.realpod.rollouts import ANSWERS_WITHIN, NODES, Histories, live_nodes, roll
from tests.sandbox_fixture import BOOT_SECONDS

PREVIOUS = "PREVIOUS_RELEASE"
"""The environment variable that names the folder with the files of the release before this version."""


def previous_release() -> tuple[Path, Path]:
    """The image and the chart of the release before. Skips the test if there is none."""
    location = os.environ.get(PREVIOUS)
    if not location:
        pytest.skip(
            f"0.1.0 is the first release, so there is none to upgrade from. {PREVIOUS} may name a folder with "
            "what `make release` wrote on an earlier commit."
        )
    matching = [[*Path(location).glob(pattern)] for pattern in ("tenon-image-*.tar", "tenon-[0-9]*.tgz")]
    if [len(files) for files in matching] != [1, 1]:
        pytest.fail(
            f"{PREVIOUS} names {location}, which must have one image and one chart, as `make release` writes them."
        )
    return matching[0][0], matching[1][0]


@pytest.fixture(scope="module")
def sandbox(able: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    """A sandbox of its own, in which the previous version is installed."""
    image, chart = previous_release()
    if reason := stale():
        pytest.skip(reason)
    folder = tmp_path_factory.mktemp("upgrade")
    with Sandbox.start(folder / "state", boot_delay=BOOT_SECONDS, kubelet=True) as running:
        # Containerd and the chart know an image by its tag, which this commit's may have too.
        running.install(archives.with_tag(image, "before", folder / "before"), chart=chart)
        yield running


@pytest.mark.timeout(1500)
async def test_a_hundred_nodes_pass_to_this_version_and_back_without_a_failed_task_or_run(sandbox: Sandbox) -> None:
    began = datetime.now(UTC)
    async with live_nodes(sandbox) as load:
        await roll(load, sandbox.install)
        await roll(load, sandbox.rollback)
    histories = await Histories.since(load.client, began)
    assert histories.runs > NODES
    assert (histories.tasks, histories.ended) == (Counter(), Counter())
    assert histories.longest_wait < ANSWERS_WITHIN
