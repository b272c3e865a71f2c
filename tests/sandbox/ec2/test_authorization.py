"""The sandbox judges the worker's calls by deploy/iam/controller-policy.json, and refuses them in AWS's words."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from botocore.exceptions import ClientError

from sandbox.ec2.authorization.judge import shipped_policy
from tests.sandbox.ec2.conftest import TEMPLATE, Aws, make_client
from tests.unused_rights import UNUSED

pytestmark = pytest.mark.integration

USER = "arn:aws:sts::123456789012:assumed-role/TenonController-sandbox/worker"
OWN = {"kubernetes.io/cluster/sandbox": "owned", "eks:eks-cluster-name": "sandbox", "karpenter.sh/nodepool": "web"}


def pairs(tags: dict[str, str]) -> list[dict[str, str]]:
    return [{"Key": key, "Value": value} for key, value in tags.items()]


def spec(kind: str, tags: dict[str, str]) -> dict[str, Any]:
    return {"ResourceType": kind, "Tags": pairs(tags)}


def refused(call: Any, **parameters: Any) -> tuple[str, int, str]:
    """The code, the HTTP status and the message of a refused call."""
    with pytest.raises(ClientError) as caught:
        call(**parameters)
    answer = caught.value.response
    return answer["Error"]["Code"], answer["ResponseMetadata"]["HTTPStatusCode"], answer["Error"]["Message"]


def worker_template(aws: Aws, tags: dict[str, str] = OWN, **data: Any) -> None:
    """A launch template that the worker creates, under the name that the fixture's has."""
    aws.ec2.delete_launch_template(LaunchTemplateName=TEMPLATE)
    content = {
        "ImageId": aws.image(),
        "IamInstanceProfile": {"Name": "KarpenterNodeRole-sandbox"},
        "SecurityGroupIds": [aws.group],
        "TagSpecifications": [spec("network-interface", tags)],
        **data,
    }
    aws.worker("ec2").create_launch_template(
        LaunchTemplateName=TEMPLATE, LaunchTemplateData=content, TagSpecifications=[spec("launch-template", OWN)]
    )


def fleet(aws: Aws, *kinds: str, **more: Any) -> Any:
    """A fleet by the worker, with the cluster's tags on resources of these kinds."""
    specification = {"LaunchTemplateName": TEMPLATE, "Version": "$Latest"}
    override = {"InstanceType": "m7g.large", "SubnetId": aws.subnets["us-west-2a"]}
    value = {
        "Type": "instant",
        "LaunchTemplateConfigs": [{"LaunchTemplateSpecification": specification, "Overrides": [override]}],
        "TargetCapacitySpecification": {"TotalTargetCapacity": 1, "DefaultTargetCapacityType": "on-demand"},
        "TagSpecifications": [spec(kind, OWN) for kind in kinds or ("instance", "volume", "fleet")],
    }
    return aws.worker("ec2").create_fleet(**value | more)


def test_the_worker_launches_tags_and_ends_what_has_its_clusters_tags(aws: Aws) -> None:
    worker_template(aws)
    answer = fleet(aws)
    assert answer["Errors"] == []
    (instance,) = answer["Instances"][0]["InstanceIds"]
    worker = aws.worker("ec2")
    worker.create_tags(Resources=[instance], Tags=pairs({"Name": "node", "karpenter.sh/nodeclaim": "web-1"}))
    worker.terminate_instances(InstanceIds=[instance])
    worker.delete_launch_template(LaunchTemplateName=TEMPLATE)
    assert aws.admin.rights()["refused"] == []
    assert {"ec2:RunInstances", "ec2:CreateFleet", "ec2:CreateTags", "iam:PassRole"} <= set(aws.admin.rights()["used"])


