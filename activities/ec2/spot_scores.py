"""Reads Spot placement scores: how likely EC2 is to have spot capacity in each zone of the region."""

from __future__ import annotations

from typing import Any

from activities.ec2.client import Ec2
from activities.ec2.errors import translated
from tenon.scheduling.offerings.spot_scores import Configuration

PAGE = 100
MOST_PAGES = 10
"""AWS scores the ten best zones, so one page is enough. A defect at AWS must not make this endless."""


class SpotScoresReader:
    """The scores that one account gets in one region."""

    def __init__(self, clients: Ec2) -> None:
        self._clients = clients

    def read(self, configuration: Configuration) -> dict[str, int]:
        """Return the score of each zone, from 1 to 10, by zone ID. Blocking.

        Raises:
            EC2Error: AWS does not answer, the worker has no right to ask, or the account has asked for too many new
                configurations today.
        """
        request: dict[str, Any] = {
            "InstanceTypes": list(configuration.instance_types),
            "TargetCapacity": configuration.vcpus,
            "TargetCapacityUnitType": "vcpu",
            "SingleAvailabilityZone": True,
            "RegionNames": [self._clients.region],
            "MaxResults": PAGE,
        }
        scores: dict[str, int] = {}
        with translated("GetSpotPlacementScores"):
            for _ in range(MOST_PAGES):
                answer = self._clients.ec2.get_spot_placement_scores(**request)
                for row in answer["SpotPlacementScores"]:
                    if zone_id := row.get("AvailabilityZoneId"):
                        scores[zone_id] = row["Score"]
                if not answer.get("NextToken"):
                    break
                request["NextToken"] = answer["NextToken"]
        return scores
