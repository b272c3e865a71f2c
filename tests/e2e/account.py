"""The sandbox's AWS account as its administrator sees it."""

from __future__ import annotations

import base64
from typing import Any

from sandbox.cluster import Sandbox


def aws(sandbox: Sandbox, service: str) -> Any:
    """The administrator's client of a service."""
    return sandbox.aws(service)


def user_data(sandbox: Sandbox, instance: str) -> str:
    """What an instance was told to run at its start."""
    attribute = aws(sandbox, "ec2").describe_instance_attribute(InstanceId=instance, Attribute="userData")
    return base64.b64decode(attribute["UserData"]["Value"]).decode()


def instance_profiles(sandbox: Sandbox) -> set[str]:
    """The names of the account's instance profiles."""
    instance_profiles = aws(sandbox, "iam").list_instance_profiles()["InstanceProfiles"]
    return {item["InstanceProfileName"] for item in instance_profiles}


def launch_templates(sandbox: Sandbox, node_class: str) -> list[str]:
    """The names of the launch templates of an EC2NodeClass."""
    of_class = [{"Name": "tag:karpenter.k8s.aws/ec2nodeclass", "Values": [node_class]}]
    launch_templates = aws(sandbox, "ec2").describe_launch_templates(Filters=of_class)["LaunchTemplates"]
    return [item["LaunchTemplateName"] for item in launch_templates]
