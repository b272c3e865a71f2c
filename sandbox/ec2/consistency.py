"""EC2's and IAM's eventual consistency: what was just created is not seen everywhere at once.

A launch cannot use a new instance profile for some seconds. DescribeInstances may show a new instance late, and its
tags later. Which instances are late is drawn from a seed.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock
from typing import ClassVar

from pydantic import ConfigDict

LONGEST = 600.0


@dataclass(frozen=True)
class Delays:
    """Seconds until something is seen. With 0 it is seen at once."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    profile: float = 0.0
    """Until a launch can use a new instance profile, or a profile that got a role. AWS takes about 10 seconds."""
    instance: float = 0.0
    """The longest time until DescribeInstances shows a new instance."""
    tags: float = 0.0
    """The longest time until it then shows the instance's tags, and finds it by them."""
    chance: float = 0.5
    """The share of instances that are late."""
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.chance <= 1:
            raise ValueError(f"chance {self.chance} is out of bounds: give 0 to 1")
        for name in ("profile", "instance", "tags"):
            if not 0 <= getattr(self, name) <= LONGEST:
                raise ValueError(f"{name} {getattr(self, name)} is out of bounds: give 0 to {LONGEST:g} seconds")

    def of_instance(self, number: int) -> tuple[float, float]:
        """Seconds until the ``number``-th instance is shown, and until its tags are."""
        draw = random.Random(f"{self.seed}/{number}")
        if draw.random() >= self.chance:
            return 0.0, 0.0
        shown = draw.random() * self.instance
        return shown, shown + draw.random() * self.tags


AT_ONCE = Delays()
USUAL = Delays(profile=1.0, instance=1.0, tags=1.0)
"""Shorter than AWS's own, so that tests take no longer, and long enough that code which looks at once finds nothing."""


class Consistency:
    """The delays of an account, and its new instance profiles. Thread-safe."""

    def __init__(self, clock: Callable[[], float], usual: Delays = AT_ONCE) -> None:
        self._clock = clock
        self._usual = usual
        self.delays = usual
        self._usable: dict[str, float] = {}
        self._lock = Lock()

    def profile_changed(self, name: str) -> None:
        """Note that an instance profile was created, or got a role."""
        with self._lock:
            self._usable[name] = self._clock() + self.delays.profile

    def knows_profile(self, name: str) -> bool:
        """Whether a launch can use the profile, as far as its age is concerned."""
        return self._clock() >= self._usable.get(name, 0.0)

    def restore(self) -> None:
        """Go back to the usual delays."""
        self.delays = self._usual

    def clear(self) -> None:
        """Forget the profiles, and go back to the usual delays, for a reset."""
        with self._lock:
            self.restore()
            self._usable.clear()
