"""Asks EKS what nodes must know of their cluster."""

from __future__ import annotations

from activities.ec2.client import Ec2
from activities.ec2.errors import translated
from tenon.ec2.cluster import Cluster


def describe_cluster(clients: Ec2, name: str) -> Cluster:
    """The EKS cluster of that name.

    Raises:
        EC2Error: there is no such cluster, or EKS could not be asked.
    """
    with translated("DescribeCluster"):
        found = clients.eks.describe_cluster(name=name)["cluster"]
    network = found.get("kubernetesNetworkConfig", {})
    return Cluster(
        name=name,
        region=clients.region,
        endpoint=found.get("endpoint", ""),
        ca_bundle=found.get("certificateAuthority", {}).get("data", ""),
        service_cidr=network.get("serviceIpv4Cidr") or network.get("serviceIpv6Cidr") or "",
        kubernetes_version=found.get("version", ""),
    )
