"""Whether a node still is what its NodePool and its EC2NodeClass describe, and if not, why (DIS-70 to DIS-75, DIS-79).

Static drift compares the hashes on the NodeClaim with the hashes of the current specs. Everything else compares the
node itself: its labels with the NodePool's requirements, its instance with what the EC2NodeClass selects now. A fact
that is not known is not compared, so a node never drifts for lack of information.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from tenon.apis import labels
from tenon.apis.conditions import get_condition
from tenon.apis.ec2nodeclass import CAPACITY_RESERVATIONS_READY, EC2NodeClass
from tenon.apis.hashing import EC2NODECLASS_VERSION, NODEPOOL_VERSION, ec2nodeclass_hash, nodepool_hash
from tenon.apis.kubelet import KubeletConfiguration
from tenon.apis.nodepool import NodePool
from tenon.ec2.families.own_kubelet import with_own_kubelet
from tenon.ec2.nodeclass.status import not_ready, readiness_unknown
from tenon.ec2.types.bootable_types import images_by_type
from tenon.evolve import evolve
from tenon.kube.claim_record import ClaimRecord
from tenon.kube.requirements import Requirements
from tenon.kube.taints import of_model
from tenon.scheduling.model import InstanceType

TYPE_GRACE = timedelta(hours=1)
"""How old a NodeClaim is before a missing instance type is drift. A type may be missing for a short time (DIS-73)."""


class DriftReason(StrEnum):
    """The reason of the condition Drifted, as Karpenter spells it."""

    NODEPOOL = "NodePoolDrifted"
    REQUIREMENTS = "RequirementsDrifted"
    NODECLASS = "NodeClassDrift"
    AMI = "AMIDrift"
    SUBNET = "SubnetDrift"
    SECURITY_GROUP = "SecurityGroupDrift"
    PLACEMENT_GROUP = "PlacementGroupDrift"
    CAPACITY_RESERVATION = "CapacityReservationDrift"
    INSTANCE_TYPE = "InstanceTypeNotFound"


_OF_INSTANCE = frozenset(
    {
        DriftReason.AMI,
        DriftReason.SUBNET,
        DriftReason.SECURITY_GROUP,
        DriftReason.PLACEMENT_GROUP,
        DriftReason.CAPACITY_RESERVATION,
        DriftReason.INSTANCE_TYPE,
    }
)
_OF_CLASS = _OF_INSTANCE | {DriftReason.NODECLASS}


@dataclass(frozen=True, slots=True)
class NodeDrift:
    """Why a node drifted: the reason, and a sentence that names the field or the value."""

    reason: DriftReason
    message: str


@dataclass(frozen=True, slots=True)
class DriftCheck:
    """What is known of a NodeClaim's drift."""

    drift: NodeDrift | None = None
    unknown: frozenset[DriftReason] = frozenset()
    """What could not be compared. A claim that drifted for one of these reasons before stays drifted."""
    check_again: datetime | None = None
    """When the result may change although neither the claim nor its NodePool and EC2NodeClass do."""


def may_still_hold(reason: object, unknown: Collection[DriftReason]) -> bool:
    """Whether the condition Drifted with this reason stays, because what it is about could not be compared."""
    return any(reason == member.value for member in unknown)