@pytest.mark.refuses("ec2:TerminateInstances", "ec2:CreateTags", "ec2:DeleteTags")
def test_ec2_refuses_in_its_own_words(aws: Aws) -> None:
    """The instance has no tags of the cluster; the answer says who, what and where, and has the encoded message."""
    instance = aws.launch()
    worker, arn = aws.worker("ec2"), f"arn:aws:ec2:us-west-2:123456789012:instance/{instance}"
    code, status, message = refused(worker.terminate_instances, InstanceIds=[instance])
    assert (code, status) == ("UnauthorizedOperation", 403)
    text, _, encoded = message.partition(". Encoded authorization failure message: ")
    assert text == (
        f"You are not authorized to perform this operation. User: {USER} is not authorized to perform: "
        f"ec2:TerminateInstances on resource: {arn} because no identity-based policy allows the "
        "ec2:TerminateInstances action"
    )
    assert json.loads(base64.urlsafe_b64decode(encoded))["context"]["resource"] == arn
    aws.ec2.create_tags(Resources=[instance], Tags=pairs(OWN))
    assert refused(worker.create_tags, Resources=[instance], Tags=pairs({"team": "red"}))[0] == code
    assert refused(worker.delete_tags, Resources=[instance], Tags=pairs({"Name": "node"}))[0] == code
    worker.terminate_instances(InstanceIds=[instance])


@pytest.mark.refuses("ec2:CreateTags")
def test_the_worker_names_only_instances_of_nodepools_and_only_for_its_cluster(aws: Aws) -> None:
    """Instances of managed node groups have the cluster's tag too."""
    worker_template(aws)
    (instance,) = fleet(aws)["Instances"][0]["InstanceIds"]
    tag = aws.worker("ec2").create_tags
    tag(Resources=[instance], Tags=pairs({"eks:eks-cluster-name": "sandbox", "Name": "node"}))
    other = pairs({"eks:eks-cluster-name": "another"})
    assert refused(tag, Resources=[instance], Tags=other)[0] == "UnauthorizedOperation"
    aws.ec2.delete_tags(Resources=[instance], Tags=[{"Key": "karpenter.sh/nodepool"}])
    assert refused(tag, Resources=[instance], Tags=pairs({"Name": "node"}))[0] == "UnauthorizedOperation"


def without_tag(*keys: str) -> dict[str, str]:
    return {key: value for key, value in OWN.items() if key not in keys}


@pytest.mark.parametrize("missing", ["kubernetes.io/cluster/sandbox", "eks:eks-cluster-name", "karpenter.sh/nodepool"])
@pytest.mark.refuses("ec2:CreateFleet", "ec2:CreateLaunchTemplate", "ec2:RunInstances", "ec2:CreateTags")
def test_the_worker_creates_nothing_without_the_tags_by_which_it_ends_it(aws: Aws, missing: str) -> None:
    """It could end neither an instance nor a template without a NodePool's tag, and nobody else would."""
    worker_template(aws)
    fewer, code = without_tag(missing), "UnauthorizedOperation"
    tags = [spec("instance", OWN), spec("volume", OWN), spec("fleet", fewer)]
    assert refused(fleet, aws=aws, TagSpecifications=tags)[0] == code
    create = aws.worker("ec2").create_launch_template
    template = {"LaunchTemplateName": "fewer", "LaunchTemplateData": {"ImageId": aws.image()}}
    assert refused(create, **template, TagSpecifications=[spec("launch-template", fewer)])[0] == code
    for kind, other in (("instance", "volume"), ("volume", "instance")):
        tags = [spec(kind, fewer), spec(other, OWN), spec("fleet", OWN)]
        answer = fleet(aws, TagSpecifications=tags)
        assert [error["ErrorCode"] for error in answer["Errors"]] == [code], kind
    worker_template(aws, fewer)
    assert "network-interface/*" in fleet(aws)["Errors"][0]["ErrorMessage"]
    assert aws.admin.instances() == []


@pytest.mark.refuses("ec2:CreateFleet", "ec2:RunInstances")
def test_the_worker_launches_from_no_template_without_a_nodepools_tag(aws: Aws) -> None:
    """As those of managed node groups, which have the cluster's tag."""
    worker_template(aws)
    (template,) = aws.ec2.describe_launch_templates(LaunchTemplateNames=[TEMPLATE])["LaunchTemplates"]
    aws.ec2.delete_tags(Resources=[template["LaunchTemplateId"]], Tags=[{"Key": "karpenter.sh/nodepool"}])
    assert refused(fleet, aws=aws)[0] == "UnauthorizedOperation"


