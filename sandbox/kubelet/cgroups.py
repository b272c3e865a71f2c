"""The cgroups of the node. They are the only thing of it that is outside of its namespaces, so they must be removed."""

from __future__ import annotations

import hashlib
import os
import time
from pathlib import Path

MOUNTS = Path("/proc/self/mountinfo")
NEEDED = ("cpu", "cpuset", "devices", "memory", "pids")
"""The controllers without which no container starts."""
REMOVE_SECONDS = 5.0
POLL_SECONDS = 0.05


def name(root: Path) -> str:
    """The name of the cgroup for the sandbox in the folder ``root``."""
    return f"tenon-sandbox-{hashlib.sha256(os.fsencode(root)).hexdigest()[:10]}"


def hierarchies(mounts: str, *kinds: str) -> list[tuple[Path, frozenset[str]]]:
    """Where hierarchies of these kinds are mounted, each with its controllers, from the content of a mountinfo file."""
    result = []
    for line in mounts.splitlines():
        before, _, after = line.partition(" - ")
        kind, _, options = after.split(" ", 2)
        if kind in kinds:
            result.append((Path(before.split(" ")[4]), frozenset(options.split(","))))
    return result


def mounted() -> list[tuple[Path, frozenset[str]]]:
    """The cgroup v1 hierarchies of this machine."""
    return hierarchies(MOUNTS.read_text(), "cgroup")


def missing() -> list[str]:
    """The needed controllers that no hierarchy of this machine has."""
    union = frozenset[str]().union(*(controllers for _, controllers in mounted()))
    return [controller for controller in NEEDED if controller not in union]


def create(cgroup: str) -> None:
    """Create the cgroup in every hierarchy. In cpuset, it may use every processor, or else no process could enter it.

    Raises:
        OSError: this process may not.
    """
    for root, controllers in mounted():
        folder = root / cgroup
        folder.mkdir(exist_ok=True)
        if "cpuset" in controllers:
            for file in ("cpuset.cpus", "cpuset.mems"):
                (folder / file).write_text((root / file).read_text())


def remove(cgroup: str) -> None:
    """Remove the cgroup and those below it from every hierarchy, once the processes in them have ended.

    runc makes one in the unified hierarchy too, where that is mounted along with the others.

    Raises:
        OSError: a process in them did not end.
    """
    deadline = time.monotonic() + REMOVE_SECONDS
    for root, _ in hierarchies(MOUNTS.read_text(), "cgroup", "cgroup2"):
        for folder, _, _ in os.walk(root / cgroup, topdown=False):
            _remove(Path(folder), deadline)


def _remove(folder: Path, deadline: float) -> None:
    while True:
        try:
            folder.rmdir()
        except FileNotFoundError:
            return
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(POLL_SECONDS)
        else:
            return
