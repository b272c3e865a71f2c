"""The NodePools whose launches EC2 refuses, as the provisioner's workflow last said, for all parts of the process."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime

from tenon.lifecycle.breaker import untried
from tenon.lifecycle.messages import LaunchBreaker


class HeldPools:
    """The open launch breakers. ``on_change`` hears the name of each NodePool that comes, goes or changes."""

    def __init__(
        self,
        on_change: Callable[[str], None] = lambda _: None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._on_change = on_change
        self._now = now
        self._breakers: dict[str, LaunchBreaker] = {}
        self.known = False
        """Whether the workflow has said anything to this process."""

    def update(self, breakers: Iterable[LaunchBreaker]) -> None:
        """What the workflow knows now."""
        self.known = True
        before, self._breakers = self._breakers, {breaker.pool: breaker for breaker in breakers}
        for pool in sorted(before.keys() | self._breakers.keys()):
            if _told(before.get(pool)) != _told(self._breakers.get(pool)):
                self._on_change(pool)

    def current(self) -> dict[str, LaunchBreaker]:
        """By pool; without those that nothing has tried for long."""
        now = self._now()
        return {pool: breaker for pool, breaker in self._breakers.items() if not untried(breaker, now)}


def _told(breaker: LaunchBreaker | None) -> tuple[str, str] | None:
    return None if breaker is None else (breaker.reason, breaker.message)
