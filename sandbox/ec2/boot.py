"""How instances become nodes: the plan that an operator can change to rehearse failures."""

from __future__ import annotations

from dataclasses import dataclass
from threading import Lock


@dataclass(frozen=True)
class BootRule:
    """For instances of one type (None: all): seconds until the node joins, and what goes wrong."""

    instance_type: str | None = None
    delay: float | None = None
    """Seconds from running to joining; None keeps the default."""
    never: bool = False
    """The node never joins."""
    not_ready: bool = False
    """The node joins and never becomes Ready."""

    def __post_init__(self) -> None:
        if self.delay is not None and not 0 <= self.delay <= 86_400:
            raise ValueError(f"delay {self.delay} is out of bounds: give 0 to 86400 seconds")


class BootPlan:
    """The rules in force; the newest that fits an instance wins."""

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

    def rule(self, instance_type: str) -> BootRule:
        """What holds for a type, its delay filled in."""
        for rule in reversed(self.rules()):
            if rule.instance_type in (None, instance_type):
                delay = self.default_delay if rule.delay is None else rule.delay
                return BootRule(instance_type, delay, rule.never, rule.not_ready)
        return BootRule(instance_type, self.default_delay)

    def due(self, instance_type: str, running_since: float | None, now: float) -> bool:
        """Whether the node of an instance joins by now."""
        rule = self.rule(instance_type)
        return not rule.never and running_since is not None and now >= running_since + (rule.delay or 0.0)
