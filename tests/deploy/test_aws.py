"""`deploy/aws`: the CloudFormation template and the Terraform module make what Tenon needs in an account."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import boto3
import pytest
from hcl2.api import loads
from moto import mock_aws

from cli.cloudformation import NODE_POLICIES, POLICY, PSEUDO_PARAMETERS, RULES, TEMPLATE
from tests.deploy import stack as stacks
from tests.deploy.stack import ACCOUNT

if TYPE_CHECKING:
    from types_boto3_iam.type_defs import RoleTypeDef

TERRAFORM = Path("deploy/aws/terraform")
CLUSTER, REGION = "orders", "eu-central-1"


def filled(text: str) -> Any:
    """Return the policy file as AWS gets it for the cluster of these tests."""
    for placeholder, value in stacks.placeholders(CLUSTER, REGION).items():
        text = text.replace(placeholder, value)
    return json.loads(text)


def trusted(role: RoleTypeDef) -> list[dict[str, Any]]:
    """Return the statements of the role's trust policy. boto3 decodes the policy; its types also allow for text."""
    document = cast("dict[str, Any]", role["AssumeRolePolicyDocument"])
    statements: list[dict[str, Any]] = document["Statement"]
    return statements


@pytest.fixture(scope="module")
def template() -> dict[str, Any]:
    return stacks.template()


pytestmark = pytest.mark.filterwarnings("ignore:Tried to parse AWS.*supported by moto:UserWarning")


@pytest.fixture(params=["", f"oidc.eks.{REGION}.amazonaws.com/id/0123456789ABCDEF"], ids=["pod identity", "IRSA"])
def stack(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, dict[str, str]]]:
    """The stack's OIDC provider and its outputs, in an account that moto plays."""
    for variable in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(variable, "test")
    with mock_aws():
        yield request.param, stacks.create(boto3.client("cloudformation", REGION), CLUSTER, REGION, request.param)


def test_cfn_lint_finds_nothing_in_the_template() -> None:
    """It knows every resource's schema, which moto does not check."""
    command = [str(Path(sys.executable).with_name("cfn-lint")), str(TEMPLATE)]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (found.returncode, found.stdout) == (0, "")


def test_the_worker_gets_the_policy_of_the_policy_file(stack: tuple[str, dict[str, str]]) -> None:
    assert stacks.worker_policy(boto3.client("iam"), CLUSTER) == filled(POLICY.read_text())


def test_only_the_workers_service_account_may_take_its_role(stack: tuple[str, dict[str, str]]) -> None:
    provider, outputs = stack
    role = boto3.client("iam").get_role(RoleName=f"TenonController-{CLUSTER}")["Role"]
    (statement,) = trusted(role)
    if provider:
        assert statement["Principal"] == {"Federated": f"arn:aws:iam::{ACCOUNT}:oidc-provider/{provider}"}
        assert statement["Condition"]["StringEquals"] == {
            f"{provider}:aud": "sts.amazonaws.com",
            f"{provider}:sub": "system:serviceaccount:tenon:tenon",
        }
    else:
        assert statement["Principal"] == {"Service": "pods.eks.amazonaws.com"}
        assert set(statement["Action"]) == {"sts:AssumeRole", "sts:TagSession"}
    assert outputs["ControllerRoleArn"] == role["Arn"]


def test_the_node_role_is_the_one_that_the_policy_lets_the_worker_pass(stack: tuple[str, dict[str, str]]) -> None:
    (passing,) = [each for each in filled(POLICY.read_text())["Statement"] if each["Action"] == "iam:PassRole"]
    iam = boto3.client("iam")
    role = iam.get_role(RoleName=stack[1]["NodeRoleName"])["Role"]
    plain, with_path = passing["Resource"]
    assert role["Arn"] == plain
    assert with_path == plain.replace(":role/", ":role/*/")
    assert trusted(role)[0]["Principal"] == {"Service": "ec2.amazonaws.com"}


def test_interruptions_reach_the_queue(stack: tuple[str, dict[str, str]]) -> None:
    sqs, events = boto3.client("sqs", REGION), boto3.client("events", REGION)
    url = sqs.get_queue_url(QueueName=stack[1]["InterruptionQueueName"])["QueueUrl"]
    attributes = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
    assert attributes["MessageRetentionPeriod"] == "300"
    rules = events.list_rules()["Rules"]
    patterns = [json.loads(rule["EventPattern"]) for rule in rules]
    wanted = [rule["pattern"] for rule in json.loads(RULES.read_text()).values()]
    assert sorted(map(json.dumps, patterns)) == sorted(map(json.dumps, wanted))
    for rule in rules:
        (target,) = events.list_targets_by_rule(Rule=rule["Name"])["Targets"]
        assert target["Arn"] == attributes["QueueArn"]