CLUSTER_ARN = "arn:aws:eks:us-west-2:123456789012:cluster/sandbox"


@pytest.mark.refuses("arc-zonal-shift:GetManagedResource")
def test_arc_names_a_cluster_by_a_condition_key_only(aws: Aws) -> None:
    """ARC has no resource type for EKS clusters, so AWS grants nothing by a statement with the cluster's ARN."""
    arc = aws.worker("arc-zonal-shift")
    assert arc.get_managed_resource(resourceIdentifier=CLUSTER_ARN)["zonalShifts"] == []
    code, _, message = refused(arc.get_managed_resource, resourceIdentifier=f"{CLUSTER_ARN}-two")
    assert code == "AccessDeniedException"
    assert "arc-zonal-shift:GetManagedResource" in message
    by_arn = {"Effect": "Allow", "Action": "arc-zonal-shift:GetManagedResource", "Resource": CLUSTER_ARN}
    aws.admin.policy({"Version": "2012-10-17", "Statement": [by_arn]})
    assert refused(arc.get_managed_resource, resourceIdentifier=CLUSTER_ARN)[0] == "AccessDeniedException"


def test_what_does_not_exist_has_no_tags_and_is_refused(aws: Aws) -> None:
    """As EC2 does: aws/karpenter-provider-aws, issue 2100 and pull request 2253. No right could help, so the refusals
    count as expected.
    """
    worker = aws.worker("ec2")
    assert refused(worker.terminate_instances, InstanceIds=["i-0123456789abcdef0"])[0] == "UnauthorizedOperation"
    assert refused(worker.delete_launch_template, LaunchTemplateId="lt-0123456789abcdef0")[0] == "UnauthorizedOperation"
    code, _, _ = refused(worker.delete_launch_template, LaunchTemplateName="gone")
    assert code == "InvalidLaunchTemplateName.NotFoundException", "without an ID there is no ARN to judge"


@pytest.mark.refuses("ec2:CreateFleet", "ec2:CreateLaunchTemplate")
def test_a_fleet_or_template_without_the_clusters_tags_fails_the_call(aws: Aws) -> None:
    worker_template(aws)
    code, status, message = refused(fleet, aws=aws, TagSpecifications=[])
    assert (code, status) == ("UnauthorizedOperation", 403)
    assert "ec2:CreateFleet on resource: arn:aws:ec2:us-west-2:123456789012:fleet/*" in message
    create = aws.worker("ec2").create_launch_template
    assert refused(create, LaunchTemplateName="bare", LaunchTemplateData={"ImageId": "ami-1"})[0] == code


@pytest.mark.parametrize(
    ("kinds", "resource"),
    [
        (("volume", "fleet"), "arn:aws:ec2:us-west-2:123456789012:instance/*"),
        (("instance", "fleet"), "arn:aws:ec2:us-west-2:123456789012:volume/*"),
    ],
)
@pytest.mark.refuses("ec2:RunInstances")
def test_a_launch_that_the_policy_refuses_is_an_error_of_the_override(
    aws: Aws, kinds: tuple[str, ...], resource: str
) -> None:
    """The fleet itself is created: aws/karpenter-provider-aws, issue 7370."""
    worker_template(aws)
    answer = fleet(aws, *kinds)
    assert answer["Instances"] == []
    (error,) = answer["Errors"]
    assert error["ErrorCode"] == "UnauthorizedOperation"
    assert f"ec2:RunInstances on resource: {resource}" in error["ErrorMessage"]
    assert aws.admin.instances() == []


