"""Node classes resolved against the sandbox's account."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from activities.ec2 import rate_limits
from activities.ec2.client import Ec2
from activities.ec2.cluster import describe_cluster
from activities.ec2.nodeclass import UnansweredError
from activities.ec2.profiles import Profiles
from activities.ec2.provider import Ec2Provider
from sandbox.ec2.authorization.identities import POLICY
from sandbox.ec2.faults import Fault
from tenon.apis.conditions import get_condition, is_true
from tenon.apis.ec2nodeclass import EC2NodeClass, EC2NodeClassStatus
from tenon.ec2.nodeclass.status import not_ready
from tests.ec2.conftest import Administrator
from tests.ec2.samples import node_class

if TYPE_CHECKING:
    from sandbox.ec2.server import Server

pytestmark = pytest.mark.integration


def status_of(provider: Ec2Provider, version: str = "", **spec: Any) -> EC2NodeClassStatus:
    return provider.resolve_node_class(node_class(**{"role": "KarpenterNodeRole-sandbox", **spec}), version)


def renamed(written: EC2NodeClass, name: str) -> EC2NodeClass:
    return written.model_copy(update={"metadata": written.metadata.model_copy(update={"name": name})})


def failed(status: EC2NodeClassStatus) -> dict[str, str]:
    return {
        condition.type: condition.reason
        for condition in status.conditions
        if condition.status == "False" and condition.type != "Ready"
    }


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
    """AWS-121: its path has the class's UID, so that no other class shares it."""
    again = provider.resolve_node_class(ready_class)
    assert again.instance_profile == ready_class.status.instance_profile
    name = ready_class.status.instance_profile or ""
    profile = clients.iam.get_instance_profile(InstanceProfileName=name)["InstanceProfile"]
    assert profile["Path"] == "/karpenter/us-west-2/sandbox/class-uid/"
    assert [role["RoleName"] for role in profile["Roles"]] == ["KarpenterNodeRole-sandbox"]
    assert {tag["Key"]: tag["Value"] for tag in profile["Tags"]} == {
        "kubernetes.io/cluster/sandbox": "owned",
        "eks:eks-cluster-name": "sandbox",
        "karpenter.k8s.aws/ec2nodeclass": "default",
        "topology.kubernetes.io/region": "us-west-2",
    }


def test_ec_s7_a_managed_profile_with_another_role_is_not_ready(
    provider: Ec2Provider, clients: Ec2, admin: Administrator
) -> None:
    """A profile has one role. Instances of a class whose profile has another one would get the wrong rights."""
    profiles = Profiles(clients, "sandbox")
    other = renamed(node_class(role="KarpenterNodeRole-sandbox"), "other-role")
    name = profiles.resolve(other)
    admin.iam.create_role(RoleName="intruder", AssumeRolePolicyDocument="{}")
    admin.iam.remove_role_from_instance_profile(InstanceProfileName=name, RoleName="KarpenterNodeRole-sandbox")
    admin.iam.add_role_to_instance_profile(InstanceProfileName=name, RoleName="intruder")
    status = provider.resolve_node_class(other)
    assert failed(status) == {"InstanceProfileReady": "InstanceProfileLimitExceeded"}
    assert status.instance_profile is None
    (message,) = [condition.message for condition in status.conditions if condition.type == "InstanceProfileReady"]
    assert name in message
    assert "intruder" in message
    admin.iam.remove_role_from_instance_profile(InstanceProfileName=name, RoleName="intruder")
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


def test_aws047_a_profile_that_another_replica_has_just_made_is_used(
    provider: Ec2Provider, server: Server, clients: Ec2
) -> None:
    other = renamed(node_class(role="KarpenterNodeRole-sandbox"), "made-twice")
    server.world.faults.add(
        Fault(action="CreateInstanceProfile", code="EntityAlreadyExists", status=409, after_effect=True)
    )
    status = provider.resolve_node_class(other)
    assert failed(status) == {}
    profile = clients.iam.get_instance_profile(InstanceProfileName=status.instance_profile or "")["InstanceProfile"]
    assert [role["RoleName"] for role in profile["Roles"]] == ["KarpenterNodeRole-sandbox"]


IAM_CALLS = ("GetInstanceProfile", "ListInstanceProfiles", "CreateInstanceProfile", "AddRoleToInstanceProfile")


