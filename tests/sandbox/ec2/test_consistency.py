"""What was just created is not seen at once."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.exceptions import ClientError

from sandbox.ec2.consistency import Delays
from tests.sandbox.ec2.conftest import TEMPLATE, Aws

pytestmark = pytest.mark.integration

TAG = [{"ResourceType": "instance", "Tags": [{"Key": "team", "Value": "red"}]}]


def found(aws: Aws, **parameters: Any) -> dict[str, dict[str, str]]:
    """The instances that DescribeInstances shows, with their tags."""
    groups = aws.ec2.describe_instances(**parameters)["Reservations"]
    return {
        instance["InstanceId"]: {tag["Key"]: tag["Value"] for tag in instance.get("Tags", [])}
        for group in groups
        for instance in group["Instances"]
    }


def test_a_new_profile_is_unknown_to_launches_for_a_while(aws: Aws) -> None:
    aws.admin.consistency(profile=10.0)
    iam = aws.client("iam")
    iam.create_instance_profile(InstanceProfileName="new")
    iam.add_role_to_instance_profile(InstanceProfileName="new", RoleName="KarpenterNodeRole-sandbox")
    aws.ec2.delete_launch_template(LaunchTemplateName=TEMPLATE)
    aws.template(IamInstanceProfile={"Name": "new"})
    aws.clock.pass_(9.0)
    (error,) = aws.fleet()["Errors"]
    assert error["ErrorCode"] == "InvalidParameterValue"
    assert error["ErrorMessage"].endswith("Invalid IAM Instance Profile name")
    aws.clock.pass_(1.0)
    assert aws.fleet()["Errors"] == []


def test_a_new_instance_is_shown_late_and_its_tags_later(aws: Aws, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Delays, "of_instance", lambda *_: (2.0, 5.0))  # what is drawn depends on the tests before
    aws.admin.consistency(instance=4.0, tags=4.0, chance=1.0, seed=3)
    instance = aws.launch(TagSpecifications=TAG)
    with pytest.raises(ClientError, match=r"InvalidInstanceID\.NotFound"):
        aws.ec2.describe_instances(InstanceIds=[instance])
    assert found(aws) == {}
    names: list[str] = []
    monkeypatch.setattr(aws.server.world.buckets, "enforced", False)
    for _ in range(80):
        aws.clock.pass_(0.1)
        now = found(aws)
        names.append("" if not now else "tagged" if now[instance].get("team") else "bare")
        by_tag = found(aws, Filters=[{"Name": "tag:team", "Values": ["red"]}])
        assert (instance in by_tag) == (names[-1] == "tagged")
    assert list(dict.fromkeys(names)) == ["", "bare", "tagged"]


def test_a_share_of_the_instances_is_late_and_the_seed_says_which(aws: Aws) -> None:
    def late(seed: int) -> list[bool]:
        aws.admin.consistency(instance=4.0, chance=0.5, seed=seed)
        bought = [aws.launch() for _ in range(12)]
        shown = found(aws)
        return [instance not in shown for instance in bought]

    first = late(1)
    assert 0 < sum(first) < 12
    aws.admin.reset()
    aws.template()
    assert late(1) != late(2)


def test_by_default_what_is_new_is_seen_within_two_seconds(aws: Aws) -> None:
    """Also after a reset, and of both ways to launch."""
    aws.admin.consistency(instance=600.0, chance=1.0)
    aws.admin.usual_consistency()
    late = 0
    for _ in range(20):
        bought = [aws.launch(TagSpecifications=TAG)]
        run = aws.ec2.run_instances(
            ImageId=aws.image(), InstanceType="m7g.large", MinCount=1, MaxCount=1, SubnetId=aws.subnets["us-west-2a"]
        )
        bought.append(run["Instances"][0]["InstanceId"])
        late += len(set(bought) - set(found(aws)))
    assert 5 < late < 35
    aws.clock.pass_(2.0)
    shown = found(aws)
    assert len(shown) == 40
    assert sum(tags.get("team") == "red" for tags in shown.values()) == 20
