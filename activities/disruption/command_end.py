"""The end of a disruption command that moves pods: it gives up its hold on its nodes, and undoes what no one needs.

An unused replacement of a command that failed is deleted or asked to leave. If pods use it, it stays, as an ordinary
node.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

from temporalio import activity

from activities import loggers, metrics
from activities.clock import utc_now
from activities.disruption.commands import candidate_ref, is_of, not_yet
from activities.kubernetes.changes import change
from activities.kubernetes.client import Kube
from activities.kubernetes.event_references import claim_reference
from activities.kubernetes.events import EventPublisher
from activities.kubernetes.nodeclaim_deletion import delete_with_finalizer
from activities.kubernetes.nodeclaims import read_claim
from activities.kubernetes.repair_outcomes import record_outcome
from activities.kubernetes.resources import NODECLAIMS
from activities.node import cordon
from activities.node.nodes import find_node, pods_on
from tenon.apis import labels
from tenon.apis.noderepairpolicy import RecentRepair
from tenon.apis.reasons import Reason, camel_case, snake_case
from tenon.kube import object_json
from tenon.kube.claim_record import ClaimRecord
from tenon.kube.event_reasons import EventReason
from tenon.kube.structs import Object
from tenon.messages.base import ActivityName, ClaimRef
from tenon.messages.command_steps import FinishInput
from tenon.messages.disruption import DisruptionCommand, Replacement, StepResult
from tenon.messages.node import Disrupt, DisruptAnswer, Removal
from tenon.messages.node_steps import NodeInput
from tenon.node.ids import nodeclaim_id
from tenon.node.leave_text import command_text

log = loggers.DISRUPTION

UNUSED = "the command failed before it needed this node"
OFFERS = 6
"""How often an unused replacement is asked to leave: for half a minute."""
MAX_ATTEMPTS = 14
"""After so many attempts, about five minutes, a node that accepted and does not leave is given up: its workflow was
terminated."""


class CommandEnd:
    """The last step of a command. It may be repeated."""

    def __init__(self, kube: Kube, recorder: EventPublisher, now: Callable[[], datetime] = utc_now) -> None:
        self._kube = kube
        self._recorder = recorder
        self._now = now

    @activity.defn(name=ActivityName.FINISH_COMMAND)
    async def finish_command(self, finish_input: FinishInput) -> StepResult:
        """Give up the command's hold on its nodes. With ``undo``, remove unused replacements.

        It begins when the candidates are leaving, so that replacements and candidates are never both ordinary nodes.

        Raises:
            ApplicationError: one of them is not leaving yet, or an unused replacement does not leave yet. Temporal
                tries again after a pause, which holds no worker slot.
        """
        stay = set(finish_input.stay)
        gives_up = activity.info().attempt >= MAX_ATTEMPTS
        for candidate in finish_input.command.candidates:
            if candidate.claim in stay or gives_up:
                continue
            activity.heartbeat()
            claim = await read_claim(self._kube, candidate_ref(finish_input.cluster, candidate))
            if claim is not None and claim.disrupted_by == finish_input.command.id and not claim.deleting:
                raise not_yet(f"NodeClaim {candidate.claim} has accepted the command but is not leaving yet")
        for candidate in finish_input.command.candidates:
            activity.heartbeat()
            ref = candidate_ref(finish_input.cluster, candidate)
            claim, reason = await read_claim(self._kube, ref), camel_case(finish_input.command.reason)
            if claim is None:
                if candidate.claim not in stay:
                    await self._say_that_the_claim_leaves(claim_reference(ref.name, ref.uid), reason)
                continue
            if claim.disrupted_by != finish_input.command.id:
                continue
            if claim.deleting:
                await self._say_that_the_claim_leaves(claim.body, reason)
                await self._say_that_the_node_leaves(ref, claim, reason)
                continue
            if candidate.claim not in stay:
                log.warning(
                    "A node accepted a disruption command but does not leave, and the command gives up on it",
                    extra={"nodeclaim": ref.name},
                )
            # The taint goes first: as long as the annotation is there, a repetition finds the rest.
            await cordon.withdraw(self._kube, ref, "", command=finish_input.command.id)
            await self._unmark(ref, labels.DISRUPTED_BY, finish_input.command)
        for replacement in finish_input.command.replacements:
            activity.heartbeat()
            await self._release(finish_input, replacement)
        if finish_input.undo:
            _count_failure(finish_input.command)
            log.info(
                "The worker undid a disruption command",
                extra={
                    "command": finish_input.command.id,
                    "reason": finish_input.command.reason,
                    "nodeclaims": finish_input.stay,
                },
            )
        await self._record_repair(finish_input)
        return StepResult()

    async def _record_repair(self, finish_input: FinishInput) -> None:
        """Count the repair in the status of its policy."""
        command = finish_input.command
        if command.repair is None:
            return
        repair = RecentRepair(
            id=command.id,
            node_claim=command.candidates[0].claim,
            fault=command.repair.text,
            action="ReplaceNode",
            outcome="failed" if finish_input.undo else "succeeded",
            at=self._now(),
        )
        await record_outcome(self._kube, command.repair.policy, repair)

    async def _say_that_the_claim_leaves(self, regarding: Object, reason: str) -> None:
        """``regarding``: the NodeClaim, or a reference to it, because it may have left before this step."""
        text = f"Disrupting NodeClaim: {reason}"
        await self._recorder.publish(regarding, EventReason.DISRUPTION_TERMINATING, text)

    async def _say_that_the_node_leaves(self, ref: ClaimRef, claim: ClaimRecord, reason: str) -> None:
        node = (await find_node(self._kube, NodeInput(claim=ref), claim)).node
        if node is not None:
            await self._recorder.publish(node, EventReason.DISRUPTION_TERMINATING, f"Disrupting Node: {reason}")

    async def _release(self, finish_input: FinishInput, replacement: Replacement) -> None:
        """End the command's hold on a replacement. If the command failed, remove it unless a pod uses it."""
        body = await self._kube.get(NODECLAIMS, replacement.name)
        if body is None or not is_of(body, finish_input.command):
            return
        claim = ClaimRecord.of(body)
        ref = ClaimRef(cluster=finish_input.cluster, name=replacement.name, uid=claim.uid)
        if finish_input.undo and await self._never_served(ref, claim):
            removal = Removal(
                reason=Reason.UNUSED_REPLACEMENT, detail=UNUSED, actor=command_text(finish_input.command.id)
            )
            await delete_with_finalizer(self._kube, claim, removal)
            return
        if finish_input.undo:
            await _offer_to_leave(finish_input, replacement)
        await self._unmark(ref, labels.REPLACEMENT_FOR, finish_input.command)

    async def _never_served(self, ref: ClaimRef, claim: ClaimRecord) -> bool:
        """Whether a replacement has no Node, or one that is not initialized and has no pods.

        The workflow of a node refuses to leave as empty before the node is initialized. From then on it binds pods, so
        only the workflow knows whether the node is empty.
        """
        if not claim.registered:
            return True
        if claim.initialized:
            return False
        node = (await find_node(self._kube, NodeInput(claim=ref), claim)).node
        return node is not None and not any(
            pod.reschedulable for pod in await pods_on(self._kube, str(node["metadata"]["name"]))
        )

    async def _unmark(self, ref: ClaimRef, annotation: str, command: DisruptionCommand) -> None:
        def compute(claim: Object) -> dict[str, Any]:
            if object_json.annotations(claim).get(annotation) != command.id:
                return {}
            return {"metadata": {"annotations": {annotation: None}}}

        await change(self._kube, NODECLAIMS, ref.name, compute, uid=ref.uid)