def test_set22_an_isolated_vpc_needs_no_iam(clients: Ec2, server: Server) -> None:
    """Nothing asks IAM, so the class names its profile, and EC2 says whether it exists."""
    isolated = Ec2Provider(clients, describe_cluster(clients, "sandbox"), isolated=True)
    for action in IAM_CALLS:
        server.world.faults.add(Fault(action=action, code="ServiceUnavailable", status=503, count=None))
    before = len([call for action in IAM_CALLS for call in server.world.calls.listing(action)])
    names = renamed(node_class({}, role=None, instanceProfile="KarpenterNodeRole-sandbox"), "named")
    status = isolated.resolve_node_class(names)
    assert failed(status) == {}
    assert status.instance_profile == "KarpenterNodeRole-sandbox"
    isolated.delete_instance_profile(names)
    assert isolated.earlier_profiles(names) == {}
    by_role = isolated.resolve_node_class(renamed(node_class({}, role="KarpenterNodeRole-sandbox"), "by-role"))
    assert failed(by_role) == {"InstanceProfileReady": "RoleInIsolatedVPC"}
    (message,) = [condition.message for condition in by_role.conditions if condition.type == "InstanceProfileReady"]
    assert "spec.instanceProfile" in message
    missing = isolated.resolve_node_class(renamed(node_class({}, role=None, instanceProfile="none"), "missing"))
    assert failed(missing) == {"ValidationSucceeded": "InstanceProfileNotFound"}
    assert len([call for action in IAM_CALLS for call in server.world.calls.listing(action)]) == before


def test_a_managed_profile_can_be_deleted_twice(provider: Ec2Provider, clients: Ec2) -> None:
    """EC-S11: an owner's clean-up that is repeated succeeds."""
    other = renamed(node_class(role="KarpenterNodeRole-sandbox"), "other")
    name = provider.resolve_node_class(other).instance_profile or ""
    provider.delete_instance_profile(other)
    provider.delete_instance_profile(other)
    with pytest.raises(clients.iam.exceptions.NoSuchEntityException):
        clients.iam.get_instance_profile(InstanceProfileName=name)


def test_ecs11_a_profile_is_deleted_without_the_right_to_list_profiles(
    provider: Ec2Provider, server: Server, clients: Ec2
) -> None:
    """The policy of some releases of Karpenter lacks it, and its classes must not stay for ever."""
    other = renamed(node_class(role="KarpenterNodeRole-sandbox"), "unlisted")
    name = provider.resolve_node_class(other).instance_profile or ""
    server.world.faults.add(Fault(action="ListInstanceProfiles", code="AccessDenied", status=403, count=None))
    provider.delete_instance_profile(other)
    with pytest.raises(clients.iam.exceptions.NoSuchEntityException):
        clients.iam.get_instance_profile(InstanceProfileName=name)


def test_ecs11_act05_profiles_of_earlier_roles_are_deleted_with_the_class(provider: Ec2Provider, clients: Ec2) -> None:
    """Also if the class names a profile of its own by then. Those of other classes stay, whatever their names."""
    first = renamed(node_class(role="KarpenterNodeRole-sandbox"), "moved")
    other = renamed(node_class(role="KarpenterNodeRole-sandbox"), "stays")
    for selection, uid in ((first, "moved-uid"), (other, "moved-uid-2")):
        selection.metadata.uid = uid
    instance_profile = provider.resolve_node_class(other).instance_profile or ""
    earlier = provider.resolve_node_class(first).instance_profile or ""
    for now in (
        first.model_copy(update={"spec": first.spec.model_copy(update={"role": "another"})}),
        first.model_copy(
            update={"spec": first.spec.model_copy(update={"role": None, "instance_profile": instance_profile})}
        ),
    ):
        provider.delete_instance_profile(now)
        with pytest.raises(clients.iam.exceptions.NoSuchEntityException):
            clients.iam.get_instance_profile(InstanceProfileName=earlier)
        provider.resolve_node_class(first)
    assert clients.iam.get_instance_profile(InstanceProfileName=instance_profile)["InstanceProfile"]
    provider.delete_instance_profile(first)
    provider.delete_instance_profile(other)


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"subnetSelectorTerms": [{"tags": {"no": "such"}}]}, {"SubnetsReady": "SubnetsNotFound"}),
        ({"subnetSelectorTerms": [{"id": "subnet-0123456789abcdef0"}]}, {"SubnetsReady": "SubnetsNotFound"}),
        ({"securityGroupSelectorTerms": [{"name": "none"}]}, {"SecurityGroupsReady": "SecurityGroupsNotFound"}),
        ({"amiSelectorTerms": [{"alias": "al2023@v20000101"}]}, {"AMIsReady": "AMINotFound"}),
        ({"amiSelectorTerms": [{"alias": "al2@latest"}]}, {"AMIsReady": "UnsupportedAlias"}),
        ({"role": "nobody"}, {"InstanceProfileReady": "InstanceProfileNotFound"}),
        ({"role": None, "instanceProfile": "none"}, {"ValidationSucceeded": "InstanceProfileNotFound"}),
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


