"""Instance types as EC2 describes them, with the figures they must lead to, and the objects that tests launch with."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from tenon.apis.ec2nodeclass import EC2NodeClass
from tenon.apis.nodeclaim import NodeClaim
from tenon.ec2.families.cluster import Cluster
from tenon.ec2.types.capacity import NodeSettings
from tenon.ec2.types.instance_types import Prices, build
from tenon.scheduling.model import InstanceType

CLUSTER = Cluster(
    name="test", region="us-west-2", endpoint="https://api.test", ca_bundle="Q0E=", service_cidr="10.100.0.0/16"
)
ZONES = {"us-west-2a": "usw2-az2", "us-west-2b": "usw2-az1"}
AMD, ARM, GPU = "ami-0000000000000000a", "ami-0000000000000000b", "ami-0000000000000000c"


@cache
def rows() -> dict[str, dict[str, Any]]:
    """By type name: ``item`` (EC2's description), ``requirements``, ``capacity`` and ``overhead`` (expected)."""
    listed = json.loads((Path(__file__).parent / "data" / "types.json").read_text())
    return {row["item"]["InstanceType"]: row for row in listed}


def item(name: str) -> dict[str, Any]:
    return dict(rows()[name]["item"])


def instance_type(
    name: str, on_demand: float = 1.0, spot: dict[str, float] | None = None, settings: NodeSettings | None = None
) -> InstanceType:
    """A type sold in two zones; ``spot`` prices by zone, none unless given."""
    prices = Prices(
        on_demand={name: on_demand},
        spot={(name, zone): price for zone, price in (spot or {}).items()} or {("none", "none"): 1.0},
    )
    built = build(item(name), "us-west-2", settings or NodeSettings(), ZONES, prices)
    assert built is not None
    return built


def node_class(status: dict[str, Any] | None = None, **spec: Any) -> EC2NodeClass:
    """A class that is resolved; keyword arguments are fields of its spec under their Kubernetes names."""

    def ami(image_id: str, arch: str, gpu: str) -> dict[str, Any]:
        terms = [
            {"key": "kubernetes.io/arch", "operator": "In", "values": [arch]},
            {"key": "karpenter.k8s.aws/instance-gpu-count", "operator": gpu},
        ]
        return {"id": image_id, "requirements": terms}

    resolved = {
        "subnets": [
            {"id": "subnet-a1", "zone": "us-west-2a", "zoneID": "usw2-az2"},
            {"id": "subnet-a2", "zone": "us-west-2a", "zoneID": "usw2-az2"},
            {"id": "subnet-b1", "zone": "us-west-2b", "zoneID": "usw2-az1"},
        ],
        "securityGroups": [{"id": "sg-1"}, {"id": "sg-2"}],
        "amis": [
            ami(AMD, "amd64", "DoesNotExist"),
            ami(ARM, "arm64", "DoesNotExist"),
            ami(GPU, "amd64", "Exists"),
        ],
        "instanceProfile": "profile",
        "conditions": [],
    }
    return EC2NodeClass.model_validate(
        {
            "metadata": {"name": "default", "uid": "class-uid", "generation": 3},
            "spec": {
                "role": "Role",
                "subnetSelectorTerms": [{"tags": {"karpenter.sh/discovery": "sandbox"}}],
                "securityGroupSelectorTerms": [{"tags": {"karpenter.sh/discovery": "sandbox"}}],
                "amiSelectorTerms": [{"alias": "al2023@latest"}],
                **spec,
            },
            "status": resolved | (status or {}),
        }
    )


def node_claim(
    *terms: tuple[str, str, list[str]], requests: dict[str, str] | None = None, name: str = "default-1", **spec: Any
) -> NodeClaim:
    """A claim of pool ``default``; terms are (key, operator, values)."""
    return NodeClaim.model_validate(
        {
            "metadata": {
                "name": name,
                "uid": f"uid-of-{name}",
                "labels": {"karpenter.sh/nodepool": "default", "tenon.sh/batch": "7", "team": "blue"},
            },
            "spec": {
                "requirements": [{"key": key, "operator": op, "values": values} for key, op, values in terms],
                "resources": {"requests": requests or {"cpu": "1", "memory": "1Gi", "pods": "5"}},
                "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
                **spec,
            },
        }
    )
