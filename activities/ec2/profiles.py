"""IAM instance profiles: the profile that a node class names, or one that is created for its role.

Nothing here asks IAM about a profile that a class names, and nothing asks IAM at all in an isolated VPC.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from activities.ec2.client import Ec2
from activities.ec2.errors import EC2Error, translated
from tenon.apis.ec2nodeclass import EC2NodeClass
from tenon.ec2.launch.tags import profile_tags
from tenon.ec2.launch.template import tag_list
from tenon.ec2.refusals import errors as codes
from tenon.errors import TenonError
from tenon.messages.teardown import ClusterProfile
from tenon.teardown.ownership import owns_profile, profile_path

LIMIT_EXCEEDED = "LimitExceeded"


class ProfileNotFoundError(TenonError):
    """The instance profile or role that the class names does not exist in the account."""


class UnreachableIamError(TenonError):
    """The class needs a profile that Tenon creates, but Tenon asks IAM nothing in an isolated VPC."""


class ProfileLimitError(TenonError):
    """A quota of IAM does not allow the profile that the class needs. The message says which one."""


def managed_name(cluster: str, region: str, node_class: EC2NodeClass) -> str:
    """The name of the profile for the class's role. A new role gets a new name, so running nodes keep their profile."""
    parts = f"{region}/{node_class.metadata.name}/{node_class.spec.role}"
    return f"{cluster[:100]}_{hashlib.sha256(parts.encode()).hexdigest()[:20]}"


