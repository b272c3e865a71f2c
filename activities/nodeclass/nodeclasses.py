"""The activity that resolves an EC2NodeClass, and releases a deleted one when no NodeClaim uses it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any

from temporalio import activity

from activities import loggers, metrics
from activities.clock import utc_now
from activities.ec2.dry_runs import PROFILE_NOT_FOUND
from activities.ec2.errors import EC2Error
from activities.ec2.nodeclass import UnansweredError
from activities.ec2.provider import Ec2Provider
from activities.kubernetes.changes import change
from activities.kubernetes.client import Kube
from activities.kubernetes.events import EventPublisher
from activities.kubernetes.resources import CONTROLLERREVISIONS, EC2NODECLASSES, NODECLAIMS, NODEPOOLS
from activities.nodeclass.cluster_version import ClusterVersion
from activities.nodeclass.pool_requirements import pool_requirements
from activities.nodeclass.warnings import publish_warnings
from tenon.apis import labels
from tenon.apis.common import Condition
from tenon.apis.conditions import READY, VALIDATION_SUCCEEDED, get_condition, transitions, with_changes
from tenon.apis.ec2nodeclass import EC2NodeClass, EC2NodeClassStatus
from tenon.apis.hashing import EC2NODECLASS_VERSION, ec2nodeclass_hashes, migrated_hashes
from tenon.apis.json_object import JsonObject
from tenon.apis.managed import manages_claim
from tenon.apis.nodeclaim import DRIFTED
from tenon.apis.teardown import WHY, is_torn_down
from tenon.apis.validation import FieldError, parse
from tenon.ec2.nodeclass.instance_profiles import unused_profiles
from tenon.ec2.nodeclass.status import DEPENDENCIES_NOT_READY, unparsable_conditions
from tenon.evolve import evolve
from tenon.kube import object_json
from tenon.kube.claim_record import ClaimRecord
from tenon.kube.event_reasons import ConditionEvent, EventReason
from tenon.kube.structs import Object
from tenon.messages.base import ActivityName
from tenon.messages.nodeclass import NodeClassInput, NodeClassResult

log = loggers.NODECLASS

PROFILES_EVERY = timedelta(minutes=30)
"""How often to look for instance profiles of a class that nothing uses any more (ACT-05)."""


class NodeClassActivities:
    """The activity that resolves EC2NodeClasses."""

    def __init__(
        self,
        kube: Kube,
        recorder: EventPublisher,
        ec2: Ec2Provider,
        version: ClusterVersion,
        now: Callable[[], datetime] = utc_now,
        *,
        namespace: str,
    ) -> None:
        """``namespace`` is that of Tenon, where the versions of NodePools are recorded."""
        self._kube = kube
        self._recorder = recorder
        self._ec2 = ec2
        self._version = version
        self._now = now
        self._namespace = namespace
        self._profiles_read: dict[str, datetime] = {}
        """UID of a class to the last time when its instance profiles were read."""

    @activity.defn(name=ActivityName.RESOLVE_NODECLASS)
    async def resolve(self, nodeclass_input: NodeClassInput) -> NodeClassResult:
        """Look up what the class selects, and write its status, conditions, hash and finalizer.

        Raises:
            UnansweredError: AWS throttled a call or did not answer. The status says so where nothing else is known.
        """
        raw = await self._kube.get(EC2NODECLASSES, nodeclass_input.name)
        if raw is None:
            return NodeClassResult(exists=False)
        node_class, faults = parse(EC2NodeClass, raw)
        if object_json.is_deleting(raw):
            return await self._finalize_or_explain(raw, node_class)
        if is_torn_down(object_json.annotations(raw)):
            return NodeClassResult(message=WHY)  # its instance profile would be created again
        if node_class is None:
            return NodeClassResult(message=await self._report_unreadable(raw, nodeclass_input.name, faults))
        await self._ensure_metadata(raw, node_class)
        version = await self._version.current()
        requirements = pool_requirements(await self._kube.list(NODEPOOLS), nodeclass_input.name)
        unanswered: UnansweredError | None = None
        try:
            status = await asyncio.to_thread(self._ec2.resolve_node_class, node_class, version, requirements)
        except UnansweredError as error:
            status, unanswered = error.status, error
        if status.to_dict() != (raw.get("status") or {}):
            if not await self._write_status(node_class, status):
                return await self.resolve(nodeclass_input)
            await self._report_transitions(raw, node_class.status.conditions, status.conditions)
        ready = get_condition(status.conditions, READY)
        is_ready = ready is not None and ready.status == "True"
        if ready is not None and not is_ready:
            await self._report_not_ready(raw, nodeclass_input.name, status.conditions)
        await publish_warnings(self._recorder, self._ec2, raw, node_class)
        if unanswered is not None:
            raise unanswered
        if is_ready:
            await self._delete_unused_profiles(node_class)
        return NodeClassResult(
            ready=is_ready,
            generation=node_class.metadata.generation,
            message="ready" if is_ready else (ready.message if ready else ""),
        )

    async def _write_status(self, node_class: EC2NodeClass, status: EC2NodeClassStatus) -> bool:
        """Write the status; False if the class that it was resolved for is gone.

        Asking EC2 may take a minute. What another controller wrote into the conditions meanwhile stays.
        """

        def compute(raw: Object) -> dict[str, Any]:
            present = raw.get("status") or {}
            conditions = EC2NodeClassStatus.model_validate({"conditions": present.get("conditions") or []}).conditions
            merged = with_changes(conditions, node_class.status.conditions, status.conditions)
            return {"status": _status_patch(evolve(status, conditions=merged).to_dict(), present)}

        metadata = node_class.metadata
        written = await change(
            self._kube, EC2NODECLASSES, metadata.name, compute, uid=metadata.uid, subresource="status"
        )
        return written is not None

    async def _finalize_or_explain(self, raw: JsonObject, node_class: EC2NodeClass | None) -> NodeClassResult:
        """Like `_finalize`, but an error that trying again would not end is published and is in the result."""
        try:
            return await self._finalize(raw, node_class)
        except EC2Error as error:
            if error.retryable:
                raise
            await self._recorder.publish(raw, EventReason.FAILED_TERMINATION, error.explained)
            return NodeClassResult(deleting=True, message=error.explained)

    async def _report_unreadable(self, raw: JsonObject, name: str, faults: Sequence[FieldError]) -> str:
        """Say in a condition, an event and the log what is wrong with the class. Return the same."""
        now = self._now()
        unreadable_conditions = unparsable_conditions(raw, faults, now)
        why = next(condition for condition in unreadable_conditions if condition.type == VALIDATION_SUCCEEDED)
        await self._recorder.publish(raw, ConditionEvent(why.reason), why.message)
        log.error("An EC2NodeClass cannot be read", extra={"ec2nodeclass": name, "error": why.message})

        def compute(present: Object) -> dict[str, Any]:
            written = present.get("status") or {}
            merged = unparsable_conditions({**raw, "status": written}, faults, now)
            conditions = [condition.to_dict() for condition in merged]
            return {"status": {"conditions": conditions}} if conditions != written.get("conditions") else {}

        uid = object_json.uid(raw)
        await change(self._kube, EC2NODECLASSES, name, compute, uid=uid, subresource="status", read_object=raw)
        return why.message

    async def _report_not_ready(self, raw: JsonObject, name: str, conditions: Sequence[Condition]) -> None:
        failed = [c for c in conditions if c.status != "True" and c.type != READY]
        if failed and all(c.reason == PROFILE_NOT_FOUND and c.status == "Unknown" for c in failed):
            return  # EC2 needs seconds to learn of a new instance profile, and the status says so
        for condition in (c for c in failed if c.reason != DEPENDENCIES_NOT_READY):
            await self._recorder.publish(raw, ConditionEvent(condition.reason), condition.message)
        log.warning(
            "An EC2NodeClass is not ready",
            extra={"ec2nodeclass": name, "conditions": {c.type: c.message for c in failed}},
        )

    async def _report_transitions(
        self, raw: JsonObject, before: Sequence[Condition], after: Sequence[Condition]
    ) -> None:
        """Count each change of a condition's status, and publish it if the condition is not new (ACT-17)."""
        for old, new in transitions(before, after):
            metrics.NODECLASS_TRANSITIONS.labels(new.type, new.status, new.reason).inc()
            if old is None:
                continue
            seconds = (new.last_transition_time - old.last_transition_time).total_seconds()
            metrics.NODECLASS_TRANSITION_SECONDS.labels(old.type, old.status, new.status).observe(seconds)
            why = f"{new.reason}: {new.message}" if new.message else new.reason
            await self._recorder.publish(
                raw, ConditionEvent(new.type, "Normal"), f"{new.type} changed from {old.status} to {new.status}: {why}"
            )

    async def _delete_unused_profiles(self, node_class: EC2NodeClass) -> None:
        """Delete the instance profiles of the class's earlier roles that no instance has any more, and that no recorded
        version of a NodePool has (ACT-05).
        """
        uid, now = node_class.metadata.uid, self._now()
        if uid in self._profiles_read and now - self._profiles_read[uid] < PROFILES_EVERY:
            return
        class_name = node_class.metadata.name
        unused: list[str] = []
        earlier: dict[str, list[str]] = {}
        try:
            # The profiles first: a NodeClaim that is read after them either names its profile or uses the current one.
            earlier = await asyncio.to_thread(self._ec2.earlier_profiles, node_class)
            if earlier:
                users, recorded = await self._users(class_name), await self._recorded_profiles(class_name)
                unused = unused_profiles(earlier, users, recorded)
            for name in unused:
                await asyncio.to_thread(self._ec2.delete_profile, name, earlier[name])
                log.info(
                    "An unused instance profile was deleted",
                    extra={"ec2nodeclass": class_name, "instance-profile": name},
                )
        except EC2Error as error:
            log.warning(
                "The worker failed to delete unused instance profiles and retries later",
                extra={"ec2nodeclass": class_name, "error": str(error)},
            )
            if error.retryable:
                return
        self._profiles_read[uid] = now

    async def _ensure_metadata(self, raw: JsonObject, node_class: EC2NodeClass) -> None:
        metadata = raw["metadata"]
        hashes = ec2nodeclass_hashes(node_class, self._ec2.cluster.ca_bundle)
        patch: dict[str, Any] = {}
        annotations = object_json.annotations(raw)
        if any(annotations.get(key) != value for key, value in hashes.items()):
            patch["annotations"] = hashes
            if annotations.get(labels.EC2NODECLASS_HASH_VERSION) != EC2NODECLASS_VERSION:
                await self._take_claims_over(metadata["name"], hashes)
        finalizers = object_json.finalizers(raw)
        if labels.NODECLASS_FINALIZER not in finalizers:
            patch["finalizers"] = [*finalizers, labels.NODECLASS_FINALIZER]
        if patch:
            patch["resourceVersion"] = metadata["resourceVersion"]
            await self._kube.patch(EC2NODECLASSES, metadata["name"], {"metadata": patch})

    async def _take_claims_over(self, name: str, hashes: dict[str, str]) -> None:
        """Take over a class that another controller hashed: treat its claims as launched from its current state."""
        for claim in await self._users(name):
            if change := migrated_hashes(claim.annotations, hashes, drifted=claim.is_true(DRIFTED)):
                await self._kube.patch(NODECLAIMS, claim.name, {"metadata": {"annotations": change}})

    async def _users(self, name: str) -> list[ClaimRecord]:
        """The NodeClaims that reference the EC2NodeClass of this name, not an object of another kind."""
        claims = [ClaimRecord.of(claim) for claim in await self._kube.list(NODECLAIMS) if manages_claim(claim)]
        return [claim for claim in claims if claim.node_class == name]

    async def _recorded_profiles(self, name: str) -> set[str]:
        """The instance profiles of the class of this name in the versions of NodePools that are recorded."""
        bodies = await self._kube.list(CONTROLLERREVISIONS, namespace=self._namespace, label_selector=labels.NODEPOOL)
        classes = [(body.get("data") or {}).get("nodeClass") or {} for body in bodies]
        return {
            (recorded.get("status") or {}).get("instanceProfile") or ""
            for recorded in classes
            if recorded.get("name") == name
        }

    async def _finalize(self, raw: JsonObject, node_class: EC2NodeClass | None) -> NodeClassResult:
        """Wait until no NodeClaim uses the class, then delete its launch templates and profile, and its finalizer."""
        name = raw["metadata"]["name"]
        users = [claim.name for claim in await self._users(name)]
        if users:
            message = f"waiting for {len(users)} NodeClaims to end: {', '.join(sorted(users)[:5])}"
            await self._recorder.publish(raw, EventReason.WAITING_ON_NODE_CLAIMS, message)
            return NodeClassResult(deleting=True, message=message)
        await asyncio.to_thread(self._ec2.delete_launch_templates, name)
        if node_class is not None:  # Tenon never creates a profile for a class that it cannot parse
            await asyncio.to_thread(self._ec2.delete_instance_profile, node_class)
        remaining_finalizers = [f for f in object_json.finalizers(raw) if f != labels.NODECLASS_FINALIZER]
        patch = {
            "metadata": {"finalizers": remaining_finalizers, "resourceVersion": raw["metadata"]["resourceVersion"]}
        }
        await self._kube.patch(EC2NODECLASSES, name, patch)
        self._profiles_read.pop(raw["metadata"]["uid"], None)
        log.info("An EC2NodeClass was deleted", extra={"ec2nodeclass": name})
        return NodeClassResult(exists=False, deleting=True)


def _status_patch(status: JsonObject, present: JsonObject) -> JsonObject:
    """The merge patch that makes the present status the wanted one. A field that is left out would stay as it is."""
    patch = dict(status)
    for field in ("instanceProfile", "placementGroup"):
        if field in present and field not in status:
            patch[field] = None
    if isinstance(group := patch.get("placementGroup"), dict):
        patch["placementGroup"] = {"partitionCount": None, **group}
    return patch
