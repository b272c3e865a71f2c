"""Generates the CloudFormation template of what Tenon needs in an AWS account.

The template holds the worker's role and policy, the role of the nodes and its access entry, and the queue of
interruptions with its rules. It is made from the files that the Terraform module reads, so that both say the same.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml

TEMPLATE = Path("deploy/aws/cloudformation.yaml")
POLICY = Path("deploy/iam/controller-policy.json")
RULES = Path("deploy/aws/event-rules.json")
HEADER = (
    f"# Made by `make generate` from {POLICY} and {RULES}. Change those, or tools/cloudformation.py, not this file.\n"
)
NODE_POLICIES = (
    "AmazonEKSWorkerNodePolicy",
    "AmazonEKS_CNI_Policy",
    "AmazonEC2ContainerRegistryPullOnly",
    "AmazonSSMManagedInstanceCore",
)
"""AWS's managed policies of a node: joining, addresses of pods, pulling images, and a shell without SSH."""
PSEUDO_PARAMETERS = {
    "${AWS_PARTITION}": "${AWS::Partition}",
    "${AWS_REGION}": "${AWS::Region}",
    "${AWS_ACCOUNT_ID}": "${AWS::AccountId}",
    "${CLUSTER_NAME}": "${ClusterName}",
}
"""What stands in CloudFormation for each placeholder of the policy file."""
_Json = dict[str, Any]


class _Text(str):
    """A string that the template shows as a block of lines."""

    __slots__ = ()


class _Dumper(yaml.SafeDumper):
    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - CloudFormation knows no YAML aliases
        return True


