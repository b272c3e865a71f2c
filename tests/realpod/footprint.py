"""What a real node could leave on the machine: processes, mounts, cgroups, interfaces, kernel settings, folders."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from sandbox.cluster import Sandbox
from sandbox.kubelet import cgroups
from sandbox.kubelet.inside import KERNEL_SETTINGS
from sandbox.status import Process

FOLDERS = ("/etc", "/opt", "/run", "/var/lib", "/var/log")
"""Where kubelets, containerd and network plugins keep state."""


@dataclass(frozen=True)
class Footprint:
    """The state of the machine, as far as no other program changes it."""

    interfaces: frozenset[str]
    settings: tuple[str, ...]
    folders: frozenset[str]

    @classmethod
    def now(cls) -> Footprint:
        return cls(
            frozenset(os.listdir("/sys/class/net")),
            tuple(Path("/proc/sys", setting).read_text() for setting in KERNEL_SETTINGS),
            frozenset(str(path) for folder in FOLDERS for path in Path(folder).iterdir()),
        )


def processes(sandbox: Sandbox) -> list[Process]:
    """All processes of the node, with those of containers, which are in process namespaces of their own."""
    first = psutil.Process(Process.model_validate_json(sandbox.layout.node_process.read_text()).pid)
    result = []
    for item in (first, *first.children(recursive=True)):
        with suppress(psutil.NoSuchProcess):  # it has just ended
            result.append(Process.of(item.pid))
    return result


def cgroup_folders(sandbox: Sandbox) -> list[Path]:
    """The node's cgroups, in every hierarchy."""
    return sorted(Path("/sys/fs/cgroup").glob(f"*/{cgroups.name(sandbox.layout.root)}"))


def mounts(sandbox: Sandbox) -> list[str]:
    """Mounts on this machine in or of the sandbox's folder."""
    return [line for line in cgroups.MOUNTS.read_text().splitlines() if str(sandbox.layout.root) in line]
