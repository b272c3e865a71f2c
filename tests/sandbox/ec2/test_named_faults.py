"""The faults by name, as Python and as `tenon sandbox fault`, on an EC2 without a cluster."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError
from typer.testing import CliRunner, Result

from cli.sandbox import app
from sandbox.cluster import Sandbox
from sandbox.errors import SandboxError
from sandbox.faults import catalogue
from sandbox.faults.instances import NO_ACCESS
from sandbox.faults.orphans import KINDS
from sandbox.layout import Layout
from sandbox.status import Addresses, Process, State, Status
from tenon.apis import labels
from tests.sandbox.ec2.conftest import Aws

OWN = {labels.TAG_CLUSTER: "sandbox", labels.TAG_NODECLAIM: "default-abc"}


@pytest.fixture
def sandbox(aws: Aws, tmp_path: Path) -> Sandbox:
    """As if it ran: its EC2 does."""
    addresses = Addresses(kubernetes="k", temporal="t", temporal_ui="u", ec2=aws.server.endpoint)
    Status(state=State.READY, supervisor=Process.of(os.getpid()), addresses=addresses).write(Layout.at(tmp_path).status)
    return Sandbox.attach(tmp_path)


def tenon(sandbox: Sandbox, *arguments: str) -> Any:
    """`tenon sandbox fault ... -o json`."""
    answer = CliRunner().invoke(app, ["fault", *arguments, "--state", str(sandbox.layout.root), "-o", "json"])
    assert answer.exit_code == 0, answer.output
    return json.loads(answer.stdout)


def fails(aws: Aws, calls: int = 1) -> list[str]:
    """The error codes of so many calls, empty for those that succeed."""
    codes = []
    for _ in range(calls):
        try:
            aws.ec2.describe_subnets()
            codes.append("")
        except ClientError as error:
            codes.append(error.response["Error"]["Code"])
    return codes


def test_every_fault_is_listed_with_what_it_does_and_its_options() -> None:
    rows = json.loads(CliRunner().invoke(app, ["fault", "list", "-o", "json"]).stdout)
    result = {row["fault"]: row for row in rows}
    assert set(result) >= {
        *("ec2-throttle", "ec2-errors", "ec2-down", "ec2-lost-answer", "ec2-slow", "no-capacity", "cheapest-exhausted"),
        "spot-role-missing",
        *("instances-never-join", "instances-join-late", "instances-die-booting", "instances-never-ready"),
        *(
            "instance-killed",
            "instance-vanished",
            "instance-impaired",
            "kubelet-silent",
            "temporal-down",
            "api-down",
            "component-frozen",
            "orphans",
        ),
        *("workflow-terminated", "workflow-cancelled", "workflow-reset"),
    }
    assert all(row["about"].endswith(".") for row in rows)
    assert result["orphans"]["options"]["seed"] == 0
    assert result["workflow-reset"]["options"] == {"claim": None, "task": 0}
    table = CliRunner().invoke(app, ["fault", "list"])
    assert "--capacity-type" in table.stdout


def test_an_outage_of_ec2_lasts_until_it_is_cleared(sandbox: Sandbox, aws: Aws) -> None:
    tenon(sandbox, "ec2-down")
    assert fails(aws, 3) == ["ServiceUnavailable"] * 3
    assert tenon(sandbox, "clear", "ec2-down") == {"healed": ["ec2-down"]}
    assert fails(aws) == [""]


def test_errors_by_chance_are_repeatable(sandbox: Sandbox, aws: Aws) -> None:
    def drawn(seed: int) -> list[str]:
        catalogue.apply(sandbox, "ec2-errors", chance=0.5, seed=seed)
        names = fails(aws, 12)
        catalogue.clear(sandbox, "ec2-errors")
        return names

    first = drawn(7)
    assert set(first) == {"", "InternalError"}
    assert drawn(7) == first
    assert drawn(8) != first


def test_a_throttle_of_all_actions_lets_a_burst_pass(sandbox: Sandbox, aws: Aws) -> None:
    tenon(sandbox, "ec2-throttle", "--rate", "0", "--burst", "2")
    assert fails(aws, 3) == ["", "", "RequestLimitExceeded"]
    tenon(sandbox, "clear")
    assert fails(aws) == [""]


def test_a_lost_answer_leaves_what_was_bought(sandbox: Sandbox, aws: Aws) -> None:
    tenon(sandbox, "ec2-lost-answer")
    with pytest.raises(ClientError, match="InternalError"):
        aws.fleet()
    assert len(aws.admin.instances()) == 1


def test_capacity_comes_back_when_it_is_cleared(sandbox: Sandbox, aws: Aws) -> None:
    catalogue.apply(sandbox, "no-capacity", capacity_type="spot")
    assert aws.fleet(spot=True)["Instances"] == []
    assert aws.fleet()["Instances"]
    did = tenon(sandbox, "cheapest-exhausted", "--capacity-type", "on-demand", "--types", "m7g.large")["did"]
    assert [pool["zone"] for pool in did] == ["us-west-2a", "us-west-2b", "us-west-2c"]
    assert aws.fleet()["Instances"] == []
    catalogue.clear(sandbox)
    assert aws.fleet()["Instances"]
    assert aws.fleet(spot=True)["Instances"]


def test_without_the_service_linked_role_no_spot_instance_is_sold(sandbox: Sandbox, aws: Aws) -> None:
    tenon(sandbox, "spot-role-missing")
    refused = aws.fleet(spot=True)
    assert refused["Instances"] == []
    codes = {error["ErrorCode"] for error in refused["Errors"]}
    assert codes == {"AuthFailure.ServiceLinkedRoleCreationNotPermitted"}
    assert aws.fleet()["Instances"]
    tenon(sandbox, "clear", "spot-role-missing")
    assert aws.fleet(spot=True)["Instances"]


@pytest.mark.parametrize(
    ("name", "rule"),
    [
        ("instances-never-join", {"never": True, "console": NO_ACCESS}),
        ("instances-join-late", {"delay": 120.0}),
        ("instances-die-booting", {"dies": True}),
        ("instances-never-ready", {"not_ready": True}),
    ],
)
def test_booting_goes_wrong_for_a_type_until_it_is_cleared(
    sandbox: Sandbox, aws: Aws, name: str, rule: dict[str, Any]
) -> None:
    catalogue.apply(sandbox, name, type="m7g.large")
    result = aws.server.boot.rule("m7g.large")
    assert {key: getattr(result, key) for key in rule} == rule
    assert aws.server.boot.rule("c7g.large") == aws.server.boot.rule("c7g.large", 99)
    assert not any(getattr(aws.server.boot.rule("c7g.large"), key) == value for key, value in rule.items())
    catalogue.clear(sandbox, name)
    assert aws.server.boot.rules() == []


def test_a_lost_instance_is_drawn_by_the_seed_among_the_clusters_own(sandbox: Sandbox, aws: Aws) -> None:
    aws.admin.plant_instance({labels.TAG_CLUSTER: "another"}, age_seconds=60)
    own = [aws.admin.plant_instance(OWN, age_seconds=60) for _ in range(4)]
    did = tenon(sandbox, "instance-vanished", "--seed", "3")["did"][0]
    assert did["instance"] in own
    assert did["claim"] == "default-abc"
    assert did["instance"] not in {instance["id"] for instance in aws.admin.instances()}
    remainder = next(item for item in own if item != did["instance"])
    tenon(sandbox, "instance-killed", "--instance", remainder)
    assert {instance["id"]: instance["state"] for instance in aws.admin.instances()}[remainder] == "shutting-down"
    with pytest.raises(SandboxError, match="cannot be undone"):
        catalogue.clear(sandbox, "instance-killed")
    with pytest.raises(SandboxError, match="has no instance i-0"):
        catalogue.apply(sandbox, "instance-stopped", instance="i-0")


def test_orphans_are_the_same_mix_for_the_same_seed_and_can_be_taken_away(sandbox: Sandbox, aws: Aws) -> None:
    def mix(seed: int) -> list[tuple[str, str]]:
        rows = tenon(sandbox, "orphans", "--count", "15", "--seed", str(seed))["did"]
        kinds = [(row["kind"], row["name"]) for row in rows]
        planted = {instance["id"] for instance in aws.admin.instances()}
        assert {row["id"] for row in rows if row["kind"].endswith("instance")} == planted
        assert tenon(sandbox, "clear", "orphans") == {"healed": ["orphans"]}
        return kinds

    first = mix(1)
    assert mix(1) == first
    assert [kind for kind, _ in mix(2)] != [kind for kind, _ in first]
    assert {kind for kind, _ in first} == set(KINDS)
    assert aws.admin.instances() == []
    names = [
        launch_template["LaunchTemplateName"]
        for launch_template in aws.ec2.describe_launch_templates()["LaunchTemplates"]
    ]
    assert not any("orphan" in name for name in names)


def test_what_cannot_be_made_is_one_sentence(sandbox: Sandbox) -> None:
    def refused(*arguments: str) -> Result:
        answer = CliRunner().invoke(app, ["fault", *arguments, "--state", str(sandbox.layout.root)])
        assert answer.exit_code == 2
        assert answer.stderr.count("\n") == 1
        return answer

    assert "unknown kind dragons" in refused("orphans", "--kinds", "dragons").stderr
    assert "Unknown fault dragons" in refused("clear", "dragons").stderr
    assert "Cannot stop temporal" in refused("temporal-down").stderr
