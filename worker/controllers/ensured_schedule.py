"""What controllers learn of a Temporal Schedule that must exist."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from temporalio.client import Client, Schedule


@dataclass(frozen=True, slots=True)
class EnsuredSchedule:
    """A Temporal Schedule that exists as it must."""

    changed: bool
    """Whether it was created or corrected."""
    paused: bool
    """Whether an operator has paused it."""


EnsureSchedule = Callable[[Client, str, Schedule], Awaitable[EnsuredSchedule]]
"""Creates the Schedule of this id, or corrects it. `worker.runtime.temporal.temporal_schedules`."""