def _count_failure(command: DisruptionCommand) -> None:
    reason = snake_case(command.reason)
    metrics.QUEUE_FAILURES.labels(command.decision, reason, command.consolidation_type).inc()


async def _offer_to_leave(finish_input: FinishInput, replacement: Replacement) -> None:
    """Ask the workflow of an unused replacement to leave if it has no pods. If it does not, it is an ordinary node.

    Raises:
        ApplicationError: it does not leave yet, for example because a node that was just initialized still binds pods.
    """
    handle = activity.client().get_workflow_handle(nodeclaim_id(finish_input.cluster, replacement.name))
    request = Disrupt(
        command=finish_input.command.id, reason=Reason.EMPTY, detail=UNUSED, only_if_empty=True, unused=True
    )
    attempt = activity.info().attempt
    ident = f"{finish_input.command.id}-{attempt}"  # a workflow repeats its answer to the same update
    try:
        answer = await handle.execute_update("disrupt", request, id=ident, result_type=DisruptAnswer)
    except Exception as error:  # emptiness and consolidation look after a node that stays
        why = str(error)
    else:
        if answer.accepted:
            return
        why = answer.why
        if attempt < OFFERS:
            raise not_yet(f"replacement {replacement.name} of the failed command does not leave yet: {why}")
    log.info(
        "A replacement of a failed command stays",
        extra={"command": finish_input.command.id, "nodeclaim": replacement.name, "error": why},
    )