_Dumper.add_representer(_Text, lambda dumper, text: dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|"))


def template_text() -> str:
    """Return the text of the CloudFormation template.

    Raises OSError if the policy or the rules cannot be read, as outside a checkout.
    """
    policy = POLICY.read_text(encoding="utf-8")
    for placeholder, parameter in PSEUDO_PARAMETERS.items():
        policy = policy.replace(placeholder, parameter)
    rules = json.loads(RULES.read_text(encoding="utf-8"))
    return HEADER + yaml.dump(_template(policy, rules), Dumper=_Dumper, sort_keys=False, width=120)


def _template(policy: str, rules: _Json) -> _Json:
    return {
        "AWSTemplateFormatVersion": "2010-09-09",
        "Description": "What Tenon needs for one EKS cluster: roles, access of its nodes, queue of interruptions.",
        "Parameters": _parameters(),
        "Conditions": {
            "UsePodIdentity": {"Fn::Equals": [{"Ref": "OidcProvider"}, ""]},
            "MakeAccessEntry": {"Fn::Equals": [{"Ref": "AccessEntry"}, "true"]},
            "MakeWindowsRole": {"Fn::Equals": [{"Ref": "WindowsNodes"}, "true"]},
            "MakeWindowsAccessEntry": {
                "Fn::And": [{"Condition": "MakeAccessEntry"}, {"Condition": "MakeWindowsRole"}],
            },
        },
        "Resources": {
            **_controller(policy),
            **_nodes(),
            **_queue(),
            **{f"{name}Rule": _rule(rule) for name, rule in rules.items()},
        },
        "Outputs": {
            "ControllerRoleArn": {
                "Description": "With IRSA: the annotation eks.amazonaws.com/role-arn of the ServiceAccount.",
                "Value": {"Fn::GetAtt": ["ControllerRole", "Arn"]},
            },
            "NodeRoleName": {"Description": "spec.role of each EC2NodeClass.", "Value": {"Ref": "NodeRole"}},
            "WindowsNodeRoleName": {
                "Condition": "MakeWindowsRole",
                "Description": "spec.role of each EC2NodeClass of Windows.",
                "Value": {"Ref": "WindowsNodeRole"},
            },
            "InterruptionQueueName": {
                "Description": "settings.interruptionQueue of the Helm chart.",
                "Value": {"Fn::GetAtt": ["InterruptionQueue", "QueueName"]},
            },
        },
    }


def _parameters() -> _Json:
    return {
        "ClusterName": {
            "Type": "String",
            "Description": "Name of the EKS cluster.",
            "AllowedPattern": "[0-9A-Za-z][0-9A-Za-z_-]{0,45}",
            "ConstraintDescription": "a name of up to 46 characters, because the name of a role may have 64",
        },
        "Namespace": {"Type": "String", "Default": "tenon", "Description": "Namespace of the worker."},
        "ServiceAccount": {"Type": "String", "Default": "tenon", "Description": "ServiceAccount of the worker."},
        "OidcProvider": {
            "Type": "String",
            "Default": "",
            "AllowedPattern": "|[^:]+",
            "ConstraintDescription": "the issuer without https://",
            "Description": "For IRSA: the cluster's OIDC issuer, without https://. Empty: EKS Pod Identity.",
        },
        "AccessEntry": {
            "Type": "String",
            "Default": "true",
            "AllowedValues": ["true", "false"],
            "Description": "Nodes join by an EKS access entry. false: you add the role to the ConfigMap aws-auth.",
        },
        "WindowsNodes": {
            "Type": "String",
            "Default": "false",
            "AllowedValues": ["true", "false"],
            "Description": "Make a role for Windows nodes too, because their access entry has a type of its own.",
        },
    }


def _controller(policy: str) -> _Json:
    subject = '"${OidcProvider}:sub": "system:serviceaccount:${Namespace}:${ServiceAccount}"'
    irsa = (
        '{"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "sts:AssumeRoleWithWebIdentity",\n'
        '  "Principal": {"Federated": "arn:${AWS::Partition}:iam::${AWS::AccountId}:oidc-provider/${OidcProvider}"},\n'
        '  "Condition": {"StringEquals": {"${OidcProvider}:aud": "sts.amazonaws.com",\n'
        f"    {subject}" + "}}}]}\n"
    )
    pod_identity = _trust("pods.eks.amazonaws.com", "sts:AssumeRole", "sts:TagSession")
    return {
        "ControllerPolicy": {
            "Type": "AWS::IAM::ManagedPolicy",
            "Properties": {
                "ManagedPolicyName": {"Fn::Sub": "TenonController-${ClusterName}"},
                "PolicyDocument": {"Fn::Sub": _Text(policy)},
                "Roles": [{"Ref": "ControllerRole"}],
            },
        },
        "ControllerRole": {
            "Type": "AWS::IAM::Role",
            "Properties": {
                "RoleName": {"Fn::Sub": "TenonController-${ClusterName}"},
                "AssumeRolePolicyDocument": {"Fn::If": ["UsePodIdentity", pod_identity, {"Fn::Sub": _Text(irsa)}]},
            },
        },
        "ControllerPodIdentity": {
            "Type": "AWS::EKS::PodIdentityAssociation",
            "Condition": "UsePodIdentity",
            "Properties": {
                "ClusterName": {"Ref": "ClusterName"},
                "Namespace": {"Ref": "Namespace"},
                "ServiceAccount": {"Ref": "ServiceAccount"},
                "RoleArn": {"Fn::GetAtt": ["ControllerRole", "Arn"]},
            },
        },
    }


def _nodes() -> _Json:
    return {
        "NodeRole": _node_role("KarpenterNodeRole"),
        "NodeAccessEntry": {"Condition": "MakeAccessEntry", **_access_entry("NodeRole", "EC2_LINUX")},
        "WindowsNodeRole": {"Condition": "MakeWindowsRole", **_node_role("WindowsNodeRole")},
        "WindowsNodeAccessEntry": {
            "Condition": "MakeWindowsAccessEntry",
            **_access_entry("WindowsNodeRole", "EC2_WINDOWS"),
        },
    }


def _node_role(name: str) -> _Json:
    return {
        "Type": "AWS::IAM::Role",
        "Properties": {
            "RoleName": {"Fn::Sub": f"{name}-${{ClusterName}}"},
            "AssumeRolePolicyDocument": _trust({"Fn::Sub": "ec2.${AWS::URLSuffix}"}, "sts:AssumeRole"),
            "ManagedPolicyArns": [
                {"Fn::Sub": f"arn:${{AWS::Partition}}:iam::aws:policy/{policy}"} for policy in NODE_POLICIES
            ],
        },
    }


def _access_entry(role: str, kind: str) -> _Json:
    return {
        "Type": "AWS::EKS::AccessEntry",
        "Properties": {
            "ClusterName": {"Ref": "ClusterName"},
            "PrincipalArn": {"Fn::GetAtt": [role, "Arn"]},
            "Type": kind,
        },
    }


def _queue() -> _Json:
    queue = {"Fn::GetAtt": ["InterruptionQueue", "Arn"]}
    rules = {"Fn::Sub": "arn:${AWS::Partition}:events:${AWS::Region}:${AWS::AccountId}:rule/*"}
    return {
        "InterruptionQueue": {
            "Type": "AWS::SQS::Queue",
            "Properties": {
                "QueueName": {"Ref": "ClusterName"},
                "MessageRetentionPeriod": 300,
                "SqsManagedSseEnabled": True,
            },
        },
        "InterruptionQueuePolicy": {
            "Type": "AWS::SQS::QueuePolicy",
            "Properties": {
                "Queues": [{"Ref": "InterruptionQueue"}],
                "PolicyDocument": {
                    "Version": "2012-10-17",
                    "Statement": [
                        {
                            "Sid": "EventsOfThisAccount",
                            "Effect": "Allow",
                            "Principal": {"Service": "events.amazonaws.com"},
                            "Action": "sqs:SendMessage",
                            "Resource": queue,
                            "Condition": {"ArnLike": {"aws:SourceArn": rules}},
                        },
                        {
                            "Sid": "DenyHTTP",
                            "Effect": "Deny",
                            "Principal": "*",
                            "Action": "sqs:*",
                            "Resource": queue,
                            "Condition": {"Bool": {"aws:SecureTransport": "false"}},
                        },
                    ],
                },
            },
        },
    }


def _rule(rule: _Json) -> _Json:
    target = {"Id": "InterruptionQueue", "Arn": {"Fn::GetAtt": ["InterruptionQueue", "Arn"]}}
    return {
        "Type": "AWS::Events::Rule",
        "Properties": {"Description": rule["description"], "EventPattern": rule["pattern"], "Targets": [target]},
    }


def _trust(service: object, *actions: str) -> _Json:
    """Return a trust policy that lets an AWS service take the role."""
    statement = {"Effect": "Allow", "Principal": {"Service": service}, "Action": list(actions)}
    return {"Version": "2012-10-17", "Statement": [statement]}
