"""Instances bought on the sandbox's EC2."""

from __future__ import annotations

from activities.ec2.provider import Ec2Provider
from tenon.apis.ec2nodeclass import EC2NodeClass
from tests.ec2.samples import node_claim


def bought(provider: Ec2Provider, node_class: EC2NodeClass, name: str) -> str:
    result = provider.launch(provider.prepare_launch(node_claim(name=name), node_class, 1))
    assert result.instance is not None
    return result.instance.id
