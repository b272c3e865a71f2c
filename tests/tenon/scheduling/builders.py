"""Small catalogues, pools and pods for the tests of scheduling."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tenon.apis import labels
from tenon.kube.pod import Pod
from tenon.kube.requirements import Requirement, Requirements
from tenon.kube.taints import Taint, Toleration
from tenon.resources import parse_resources
from tenon.scheduling.catalog import parse_catalog
from tenon.scheduling.model import InstanceType, Node, Plan, Pool, Problem

ZONES = ("us-west-2a", "us-west-2b", "us-west-2c")
FAMILIES = {"c5": (2, 0.0425), "m5": (4, 0.048), "r5": (8, 0.063), "c6g": (2, 0.034)}
"""Family -> GiB and dollars an hour for each vCPU."""
SIZES = {"large": 2, "xlarge": 4, "2xlarge": 8, "4xlarge": 16, "8xlarge": 32, "16xlarge": 64, "24xlarge": 96}


def entry(
    name: str, cpu: int, gib: float, price: float, *, zones: Iterable[str] = ZONES, arch: str = "amd64", **more: Any
) -> dict[str, Any]:
    """One entry of a catalogue, on demand and on spot at 40 % of the price."""
    family, _, size = name.partition(".")
    requirements = {
        labels.ARCH: [arch],
        labels.OS: ["linux"],
        "karpenter.k8s.aws/instance-family": [family],
        "karpenter.k8s.aws/instance-size": [size],
        "karpenter.k8s.aws/instance-category": [family[0]],
        "karpenter.k8s.aws/instance-cpu": [str(cpu)],
        "karpenter.k8s.aws/instance-gpu-count": [],
        **more.pop("requirements", {}),
    }
    capacity = {"cpu": str(cpu), "memory": f"{gib}Gi", "pods": "58", "ephemeral-storage": "20Gi"}
    return {
        "name": name,
        "requirements": requirements,
        "capacity": capacity | more.pop("capacity", {}),
        "overhead": {"cpu": "100m", "memory": "500Mi"},
        "offerings": [
            {"zone": zone, "capacityType": capacity_type, "price": round(price * factor, 5), **more}
            for zone in zones
            for capacity_type, factor in ((labels.ON_DEMAND, 1.0), (labels.SPOT, 0.4))
        ],
    }


def ordinary_entries() -> list[dict[str, Any]]:
    """Four families in seven sizes, one of them arm64."""
    return [
        entry(f"{family}.{size}", cpu, cpu * gib, cpu * price, arch="arm64" if family == "c6g" else "amd64")
        for family, (gib, price) in FAMILIES.items()
        for size, cpu in SIZES.items()
    ]


CATALOG = parse_catalog({"instanceTypes": ordinary_entries()})


def catalog(*entries: Mapping[str, Any]) -> list[InstanceType]:
    """A catalogue of just these entries."""
    return parse_catalog({"instanceTypes": list(entries)})


def need(key: str, operator: str, *values: str, least: int | None = None) -> Requirement:
    """A requirement, written short."""
    return Requirement.new(key, operator, values, least)


def pod(name: str = "p", cpu: str = "1", memory: str = "1Gi", *alternatives: Requirements, **more: Any) -> Pod:
    """A pod; each alternative is one OR-ed term."""
    requests = parse_resources({"cpu": cpu, "memory": memory, "pods": 1, **more.pop("extra", {})})
    return Pod("default", name, f"uid-{name}", requests, required_terms=alternatives, **more)


def asking(name: str, *requirements: Requirement, **more: Any) -> Pod:
    """A pod of 1 CPU whose only term is these requirements."""
    return pod(name, more.pop("cpu", "1"), "1Gi", Requirements.of(*requirements), **more)


def replicas(count: int, cpu: str = "1", memory: str = "1Gi", prefix: str = "p", **more: Any) -> list[Pod]:
    """Equal pods."""
    return [pod(f"{prefix}-{number}", cpu, memory, **more) for number in range(count)]


def pool(
    name: str = "default", *requirements: Requirement, types: Iterable[InstanceType] = CATALOG, **more: Any
) -> Pool:
    """A NodePool; limits may be quantities."""
    limits = more.pop("limits", None)
    usage = more.pop("usage", {})
    return Pool(
        name,
        Requirements.of(*requirements),
        list(types),
        limits=parse_resources(limits) if limits else None,
        usage=parse_resources(usage),
        **more,
    )


def node(name: str = "n", cpu: str = "4", **more: Any) -> Node:
    """An empty node of 16 GiB in zone a."""
    allocatable = parse_resources({"cpu": cpu, "memory": "16Gi", "pods": 58})
    node_labels = {labels.ARCH: "amd64", labels.OS: "linux", labels.ZONE: ZONES[0], **more.pop("labels", {})}
    return Node(name, node_labels, more.pop("taints", ()), allocatable, more.pop("used", {}), **more)


ON_DEMAND = need(labels.CAPACITY_TYPE, "In", labels.ON_DEMAND)
AMD64 = need(labels.ARCH, "In", "amd64")
DEDICATED = Taint("dedicated", "NoSchedule", "x")
TOLERATES_ALL = (Toleration(operator="Exists"),)


def problem(pods: Iterable[Pod], *pools: Pool, **more: Any) -> Problem:
    """A batch."""
    return Problem(list(pods), list(pools), **more)


def price(plan: Plan) -> float:
    """Dollars an hour for all new nodes."""
    return sum(claim.price for claim in plan.claims)
