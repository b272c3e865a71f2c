"""A worker as the tests see it from outside, wherever it runs."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any

from sandbox.cluster import Sandbox

READY_SECONDS = 180.0


class Worker(ABC):
    """A worker that can be started, killed and started again."""

    def __init__(self, sandbox: Sandbox, name: str) -> None:
        self.log = Path(sandbox.logs) / f"{name}.log"
        """What it logged, over all its starts."""

    @abstractmethod
    def start(self) -> None:
        """Start it and return once /readyz says so."""

    @abstractmethod
    def stop(self) -> int:
        """Ask it to stop; its exit status."""

    @abstractmethod
    def crash(self) -> int:
        """Kill all its processes at once; the exit status of what had started them."""

    @property
    @abstractmethod
    def running(self) -> bool:
        """Whether it was started and has not ended."""

    @abstractmethod
    def page(self, path: str) -> str:
        """What its metrics port answers for a path."""

    def metric(self, name: str, **labels: str) -> float:
        """The sum over a metric's series with these labels, as /metrics has it."""
        texts = [f'{key}="{value}"' for key, value in labels.items()]
        lines = (line for line in self.page("/metrics").splitlines() if line.startswith((f"{name}{{", f"{name} ")))
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines if all(label in line for label in texts))

    def logged(self, message: str, **fields: Any) -> list[dict[str, Any]]:
        """The lines of its log with this message and these fields."""
        result = []
        for line in self.log.read_text(errors="replace").splitlines():
            if line.startswith("{"):
                entry = json.loads(line)
                if entry.get("message") == message and all(entry.get(k) == v for k, v in fields.items()):
                    result.append(entry)
        return result
