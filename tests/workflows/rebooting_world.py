"""Activities that play the reboots of a node: EC2 accepts, and the machine has booted at the next look."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from temporalio import activity

from tenon.messages.base import ActivityName
from tenon.messages.node import RebootRequest
from tenon.messages.node_steps import NodeInput
from tenon.messages.reboot import (
    BootRecord,
    FenceInput,
    FenceResult,
    RebootCheck,
    RebootCheckInput,
    RebootDrainInput,
    RebootDrainResult,
    RebootEnded,
    RebootFailure,
    RebootInput,
    RebootOutcome,
    RebootReply,
)
from tests.workflows.fake_activities import FakeWorld

BOOTED = RebootCheck(rebooted=True, ready=True, ended=True)
BEFORE = BootRecord(pre_boot_id="boot-1", boot_id="boot-1")


class RebootingWorld(FakeWorld):
    """A world whose answers about reboots a test can choose. The last of ``replies`` and ``checks`` repeats."""

    def __init__(self, **view: Any) -> None:
        super().__init__(**view)
        self.replies: list[RebootReply | Exception] = [RebootReply(outcome=RebootOutcome.ACCEPTED)]
        self.checks: list[RebootCheck] = [BOOTED]
        self.settling = RebootCheck(ready=True)
        """What the Node reports while nobody knows whether EC2 accepted."""
        self.issued_at: datetime | None = None
        """When somebody else had EC2 accept the reboot, if a NodeClaim says so."""
        self.failure: RebootFailure | None = None

    @activity.defn(name=ActivityName.FENCE)
    async def fence(self, value: FenceInput) -> FenceResult:
        self._called(ActivityName.FENCE, value)
        return FenceResult(
            request=value.request,
            boot_id="boot-1",
            issued=self.issued_at is not None,
            issued_at=self.issued_at,
            pre_boot_id="" if self.issued_at is None else "boot-1",
        )

    @activity.defn(name=ActivityName.DRAIN_FOR_REBOOT)
    async def drain_for_reboot(self, value: RebootDrainInput) -> RebootDrainResult:
        self._called(ActivityName.DRAIN_FOR_REBOOT, value)
        return RebootDrainResult(evicted=1)

    @activity.defn(name=ActivityName.RECORD_BOOT)
    async def record_boot(self, value: NodeInput) -> BootRecord:
        self._called(ActivityName.RECORD_BOOT, value)
        return BEFORE

    @activity.defn(name=ActivityName.REBOOT)
    async def reboot(self, value: RebootInput) -> RebootReply:
        self._called(ActivityName.REBOOT, value)
        reply = self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]
        if isinstance(reply, Exception):
            raise reply
        return reply

    @activity.defn(name=ActivityName.CHECK_REBOOT)
    async def check_reboot(self, value: RebootCheckInput) -> RebootCheck:
        self._called(ActivityName.CHECK_REBOOT, value)
        if not value.issued:
            return self.settling
        return self.checks.pop(0) if len(self.checks) > 1 else self.checks[0]

    @activity.defn(name=ActivityName.END_FAILED_REBOOT)
    async def end_failed_reboot(self, value: RebootFailure) -> RebootEnded:
        self._called(ActivityName.END_FAILED_REBOOT, value)
        self.failure = value
        return RebootEnded()

    def all(self) -> Sequence[Callable[..., Any]]:
        """Every activity, for a worker."""
        reboots = (self.fence, self.drain_for_reboot, self.record_boot, self.reboot, self.check_reboot)
        return [*super().all(), *reboots, self.end_failed_reboot]


def reboot_request(drain: float | None = 0.0, *, number: int = 0) -> RebootRequest:
    """A request of node repair. Requests of one node differ in their times, by the ``number`` of seconds."""
    return RebootRequest(
        operation_id=f"r{number}",
        reason="AcceleratedHardwareReady/NVIDIAXID46Error",
        repairs=True,
        drain_seconds=drain,
        requested_at=datetime.now(UTC) + timedelta(seconds=number),
    )
