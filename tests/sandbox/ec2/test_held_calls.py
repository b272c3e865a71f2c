"""Calls that wait until a test lets them go, as when a worker is killed between a call and its answer."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.sandbox.ec2.conftest import TEMPLATE, Aws
from tests.workflows.waiting import until

pytestmark = pytest.mark.integration

LAUNCH = """
import json, sys
from tests.sandbox.ec2.conftest import make_client
endpoint, request = sys.argv[1], json.loads(sys.argv[2])
make_client(endpoint, "ec2", "us-west-2").create_fleet(**request)
"""


def request(aws: Aws, token: str) -> dict[str, Any]:
    specification = {"LaunchTemplateName": TEMPLATE, "Version": "$Latest"}
    override = {"InstanceType": "m7g.large", "SubnetId": aws.subnets["us-west-2a"]}
    return {
        "Type": "instant",
        "ClientToken": token,
        "LaunchTemplateConfigs": [{"LaunchTemplateSpecification": specification, "Overrides": [override]}],
        "TargetCapacitySpecification": {"TotalTargetCapacity": 1, "DefaultTargetCapacityType": "on-demand"},
    }


async def held(aws: Aws, count: int) -> None:
    async def reached() -> bool:
        return aws.admin.held() == count

    await until(reached)


async def test_a_call_held_before_its_effect_has_none_until_it_is_released(aws: Aws) -> None:
    aws.admin.hold("CreateFleet")
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(aws.fleet)
        await held(aws, 1)
        assert aws.admin.instances() == []
        aws.ec2.describe_subnets()
        aws.admin.release()
        assert answer.result(30)["Instances"]
    assert aws.admin.held() == 0
    assert aws.fleet()["Instances"], "a hold is used up by its count"


async def test_a_call_held_after_its_effect_has_happened(aws: Aws) -> None:
    aws.admin.hold("CreateFleet", after_effect=True, count=2)
    with ThreadPoolExecutor(2) as pool:
        answers = [pool.submit(aws.fleet) for _ in range(2)]
        await held(aws, 2)
        assert len(aws.admin.instances()) == 2
        aws.admin.release()
        assert all(answer.result(30)["Instances"] for answer in answers)


@pytest.mark.parametrize("after_effect", [False, True])
async def test_a_client_that_is_killed_frees_its_call_and_the_token_buys_once(aws: Aws, after_effect: bool) -> None:
    aws.admin.hold("CreateFleet", after_effect=after_effect)
    wish = request(aws, "token-1")
    client = subprocess.Popen([sys.executable, "-c", LAUNCH, aws.server.endpoint, json.dumps(wish)])  # noqa: ASYNC220
    await held(aws, 1)
    client.kill()
    client.wait()
    await held(aws, 0)
    assert len(aws.admin.instances()) == int(after_effect)
    aws.ec2.create_fleet(**wish)
    assert len(aws.admin.instances()) == 1


async def test_a_dry_run_is_not_held_and_uses_up_no_count(aws: Aws) -> None:
    aws.admin.hold("CreateFleet")
    with pytest.raises(ClientError, match="DryRunOperation"):
        await asyncio.to_thread(aws.fleet, DryRun=True)
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(aws.fleet)
        await held(aws, 1)
        aws.admin.release()
        assert answer.result(30)["Instances"]


async def test_reset_lets_go_of_held_calls(aws: Aws) -> None:
    aws.admin.hold("DescribeSubnets", count=None)
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(aws.ec2.describe_subnets)
        await held(aws, 1)
        aws.admin.reset()
        assert answer.result(30)["Subnets"]
