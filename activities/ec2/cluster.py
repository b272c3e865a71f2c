"""The cluster properties that nodes need, from the operator's settings or from EKS."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from activities import loggers
from activities.ec2.client import Ec2
from activities.ec2.errors import EC2Error, ThrottledError, translated
from tenon.ec2.families.cluster import Cluster

log = loggers.CLUSTER


def describe_cluster(
    clients: Ec2, name: str, *, endpoint: str = "", ca_bundle: str = "", server_version: str = "", dns_ip: str = ""
) -> Cluster:
    """Describe the cluster of this name.

    Args:
        clients: the AWS clients.
        name: the name of the EKS cluster.
        endpoint: CLUSTER_ENDPOINT; if empty, the value from EKS.
        ca_bundle: CLUSTER_CA_BUNDLE; if empty, the value from EKS.
        server_version: the Kubernetes version that the API server reports; if empty, the value from EKS.
        dns_ip: the address of the Service kube-dns; empty if it is not known.

    Raises:
        EC2Error: EKS has no such cluster or cannot be reached, and the arguments do not state everything; or EKS
            throttles the call.
    """
    description: dict[str, Any] = {}
    try:
        description = _describe(clients, name)
    except ThrottledError:
        raise
    except EC2Error as error:
        if not (endpoint and ca_bundle and server_version):
            raise
        log.warning(
            "The worker failed to describe the EKS cluster: nodes use the settings, and AL2023 nodes cannot "
            "launch until EKS reports the service CIDR",
            extra={"cluster": name, "error": str(error)},
        )
    return Cluster(
        name=name,
        region=clients.region,
        endpoint=endpoint or description.get("endpoint", ""),
        ca_bundle=ca_bundle or description.get("certificateAuthority", {}).get("data", ""),
        service_cidr=_service_range(description),
        dns_ip=dns_ip,
        kubernetes_version=server_version or description.get("version", ""),
    )


def service_range(clients: Ec2, name: str) -> str:
    """The cluster's range of service addresses; empty if EKS knows none.

    Raises:
        EC2Error: EKS has no such cluster, refuses the call, or cannot be reached.
    """
    return _service_range(_describe(clients, name))


def arn_of(clients: Ec2, name: str) -> str:
    """The ARN of the cluster.

    Raises:
        EC2Error: EKS has no such cluster, refuses the call, or cannot be reached.
    """
    return str(_describe(clients, name).get("arn", ""))


def version_by_eks(clients: Ec2, name: str) -> str:
    """The cluster's Kubernetes version as EKS reports it.

    Raises:
        EC2Error: EKS has no such cluster or cannot be reached.
    """
    return str(_describe(clients, name).get("version", ""))


def _service_range(description: Mapping[str, Any]) -> str:
    network = description.get("kubernetesNetworkConfig", {})
    return network.get("serviceIpv4Cidr") or network.get("serviceIpv6Cidr") or ""


def _describe(clients: Ec2, name: str) -> dict[str, Any]:
    with translated("DescribeCluster"):
        return dict(clients.eks.describe_cluster(name=name)["cluster"])
