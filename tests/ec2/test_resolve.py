"""Node classes resolved against the sandbox's account."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from activities.ec2.client import Ec2
from activities.ec2.errors import EC2Error
from activities.ec2.profiles import Profiles
from activities.ec2.provider import Ec2Provider
from sandbox.ec2.faults import Fault
from tenon.apis.conditions import is_true
from tenon.apis.ec2nodeclass import EC2NodeClass, EC2NodeClassStatus
from tests.ec2.samples import node_class

if TYPE_CHECKING:
    from sandbox.ec2.server import Server


def status_of(provider: Ec2Provider, version: str = "", **spec: Any) -> EC2NodeClassStatus:
    return provider.resolve_node_class(node_class(**{"role": "KarpenterNodeRole-sandbox", **spec}), version)


def renamed(written: EC2NodeClass, name: str) -> EC2NodeClass:
    return written.model_copy(update={"metadata": written.metadata.model_copy(update={"name": name})})


def failed(status: EC2NodeClassStatus) -> dict[str, str]:
    return {each.type: each.reason for each in status.conditions if each.status == "False" and each.type != "Ready"}


def test_a_plain_class_is_ready(ready_class: EC2NodeClass) -> None:
    """EC-S1..S6."""
    status = ready_class.status
    assert is_true(status.conditions, "Ready")
    assert {subnet.zone for subnet in status.subnets} == {f"us-west-2{letter}" for letter in "abcd"}
    assert all(subnet.zone_id for subnet in status.subnets)
    assert [group.name for group in status.security_groups] == ["sandbox-nodes"]
    assert len(status.amis) == 5
    assert status.instance_profile is not None
    assert status.instance_profile.startswith("sandbox_")


def test_the_managed_profile_is_made_once_and_tagged(
    provider: Ec2Provider, clients: Ec2, ready_class: EC2NodeClass
) -> None:
    """AWS-121."""
    again = provider.resolve_node_class(ready_class)
    assert again.instance_profile == ready_class.status.instance_profile
    name = ready_class.status.instance_profile or ""
    profile = clients.iam.get_instance_profile(InstanceProfileName=name)["InstanceProfile"]
    assert profile["Path"] == "/karpenter/us-west-2/sandbox/class-uid/"
    assert [role["RoleName"] for role in profile["Roles"]] == ["KarpenterNodeRole-sandbox"]
    tags = {tag["Key"]: tag["Value"] for tag in profile["Tags"]}
    assert tags["eks:eks-cluster-name"] == "sandbox"
    assert tags["karpenter.k8s.aws/ec2nodeclass"] == "default"


def test_ec_s7_a_managed_profile_with_another_role_is_not_ready(provider: Ec2Provider, clients: Ec2) -> None:
    """A profile has one role. Instances of a class whose profile has another one would get the wrong rights."""
    profiles = Profiles(clients, "sandbox")
    other = renamed(node_class(role="KarpenterNodeRole-sandbox"), "other-role")
    name = profiles.resolve(other)
    clients.iam.create_role(RoleName="intruder", AssumeRolePolicyDocument="{}")
    clients.iam.remove_role_from_instance_profile(InstanceProfileName=name, RoleName="KarpenterNodeRole-sandbox")
    clients.iam.add_role_to_instance_profile(InstanceProfileName=name, RoleName="intruder")
    status = provider.resolve_node_class(other)
    assert failed(status) == {"InstanceProfileReady": "InstanceProfileLimitExceeded"}
    assert status.instance_profile is None
    (message,) = [each.message for each in status.conditions if each.type == "InstanceProfileReady"]
    assert name in message
    assert "intruder" in message
    clients.iam.remove_role_from_instance_profile(InstanceProfileName=name, RoleName="intruder")
    assert provider.resolve_node_class(other).instance_profile == name


def test_ec_s7_an_account_without_room_for_a_profile_is_not_ready(provider: Ec2Provider, server: Server) -> None:
    server.world.faults.add(Fault(action="CreateInstanceProfile", code="LimitExceeded", status=409))
    other = renamed(node_class(role="KarpenterNodeRole-sandbox"), "no-room")
    status = provider.resolve_node_class(other)
    assert failed(status) == {"InstanceProfileReady": "InstanceProfileLimitExceeded"}
    assert provider.resolve_node_class(other).instance_profile


def test_a_role_that_another_replica_adds_meanwhile_is_no_failure(
    provider: Ec2Provider, server: Server, clients: Ec2
) -> None:
    other = renamed(node_class(role="KarpenterNodeRole-sandbox"), "two-replicas")
    server.world.faults.add(
        Fault(action="AddRoleToInstanceProfile", code="LimitExceeded", status=409, after_effect=True)
    )
    name = provider.resolve_node_class(other).instance_profile or ""
    profile = clients.iam.get_instance_profile(InstanceProfileName=name)["InstanceProfile"]
    assert [role["RoleName"] for role in profile["Roles"]] == ["KarpenterNodeRole-sandbox"]


def test_a_managed_profile_can_be_deleted_twice(provider: Ec2Provider, clients: Ec2) -> None:
    """EC-S11: an owner's clean-up that is repeated succeeds."""
    other = renamed(node_class(role="KarpenterNodeRole-sandbox"), "other")
    name = provider.resolve_node_class(other).instance_profile or ""
    provider.delete_instance_profile(other)
    provider.delete_instance_profile(other)
    with pytest.raises(clients.iam.exceptions.NoSuchEntityException):
        clients.iam.get_instance_profile(InstanceProfileName=name)


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"subnetSelectorTerms": [{"tags": {"no": "such"}}]}, {"SubnetsReady": "SubnetsNotFound"}),
        ({"subnetSelectorTerms": [{"id": "subnet-0123456789abcdef0"}]}, {"SubnetsReady": "SubnetsNotFound"}),
        ({"securityGroupSelectorTerms": [{"name": "none"}]}, {"SecurityGroupsReady": "SecurityGroupsNotFound"}),
        ({"amiSelectorTerms": [{"alias": "al2023@v20000101"}]}, {"AMIsReady": "AMINotFound"}),
        ({"amiSelectorTerms": [{"alias": "al2@latest"}]}, {"AMIsReady": "UnsupportedAlias"}),
        ({"role": "nobody"}, {"InstanceProfileReady": "InstanceProfileNotFound"}),
        ({"role": None, "instanceProfile": "none"}, {"InstanceProfileReady": "InstanceProfileNotFound"}),
    ],
)
def test_what_is_missing_is_named(provider: Ec2Provider, spec: dict[str, Any], expected: dict[str, str]) -> None:
    """EC-S7."""
    assert failed(status_of(provider, **spec)) == expected