class Profiles:
    """The instance profiles of one cluster. Thread-safe."""

    def __init__(self, clients: Ec2, cluster: str, *, isolated: bool = False) -> None:
        """``isolated``: the setting ISOLATED_VPC."""
        self._isolated = isolated
        self._clients = clients
        self._cluster = cluster

    def resolve(self, node_class: EC2NodeClass) -> str:
        """The name of the instance profile that the class's instances use. Creates it if the class names a role.

        Only a launch, or its dry run, says whether a profile that the class names exists.

        Raises:
            ProfileNotFoundError: the role that the class names does not exist. The message names it.
            UnreachableIamError: the class names a role, and the VPC is isolated.
            ProfileLimitError: the account has no room for another profile, or the profile has another role.
        """
        instance_profile = node_class.spec.instance_profile
        if instance_profile is not None:
            return instance_profile
        if self._isolated:
            raise UnreachableIamError(
                f"spec.role {node_class.spec.role} needs an instance profile of Tenon's, but Tenon asks IAM nothing "
                "with ISOLATED_VPC=true: create the instance profile and name it in spec.instanceProfile"
            )
        name = managed_name(self._cluster, self._clients.region, node_class)
        roles = self._roles(name)
        if roles is None:
            self._create(name, node_class)
            roles = []
        role = (node_class.spec.role or "").rpartition("/")[2]
        if role not in roles:
            self._add_role(name, role)
        return name

    def delete_managed(self, node_class: EC2NodeClass) -> None:
        """Delete the profiles that were created for the class, also for its earlier roles.

        Call it only when no instance of the class is left: an instance without its profile loses its rights.
        """
        if self._isolated:
            return
        profiles = self._managed(node_class)
        if node_class.spec.role:  # an earlier object of this name may have created the profile, under another path
            name = managed_name(self._cluster, self._clients.region, node_class)
            if name not in profiles and (roles := self._roles(name)) is not None:
                profiles[name] = roles
        for name, roles in profiles.items():
            self.delete(name, roles)

    def earlier(self, node_class: EC2NodeClass) -> dict[str, list[str]]:
        """The profiles that were created for the class, with their roles, without the one that it uses now."""
        spec = node_class.spec
        current = spec.instance_profile or managed_name(self._cluster, self._clients.region, node_class)
        return {name: roles for name, roles in self._managed(node_class).items() if name != current}

    def of_cluster(self) -> list[ClusterProfile]:
        """The profiles that were created for EC2NodeClasses of the cluster, for its teardown.

        Raises:
            UnreachableIamError: the VPC is isolated.
            EC2Error: IAM refuses the call, or does not answer.
        """
        if self._isolated:
            raise UnreachableIamError("Tenon asks IAM nothing with ISOLATED_VPC=true")
        region = self._clients.region
        pages = self._clients.iam.get_paginator("list_instance_profiles").paginate(
            PathPrefix=profile_path(region, self._cluster)
        )
        with translated("ListInstanceProfiles"):
            listed = [profile for page in pages for profile in page["InstanceProfiles"]]
        return [
            ClusterProfile(
                name=profile["InstanceProfileName"], roles=sorted(role["RoleName"] for role in profile["Roles"])
            )
            for profile in listed
            if owns_profile(profile["Path"], region, self._cluster)
        ]

    def delete(self, name: str, roles: Iterable[str]) -> None:
        """Delete a profile that has these roles."""
        for role in roles:
            self._quiet_delete(name, role)
        self._quiet_delete(name)

    def _managed(self, node_class: EC2NodeClass) -> dict[str, list[str]]:
        """The profiles that were created for this very class, with their roles.

        Without the right to list them, which the policies of some of Karpenter's releases do not grant, there are none.
        """
        if self._isolated:
            return {}
        path = self._path(node_class)
        pages = self._clients.iam.get_paginator("list_instance_profiles").paginate(PathPrefix=path)
        try:
            with translated("ListInstanceProfiles"):
                listed = [profile for page in pages for profile in page["InstanceProfiles"]]
        except EC2Error as error:
            if not error.unauthorized:
                raise
            return {}
        return {
            profile["InstanceProfileName"]: [role["RoleName"] for role in profile["Roles"]]
            for profile in listed
            if profile["Path"] == path
        }

    def _path(self, node_class: EC2NodeClass) -> str:
        """The path of a class's profiles, which Karpenter uses too. It has the UID, so no other class shares it."""
        return f"/karpenter/{self._clients.region}/{self._cluster}/{node_class.metadata.uid}/"

    def _quiet_delete(self, name: str, role: str = "") -> None:
        try:
            with translated("DeleteInstanceProfile"):
                if role:
                    self._clients.iam.remove_role_from_instance_profile(InstanceProfileName=name, RoleName=role)
                else:
                    self._clients.iam.delete_instance_profile(InstanceProfileName=name)
        except EC2Error as error:
            if not error.not_found:
                raise

    def _roles(self, name: str) -> list[str] | None:
        """The roles in a profile, or None if the profile does not exist."""
        try:
            with translated("GetInstanceProfile"):
                answer = self._clients.iam.get_instance_profile(InstanceProfileName=name)
        except EC2Error as error:
            if error.not_found:
                return None
            raise
        return [role["RoleName"] for role in answer["InstanceProfile"]["Roles"]]

    def _create(self, name: str, node_class: EC2NodeClass) -> None:
        region = self._clients.region
        tags = tag_list(profile_tags(self._cluster, region, node_class))
        try:
            with translated("CreateInstanceProfile"):
                self._clients.iam.create_instance_profile(
                    InstanceProfileName=name,
                    Path=self._path(node_class),
                    Tags=[{"Key": tag["Key"], "Value": tag["Value"]} for tag in tags],
                )
        except EC2Error as error:
            if error.code == LIMIT_EXCEEDED:
                raise ProfileLimitError(
                    f"IAM does not create the instance profile of role {node_class.spec.role} ({error.message}): "
                    "raise the account's quota for instance profiles, or delete unused ones"
                ) from error
            if error.code not in codes.ALREADY_EXISTS:
                raise

    def _add_role(self, name: str, role: str) -> None:
        try:
            with translated("AddRoleToInstanceProfile"):
                self._clients.iam.add_role_to_instance_profile(InstanceProfileName=name, RoleName=role)
        except EC2Error as error:
            if error.not_found and "instance profile" in error.message.lower():
                # IAM does not show the new profile everywhere yet.
                raise EC2Error(error.code, error.message, retryable=True) from error
            if error.not_found:
                raise ProfileNotFoundError(f"role {role} does not exist: create it or name another") from error
            if error.code != LIMIT_EXCEEDED:
                raise
            others = self._roles(name) or []
            if role not in others:  # otherwise another replica has just added it
                raise ProfileLimitError(
                    f"instance profile {name} has the role {', '.join(others)}, and IAM allows only one: "
                    f"remove it from the profile, so that Tenon can add {role}"
                ) from error
