"""A worker that takes faults for as old as their conditions say, although the Nodes are young; and such faults."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from sandbox.cluster import Sandbox
from tests.e2e.conftest import MakeWorker
from tests.e2e.other_worker import in_place_of
from tests.e2e.worker import Worker
from tests.e2e.worker_process import WorkerProcess

OVERDUE = timedelta(minutes=31)


def instead(
    worker: Worker, make_worker: MakeWorker, sandbox: Sandbox, name: str, *, is_legacy: bool = False
) -> Iterator[Worker]:
    """Run another worker in place of the one of the tests. With ``is_legacy``, with the repair of Karpenter 1.14."""
    if make_worker is not WorkerProcess:
        pytest.skip("a worker in a pod has no PYTHONPATH")
    folder = Path(__file__).parent / "ageless_nodes"
    path = os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
    other = make_worker(
        sandbox,
        name,
        FEATURE_GATES="NodeRepair=true",
        LEGACY_NODE_REPAIR=str(is_legacy).lower(),
        PYTHONPATH=path,
    )
    with in_place_of(worker, other):
        yield other


def report(sandbox: Sandbox, node: str, type_: str, ago: timedelta = OVERDUE, reason: str = "Test") -> None:
    """Set a condition to False, as the node monitoring agent does."""
    since = (datetime.now(UTC) - ago).strftime("%Y-%m-%dT%H:%M:%SZ")
    written = {"type": type_, "status": "False", "lastTransitionTime": since, "reason": reason, "message": "broken"}
    patch = json.dumps({"status": {"conditions": [written]}})
    sandbox.kubectl("patch", "node", node, "--subresource=status", "--patch", patch)
