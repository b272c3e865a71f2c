"""What EC2 recently refused to this io process: offerings without capacity, and the launches of whole NodePools.

Each launch checks the breakers before it is prepared and again before it is sent. If EC2 has not recently accepted a
launch of the NodePool, two launches go first and the others wait for their outcome, so that a hundred claims that EC2
refuses cost only two calls.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta

from tenon.ec2.avoided import UNAVAILABLE_OFFERINGS_TTL, UnavailableOfferings, by_offering, grouped
from tenon.kube.offerings import OfferingKey
from tenon.lifecycle import breaker as rules
from tenon.lifecycle.messages.launch import OfferingRef
from tenon.lifecycle.messages.provisioning import LaunchBreaker, LaunchReport

FIRST_LAUNCHES = 2
"""How many launches of one NodePool are sent at the same time while it is unknown whether EC2 accepts them."""
KNOWN_FOR = timedelta(seconds=10)
"""How long after EC2 accepted a launch all launches of that NodePool are sent without waiting."""
UNANSWERED = 3
"""The number of consecutive calls without an answer after which EC2 counts as down for a NodePool."""
TURN = timedelta(seconds=60)
"""How long a launch may hold its turn without reporting an outcome. After that its worker is assumed dead."""
WAIT_SECONDS = 10.0
"""Seconds that a launch waits for the outcome of the launches ahead of it."""


class LaunchBreakers:
    """Holds launches back and keeps the reasons. The process reports all of it to the provisioner workflow."""

    def __init__(self, now: Callable[[], datetime], wait_seconds: float = WAIT_SECONDS) -> None:
        self._now = now
        self._wait_seconds = wait_seconds
        self._avoided_until: dict[OfferingKey, datetime] = {}
        self._open: dict[str, LaunchBreaker] = {}
        self._closed: set[str] = set()
        self._answered: dict[str, datetime] = {}
        self._unanswered: dict[str, int] = {}
        self._turns: dict[str, dict[str, datetime]] = {}
        """NodePool, then claim, to the start of a launch in flight that the others wait for."""
        self._changed = asyncio.Event()
        self.news = asyncio.Event()
        """Set while there is something to report to the provisioner workflow."""

    # --- offerings ---

    def avoided(self) -> UnavailableOfferings:
        """The offerings that EC2 recently refused.

        A claim that allows spot and on-demand must not request the same spot offerings again.
        """
        now = self._now()
        self._avoided_until = {key: until for key, until in self._avoided_until.items() if until > now}
        return UnavailableOfferings(self._avoided_until)

    def sold_out(self, offerings: Iterable[OfferingRef]) -> None:
        """Record offerings for which EC2 had no capacity."""
        until = self._now() + UNAVAILABLE_OFFERINGS_TTL
        for offering in offerings:
            self._avoided_until[offering.key] = until
            self.news.set()

    # --- NodePools ---

    async def admit(self, pool: str, claim: str, *, sends: bool = False) -> LaunchBreaker | None:
        """Wait for the claim's turn. Return None if it may proceed, else the breaker that holds it back.

        A caller that proceeds must report the outcome or call `leave`. A claim without a NodePool is never held back.
        """
        give_up = asyncio.get_running_loop().time() + self._wait_seconds
        while True:
            now, breaker = self._now(), self._open.get(pool)
            if not pool or (breaker is None and not (sends and self._in_doubt(pool, now))):
                return None
            if breaker is not None and now < breaker.next_probe_at:
                return breaker
            if self._takes_turn(pool, claim, now, FIRST_LAUNCHES if breaker is None else 1):
                return None
            left = give_up - asyncio.get_running_loop().time()
            if left <= 0:
                return breaker
            changed = self._changed
            try:
                async with asyncio.timeout(left):
                    await changed.wait()
            except TimeoutError:
                continue

    def launched(self, pool: str) -> None:
        """Record that EC2 accepted a launch of the pool, with or without capacity for it."""
        self._answered[pool] = self._now()
        self._unanswered.pop(pool, None)
        if self._open.pop(pool, None) is not None:
            self._closed.add(pool)
            self.news.set()

    def refused(self, pool: str, reason: str, message: str) -> None:
        """Record that EC2 refused a launch of the pool for a reason that also applies to the next launch."""
        self._unanswered.pop(pool, None)
        self._record_refusal(pool, reason, message, outage=False)

    def unanswered(self, pool: str, reason: str, message: str) -> None:
        """Record that EC2 did not answer or failed internally. The breaker opens after `UNANSWERED` such calls."""
        self._unanswered[pool] = self._unanswered.get(pool, 0) + 1
        if pool in self._open or self._unanswered[pool] >= UNANSWERED:
            self._record_refusal(pool, reason, message, outage=True)

    def leave(self, claim: str) -> None:
        """End the claim's turn, if it has one. Call this after reporting the outcome."""
        self._turns = {
            pool: left
            for pool, turns in self._turns.items()
            if (left := {k: v for k, v in turns.items() if k != claim})
        }
        self._wake()

    # --- what the provisioner's workflow keeps ---

    def report(self) -> LaunchReport:
        """The current state, for the provisioner workflow."""
        self.avoided()
        now = self._now()
        self._open = {pool: breaker for pool, breaker in self._open.items() if not rules.untried(breaker, now)}
        return LaunchReport(
            refused=grouped(self._avoided_until),
            breakers=[breaker for _, breaker in sorted(self._open.items())],
            closed=sorted(self._closed),
        )

    def acknowledge(self, report: LaunchReport) -> None:
        """Acknowledge that the provisioner workflow received this report."""
        self._closed -= set(report.closed)

    def adopt(self, kept: LaunchReport) -> None:
        """Take over what was known before this process started. What the process itself has seen takes precedence."""
        now = self._now()
        self._avoided_until = {**by_offering(kept.refused, now), **self._avoided_until}
        for breaker in kept.breakers:
            if breaker.pool not in self._answered and not rules.untried(breaker, now):
                self._open.setdefault(breaker.pool, breaker)

    def _record_refusal(self, pool: str, reason: str, message: str, *, outage: bool) -> None:
        if not pool:
            return
        self._answered.pop(pool, None)
        self._closed.discard(pool)
        before = self._open.get(pool)
        self._open[pool] = rules.refused(before, pool, reason, message, self._now(), outage=outage)
        if self._open[pool] is not before:
            self.news.set()

    def _in_doubt(self, pool: str, now: datetime) -> bool:
        answered = self._answered.get(pool)
        return answered is None or now - answered > KNOWN_FOR

    def _takes_turn(self, pool: str, claim: str, now: datetime, most: int) -> bool:
        turns = {each: since for each, since in self._turns.get(pool, {}).items() if now - since < TURN}
        if claim not in turns and len(turns) >= most:
            return False
        self._turns[pool] = {**turns, claim: now}
        return True

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()