@pytest.mark.parametrize(
    ("resource", "condition", "refused_overrides"),
    [
        (
            "instance/*",
            {"StringEquals": {"ec2:InstanceType": "m7g.xlarge"}},
            {("m7g.xlarge", "a"), ("m7g.xlarge", "b")},
        ),
        ("subnet/{b}", {}, {("m7g.large", "b"), ("m7g.xlarge", "b"), ("m7g.2xlarge", "b")}),
    ],
)
@pytest.mark.refuses("ec2:RunInstances")
def test_each_override_of_a_fleet_is_judged_by_its_type_and_its_subnet(
    aws: Aws, resource: str, condition: dict[str, Any], refused_overrides: set[tuple[str, str]]
) -> None:
    worker_template(aws)
    subnets = {letter: aws.subnets[f"us-west-2{letter}"] for letter in "ab"}
    arn = f"arn:aws:ec2:*:*:{resource.format(**subnets)}"
    everything = {"Effect": "Allow", "Action": "*", "Resource": "*"}
    denial = {"Effect": "Deny", "Action": "ec2:RunInstances", "Resource": arn, "Condition": condition}
    aws.admin.policy({"Statement": [everything, denial]})
    overrides = [
        {"InstanceType": kind, "SubnetId": subnet}
        for kind in ("m7g.large", "m7g.xlarge", "m7g.2xlarge")
        for subnet in subnets.values()
    ]
    specification = {"LaunchTemplateName": TEMPLATE, "Version": "$Latest"}
    configuration = {"LaunchTemplateSpecification": specification, "Overrides": overrides}
    answer = fleet(aws, LaunchTemplateConfigs=[configuration])
    errors = [error["LaunchTemplateAndOverrides"]["Overrides"] for error in answer["Errors"]]
    letters = {subnet: letter for letter, subnet in subnets.items()}
    assert {(error["InstanceType"], letters[error["SubnetId"]]) for error in errors} == refused_overrides
    assert len(answer["Instances"]) == 1


@pytest.mark.refuses("ec2:RunInstances", "ec2:CreateFleet", "iam:PassRole")
def test_templates_interfaces_and_roles_are_judged_too(aws: Aws) -> None:
    assert refused(fleet, aws=aws)[0] == "UnauthorizedOperation", "the template of somebody else"
    worker_template(aws, {"team": "red"})
    assert "network-interface/*" in fleet(aws)["Errors"][0]["ErrorMessage"]
    iam = aws.client("iam")
    iam.create_role(RoleName="admin", AssumeRolePolicyDocument="{}")
    iam.create_instance_profile(InstanceProfileName="admin")
    iam.add_role_to_instance_profile(InstanceProfileName="admin", RoleName="admin")
    worker_template(aws, IamInstanceProfile={"Name": "admin"})
    assert "iam:PassRole on resource: arn:aws:iam::123456789012:role/admin" in fleet(aws)["Errors"][0]["ErrorMessage"]


@pytest.mark.refuses("ec2:RunInstances")
def test_a_spot_request_needs_its_tags(aws: Aws) -> None:
    worker_template(aws)
    spot = {"TotalTargetCapacity": 1, "DefaultTargetCapacityType": "spot"}
    assert "spot-instances-request/*" in fleet(aws, TargetCapacitySpecification=spot)["Errors"][0]["ErrorMessage"]
    specs = [spec("network-interface", OWN), spec("spot-instances-request", OWN)]
    worker_template(aws, TagSpecifications=specs)
    assert fleet(aws, TargetCapacitySpecification=spot)["Errors"] == []


@pytest.mark.refuses("iam:CreateInstanceProfile", "iam:PassRole", "iam:DeleteInstanceProfile")
def test_iam_refuses_with_access_denied(aws: Aws) -> None:
    iam, path = aws.worker("iam"), "/karpenter/us-west-2/sandbox/uid/"
    code, status, message = refused(iam.create_instance_profile, InstanceProfileName="p", Path=path)
    assert (code, status) == ("AccessDenied", 403)
    assert message == (
        f"User: {USER} is not authorized to perform: iam:CreateInstanceProfile on resource: "
        f"arn:aws:iam::123456789012:instance-profile{path}p because no identity-based policy allows the "
        "iam:CreateInstanceProfile action"
    )
    iam.create_instance_profile(InstanceProfileName="p", Path=path, Tags=pairs(OWN))
    iam.add_role_to_instance_profile(InstanceProfileName="p", RoleName="KarpenterNodeRole-sandbox")
    aws.client("iam").create_role(RoleName="other", AssumeRolePolicyDocument="{}")
    assert refused(iam.add_role_to_instance_profile, InstanceProfileName="p", RoleName="other")[0] == "AccessDenied"
    assert refused(iam.delete_instance_profile, InstanceProfileName="KarpenterNodeRole-sandbox")[0] == "AccessDenied"