class DesiredNode:
    """What the nodes of one NodePool should be like. Compares NodeClaims with it, which must be cheap."""

    def __init__(
        self,
        pool: NodePool,
        node_class: EC2NodeClass | None,
        types: Sequence[InstanceType] | None = None,
        *,
        ca_bundle: str = "",
        class_hash: str = "",
    ) -> None:
        """Prepare the comparison.

        Args:
            pool: the NodePool.
            node_class: its EC2NodeClass; None if it does not exist or cannot be read.
            types: the instance types of the class with every offering, also those that EC2 refuses at the moment; None
                if they could not be read.
            ca_bundle: the certificate authority of the cluster that new nodes get.
            class_hash: the hash that new nodes get from the class, if what the class selects is not known. Then only
                the hash is compared with it.
        """
        self._pool = pool
        self._pool_hash = nodepool_hash(pool)
        self._requirements = Requirements.from_terms(term.to_dict() for term in pool.spec.template.spec.requirements)
        usable = node_class if node_class is not None and node_class.metadata.deletion_timestamp is None else None
        self._class = _Class(pool, usable, types, ca_bundle, class_hash) if usable is not None else None

    def check(self, claim: ClaimRecord, now: datetime) -> DriftCheck:
        """Compare a NodeClaim of the pool that is launched."""
        if reason := self._static(claim) or self._labels(claim):
            return DriftCheck(reason)
        unknown = (
            set() if _hashed_with(claim, labels.NODEPOOL_HASH_VERSION, NODEPOOL_VERSION) else {DriftReason.NODEPOOL}
        )
        if self._class is None or claim.node_class != self._class.name:
            return DriftCheck(unknown=frozenset(unknown | _OF_CLASS))
        return self._class.check(claim, now, unknown)

    def _static(self, claim: ClaimRecord) -> NodeDrift | None:
        recorded_hash = claim.annotations.get(labels.NODEPOOL_HASH)
        same_version = _hashed_with(claim, labels.NODEPOOL_HASH_VERSION, NODEPOOL_VERSION)
        if not same_version or recorded_hash is None or recorded_hash == self._pool_hash:
            return None
        fields = ", ".join(_changed_fields(claim, self._pool)) or "spec.template"
        name = self._pool.metadata.name
        return NodeDrift(DriftReason.NODEPOOL, f"{fields} of NodePool {name} changed since the NodeClaim was created")

    def _labels(self, claim: ClaimRecord) -> NodeDrift | None:
        """Compare the labels. A label that the launch did not decide counts as what the NodeClaim requires of it."""
        required: Requirements | None = None
        for key, requirement in self._requirements.items():
            value = claim.labels.get(key)
            if value is not None:
                fits = requirement.has(value)
            elif requirement.may_be_absent:
                fits = True
            else:
                if required is None:
                    required = Requirements.from_terms(claim.spec.get("requirements") or ())
                fits = key in required and required[key].overlaps(requirement)
            if not fits:
                presence = f"has {value}" if value is not None else "does not have this label"
                return NodeDrift(
                    DriftReason.REQUIREMENTS,
                    f"NodePool {self._pool.metadata.name} requires {requirement}, and the NodeClaim {presence}",
                )
        return None


