"""Finds the AWS resources that an EC2NodeClass selects. `tenon` decides what they mean for the class's status.

Each part is looked up on its own, so that a refused call shows in the condition of its part and hides no other part.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeVar

from activities.clock import utc_now
from activities.ec2.capacity_reservations import CapacityReservations
from activities.ec2.client import Ec2
from activities.ec2.dry_runs import PROFILE_NOT_FOUND, NewProfileError
from activities.ec2.errors import UNSENT, EC2Error, translated
from activities.ec2.images import Images
from activities.ec2.network import Network
from activities.ec2.profiles import ProfileLimitError, ProfileNotFoundError, Profiles, UnreachableIamError
from activities.ec2.ttl_cache import Refresh, TtlCache
from tenon.apis import ec2nodeclass as api
from tenon.apis.conditions import READY, VALIDATION_SUCCEEDED, get_condition, is_true
from tenon.apis.ec2nodeclass import AMI, EC2NodeClass, EC2NodeClassStatus, PlacementGroup, SecurityGroup, Subnet
from tenon.ec2.families.amis import UnsupportedAliasError
from tenon.ec2.families.cluster import Cluster
from tenon.ec2.nodeclass.status import PASSED, CheckResult, ResolvedNodeClass, ami, new_status
from tenon.ec2.refusals.errors import PLACEMENT_GROUP_UNKNOWN
from tenon.ec2.types.placement_groups import group_of
from tenon.kube.requirements import Requirements

if TYPE_CHECKING:
    from types_boto3_ec2.type_defs import PlacementGroupTypeDef


class PlacementGroupNotFoundError(EC2Error):
    """The class selects a placement group that does not exist, or that is not available."""


def find_placement_group(clients: Ec2, node_class: EC2NodeClass) -> PlacementGroup | None:
    """The group that the class selects; None if it selects none.

    Raises:
        PlacementGroupNotFoundError: there is no such group.
        EC2Error: EC2 refused the call or did not answer.
    """
    selector = node_class.spec.placement_group_selector
    if selector is None:
        return None
    selector_text = f"id {selector.id}" if selector.id is not None else f"name {selector.name}"
    groups = (group_of(raw) for raw in _described(clients, selector.id or "", selector.name or ""))
    placement_group = next((group for group in groups if group is not None), None)
    if placement_group is None:
        raise PlacementGroupNotFoundError(
            "PlacementGroupNotFound", f"placementGroupSelector found no available placement group with {selector_text}"
        )
    return placement_group


def _described(clients: Ec2, group_id: str, name: str) -> list[PlacementGroupTypeDef]:
    try:
        with translated("DescribePlacementGroups"):
            if group_id:
                return clients.ec2.describe_placement_groups(GroupIds=[group_id])["PlacementGroups"]
            filters = [{"Name": "group-name", "Values": [name]}]
            return clients.ec2.describe_placement_groups(Filters=filters)["PlacementGroups"]  # type: ignore[arg-type]
    except EC2Error as error:
        if error.code in PLACEMENT_GROUP_UNKNOWN:
            return []
        raise


ClassCheck = Callable[[EC2NodeClass], CheckResult]
Found = TypeVar("Found")

GIVE_UP_AFTER = 2
"""After this many parts without a connection to AWS, the others are not asked for: each costs many seconds, and the
activity has a minute to write the status."""
UNAUTHORIZED = "Unauthorized"
_REASONS = {
    api.AMIS_READY: "AMIResolutionFailed",
    api.SUBNETS_READY: "SubnetResolutionFailed",
    api.SECURITY_GROUPS_READY: "SecurityGroupResolutionFailed",
    api.INSTANCE_PROFILE_READY: "InstanceProfileResolutionFailed",
    api.PLACEMENT_GROUP_READY: "PlacementGroupResolutionFailed",
    api.CAPACITY_RESERVATIONS_READY: "CapacityReservationResolutionFailed",
    VALIDATION_SUCCEEDED: "InstanceTypeResolutionFailed",
}


class UnansweredError(EC2Error):
    """AWS did not answer for some parts of a class. ``status`` has the others; resolve the class again soon."""

    def __init__(self, status: EC2NodeClassStatus, cause: EC2Error) -> None:
        super().__init__(cause.code, cause.message, retryable=True, operation=cause.operation)
        self.status = status


@dataclass
class _Lookup:
    """The parts of one class, looked up one by one."""

    node_class: EC2NodeClass
    unanswered: list[EC2Error] = field(default_factory=list)

    def part(
        self, type_: str, ask: Callable[[], Found], previous: Found, reason: str = ""
    ) -> tuple[Found, CheckResult]:
        """What ``ask`` finds. If AWS refuses the call or does not answer, what is known, and the condition's finding.

        A refusal is a finding. Throttling and outages are not: a class that AWS accepted stays as it is.
        """
        try:
            unsent = [check for check in self.unanswered if check.code in UNSENT]
            if len(unsent) >= GIVE_UP_AFTER:
                raise unsent[-1]
            return ask(), PASSED
        except EC2Error as error:
            known_reason = error.code if isinstance(error, NewProfileError) else reason or _REASONS[type_]
            reason = UNAUTHORIZED if error.unauthorized else known_reason
            if not error.retryable:
                return previous, CheckResult(reason, error.explained)
            self.unanswered.append(error)
            before = get_condition(self.node_class.status.conditions, type_)
            current = before is not None and before.observed_generation == self.node_class.metadata.generation
            if before is None or not current or before.status == "Unknown":
                return previous, CheckResult(reason, error.explained, unknown=True)
            return previous, PASSED if before.status == "True" else CheckResult(before.reason, before.message)


class NodeClassResolver:
    """Resolves the EC2NodeClasses of one cluster. Thread-safe."""

    def __init__(
        self,
        clients: Ec2,
        cluster: Callable[[EC2NodeClass], Cluster],
        network: Network,
        profiles: Profiles,
        *,
        refresh: Refresh,
        check_types: Callable[[], None],
        check_gated: ClassCheck,
        dry_run: Callable[[EC2NodeClass, Sequence[Requirements]], CheckResult] | None,
        reservations: CapacityReservations | None,
    ) -> None:
        """Set up the look-ups.

        Args:
            clients: the AWS clients.
            cluster: the cluster that nodes join, with what the nodes of a class need; raises EC2Error if EKS does not
                tell it.
            network: finds subnets and security groups.
            profiles: finds and creates instance profiles.
            refresh: how long images, subnets and security groups are cached.
            check_types: raises EC2Error if EC2 does not describe its instance types.
            check_gated: checks what of a class needs a gate: expressions, and the sharing of GPUs.
            dry_run: tries out the calls of a launch with a class that is ready otherwise, for NodePools with these
                requirements; None if the operator turned dry runs off.
            reservations: finds capacity reservations; None without the gate ReservedCapacity.
        """
        self._reservations = reservations
        self._dry_run = dry_run
        self._check_types = check_types
        self._check_gated = check_gated
        self._cluster = cluster
        self._network = network
        self._images = Images(clients, parameter_seconds=refresh.images.total_seconds())
        self._known_images: TtlCache[AMI] = TtlCache(refresh.kept(refresh.images))
        self._known_subnets: TtlCache[Subnet] = TtlCache(refresh.kept(refresh.subnets))
        self._known_groups: TtlCache[SecurityGroup] = TtlCache(refresh.kept(refresh.security_groups))
        self._clients = clients
        self._profiles = profiles

    def resolve(
        self, node_class: EC2NodeClass, kubernetes_version: str, pool_requirements: Sequence[Requirements] = ()
    ) -> EC2NodeClassStatus:
        """The class's new status. Missing resources and refused calls become conditions, not errors.

        ``pool_requirements`` are those of each of its NodePools.

        Raises:
            UnansweredError: AWS throttled a call or did not answer.
        """
        old, lookup = node_class.status, _Lookup(node_class)
        (images, images_result), images_refused = lookup.part(
            api.AMIS_READY, lambda: self._found_images(node_class, kubernetes_version), (old.amis, PASSED)
        )
        subnets, subnets_refused = lookup.part(
            api.SUBNETS_READY,
            lambda: self._known_subnets.get(
                repr(node_class.spec.subnet_selector_terms), lambda: self._network.subnets(node_class)
            ),
            old.subnets,
        )
        groups, groups_refused = lookup.part(
            api.SECURITY_GROUPS_READY,
            lambda: self._known_groups.get(
                repr(node_class.spec.security_group_selector_terms), lambda: self._network.security_groups(node_class)
            ),
            old.security_groups,
        )
        (profile, profile_result), profile_refused = lookup.part(
            api.INSTANCE_PROFILE_READY, lambda: self._found_profile(node_class), (old.instance_profile or "", PASSED)
        )
        (group, group_result), group_refused = lookup.part(
            api.PLACEMENT_GROUP_READY, lambda: self._found_group(node_class), (old.placement_group, PASSED)
        )
        reservations, reservations_refused = lookup.part(
            api.CAPACITY_RESERVATIONS_READY,
            lambda: self._reservations.find(node_class) if self._reservations is not None else [],
            old.capacity_reservations,
        )
        cluster, cluster_refused = lookup.part(
            VALIDATION_SUCCEEDED, lambda: self._cluster(node_class), None, "ClusterCIDRResolutionFailed"
        )
        _, types_refused = lookup.part(VALIDATION_SUCCEEDED, self._check_types, None)
        expressions_result, expressions_refused = lookup.part(
            VALIDATION_SUCCEEDED, lambda: self._check_gated(node_class), PASSED
        )
        resolved = ResolvedNodeClass(
            subnets=subnets,
            subnets_result=subnets_refused,
            security_groups=groups,
            security_groups_result=groups_refused,
            images=images,
            images_result=images_refused if images_refused.reason else images_result,
            instance_profile=profile,
            profile_result=profile_refused if profile_refused.reason else profile_result,
            placement_group=group,
            placement_result=group_refused if group_refused.reason else group_result,
            reservations=reservations,
            reservations_result=reservations_refused if self._reservations is not None else None,
            cluster_result=cluster_refused,
            types_result=types_refused,
            expressions_result=expressions_refused if expressions_refused.reason else expressions_result,
            dry_runs=self._dry_run is not None,
        )
        status = new_status(node_class, resolved, cluster, utc_now())
        if (dry_run := self._dry_run) is not None and is_true(status.conditions, READY):
            with_status = node_class.model_copy(update={"status": status})
            result, refused = lookup.part(VALIDATION_SUCCEEDED, lambda: dry_run(with_status, pool_requirements), PASSED)
            resolved = replace(resolved, dry_runs_result=refused if refused.reason else result)
            status = new_status(node_class, resolved, cluster, utc_now())
        if lookup.unanswered:
            raise UnansweredError(status, lookup.unanswered[0])
        return status

    def _found_images(self, node_class: EC2NodeClass, kubernetes_version: str) -> tuple[list[AMI], CheckResult]:
        query = f"{kubernetes_version} {node_class.spec.ami_selector_terms!r}"
        try:
            images = self._known_images.get(
                query, lambda: [ami(image) for image in self._images.resolve(node_class, kubernetes_version)]
            )
        except UnsupportedAliasError as error:
            return [], CheckResult("UnsupportedAlias", str(error))
        return images, PASSED

    def _found_group(self, node_class: EC2NodeClass) -> tuple[PlacementGroup | None, CheckResult]:
        try:
            return find_placement_group(self._clients, node_class), PASSED
        except PlacementGroupNotFoundError as error:
            return None, CheckResult(error.code, error.message)

    def _found_profile(self, node_class: EC2NodeClass) -> tuple[str, CheckResult]:
        try:
            return self._profiles.resolve(node_class), PASSED
        except ProfileNotFoundError as error:
            return "", CheckResult(PROFILE_NOT_FOUND, str(error))
        except UnreachableIamError as error:
            return "", CheckResult("RoleInIsolatedVPC", str(error))
        except ProfileLimitError as error:
            return "", CheckResult("InstanceProfileLimitExceeded", str(error))
