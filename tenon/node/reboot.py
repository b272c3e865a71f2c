"""The reboot of a node's machine in place: fence, drain, boot ID, EC2's answer, the new boot.

    fencing -> draining -> recording -> issuing -> recovering -> (initializing)
    issuing -> settling -> issuing or recovering: EC2's answer is lost
    any of them -> failing -> (leaving, or as before)

Pods that are still there when the drain ends stay on the node and ride through. The boot ID is recorded before EC2 is
asked, so that no one asks again once the machine has booted. If a worker dies while it asks, the answer is lost: the
machine then gets `SETTLES_WITHIN` to show whether it reboots. It is asked again only if it still runs after that.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from tenon.apis.reasons import Reason
from tenon.evolve import evolve
from tenon.messages.node import RebootAnswer, RebootRequest
from tenon.messages.reboot import (
    BootRecord,
    FenceResult,
    RebootCheck,
    RebootDrainResult,
    RebootOutcome,
    RebootReply,
    RebootResult,
)
from tenon.node import leaving_stages
from tenon.node.leave_text import WORKFLOW, removal_text
from tenon.node.reboot_record import HISTORY, request_text
from tenon.node.startup_stages import FIRST_CHECK
from tenon.node.state import Blocked, NodeState, Reboot, RebootPhase, Stage
from tenon.node.steps import LeaveRequest
from tenon.node.timeline import record, why_blocked
from tenon.sentences import counted, lasting

CHECK_AGAIN = timedelta(seconds=15)
"""How soon to look again whether the machine has booted, or its Node is there (N15-161)."""
MIN_DRAIN = timedelta(seconds=5)
"""The shortest drain with a bound, and how long a drain lasts at least, because pods may be bound late (N15-157)."""
ISSUED_WITHIN = timedelta(minutes=5)
"""How long EC2 is asked to accept the reboot (N15-160), and a Node may be away before that (N15-166)."""
RECOVERS_WITHIN = timedelta(minutes=20)
"""How long the machine may take until its Node is Ready again (N15-163)."""
SETTLES_WITHIN = timedelta(minutes=2)
"""How long a machine that may have been asked to reboot is watched. A Node whose kubelet stopped is not Ready then."""
REFUSED_RETRY, MAX_REFUSED_RETRY = timedelta(seconds=5), timedelta(seconds=40)
"""How soon EC2 is asked again after a refusal. The pause doubles from the first value up to the second."""
REBOOTS_IN = frozenset({Stage.INITIALIZING, Stage.BINDING, Stage.LIVE})


def answer(state: NodeState, request: RebootRequest) -> RebootAnswer:
    """Decide whether the node reboots for this request. Call it before applying the request."""
    if state.stage.leaving or state.leave is not None:
        return RebootAnswer(accepted=False, why=f"already leaving: {removal_text(state.leave) if state.leave else ''}")
    if state.reboot is not None:
        same = state.reboot.request.operation_id == request.operation_id
        return RebootAnswer(accepted=same, why="" if same else f"it reboots already: {state.reboot.request.reason}")
    if state.stage not in REBOOTS_IN:
        return RebootAnswer(accepted=False, why=f"its Node has not joined yet: {state.stage.value}")
    return RebootAnswer(accepted=True)


def requested(state: NodeState, request: RebootRequest, now: datetime) -> NodeState:
    """Begin the reboot, unless the node does not accept it, does it already or has done it."""
    if state.reboot is not None or request.requested_at in state.reboots or not answer(state, request).accepted:
        return state
    recent = [at for at in state.reboots if request.requested_at - at < HISTORY and at != request.requested_at]
    begun = evolve(
        state,
        stage=Stage.REBOOTING,
        reboot=Reboot(request=request),
        reboots=(*recent, request.requested_at),
        deadline=None,
        check_now=False,
        blocked=None,
        failures=0,
    )
    return record(begun, now, f"reboot requested: {request_text(request)}")


def drain_until(request: RebootRequest) -> datetime | None:
    """Return when the drain ends, whatever pods are left; None if it waits for all of them."""
    seconds = request.drain_seconds
    return None if seconds is None else request.requested_at + max(timedelta(seconds=seconds), MIN_DRAIN)


def fenced(state: NodeState, result: FenceResult, now: datetime) -> NodeState:
    """Drain next, or go on where the NodeClaim says that somebody else has stopped."""
    reboot = _in_phase(state, RebootPhase.FENCING)
    if reboot is None:
        return state
    if result.request is not None:
        same = result.request.operation_id == reboot.request.operation_id
        unrecorded = (
            {"actor": reboot.request.actor, "policy": reboot.request.policy, "ticket": reboot.request.ticket}
            if same
            else {}
        )
        reboot = evolve(reboot, request=evolve(result.request, **unrecorded))
        state = evolve(state, reboot=reboot)
    if result.ended:
        return _succeeded(state, reboot, now)
    if result.invalid:
        return _failing(state, RebootResult.INVALID_REQUEST, result.invalid, now, stays=True)
    if not result.claim_stays:
        return _waits(state, now + CHECK_AGAIN)
    if result.issued:
        return _issued(state, result.pre_boot_id, result.issued_at or now, "goes on: EC2 has accepted the reboot", now)
    if not result.node_exists:
        return _without_node(state, now)
    if result.pre_boot_id:
        return _resumed(state, BootRecord(pre_boot_id=result.pre_boot_id, boot_id=result.boot_id), now)
    drains = reboot.request.drain_seconds != 0
    text = "fenced: no new pods until the machine has booted" + ("" if drains else "; all pods ride through")
    return record(_next(state, RebootPhase.DRAINING if drains else RebootPhase.RECORDING), now, text)


def drained(state: NodeState, result: RebootDrainResult, now: datetime) -> NodeState:
    """Record the boot ID next if the drain is over. Otherwise say what blocks it, and go on later."""
    reboot = _in_phase(state, RebootPhase.DRAINING)
    if reboot is None:
        return state
    state = evolve(
        state, evicted_pods=state.evicted_pods + result.evicted, drain_rounds=state.drain_rounds + 1, check_now=False
    )
    if not result.node_exists:
        return _without_node(state, now)
    until = drain_until(reboot.request)
    earliest = reboot.request.requested_at + MIN_DRAIN
    if not result.remaining and now < earliest:
        return _waits(state, earliest)
    if not result.remaining or (until is not None and now >= until):
        rest = f"{counted(result.remaining, 'pod')} left, which ride through the reboot"
        done = evolve(_next(state, RebootPhase.RECORDING), drain_rounds=0, drain_stalls=0)
        return record(done, now, rest if result.remaining else "drained for the reboot")
    pause, stalls = leaving_stages.pause_of_drain(state, evicted=result.evicted)
    since = (state.blocked and state.blocked.since) or now
    shown, others = result.blocked[: leaving_stages.SHOWN], result.blocked[leaving_stages.SHOWN :]
    blocked = Blocked(pods=tuple(shown), more=len(others), since=since)
    waits = evolve(
        state,
        blocked=blocked if result.blocked else None,
        deadline=min(now + pause, until or now + pause) if result.blocked else None,
        drain_stalls=stalls,
    )
    why = f": {why_blocked(waits)}" if waits.blocked else ""
    return record(waits, now, f"{counted(result.remaining, 'pod')} left before the reboot{why}")


def boot_recorded(state: NodeState, result: BootRecord, now: datetime) -> NodeState:
    """Ask EC2 next, unless the machine has booted already."""
    reboot = _in_phase(state, RebootPhase.RECORDING)
    if reboot is None:
        return state
    if result.ended:
        return _succeeded(state, reboot, now)
    if not result.boot_id or not result.pre_boot_id:
        return _without_node(state, now)
    if result.boot_id != result.pre_boot_id:
        return _resumed(state, result, now)
    return _next(state, RebootPhase.ISSUING, boot_id=result.pre_boot_id, issuing_since=now)


def _resumed(state: NodeState, boot: BootRecord, now: datetime) -> NodeState:
    """Go on with a reboot that may have been issued already: its boot ID is recorded (N15-159)."""
    if boot.boot_id and boot.boot_id != boot.pre_boot_id:
        text = "goes on: the machine has booted since its boot ID was recorded"
        return _issued(state, boot.pre_boot_id, now, text, now)
    watched = _next(state, RebootPhase.SETTLING, boot_id=boot.pre_boot_id, issuing_since=now, asked_at=now)
    return record(watched, now, "goes on: EC2 may have been asked, so the machine is watched before it is asked again")


def replied(state: NodeState, reply: RebootReply, now: datetime) -> NodeState:
    """Wait for the new boot if EC2 accepted; ask again after a refusal; give up if EC2 never will."""
    reboot = _in_phase(state, RebootPhase.ISSUING)
    if reboot is None:
        return state
    match reply.outcome:
        case RebootOutcome.ACCEPTED:
            return _issued(state, reboot.boot_id, now, f"EC2 reboots {_machine(state)}", now)
        case RebootOutcome.REJECTED:
            text = f"EC2 does not reboot the instance: {reply.message}"
            return _failing(state, RebootResult.PROVIDER_ERROR, text, now)
        case RebootOutcome.UNKNOWN:
            return lost_answer(state, reply.message, now)
        case RebootOutcome.WITHDRAWN:
            return _waits(state, now + CHECK_AGAIN)
        case RebootOutcome.REFUSED:
            text = f"EC2 refuses the reboot for now: {reply.message}"
            if now >= (reboot.issuing_since or now) + ISSUED_WITHIN:
                return _failing(state, RebootResult.PROVIDER_ERROR, _not_issued(reply.message), now)
            pause = min(REFUSED_RETRY * 2 ** min(reboot.refusals, 8), MAX_REFUSED_RETRY)
            again = evolve(reboot, refusals=reboot.refusals + 1)
            waits = evolve(state, reboot=again, deadline=now + pause, check_now=False, blocked=Blocked(message=text))
            return record(waits, now, text)


def lost_answer(state: NodeState, why: str, now: datetime) -> NodeState:
    """Watch the machine: EC2 may have got the request, and no one knows its answer."""
    if _in_phase(state, RebootPhase.ISSUING) is None:
        return state
    text = f"EC2's answer is lost ({why}): watches whether the machine reboots before it is asked again"
    return record(_next(state, RebootPhase.SETTLING, asked_at=now), now, text)


def checked(state: NodeState, check: RebootCheck, now: datetime) -> NodeState:
    """Go on once the machine has booted, ask again if it did not, or give up."""
    reboot = _in_phase(state, RebootPhase.SETTLING, RebootPhase.RECOVERING)
    if reboot is None:
        return state
    state = evolve(state, check_now=False, blocked=None)
    if check.ended:
        return _succeeded(state, reboot, now)
    if reboot.phase is RebootPhase.SETTLING:
        return _settled(state, reboot, check, now)
    if check.rebooted and not reboot.booted:
        reboot = evolve(reboot, booted=True)
        state = record(evolve(state, reboot=reboot), now, "the machine has booted: takes pods again once it is Ready")
    if not check.node_exists:
        return _without_node(state, now)
    give_up_at = (reboot.issued_at or now) + RECOVERS_WITHIN
    if now >= give_up_at:
        return _failing(state, RebootResult.RECOVERY_TIMEOUT, _not_recovered(reboot), now)
    return _waits(state, min(now + CHECK_AGAIN, give_up_at))


def _settled(state: NodeState, reboot: Reboot, check: RebootCheck, now: datetime) -> NodeState:
    asked_at = reboot.asked_at or now
    if check.rebooted:
        return _issued(state, reboot.boot_id, asked_at, "the machine has booted", now)
    watched_until = asked_at + SETTLES_WITHIN
    if now < watched_until:
        return _waits(state, min(now + CHECK_AGAIN, watched_until))
    if not check.ready:
        return _issued(state, reboot.boot_id, asked_at, "its Node is not Ready, so the machine reboots", now)
    if now >= (reboot.issuing_since or now) + ISSUED_WITHIN:
        return _failing(state, RebootResult.PROVIDER_ERROR, _not_issued("EC2 does not answer"), now)
    return record(_next(state, RebootPhase.ISSUING), now, "the machine did not reboot: asks EC2 again")


def ended(state: NodeState, now: datetime) -> NodeState:
    """Leave after a reboot that failed, or go on as before."""
    reboot = _in_phase(state, RebootPhase.FAILING)
    if reboot is None:
        return state
    state = evolve(state, reboot=None, deadline=None, check_now=True, blocked=None)
    if reboot.stays:
        return evolve(state, stage=Stage.LIVE if state.initialized else Stage.INITIALIZING)
    detail = f"its reboot failed: {reboot.message}"
    return leaving_stages.leave(state, LeaveRequest(reason=Reason.UNHEALTHY, detail=detail, actor=WORKFLOW), now)


def poked(state: NodeState, *, rebooted: bool) -> NodeState:
    """Look at once if the Node reports a new boot and that is what the reboot waits for."""
    reboot = _in_phase(state, RebootPhase.SETTLING, RebootPhase.RECOVERING)
    return evolve(state, check_now=True) if reboot is not None and rebooted else state


def _in_phase(state: NodeState, *phases: RebootPhase) -> Reboot | None:
    reboot = state.reboot if state.stage is Stage.REBOOTING else None
    return reboot if reboot is not None and reboot.phase in phases else None


def _next(state: NodeState, phase: RebootPhase, **changes: object) -> NodeState:
    return evolve(
        state, reboot=evolve(_of(state), phase=phase, **changes), deadline=None, check_now=False, blocked=None
    )


def _of(state: NodeState) -> Reboot:
    assert state.reboot is not None
    return state.reboot


def _waits(state: NodeState, until: datetime) -> NodeState:
    return evolve(state, deadline=until, check_now=False)


def _issued(state: NodeState, boot_id: str, issued_at: datetime, text: str, now: datetime) -> NodeState:
    recovers = _next(state, RebootPhase.RECOVERING, boot_id=boot_id, issued_at=issued_at)
    return record(evolve(recovers, initialized=False), now, text)


def _succeeded(state: NodeState, reboot: Reboot, now: datetime) -> NodeState:
    took = lasting(now - reboot.request.requested_at)
    done = evolve(
        state,
        stage=Stage.INITIALIZING,
        reboot=None,
        initialized=False,
        registered_at=now,
        checks=0,
        check_now=True,
        deadline=now + FIRST_CHECK,
    )
    return record(done, now, f"rebooted, {took} after the request")


def _without_node(state: NodeState, now: datetime) -> NodeState:
    """Wait for a Node that is gone until the deadline of the phase, and fail then (N15-166)."""
    reboot = _of(state)
    if reboot.issued_at is not None:
        if now >= reboot.issued_at + RECOVERS_WITHIN:
            return _failing(state, RebootResult.RECOVERY_TIMEOUT, _not_recovered(reboot), now)
    elif now >= (reboot.issuing_since or reboot.request.requested_at) + ISSUED_WITHIN:
        return _failing(state, RebootResult.PROVIDER_ERROR, _not_issued("its Node is gone"), now, has_node=False)
    return record(_waits(state, now + CHECK_AGAIN), now, "its Node is gone")


def _failing(
    state: NodeState, result: RebootResult, message: str, now: datetime, *, stays: bool = False, has_node: bool = True
) -> NodeState:
    """End the reboot. A node that an operator asked to reboot stays if its machine was not rebooted."""
    reboot = _of(state)
    untouched = has_node and reboot.issued_at is None and not reboot.request.repairs
    failing = _next(state, RebootPhase.FAILING, result=result, message=message, stays=stays or untouched)
    failing = evolve(failing, failed_reboot=reboot.request.requested_at)
    return record(failing, now, f"the reboot failed: {message}")


def _not_issued(why: str) -> str:
    return f"EC2 did not accept it within {lasting(ISSUED_WITHIN)}: {why}"


def _not_recovered(reboot: Reboot) -> str:
    lacks = "the machine has booted, but its Node is not Ready" if reboot.booted else "its Node reports no new boot"
    return f"{lasting(RECOVERS_WITHIN)} after EC2 accepted it, {lacks}"


def _machine(state: NodeState) -> str:
    return state.instance.id if state.instance else "the instance"