class _Class:
    """What the EC2NodeClass of a pool selects now."""

    def __init__(
        self,
        pool: NodePool,
        node_class: EC2NodeClass,
        types: Sequence[InstanceType] | None,
        ca_bundle: str,
        class_hash: str,
    ) -> None:
        self.name = node_class.metadata.name
        self._raw = node_class
        self._hash = class_hash or ec2nodeclass_hash(node_class, ca_bundle)
        without_kubelet = evolve(node_class, spec=evolve(node_class.spec, kubelet=None))
        self._hash_without_kubelet = ec2nodeclass_hash(without_kubelet, ca_bundle)
        self._kubelet = with_own_kubelet(node_class, pool.metadata.annotations).spec.kubelet
        self._is_current = not (class_hash or not_ready(node_class) or readiness_unknown(node_class))
        status = node_class.status
        self._subnets = {subnet.id: subnet.zone for subnet in status.subnets}
        self._groups = frozenset(group.id for group in status.security_groups)
        self._group = status.placement_group.id if status.placement_group is not None else ""
        self._reservations = frozenset(reservation.id for reservation in status.capacity_reservations)
        self._knows_reservations = get_condition(status.conditions, CAPACITY_RESERVATIONS_READY) is not None
        self._types = {kind.name: kind for kind in types or ()}
        self._images: dict[str, str | None] = {}

    def check(self, claim: ClaimRecord, now: datetime, unknown: set[DriftReason]) -> DriftCheck:
        if reason := self._static(claim):
            return DriftCheck(reason)
        if not _hashed_with(claim, labels.EC2NODECLASS_HASH_VERSION, EC2NODECLASS_VERSION):
            unknown.add(DriftReason.NODECLASS)
        if not self._is_current:
            return DriftCheck(unknown=frozenset(unknown | _OF_INSTANCE))
        reason = (
            self._image(claim, unknown)
            or self._groups_of(claim, unknown)
            or self._subnet(claim, unknown)
            or self._placement_group(claim)
            or self._reservation(claim, unknown)
        )
        if reason:
            return DriftCheck(reason)
        return self._instance_type(claim, now, unknown)

    def _static(self, claim: ClaimRecord) -> NodeDrift | None:
        own = labels.V1BETA1_KUBELET in claim.annotations
        if _hashed_with(claim, labels.EC2NODECLASS_HASH_VERSION, EC2NODECLASS_VERSION):
            recorded_hash = claim.annotations.get(labels.EC2NODECLASS_HASH)
            # Settings that moved from the annotation of a NodePool into its class change the class, not the node.
            accepted = {self._hash, self._hash_without_kubelet} if own else {self._hash}
            if recorded_hash is not None and recorded_hash not in accepted:
                return NodeDrift(
                    DriftReason.NODECLASS,
                    f"the spec of EC2NodeClass {self.name} changed since the launch: its hash was {recorded_hash} and "
                    f"is {self._hash} (it covers the cluster's CA bundle too)",
                )
        if own and _plain(with_own_kubelet(self._raw, claim.annotations).spec.kubelet) != _plain(self._kubelet):
            return NodeDrift(
                DriftReason.NODECLASS,
                f"the kubelet settings in annotation {labels.V1BETA1_KUBELET} of the NodeClaim differ from those of "
                f"its NodePool and EC2NodeClass {self.name}",
            )
        return None

    def _image(self, claim: ClaimRecord, unknown: set[DriftReason]) -> NodeDrift | None:
        name = claim.labels.get(labels.INSTANCE_TYPE, "")
        if name not in self._images:
            kind = self._types.get(name)
            self._images[name] = images_by_type([kind], self._raw.status.amis).get(name) if kind is not None else None
        image_id = self._images[name]
        if image_id is None or not claim.image_id:
            unknown.add(DriftReason.AMI)
            return None
        if image_id == claim.image_id:
            return None
        message = (
            f"EC2NodeClass {self.name} selects image {image_id} for {name}, and the instance runs {claim.image_id}"
        )
        return NodeDrift(DriftReason.AMI, message)

    def _groups_of(self, claim: ClaimRecord, unknown: set[DriftReason]) -> NodeDrift | None:
        present = claim.security_group_ids
        if not present or not self._groups:
            unknown.add(DriftReason.SECURITY_GROUP)
            return None
        if present == self._groups:
            return None
        differences = [
            *(f"{group} is missing" for group in sorted(self._groups - present)),
            *(f"{group} is not selected" for group in sorted(present - self._groups)),
        ]
        message = (
            f"the security groups of the instance are not those of EC2NodeClass {self.name}: {', '.join(differences)}"
        )
        return NodeDrift(DriftReason.SECURITY_GROUP, message)

    def _subnet(self, claim: ClaimRecord, unknown: set[DriftReason]) -> NodeDrift | None:
        subnet, zone = claim.subnet_id, claim.labels.get(labels.ZONE, "")
        if not self._subnets:
            unknown.add(DriftReason.SUBNET)
        elif subnet and subnet not in self._subnets:
            message = f"EC2NodeClass {self.name} does not select subnet {subnet} of the instance"
            return NodeDrift(DriftReason.SUBNET, message)
        elif not subnet and zone and zone not in self._subnets.values():
            message = f"EC2NodeClass {self.name} selects no subnet in zone {zone} of the instance"
            return NodeDrift(DriftReason.SUBNET, message)
        elif not subnet:
            unknown.add(DriftReason.SUBNET)
        return None

    def _placement_group(self, claim: ClaimRecord) -> NodeDrift | None:
        """Compare the placement group that the launch wrote on the claim. No instance can change its group."""
        present = claim.labels.get(labels.PLACEMENT_GROUP_ID, "")
        if present == self._group:
            return None
        selects, present_group = (
            f"placement group {name}" if name else "no placement group" for name in (self._group, present)
        )
        return NodeDrift(
            DriftReason.PLACEMENT_GROUP,
            f"EC2NodeClass {self.name} selects {selects}, the instance is in {present_group}",
        )

    def _reservation(self, claim: ClaimRecord, unknown: set[DriftReason]) -> NodeDrift | None:
        """Compare the capacity reservation of the instance, if it is meant to be in one (AWS-126, DIS-74)."""
        name, capacity_type = claim.labels.get(labels.RESERVATION_ID, ""), claim.labels.get(labels.CAPACITY_TYPE, "")
        if not self._knows_reservations:  # the gate ReservedCapacity is off
            if capacity_type == labels.RESERVED or _needs_reserved(claim):
                unknown.add(DriftReason.CAPACITY_RESERVATION)
        elif capacity_type == labels.RESERVED and name and name not in self._reservations:
            message = f"EC2NodeClass {self.name} no longer selects capacity reservation {name}, or it has ended"
            return NodeDrift(DriftReason.CAPACITY_RESERVATION, message)
        elif capacity_type == labels.ON_DEMAND and _needs_reserved(claim):
            message = "the instance left its capacity reservation and is on-demand, and the NodeClaim requires reserved"
            return NodeDrift(DriftReason.CAPACITY_RESERVATION, message)
        return None

    def _instance_type(self, claim: ClaimRecord, now: datetime, unknown: set[DriftReason]) -> DriftCheck:
        """Compare the type last: without a subnet in its zone, no offering is left, and the subnet is the reason."""
        name = claim.labels.get(labels.INSTANCE_TYPE, "")
        if not self._types or not name or claim.created_at is None:
            return DriftCheck(unknown=frozenset(unknown | {DriftReason.INSTANCE_TYPE}))
        missing = self._missing_offering(claim, name)
        due = claim.created_at + TYPE_GRACE
        if not missing or now < due:
            return DriftCheck(unknown=frozenset(unknown), check_again=due if missing else None)
        message = f"EC2NodeClass {self.name} no longer offers {missing}"
        return DriftCheck(NodeDrift(DriftReason.INSTANCE_TYPE, message))

    def _missing_offering(self, claim: ClaimRecord, name: str) -> str:
        """Name what is no longer offered; empty if nothing is missing.

        Zone and capacity type are compared one by one, because a spot offering without a price is not listed. A
        reservation is compared with those of the class instead, because it ends while the type stays.
        """
        kind = self._types.get(name)
        if kind is None:
            return f"instance type {name}"
        zone, capacity_type = claim.labels.get(labels.ZONE, ""), claim.labels.get(labels.CAPACITY_TYPE, "")
        if zone and all(offering.zone != zone for offering in kind.offerings):
            return f"instance type {name} in zone {zone}"
        listed = {offering.capacity_type for offering in kind.offerings}
        if capacity_type and capacity_type != labels.RESERVED and capacity_type not in listed:
            return f"instance type {name} as {capacity_type} capacity"
        return ""


