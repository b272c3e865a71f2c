"""The CloudFormation template of `deploy/aws`, applied to an account that moto plays."""

from __future__ import annotations

import copy
import json
from typing import Any

import yaml
from moto.utilities.utils import get_partition

from tools.cloudformation import PSEUDO_PARAMETERS, TEMPLATE

ACCOUNT = "123456789012"


def template() -> dict[str, Any]:
    """The template as users apply it."""
    read: dict[str, Any] = yaml.safe_load(TEMPLATE.read_text())
    return read


def placeholders(cluster: str, region: str) -> dict[str, str]:
    """What stands for each placeholder of the policy file in a cluster's stack."""
    return {
        "${AWS_PARTITION}": get_partition(region),
        "${AWS_REGION}": region,
        "${AWS_ACCOUNT_ID}": ACCOUNT,
        "${CLUSTER_NAME}": cluster,
    }


def create(
    cloudformation: Any, cluster: str, region: str, oidc_provider: str = "", *, windows: bool = False
) -> dict[str, str]:
    """Create the stack of a cluster, and return its outputs."""
    cloudformation.create_stack(
        StackName="tenon",
        TemplateBody=_as_moto_reads(template(), placeholders(cluster, region)),
        Parameters=[
            {"ParameterKey": "ClusterName", "ParameterValue": cluster},
            {"ParameterKey": "OidcProvider", "ParameterValue": oidc_provider},
            {"ParameterKey": "WindowsNodes", "ParameterValue": str(windows).lower()},
        ],
        Capabilities=["CAPABILITY_NAMED_IAM"],
    )
    (stack,) = cloudformation.describe_stacks(StackName="tenon")["Stacks"]
    return {output["OutputKey"]: output["OutputValue"] for output in stack["Outputs"]}


def worker_policy(iam: Any, cluster: str) -> dict[str, Any]:
    """The policy that the stack attached to the worker's role."""
    (attached,) = iam.list_attached_role_policies(RoleName=f"TenonController-{cluster}")["AttachedPolicies"]
    version = iam.get_policy_version(PolicyArn=attached["PolicyArn"], VersionId="v1")["PolicyVersion"]
    document: dict[str, Any] = version["Document"]
    return document


def _as_moto_reads(read: dict[str, Any], values: dict[str, str]) -> str:
    """Return the template as JSON, with the worker's policy as an object and the partition filled in.

    CloudFormation takes a policy as JSON text: only then can the key of a condition hold the cluster's name.
    moto 5.2 takes an object only. It also thinks that every region is in the partition aws.
    """
    changed = copy.deepcopy(read)
    properties = changed["Resources"]["ControllerPolicy"]["Properties"]
    text = properties["PolicyDocument"]["Fn::Sub"]
    for placeholder, parameter in PSEUDO_PARAMETERS.items():
        text = text.replace(parameter, values[placeholder])
    properties["PolicyDocument"] = json.loads(text)
    partition = values["${AWS_PARTITION}"]
    suffix = "amazonaws.com.cn" if partition == "aws-cn" else "amazonaws.com"
    filled = json.dumps(changed)
    return filled.replace("${AWS::Partition}", partition).replace("${AWS::URLSuffix}", suffix)
