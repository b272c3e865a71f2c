"""The manifests that users apply: least rights (OPS-08, OPS-09, AWS-160 to AWS-163), confined pods (OPS-06, OPS-12)."""

from __future__ import annotations

import json
import re
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import botocore.session
import pytest
import yaml
from botocore import xform_name

from tenon.apis.ec2nodeclass import EC2NodeClass
from tenon.apis.nodepool import NodePool
from tenon.apis.validation import parse

ROOT = Path(__file__).parents[3]


def manifests(path: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((ROOT / path).read_text()))


def the(path: str, kind: str, name: str = "tenon") -> dict[str, Any]:
    (manifest,) = [m for m in manifests(path) if m["kind"] == kind and m["metadata"]["name"] == name]
    return dict(manifest)


def rights(role: dict[str, Any]) -> set[tuple[str, str]]:
    return {(verb, resource) for rule in role["rules"] for verb in rule["verbs"] for resource in rule["resources"]}


def test_cluster_rights_are_the_least() -> None:
    role = the("deploy/rbac.yaml", "ClusterRole")
    hold = rights(role)
    assert {("create", "pods/binding"), ("create", "pods/eviction"), ("delete", "pods"), ("delete", "nodes")} <= hold
    writes = {(verb, resource) for verb, resource in hold if verb not in ("get", "list", "watch")}
    assert not any(verb in ("create", "deletecollection") and resource == "nodes" for verb, resource in writes)
    assert {resource for verb, resource in writes if verb == "delete"} == {"pods", "nodes", "nodeclaims"}
    assert not any(resource in ("secrets", "configmaps", "nodes/status", "*") for _, resource in hold)
    assert {verb for verb, resource in hold if resource == "leases"} == {"list"}
    assert {verb for verb, resource in writes if resource == "events"} == {"create", "patch"}
    assert "*" not in {verb for verb, _ in hold}


def test_commands_in_the_workers_pod_may_list_events() -> None:
    """`tenon top`, `tenon why` and `tenon node show` read there what Tenon says of nodes and pods."""
    assert ("list", "events") in rights(the("deploy/rbac.yaml", "ClusterRole"))


NAMED = {
    "leases": ["karpenter-leader-election"],
    "secrets": ["tenon-webhook-cert"],
    "customresourcedefinitions": [
        "nodepools.karpenter.sh",
        "nodeclaims.karpenter.sh",
        "ec2nodeclasses.karpenter.k8s.aws",
    ],
}


def test_only_named_leases_secrets_and_definitions_may_be_read_or_written() -> None:
    """Of definitions and the Secret the names are those that the webhook of v1beta1 needs (OPS-05)."""
    for rule in [*the("deploy/rbac.yaml", "Role")["rules"], *the("deploy/rbac.yaml", "ClusterRole")["rules"]]:
        names = NAMED.get(rule["resources"][0])
        assert names is None or rule["verbs"] == ["create"] or rule["resourceNames"] == names


def test_ops08_no_secret_may_be_created_that_would_get_another_accounts_token() -> None:
    """So the one that the worker fills is installed, empty: what is applied again must not empty it."""
    for role in (the("deploy/rbac.yaml", "Role"), the("deploy/rbac.yaml", "ClusterRole")):
        assert {verb for verb, resource in rights(role) if resource == "secrets"} <= {"get", "patch"}
    secret = the("deploy/rbac.yaml", "Secret", "tenon-webhook-cert")
    assert not {"data", "stringData", "type"} & secret.keys()


