"""`deploy/aws`: the CloudFormation template and the Terraform module make what Tenon needs in an account."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import boto3
import pytest
from hcl2.api import loads

from tenon.ec2.instances.interruption import NoticeKind, read_notice
from tests.deploy import stack as stacks
from tests.deploy.stack import ACCOUNT
from tests.docs.recipes import written_files
from tests.ec2.interruption_events import HEALTH, INTERRUPTIBLE, REBALANCE, RESERVATION, SPOT, state
from tests.moto_account import moto_account
from tools.cloudformation import NODE_POLICIES, POLICY, PSEUDO_PARAMETERS, RULES, TEMPLATE

if TYPE_CHECKING:
    from types_boto3_iam.type_defs import RoleTypeDef

TERRAFORM = Path("deploy/aws/terraform")
CLUSTER = "orders"
PARTITIONS = {"eu-central-1": "aws", "cn-north-1": "aws-cn", "us-gov-west-1": "aws-us-gov"}
"""A region of each partition in which EKS is."""
ISSUERS = {
    "eu-central-1": "oidc.eks.eu-central-1.amazonaws.com/id/0123456789ABCDEF",
    "cn-north-1": "oidc.eks.cn-north-1.amazonaws.com.cn/id/0123456789ABCDEF",
    "us-gov-west-1": "oidc.eks.us-gov-west-1.amazonaws.com/id/0123456789ABCDEF",
}


def filled(text: str, region: str) -> Any:
    """Return the policy file as AWS gets it for the cluster of these tests in a region."""
    for placeholder, value in stacks.placeholders(CLUSTER, region).items():
        text = text.replace(placeholder, value)
    return json.loads(text)


@dataclass(frozen=True)
class Stack:
    """A stack that moto made, with the OIDC provider that it was made for, and its outputs."""

    region: str
    provider: str
    outputs: dict[str, str]

    @property
    def partition(self) -> str:
        return PARTITIONS[self.region]

    def client(self, service: Any) -> Any:
        """The client of a service. moto sees no region in the address of GovCloud's IAM, so it gets another one."""
        address = f"https://iam.{self.region}.amazonaws.com" if service == "iam" else None
        return boto3.client(service, self.region, endpoint_url=address)


def trusted(role: RoleTypeDef) -> list[dict[str, Any]]:
    """Return the statements of the role's trust policy. boto3 decodes the policy; its types also allow for text."""
    document = cast("dict[str, Any]", role["AssumeRolePolicyDocument"])
    statements: list[dict[str, Any]] = document["Statement"]
    return statements


@pytest.fixture(scope="module")
def template() -> dict[str, Any]:
    return stacks.template()


pytestmark = [
    pytest.mark.integration,
    pytest.mark.filterwarnings("ignore:Tried to parse AWS.*supported by moto:UserWarning"),
]


@pytest.fixture(
    params=[(region, way) for region in PARTITIONS for way in ("pod identity", "IRSA")],
    ids=[f"{region} {way}" for region in PARTITIONS for way in ("pod identity", "IRSA")],
)
def stack(request: pytest.FixtureRequest) -> Iterator[Stack]:
    """The stack, in an account that moto plays."""
    region, way = request.param
    provider = ISSUERS[region] if way == "IRSA" else ""
    with moto_account():
        outputs = stacks.create(boto3.client("cloudformation", region), CLUSTER, region, provider)
        yield Stack(region, provider, outputs)


