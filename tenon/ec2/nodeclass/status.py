"""The status of an EC2NodeClass: what Tenon found in the account, and whether the class can launch nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from tenon.apis import conditions as condition_list
from tenon.apis import ec2nodeclass as api
from tenon.apis import labels
from tenon.apis.base import FaultKind
from tenon.apis.common import Condition, ConditionStatus, SelectorRequirement
from tenon.apis.ec2nodeclass import (
    AMI,
    CapacityReservation,
    EC2NodeClass,
    EC2NodeClassStatus,
    PlacementGroup,
    SecurityGroup,
    Subnet,
)
from tenon.apis.gpu_sharing import shares_gpus
from tenon.apis.json_object import JsonObject
from tenon.apis.validation import FieldError, check_ec2nodeclass, unsupported_kubelet_settings
from tenon.ec2.families import family_of
from tenon.ec2.families.amis import Image
from tenon.ec2.families.base import UserDataTooLargeError
from tenon.ec2.families.bootstrap import Bootstrap, node_labels, node_taints
from tenon.ec2.families.cluster import Cluster
from tenon.ec2.refusals.scopes import USER_DATA_TOO_LARGE
from tenon.ec2.types.settings import kubelet_map


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The result of one check. An empty reason means that the check passed."""

    reason: str = ""
    message: str = ""
    unknown: bool = False
    """True if AWS did not answer, so that it is not known whether the check passes."""

    @property
    def status(self) -> ConditionStatus:
        """The status of the condition that shows the result."""
        return "Unknown" if self.unknown else "False" if self.reason else "True"


PASSED = CheckResult()
DEPENDENCIES_NOT_READY = "DependenciesNotReady"


@dataclass(frozen=True, slots=True)
class ResolvedNodeClass:
    """What the account has for a class, with the findings about each part.

    A part that AWS refused to show is what the status of the class says already.
    """

    subnets: Sequence[Subnet] = ()
    subnets_result: CheckResult = PASSED
    security_groups: Sequence[SecurityGroup] = ()
    security_groups_result: CheckResult = PASSED
    images: Sequence[AMI] = ()
    images_result: CheckResult = PASSED
    instance_profile: str = ""
    profile_result: CheckResult = PASSED
    placement_group: PlacementGroup | None = None
    placement_result: CheckResult = PASSED
    reservations: Sequence[CapacityReservation] = ()
    reservations_result: CheckResult | None = PASSED
    """None without the gate ReservedCapacity: the class has no condition about reservations."""
    cluster_result: CheckResult = PASSED
    """Whether EKS tells what the nodes of the class need to know about the cluster."""
    types_result: CheckResult = PASSED
    """Whether EC2 describes its instance types, which all launches need."""
    expressions_result: CheckResult = PASSED
    dry_runs: bool = True
    """Whether the operator lets Tenon try out the calls of a launch."""
    dry_runs_result: CheckResult = PASSED


DEPENDENCIES = (api.AMIS_READY, api.SUBNETS_READY, api.SECURITY_GROUPS_READY, api.INSTANCE_PROFILE_READY)
"""The conditions without which no launch can be tried out."""
DRY_RUN_DISABLED = CheckResult("DryRunDisabled", "DISABLE_DRY_RUN is true: missing rights show at the first launch")