def _needs_reserved(claim: ClaimRecord) -> bool:
    requirements = Requirements.from_terms(claim.spec.get("requirements") or ())
    return labels.CAPACITY_TYPE in requirements and requirements[labels.CAPACITY_TYPE].values == (labels.RESERVED,)


def _hashed_with(claim: ClaimRecord, annotation: str, version: str) -> bool:
    """Whether the claim's hash can be compared. One of another version is rewritten soon (DIS-75)."""
    return claim.annotations.get(annotation) == version


def _plain(kubelet: KubeletConfiguration | None) -> dict[str, Any]:
    return kubelet.to_dict() if kubelet is not None else {}


def _changed_fields(claim: ClaimRecord, pool: NodePool) -> Iterator[str]:
    """Yield the fields of the pool's template that differ from the claim. A removed label or annotation is not seen."""
    template, spec = pool.spec.template, pool.spec.template.spec
    for field, desired, present in (
        ("labels", template.metadata.labels, claim.labels),
        ("annotations", template.metadata.annotations, claim.annotations),
    ):
        changed = sorted(key for key, value in desired.items() if present.get(key) != value)
        if changed:
            yield f"spec.template.metadata.{field} ({', '.join(changed)})"
    if set(of_model(spec.taints)) != set(claim.taints):
        yield "spec.template.spec.taints"
    if set(of_model(spec.startup_taints)) != set(claim.startup_taints):
        yield "spec.template.spec.startupTaints"
    if spec.expire_after.seconds != claim.expire_after_seconds:
        yield "spec.template.spec.expireAfter"
    grace = spec.termination_grace_period
    if (None if grace is None else grace.seconds) != claim.termination_grace_seconds:
        yield "spec.template.spec.terminationGracePeriod"
    if spec.node_class_ref.model_dump(by_alias=True) != claim.spec.get("nodeClassRef"):
        yield "spec.template.spec.nodeClassRef"