def test_ec07_images_are_selected_by_tags(
    provider: Ec2Provider, admin: Administrator, ready_class: EC2NodeClass
) -> None:
    image = ready_class.status.amis[0].id
    admin.ec2.create_tags(Resources=[image], Tags=[{"Key": "team", "Value": "ml"}])
    for value, result in (("ml", [image]), ("*", [image]), ("web", [])):
        selection = node_class(
            role="KarpenterNodeRole-sandbox",
            amiFamily="AL2023",
            amiSelectorTerms=[{"tags": {"team": value}, "owner": "amazon"}],
        )
        assert [item.id for item in provider.resolve_node_class(selection).amis] == result
    admin.ec2.delete_tags(Resources=[image], Tags=[{"Key": "team"}])


def test_images_by_id_and_name_boot_their_architecture(provider: Ec2Provider, ready_class: EC2NodeClass) -> None:
    """AWS-108: of the many images with the name, the newest for each architecture."""
    amis = ready_class.status.amis[0]
    by_id = status_of(provider, amiFamily="AL2023", amiSelectorTerms=[{"id": amis.id}])
    assert [ami.id for ami in by_id.amis] == [amis.id]
    term = {"name": "amazon-eks-node-al2023-*-standard-*", "owner": "602401143452"}
    by_name = status_of(provider, amiFamily="AL2023", amiSelectorTerms=[term])
    assert sorted(ami.requirements[0].values[0] for ami in by_name.amis) == ["amd64", "arm64"]
    assert all((ami.name or "").endswith("v20261101") for ami in by_name.amis)


def test_aws108_deprecated_images_are_asked_for_too(
    provider: Ec2Provider, server: Server, ready_class: EC2NodeClass
) -> None:
    """EC2 leaves them out otherwise, so a class that names or pins one would have no image from one day to the next."""
    before = len(server.world.calls.listing("DescribeImages"))
    selection = ready_class.status.amis[0].id
    for term in ({"id": selection}, {"name": "amazon-eks-node-al2023-*"}, {"alias": "al2023@v20261001"}):
        status_of(provider, amiFamily="AL2023", amiSelectorTerms=[term])
    calls = server.world.calls.listing("DescribeImages")[before:]
    assert [call["parameters"].get("IncludeDeprecated") for call in calls] == ["true"] * 3


@pytest.mark.parametrize(("owner", "names"), [(None, ["self", "amazon"]), ("602401143452", ["602401143452"])])
def test_aws107_an_image_of_a_name_is_the_accounts_own_or_amazons(
    owner: str | None, names: list[str], provider: Ec2Provider, server: Server
) -> None:
    """Anybody may publish an image of the same name."""
    term = {"name": "amazon-eks-node-al2023-x86_64-*", **({"owner": owner} if owner else {})}
    before = len(server.world.calls.listing("DescribeImages"))
    status_of(provider, amiFamily="AL2023", amiSelectorTerms=[term])
    (call,) = server.world.calls.listing("DescribeImages")[before:]
    parameters = call["parameters"]
    assert [value for name, value in sorted(parameters.items()) if name.startswith("Owner")] == names


RECOMMENDED = "/aws/service/eks/optimized-ami/1.36/amazon-linux-2023/x86_64/standard/recommended/image_id"


@pytest.fixture
def own_parameters(server: Server) -> Iterator[None]:
    """The worker may read parameters of its account, which deploy/README.md tells users to allow."""
    document = json.loads(POLICY.read_text())
    document["Statement"].append({"Effect": "Allow", "Action": "ssm:GetParameter", "Resource": "*"})
    server.world.judge.replace("sandbox", json.dumps(document))
    yield
    server.world.judge.replace("sandbox", None)


