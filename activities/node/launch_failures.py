"""Handles launches that failed: records the reason on the NodeClaim, then postpones the launch or deletes the claim."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import datetime, timedelta
from weakref import WeakKeyDictionary

from temporalio import activity

from activities import loggers
from activities.ec2.errors import CallStoppedError, EC2Error, ThrottledError
from activities.kubernetes import nodeclaim_deletion, nodeclaims
from activities.kubernetes.client import Kube
from activities.kubernetes.events import EventPublisher
from activities.node.capacity_events import CapacityEvents
from activities.node.launch_breakers import LaunchBreakers
from tenon.apis.reasons import Reason
from tenon.ec2.refusals.class_faults import ClassFault, class_fault
from tenon.ec2.refusals.errors import reason_for
from tenon.evolve import evolve
from tenon.kube.claim_record import ClaimRecord
from tenon.kube.event_reasons import EventReason
from tenon.messages.base import ClaimRef
from tenon.messages.launch import ClaimView, LaunchResult, LaunchWait, PrepareLaunchResult
from tenon.messages.provisioning import LaunchBreaker
from tenon.node import launch_retry as rules
from tenon.node.launch_breaker import subject

log = loggers.NODECLAIM_LIFECYCLE

TRIES_IN_PLACE = 3
"""How often an activity attempts a call while EC2 is busy or does not answer, before its workflow waits longer."""
MIN_PAUSE = timedelta(seconds=2)
"""The shortest wait of a launch that is held back while another launch probes EC2."""


class LaunchFailures:
    """Records on NodeClaims why they have no instance, and deletes those that will not get one."""

    def __init__(
        self,
        kube: Kube,
        recorder: EventPublisher,
        breakers: LaunchBreakers,
        now: Callable[[], datetime],
        tries: Callable[[], int] | None = None,
    ) -> None:
        """``tries`` returns the number of the current attempt of the activity, starting at 1."""
        self._kube = kube
        self._recorder = recorder
        self._breakers = breakers
        self._now = now
        self._tries = tries or _tries_of_activity
        self._capacity_events = CapacityEvents(kube, recorder)
        self._counted_for: WeakKeyDictionary[EC2Error, set[str]] = WeakKeyDictionary()
        """By EC2 call without an answer, the NodePools that counted it. Members of a launch group share one call."""

    @property
    def is_first_try(self) -> bool:
        """Whether the activity has not sent its request before."""
        return self._tries() == 1

    def breaker_wait(self, breaker: LaunchBreaker) -> LaunchWait:
        """Why and until when a launch waits for a breaker. An earlier try of the activity may have sent its request."""
        launches = "instances" if breaker.boots else "such launches"
        lasts = "end while they boot" if breaker.boots else "are refused"
        return LaunchWait(
            reason=breaker.reason,
            message=f"{breaker.message} (held back while {launches} of {subject(breaker)} {lasts})",
            has_answer=not breaker.outage,
            breaker_open=True,
            unsettled=not self.is_first_try,
            not_before=max(breaker.next_probe_at, self._now() + MIN_PAUSE),
        )

    async def failed(self, ref: ClaimRef, claim: ClaimRecord, error: EC2Error) -> LaunchWait:
        """Why a failed call postpones the launch.

        Raises:
            EC2Error: the launch is not postponed yet, because Temporal retries the activity soon.
        """
        if isinstance(error, CallStoppedError):
            raise error  # EC2 was not asked, so its health and the NodePool's are as they were
        reason = reason_for(error.code, error.message)
        message = str(error)  # with EC2's code, which the reason may not show
        if not error.retryable:
            fault = class_fault(error.code, error.message, error.operation)
            types = claim.instance_types if fault == ClassFault.IMAGE else ()
            node_class = claim.class_key if fault else ""
            self._breakers.refused(claim.pool, reason, message, types, node_class=node_class)
        elif not isinstance(error, ThrottledError):
            pools = self._counted_for.setdefault(error, set())
            if claim.pool not in pools:
                pools.add(claim.pool)
                self._breakers.unanswered(claim.pool, reason, message)
        if error.retryable and self._tries() < TRIES_IN_PLACE:
            await nodeclaims.mark_launch_failed(self._kube, ref, reason, message, self._now)
            raise error
        return LaunchWait(reason=reason, message=message, has_answer=not error.retryable, unsettled=error.retryable)

    async def unprepared(
        self, claim: ClaimRecord, ref: ClaimRef, view: ClaimView, wait: LaunchWait
    ) -> PrepareLaunchResult:
        """Postpone the launch, or give the claim up if its launch timeout is over."""
        if rules.should_give_up(view.created_at, self._now(), has_answer=wait.has_answer):
            return await self.given_up(claim, ref, view, Reason.LAUNCH_TIMEOUT, f"{wait.reason}: {wait.message}")
        await self._publish(claim, ref, wait)
        # This attempt sent no request, and the caller has already looked for instances of earlier requests.
        waits = evolve(wait, unsettled=False)
        return PrepareLaunchResult(view=view, reason=wait.reason, message=wait.message, waits=waits)

    async def unlaunched(self, claim: ClaimRecord, ref: ClaimRef, result: LaunchResult) -> LaunchResult:
        """Handle a launch that bought nothing: postpone it, or delete the claim.

        The claim is deleted at once if EC2 has no capacity, and otherwise if its launch timeout is over and no earlier
        request can have bought an instance.
        """
        wait = result.waits
        if wait is None:
            return await self._refused_for_good(claim, ref, result)
        if wait.has_answer and self.is_first_try:
            wait = evolve(wait, unsettled=False)  # the first attempt was answered, so no earlier answer is missing
        has_answer = wait.has_answer and not wait.unsettled
        if rules.should_give_up(claim.created_at, self._now(), has_answer=has_answer):
            message = f"{wait.reason}: {wait.message}"
            timed_out = evolve(result, reason=Reason.LAUNCH_TIMEOUT, message=message, waits=None)
            return await self._refused_for_good(claim, ref, timed_out)
        await self._publish(claim, ref, wait)
        return evolve(result, reason=wait.reason, message=wait.message, waits=wait)

    async def _refused_for_good(self, claim: ClaimRecord, ref: ClaimRef, result: LaunchResult) -> LaunchResult:
        await self._delete(claim, ref, result.reason, result.message)
        log.warning(
            "EC2 refused the launch of a NodeClaim, which is deleted",
            extra={"nodeclaim": ref.name, "reason": result.reason, "error": result.message},
        )
        return result

    async def given_up(
        self, claim: ClaimRecord, ref: ClaimRef, view: ClaimView, reason: str, message: str
    ) -> PrepareLaunchResult:
        """Delete the claim. The planner then plans its pods again."""
        await self._delete(claim, ref, reason, message)
        log.warning(
            "A NodeClaim cannot launch and is deleted",
            extra={"nodeclaim": ref.name, "reason": reason, "error": message},
        )
        return PrepareLaunchResult(view=view, reason=reason, message=message)

    async def _delete(self, claim: ClaimRecord, ref: ClaimRef, reason: str, message: str) -> None:
        await nodeclaims.mark_launch_failed(self._kube, ref, reason, message, self._now, provider_id=claim.provider_id)
        self._breakers.gave_up(claim, reason)
        existed = await nodeclaim_deletion.delete_claim(self._kube, self._recorder, ref, reason, message)
        if existed and Reason.of(reason) is Reason.INSUFFICIENT_CAPACITY:
            await self._capacity_events.publish(claim, message)

    async def _publish(self, claim: ClaimRecord, ref: ClaimRef, wait: LaunchWait) -> None:
        await nodeclaims.mark_launch_failed(self._kube, ref, wait.reason, wait.message, self._now)
        await self._recorder.publish(claim.body, EventReason.LAUNCH_FAILED, f"{wait.reason}: {wait.message}")
        level = logging.INFO if wait.breaker_open else logging.WARNING
        log.log(
            level,
            "A NodeClaim did not launch and is retried",
            extra={"nodeclaim": ref.name, "reason": wait.reason, "error": wait.message},
        )


def _tries_of_activity() -> int:
    return activity.info().attempt if activity.in_activity() else 1
