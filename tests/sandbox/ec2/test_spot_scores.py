"""GetSpotPlacementScores as AWS documents it: parameters, scores by zone ID, pages, and new configurations of a day."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.exceptions import ClientError

from sandbox.ec2.spot_scores import DAY, MOST_CONFIGURATIONS
from tests.sandbox.ec2.conftest import Aws

pytestmark = pytest.mark.integration

TYPES = ["m5.large", "m5.xlarge", "m6i.large"]


def scores(aws: Aws, **changes: Any) -> dict[str, int]:
    """By zone ID; by region without one."""
    request = {"InstanceTypes": TYPES, "TargetCapacity": 32, "SingleAvailabilityZone": True} | changes
    answer = aws.ec2.get_spot_placement_scores(**request)
    return {row.get("AvailabilityZoneId", row["Region"]): row["Score"] for row in answer["SpotPlacementScores"]}


def zone_ids(aws: Aws) -> dict[str, str]:
    """By zone."""
    zones = aws.ec2.describe_availability_zones()["AvailabilityZones"]
    return {zone["ZoneName"]: zone["ZoneId"] for zone in zones}


def test_each_zone_has_a_score_by_its_id_and_a_zone_without_capacity_a_low_one(aws: Aws) -> None:
    ids = zone_ids(aws)
    assert scores(aws) == dict.fromkeys(ids.values(), 9)
    aws.admin.capacity(zone="us-west-2a", capacity_type="spot", available=0)
    assert scores(aws)[ids["us-west-2a"]] == 1
    aws.admin.spot_scores({ids["us-west-2b"]: 4})
    by_id = scores(aws, RegionNames=["us-west-2"])
    assert (by_id[ids["us-west-2b"]], by_id[ids["us-west-2c"]]) == (4, 9)
    assert list(by_id.values()) == sorted(by_id.values(), reverse=True)


def test_regions_are_scored_as_a_whole_and_others_are_unknown(aws: Aws) -> None:
    assert scores(aws, SingleAvailabilityZone=False) == {"us-west-2": 9}
    assert scores(aws, RegionNames=["eu-west-1"]) == {}


def test_fewer_than_three_types_have_low_scores(aws: Aws) -> None:
    assert set(scores(aws, InstanceTypes=TYPES[:2]).values()) == {1}


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"TargetCapacity": 2_000_000_001}, "InvalidParameterValue"),
        ({"TargetCapacityUnitType": "nodes"}, "InvalidParameterValue"),
        ({"InstanceTypes": []}, "MissingParameter"),
        ({"InstanceTypes": ["m5.enormous", *TYPES]}, "InvalidInstanceType"),
        ({"RegionNames": [f"us-west-{number}" for number in range(11)]}, "InvalidParameterValue"),
        ({"MaxResults": 1001}, "InvalidParameterValue"),
        ({"NextToken": "x"}, "InvalidParameterValue"),
        (
            {"InstanceRequirementsWithMetadata": {"ArchitectureTypes": ["x86_64"]}},
            "InvalidParameterCombination",
        ),
        ({"DryRun": True}, "DryRunOperation"),
    ],
)
def test_parameters_are_checked(aws: Aws, changes: dict[str, Any], code: str) -> None:
    with pytest.raises(ClientError) as caught:
        scores(aws, **changes)
    assert caught.value.response["Error"]["Code"] == code


def test_new_configurations_of_a_day_are_limited(aws: Aws) -> None:
    for capacity in range(1, MOST_CONFIGURATIONS + 1):
        scores(aws, TargetCapacity=capacity)
    with pytest.raises(ClientError, match="MaxConfigLimitExceeded"):
        scores(aws, TargetCapacity=MOST_CONFIGURATIONS + 1)
    assert scores(aws, TargetCapacity=1, InstanceTypes=TYPES[::-1]), "the same configuration may be scored again"
    aws.clock.pass_(DAY)
    assert scores(aws, TargetCapacity=MOST_CONFIGURATIONS + 1)