@pytest.mark.usefixtures("own_parameters")
@pytest.mark.parametrize(
    "form",
    ["/team/image", "/team/image:1", "/team/image:stable", "arn:aws:ssm:us-west-2:123456789012:parameter/team/image"],
)
def test_ec07_an_ssm_parameter_may_have_a_version_or_a_label_or_be_an_arn(
    clients: Ec2, admin: Administrator, ready_class: EC2NodeClass, form: str
) -> None:
    """SSM answers with the plain name, whatever was asked for."""
    fresh = Ec2Provider(clients, describe_cluster(clients, "sandbox"))
    selection = ready_class.status.amis[0].id
    admin.ssm.put_parameter(Name="/team/image", Value=selection, Type="String", Overwrite=True)
    admin.ssm.label_parameter_version(Name="/team/image", ParameterVersion=1, Labels=["stable"])
    status = status_of(fresh, amiFamily="AL2023", amiSelectorTerms=[{"ssmParameter": form}])
    assert failed(status) == {}
    assert [ami.id for ami in status.amis] == [selection]


@pytest.mark.usefixtures("own_parameters")
@pytest.mark.parametrize("name", ["/no/such", f"{RECOMMENDED}:999"])
def test_ec07_an_ssm_parameter_that_does_not_exist_names_no_image(provider: Ec2Provider, name: str) -> None:
    status = status_of(provider, amiFamily="AL2023", amiSelectorTerms=[{"ssmParameter": name}])
    assert failed(status) == {"AMIsReady": "AMINotFound"}


REFUSED = [
    ("DescribeSubnets", "UnauthorizedOperation", "SubnetsReady", "ec2:DescribeSubnets"),
    ("DescribeSecurityGroups", "UnauthorizedOperation", "SecurityGroupsReady", "ec2:DescribeSecurityGroups"),
    ("DescribeImages", "UnauthorizedOperation", "AMIsReady", "ec2:DescribeImages"),
    ("GetParameter", "AccessDeniedException", "AMIsReady", "ssm:GetParameter"),
    ("GetInstanceProfile", "AccessDenied", "InstanceProfileReady", "iam:GetInstanceProfile"),
    ("CreateInstanceProfile", "AccessDenied", "InstanceProfileReady", "iam:CreateInstanceProfile"),
    ("AddRoleToInstanceProfile", "AccessDenied", "InstanceProfileReady", "iam:AddRoleToInstanceProfile"),
    ("DescribeInstanceTypes", "UnauthorizedOperation", "ValidationSucceeded", "ec2:DescribeInstanceTypes"),
    (
        "DescribeInstanceTypeOfferings",
        "UnauthorizedOperation",
        "ValidationSucceeded",
        "ec2:DescribeInstanceTypeOfferings",
    ),
]


def refuse(server: Server, action: str, code: str, status: int = 403) -> None:
    server.world.faults.add(Fault(action=action, code=code, status=status, count=None))


@pytest.mark.parametrize(("action", "code", "condition", "right"), REFUSED)
def test_ecs7_a_refused_call_makes_the_class_unready_and_names_the_right(
    clients: Ec2, server: Server, action: str, code: str, condition: str, right: str
) -> None:
    """AWS-048: what AWS does not show is not reported as missing, and the other parts are looked up."""
    fresh = Ec2Provider(clients, describe_cluster(clients, "sandbox"))
    written = renamed(node_class({}, role="KarpenterNodeRole-sandbox"), f"refused-{action.lower()}")
    refuse(server, action, code)
    status = fresh.resolve_node_class(written)
    assert failed(status) == {condition: "Unauthorized"}
    result = get_condition(status.conditions, condition)
    assert result is not None
    assert f"allow {right} in the IAM policy" in result.message
    assert not is_true(status.conditions, "Ready")
    again = fresh.resolve_node_class(written.model_copy(update={"status": status}))
    assert again.conditions == status.conditions, "the same refusal changes nothing on the class"
    server.world.faults.clear()
    assert is_true(fresh.resolve_node_class(written).conditions, "Ready"), "a granted right is enough"


