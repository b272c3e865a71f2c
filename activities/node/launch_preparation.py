"""The step "prepare launch": builds the request to EC2, unless the NodeClaim was launched before."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from functools import partial

from activities import loggers
from activities.ec2.errors import (
    EC2Error,
    InsufficientCapacityError,
    NodeClassNotReadyError,
    NodeClassReadinessUnknownError,
)
from activities.heartbeat import with_heartbeat
from activities.kubernetes import nodeclaims
from activities.node import cordon
from activities.node.launch_groups import in_group, living_instance
from activities.node.launch_parts import LaunchParts
from activities.node.lost_instances import Search
from activities.node.startup_cordon import remove_startup_cordon_by_name
from activities.node.throttled_launches import PREPARING
from activities.tracing.spans import carried
from tenon.apis.nodeclaim import NodeClaim
from tenon.apis.reasons import Reason
from tenon.apis.validation import parse
from tenon.ec2.families.own_kubelet import with_own_kubelet
from tenon.ec2.launch.filters import NoImageError
from tenon.evolve import evolve
from tenon.kube.claim_record import ClaimRecord
from tenon.messages.base import ClaimRef
from tenon.messages.launch import (
    ClaimView,
    Instance,
    LaunchRequest,
    LaunchWait,
    PrepareLaunchInput,
    PrepareLaunchResult,
)

log = loggers.NODECLAIM_LIFECYCLE

CLASS_UNKNOWN = "NodeClassReadinessUnknown"
RESUMED_AFTER = timedelta(seconds=15)
"""If a claim is older than this when its workflow starts, an earlier workflow may have launched it already."""


class LaunchPreparation:
    """Prepares launches."""

    def __init__(self, parts: LaunchParts, initialization_timeout: timedelta | None) -> None:
        self._parts = parts
        self._initialization_seconds = initialization_timeout.total_seconds() if initialization_timeout else None

    async def prepare(self, prepare_input: PrepareLaunchInput) -> PrepareLaunchResult:
        """Return what the claim asks for and, unless it was launched before, the exact request of this attempt."""
        claim = await nodeclaims.read_claim(self._parts.kube, prepare_input.claim)
        if claim is None:
            return PrepareLaunchResult(view=ClaimView())
        view = evolve(nodeclaims.view_of(claim), initialization_timeout_seconds=self._initialization_seconds)
        waits_for_launch = not claim.deleting and not claim.provider_id
        if waits_for_launch and (
            breaker := await self._parts.breakers.admit(
                view.pool, prepare_input.claim.name, claim.instance_types, node_class=claim.class_key
            )
        ):
            return await self._parts.failures.unprepared(
                claim, prepare_input.claim, view, self._parts.failures.breaker_wait(breaker)
            )
        request: LaunchRequest | None = None
        try:
            result = await self._prepare(prepare_input, claim, view)
            request = result.request
            self._parts.record.prepared(prepare_input.claim, claim, result, prepare_input.attempt)
            return result
        finally:
            if request is None:
                self._parts.breakers.leave(prepare_input.claim.name)

    async def _prepare(
        self, prepare_input: PrepareLaunchInput, claim: ClaimRecord, view: ClaimView
    ) -> PrepareLaunchResult:
        began = prepare_input.began_at or self._parts.now()
        attempt = max(prepare_input.attempt, claim.launch_attempt)
        give_up = partial(self._parts.failures.given_up, claim, prepare_input.claim, view)
        try:
            earlier = await self._launched_before(claim, prepare_input.claim, began, sent_before=attempt > 1)
        except NodeClassNotReadyError as error:
            return await give_up(Reason.NODECLASS_NOT_READY, str(error))
        except NodeClassReadinessUnknownError as error:
            wait = LaunchWait(
                reason=CLASS_UNKNOWN, message=f"{error}, so the launch of its instance cannot be recorded"
            )
            return await self._parts.failures.unprepared(claim, prepare_input.claim, view, wait)
        instance = earlier.instance
        if earlier.waits is not None:
            return PrepareLaunchResult(
                view=view, reason=earlier.waits.reason, message=earlier.waits.message, waits=earlier.waits
            )
        if earlier.lost and not view.deleting:
            return await give_up(Reason.INSTANCE_GONE, earlier.lost)
        if instance is not None:
            return await self._continued(prepare_input.claim, instance, view)
        if view.deleting:
            return PrepareLaunchResult(view=view)
        if not await nodeclaims.ensure_claim_finalizer(self._parts.kube, prepare_input.claim, read_object=claim.body):
            return PrepareLaunchResult(view=ClaimView())
        try:
            nodeclaim, faults = parse(NodeClaim, claim.body)
            if nodeclaim is None or faults:
                raise ValueError("the NodeClaim cannot be read: " + "; ".join(str(fault) for fault in faults))
            node_class = await self._parts.claims.node_class(claim, launching=True)
            own = with_own_kubelet(node_class, claim.annotations)
            async with self._parts.throttled.shown(prepare_input.claim, PREPARING):
                types = await with_heartbeat(self._parts.claims.types.of(claim, own))
                unavailable = self._parts.breakers.unavailable_to(claim)
                prepare = carried(
                    partial(self._parts.provider.prepare_launch, nodeclaim, own, attempt, unavailable, types)
                )
                request = await with_heartbeat(asyncio.get_running_loop().run_in_executor(self._parts.senders, prepare))
        except NodeClassNotReadyError as error:
            return await give_up(Reason.NODECLASS_NOT_READY, str(error))
        except InsufficientCapacityError as error:
            self._parts.breakers.mark_unavailable(error.unavailable)
            self._parts.breakers.news.set()  # the planner asked for this, so it does not know what is unavailable
            return await give_up(Reason.INSUFFICIENT_CAPACITY, str(error))
        except NodeClassReadinessUnknownError as error:
            return await self._parts.failures.unprepared(
                claim, prepare_input.claim, view, LaunchWait(reason=CLASS_UNKNOWN, message=str(error))
            )
        except NoImageError as error:
            wait = LaunchWait(reason=nodeclaims.LAUNCH_FAILED, message=str(error))
            return await self._parts.failures.unprepared(claim, prepare_input.claim, view, wait)
        except ValueError as error:
            wait = LaunchWait(reason=nodeclaims.LAUNCH_FAILED, message=str(error))
            self._parts.breakers.refused(view.pool, wait.reason, wait.message)
            return await self._parts.failures.unprepared(claim, prepare_input.claim, view, wait)
        except EC2Error as error:
            wait = await self._parts.failures.failed(prepare_input.claim, claim, error)
            return await self._parts.failures.unprepared(claim, prepare_input.claim, view, wait)
        group = await with_heartbeat(self._parts.groups.wait_complete(claim)) if attempt == 1 else None
        if attempt > 1 or (group is None and in_group(claim)):
            await self._parts.claims.record_attempt(prepare_input.claim, attempt)
        request = evolve(request, made_from=self._parts.claims.origin(node_class), group=group)
        return PrepareLaunchResult(view=view, request=request, attempt=attempt)

    async def _continued(self, ref: ClaimRef, instance: Instance, view: ClaimView) -> PrepareLaunchResult:
        """Go on with the instance of an earlier workflow, without what that one left on the node."""
        await self._parts.claims.tag(ref, instance, view.node_name)
        # That workflow may have been terminated between tainting the node and deleting the claim.
        if await cordon.withdraw(self._parts.kube, ref, view.node_name):
            log.info(
                "The worker removed the disruption taint from a node",
                extra={"nodeclaim": ref.name, "node": view.node_name},
            )
        # Or before it bound the pods.
        if view.initialized and await remove_startup_cordon_by_name(self._parts.kube, view.node_name):
            log.info("The worker removed a startup cordon", extra={"nodeclaim": ref.name, "node": view.node_name})
        return PrepareLaunchResult(view=evolve(view, instance=instance))

    async def _launched_before(
        self, claim: ClaimRecord, ref: ClaimRef, began: datetime, *, sent_before: bool = False
    ) -> Search:
        """Find the instance of an earlier launch, which another workflow may have made if this one began late."""
        if claim.provider_id:
            return await self._parts.lost.search(claim)
        created = claim.created_at
        young = created is None or began - created < RESUMED_AFTER
        if young and not sent_before:
            return Search()
        instance = await with_heartbeat(living_instance(self._parts.provider, ref.name, claim, self._parts.now()))
        if instance is not None and not claim.deleting:
            await self._parts.claims.mark(ref, instance, claim)
            self._parts.record.launched(ref, claim, instance)
        return Search(instance=instance)
