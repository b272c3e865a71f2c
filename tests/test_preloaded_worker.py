"""`PreloadedWorker`: a worker that forks from a process with loaded modules behaves as one that is started.

That its processes end together is shown by `tests/e2e/test_restart.py`.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.preloaded_worker import PreloadedWorker
from worker.runtime.child_processes import EXIT_UNUSABLE

pytestmark = pytest.mark.integration
SECONDS = 280


@pytest.fixture(scope="module")
def preloaded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PreloadedWorker]:
    server = PreloadedWorker(tmp_path_factory.mktemp("workers"))
    yield server
    server.close()


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({}, "CLUSTER_NAME is required"),
        ({"CLUSTER_NAME": "c", "BATCH_IDLE_DURATION": "x"}, "BATCH_IDLE_DURATION='x' cannot be used"),
        ({"CLUSTER_NAME": "c", "KUBECONFIG": "/none"}, "The Kubernetes client cannot be configured"),
    ],
    ids=["a setting that is missing", "a setting that is malformed", "a file that both children read"],
)
def test_what_is_missing_is_said_in_the_same_words_and_is_the_exit_status(
    preloaded: PreloadedWorker, tmp_path: Path, changes: dict[str, str], text: str
) -> None:
    environment = {"PATH": os.environ["PATH"], "TEMPORAL_ADDRESS": "127.0.0.1:1", **changes}
    started = subprocess.run(
        [sys.executable, "-m", "cli", "worker"],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
        text=True,
    )
    log = tmp_path / "log"
    with log.open("wb") as output:
        forked = preloaded.start(environment, output).wait(SECONDS)
    assert forked == started.returncode == EXIT_UNUSABLE
    last_line, expected = log.read_text().splitlines()[-1], started.stdout.splitlines()[-1]
    assert last_line == expected
    assert last_line.startswith(text)