def test_only_rules_of_the_account_send_to_the_queue_and_only_by_tls(template: dict[str, Any]) -> None:
    """Read from the template, because moto makes no policies of queues."""
    allow, deny = template["Resources"]["InterruptionQueuePolicy"]["Properties"]["PolicyDocument"]["Statement"]
    assert (allow["Principal"], allow["Action"]) == ({"Service": "events.amazonaws.com"}, "sqs:SendMessage")
    rules = "arn:${AWS::Partition}:events:${AWS::Region}:${AWS::AccountId}:rule/*"
    assert allow["Condition"] == {"ArnLike": {"aws:SourceArn": {"Fn::Sub": rules}}}
    assert (deny["Effect"], deny["Condition"]) == ("Deny", {"Bool": {"aws:SecureTransport": "false"}})


def test_the_names_fit_for_the_longest_cluster_name(template: dict[str, Any]) -> None:
    pattern = template["Parameters"]["ClusterName"]["AllowedPattern"]
    longest = "c" * 46
    assert re.fullmatch(pattern, longest)
    assert not re.fullmatch(pattern, longest + "c")
    names = [
        resource["Properties"]["RoleName"]["Fn::Sub"].replace("${ClusterName}", longest)
        for resource in template["Resources"].values()
        if resource["Type"] == "AWS::IAM::Role"
    ]
    assert [len(name) <= 64 for name in names] == [True, True]


def terraform() -> dict[str, Any]:
    """Return the module's blocks by kind, as python-hcl2 reads them."""
    blocks: dict[str, Any] = {}
    for path in sorted(TERRAFORM.glob("*.tf")):
        for kind, found in loads(path.read_text()).items():
            blocks.setdefault(kind, []).extend(found)
    return blocks


def test_terraform_makes_the_same_kinds_of_resources(template: dict[str, Any]) -> None:
    kinds = {
        "AWS::IAM::ManagedPolicy": "aws_iam_policy",
        "AWS::IAM::Role": "aws_iam_role",
        "AWS::EKS::PodIdentityAssociation": "aws_eks_pod_identity_association",
        "AWS::EKS::AccessEntry": "aws_eks_access_entry",
        "AWS::SQS::Queue": "aws_sqs_queue",
        "AWS::SQS::QueuePolicy": "aws_sqs_queue_policy",
        "AWS::Events::Rule": "aws_cloudwatch_event_rule",
    }
    made = {kind for block in terraform()["resource"] for kind in block}
    attachments = {"aws_iam_role_policy_attachment", "aws_cloudwatch_event_target"}
    assert made - attachments == {kinds[resource["Type"]] for resource in template["Resources"].values()}


def test_terraform_has_the_parameters_of_the_template(template: dict[str, Any]) -> None:
    def snake(name: str) -> str:
        return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()

    variables = {name: block for each in terraform()["variable"] for name, block in each.items()}
    assert variables.keys() == {snake(name) for name in template["Parameters"]}
    for name, parameter in template["Parameters"].items():
        mine = variables[snake(name)]
        assert mine["description"] == parameter["Description"]
        assert str(mine.get("default", "unset")).lower() == parameter.get("Default", "unset")
    outputs = {name: block for each in terraform()["output"] for name, block in each.items()}
    assert {name: block["description"] for name, block in outputs.items()} == {
        snake(name): output["Description"] for name, output in template["Outputs"].items()
    }


def test_terraform_reads_the_policy_and_the_rules_of_the_template() -> None:
    (local,) = terraform()["locals"]
    for name, source in (("policy", POLICY), ("rules", RULES)):
        found = re.search(r"\$\{path\.module\}/([^\"\\]+)", local[name])
        assert found is not None
        assert (TERRAFORM / found[1]).resolve() == source.resolve()
    assert sorted(re.findall(r"Amazon\w+", local["node_policies"])) == sorted(NODE_POLICIES)
    placeholders = {placeholder.strip("${}") for placeholder in PSEUDO_PARAMETERS}
    assert set(re.findall(r"\"([A-Z_]{4,})\":", local["policy"])) == placeholders
