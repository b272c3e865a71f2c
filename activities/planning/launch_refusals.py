"""What EC2 refuses, as last reported by the provisioner workflow, shared within the process."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime

from activities.clock import utc_now
from tenon.ec2.avoided import UnavailableOfferings
from tenon.kube.offerings import OfferingKey
from tenon.lifecycle.breaker import sentence, untried
from tenon.lifecycle.messages.provisioning import LaunchBreaker


class LaunchRefusals:
    """Holds the open launch breakers and the offerings to avoid.

    Calls ``on_change`` with each NodePool whose breaker opens, closes or changes.
    """

    def __init__(
        self,
        on_change: Callable[[str], None] = lambda _: None,
        now: Callable[[], datetime] = utc_now,
    ) -> None:
        self._on_change = on_change
        self._now = now
        self._breakers: dict[str, LaunchBreaker] = {}
        self._avoided: dict[OfferingKey, datetime] = {}
        self.known = False
        """Whether the workflow has reported to this process yet."""

    def update(self, breakers: Iterable[LaunchBreaker]) -> None:
        """Replace the breakers by those that the workflow reports."""
        self.known = True
        before, self._breakers = self._breakers, {breaker.pool: breaker for breaker in breakers}
        for pool in sorted(before.keys() | self._breakers.keys()):
            if _shown(before.get(pool)) != _shown(self._breakers.get(pool)):
                self._on_change(pool)

    def avoid(self, until: Mapping[OfferingKey, datetime]) -> None:
        """Replace the offerings that EC2 refused recently, each with the time until which plans avoid it."""
        self._avoided = dict(until)

    def avoided(self) -> UnavailableOfferings:
        """The offerings that plans avoid now."""
        now = self._now()
        return UnavailableOfferings(offering for offering, until in self._avoided.items() if until > now)

    def breakers(self) -> dict[str, LaunchBreaker]:
        """NodePool name to its breaker, without breakers that no launch has tried for a long time."""
        now = self._now()
        return {pool: breaker for pool, breaker in self._breakers.items() if not untried(breaker, now)}


def _shown(breaker: LaunchBreaker | None) -> str | None:
    return None if breaker is None else f"{breaker.reason} {sentence(breaker)}"
