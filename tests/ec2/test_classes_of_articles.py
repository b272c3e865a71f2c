"""The classes of Karpenter's first users in examples/seeds: each launches, and its instance shows every setting."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from activities.ec2.provider import Ec2Provider
from sandbox.ec2.images import AL2_KUBERNETES
from tenon.apis.ec2nodeclass import EC2NodeClass
from tests.convert.running import convert
from tests.ec2.conftest import Administrator, until_shown
from tests.ec2.samples import node_claim

if TYPE_CHECKING:
    from sandbox.ec2.server import Server

pytestmark = pytest.mark.integration

SEEDS = Path("examples/seeds")
IMAGE, COPIED = "ami-of-a-team", f"amazon-eks-node-{AL2_KUBERNETES}-*"
"""What the pattern ``ami-*`` of an article finds, and what it is a copy of."""
ROLE = "KarpenterNodeRole-sandbox"
"""The role of nodes that the policy of the sandbox's worker names, as a user's policy names theirs."""
OF_THE_KUBELET = (
    "--pods-per-core=2",
    "--system-reserved=cpu=100m,ephemeral-storage=1Gi,memory=100Mi",
    "--kube-reserved=cpu=200m,ephemeral-storage=3Gi,memory=100Mi",
    "--eviction-hard=memory.available<5%,nodefs.available<10%,nodefs.inodesFree<10%",
    "--eviction-soft=memory.available<500Mi,nodefs.available<15%,nodefs.inodesFree<15%",
    "--eviction-soft-grace-period=memory.available=1m,nodefs.available=1m30s,nodefs.inodesFree=2m",
    "--eviction-max-pod-grace-period=60",
    "--image-gc-high-threshold=85",
    "--image-gc-low-threshold=80",
    "--cpu-cfs-quota=true",
    "--dns-cluster-ip 10.0.1.100",
)
"""What article 002 sets in its NodePool, as the program that joins a node of AL2 gets it."""


def classes() -> dict[str, EC2NodeClass]:
    """Each class of the articles as ``tenon convert`` makes it, by file and name."""
    result = {}
    for file in sorted(SEEDS.glob("*.yaml")):
        for body in yaml.safe_load_all(convert("-f", str(file)).out):
            if body and body["kind"] == "EC2NodeClass":
                name = body["metadata"]["name"]
                # without a status: what the article's own cluster had found says nothing about this account
                written = {"metadata": {**body["metadata"], "uid": "uid"}, "spec": body["spec"]}
                result[f"{file.stem}/{name}"] = EC2NodeClass.model_validate(written)
    return result


CLASSES = classes()


def test_all_articles_that_have_classes_are_here() -> None:
    assert {name.partition("-")[0] for name in CLASSES} == {"001", "002", "003", "004"}


@pytest.fixture(scope="module")
def own_image(admin: Administrator) -> str:
    """An image of the account, which an article selects by its name."""
    (image,) = admin.ec2.describe_images(Filters=[{"Name": "name", "Values": [COPIED]}])["Images"]
    copy = admin.ec2.copy_image(Name=IMAGE, SourceImageId=image["ImageId"], SourceRegion="us-west-2")
    return str(copy["ImageId"])


def prepare(admin: Administrator, node_class: EC2NodeClass) -> EC2NodeClass:
    """Make what the class names: tags of subnets and security groups, and its instance profile."""
    subnets = [subnet["SubnetId"] for subnet in admin.ec2.describe_subnets()["Subnets"]]
    groups = [
        security_group["GroupId"]
        for security_group in admin.ec2.describe_security_groups()["SecurityGroups"]
        if security_group["GroupName"] == "sandbox-nodes"
    ]
    for resources, terms in (
        (subnets, node_class.spec.subnet_selector_terms),
        (groups, node_class.spec.security_group_selector_terms),
    ):
        for term in terms:
            for key, value in term.tags.items():
                admin.ec2.create_tags(Resources=resources, Tags=[{"Key": key, "Value": value}])
    if node_class.spec.role:
        return node_class.model_copy(update={"spec": node_class.spec.model_copy(update={"role": ROLE})})
    name = node_class.spec.instance_profile
    assert name
    if name not in {
        instance_profile["InstanceProfileName"]
        for instance_profile in admin.iam.list_instance_profiles()["InstanceProfiles"]
    }:
        admin.iam.create_instance_profile(InstanceProfileName=name)
        admin.iam.add_role_to_instance_profile(InstanceProfileName=name, RoleName=ROLE)
    return node_class


@pytest.mark.parametrize("name", CLASSES)
def test_a_class_of_an_article_launches_and_its_instance_shows_every_setting(
    name: str, provider: Ec2Provider, server: Server, admin: Administrator, own_image: str
) -> None:
    node_class = prepare(admin, CLASSES[name])
    status = provider.resolve_node_class(node_class, AL2_KUBERNETES)
    assert [condition.message for condition in status.conditions if condition.status != "True"] == []
    ready = node_class.model_copy(update={"status": status})
    claim = node_claim(
        ("kubernetes.io/arch", "In", ["amd64"]),
        ("node.kubernetes.io/instance-type", "In", ["m5.xlarge"]),
        name=f"claim-{list(CLASSES).index(name)}",
    )
    instance = provider.launch(provider.prepare_launch(claim, ready, 1)).instance
    assert instance is not None
    until_shown(server, instance.id)
    raw = admin.ec2.describe_instances(InstanceIds=[instance.id])["Reservations"][0]["Instances"][0]

    spec = ready.spec
    assert raw["SubnetId"] in {subnet.id for subnet in status.subnets}
    assert {security_group["GroupId"] for security_group in raw["SecurityGroups"]} == {
        security_group.id for security_group in status.security_groups
    }
    assert raw["IamInstanceProfile"]["Arn"].rpartition("/")[2] == status.instance_profile
    if spec.instance_profile:
        assert status.instance_profile == spec.instance_profile
    if any(term.name for term in spec.ami_selector_terms):
        assert raw["ImageId"] == own_image
    assert raw["Monitoring"]["State"] == ("enabled" if spec.detailed_monitoring else "disabled")
    assert _metadata(raw) == _asked_metadata(ready)
    tags = {tag["Key"]: tag["Value"] for tag in raw["Tags"]}
    assert spec.tags.items() <= tags.items()
    assert _volumes(admin, raw) == _asked_volumes(ready)
    data = _user_data(admin, instance.id)
    assert "/etc/eks/bootstrap.sh" in data, "the program that joins a node of AL2"
    assert (spec.user_data or "") in data
    if spec.kubelet is not None:
        assert [argument for argument in OF_THE_KUBELET if argument not in data] == []


def _metadata(raw: Any) -> dict[str, Any]:
    options = raw["MetadataOptions"]
    return {key: options[key] for key in ("HttpEndpoint", "HttpTokens", "HttpPutResponseHopLimit", "HttpProtocolIpv6")}


def _asked_metadata(ready: EC2NodeClass) -> dict[str, Any]:
    metadata_options = ready.spec.metadata_options
    return {
        "HttpEndpoint": metadata_options.http_endpoint,
        "HttpTokens": metadata_options.http_tokens,
        "HttpPutResponseHopLimit": metadata_options.http_put_response_hop_limit,
        "HttpProtocolIpv6": metadata_options.http_protocol_ipv6,
    }


def _volumes(admin: Administrator, raw: Any) -> dict[str, tuple[int, str, bool]]:
    """Size in GiB, type and encryption, by device."""
    result: dict[str, tuple[int, str, bool]] = {}
    for mapping in raw["BlockDeviceMappings"]:
        (volume,) = admin.ec2.describe_volumes(VolumeIds=[mapping["Ebs"]["VolumeId"]])["Volumes"]
        result[mapping["DeviceName"]] = (volume["Size"], volume["VolumeType"], volume["Encrypted"])
    return result


def _asked_volumes(ready: EC2NodeClass) -> dict[str, tuple[int, str, bool]]:
    """What the class asks for, or the default of AL2."""
    if not ready.spec.block_device_mappings:
        return {"/dev/xvda": (20, "gp3", True)}
    written = ready.spec.block_device_mappings[0]
    assert (written.device_name, written.ebs and str(written.ebs.volume_size)) == ("/dev/xvda", "100Gi")
    return {"/dev/xvda": (100, "gp3", True)}


def _user_data(admin: Administrator, instance_id: str) -> str:
    answer = admin.ec2.describe_instance_attribute(InstanceId=instance_id, Attribute="userData")
    return base64.b64decode(answer["UserData"]["Value"]).decode()