def new_status(
    node_class: EC2NodeClass, resolved: ResolvedNodeClass, cluster: Cluster | None, now: datetime
) -> EC2NodeClassStatus:
    """Return the class's new status. A condition's transition time changes only if its status changes.

    Without a ``cluster``, ``resolved`` says why it is not known.
    """
    findings = {
        api.SUBNETS_READY: _first(
            resolved.subnets_result,
            _found_any(resolved.subnets, "SubnetsNotFound", "subnetSelectorTerms found no subnet"),
        ),
        api.SECURITY_GROUPS_READY: _first(
            resolved.security_groups_result,
            _found_any(
                resolved.security_groups, "SecurityGroupsNotFound", "securityGroupSelectorTerms found no security group"
            ),
        ),
        api.AMIS_READY: _first(
            resolved.images_result,
            _found_any(resolved.images, "AMINotFound", "amiSelectorTerms found no image that can be booted"),
        ),
        api.INSTANCE_PROFILE_READY: resolved.profile_result,
        api.PLACEMENT_GROUP_READY: resolved.placement_result,
        condition_list.VALIDATION_SUCCEEDED: _first(
            resolved.cluster_result,
            resolved.types_result,
            resolved.expressions_result,
            validate(node_class, cluster) if cluster is not None else PASSED,
            resolved.dry_runs_result,
        ),
    }
    conditions = node_class.status.conditions
    if resolved.reservations_result is not None:
        findings[api.CAPACITY_RESERVATIONS_READY] = resolved.reservations_result
    else:
        conditions = condition_list.clear_condition(conditions, api.CAPACITY_RESERVATIONS_READY)
    findings[condition_list.VALIDATION_SUCCEEDED] = _first(
        findings[condition_list.VALIDATION_SUCCEEDED], _awaited(findings)
    )
    generation = node_class.metadata.generation
    for type_, finding in findings.items():
        untried = type_ == condition_list.VALIDATION_SUCCEEDED and finding == PASSED and not resolved.dry_runs
        dry_run = DRY_RUN_DISABLED if untried else finding
        conditions = condition_list.set_condition(
            conditions,
            type_,
            finding.status,
            now=now,
            reason=dry_run.reason,
            message=dry_run.message,
            observed_generation=generation,
        )
    return EC2NodeClassStatus(
        subnets=list(resolved.subnets),
        security_groups=list(resolved.security_groups),
        amis=list(resolved.images),
        capacity_reservations=list(resolved.reservations),
        placement_group=resolved.placement_group,
        instance_profile=resolved.instance_profile or None,
        conditions=condition_list.set_root(conditions, tuple(findings), now=now, observed_generation=generation),
    )


def validate(node_class: EC2NodeClass, cluster: Cluster) -> CheckResult:
    """Check that the class is valid and that its user data can be rendered."""
    faults = check_ec2nodeclass(node_class)
    if faults:
        unsupported = faults[0] in unsupported_kubelet_settings(node_class)
        reason = "UnsupportedKubeletConfiguration" if unsupported else _reason_of(faults[0])
        return CheckResult(reason, "; ".join(str(fault) for fault in faults))
    family = family_of(node_class)
    if family.needs_service_range and not cluster.service_cidr:
        return CheckResult(
            "ClusterCIDRResolutionFailed", f"{family.name} nodes need the cluster's service range, which is unknown"
        )
    try:
        _user_data(node_class, cluster)
    except UserDataTooLargeError as error:
        return CheckResult(USER_DATA_TOO_LARGE, str(error))
    except ValueError as error:
        return CheckResult("UserDataInvalid", str(error))
    return PASSED


def check_gpu_sharing(node_class: EC2NodeClass, *, allowed: bool) -> CheckResult:
    """Return why the class may not share GPUs. ``allowed``: the gate DRANVIDIAGPU is on."""
    try:
        shares = shares_gpus(node_class.metadata.annotations.get(labels.NVIDIA_CONSUMABLE_CAPACITY, ""))
    except ValueError:  # `validate` says so
        return PASSED
    if allowed or not shares:
        return PASSED
    need = "shares GPUs, which needs AWS_FEATURE_GATES=DRANVIDIAGPU=true"
    return CheckResult("DRADisabled", f"annotation {labels.NVIDIA_CONSUMABLE_CAPACITY} {need}")


def user_data_bytes(node_class: EC2NodeClass, cluster: Cluster) -> int:
    """Return the size of the class's rendered user data, before base64; 0 if it cannot be rendered."""
    try:
        return len(_user_data(node_class, cluster).encode())
    except ValueError:
        return 0


