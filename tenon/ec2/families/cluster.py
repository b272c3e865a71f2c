"""What a node needs to know about the cluster that it joins."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Cluster:
    """A Kubernetes cluster, as user data, instance tags and image paths need it."""

    name: str
    region: str
    endpoint: str = ""
    ca_bundle: str = ""
    """The certificate authority, base64."""
    service_cidr: str = ""
    dns_ip: str = ""
    """The address of kube-dns; if empty, it follows from the service range."""
    kubernetes_version: str = ""
    """Major and minor version when it was read, such as ``1.36``."""

    @property
    def ipv6(self) -> bool:
        """Whether nodes and pods have IPv6 addresses. A cluster has one family, and the service range shows which."""
        return ":" in (self.service_cidr or self.dns_ip)


def minor_version(version: str) -> tuple[int, int]:
    """Parse ``1.36``, ``v1.36.3`` or ``1.36+`` into a pair that can be compared.

    Raises:
        ValueError: the text is not a Kubernetes version.
    """
    parts = version.lstrip("v").split(".")
    try:
        return int(parts[0]), int(parts[1].rstrip("+"))
    except (IndexError, ValueError) as error:
        raise ValueError(f"{version!r} is not a Kubernetes version: write it as 1.36") from error
