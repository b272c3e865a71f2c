"""The single interface through which activities use EC2.

All methods block, so call them from threads. AWS failures are raised as `EC2Error` (retryable or not) and
`ThrottledError`.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from dataclasses import replace

from activities import loggers
from activities.ec2.capacity_reservations import COUNT_SECONDS, CapacityReservations
from activities.ec2.catalogue import Catalogue
from activities.ec2.client import Ec2
from activities.ec2.cluster import service_range
from activities.ec2.console import console_output
from activities.ec2.dry_runs import DryRuns
from activities.ec2.errors import (
    EC2Error,
    InsufficientCapacityError,
    NodeClassNotReadyError,
    NodeClassReadinessUnknownError,
)
from activities.ec2.instances import Instances, LaunchOutcome
from activities.ec2.launch import Launcher
from activities.ec2.launch_templates import LaunchTemplates
from activities.ec2.network import Network
from activities.ec2.nodeclass import NodeClassResolver
from activities.ec2.pricing import Pricing
from activities.ec2.profiles import Profiles
from activities.ec2.rate_limits import Throttling
from activities.ec2.reboots import reboot_instance
from activities.ec2.stops import StopReply, start_instance, stop_instance
from activities.ec2.ttl_cache import DEFAULT, Refresh
from activities.ec2.zonal_shifts import ZonalShifts
from tenon.apis import labels
from tenon.apis.ec2nodeclass import EC2NodeClass, EC2NodeClassStatus
from tenon.apis.nodeclaim import NodeClaim
from tenon.ec2.families import family_of
from tenon.ec2.families.cluster import Cluster
from tenon.ec2.instances.zonal_shifts import without_zones
from tenon.ec2.launch.filters import NoOfferingError, few_types, named_types
from tenon.ec2.launch.launched_labels import tenancy
from tenon.ec2.launch.request import plan_launch, without_addresses
from tenon.ec2.nodeclass.expressions_check import check_expressions
from tenon.ec2.nodeclass.status import CheckResult, check_gpu_sharing, not_ready, readiness_unknown, user_data_bytes
from tenon.ec2.refusals.refused_price import cheapest_left_out
from tenon.ec2.types.capacity import DEFAULT_RESERVE, InstanceReserve
from tenon.ec2.types.instance_types import without
from tenon.evolve import evolve
from tenon.garbage_collection.facts import ObservedInstance, ObservedTemplate
from tenon.kube.offerings import OfferingKey
from tenon.kube.requirements import Requirements
from tenon.messages.launch import Instance, LaunchGroup, LaunchRequest, LaunchResult
from tenon.messages.reboot import RebootOutcome, RebootReply
from tenon.messages.teardown import ClusterInstance, ClusterProfile, ClusterTemplate
from tenon.provisioning.gates import AwsFeatureGates
from tenon.resources import parse_resources
from tenon.scheduling.model import InstanceType

log = loggers.NODECLAIM_LIFECYCLE


class Ec2Provider:
    """EC2 for one cluster. Build one per process. Thread-safe."""

    def __init__(
        self,
        clients: Ec2,
        cluster: Cluster,
        *,
        reserve: InstanceReserve = DEFAULT_RESERVE,
        gates: AwsFeatureGates | None = None,
        isolated: bool = False,
        price_table: str = "",
        reserved_capacity: bool = True,
        refresh: Refresh = DEFAULT,
        dry_runs: bool = True,
        zonal_shift: bool = False,
    ) -> None:
        """``gates`` say what EC2NodeClasses may use. ``reserved_capacity`` is the gate ReservedCapacity.

        ``zonal_shift`` is the setting ENABLE_ZONAL_SHIFT.

        Raises:
            PriceTableError: the file ``price_table`` (the setting PRICE_TABLE) cannot be used.
        """
        self._shifts = ZonalShifts(clients, cluster.name) if zonal_shift else None
        self._reservations = CapacityReservations(clients) if reserved_capacity else None
        self.cluster = cluster
        self._clients = clients
        self.catalogue = Catalogue(
            clients,
            Pricing(clients, isolated=isolated, table_path=price_table),
            reserve=reserve,
            reservations=self._reservations,
        )
        self._network = Network(clients)
        self._profiles = Profiles(clients, cluster.name, isolated=isolated)
        self.refresh = refresh
        self._gates = gates or AwsFeatureGates()
        trials = DryRuns(clients, self._cluster_for, self.catalogue.instance_types, refresh.period)
        self._resolver = NodeClassResolver(
            clients,
            self._cluster_for,
            self._network,
            self._profiles,
            refresh=refresh,
            check_types=self.catalogue.check,
            check_gated=self._check_gated,
            dry_run=trials.check if dry_runs else None,
            reservations=self._reservations,
        )
        self._instances = Instances(clients, cluster.name, self.catalogue.price, reserved=reserved_capacity)
        self._templates = LaunchTemplates(clients, cluster.name)
        self._launcher = Launcher(clients, self._instances, self._templates, mark_full=self._network.mark_full)

    def resolve_node_class(
        self, node_class: EC2NodeClass, kubernetes_version: str = "", pool_requirements: Sequence[Requirements] = ()
    ) -> EC2NodeClassStatus:
        """The class's new status with its conditions. Creates the instance profile if the class needs one.

        ``pool_requirements`` are those of each of its NodePools, whose instance types dry runs try out.

        Raises:
            UnansweredError: AWS throttled a call or did not answer. The error has the status of what is known.
        """
        return self._resolver.resolve(
            node_class, kubernetes_version or self.cluster.kubernetes_version, pool_requirements
        )

    def refresh_seconds(self, node_class: EC2NodeClass) -> float:
        """How soon to resolve a ready class again. Reservations end, and are created, at any time (ACT-01)."""
        period = self.refresh.period.total_seconds()
        selects = self._reservations is not None and node_class.spec.capacity_reservation_selector_terms
        return min(period, COUNT_SECONDS) if selects else period

    def _cluster_for(self, node_class: EC2NodeClass) -> Cluster:
        """The cluster. If EKS did not tell its service range at the start, asks again for a class that needs it.

        Raises:
            EC2Error: EKS refuses the call, or cannot be reached.
        """
        if not self.cluster.service_cidr and family_of(node_class).needs_service_range:
            service_range_ = service_range(self._clients, self.cluster.name)
            self.cluster = replace(self.cluster, service_cidr=service_range_)
        return self.cluster

    def price_warnings(self) -> list[str]:
        """Which prices are not known, why, and what is used instead."""
        return self.catalogue.price_warnings()

    def _check_gated(self, node_class: EC2NodeClass) -> CheckResult:
        result = check_expressions(node_class, self.catalogue.described, allowed=self._gates.node_class_cel)
        return result if result.reason else check_gpu_sharing(node_class, allowed=self._gates.dra_nvidia_gpu)

    def instance_types(
        self,
        node_class: EC2NodeClass,
        unavailable: Container[OfferingKey] = (),
        *,
        unpriced: bool = False,
        dedicated: bool = False,
    ) -> list[InstanceType]:
        """The instance types that the class allows; ``unavailable`` holds the offerings that EC2 refused.

        ``unpriced``: include types without a known price, at an infinite price. ``dedicated``: at the prices of
        dedicated instances.
        """
        instance_types = self.catalogue.instance_types(node_class, unpriced=unpriced, dedicated=dedicated)
        if self._shifts is not None:
            instance_types = self._shifts.without(instance_types)
        return without(instance_types, unavailable) if unavailable else instance_types

    def shifted_zones(self) -> frozenset[str]:
        """The IDs of the zones that ARC shifts the cluster away from, in which no node is launched."""
        return self._shifts.away() if self._shifts is not None else frozenset()

    def refused_zones(self) -> str:
        """Why AWS last refused to tell which zones are shifted, and what to do; empty if it did not refuse."""
        return self._shifts.refusal() if self._shifts is not None else ""

    def ask_zones(self) -> None:
        """Ask ARC again when the zones are needed next."""
        if self._shifts is not None:
            self._shifts.forget()

    def prepare_launch(
        self,
        claim: NodeClaim,
        node_class: EC2NodeClass,
        attempt: int,
        unavailable: Container[OfferingKey] = (),
        types: Sequence[InstanceType] | None = None,
    ) -> LaunchRequest:
        """The exact request of a launch attempt. Creates the launch templates that the request names.

        ``types``: the class's instance types for the claim's NodePool, if they differ from EC2's description.

        Raises:
            NodeClassNotReadyError: the class is not ready for launches.
            NodeClassReadinessUnknownError: the class has not been resolved since its last change.
            InsufficientCapacityError: EC2 has no capacity for anything that the claim allows.
            NoImageError: no image of the class boots an instance type that the claim allows.
            ValueError: the claim's requirements or the class's user data are invalid.
            EC2Error: an AWS call failed.
        """
        if why := not_ready(node_class):
            raise NodeClassNotReadyError(why)
        if why := readiness_unknown(node_class):
            raise NodeClassReadinessUnknownError(why)
        free = self._network.free_addresses([subnet.id for subnet in node_class.status.subnets])
        requirements = Requirements.from_terms(term.to_dict() for term in claim.spec.requirements)
        if types is None:
            types = self.instance_types(node_class, dedicated=tenancy(requirements) == labels.DEDICATED)
        type_names = named_types(requirements, types)
        available_types = without(type_names, unavailable)
        available_types = without_zones(available_types, away) if (away := self.shifted_zones()) else available_types
        try:
            plan = plan_launch(
                claim,
                node_class,
                self._cluster_for(node_class),
                available_types,
                free,
                attempt,
                self.catalogue.kubelets(node_class, {instance_type.name for instance_type in available_types}),
                open_reservations=self._reservations is None,
            )
        except NoOfferingError as error:
            full, refused = without_addresses(claim, node_class, available_types, free)
            why = f"{error}; no subnet of the class in {', '.join(full)} has a free address" if full else str(error)
            raise InsufficientCapacityError(why, refused) from error
        self._network.expect(plan.request.client_token, plan.addresses)
        self._templates.ensure(plan.templates, afresh=attempt > 1)
        _warn_of_few_types(claim, plan.request)
        requests = parse_resources(claim.spec.resources.requests)
        zones = {subnet.zone for subnet in node_class.status.subnets}
        left_out = cheapest_left_out(
            requirements,
            requests,
            type_names,
            zones,
            unavailable,
            plan.request.capacity_type,
            placement_group=plan.request.placement_group,
        )
        return plan.request if left_out is None else evolve(plan.request, left_out=left_out)

    def launch(self, request: LaunchRequest) -> LaunchResult:
        """Send a prepared request. A repeated request finds the same instance.

        Raises:
            EC2Error: only retryable errors. The result holds every refusal.
        """
        result = self._launcher.create_fleet(request)
        subnet_id = ""
        if result.instance is not None:
            type_and_zone = (result.instance.instance_type, result.instance.zone)
            rows = (row for template in request.templates for row in template.overrides)
            requested = next((row.subnet_id for row in rows if (row.instance_type, row.zone) == type_and_zone), "")
            subnet_id = result.instance.subnet_id or requested
        self._network.settle(request.client_token, subnet_id)
        return result

    def throttling(self, calls: Iterable[str]) -> Throttling | None:
        """What EC2 throttles among these calls of this process, the longest; None if it throttles none of them."""
        return self._clients.pacer.throttling(calls)

    def find_instance(self, claim_name: str) -> Instance | None:
        """The living instance that has the claim's tag, or None."""
        return self._instances.by_claim(claim_name)

    def group_outcome(self, group: LaunchGroup, claim_name: str) -> LaunchOutcome:
        """What a launch group bought for one of its claims."""
        return self._instances.of_group(group, claim_name)

    def describe_instance(self, instance_id: str) -> Instance | None:
        """The instance, or None if EC2 does not know it."""
        return self._instances.describe(instance_id)

    def price(self, instance_type: str, zone: str, capacity_type: str, tenancy: str) -> float:
        """The price per hour of an offering, or 0 if the price is unknown."""
        return self.catalogue.price(instance_type, zone, capacity_type, tenancy)

    def instance_state(self, instance_id: str) -> str | None:
        """pending, running, shutting-down, terminated, stopping or stopped; None if EC2 does not know the instance."""
        return self._instances.state(instance_id)

    def console_output(self, instance_id: str) -> str:
        """What the instance has written to its console by now; empty if EC2 has nothing of it yet."""
        return console_output(self._clients, instance_id)

    def why_ended(self, instance_id: str) -> tuple[str, str] | None:
        """Code and message of why EC2 ended the instance; None if it has not ended, or EC2 does not know it."""
        return self._instances.why_ended(instance_id)

    def reservations(self, instance_ids: Sequence[str]) -> Mapping[str, str]:
        """Instance id to the capacity reservation that a living instance is in; empty if it is in none."""
        return self._instances.reservations(instance_ids)

    def count_places(self) -> None:
        """Count the free places of capacity reservations again when they are needed next."""
        if self._reservations is not None:
            self._reservations.forget()

    def terminate(self, instance_id: str) -> str | None:
        """Terminate the instance. Return its new state, or None if EC2 does not know it any more."""
        return self._instances.terminate(instance_id)

    def reboot(self, instance_id: str, zones: Collection[str]) -> RebootReply:
        """Ask EC2 to reboot the instance. ``zones``: the ID and the name of its zone.

        Nothing is asked in a zone that ARC shifts the cluster away from, because the machine may not come back there.
        """
        if away := self.shifted_zones() & set(zones):
            message = f"ARC shifts the cluster away from zone {', '.join(sorted(away))}"
            return RebootReply(outcome=RebootOutcome.REFUSED, message=message)
        return reboot_instance(self._clients, instance_id)

    def stop(self, instance_id: str) -> StopReply:
        """Stop the instance of a warm node."""
        return stop_instance(self._clients, instance_id)

    def start(self, instance_id: str) -> StopReply:
        """Start the instance of a warm node again."""
        return start_instance(self._clients, instance_id)

    def terminate_instances(self, instance_ids: Sequence[str]) -> Mapping[str, str | EC2Error | None]:
        """Terminate instances. Return for each its new state, None if EC2 does not know it, or the error."""
        return self._instances.terminate_instances(instance_ids)

    def states(self, instance_ids: Sequence[str]) -> Mapping[str, str]:
        """Instance id to state. Instances that EC2 does not know are left out."""
        return self._instances.states(instance_ids)

    def owned_instances(self) -> list[ObservedInstance]:
        """All instances that are not terminated and whose tags name this cluster and a NodePool or NodeClaim."""
        return self._instances.owned()

    def name_instance(self, instance_id: str, claim: str, node_name: str) -> bool:
        """Tag an instance with its claim and name it after its Node. Return whether it has these tags now.

        A Name tag from the EC2NodeClass stays as it is.
        """
        return self._instances.name_after(instance_id, claim, node_name)

    def launch_templates(self) -> list[ObservedTemplate]:
        """All launch templates of the cluster that were created for an EC2NodeClass."""
        return self._templates.of_cluster()

    def cluster_instances(self) -> tuple[list[ClusterInstance], dict[str, str]]:
        """All instances that belong to the cluster by their tags; by ID, why others with its tags do not."""
        return self._instances.of_cluster()

    def cluster_templates(self) -> list[ClusterTemplate]:
        """All launch templates that belong to the cluster by their tags."""
        return self._templates.owned()

    def cluster_profiles(self) -> list[ClusterProfile]:
        """All instance profiles that were created for EC2NodeClasses of the cluster."""
        return self._profiles.of_cluster()

    def delete_launch_template(self, template: ObservedTemplate | ClusterTemplate) -> bool:
        """Delete exactly this template. Return False if it is gone already. A later launch creates it again."""
        return self._templates.delete(template)

    def delete_launch_templates(self, node_class_name: str) -> int:
        """Delete the launch templates of a node class. Return how many there were."""
        return self._templates.delete_of_class(node_class_name)

    def delete_instance_profile(self, node_class: EC2NodeClass) -> None:
        """Delete the instance profiles that were created for the class's roles. One that the class names stays."""
        self._profiles.delete_managed(node_class)

    def earlier_profiles(self, node_class: EC2NodeClass) -> dict[str, list[str]]:
        """The instance profiles that were created for the class's earlier roles, with their roles."""
        return self._profiles.earlier(node_class)

    def delete_profile(self, name: str, roles: Sequence[str]) -> None:
        """Delete an instance profile that has these roles. It is gone already, or no instance has it."""
        self._profiles.delete(name, roles)

    def user_data_bytes(self, node_class: EC2NodeClass) -> int:
        """The size of the class's user data as it is rendered for a node, or 0 if it cannot be rendered."""
        return user_data_bytes(node_class, self.cluster)


def _warn_of_few_types(claim: NodeClaim, request: LaunchRequest) -> None:
    requirements = Requirements.from_terms(term.to_dict() for term in claim.spec.requirements)
    types = sorted({row.instance_type for template in request.templates for row in template.overrides})
    if warning := few_types(requirements, request.capacity_type, types):
        log.warning(
            warning,
            extra={
                "nodeclaim": claim.metadata.name,
                "nodepool": claim.metadata.labels.get(labels.NODEPOOL, ""),
                "types": ", ".join(types),
            },
        )
