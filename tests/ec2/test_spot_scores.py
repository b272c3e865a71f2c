"""Spot placement scores as the worker reads them from AWS."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from activities.ec2.client import Ec2
from activities.ec2.errors import EC2Error
from activities.ec2.spot_scores import SpotScoresReader
from sandbox.ec2.authorization.identities import POLICY, with_spot_scores_policy
from tenon.scheduling.offerings.spot_scores import Configuration

if TYPE_CHECKING:
    from sandbox.ec2.server import Server

pytestmark = pytest.mark.integration

CONFIGURATION = Configuration(("m5.2xlarge", "m5.large", "m5.xlarge"), 64)


@pytest.fixture
def allowed(server: Server) -> Iterator[None]:
    server.world.judge.replace("sandbox", json.dumps(with_spot_scores_policy()))
    yield
    server.world.judge.clear()
    server.world.spot_scores.clear()


@pytest.mark.usefixtures("allowed")
def test_scores_are_read_by_zone_id(clients: Ec2, server: Server) -> None:
    server.world.spot_scores.state({"usw2-az1": 3, "usw2-az2": 8})
    scores = SpotScoresReader(clients).read(CONFIGURATION)
    assert (scores["usw2-az1"], scores["usw2-az2"]) == (3, 8)
    (call,) = [call for call in server.world.calls.listing() if call["action"] == "GetSpotPlacementScores"]
    parameters = call["parameters"]
    assert parameters["TargetCapacity"] == "64"
    assert parameters["TargetCapacityUnitType"] == "vcpu"
    assert parameters["SingleAvailabilityZone"] == "true"
    assert parameters["RegionName.1"] == "us-west-2"


def test_the_policy_of_every_worker_does_not_allow_it(clients: Ec2, server: Server) -> None:
    server.world.judge.replace("sandbox", POLICY.read_text())  # so that the refusal is expected
    with pytest.raises(EC2Error) as caught:
        SpotScoresReader(clients).read(CONFIGURATION)
    assert caught.value.unauthorized
    assert "ec2:GetSpotPlacementScores" in caught.value.explained
    server.world.judge.clear()
