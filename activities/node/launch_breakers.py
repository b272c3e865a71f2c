"""What EC2 recently refused to this io process: offerings without capacity, and launches of NodePools.

Each launch checks the breakers before it is prepared and again before it is sent. If EC2 has not recently accepted a
launch of the NodePool, two launches go first and the others wait for their outcome, so that a hundred claims that EC2
refuses cost only two calls.

The claims that a breaker holds back probe in turn. If one claim always probed, a claim whose request EC2 would never
accept could hold back the others.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable
from datetime import datetime, timedelta

from activities.node.unlaunched_claims import UnreportedClaims
from tenon.apis import labels
from tenon.ec2.refusals.backoff import FIRST_PROBE_PAUSE, Backoff
from tenon.ec2.refusals.unavailable import (
    UNAVAILABLE_OFFERINGS_TTL,
    UnavailableOfferings,
    backoffs_of,
    grouped,
    refused_now,
)
from tenon.evolve import evolve
from tenon.kube.claim_record import ClaimRecord
from tenon.kube.offerings import OfferingKey
from tenon.messages.offerings import OfferingRef
from tenon.messages.provisioning import LaunchBreaker, LaunchReport
from tenon.node import launch_breaker as rules
from tenon.provisioning.unavailable_offerings import unavailable_offerings

FIRST_LAUNCHES = 2
"""How many launches of one NodePool are sent at the same time while it is unknown whether EC2 accepts them."""
KNOWN_FOR = timedelta(seconds=10)
"""How long after EC2 accepted a launch all launches of that NodePool are sent without waiting."""
UNANSWERED = 3
"""The number of consecutive calls without an answer after which EC2 counts as down for a NodePool."""
TURN = timedelta(seconds=60)
"""How long a launch may hold its turn without reporting an outcome. After that its worker is assumed dead."""
ROTATION = timedelta(seconds=5)
"""How long after its time a probe is left to claims that have not probed yet, or not for longer."""
STILL_WAITS = timedelta(seconds=60)
"""How long after it last asked a claim counts as waiting."""
WAIT_SECONDS = 10.0
"""Seconds that a launch waits for the outcome of the launches ahead of it."""


class LaunchBreakers:
    """Holds launches back and keeps the reasons. The process reports them to the provisioner workflow."""

    def __init__(self, now: Callable[[], datetime], wait_seconds: float = WAIT_SECONDS) -> None:
        self._now = now
        self._wait_seconds = wait_seconds
        self._backoffs: dict[OfferingKey, Backoff] = {}
        self._open: dict[str, LaunchBreaker] = {}
        """By key: of a NodePool, of an EC2NodeClass, or of the account."""
        self._closed: set[str] = set()
        self._accepted_at: dict[str, datetime] = {}
        self._unanswered: dict[str, int] = {}
        self._turns: dict[tuple[str, bool], dict[str, datetime]] = {}
        """Key of a breaker, or NodePool without one, and which of these it is, then claim: the start of a launch that
        others wait for."""
        self._foreign: set[str] = set()
        """Keys of counts of ended instances that only other processes have added to."""
        self._reported: set[str] = set()
        """Keys of breakers that the provisioner workflow has received as this process has them."""
        self._kept_by = ""
        """The provisioner workflow that received them, unless an operator has terminated it."""
        self._held_back_at: dict[str, dict[str, datetime]] = {}
        """Key of a breaker, then claim, to when it last held the claim back."""
        self._probed: dict[str, dict[str, datetime]] = {}
        """Key of a breaker, then claim, to when it last probed."""
        self._unlaunched = UnreportedClaims()
        self._changed = asyncio.Event()
        self.news = asyncio.Event()
        """Set while there is something to report to the provisioner workflow."""
        self.active = asyncio.Event()
        """Set while this process launches, counts ended instances or has reported a breaker, and so must know what
        other processes count and close."""

    # --- offerings ---

    def unavailable(self, within: timedelta = FIRST_PROBE_PAUSE) -> UnavailableOfferings:
        """The offerings that EC2 refused ``within`` this time. A claim that allows spot and on-demand avoids them.

        By default, those that not even a claim that probes them may ask for yet. For how much longer an offering is
        avoided, plans decide. They know what all processes saw, and their claims name what they must avoid.
        """
        now = self._now()
        self._backoffs = {key: backoff for key, backoff in self._backoffs.items() if backoff.is_active(now)}
        return UnavailableOfferings(
            key
            for key, backoff in self._backoffs.items()
            if backoff.refused_at is None or now < backoff.refused_at + within
        )

    def unavailable_to(self, claim: ClaimRecord) -> UnavailableOfferings:
        """The offerings that this process or, a short time ago, the claim's plan knew to be unavailable.

        A claim that names none was not planned with what EC2 refuses, such as one of a static NodePool. It avoids
        whatever this process knows.
        """
        created = claim.created_at
        young = created is not None and self._now() - created < UNAVAILABLE_OFFERINGS_TTL
        if not young or labels.UNAVAILABLE_OFFERINGS not in claim.annotations:
            return self.unavailable(UNAVAILABLE_OFFERINGS_TTL)
        return UnavailableOfferings(self.unavailable() | unavailable_offerings(claim.annotations))

    def mark_unavailable(self, offerings: Iterable[OfferingRef]) -> None:
        """Record offerings that EC2 refused, for lack of capacity or because a policy denies their type."""
        now = self._now()
        for offering in offerings:
            self._backoffs[offering.key] = refused_now(offering.key, now)
            self.news.set()

    def gave_up(self, claim: ClaimRecord, reason: str) -> None:
        """Record that a NodeClaim is deleted without an instance."""
        if self._unlaunched.add(claim, reason):
            self.news.set()

    # --- launches ---

    async def admit(
        self,
        pool: str,
        claim: str,
        instance_types: Collection[str] = (),
        *,
        node_class: str = "",
        sends: bool = False,
    ) -> LaunchBreaker | None:
        """Wait for the claim's turn. Return None if it may proceed, else the breaker that holds it back.

        A caller that proceeds must report the outcome or call `leave`. A claim without a NodePool is never held back,
        and neither is one whose ``instance_types`` are none of those that EC2 refused.
        """
        if sends:
            self.active.set()
        give_up = asyncio.get_running_loop().time() + self._wait_seconds
        while True:
            now, holding_breaker = self._now(), self._holding(pool, node_class, instance_types)
            key, breaker = holding_breaker or (pool, None)
            if not pool or (breaker is None and not (sends and self._in_doubt(pool, now))):
                return None
            if breaker is not None:
                if now < breaker.next_probe_at or self._yields(key, breaker, claim, now):
                    self._held_back_at.setdefault(key, {})[claim] = now
                    return breaker
                if self._takes_turn((key, True), claim, now, 1):
                    self._held_back_at.get(key, {}).pop(claim, None)
                    self._probed.setdefault(key, {})[claim] = now
                    return None
            elif self._takes_turn((pool, False), claim, now, FIRST_LAUNCHES):
                return None
            seconds_left = give_up - asyncio.get_running_loop().time()
            if seconds_left <= 0:
                return breaker
            changed = self._changed
            try:
                async with asyncio.timeout(seconds_left):
                    await changed.wait()
            except TimeoutError:
                continue

    def launched(self, pool: str, instance_types: Collection[str] = (), *, node_class: str = "") -> None:
        """Record that EC2 accepted a launch of the pool with these types, with or without capacity for it."""
        self._accepted_at[pool] = self._now()
        self._unanswered.pop(pool, None)
        for key in rules.keys_of(pool, node_class):
            breaker = self._open.get(key)
            if breaker is not None and breaker.boots:
                if rules.is_open(breaker):  # one purchase, then the next pause
                    next_probe_at = self._now() + rules.boot_pause(breaker.failures)
                    self._keep(key, evolve(breaker, next_probe_at=next_probe_at))
            elif breaker is not None and (breaker.outage or rules.holds_back(breaker, instance_types)):
                self._close(key)

    def refused(
        self, pool: str, reason: str, message: str, instance_types: Collection[str] = (), *, node_class: str = ""
    ) -> None:
        """Record that EC2 refused a launch of the pool for a reason that applies to the next launch of these types too.

        If ``instance_types`` is empty, it applies to every launch of the pool. If ``node_class`` is given, the reason
        applies to all NodePools of this EC2NodeClass.
        """
        self._unanswered.pop(pool, None)
        self._record_refusal(pool, reason, message, instance_types, outage=False, node_class=node_class)

    def unanswered(self, pool: str, reason: str, message: str) -> None:
        """Record that EC2 did not answer or failed internally. The breaker opens after `UNANSWERED` such calls.

        One such call prolongs an outage. It says nothing about launches that EC2 refused for another reason.
        """
        self._unanswered[pool] = self._unanswered.get(pool, 0) + 1
        breaker = self._open.get(pool)
        if (breaker is not None and breaker.outage) or self._unanswered[pool] >= UNANSWERED:
            self._record_refusal(pool, reason, message, (), outage=True)

    def ended_booting(
        self, reason: str, message: str, instance: str, *, node_class: str = "", kinds: Collection[str] = ()
    ) -> None:
        """Record that EC2 ended an instance before its Node joined, because of its EC2NodeClass or of the account.

        ``kinds``: its image and its instance type, or its zone if only instances there may have the same fault.
        """
        self.active.set()
        key = rules.key_of("", node_class)
        before = self._open.get(key)
        after = rules.ended_booting(before, reason, message, instance, self._now(), node_class=node_class, kinds=kinds)
        if after is not before:
            self._closed.discard(key)
            self._keep(key, after)

    def registered(self, node_class: str, kinds: Collection[str], launched_at: datetime | None) -> None:
        """Record that a Node with this EC2NodeClass joined. ``kinds``: its image, instance type and zone."""
        self.active.set()
        for key in rules.keys_of("", node_class):
            breaker = self._open.get(key)
            if breaker is not None and breaker.boots and rules.ends_count(breaker, kinds, launched_at):
                self._close(key)
                self._wake()

    def _keep(self, key: str, breaker: LaunchBreaker) -> None:
        """Keep what this process knows better than others."""
        self._open[key] = breaker
        self._foreign.discard(key)
        self._reported.discard(key)
        self.news.set()

    def leave(self, claim: str) -> None:
        """End the claim's turn, if it has one. Call this after reporting the outcome."""
        self._turns = {
            key: other_turns
            for key, turns in self._turns.items()
            if (other_turns := {k: v for k, v in turns.items() if k != claim})
        }
        self._wake()

    # --- what the provisioner's workflow keeps ---

    def report(self) -> LaunchReport:
        """What to tell the provisioner workflow: everything except the breakers that it has heard of.

        Another process may have closed one of those meanwhile, and the report would open it again.
        """
        self.unavailable()
        now = self._now()
        self._open = {key: breaker for key, breaker in self._open.items() if not rules.untried(breaker, now)}
        return LaunchReport(
            unavailable=grouped(self._backoffs),
            breakers=[
                open_breaker
                for key, open_breaker in sorted(self._open.items())
                if key not in self._foreign | self._reported
            ],
            closed=sorted(self._closed),
            unlaunched=self._unlaunched.report(),
        )

    def acknowledge(self, report: LaunchReport) -> None:
        """Acknowledge that the provisioner workflow received this report."""
        self._closed -= set(report.closed)
        self._unlaunched.acknowledge(report.unlaunched)
        reported_breakers = rules.by_key(report.breakers)
        self._reported |= {key for key, breaker in reported_breakers.items() if self._open.get(key) is breaker}
        if self._reported:
            self.active.set()

    def adopt(self, report: LaunchReport) -> None:
        """Take over what was known before this process started. What the process itself has seen takes precedence."""
        now = self._now()
        self._kept_by = report.kept_by
        self._backoffs = {**backoffs_of(report.unavailable), **self._backoffs}
        for key, breaker in rules.by_key(report.breakers).items():
            launches = breaker.pool in self._accepted_at and not breaker.instance_types
            if not launches and not rules.untried(breaker, now):
                self._open.setdefault(key, breaker)
                if self._open[key] is breaker:
                    (self._foreign if breaker.boots else self._reported).add(key)
                    self.active.set()

    def learn(self, report: LaunchReport) -> None:
        """Take over which instances ended in front of other processes, and which breakers these have closed."""
        now = self._now()
        stored = rules.by_key(report.breakers)
        if report.kept_by != self._kept_by:  # a new workflow, which must hear all that the one before it knew
            self._kept_by = report.kept_by
            self._foreign.clear()
            self._reported.clear()
            self.news.set()
        closed_keys = [key for key in self._foreign | self._reported if key in self._open and key not in stored]
        for key in closed_keys:
            self._forget(key)
        if closed_keys:
            self._wake()
        for key, breaker in stored.items():
            own = self._open.get(key)
            if not breaker.boots or breaker.pool or key in self._closed or rules.untried(breaker, now):
                continue
            if own is None:
                self._open[key] = breaker
                self._foreign.add(key)
            elif own.boots:
                self._open[key] = rules.added_up(own, breaker, now)
        counts = any(breaker.boots and not rules.untried(breaker, now) for breaker in self._open.values())
        if self._reported or counts:
            self.active.set()

    def _record_refusal(
        self,
        pool: str,
        reason: str,
        message: str,
        instance_types: Collection[str],
        *,
        outage: bool,
        node_class: str = "",
    ) -> None:
        if not pool:
            return
        if not instance_types:
            self._accepted_at.pop(pool, None)
        key = rules.key_of(pool, node_class)
        self._closed.discard(key)
        before = self._open.get(key)
        after = rules.refused(
            before,
            pool,
            reason,
            message,
            self._now(),
            outage=outage,
            instance_types=instance_types,
            node_class=node_class,
        )
        if after is not before:
            self._keep(key, after)

    def _holding(self, pool: str, node_class: str, instance_types: Collection[str]) -> tuple[str, LaunchBreaker] | None:
        """The breaker that holds back a launch for longest, with its key."""
        keys = (key for key in rules.keys_of(pool, node_class) if key in self._open)
        holding = [(key, self._open[key]) for key in keys if rules.holds_back(self._open[key], instance_types)]
        return max(holding, key=lambda key_and_breaker: key_and_breaker[1].next_probe_at, default=None)

    def _close(self, key: str) -> None:
        self._forget(key)
        self._closed.add(key)
        self.news.set()

    def _forget(self, key: str) -> None:
        del self._open[key]
        self._foreign.discard(key)
        self._reported.discard(key)
        self._held_back_at.pop(key, None)
        self._probed.pop(key, None)

    def _in_doubt(self, pool: str, now: datetime) -> bool:
        accepted_at = self._accepted_at.get(pool)
        return accepted_at is None or now - accepted_at > KNOWN_FOR

    def _takes_turn(self, key: tuple[str, bool], claim: str, now: datetime, most: int) -> bool:
        turns = {pool: since for pool, since in self._turns.get(key, {}).items() if now - since < TURN}
        if claim not in turns and len(turns) >= most:
            return False
        self._turns[key] = {**turns, claim: now}
        return True

    def _yields(self, key: str, breaker: LaunchBreaker, claim: str, now: datetime) -> bool:
        """Whether the claim leaves the probe to a claim that waits and has not probed yet, or not for longer."""
        if claim in self._turns.get((key, True), {}) or now >= breaker.next_probe_at + ROTATION:
            return False
        probed = self._probed.get(key, {})
        if claim not in probed:
            return False
        waiting = self._held_back_at.get(key, {})
        return any(
            now - asked_at < STILL_WAITS and (other not in probed or probed[other] < probed[claim])
            for other, asked_at in waiting.items()
            if other != claim
        )

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()
