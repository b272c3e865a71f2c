"""What a launch reads of its NodeClaim's EC2NodeClass, and what it writes on the NodeClaim."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from functools import partial

from activities import loggers
from activities.ec2.errors import EC2Error, NodeClassNotReadyError, NodeClassReadinessUnknownError
from activities.ec2.provider import Ec2Provider
from activities.heartbeat import with_heartbeat
from activities.kubernetes import nodeclaims
from activities.kubernetes.client import Kube
from activities.kubernetes.resources import EC2NODECLASSES
from activities.kubernetes.shared_read import SharedRead
from activities.node.launch_groups import in_group
from activities.node.launch_versions import LaunchVersions
from activities.node.overlays import OverlaidTypes
from tenon.apis import labels
from tenon.apis.ec2nodeclass import EC2NodeClass
from tenon.apis.hashing import EC2NODECLASS_VERSION, ec2nodeclass_hashes
from tenon.apis.validation import parse
from tenon.ec2.families.own_kubelet import with_own_kubelet
from tenon.ec2.launch.launched_labels import launched_labels
from tenon.ec2.launch.network_annotations import network_annotations
from tenon.kube.claim_record import ClaimRecord
from tenon.messages.base import ClaimRef
from tenon.messages.launch import Instance
from tenon.money import decimal_text, nanos

log = loggers.NODECLAIM_LIFECYCLE

CLASS_APPEARS_WITHIN = timedelta(seconds=10)
"""The age of a NodeClaim up to which its EC2NodeClass may be missing, because both were applied at the same time."""


class LaunchedClaims:
    """The NodeClaims that one process launches."""

    def __init__(self, kube: Kube, ec2: Ec2Provider, now: Callable[[], datetime], namespace: str) -> None:
        """Create it. ``namespace`` is that of Tenon, where the versions of NodePools are recorded."""
        self._kube = kube
        self._ec2 = ec2
        self._now = now
        self._classes = SharedRead(lambda name: kube.get(EC2NODECLASSES, name), partial(parse, EC2NodeClass))
        self._versions = LaunchVersions(kube, namespace)
        self.types = OverlaidTypes(kube, ec2)

    async def node_class(self, claim: ClaimRecord, *, launching: bool = False) -> EC2NodeClass:
        """The EC2NodeClass of a claim, in the claim's version. ``launching``: nothing was launched for it yet.

        Raises:
            NodeClassReadinessUnknownError: it does not exist, or not yet, or its version is not recorded.
            NodeClassNotReadyError: it does not exist, and the claim has waited for it long enough.
        """
        name = claim.node_class
        read = await self._classes.get(name)
        if read is None:
            created = claim.created_at if launching else None
            if created is not None and self._now() - created > CLASS_APPEARS_WITHIN:
                raise NodeClassNotReadyError(
                    f"EC2NodeClass {name} does not exist: create it, or name another one in spec.nodeClassRef"
                )
            raise NodeClassReadinessUnknownError(f"EC2NodeClass {name} does not exist")
        node_class, faults = read
        if node_class is None:
            raise NodeClassNotReadyError(f"EC2NodeClass {name} cannot be read: " + "; ".join(str(f) for f in faults))
        return await self._versions.of(claim, node_class)

    async def mark(
        self,
        ref: ClaimRef,
        instance: Instance,
        claim: ClaimRecord,
        made_from: Mapping[str, str] | None = None,
        in_shortage: Mapping[str, str] | None = None,
    ) -> None:
        """Write the launch on the claim.

        Args:
            ref: the claim.
            instance: the instance that was launched.
            claim: the claim as read before the launch. The write reads it again if it has changed since.
            made_from: the hashes of the EC2NodeClass that the request was made from. If None, they are unknown, and the
                current EC2NodeClass is used.
            in_shortage: the annotation of a node that was bought in a capacity shortage.
        """
        node_class = await self.node_class(claim)
        own = with_own_kubelet(node_class, claim.annotations)
        types = await with_heartbeat(self.types.of(claim, own))
        kind = next((kind for kind in types if kind.name == instance.instance_type), None)
        await nodeclaims.mark_launched(
            self._kube,
            ref,
            instance,
            capacity=kind.capacity if kind else {},
            allocatable=kind.allocatable if kind else {},
            labels_=launched_labels(claim.body, instance, kind),
            now=self._now,
            annotations={
                **self._asked_for(made_from, node_class),
                **({} if in_group(claim) else nodeclaims.TAGGED),
                **network_annotations(instance.subnet_id, instance.security_group_ids),
                **({labels.LAUNCH_PRICE: decimal_text(nanos(instance.price))} if instance.price else {}),
                **(in_shortage or {}),
            },
            read_object=claim.body,
        )

    async def tag(self, ref: ClaimRef, instance: Instance, node_name: str) -> None:
        """Restore the tags by which the instance is found again. Karpenter may have launched it without them."""
        try:
            name = asyncio.to_thread(self._ec2.name_instance, instance.id, ref.name, node_name)
            tagged = await with_heartbeat(name)
        except EC2Error as error:
            log.info(
                "The worker failed to tag an instance; the next sweep tags it",
                extra={"instance": instance.id, "error": str(error)},
            )
        else:
            network = network_annotations(instance.subnet_id, instance.security_group_ids)
            await nodeclaims.annotate_claim(self._kube, ref, nodeclaims.TAGGED | network if tagged else network)

    async def record_attempt(self, ref: ClaimRef, attempt: int) -> None:
        """Record on the claim that it launches again, or apart from its launch group.

        A workflow that starts again then does not repeat a token that EC2 knows, and other processes do not send the
        request of the group.
        """
        await nodeclaims.annotate_claim(self._kube, ref, {labels.LAUNCH_ATTEMPT: str(attempt)})

    def origin(self, node_class: EC2NodeClass) -> dict[str, str]:
        """The annotations of a NodeClaim about the EC2NodeClass that its instance was launched from."""
        profile = node_class.status.instance_profile
        hashes = ec2nodeclass_hashes(node_class, self._ec2.cluster.ca_bundle)
        return {**hashes, **({labels.INSTANCE_PROFILE: profile} if profile else {})}

    def _asked_for(self, made_from: Mapping[str, str] | None, node_class: EC2NodeClass) -> Mapping[str, str]:
        """The hashes of the class that a request was made from.

        If another release computed them, return hashes of the current class: they cannot be compared, and nothing would
        correct them later.
        """
        if made_from and made_from.get(labels.EC2NODECLASS_HASH_VERSION) == EC2NODECLASS_VERSION:
            return made_from
        return self.origin(node_class)