@pytest.mark.parametrize(
    "spec",
    [
        {"subnetSelectorTerms": [{"tags": {"karpenter.sh/discovery": "*"}}]},
        {"securityGroupSelectorTerms": [{"name": "sandbox-nodes"}]},
        {"role": None, "instanceProfile": "KarpenterNodeRole-sandbox"},
        {"amiSelectorTerms": [{"alias": "bottlerocket@latest"}]},
        {"amiSelectorTerms": [{"alias": "al2023@v20261001"}]},
        {"amiFamily": "AL2023", "amiSelectorTerms": [{"name": "amazon-eks-node-al2023-*", "owner": "*"}]},
    ],
)
def test_other_ways_to_select(provider: Ec2Provider, spec: dict[str, Any]) -> None:
    """EC-01, EC-02, EC-07, EC-11."""
    if "amiFamily" in spec:
        spec["amiSelectorTerms"][0]["owner"] = "602401143452"
    assert failed(status_of(provider, **spec)) == {}


def test_images_by_id_and_name_boot_their_architecture(provider: Ec2Provider, ready_class: EC2NodeClass) -> None:
    """AWS-108: of the many images with the name, the newest for each architecture."""
    chosen = ready_class.status.amis[0]
    by_id = status_of(provider, amiFamily="AL2023", amiSelectorTerms=[{"id": chosen.id}])
    assert [ami.id for ami in by_id.amis] == [chosen.id]
    term = {"name": "amazon-eks-node-al2023-*-standard-*", "owner": "602401143452"}
    by_name = status_of(provider, amiFamily="AL2023", amiSelectorTerms=[term])
    assert sorted(ami.requirements[0].values[0] for ami in by_name.amis) == ["amd64", "arm64"]
    assert all((ami.name or "").endswith("v20261101") for ami in by_name.amis)


def test_a_refusal_of_aws_is_an_error_and_no_condition(provider: Ec2Provider, server: Server) -> None:
    """What could not be asked must not be reported as missing."""
    from sandbox.ec2.faults import Fault

    server.world.faults.add(Fault(action="DescribeSubnets", code="UnauthorizedOperation", status=403))
    with pytest.raises(EC2Error) as caught:
        status_of(provider)
    assert caught.value.code == "UnauthorizedOperation"
