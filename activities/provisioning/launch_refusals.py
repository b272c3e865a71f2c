"""What EC2 refuses, as last reported by the provisioner workflow, and what NodePools lack, shared in the process."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from datetime import datetime, timedelta

from activities.clock import utc_now
from tenon.apis import labels
from tenon.apis.nodepool import NodePool
from tenon.ec2.refusals.backoff import FIRST_PROBE_PAUSE, Backoff, shows_capacity
from tenon.ec2.refusals.known_quotas import KnownQuotas, ruled_out, with_claims
from tenon.ec2.refusals.unavailable import UnavailableOfferings, backoffs_of, refusals_of
from tenon.kube.claim_record import ClaimRecord
from tenon.kube.offerings import QUOTA, OfferingKey
from tenon.messages.provisioning import LaunchBreaker, LaunchReport
from tenon.node.launch_breaker import by_key, is_open, sentence, untried
from tenon.provisioning.capacity_shortage import LASTS, PoolShortage, TriedLaunch, is_over, refused_again
from tenon.provisioning.launch_budget import Storm, free_launches, is_scarce, refused_in_storm
from tenon.provisioning.launch_refusals import by_pool, is_refused
from tenon.scheduling.model import PlannedClaim

READ_AGAIN_WITHIN = timedelta(minutes=2)
"""How long a plan's pods count as waiting for a quota, and the time until which sentences say that it is used up."""
QUOTAS_VALID_FOR = timedelta(minutes=30)
"""How old the quotas may be that plans follow."""


