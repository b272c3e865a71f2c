"""Records what became of launches: instances that EC2 launched, and what it or an EC2NodeClass refused."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime

from activities.record.writer import RecordWriter, origin_of_activity, step_of_activity
from tenon.kube.claim_record import ClaimRecord
from tenon.messages.base import ClaimRef
from tenon.messages.launch import Instance, LaunchRequest, PrepareLaunchResult
from tenon.messages.offerings import OfferingRef
from tenon.record.entries import Entry
from tenon.record.launches import launch_entry, refusal_entry, refuses


class LaunchRecord:
    """Makes the entries of launches."""

    def __init__(self, record: RecordWriter, now: Callable[[], datetime]) -> None:
        self._record = record
        self._now = now

    def launched(
        self,
        ref: ClaimRef,
        claim: ClaimRecord,
        instance: Instance,
        request: LaunchRequest | None = None,
        attempt: int = 1,
    ) -> None:
        """Record an instance. ``request``: what was sent; None if an earlier process did."""

        def make() -> Entry:
            return launch_entry(origin_of_activity(ref.cluster), self._now(), claim, instance, request, attempt)

        self._record.write(make)

    def refused(
        self,
        ref: ClaimRef,
        claim: ClaimRecord,
        reason: str,
        message: str,
        offerings: Sequence[OfferingRef] = (),
        attempt: int = 1,
    ) -> None:
        """Record a refusal. ``offerings``: what exactly was refused; empty for the whole request."""

        def make() -> Entry:
            return refusal_entry(
                origin_of_activity(ref.cluster),
                self._now(),
                claim,
                step=step_of_activity(),
                reason=reason,
                message=message,
                offerings=offerings,
                attempt=attempt,
            )

        self._record.write(make)

    def prepared(self, ref: ClaimRef, claim: ClaimRecord, result: PrepareLaunchResult, attempt: int) -> None:
        """Record the refusal with which the preparation of a launch ended, if it did."""
        if refuses(result):
            self.refused(ref, claim, result.reason, result.message, attempt=attempt)
