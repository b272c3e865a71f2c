"""An EC2 that sells instances to the launch step."""

from __future__ import annotations

from collections.abc import Container
from typing import Any

from tenon.apis.ec2nodeclass import EC2NodeClass
from tenon.kube.offerings import OfferingKey
from tenon.messages.launch import Instance, LaunchRequest, LaunchResult
from tenon.scheduling.model import InstanceType
from tests.activities.node.world import Ec2


class Seller(Ec2):
    """Prepares any launch, and sells the one instance. ``unavailable``: what the last request must not contain."""

    unavailable: Container[OfferingKey] = ()

    def instance_types(self, node_class: EC2NodeClass, *_: object, **__: object) -> list[InstanceType]:
        return []

    def prepare_launch(self, *value: Any) -> LaunchRequest:
        self.unavailable = value[3]
        return LaunchRequest(client_token="t", capacity_type="on-demand", templates=[], tags={})

    def launch(self, request: LaunchRequest) -> LaunchResult:
        return LaunchResult(instance=self.describe_instance("i-1"))

    def find_instance(self, claim_name: str) -> Instance | None:
        return self.describe_instance("i-1")


def node_class(**spec: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "default", "uid": "uid-default", "generation": 1},
        "spec": {
            "role": "nodes",
            "amiSelectorTerms": [{"alias": "al2023@latest"}],
            "subnetSelectorTerms": [{"id": "subnet-1"}],
            "securityGroupSelectorTerms": [{"id": "sg-1"}],
            **spec,
        },
        "status": {"instanceProfile": f"profile-of-{spec.get('role', 'nodes')}"},
    }