def test_cfn_lint_finds_nothing_in_the_template() -> None:
    """It knows every resource's schema, which moto does not check."""
    command = [str(Path(sys.executable).with_name("cfn-lint")), str(TEMPLATE)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (result.returncode, result.stdout) == (0, "")


def test_aws164_the_worker_gets_the_policy_of_the_policy_file(stack: Stack) -> None:
    """One policy for the cluster, which fits the size limit, where Karpenter's template has six."""
    assert stacks.worker_policy(stack.client("iam"), CLUSTER) == filled(POLICY.read_text(), stack.region)


def test_only_the_workers_service_account_may_take_its_role(stack: Stack) -> None:
    role = stack.client("iam").get_role(RoleName=f"TenonController-{CLUSTER}")["Role"]
    (statement,) = trusted(role)
    if stack.provider:
        issuer = f"arn:{stack.partition}:iam::{ACCOUNT}:oidc-provider/{stack.provider}"
        assert statement["Principal"] == {"Federated": issuer}
        assert statement["Condition"]["StringEquals"] == {
            f"{stack.provider}:aud": "sts.amazonaws.com",
            f"{stack.provider}:sub": "system:serviceaccount:tenon:tenon",
        }
    else:
        assert statement["Principal"] == {"Service": "pods.eks.amazonaws.com"}
        assert set(statement["Action"]) == {"sts:AssumeRole", "sts:TagSession"}
    assert stack.outputs["ControllerRoleArn"] == role["Arn"]


def test_the_role_that_the_guide_makes_by_hand_is_that_of_the_template(template: dict[str, Any]) -> None:
    guide = Path("deploy/README.md")
    _, with_pod_identity, _ = template["Resources"]["ControllerRole"]["Properties"]["AssumeRolePolicyDocument"][
        "Fn::If"
    ]
    assert written_files(guide, "trust.json") == [with_pod_identity]
    text, defaults = guide.read_text(), template["Parameters"]
    account = (
        f"--namespace {defaults['Namespace']['Default']} --service-account {defaults['ServiceAccount']['Default']}"
    )
    assert f'aws eks create-pod-identity-association --cluster-name "$CLUSTER_NAME" {account}' in text
    for command, name in (
        ("create-policy", "policy-name"),
        ("create-role", "role-name"),
        ("attach-role-policy", "role-name"),
    ):
        assert f'aws iam {command} --{name} "TenonController-$CLUSTER_NAME"' in text


def test_the_node_role_is_the_one_that_the_policy_lets_the_worker_pass(stack: Stack) -> None:
    statements = filled(POLICY.read_text(), stack.region)["Statement"]
    (passing,) = [statement for statement in statements if statement["Action"] == "iam:PassRole"]
    role = stack.client("iam").get_role(RoleName=stack.outputs["NodeRoleName"])["Role"]
    plain, with_path, _ = passing["Resource"]
    assert role["Arn"] == plain
    assert with_path == plain.replace(":role/", ":role/*/")
    service = trusted(role)[0]["Principal"]["Service"]
    assert service == ("ec2.amazonaws.com.cn" if stack.partition == "aws-cn" else "ec2.amazonaws.com")
    assert service in passing["Condition"]["StringEquals"]["iam:PassedToService"]


def test_windows_nodes_get_a_role_whose_access_entry_lets_them_join(template: dict[str, Any]) -> None:
    """A principal has one entry, and with that of Linux nodes Windows' kube-proxy has no rights.

    The entries are read from the template, because moto makes none.
    """
    with moto_account():
        outputs = stacks.create(boto3.client("cloudformation", "eu-central-1"), CLUSTER, "eu-central-1", windows=True)
        role = boto3.client("iam", "eu-central-1").get_role(RoleName=outputs["WindowsNodeRoleName"])["Role"]
    statements = filled(POLICY.read_text(), "eu-central-1")["Statement"]
    (passing,) = [statement for statement in statements if statement["Action"] == "iam:PassRole"]
    assert role["Arn"] in passing["Resource"]
    resources = template["Resources"]
    linux, windows = resources["NodeRole"]["Properties"], resources["WindowsNodeRole"]["Properties"]
    assert {**windows, "RoleName": linux["RoleName"]} == linux, "the same policies"
    entries = {
        resource["Properties"]["PrincipalArn"]["Fn::GetAtt"][0]: resource["Properties"]["Type"]
        for resource in resources.values()
        if resource["Type"] == "AWS::EKS::AccessEntry"
    }
    assert entries == {"NodeRole": "EC2_LINUX", "WindowsNodeRole": "EC2_WINDOWS"}
    assert {
        item["type"]
        for block in terraform()["resource"]
        for kind, names in block.items()
        if "access" in kind
        for item in names.values()
    } == set(entries.values())


def test_without_windows_nodes_their_role_is_not_made(stack: Stack) -> None:
    assert "WindowsNodeRoleName" not in stack.outputs


def test_aws166_the_node_role_has_the_policies_that_a_node_needs(template: dict[str, Any]) -> None:
    """To join, to give pods addresses, to pull images, and for a shell without SSH.

    Read from the template, because moto attaches no policies of AWS.
    """
    attached = template["Resources"]["NodeRole"]["Properties"]["ManagedPolicyArns"]
    assert {item["Fn::Sub"].rpartition("/")[2] for item in attached} == {
        "AmazonEKS_CNI_Policy",
        "AmazonEKSWorkerNodePolicy",
        "AmazonEC2ContainerRegistryPullOnly",
        "AmazonSSMManagedInstanceCore",
    }


def test_every_arn_is_one_of_the_partition(stack: Stack) -> None:
    """Of another partition, AWS refuses the template, or grants nothing."""
    iam = stack.client("iam")
    documents = [stacks.worker_policy(iam, CLUSTER)]
    for name in (f"TenonController-{CLUSTER}", stack.outputs["NodeRoleName"]):
        role = iam.get_role(RoleName=name)["Role"]
        documents += [role["Arn"], role["AssumeRolePolicyDocument"]]
    findall = re.findall(r"\barn:([\w-]+):", json.dumps([*documents, stack.outputs]))
    assert set(findall) == {stack.partition}
    assert "arn:aws:" not in TEMPLATE.read_text()
    assert not any("arn:aws:" in path.read_text() for path in TERRAFORM.glob("*.tf"))


def test_aws165_interruptions_reach_the_queue(stack: Stack) -> None:
    """Five rules, one for each kind of notice."""
    sqs, events = stack.client("sqs"), stack.client("events")
    url = sqs.get_queue_url(QueueName=stack.outputs["InterruptionQueueName"])["QueueUrl"]
    attributes = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
    assert attributes["MessageRetentionPeriod"] == "300"
    rules = events.list_rules()["Rules"]
    assert len(rules) == 5
    patterns = [json.loads(rule["EventPattern"]) for rule in rules]
    document = [rule["pattern"] for rule in json.loads(RULES.read_text()).values()]
    assert sorted(map(json.dumps, patterns)) == sorted(map(json.dumps, document))
    for rule in rules:
        (target,) = events.list_targets_by_rule(Rule=rule["Name"])["Targets"]
        assert target["Arn"] == attributes["QueueArn"]
        assert target["Arn"].startswith(f"arn:{stack.partition}:sqs:{stack.region}:")


def test_aws165_each_kind_of_notice_that_tenon_reads_has_a_rule() -> None:
    """And a rule lets nothing through that Tenon would only delete, so that the queue stays short."""
    patterns = [rule["pattern"] for rule in json.loads(RULES.read_text()).values()]
    states = [state(name) for name in ("stopping", "stopped", "shutting-down", "terminated")]
    for notice in (SPOT, REBALANCE, RESERVATION, INTERRUPTIBLE, HEALTH, *states):
        assert read_notice(json.dumps(notice)).kind is not NoticeKind.NO_OP
        assert sum(matches(pattern, notice) for pattern in patterns) == 1
    issue = {**HEALTH, "detail": {**HEALTH["detail"], "eventTypeCategory": "issue"}}
    for other in (state("pending"), state("running"), issue):
        assert not any(matches(pattern, other) for pattern in patterns)


def matches(pattern: dict[str, Any], event: dict[str, Any]) -> bool:
    """Whether EventBridge's rule with this pattern takes the event. These patterns only list values."""
    return all(
        matches(pattern, event.get(key) or {}) if isinstance(pattern, dict) else event.get(key) in pattern
        for key, pattern in pattern.items()
    )


def test_aws165_the_queue_is_encrypted(template: dict[str, Any]) -> None:
    """Read from the template, because moto keeps no such attribute."""
    assert template["Resources"]["InterruptionQueue"]["Properties"]["SqsManagedSseEnabled"] is True


def test_aws165_only_rules_of_the_account_send_to_the_queue_and_only_by_tls(template: dict[str, Any]) -> None:
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
    assert [len(name) <= 64 for name in names] == [True, True, True]


def terraform() -> dict[str, Any]:
    """Return the module's blocks by kind, as python-hcl2 reads them."""
    blocks: dict[str, Any] = {}
    for path in sorted(TERRAFORM.glob("*.tf")):
        for kind, load in loads(path.read_text()).items():
            blocks.setdefault(kind, []).extend(load)
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
    output = {kind for block in terraform()["resource"] for kind in block}
    attachments = {"aws_iam_role_policy_attachment", "aws_cloudwatch_event_target"}
    assert output - attachments == {kinds[resource["Type"]] for resource in template["Resources"].values()}


def test_terraform_has_the_parameters_of_the_template(template: dict[str, Any]) -> None:
    def snake(name: str) -> str:
        return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()

    variables = {name: block for item in terraform()["variable"] for name, block in item.items()}
    assert variables.keys() == {snake(name) for name in template["Parameters"]}
    for name, parameter in template["Parameters"].items():
        mine = variables[snake(name)]
        assert mine["description"] == parameter["Description"]
        assert str(mine.get("default", "unset")).lower() == parameter.get("Default", "unset")
    outputs = {name: block for item in terraform()["output"] for name, block in item.items()}
    assert {name: block["description"] for name, block in outputs.items()} == {
        snake(name): output["Description"] for name, output in template["Outputs"].items()
    }


def test_terraform_reads_the_policy_and_the_rules_of_the_template() -> None:
    (local,) = terraform()["locals"]
    for name, source in (("policy", POLICY), ("rules", RULES)):
        search = re.search(r"\$\{path\.module\}/([^\"\\]+)", local[name])
        assert search is not None
        assert (TERRAFORM / search[1]).resolve() == source.resolve()
    assert sorted(re.findall(r"Amazon\w+", local["node_policies"])) == sorted(NODE_POLICIES)
    placeholders = {placeholder.strip("${}") for placeholder in PSEUDO_PARAMETERS}
    assert set(re.findall(r"\"([A-Z_]{4,})\":", local["policy"])) == placeholders
