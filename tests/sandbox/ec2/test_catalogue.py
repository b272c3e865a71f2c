"""What the account offers: types, offerings, prices, images, launch templates, the cluster."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.sandbox.ec2.conftest import Aws

pytestmark = pytest.mark.integration


def test_instance_types_are_regional_and_paged(aws: Aws) -> None:
    pages = list(aws.ec2.get_paginator("describe_instance_types").paginate())
    names = [kind["InstanceType"] for page in pages for kind in page["InstanceTypes"]]
    assert max(len(page["InstanceTypes"]) for page in pages) == 100
    assert len(names) == len(set(names)) > 1000
    other = aws.client("ec2", "me-south-1")
    with pytest.raises(ClientError, match="InvalidInstanceType"):
        other.describe_instance_types(InstanceTypes=["p5.48xlarge"])


def test_instance_type_details_survive_the_way(aws: Aws) -> None:
    kind = aws.ec2.describe_instance_types(InstanceTypes=["g5.xlarge"])["InstanceTypes"][0]
    assert kind["VCpuInfo"]["DefaultVCpus"] == 4
    assert kind["MemoryInfo"]["SizeInMiB"] == 16384
    assert kind["GpuInfo"]["Gpus"][0]["Manufacturer"] == "NVIDIA"
    assert kind["ProcessorInfo"]["SupportedArchitectures"] == ["x86_64"]
    assert kind["NetworkInfo"]["NetworkCards"][0]["MaximumNetworkInterfaces"] == 4
    assert kind["BareMetal"] is False


def test_instance_types_are_filtered_with_wildcards(aws: Aws) -> None:
    filters = [
        {"Name": "instance-type", "Values": ["m7g.*"]},
        {"Name": "processor-info.supported-architecture", "Values": ["arm64"]},
    ]
    instance_types = aws.ec2.describe_instance_types(Filters=filters)["InstanceTypes"]
    assert {kind["InstanceType"].split(".")[0] for kind in instance_types} == {"m7g"}
    with pytest.raises(ClientError, match="InvalidParameterValue"):
        aws.ec2.describe_instance_types(Filters=[{"Name": "colour", "Values": ["red"]}])


def test_offerings_are_paged_and_by_zone(aws: Aws) -> None:
    pages = list(aws.ec2.get_paginator("describe_instance_type_offerings").paginate(LocationType="availability-zone"))
    rows = [row for page in pages for row in page["InstanceTypeOfferings"]]
    assert len(pages) > 1
    assert {row["Location"] for row in rows} == {f"us-west-2{letter}" for letter in "abcd"}


def spot_rows(aws: Aws, **wish: Any) -> list[Any]:
    pages = aws.ec2.get_paginator("describe_spot_price_history").paginate(**wish)
    return [row for page in pages for row in page["SpotPriceHistory"]]


def test_spot_prices_are_current_and_by_zone_type_and_product(aws: Aws) -> None:
    now = datetime.now(UTC)
    rows = spot_rows(aws, InstanceTypes=["m7g.large"], ProductDescriptions=["Linux/UNIX"], StartTime=now, EndTime=now)
    assert {row["AvailabilityZone"] for row in rows} == {f"us-west-2{letter}" for letter in "abcd"}
    assert {row["ProductDescription"] for row in rows} == {"Linux/UNIX"}
    price = aws.server.world.prices.spot["m7g.large"]
    assert all(abs(float(row["SpotPrice"]) - price) < 1e-6 for row in rows)
    assert all(timedelta(0) <= now - row["Timestamp"] <= timedelta(hours=1, minutes=1) for row in rows)
    assert len({(row["AvailabilityZone"]) for row in rows}) == len(rows), "one price in force for each zone"


def test_spot_price_history_is_paged_and_filtered(aws: Aws) -> None:
    now = datetime.now(UTC)
    page = aws.ec2.describe_spot_price_history(MaxResults=10, StartTime=now)
    assert len(page["SpotPriceHistory"]) == 10
    assert page["NextToken"]
    one_zone = [{"Name": "availability-zone", "Values": ["us-west-2b"]}]
    rows = spot_rows(aws, InstanceTypes=["m7g.large"], Filters=one_zone, StartTime=now)
    assert {row["AvailabilityZone"] for row in rows} == {"us-west-2b"}


def test_the_pricing_service_knows_every_type_of_the_data_file(aws: Aws) -> None:
    filters = [{"Type": "TERM_MATCH", "Field": "regionCode", "Value": "us-west-2"}]
    pages = (
        aws.client("pricing", "us-east-1")
        .get_paginator("get_products")
        .paginate(ServiceCode="AmazonEC2", Filters=filters)
    )
    prices = {}
    for text in (text for page in pages for text in page["PriceList"]):
        product = json.loads(text)
        term = next(iter(product["terms"]["OnDemand"].values()))
        dimension = next(iter(term["priceDimensions"].values()))
        prices[product["product"]["attributes"]["instanceType"]] = float(dimension["pricePerUnit"]["USD"])
    assert prices == pytest.approx(aws.server.world.prices.on_demand)


def test_launch_templates_are_all_listed(aws: Aws) -> None:
    """Collecting unused launch templates needs every one of them; the mock alone lists the first 15."""
    for number in range(20):
        aws.template(f"extra-{number}")
    pages = aws.ec2.get_paginator("describe_launch_templates").paginate(PaginationConfig={"PageSize": 7})
    assert sum(len(page["LaunchTemplates"]) for page in pages) == 21
    with pytest.raises(ClientError, match=r"InvalidLaunchTemplateId\.NotFound"):
        aws.ec2.describe_launch_templates(LaunchTemplateIds=["lt-0123456789abcdef0"])
    with pytest.raises(ClientError, match=r"InvalidLaunchTemplateName\.NotFoundException"):
        aws.ec2.delete_launch_template(LaunchTemplateName="nobody")


@pytest.mark.parametrize(
    ("path", "architecture", "name"),
    [
        (
            "/aws/service/eks/optimized-ami/1.37/amazon-linux-2023/x86_64/nvidia/recommended/image_id",
            "x86_64",
            "al2023",
        ),
        (
            "/aws/service/eks/optimized-ami/1.37/amazon-linux-2023/x86_64/neuron/recommended/image_id",
            "x86_64",
            "al2023",
        ),
        ("/aws/service/bottlerocket/aws-k8s-1.37/arm64/latest/image_id", "arm64", "bottlerocket"),
        ("/aws/service/bottlerocket/aws-k8s-1.37-nvidia/x86_64/1.49.0/image_id", "x86_64", "bottlerocket"),
    ],
)
def test_image_parameters_name_images_that_exist(aws: Aws, path: str, architecture: str, name: str) -> None:
    """AWS-104, AWS-105."""
    image = aws.client("ssm").get_parameter(Name=path)["Parameter"]["Value"]
    result = aws.ec2.describe_images(ImageIds=[image])["Images"][0]
    assert result["Architecture"] == architecture
    assert name in result["Name"]


def test_recommended_images_are_the_newest(aws: Aws) -> None:
    """AWS-108."""
    expectation = [{"Name": "name", "Values": ["amazon-eks-node-al2023-arm64-standard-1.37-*"]}]
    images = aws.ec2.describe_images(Owners=["amazon"], Filters=expectation)["Images"]
    assert len(images) == 2
    assert max(images, key=lambda image: image["CreationDate"])["ImageId"] == aws.image()


def test_the_cluster_and_its_role_are_there(aws: Aws) -> None:
    cluster = aws.client("eks").describe_cluster(name="sandbox")["cluster"]
    assert (cluster["version"], cluster["endpoint"]) == ("1.37", "https://127.0.0.1:6443")
    assert cluster["kubernetesNetworkConfig"]["serviceIpv4Cidr"]
    profile = aws.client("iam").get_instance_profile(InstanceProfileName="KarpenterNodeRole-sandbox")
    assert profile["InstanceProfile"]["Roles"][0]["RoleName"] == "KarpenterNodeRole-sandbox"


def test_empty_listings_are_answered(aws: Aws) -> None:
    assert aws.ec2.describe_capacity_reservations()["CapacityReservations"] == []
    assert aws.ec2.describe_placement_groups()["PlacementGroups"] == []
