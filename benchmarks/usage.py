"""Measures the CPU seconds and peak memory of groups of processes.

A group is reported as one, such as the worker's three processes. Its memory is the sum over the group at one instant,
and the peak is the largest of these sums. Memory that several processes share, such as the code of libraries, counts
once, as it does for a container's limit. A process that has exited counts with its last measured CPU time.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import psutil
from rich.table import Table

from benchmarks.running import Worker
from sandbox.cluster import Sandbox

PERIOD = 0.5
"""Seconds between two measurements."""
Groups = Callable[[], Mapping[str, Iterable[psutil.Process]]]
Identity = tuple[int, float]
"""Process ID and creation time, because the system reuses process IDs."""


@dataclass(slots=True)
class Tally:
    """Resources that one group has used so far."""

    peak_bytes: int = 0
    first: dict[Identity, float] = field(default_factory=dict)
    last: dict[Identity, float] = field(default_factory=dict)

    @property
    def cpu_seconds(self) -> float:
        """CPU seconds since the first measurement, including the whole time of processes that started later."""
        return sum(self.last.values()) - sum(self.first.values())

    def note(self, observations: Mapping[Identity, tuple[float, int]], *, begins: bool = False) -> None:
        """Record (CPU seconds so far, bytes of memory) of each process. ``begins`` marks the first measurement."""
        if begins:
            self.first = {identity: cpu for identity, (cpu, _) in observations.items()}
        self.last |= {identity: cpu for identity, (cpu, _) in observations.items()}
        self.peak_bytes = max(self.peak_bytes, sum(memory for _, memory in observations.values()))


@dataclass(frozen=True, slots=True)
class Used:
    """Resources that a group of processes used."""

    cpu_seconds: float
    peak_megabytes: float


def used(tally: Tally) -> Used:
    """Round a tally for display."""
    return Used(round(tally.cpu_seconds, 2), round(tally.peak_bytes / 2**20, 1))


class Usage:
    """Context manager that measures groups of processes in its own thread."""

    def __init__(self, groups: Groups) -> None:
        self._groups = groups
        self.tallies: dict[str, Tally] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="usage", daemon=True)

    def __enter__(self) -> Usage:
        """Start measuring."""
        self._look(begins=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Take the last measurement and stop."""
        self._stop.set()
        self._thread.join()
        self._look()

    def _run(self) -> None:
        while not self._stop.wait(PERIOD):
            self._look()

    def _look(self, *, begins: bool = False) -> None:
        for group, processes in self._groups().items():
            entries = list(processes)
            shares = len(entries) > 1
            observations = dict(item for process in entries if (item := _read(process, shares=shares)) is not None)
            self.tallies.setdefault(group, Tally()).note(observations, begins=begins)


def _read(process: psutil.Process, *, shares: bool) -> tuple[Identity, tuple[float, int]] | None:
    """Read the CPU seconds and the bytes of memory of a process.

    If it ``shares`` memory with others of its group, it counts its part of that memory. The kernel computes the part
    from all mappings of the process, so it is read only where it matters.
    """
    try:
        with process.oneshot():
            times = process.cpu_times()
            identity = process.pid, process.create_time()
            memory = process.memory_full_info().pss if shares else process.memory_info().rss
            return identity, (times.user + times.system, memory)
    except psutil.NoSuchProcess:
        return None


def usage_table(useds: dict[str, Used], seconds: float, cores: int) -> Table:
    """Format the usage of each group of processes as a table."""
    table = Table(title="processes")
    for column in ("", "CPU-seconds", "share of the machine", "peak MB"):
        table.add_column(column, justify="left" if not column else "right")
    for name, usage in useds.items():
        share = usage.cpu_seconds / (seconds * cores) if seconds else 0.0
        table.add_row(name, f"{usage.cpu_seconds:.1f}", f"{share:.0%}", f"{usage.peak_megabytes:.0f}")
    return table


def of_worker(worker: Worker) -> Groups:
    """Return groups for the whole worker, and for two of its processes."""

    def groups() -> dict[str, list[psutil.Process]]:
        result = {"worker": worker.processes()}
        for process in result["worker"]:
            for name in ("io", "cluster"):
                if _runs(process, f"worker.runtime.{name}_process"):
                    result.setdefault(f"worker: {name}", []).append(process)
        return result

    return groups


def worker_and_sandbox(sandbox: Sandbox, worker: Worker) -> Groups:
    """Return groups for the whole worker, for two of its processes, and for each component of the sandbox."""
    return with_sandbox(sandbox, of_worker(worker))


def with_sandbox(sandbox: Sandbox, autoscaler: Groups) -> Groups:
    """Return the autoscaler's groups, and one for each component of the sandbox that runs."""
    components = {
        name: psutil.Process(part.process.pid)
        for name, part in sandbox.status().components.items()
        if part.process and part.process.alive()
    }

    return lambda: {**autoscaler(), **{name: [process] for name, process in components.items()}}


def _runs(process: psutil.Process, module: str) -> bool:
    try:
        return module in process.cmdline()
    except psutil.NoSuchProcess:
        return False
