"""`tenon demo` as a user runs it: against the pods of a sandbox with a real node, which then ends without a trace."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from sandbox import stale_worker
from sandbox.cluster import Sandbox
from tests.image.container import stale
from tests.realpod.footprint import cgroup_folders, processes

DEMO_SECONDS = 420


def demo(sandbox: Sandbox) -> subprocess.CompletedProcess[str]:
    """Run the demo against this sandbox."""
    command = [sys.executable, "-m", "cli", "demo", f"--state={sandbox.layout.root}"]
    return subprocess.run(command, capture_output=True, text=True, timeout=DEMO_SECONDS, check=False)


def test_the_demo_plays_against_the_pods_and_the_node_ends_after_it(tmp_path: Path) -> None:
    """It leaves five pods on a node; the sandbox must end as it does without them."""
    if reason := stale():
        pytest.skip(reason)
    with Sandbox.start(tmp_path / "state", kubelet=True) as sandbox:
        done = demo(sandbox)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "drained gracefully" in done.stdout
        pods = json.loads(sandbox.kubectl("get", "pods", "--namespace=tenon", "--output=json"))["items"]
        restarts = [pod["status"]["containerStatuses"][0]["restartCount"] for pod in pods]
        assert restarts == [0, 0]
        assert stale_worker.find(sandbox.layout.root) is None, "the pods decided, and no process next to them"
        ran = processes(sandbox)
    assert [item for item in ran if item.alive()] == []
    assert cgroup_folders(sandbox) == []
    assert not sandbox.layout.node.exists()
