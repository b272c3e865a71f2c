"""What befalls an account without its autoscaler: lost instances, orphans, pools that run dry, chance."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from botocore.exceptions import ClientError

from sandbox.ec2.boot import BootPlan, BootRule
from sandbox.ec2.faults import Fault, FaultTable
from tests.sandbox.ec2.conftest import Aws

pytestmark = pytest.mark.integration


def test_a_killed_instance_shuts_down_with_somebody_elses_reason(aws: Aws) -> None:
    launch = aws.launch()
    aws.clock.pass_(2)
    aws.admin.kill_instance(launch)
    assert aws.describe(launch)["State"]["Name"] == "shutting-down"
    aws.clock.pass_(3)
    description = aws.describe(launch)
    assert description["State"]["Name"] == "terminated"
    assert description["StateReason"]["Code"] == "Client.UserInitiatedShutdown"
    aws.ec2.terminate_instances(InstanceIds=[launch])
    with pytest.raises(ValueError, match=f"has ended the instance {launch}"):
        aws.admin.kill_instance(launch)


def test_a_vanished_instance_is_unknown_to_every_call(aws: Aws) -> None:
    launch, other = aws.launch(), aws.launch()
    aws.admin.vanish_instance(launch)
    for call in (aws.ec2.describe_instances, aws.ec2.terminate_instances):
        with pytest.raises(ClientError, match=r"InvalidInstanceID\.NotFound"):
            call(InstanceIds=[launch])
    assert [instance["id"] for instance in aws.admin.instances()] == [other]
    with pytest.raises(ValueError, match="has no instance"):
        aws.admin.vanish_instance(launch)


def test_a_stopped_instance_can_still_be_terminated(aws: Aws) -> None:
    launch = aws.launch()
    aws.clock.pass_(2)
    aws.admin.stop_instance(launch)
    assert aws.describe(launch)["State"]["Name"] == "stopping"
    aws.clock.pass_(3)
    assert aws.describe(launch)["State"]["Name"] == "stopped"
    aws.ec2.terminate_instances(InstanceIds=[launch])
    aws.clock.pass_(3)
    assert aws.describe(launch)["State"]["Name"] == "terminated"


def test_an_orphan_has_its_tags_and_its_age_and_is_no_node(aws: Aws) -> None:
    tags = {"eks:eks-cluster-name": "another", "karpenter.sh/nodepool": "default"}
    instance = aws.admin.plant_instance(
        tags, type="c7i.large", zone="us-west-2b", capacity_type="spot", age_seconds=600
    )
    description = aws.describe(instance)
    assert {tag["Key"]: tag["Value"] for tag in description["Tags"]} == tags
    assert (description["InstanceType"], description["Placement"]["AvailabilityZone"]) == ("c7i.large", "us-west-2b")
    assert description["InstanceLifecycle"] == "spot"
    assert description["State"]["Name"] == "running"
    age = datetime.now(UTC) - description["LaunchTime"]
    assert timedelta(seconds=600) <= age < timedelta(seconds=700)
    machine = aws.server.world.book.get(instance)
    assert machine is not None
    assert not machine.joins


def test_an_unused_launch_template_has_its_tags_and_its_age(aws: Aws) -> None:
    aws.admin.plant_launch_template("karpenter.k8s.aws/left", {"eks:eks-cluster-name": "sandbox"}, age_seconds=3600)
    (launch_template,) = aws.ec2.describe_launch_templates(LaunchTemplateNames=["karpenter.k8s.aws/left"])[
        "LaunchTemplates"
    ]
    assert launch_template["Tags"] == [{"Key": "eks:eks-cluster-name", "Value": "sandbox"}]
    assert datetime.now(UTC) - launch_template["CreateTime"] >= timedelta(seconds=3600)
    with pytest.raises(ValueError, match="there is a launch template"):
        aws.admin.plant_launch_template("karpenter.k8s.aws/left", {})


def test_the_cheapest_pools_run_dry_in_order_of_price(aws: Aws) -> None:
    types = ["m7g.large", "m7g.xlarge", "c7g.large"]
    emptied = aws.admin.exhaust_cheapest(5, capacity_type="spot", types=types)
    price = {kind: aws.server.world.prices.spot[kind] for kind in types}
    assert [pool["price"] for pool in emptied] == sorted(pool["price"] for pool in emptied)
    cheapest = min(types, key=lambda kind: price[kind])
    assert {pool["type"] for pool in emptied[:3]} == {cheapest}
    offers = [{"InstanceType": pool["type"], "SubnetId": aws.subnets[pool["zone"]]} for pool in emptied]
    answer = aws.fleet(*offers, spot=True)
    assert answer["Instances"] == []
    assert {error["ErrorCode"] for error in answer["Errors"]} == {"InsufficientInstanceCapacity"}
    assert aws.fleet(*offers)["Instances"], "on-demand is another pool"
    again = aws.admin.exhaust_cheapest(1, capacity_type="spot", types=types)
    assert again[0] not in emptied
    aws.admin.clear_capacity()
    assert aws.fleet(*offers, spot=True)["Instances"]


def test_chance_is_drawn_by_its_seed(aws: Aws) -> None:
    def hits(seed: int) -> list[bool]:
        table = FaultTable()
        table.add(Fault("X", "Y", count=None, chance=0.5, seed=seed))
        return [table.next("X", {}) is not None for _ in range(40)]

    assert hits(1) == hits(1)
    assert hits(1) != hits(2)
    assert 5 < sum(hits(1)) < 35
    with pytest.raises(ValueError, match="chance 2"):
        aws.admin.fault("X", "Y", chance=2)


def test_faults_are_cleared_by_their_label(aws: Aws) -> None:
    aws.admin.fault("DescribeSubnets", "Mine", label="mine", count=None)
    aws.admin.fault("DescribeSubnets", "Other", label="other", count=None)
    aws.admin.clear_faults(label="mine")
    with pytest.raises(ClientError, match="Other"):
        aws.ec2.describe_subnets()
    aws.admin.clear_faults(label="other")
    aws.ec2.describe_subnets()


def test_a_boot_rule_may_be_for_a_share_of_the_instances_and_let_them_die() -> None:
    plan = BootPlan(default_delay=8)
    plan.add(BootRule(dies=True, chance=0.5, seed=3))
    drawn = [plan.rule("m7g.large", number).dies for number in range(40)]
    assert drawn == [plan.rule("c7g.large", number).dies for number in range(40)]
    assert 5 < sum(drawn) < 35
    assert plan.due("m7g.large", 100.0, 108.0, drawn.index(True))
