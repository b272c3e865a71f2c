"""How instances become nodes. An operator can change the rules to simulate failures."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from threading import Lock

START_SHARE = 0.2
"""What part of a first boot the boot of an instance takes that was stopped. Its disk has its packages and images, and
cloud-init has nothing to do any more.
"""


@dataclass(frozen=True)
class BootRule:
    """A rule for instances of one type (None: all): seconds until the node joins, and what goes wrong."""

    instance_type: str | None = None
    delay: float | None = None
    """Seconds from running to joining. None keeps the default."""
    never: bool = False
    """The node never joins."""
    not_ready: bool = False
    """The node joins but never becomes Ready."""
    dies: bool = False
    """The instance terminates at the moment when its node would join."""
    console: str = ""
    """What the instance writes to its console when it runs, before its node joins or does not."""
    chance: float = 1.0
    """The share of instances that the rule applies to, chosen by ``seed`` and the instance's number."""
    seed: int = 0

    def __post_init__(self) -> None:
        if self.delay is not None and not 0 <= self.delay <= 86_400:
            raise ValueError(f"delay {self.delay} is out of bounds: give 0 to 86400 seconds")
        if not 0 <= self.chance <= 1:
            raise ValueError(f"chance {self.chance} is out of bounds: give 0 to 1")

    def covers(self, instance_type: str, number: int) -> bool:
        """Whether the rule applies to the ``number``-th instance, which has this type."""
        if self.instance_type not in (None, instance_type):
            return False
        return self.chance >= 1 or random.Random(f"{self.seed}/{number}").random() < self.chance


class BootPlan:
    """The active rules. The newest that matches an instance wins."""

    def __init__(self, default_delay: float = 8.0) -> None:
        self.default_delay = default_delay
        self._rules: list[BootRule] = []
        self._lock = Lock()

    def add(self, rule: BootRule) -> None:
        with self._lock:
            self._rules.append(rule)

    def clear(self) -> None:
        with self._lock:
            self._rules.clear()

    def rules(self) -> list[BootRule]:
        with self._lock:
            return list(self._rules)

    def rule(self, instance_type: str, number: int = 0) -> BootRule:
        """The rule for an instance, with its delay filled in."""
        for rule in reversed(self.rules()):
            if rule.covers(instance_type, number):
                delay = self.default_delay if rule.delay is None else rule.delay
                return replace(rule, instance_type=instance_type, delay=delay)
        return BootRule(instance_type, self.default_delay)

    def due(
        self, instance_type: str, running_since: float | None, now: float, number: int = 0, *, again: bool = False
    ) -> bool:
        """Whether it is time for the instance's node to join, or for the instance to die. ``again``: it was stopped
        before, so its boot is short.
        """
        rule = self.rule(instance_type, number)
        delay = (rule.delay or 0.0) * (START_SHARE if again else 1.0)
        return not rule.never and running_since is not None and now >= running_since + delay
