"""What EC2 refuses, as last reported by the provisioner workflow, and what NodePools lack, shared in the process."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from datetime import datetime

from activities.clock import utc_now
from tenon.apis.nodepool import NodePool
from tenon.ec2.refusals.unavailable import UnavailableOfferings, by_offering
from tenon.kube.claim_record import ClaimRecord
from tenon.kube.offerings import OfferingKey
from tenon.messages.provisioning import LaunchBreaker, LaunchReport
from tenon.node.breaker import by_key, is_open, sentence, untried
from tenon.provisioning.capacity_shortage import PoolShortage, TriedLaunch, is_over, refused_again
from tenon.provisioning.launch_breakers import by_pool, is_refused


class LaunchRefusals:
    """Holds the open launch breakers and the offerings to avoid.

    Calls ``on_change`` with the key of each breaker that opens, closes or changes, which is its NodePool for most, and
    with each NodePool whose shortage does.
    """

    def __init__(
        self,
        on_change: Callable[[str], None] = lambda _: None,
        now: Callable[[], datetime] = utc_now,
    ) -> None:
        self._on_change = on_change
        self._now = now
        self._breakers: dict[str, LaunchBreaker] = {}
        self._unavailable: dict[OfferingKey, datetime] = {}
        self._shortages: dict[str, PoolShortage] = {}
        self.reported = False
        """Whether the workflow has reported to this process yet."""
        self.ask: Callable[[], Awaitable[LaunchReport | None]] | None = None
        """Asks the workflow for a report, which is None if it does not answer. None if this process cannot ask."""

    async def refresh(self) -> None:
        """Learn what EC2 refused since the last plan. If the workflow does not answer, what is known stays."""
        report = await self.ask() if self.ask is not None else None
        if report is not None:
            self.update(report.breakers)
            self.replace_unavailable(by_offering(report.unavailable, self._now()))

    def update(self, breakers: Iterable[LaunchBreaker]) -> None:
        """Replace the breakers by those that the workflow reports. Breakers that only count hold nothing back."""
        self.reported = True
        before, self._breakers = self._breakers, by_key(breaker for breaker in breakers if is_open(breaker))
        for key in sorted(before.keys() | self._breakers.keys()):
            if _shown(before.get(key)) != _shown(self._breakers.get(key)):
                self._on_change(key)

    def replace_unavailable(self, until: Mapping[OfferingKey, datetime]) -> None:
        """Replace the offerings that EC2 refused recently, each with the time until which plans avoid it."""
        self._unavailable = dict(until)

    def unavailable(self) -> UnavailableOfferings:
        """The offerings that plans avoid now."""
        return UnavailableOfferings(self.unavailable_until())

    def unavailable_until(self) -> dict[OfferingKey, datetime]:
        """The offerings that plans avoid now, each with the time until which they do."""
        now = self._now()
        return {offering: until for offering, until in self._unavailable.items() if until > now}

    def no_capacity(self, launches: Iterable[TriedLaunch]) -> None:
        """Record NodeClaims that ended because EC2 had no capacity for them."""
        by_pool: dict[str, list[TriedLaunch]] = {}
        for launch in launches:
            by_pool.setdefault(launch.pool, []).append(launch)
        for pool, refused in by_pool.items():
            before = self._shortages.get(pool)
            after = refused_again(before, refused, self.unavailable_until(), self._now())
            self._shortages[pool] = after
            if before is None or before.message != after.message:
                self._on_change(pool)

    def shortage(self, pool: str, launched: datetime | None = None) -> PoolShortage | None:
        """The shortage of a NodePool, unless a NodeClaim ``launched`` since or none was refused for a while."""
        shortage = self._shortages.get(pool)
        if shortage is None:
            return None
        succeeded = launched is not None and launched >= shortage.last.replace(microsecond=0)  # as in the API server
        if succeeded or is_over(shortage, self._now()):
            del self._shortages[pool]
            return None
        return shortage

    def refused_claims(
        self, launching: Callable[[], Iterable[ClaimRecord]]
    ) -> dict[str, tuple[ClaimRecord, LaunchBreaker]]:
        """By name, those of the launching claims that EC2 refuses because of their EC2NodeClass, with its breaker."""
        now = self._now()
        of_classes = {
            class_breaker.node_class: class_breaker
            for class_breaker in self._breakers.values()
            if not untried(class_breaker, now)
        }
        of_classes.pop("", None)
        claims = launching() if of_classes else ()
        claims_and_breakers = (
            (claim, of_classes[claim.class_key]) for claim in claims if claim.class_key in of_classes
        )
        return {
            claim.name: (claim, breaker) for claim, breaker in claims_and_breakers if is_refused(claim, breaker, now)
        }

    def breakers(self, pools: Iterable[NodePool]) -> dict[str, LaunchBreaker]:
        """By NodePool, the breaker that holds it back, without those that no launch has tried for a long time."""
        now = self._now()
        return by_pool({key: breaker for key, breaker in self._breakers.items() if not untried(breaker, now)}, pools)


def _shown(breaker: LaunchBreaker | None) -> str | None:
    return None if breaker is None else f"{breaker.reason} {sentence(breaker)}"
