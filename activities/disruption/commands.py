"""The steps of a disruption command until its nodes are asked to leave: taint, create replacements, look again.

A NodeClaim says by annotation which open command it belongs to. Nothing else must remove its node or its taint as long
as that command runs, and a command that was terminated is recognized by it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

from temporalio import activity
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory

from activities import loggers
from activities.clock import utc_now
from activities.disruption.rollout_restart import RolloutRestarter
from activities.kubernetes.changes import change
from activities.kubernetes.client import Kube
from activities.kubernetes.errors import ApiError, ConflictError
from activities.kubernetes.events import EventPublisher
from activities.kubernetes.nodeclaims import ConditionUpdate, annotate_claim, read_claim, update_conditions
from activities.kubernetes.resources import NODECLAIMS, NODES
from activities.node.nodes import Budgets, find_node, pods_on
from activities.node.reboot_request import request_reboot
from activities.tracing import spans
from tenon.apis import labels
from tenon.apis.nodeclaim import DISRUPTION_REASON
from tenon.apis.reasons import camel_case, traits_of
from tenon.disruption.commands.awaited_replacements import why_first
from tenon.disruption.history.arrivals import with_arrival
from tenon.disruption.rules.held_pods import holder, late_pod
from tenon.kube import object_json
from tenon.kube.claim_record import ClaimRecord
from tenon.kube.conditions import condition
from tenon.kube.event_reasons import EventReason
from tenon.kube.structs import Object
from tenon.messages.base import ActivityName, ClaimRef
from tenon.messages.command_steps import DisruptInput, ReplacementsInput
from tenon.messages.disruption import (
    DisruptionCandidate,
    DisruptionCommand,
    DisruptResult,
    StepResult,
)
from tenon.messages.node import RebootRequest
from tenon.messages.node_steps import NodeInput
from tenon.node.cordon import tainted
from tenon.node.leave_text import command_text
from tenon.node.reboot_record import operation_id

log = loggers.DISRUPTION


class CommandActivities:
    """Each step of a command as its own activity. All of them may be repeated."""

    def __init__(
        self,
        kube: Kube,
        recorder: EventPublisher,
        now: Callable[[], datetime] = utc_now,
    ) -> None:
        self._kube = kube
        self._recorder = recorder
        self._now = now
        self._restarter = RolloutRestarter(kube, now)

    def all(self) -> Sequence[Callable[..., Any]]:
        """All activities."""
        return [
            self.taint_candidates,
            self.create_replacements,
            self.look_at_replacements,
            self.start_new_pods_first,
            self.check_candidates,
            self.request_reboot,
        ]

    @activity.defn(name=ActivityName.TAINT_CANDIDATES)
    async def taint_candidates(self, disrupt_input: DisruptInput) -> StepResult:
        """Mark each candidate's claim with the command and its reason, then keep new pods away from its Node."""
        if disrupt_input.command.surge and (why := await self._restarter.why_not(disrupt_input.command.surge)):
            await self._say_why_blocked(disrupt_input, why)
            return StepResult(failure=why)
        for candidate in disrupt_input.command.candidates:
            ref = candidate_ref(disrupt_input.cluster, candidate)
            claim = await read_claim(self._kube, ref)
            if claim is None or claim.deleting:
                return StepResult(failure=f"NodeClaim {candidate.claim} is already leaving")
            other = claim.annotations.get(labels.DISRUPTED_BY, disrupt_input.command.id)
            if other != disrupt_input.command.id:
                return StepResult(failure=f"NodeClaim {candidate.claim} belongs to command {other}")
            node = (await find_node(self._kube, NodeInput(claim=ref), claim)).node
            if node is None or object_json.is_deleting(node):
                return StepResult(failure=f"the Node of NodeClaim {candidate.claim} is already leaving")
            await annotate_claim(self._kube, ref, {labels.DISRUPTED_BY: disrupt_input.command.id})
            update = ConditionUpdate(DISRUPTION_REASON, "True", camel_case(disrupt_input.command.reason))
            await update_conditions(self._kube, ref, [update], self._now)
            await change(self._kube, NODES, node["metadata"]["name"], tainted, uid=object_json.uid(node))
            await self._say_what_it_waits_for(disrupt_input.command, claim, node)
        log.info(
            "The worker prepares to disrupt nodes",
            extra={
                "command": disrupt_input.command.id,
                "reason": disrupt_input.command.reason,
                "nodeclaims": [candidate.claim for candidate in disrupt_input.command.candidates],
                "replacements": [replacement.name for replacement in disrupt_input.command.replacements],
            },
        )
        return StepResult()

    async def _say_why_blocked(self, disrupt_input: DisruptInput, why: str) -> None:
        for candidate in disrupt_input.command.candidates:
            ref = candidate_ref(disrupt_input.cluster, candidate)
            claim = await read_claim(self._kube, ref)
            if claim is not None:
                node = (await find_node(self._kube, NodeInput(claim=ref), claim)).node
                await self._say_blocked(claim, node, why)

    async def _say_blocked(self, claim: ClaimRecord, node: Object | None, why: str) -> None:
        for subject in (claim.body, *([node] if node is not None else [])):
            await self._recorder.publish(subject, EventReason.DISRUPTION_BLOCKED, why)

    async def _say_what_it_waits_for(self, command: DisruptionCommand, claim: ClaimRecord, node: Object) -> None:
        if command.terminate_first is not None:
            for subject in (claim.body, node):
                await self._recorder.publish(subject, EventReason.TERMINATING_FIRST, why_first(command.terminate_first))
        if not command.replacements:
            return
        names = ", ".join(replacement.name for replacement in command.replacements)
        text = f"Waiting on readiness of {names} to continue disruption"
        for subject in (claim.body, node):
            await self._recorder.publish(subject, EventReason.DISRUPTION_WAITING_READINESS, text)

    @activity.defn(name=ActivityName.CREATE_REPLACEMENTS)
    async def create_replacements(self, disrupt_input: DisruptInput) -> StepResult:
        """Create the NodeClaims of the replacements. Their names make it safe to repeat."""
        for replacement in disrupt_input.command.replacements:
            try:
                created = await self._kube.create(NODECLAIMS, _traced(replacement.body))
            except ConflictError:
                present = await self._kube.get(NODECLAIMS, replacement.name)
                if present is None or not is_of(present, disrupt_input.command):
                    return StepResult(failure=f"the name {replacement.name} of a replacement is taken")
            except ApiError as error:
                if error.is_transient:
                    raise
                return StepResult(
                    failure=f"the API server refused a NodeClaim of NodePool {replacement.pool}: {error.message}"
                )
            else:
                reason = camel_case(disrupt_input.command.reason)
                await self._recorder.publish(
                    created, EventReason.DISRUPTION_LAUNCHING, f"Launching NodeClaim: {reason}"
                )
        return StepResult()

    @activity.defn(name=ActivityName.AWAIT_REPLACEMENTS)
    async def look_at_replacements(self, replacements_input: ReplacementsInput) -> StepResult:
        """Look once whether all replacements are initialized, or one is gone.

        The workflow waits between two checks. An activity that waits would hold a worker slot, and launching the
        replacements needs the same slots.
        """
        waiting: dict[str, str] = {}
        for replacement in replacements_input.command.replacements:
            body = await self._kube.get(NODECLAIMS, replacement.name)
            if body is None or object_json.is_deleting(body):
                return StepResult(failure=f"replacement {replacement.name} is gone{_why_gone(body)}")
            claim = ClaimRecord.of(body)
            if not claim.initialized:
                waiting[replacement.name] = waits_for(claim)
        return StepResult(waits="; ".join(f"{name} {reason}" for name, reason in sorted(waiting.items())[:3]))

    @activity.defn(name=ActivityName.SURGE)
    async def start_new_pods_first(self, replacements_input: ReplacementsInput) -> StepResult:
        """Restart the Deployments of pods that must not stop first, and look once whether their new pods are ready.

        Raises:
            ApplicationError: they are not ready yet. Temporal looks again after a pause, which holds no worker slot.
            ApiError: the API server may accept the restart later, and there is time left. The step ends only with a
                result, so everything else fails the command.
        """
        nodes = []
        for candidate in replacements_input.command.candidates:
            ref = candidate_ref(replacements_input.cluster, candidate)
            claim = await read_claim(self._kube, ref)
            node = (await find_node(self._kube, NodeInput(claim=ref), claim)).node if claim is not None else None
            if node is not None:
                nodes.append(str(node["metadata"]["name"]))
        command = replacements_input.command
        is_late = self._now() >= replacements_input.until
        try:
            waits = await self._restarter.surge(command.surge, nodes, command.id)
        except ApiError as error:
            if not is_late and (error.is_transient or isinstance(error, ConflictError)):
                raise
            return StepResult(failure=f"new pods could not be started first: {error.message}")
        if not waits:
            return StepResult()
        if is_late:
            return StepResult(failure=f"{waits} in time")
        raise not_yet(waits)

    @activity.defn(name=ActivityName.CHECK_CANDIDATES)
    async def check_candidates(self, disrupt_input: DisruptInput) -> StepResult:
        """Look at the candidates' pods for the last time. A candidate that is already leaving needs no check."""
        command = disrupt_input.command
        budgets = Budgets(self._kube)
        for candidate in command.candidates:
            ref = candidate_ref(disrupt_input.cluster, candidate)
            claim = await read_claim(self._kube, ref)
            if claim is None or claim.deleting:
                continue
            node = (await find_node(self._kube, NodeInput(claim=ref), claim)).node
            if node is not None and (why := _recovered(node, command)):
                return StepResult(failure=f"NodeClaim {candidate.claim}: {why}")
            if node is None or not command.graceful:
                continue
            present = await pods_on(self._kube, node["metadata"]["name"])
            with_budgets = [(pod, await budgets.selecting(pod)) for pod in present]
            why = holder(with_budgets, self._now(), after_surge=True)
            if traits_of(command.reason).fixes_pods:
                why = why or late_pod(present, candidate.pods)
            if why:
                await self._say_blocked(claim, node, why)
                return StepResult(failure=f"NodeClaim {candidate.claim}: {why}")
        await self._record_arrivals(command)
        return StepResult()

    @activity.defn(name=ActivityName.REQUEST_REBOOT)
    async def request_reboot(self, disrupt_input: DisruptInput) -> DisruptResult:
        """Ask the node of a reboot to reboot its machine, with the drain bound of the repair policies (N15-152)."""
        command, accepted, refused = disrupt_input.command, list[str](), dict[str, str]()
        fault = command.repair
        assert fault is not None, "only repair reboots nodes"
        requested_at = activity.info().scheduled_time.replace(microsecond=0)  # the same for each attempt
        for candidate in command.candidates:
            request = RebootRequest(
                operation_id=operation_id(candidate.uid, requested_at),
                reason=f"{fault.condition}/{fault.reason}",
                repairs=True,
                policy=fault.policy,
                drain_seconds=fault.drain_seconds,
                requested_at=requested_at,
                actor=command_text(command.id),
            )
            ref = candidate_ref(disrupt_input.cluster, candidate)
            answer = await request_reboot(self._kube, activity.client(), ref, request)
            if answer.accepted:
                accepted.append(candidate.claim)
            else:
                refused[candidate.claim] = answer.why
        return DisruptResult(accepted=accepted, refused=refused)

    async def _record_arrivals(self, command: DisruptionCommand) -> None:
        """Write down where the pods go, so that consolidation lets them rest there. They are evicted next."""
        for name, times in command.arrivals.items():
            activity.heartbeat()

            at = activity.info().scheduled_time  # the same for each attempt
            arriving_workloads = command.arriving_workloads.get(name, {})

            def compute(
                claim: Object,
                at: datetime = at,
                times: Mapping[str, int] = times,
                workloads: Mapping[str, int] = arriving_workloads,
            ) -> dict[str, Any]:
                recorded = object_json.annotations(claim).get(labels.MOVED_HERE, "[]")
                return {"metadata": {"annotations": {labels.MOVED_HERE: with_arrival(recorded, at, times, workloads)}}}

            if (present_claim := await self._kube.get(NODECLAIMS, name)) is not None:
                await change(
                    self._kube,
                    NODECLAIMS,
                    name,
                    compute,
                    uid=present_claim["metadata"]["uid"],
                    read_object=present_claim,
                )


