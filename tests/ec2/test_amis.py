"""Where images are published, and which of several is booted."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from botocore.exceptions import ClientError

from activities.ec2.images import PARAMETER_SECONDS, Images
from tenon.apis.ami_families import AMIFamily
from tenon.ec2.families import FAMILIES
from tenon.ec2.families.amis import Image, UnsupportedAliasError, described_image, newest_per_requirements
from tenon.ec2.types.bootable_types import images_by_type
from tests.ec2.samples import AMD, ARM, GPU, instance_type, node_class

EKS = "/aws/service/eks/optimized-ami"


@pytest.mark.parametrize(
    ("family", "published", "kubernetes", "paths"),
    [
        (
            "AL2023",
            "latest",
            (1, 36),
            [
                f"{EKS}/1.36/amazon-linux-2023/{variant}/recommended/image_id"
                for variant in ("x86_64/standard", "arm64/standard", "x86_64/nvidia", "arm64/nvidia", "x86_64/neuron")
            ],
        ),
        (
            "AL2023",
            "v20260915",
            (1, 35),
            [
                f"{EKS}/1.35/amazon-linux-2023/{arch}/{variant}/"
                f"amazon-eks-node-al2023-{arch}-{variant}-1.35-v20260915/image_id"
                for arch, variant in (
                    ("x86_64", "standard"),
                    ("arm64", "standard"),
                    ("x86_64", "nvidia"),
                    ("arm64", "nvidia"),
                    ("x86_64", "neuron"),
                )
            ],
        ),
        (
            "AL2",
            "latest",
            (1, 32),
            [f"{EKS}/1.32/amazon-linux-2{variant}/recommended/image_id" for variant in ("", "-arm64", "-gpu", "-gpu")],
        ),
        (
            "Bottlerocket",
            "v1.46.0",
            (1, 36),
            [
                f"/aws/service/bottlerocket/aws-k8s-1.36{variant}/1.46.0/image_id"
                for variant in ("/x86_64", "/arm64", "/x86_64", "-nvidia/x86_64", "-nvidia/arm64")
            ],
        ),
        *(
            (
                f"Windows{year}",
                "latest",
                (1, 36),
                [f"/aws/service/ami-windows-latest/Windows_Server-{year}-English-Core-EKS_Optimized-1.36/image_id"],
            )
            for year in (2019, 2022, 2025)
        ),
    ],
)
def test_aws103_to_aws106_images_have_their_ssm_parameters(
    family: AMIFamily, published: str, kubernetes: tuple[int, int], paths: list[str]
) -> None:
    """Of each family, for each architecture and kind of device."""
    assert [query.parameter for query in FAMILIES[family].images(kubernetes, published)] == paths


@pytest.mark.parametrize(
    ("family", "kubernetes", "supported"),
    [
        ("AL2", (1, 32), True),
        ("AL2", (1, 33), False),
        ("Windows2025", (1, 34), False),
        ("Windows2025", (1, 35), True),
    ],
)
def test_aliases_end_with_kubernetes_versions(family: AMIFamily, kubernetes: tuple[int, int], supported: bool) -> None:
    """EC-S8."""
    if supported:
        assert FAMILIES[family].images(kubernetes, "latest")
    else:
        with pytest.raises(UnsupportedAliasError, match=f"Kubernetes 1.{kubernetes[1]}:"):
            FAMILIES[family].images(kubernetes, "latest")


def test_variants_fit_their_types() -> None:
    """AWS-109: plain, GPU and Neuron types boot different images of one alias."""
    queries = FAMILIES["AL2023"].images((1, 36), "latest")
    amis = [{"id": f"ami-{number}", "requirements": list(query.requirements)} for number, query in enumerate(queries)]
    resolved = node_class({"amis": amis}).status.amis
    names = ("m5.large", "t4g.small", "g4dn.xlarge", "g5g.xlarge", "inf2.xlarge")
    selection = images_by_type([instance_type(name) for name in names], resolved)
    assert [selection[name] for name in names] == ["ami-0", "ami-1", "ami-2", "ami-3", "ami-4"]


def test_a_type_without_an_image_is_left_out() -> None:
    neuron, plain = instance_type("inf2.xlarge"), instance_type("m5.large")
    amis = [ami for ami in node_class().status.amis if ami.id in (ARM, GPU)]
    assert images_by_type([neuron, plain], amis) == {}
    assert images_by_type([plain], node_class().status.amis) == {"m5.large": AMD}


def test_newest_image_wins_and_deprecated_ones_come_last() -> None:
    """AWS-108."""
    images = [
        Image("ami-old", "b", (), "2026-01-01T00:00:00.000Z"),
        Image("ami-new", "a", (), "2026-03-01T00:00:00.000Z"),
        Image("ami-newest-but-deprecated", "c", (), "2026-09-01T00:00:00.000Z", deprecated=True),
    ]
    assert [image.id for image in newest_per_requirements(images)] == ["ami-new"]
    assert [image.id for image in newest_per_requirements(images[2:])] == ["ami-newest-but-deprecated"]


def test_an_image_chosen_by_hand_boots_its_architecture() -> None:
    """AWS-108: deprecated from its date on, but still used."""
    described = {
        "ImageId": "ami-1",
        "Name": "mine",
        "Architecture": "arm64",
        "CreationDate": "2025-01-01T00:00:00.000Z",
        "DeprecationTime": "2026-06-01T00:00:00.000Z",
    }
    image = described_image(described, "2026-07-01T00:00:00.000Z")
    assert image.deprecated
    assert image.requirements == ({"key": "kubernetes.io/arch", "operator": "In", "values": ["arm64"]},)
    assert not described_image(described, "2026-05-01T00:00:00.000Z").deprecated


@pytest.mark.parametrize(
    ("term", "owners"),
    [
        ({"tags": {"team": "ml"}}, None),
        ({"tags": {"team": "ml"}, "owner": "123456789012"}, ["123456789012"]),
        ({"name": "base-*"}, ["self", "amazon"]),
        ({"name": "base-*", "owner": "123456789012"}, ["123456789012"]),
    ],
    ids=str,
)
def test_aws107_only_a_name_without_an_owner_looks_at_self_and_amazon(
    term: dict[str, Any], owners: list[str] | None
) -> None:
    """An image that another account shares has an owner that is neither, and is selected by its tags."""
    requests: list[dict[str, Any]] = []

    def paginate(**parameters: Any) -> list[dict[str, Any]]:
        requests.append(parameters)
        return []

    ec2 = SimpleNamespace(get_paginator=lambda _: SimpleNamespace(paginate=paginate))
    selection = node_class(amiFamily="AL2023", amiSelectorTerms=[term])
    assert Images(cast("Any", SimpleNamespace(ec2=ec2))).resolve(selection, "1.34") == []
    assert [item.get("Owners") for item in requests] == [owners]


def test_ec07_a_parameter_that_did_not_exist_is_read_at_the_next_resolve() -> None:
    """Users who name a parameter before it exists create it next, and wait for the class to be ready."""
    requests: list[str] = []
    values: dict[str, str] = {}
    now = 0.0

    def get_parameter(Name: str) -> Any:
        requests.append(Name)
        if Name not in values:
            raise ClientError({"Error": {"Code": "ParameterNotFound", "Message": "no"}}, "GetParameter")
        return {"Parameter": {"Value": values[Name]}}

    def paginate(**_: Any) -> list[dict[str, Any]]:
        return [{"Images": [{"ImageId": "ami-1", "Name": "image", "Architecture": "x86_64", "State": "available"}]}]

    ec2 = SimpleNamespace(get_paginator=lambda _: SimpleNamespace(paginate=paginate))
    clients = SimpleNamespace(ec2=ec2, ssm=SimpleNamespace(get_parameter=get_parameter))
    images = Images(cast("Any", clients), clock=lambda: now)
    selection = node_class(amiFamily="AL2023", amiSelectorTerms=[{"ssmParameter": "/team/image"}])
    assert images.resolve(selection, "1.34") == []
    values["/team/image"] = "ami-1"
    assert [image.id for image in images.resolve(selection, "1.34")] == ["ami-1"]
    requests.clear()
    now = PARAMETER_SECONDS - 1
    images.resolve(selection, "1.34")
    assert requests == []
    now = PARAMETER_SECONDS
    images.resolve(selection, "1.34")
    assert requests == ["/team/image"]