def test_pods_have_a_restricted_security_context() -> None:
    pod = the("deploy/deployment.yaml", "Deployment")["spec"]["template"]["spec"]
    assert pod["securityContext"]["runAsUser"] == 65532
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    (container,) = pod["containers"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


def test_a_worker_never_runs_on_a_node_it_could_take_away() -> None:
    affinity = the("deploy/deployment.yaml", "Deployment")["spec"]["template"]["spec"]["affinity"]["nodeAffinity"]
    (terms,) = affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert terms == {"matchExpressions": [{"key": "karpenter.sh/nodepool", "operator": "DoesNotExist"}]}


POLICY = (ROOT / "deploy" / "iam" / "controller-policy.json").read_text()
STATEMENTS: list[dict[str, Any]] = json.loads(POLICY)["Statement"]
OPTIONAL_POLICY = (ROOT / "deploy" / "iam" / "commitments-policy.json").read_text()
OPTIONAL_STATEMENTS: list[dict[str, Any]] = json.loads(OPTIONAL_POLICY)["Statement"]
SCORES_POLICY = (ROOT / "deploy" / "iam" / "spot-scores-policy.json").read_text()
SCORES_STATEMENTS: list[dict[str, Any]] = json.loads(SCORES_POLICY)["Statement"]


NEEDED = """
ec2:RunInstances ec2:CreateFleet ec2:CreateLaunchTemplate ec2:CreateTags ec2:TerminateInstances ec2:DeleteLaunchTemplate
ec2:GetConsoleOutput ec2:RebootInstances ec2:StartInstances ec2:StopInstances
ec2:DescribeCapacityReservations ec2:DescribeFleets ec2:DescribeImages ec2:DescribeInstances ec2:DescribeInstanceStatus
ec2:DescribeInstanceTypeOfferings ec2:DescribeInstanceTypes ec2:DescribeLaunchTemplates ec2:DescribePlacementGroups
ec2:DescribeSecurityGroups ec2:DescribeSpotPriceHistory ec2:DescribeSubnets
ssm:GetParameter pricing:GetProducts servicequotas:ListServiceQuotas eks:DescribeCluster
arc-zonal-shift:GetManagedResource
sqs:DeleteMessage sqs:GetQueueUrl sqs:ReceiveMessage
iam:PassRole iam:CreateInstanceProfile iam:TagInstanceProfile iam:AddRoleToInstanceProfile
iam:RemoveRoleFromInstanceProfile iam:DeleteInstanceProfile iam:GetInstanceProfile iam:ListInstanceProfiles
"""


def actions(statement: dict[str, Any]) -> list[str]:
    action = statement["Action"]
    return [action] if isinstance(action, str) else list(action)


def test_aws160_to_aws163_iam_actions_are_exactly_those_needed() -> None:
    statements = {action for statement in STATEMENTS for action in actions(statement)}
    assert statements == set(NEEDED.split())


def test_the_rights_of_commitments_are_in_a_policy_of_their_own() -> None:
    statements = {action for statement in OPTIONAL_STATEMENTS for action in actions(statement)}
    savings_plans = {"savingsplans:DescribeSavingsPlans", "savingsplans:DescribeSavingsPlanRates"}
    assert statements == {"ec2:DescribeReservedInstances", *savings_plans}


def test_the_right_to_read_spot_placement_scores_is_in_a_policy_of_its_own() -> None:
    (statement,) = SCORES_STATEMENTS
    assert actions(statement) == ["ec2:GetSpotPlacementScores"]


CLIENT_CALL = re.compile(r"\.(ec2|ssm|iam|eks|pricing|sqs)\s*\.(\w+)\(\s*(?:\"(\w+)\")?")


def test_aws162_every_call_of_the_code_is_granted() -> None:
    """A call without its right fails on AWS only: nothing but AWS checks rights."""
    calls = set()
    for source in (ROOT / "activities").rglob("*.py"):
        for service, method, paginated in CLIENT_CALL.findall(source.read_text()):
            calls.add((service, paginated if method == "get_paginator" else method))
    assert len(calls) > 20
    session = botocore.session.get_session()
    granted = (*STATEMENTS, *OPTIONAL_STATEMENTS, *SCORES_STATEMENTS)
    statements = {action for statement in granted for action in actions(statement)}
    for service, method in calls:
        (operation,) = [
            name for name in session.get_service_model(service).operation_names if xform_name(name) == method
        ]
        assert f"{service}:{operation}" in statements


@pytest.mark.parametrize("path", ["", "nodes/", "teams/web/"])
def test_aws163_the_node_role_may_have_a_path(path: str) -> None:
    (statement,) = [statement for statement in STATEMENTS if "iam:PassRole" in actions(statement)]
    account = "arn:${AWS_PARTITION}:iam::${AWS_ACCOUNT_ID}"
    patterns = statement["Resource"]
    assert any(
        fnmatchcase(f"{account}:role/{path}KarpenterNodeRole-${{CLUSTER_NAME}}", pattern) for pattern in patterns
    )
    for other in ("KarpenterNodeRole-${CLUSTER_NAME}-admin", f"{path}admin", "admin-KarpenterNodeRole-${CLUSTER_NAME}"):
        assert not any(fnmatchcase(f"{account}:role/{other}", pattern) for pattern in patterns)


@pytest.mark.parametrize("statement", STATEMENTS, ids=lambda statement: str(statement["Sid"]))
def test_iam_writes_are_bound_to_the_cluster(statement: dict[str, Any]) -> None:
    if statement["Sid"] == "LaunchFrom":
        return  # things that a launch only refers to: images, subnets, groups
    reads = all(re.search(r":(Describe|Get|List)", action) for action in actions(statement))
    scope = json.dumps([statement["Resource"], statement.get("Condition", {})])
    assert reads or "${CLUSTER_NAME}" in scope


def test_iam_ends_only_what_a_nodepools_tag_is_on() -> None:
    """Managed node groups and their launch templates bear the cluster's tag too, and Karpenter asks for both."""
    (statement,) = [statement for statement in STATEMENTS if "ec2:TerminateInstances" in actions(statement)]
    assert statement["Condition"]["StringLike"] == {"aws:ResourceTag/karpenter.sh/nodepool": "*"}
    assert statement["Condition"]["StringEquals"] == {"aws:ResourceTag/kubernetes.io/cluster/${CLUSTER_NAME}": "owned"}


def test_iam_policy_fits_the_size_limit_of_a_managed_policy() -> None:
    longest = POLICY.replace("${CLUSTER_NAME}", "c" * 40).replace("${AWS_REGION}", "ap-southeast-2")
    longest = longest.replace("${AWS_PARTITION}", "aws-us-gov").replace("${AWS_ACCOUNT_ID}", "1" * 12)
    assert "${" not in longest
    assert len(re.sub(r"\s", "", longest)) <= 6144


def test_examples_have_no_problems() -> None:
    (pool,), (node_class,) = manifests("examples/nodepool.yaml"), manifests("examples/ec2nodeclass.yaml")
    for model, manifest in ((NodePool, pool), (EC2NodeClass, node_class)):
        parsed, problems = parse(model, manifest)
        assert parsed is not None
        assert problems == []
    assert pool["spec"]["template"]["spec"]["nodeClassRef"]["name"] == node_class["metadata"]["name"]