class LaunchRefusals:
    """Holds the open launch breakers and the unavailable offerings.

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
        self._backoffs: dict[OfferingKey, Backoff] = {}
        self._reopened: dict[OfferingKey, Backoff] = {}
        """What plans use again, as the workflow knew it: it hears of that only from the plan's result."""
        self._shortages: dict[str, PoolShortage] = {}
        self._storms: dict[tuple[str, str], Storm] = {}
        """By NodePool and capacity type."""
        self._quotas: KnownQuotas | None = None
        self._over_quota: frozenset[OfferingKey] = frozenset()
        self._waits_for_quota_until: datetime | None = None
        self._probed: dict[OfferingKey, datetime] = {}
        self._reported_since: datetime | None = None
        """When the workflow first reported to this leader; None if it has not yet."""
        self.ask: Callable[[], Awaitable[LaunchReport | None]] | None = None
        """Asks the workflow for a report, which is None if it does not answer. None if this process cannot ask."""

    @property
    def reported(self) -> bool:
        """Whether the workflow has reported to this leader yet."""
        return self._reported_since is not None

    @property
    def sees_all_shortages(self) -> bool:
        """Whether this leader has planned for so long that it saw a refusal of each shortage that lasts."""
        return self._reported_since is not None and self._now() - self._reported_since > LASTS

    async def refresh(self) -> None:
        """Learn what EC2 refused since the last plan. If the workflow does not answer, what is known stays."""
        report = await self.ask() if self.ask is not None else None
        if report is not None:
            self.update(report.breakers)
            reopened = self._reopened
            self.replace_unavailable(backoffs_of(report.unavailable))
            self.reopen(key for key, backoff in reopened.items() if self._backoffs.get(key) == backoff)

    def update(self, breakers: Iterable[LaunchBreaker]) -> None:
        """Replace the breakers by those that the workflow reports. Breakers that only count hold nothing back."""
        self._reported_since = self._reported_since or self._now()
        before, self._breakers = self._breakers, by_key(breaker for breaker in breakers if is_open(breaker))
        for key in sorted(before.keys() | self._breakers.keys()):
            if _shown(before.get(key)) != _shown(self._breakers.get(key)):
                self._on_change(key)

    def replace_unavailable(self, backoffs: Mapping[OfferingKey, Backoff]) -> None:
        """Replace what EC2 refused recently."""
        self._backoffs = dict(backoffs)
        self._reopened = {}

    def any_refused(self) -> bool:
        """Whether EC2 refused an offering in the last minutes, also if plans use it again."""
        return any(backoff.refused_at is not None for backoff in self._backoffs.values())

    def backoffs(self) -> dict[OfferingKey, Backoff]:
        """The offerings that plans avoid now: those that EC2 refused, and those that a quota has no room for.

        A quota that was read counts, not what an earlier plan said of it.
        """
        now, quotas = self._now(), self.quotas()
        backoffs = {
            offering: backoff
            for offering, backoff in self._backoffs.items()
            if backoff.is_active(now) and (quotas is None or offering.scope != QUOTA or backoff.refused_at is not None)
        }
        if quotas is not None:
            backoffs |= dict.fromkeys(self._over_quota, Backoff(max(now, quotas.read_at) + READ_AGAIN_WITHIN))
        return backoffs

    def replace_quotas(self, quotas: KnownQuotas | None) -> None:
        """Replace what the vCPU quotas of the account leave; None if the worker may not read them."""
        self._quotas = quotas
        self._over_quota = ruled_out(quotas) if quotas is not None else frozenset()

    def quotas(self, claims: Iterable[ClaimRecord] = ()) -> KnownQuotas | None:
        """The quotas that were read a short time ago, without what NodeClaims use that were not launched then."""
        if self._quotas is None or self._now() - self._quotas.read_at > QUOTAS_VALID_FOR:
            return None
        return with_claims(self._quotas, claims)

    def used_up_quotas(self, keys: Collection[OfferingKey]) -> dict[OfferingKey, Backoff]:
        """Those of the quotas that are known to have no room for any of their types."""
        backoffs = self.backoffs()
        return {
            key: backoffs[key] for key in keys if key in backoffs and key in self._over_quota and key.scope == QUOTA
        }

    def unavailable_for_quotas(self) -> dict[OfferingKey, datetime]:
        """What a quota has no room for, by what was read or by what EC2 said, and until when."""
        return {
            key: backoff.until
            for key, backoff in self.backoffs().items()
            if key.scope == QUOTA or key in self._over_quota
        }

    def quota_lacks(self) -> None:
        """Record that pods wait for a quota, which is worth another look at it soon."""
        self._waits_for_quota_until = self._now() + READ_AGAIN_WITHIN

    def waits_for_quota(self) -> bool:
        """Whether pods waited for a quota a moment ago."""
        return self._waits_for_quota_until is not None and self._now() < self._waits_for_quota_until

    def unavailable(self) -> UnavailableOfferings:
        """The offerings that plans avoid now."""
        return UnavailableOfferings(self.backoffs())

    def next_attempts(self) -> dict[OfferingKey, datetime]:
        """The offerings that plans avoid now, each with the time from which a NodeClaim may ask EC2 for it again.

        A time that has come stays until EC2 has answered: events about pods would otherwise differ from plan to plan.
        """
        return {offering: backoff.probe_at for offering, backoff in self.backoffs().items()}

    def due(self) -> frozenset[OfferingKey]:
        """The offerings that a single NodeClaim may ask for now, if nothing else fits its pods.

        Those of reservations are left out, because their places are counted.
        """
        now = self._now()
        self._probed = {key: at for key, at in self._probed.items() if now < at + FIRST_PROBE_PAUSE}
        return frozenset(
            key
            for key, backoff in self.backoffs().items()
            if backoff.probe_at <= now and key not in self._probed and key.capacity_type != labels.RESERVED
        )

    def probing(self, offerings: Iterable[OfferingKey]) -> None:
        """Record that a NodeClaim asks for these offerings, which are not due again before EC2 has answered."""
        self._probed |= dict.fromkeys(offerings, self._now())

    def reopened(self, claims: Iterable[ClaimRecord]) -> frozenset[OfferingKey]:
        """The refused offerings of which an instance was launched later, so that plans may use them again."""
        backoffs = self.backoffs()
        if not backoffs:
            return frozenset()
        return frozenset(
            key
            for claim in claims
            if (launched_at := claim.launched_at) is not None
            for key in refusals_of(backoffs, OfferingKey.of_labels(claim.labels))
            if shows_capacity(backoffs[key], launched_at)
        )

    def reopen(self, offerings: Iterable[OfferingKey]) -> None:
        """Let plans use these offerings again, until EC2 refuses them the next time."""
        now = self._now()
        for key in offerings:
            self._reopened[key] = self._backoffs[key]
            self._backoffs[key] = self._backoffs[key]._replace(until=now)

    def is_scarce(self, claim: PlannedClaim) -> bool:
        """Whether a planned node counts against the launch budget of its NodePool."""
        return is_scarce(claim.instance_types, self.storm(claim.pool, claim.offering.capacity_type))

    def free_launches(self, claims: Iterable[ClaimRecord], pool: str, capacity_type: str) -> int:
        """How many more such nodes the NodePool may launch now. ``claims``: all NodeClaims."""
        return free_launches(claims, pool, capacity_type, self.storm(pool, capacity_type), self._now())

    def storm(self, pool: str, capacity_type: str) -> Storm | None:
        """What EC2 refused of a NodePool in one capacity type; None if it refused nothing of it for a while."""
        storm = self._storms.get((pool, capacity_type))
        if storm is not None and self._now() - storm.last > LASTS:
            del self._storms[pool, capacity_type]
            return None
        return storm

    def no_capacity(self, launches: Iterable[TriedLaunch]) -> None:
        """Record NodeClaims that ended because EC2 had no capacity for them."""
        by_pool: dict[str, list[TriedLaunch]] = {}
        for launch in launches:
            by_pool.setdefault(launch.pool, []).append(launch)
            subject = launch.pool, launch.cheapest.capacity_type
            self._storms[subject] = refused_in_storm(self.storm(*subject), launch.instance_types, self._now())
        for pool, refused in by_pool.items():
            before = self._shortages.get(pool)
            after = refused_again(before, refused, self.backoffs(), self._now())
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
