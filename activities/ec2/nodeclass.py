"""Finds the AWS resources that an EC2NodeClass selects. `tenon` decides what they mean for the class's status."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

from activities.ec2.client import Ec2
from activities.ec2.images import Images
from activities.ec2.network import Network
from activities.ec2.profiles import ProfileLimitError, ProfileNotFoundError, Profiles
from activities.ec2.ttl_cache import DEFAULT, Refresh, TtlCache
from tenon.apis.ec2nodeclass import EC2NodeClass, EC2NodeClassStatus, Subnet
from tenon.ec2.amis import Image, UnsupportedAliasError
from tenon.ec2.cluster import Cluster
from tenon.ec2.nodeclass_status import PASSED, CheckResult, Resolved, new_status

ExpressionsCheck = Callable[[EC2NodeClass], CheckResult]


class NodeClassResolver:
    """Resolves the EC2NodeClasses of one cluster. Thread-safe."""

    def __init__(
        self,
        clients: Ec2,
        cluster: Cluster,
        network: Network,
        profiles: Profiles,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        *,
        refresh: Refresh = DEFAULT,
        expressions: ExpressionsCheck | None = None,
    ) -> None:
        """``expressions`` checks the expressions in a class; if None, they are not checked."""
        self._expressions = expressions
        self._cluster = cluster
        self._network = network
        self._images = Images(clients, now=now, parameter_seconds=refresh.images.total_seconds())
        self._known_images: TtlCache[Image] = TtlCache(refresh.kept(refresh.images))
        self._known_subnets: TtlCache[Subnet] = TtlCache(refresh.kept(refresh.subnets))
        self._profiles = profiles
        self._now = now

    def resolve(self, node_class: EC2NodeClass, kubernetes_version: str) -> EC2NodeClassStatus:
        """The class's new status. Missing resources become conditions, not errors.

        Raises:
            EC2Error: an AWS call failed. Keep the old status.
        """
        images, images_result = self._found_images(node_class, kubernetes_version)
        profile, profile_result = self._found_profile(node_class)
        resolved = Resolved(
            subnets=self._known_subnets.get(
                repr(node_class.spec.subnet_selector_terms), lambda: self._network.subnets(node_class)
            ),
            security_groups=self._network.security_groups(node_class),
            images=images,
            images_result=images_result,
            instance_profile=profile,
            profile_result=profile_result,
            expressions_result=self._expressions(node_class) if self._expressions else PASSED,
        )
        return new_status(node_class, resolved, self._cluster, self._now())

    def _found_images(self, node_class: EC2NodeClass, kubernetes_version: str) -> tuple[list[Image], CheckResult]:
        try:
            asked = f"{kubernetes_version} {node_class.spec.ami_selector_terms!r}"
            return self._known_images.get(asked, lambda: self._images.resolve(node_class, kubernetes_version)), PASSED
        except UnsupportedAliasError as error:
            return [], CheckResult("UnsupportedAlias", str(error))

    def _found_profile(self, node_class: EC2NodeClass) -> tuple[str, CheckResult]:
        try:
            return self._profiles.resolve(node_class), PASSED
        except ProfileNotFoundError as error:
            return "", CheckResult("InstanceProfileNotFound", str(error))
        except ProfileLimitError as error:
            return "", CheckResult("InstanceProfileLimitExceeded", str(error))
