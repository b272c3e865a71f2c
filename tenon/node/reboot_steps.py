"""Which activity a reboot runs next, and what it waits for."""

from __future__ import annotations

from datetime import datetime

from tenon.kube.timestamps import time_text
from tenon.messages.base import ActivityName
from tenon.messages.node_steps import NodeInput
from tenon.messages.reboot import (
    FenceInput,
    RebootCheckInput,
    RebootDrainInput,
    RebootFailure,
    RebootInput,
    RebootResult,
)
from tenon.node import leaving_stages
from tenon.node import reboot as transitions
from tenon.node.reboot_record import request_text
from tenon.node.state import NodeState, Reboot, RebootPhase
from tenon.node.steps import Run, Step, Wait

_AWAITED = {
    RebootPhase.FENCING: "Then Tenon looks for the Node again",
    RebootPhase.DRAINING: "Then Tenon tries again to evict pods before the reboot",
    RebootPhase.RECORDING: "Then Tenon looks for the Node again",
    RebootPhase.ISSUING: "Then Tenon asks EC2 again to reboot the instance",
    RebootPhase.SETTLING: "Then Tenon looks whether the machine reboots",
    RebootPhase.RECOVERING: "Then Tenon looks whether the machine has booted",
    RebootPhase.FAILING: "Then Tenon tries again to end the failed reboot",
}


def reboot_step(state: NodeState, reboot: Reboot, node_input: NodeInput, now: datetime) -> Step:
    """Return what the reboot does now."""
    if not state.check_now and state.deadline is not None and now < state.deadline:
        return Wait(state.deadline, _AWAITED[reboot.phase])
    base, request = node_input.model_dump(), reboot.request
    match reboot.phase:
        case RebootPhase.FENCING:
            return Run(ActivityName.FENCE, FenceInput(**base, request=request), f"{state.node_name}: {request.reason}")
        case RebootPhase.DRAINING:
            until = transitions.drain_until(request)
            return Run(
                ActivityName.DRAIN_FOR_REBOOT,
                RebootDrainInput(
                    **base,
                    until=until,
                    budget_seconds=leaving_stages.report_blocked_after(state) or leaving_stages.DRAIN_SECONDS,
                    why=f"reboots for {request_text(request)}",
                ),
                f"{state.node_name}, at most until {time_text(until)}" if until else state.node_name,
                overtaken_by_force=True,
            )
        case RebootPhase.RECORDING:
            return Run(ActivityName.RECORD_BOOT, node_input, state.node_name)
        case RebootPhase.ISSUING:
            instance_id = state.instance.id if state.instance else ""
            return Run(
                ActivityName.REBOOT,
                RebootInput(claim=state.claim, instance_id=instance_id, request=request, boot_id=reboot.boot_id),
                instance_id,
            )
        case RebootPhase.SETTLING | RebootPhase.RECOVERING:
            return Run(
                ActivityName.CHECK_REBOOT,
                RebootCheckInput(
                    **base,
                    request=request,
                    boot_id=reboot.boot_id,
                    issued=reboot.phase is RebootPhase.RECOVERING,
                    issued_at=reboot.issued_at,
                ),
                state.node_name,
            )
        case RebootPhase.FAILING:
            return Run(
                ActivityName.END_FAILED_REBOOT,
                RebootFailure(
                    **base,
                    request=request,
                    result=reboot.result or RebootResult.PROVIDER_ERROR,
                    message=reboot.message,
                    stays=reboot.stays,
                ),
                f"{state.node_name}: {'stays' if reboot.stays else 'leaves'}",
            )