def _user_data(node_class: EC2NodeClass, cluster: Cluster) -> str:
    """Render the user data of the class, without what a NodePool and an instance type add to it."""
    spec = node_class.spec
    node = Bootstrap(
        cluster=cluster,
        labels=node_labels({}, ""),
        taints=node_taints((), ()),
        kubelet=kubelet_map(node_class),
        raid0=spec.instance_store_policy == "RAID0",
        user_data=spec.user_data or "",
    )
    return family_of(node_class).user_data(node)


def _reason_of(fault: FieldError) -> str:
    """Return Karpenter's reason for a broken rule; ValidationFailed where its API server would refuse the class."""
    if fault.path == f"metadata.annotations[{labels.NVIDIA_CONSUMABLE_CAPACITY}]":
        return "NVIDIAConsumableCapacityInvalid"
    if fault.path.startswith("spec.kubelet"):
        return "InvalidKubeletConfiguration"
    return "TagValidationFailed" if fault.kind is FaultKind.TAGS else "ValidationFailed"


def unparsable_conditions(raw: JsonObject, faults: Sequence[FieldError], now: datetime) -> list[Condition]:
    """Return the conditions of a class that cannot be parsed. Nothing else is known about it."""
    written = (raw.get("status") or {}).get("conditions") or []
    try:
        conditions = [Condition.model_validate(condition) for condition in written]
    except ValueError:
        conditions = []
    generation = raw["metadata"].get("generation")
    conditions = condition_list.set_condition(
        conditions,
        condition_list.VALIDATION_SUCCEEDED,
        "False",
        now=now,
        reason=_reason_of(faults[0]),
        message="; ".join(str(fault) for fault in faults),
        observed_generation=generation,
    )
    return condition_list.set_root(
        conditions, (condition_list.VALIDATION_SUCCEEDED,), now=now, observed_generation=generation
    )


def not_ready(node_class: EC2NodeClass) -> str:
    """Say why the class, as it is now, cannot launch nodes; empty if it can, or if that is not known yet.

    See `readiness_unknown` for the latter.
    """
    name = node_class.metadata.name
    if node_class.metadata.deletion_timestamp is not None:
        return f"EC2NodeClass {name} is being deleted"
    ready = condition_list.get_condition(node_class.status.conditions, condition_list.READY)
    if ready is None or ready.status != "False" or _stale(ready, node_class):
        return ""
    return f"EC2NodeClass {name} is not ready: {ready.message or ready.reason}"


def readiness_unknown(node_class: EC2NodeClass) -> str:
    """Say why it is not known yet whether the class can launch nodes; empty if it is known."""
    name = node_class.metadata.name
    ready = condition_list.get_condition(node_class.status.conditions, condition_list.READY)
    if ready is None:
        return f"EC2NodeClass {name} has not been resolved yet"
    if _stale(ready, node_class):
        return f"EC2NodeClass {name} changed and has not been resolved again yet"
    if ready.status == "Unknown":
        return f"EC2NodeClass {name} is not known to be ready: {ready.message or ready.reason}"
    return ""


def _stale(ready: Condition, node_class: EC2NodeClass) -> bool:
    return (ready.observed_generation or 0) < node_class.metadata.generation


def _first(*results: CheckResult) -> CheckResult:
    return next((result for result in results if result.reason), PASSED)


def _awaited(findings: Mapping[str, CheckResult]) -> CheckResult:
    """Say which conditions must hold before a launch can be tried out."""
    if not (awaited := [type_ for type_ in DEPENDENCIES if findings[type_].reason]):
        return PASSED
    message = f"the calls of a launch are tested once {', '.join(awaited)} {'is' if len(awaited) == 1 else 'are'} True"
    return CheckResult(DEPENDENCIES_NOT_READY, message, unknown=True)


def _found_any(resources: Sequence[object], reason: str, message: str) -> CheckResult:
    return PASSED if resources else CheckResult(reason, message)


def ami(image: Image) -> AMI:
    """Return the image as the status of a class lists it."""
    return AMI(
        id=image.id,
        name=image.name or None,
        deprecated=True if image.deprecated else None,
        requirements=[SelectorRequirement.model_validate(term) for term in image.requirements],
    )