def test_ecs7_a_class_that_loses_a_right_says_so_and_keeps_what_it_knows(
    clients: Ec2, server: Server, ready_class: EC2NodeClass
) -> None:
    """Otherwise its nodes would drift because nothing is selected any more."""
    fresh = Ec2Provider(clients, describe_cluster(clients, "sandbox"))
    for action in ("DescribeSubnets", "DescribeSecurityGroups", "DescribeImages", "GetInstanceProfile"):
        refuse(server, action, "UnauthorizedOperation")
    status = fresh.resolve_node_class(ready_class)
    assert set(failed(status)) == {"SubnetsReady", "SecurityGroupsReady", "AMIsReady", "InstanceProfileReady"}
    before = ready_class.status
    assert (status.subnets, status.security_groups, status.amis, status.instance_profile) == (
        before.subnets,
        before.security_groups,
        before.amis,
        before.instance_profile,
    )
    assert "AMIsReady" in not_ready(ready_class.model_copy(update={"status": status}))


def test_ecs7_another_refusal_names_its_code(clients: Ec2, server: Server) -> None:
    fresh = Ec2Provider(clients, describe_cluster(clients, "sandbox"))
    refuse(server, "DescribeSubnets", "InvalidParameterValue", 400)
    status = fresh.resolve_node_class(node_class(role="KarpenterNodeRole-sandbox"))
    assert failed(status) == {"SubnetsReady": "SubnetResolutionFailed"}


@pytest.mark.parametrize(("code", "http"), [("RequestLimitExceeded", 503), ("InternalError", 500)])
def test_ecs7_throttling_is_no_refusal(
    clients: Ec2,
    server: Server,
    ready_class: EC2NodeClass,
    code: str,
    http: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A class that is ready stays so. Of a new one nothing is known, and it is resolved again soon."""
    monkeypatch.setattr(rate_limits, "FIRST_PAUSE", 0.0)  # six refused calls pause a worker's clients for a minute
    fresh = Ec2Provider(clients, describe_cluster(clients, "sandbox"))
    refuse(server, "DescribeSubnets", code, http)
    with pytest.raises(UnansweredError) as caught:
        fresh.resolve_node_class(ready_class)
    assert caught.value.retryable
    assert caught.value.status.conditions == ready_class.status.conditions
    assert caught.value.status.subnets == ready_class.status.subnets
    with pytest.raises(UnansweredError) as caught:
        fresh.resolve_node_class(node_class({}, role="KarpenterNodeRole-sandbox"))
    states = {condition.type: (condition.status, condition.reason) for condition in caught.value.status.conditions}
    assert states["SubnetsReady"] == ("Unknown", "SubnetResolutionFailed")
    assert states["Ready"][0] == "Unknown"
    assert states["SecurityGroupsReady"][0] == "True"


def test_ecs7_without_a_connection_a_new_class_says_so_soon(clients: Ec2) -> None:
    """Each part takes a while to fail, and the activity must write the status within its minute."""
    away = Ec2("us-west-2", "http://127.0.0.1:9")
    names: list[str] = []
    for client in (away.ec2, away.ssm, away.iam):
        client.meta.events.register("before-call", lambda model, **_: names.append(model.name))
    fresh = Ec2Provider(away, describe_cluster(clients, "sandbox"))
    with pytest.raises(UnansweredError) as caught:
        fresh.resolve_node_class(node_class({}, role="KarpenterNodeRole-sandbox"))
    states = {condition.type: condition.status for condition in caught.value.status.conditions}
    parts = ("AMIsReady", "SubnetsReady", "SecurityGroupsReady", "InstanceProfileReady", "ValidationSucceeded", "Ready")
    assert {states[part] for part in parts} == {"Unknown"}
    assert names == ["GetParameter", "DescribeSubnets"]


def test_ecs7_a_profile_that_iam_does_not_show_yet_is_not_a_missing_role(provider: Ec2Provider, server: Server) -> None:
    text = "Instance Profile sandbox_x cannot be found."
    fault = Fault(action="AddRoleToInstanceProfile", code="NoSuchEntity", status=404, message=text)
    server.world.faults.add(fault)
    written = renamed(node_class({}, role="KarpenterNodeRole-sandbox"), "shown-late")
    with pytest.raises(UnansweredError):
        provider.resolve_node_class(written)
    assert is_true(provider.resolve_node_class(written).conditions, "Ready")