@pytest.mark.refuses("ssm:GetParameters", "ssm:GetParameter", "eks:DescribeCluster", "eks:ListClusters")
def test_json_services_refuse_with_access_denied_exception(aws: Aws) -> None:
    ssm, eks = aws.worker("ssm"), aws.worker("eks")
    code, status, message = refused(ssm.get_parameter, Name="/mine")
    assert (code, status) == ("AccessDeniedException", 400)
    assert "ssm:GetParameter on resource: arn:aws:ssm:us-west-2:123456789012:parameter/mine" in message
    assert refused(ssm.get_parameters, Names=["/aws/service/x"])[0] == code, "another right than GetParameter"
    assert refused(ssm.get_parameter, Name="/aws/service/x")[0] == "ParameterNotFound"
    assert refused(eks.describe_cluster, name="other")[:2] == (code, 403)
    assert eks.describe_cluster(name="sandbox")["cluster"]["name"] == "sandbox"


@pytest.mark.refuses("sqs:ReceiveMessage", "sqs:DeleteMessage")
def test_sqs_refuses_with_access_denied(aws: Aws) -> None:
    url = aws.client("sqs").create_queue(QueueName="other")["QueueUrl"]
    code, status, message = refused(aws.worker("sqs").receive_message, QueueUrl=url)
    assert (code, status) == ("AccessDenied", 403)
    assert "sqs:receivemessage on resource: arn:aws:sqs:us-west-2:123456789012:other" in message
    entries = [{"Id": "1", "ReceiptHandle": "r"}]
    assert refused(aws.worker("sqs").delete_message_batch, QueueUrl=url, Entries=entries)[0] == code


@pytest.mark.refuses("ec2:DescribeInstances")
def test_another_region_is_refused(aws: Aws) -> None:
    other = make_client(aws.server.endpoint, "ec2", "eu-west-1", "sandbox-worker.sandbox")
    assert refused(other.describe_instances)[0] == "UnauthorizedOperation"


@pytest.mark.refuses("ec2:CreateVpc")
def test_a_call_without_a_description_needs_its_own_action(aws: Aws) -> None:
    assert refused(aws.worker("ec2").create_vpc, CidrBlock="10.9.0.0/16")[0] == "UnauthorizedOperation"


def test_an_unknown_access_key_has_no_identity(aws: Aws) -> None:
    def client(service: str) -> Any:
        return make_client(aws.server.endpoint, service, "us-west-2", "stranger")

    assert refused(client("ec2").describe_instances)[:2] == ("AuthFailure", 401)
    assert refused(client("iam").list_instance_profiles)[0] == "InvalidClientTokenId"
    assert refused(client("ssm").get_parameters, Names=["a"])[0] == "UnrecognizedClientException"


def test_an_administrator_replaces_a_policy_and_an_explicit_deny_is_named(aws: Aws) -> None:
    """Refusals under a replaced policy count as expected, so this test needs no marker."""
    deny = {"Effect": "Deny", "Action": "ec2:Describe*", "Resource": "*"}
    allow = {"Effect": "Allow", "Action": "*", "Resource": "*"}
    aws.admin.policy({"Version": "2012-10-17", "Statement": [allow, deny]})
    _, _, message = refused(aws.worker("ec2").describe_instances)
    assert "ec2:DescribeInstances on resource: * with an explicit deny in an identity-based policy" in message
    aws.admin.policy(None)
    aws.worker("ec2").describe_instances()
    with pytest.raises(ValueError, match="IpAddress"):
        aws.admin.policy({"Statement": [{**allow, "Condition": {"IpAddress": {"aws:SourceIp": "::1"}}}]})


def test_rights_can_be_turned_off_until_the_reset(aws: Aws) -> None:
    aws.admin.enforce_rights(False)
    aws.worker("ec2").create_vpc(CidrBlock="10.9.0.0/16")
    aws.admin.reset()
    assert aws.admin.rights()["enforced"] is True


def test_every_unused_right_that_is_named_is_granted() -> None:
    assert set(UNUSED) <= shipped_policy("sandbox", "us-west-2").granted