def not_yet(condition: str) -> ApplicationError:
    """The error of an attempt that found that it must wait. Temporal shows it as the last failure of the activity."""
    return ApplicationError(condition, category=ApplicationErrorCategory.BENIGN)


def candidate_ref(cluster: str, candidate: DisruptionCandidate) -> ClaimRef:
    """The NodeClaim of a candidate."""
    return ClaimRef(cluster=cluster, name=candidate.claim, uid=candidate.uid)


def _traced(body: Object) -> dict[str, Any]:
    """The body of a NodeClaim, with the span that creates it if that is recorded."""
    if not (origin := spans.origin(0.0)):
        return dict(body)
    metadata = body["metadata"]
    annotations = {**metadata.get("annotations", {}), labels.CREATED_IN_TRACE: origin}
    return {**body, "metadata": {**metadata, "annotations": annotations}}


def is_of(claim: Mapping[str, Any], command: DisruptionCommand) -> bool:
    """Whether a NodeClaim is a replacement of the command."""
    return ClaimRecord.of(claim).replacement_for == command.id


def _recovered(node: Object, command: DisruptionCommand) -> str:
    """Why the node of a repair needs none any more; empty if it does, or if the command repairs nothing."""
    fault = command.repair
    if fault is None or condition(node, fault.condition).get("status") == fault.status:
        return ""
    return f"its condition {fault.condition} is not {fault.status} any more"


def waits_for(claim: ClaimRecord) -> str:
    """Return what a NodeClaim that is not initialized waits for, in a clause."""
    if not claim.launched:
        launched = claim.condition("Launched")
        return str(launched.get("message") or "waits for its instance")
    if not claim.registered:
        return "waits for its Node"
    return str(claim.condition("Initialized").get("message") or "waits until its Node is ready")


def _why_gone(claim: Mapping[str, Any] | None) -> str:
    if claim is None:
        return ""
    message = ClaimRecord.of(claim).condition("Launched").get("message")
    return f": {message}" if message else ""
