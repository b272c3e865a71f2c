"""Names the machine, because figures of different machines do not compare."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import psutil

CPUINFO = Path("/proc/cpuinfo")


@dataclass(frozen=True, slots=True)
class Machine:
    """The machine, and how busy it was before the first run."""

    processor: str
    cores: int
    gibibytes: int
    load: float
    """Load average of the last minute."""

    def __str__(self) -> str:
        return f"{self.processor}, {self.cores} cores, {self.gibibytes} GiB, load {self.load:g} before the first run"


def this_machine() -> Machine:
    """Return this machine."""
    text = CPUINFO.read_text() if CPUINFO.exists() else ""
    memory = round(psutil.virtual_memory().total / 2**30)
    return Machine(processor(text), os.cpu_count() or 1, memory, round(os.getloadavg()[0], 1))


def processor(cpuinfo: str) -> str:
    """Return the name of the first processor in the text of /proc/cpuinfo."""
    for line in cpuinfo.splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "model name":
            return value.strip()
    return "unknown processor"
