"""Everything that activities ask of EC2, behind one door.

All methods block; call them from threads. Failures of AWS are `EC2Error` (retryable or not) and `Throttled`.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from decimal import Decimal

from activities.ec2.catalogue import Catalogue
from activities.ec2.client import Ec2
from activities.ec2.errors import EC2Error, InsufficientCapacity, NodeClassNotReady, NodeClassReadinessUnknown
from activities.ec2.instances import Instances
from activities.ec2.launch import Launcher
from activities.ec2.network import Network
from activities.ec2.nodeclass import NodeClassResolver
from activities.ec2.pricing import Pricing
from activities.ec2.profiles import Profiles
from activities.ec2.ttl_cache import DEFAULT, Refresh
from tenon.apis.ec2nodeclass import EC2NodeClass, EC2NodeClassStatus
from tenon.apis.nodeclaim import NodeClaim
from tenon.ec2.cluster import Cluster
from tenon.ec2.expressions_finding import expressions_finding
from tenon.ec2.instance_types import without
from tenon.ec2.launch_filters import NoOfferingError
from tenon.ec2.launch_request import plan_launch
from tenon.ec2.nodeclass_status import Finding, not_ready, readiness_unknown
from tenon.housekeeping.facts import InstanceSeen, TemplateSeen
from tenon.kube.offerings import OfferingKey
from tenon.lifecycle.messages import Instance, LaunchGroup, LaunchRequest, LaunchResult
from tenon.scheduling.model import InstanceType


class Ec2Provider:
    """EC2 for one cluster; build it once in a process. Thread-safe."""

    def __init__(
        self,
        clients: Ec2,
        cluster: Cluster,
        *,
        vm_memory_overhead: Decimal = Decimal("0.075"),
        reserved_enis: int = 0,
        isolated: bool = False,
        expressions: bool = False,
        refresh: Refresh = DEFAULT,
    ) -> None:
        self.cluster = cluster
        self.catalogue = Catalogue(
            clients,
            Pricing(clients, isolated=isolated),
            vm_memory_overhead=vm_memory_overhead,
            reserved_enis=reserved_enis,
        )
        self._network = Network(clients)
        self._profiles = Profiles(clients, cluster.name)
        self.refresh = refresh
        self._expressions = expressions
        self._resolver = NodeClassResolver(
            clients, cluster, self._network, self._profiles, refresh=refresh, expressions=self._expressions_finding
        )
        self._instances = Instances(clients, cluster.name, self.catalogue.price)
        self._launcher = Launcher(clients, self._instances, cluster.name)

    def resolve_node_class(self, node_class: EC2NodeClass, kubernetes_version: str = "") -> EC2NodeClassStatus:
        """The class's new status, with conditions; makes its instance profile when needed."""
        return self._resolver.resolve(node_class, kubernetes_version or self.cluster.kubernetes_version)

    def _expressions_finding(self, node_class: EC2NodeClass) -> Finding:
        return expressions_finding(node_class, self.catalogue.described, allowed=self._expressions)

    def instance_types(
        self, node_class: EC2NodeClass, unavailable: Container[OfferingKey] = (), *, unpriced: bool = False
    ) -> list[InstanceType]:
        """The types that the class's nodes may have; ``unavailable`` are those that EC2 refused.

        ``unpriced``: types whose price nobody knows are among them, at a price without end.
        """
        return self.catalogue.instance_types(node_class, unavailable, unpriced=unpriced)

    def prepare_launch(
        self,
        claim: NodeClaim,
        node_class: EC2NodeClass,
        attempt: int,
        unavailable: Container[OfferingKey] = (),
        types: Sequence[InstanceType] | None = None,
    ) -> LaunchRequest:
        """The exact request of a launch attempt; the launch templates that it names exist afterwards.

        ``types`` are those of the class as the claim's NodePool is to see them, when that is not as EC2 describes them.

        Raises:
            NodeClassNotReady: the class cannot be launched from.
            NodeClassReadinessUnknown: the class has not been resolved as it is now.
            InsufficientCapacity: nothing that the claim allows can be bought now.
            ValueError: the claim's requirements or the class's user data make no sense.
        """
        if why := not_ready(node_class):
            raise NodeClassNotReady(why)
        if why := readiness_unknown(node_class):
            raise NodeClassReadinessUnknown(why)
        subnet_ids = [subnet.id for subnet in node_class.status.subnets]
        sold = self.instance_types(node_class, unavailable) if types is None else without(types, unavailable)
        try:
            plan = plan_launch(
                claim,
                node_class,
                self.cluster,
                sold,
                self._network.free_addresses(subnet_ids),
                attempt,
                self.catalogue.kubelets(node_class, {each.name for each in sold}),
            )
        except NoOfferingError as error:
            raise InsufficientCapacity(str(error)) from error
        self._launcher.ensure_templates(plan.templates, afresh=attempt > 1)
        return plan.request

    def launch(self, request: LaunchRequest) -> LaunchResult:
        """Sends a prepared request; sending it again finds the same instance.

        Raises:
            EC2Error: only retryable ones; every refusal is in the result.
        """
        result = self._launcher.create_fleet(request)
        if result.instance is not None:
            chosen = (result.instance.instance_type, result.instance.zone)
            rows = (row for template in request.templates for row in template.overrides)
            subnet_id = next((row.subnet_id for row in rows if (row.instance_type, row.zone) == chosen), None)
            if subnet_id:
                self._network.took_address(subnet_id)
        return result

    def find_instance(self, claim_name: str) -> Instance | None:
        """The living instance that carries the claim's tag."""
        return self._instances.by_claim(claim_name)

    def group_instance(self, group: LaunchGroup, claim_name: str) -> Instance | None:
        """The living instance that a launch group bought for one of its claims."""
        return self._instances.of_group(group, claim_name)

    def describe_instance(self, instance_id: str) -> Instance | None:
        """The instance, None when EC2 does not know it."""
        return self._instances.describe(instance_id)

    def instance_state(self, instance_id: str) -> str | None:
        """pending, running, shutting-down, terminated, stopping or stopped; None when EC2 does not know it."""
        return self._instances.state(instance_id)

    def terminate(self, instance_id: str) -> str | None:
        """Ends the instance; its new state, None when EC2 does not know it any more."""
        return self._instances.terminate(instance_id)

    def end(self, instance_ids: Sequence[str]) -> Mapping[str, str | EC2Error | None]:
        """Asks EC2 to end instances: for each its new state, None for one that EC2 does not know, or the error."""
        return self._instances.end(instance_ids)

    def states(self, instance_ids: Sequence[str]) -> Mapping[str, str]:
        """The states of those of the instances that EC2 knows."""
        return self._instances.states(instance_ids)

    def owned_instances(self) -> list[InstanceSeen]:
        """Every instance that is not gone and that the tags say this cluster's NodePools or NodeClaims bought."""
        return self._instances.owned()

    def name_instance(self, instance_id: str, claim: str, node_name: str) -> bool:
        """Tags an instance with its claim and names it after its Node; False when there was nothing to write.

        A Name that the EC2NodeClass gave it is left alone.
        """
        return self._instances.name_after(instance_id, claim, node_name)

    def launch_templates(self) -> list[TemplateSeen]:
        """Every launch template of the cluster."""
        return self._launcher.templates()

    def delete_launch_template(self, template: TemplateSeen) -> bool:
        """Deletes exactly this template; False when it is gone already. A later launch makes it anew."""
        return self._launcher.delete_template(template)

    def delete_launch_templates(self, node_class_name: str) -> int:
        """Deletes the launch templates of a node class; how many there were."""
        return self._launcher.delete_templates(node_class_name)

    def delete_instance_profile(self, node_class: EC2NodeClass) -> None:
        """Deletes the profile that was made for the class's role; a profile that the class names is left alone."""
        if node_class.spec.instance_profile is None:
            self._profiles.delete_managed(node_class)
