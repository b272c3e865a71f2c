"""The node itself: pods run on it, and it leaves nothing behind, however it ends."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from sandbox.cluster import Sandbox
from sandbox.errors import SandboxError
from sandbox.kubelet import NODE
from sandbox.kubelet.images import PAUSE_IMAGE
from sandbox.status import State
from tests.realpod.footprint import Footprint, cgroup_folders, mounts, processes

POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "first", "namespace": "default"},
    "spec": {
        "nodeSelector": {"kubernetes.io/hostname": NODE},
        "tolerations": [{"key": "CriticalAddonsOnly", "operator": "Exists"}],
        "containers": [{"name": "pause", "image": PAUSE_IMAGE, "imagePullPolicy": "Never"}],
    },
}


def run_a_pod(sandbox: Sandbox) -> None:
    """Run a pod on the node, scheduled by kube-scheduler."""
    sandbox.apply(POD)
    sandbox.kubectl("wait", "--for=condition=Ready", "pod/first", "--timeout=60s")


def test_a_pod_runs_and_nothing_of_the_node_is_left(tmp_path: Path) -> None:
    before = Footprint.now()
    with Sandbox.start(tmp_path / "state", kubelet=True) as sandbox:
        run_a_pod(sandbox)
        ran = processes(sandbox)
        commands = {Path(f"/proc/{item.pid}/comm").read_text().strip() for item in ran}
        assert commands >= {"containerd", "kubelet", "pause"}
        assert cgroup_folders(sandbox)
        assert mounts(sandbox) == []
        assert Footprint.now() == before
    assert [item for item in ran if item.alive()] == []
    assert cgroup_folders(sandbox) == []
    assert not sandbox.layout.node.exists()
    assert Footprint.now() == before


def test_a_killed_node_ends_the_sandbox_and_down_removes_the_rest(tmp_path: Path) -> None:
    sandbox = Sandbox.start(tmp_path / "state", kubelet=True)
    try:
        run_a_pod(sandbox)
        ran = processes(sandbox)
        component = sandbox.status().components["kubelet"].process
        assert component is not None
        os.kill(component.pid, signal.SIGKILL)
        ended = sandbox.wait()
    finally:
        sandbox.stop()
    assert ended.state is State.FAILED
    assert "kubelet ended with signal SIGKILL" in ended.message
    assert [item for item in ran if item.alive()] == []
    assert cgroup_folders(sandbox) == []
    assert not sandbox.layout.node.exists()


def test_a_dead_kubelet_ends_the_sandbox_and_says_so(tmp_path: Path) -> None:
    sandbox = Sandbox.start(tmp_path / "state", kubelet=True)
    try:
        (kubelet,) = [
            process for process in processes(sandbox) if Path(f"/proc/{process.pid}/comm").read_text() == "kubelet\n"
        ]
        os.kill(kubelet.pid, signal.SIGKILL)
        ended = sandbox.wait()
    finally:
        sandbox.stop()
    assert (ended.state, "the kubelet ended with signal 9" in ended.message) == (State.FAILED, True)
    assert cgroup_folders(sandbox) == []


def test_install_without_an_image_says_what_to_run(tmp_path: Path) -> None:
    with (
        Sandbox.start(tmp_path / "state", kubelet=True) as sandbox,
        pytest.raises(SandboxError, match="run `make image`"),
    ):
        sandbox.install(tmp_path / "none.tar")
