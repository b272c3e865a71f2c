"""What a node needs to know at boot, independent of its AMI family."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from ipaddress import ip_network
from typing import Any

from tenon.apis import labels
from tenon.ec2.families.cluster import Cluster
from tenon.kube.taints import Taint

_KUBELET_DOMAINS = ("kubelet.kubernetes.io", "node.kubernetes.io")
_RESERVED_DOMAINS = ("kubernetes.io", "k8s.io")


@dataclass(frozen=True, slots=True)
class Bootstrap:
    """Everything that the user data of a family may contain."""

    cluster: Cluster
    labels: Mapping[str, str]
    taints: tuple[Taint, ...]
    kubelet: Mapping[str, Any] = field(default_factory=dict)
    """The kubelet settings of the class, as written (camelCase)."""
    max_pods: int | None = None
    raid0: bool = False
    user_data: str = ""
    image_name: str = ""
    """The name of the image that boots; empty if it is not known."""

    @property
    def cluster_dns(self) -> list[str]:
        """The DNS servers for pods: those of the class, or else the cluster's."""
        own = self.kubelet.get("clusterDNS")
        if own:
            return [str(address) for address in own]
        return [address] if (address := dns_address(self.cluster)) else []

    @property
    def label_text(self) -> str:
        """The labels in the form of the kubelet's ``--node-labels``."""
        return ",".join(f"{key}={value}" for key, value in sorted(self.labels.items()))

    @property
    def taint_text(self) -> str:
        """The taints in the form of the kubelet's ``--register-with-taints``."""
        return ",".join(f"{taint.key}={taint.value}:{taint.effect}" for taint in self.taints)


def dns_address(cluster: Cluster) -> str:
    """Return the address of kube-dns: by convention the tenth of the service range; empty if neither is known."""
    if cluster.dns_ip or not cluster.service_cidr:
        return cluster.dns_ip
    return str(ip_network(cluster.service_cidr)[10])


def node_labels(template: Mapping[str, str], capacity_type: str) -> dict[str, str]:
    """Return the labels of the NodeClaim that the node registers with.

    Leave out labels that EC2's cloud provider sets, labels that a kubelet may not set on itself, and Tenon's own
    labels, which would force every batch to use new launch templates.
    """
    labels_ = {key: value for key, value in template.items() if _may_register_with(key)}
    return labels_ | {labels.CAPACITY_TYPE: capacity_type, labels.DO_NOT_SYNC_TAINTS: "true"}


def _may_register_with(key: str) -> bool:
    domain = key.partition("/")[0] if "/" in key else ""
    if domain == labels.TENON_GROUP or (key in labels.WELL_KNOWN and key != labels.NODEPOOL):
        return False
    if any(domain == allowed or domain.endswith(f".{allowed}") for allowed in _KUBELET_DOMAINS):
        return True
    return not any(domain == reserved or domain.endswith(f".{reserved}") for reserved in _RESERVED_DOMAINS)


def node_taints(taints: Iterable[Taint], startup_taints: Iterable[Taint]) -> tuple[Taint, ...]:
    """Return the taints that a node registers with: the pool's taints, startup taints and the unregistered taint."""
    key, effect = labels.UNREGISTERED_TAINT
    taints_by_key = {(taint.key, taint.effect): taint for taint in (*taints, *startup_taints, Taint(key, effect))}
    return tuple(taints_by_key[identity] for identity in sorted(taints_by_key))


def kubelet_flags(node: Bootstrap) -> list[str]:
    """Return the kubelet's command line for families that are configured with flags."""
    settings = node.kubelet
    flags = [f"--node-labels={node.label_text}", f"--register-with-taints={node.taint_text}"]
    if node.max_pods is not None:
        flags.append(f"--max-pods={node.max_pods}")
    flags += [
        f"--{flag}={_pairs(settings[name], sign)}" for name, (flag, sign) in _MAP_FLAGS.items() if settings.get(name)
    ]
    flags += [
        f"--{flag}={str(settings[name]).lower()}"
        for name, flag in _PLAIN_FLAGS.items()
        if settings.get(name) is not None
    ]
    return flags


_MAP_FLAGS = {
    "systemReserved": ("system-reserved", "="),
    "kubeReserved": ("kube-reserved", "="),
    "evictionHard": ("eviction-hard", "<"),
    "evictionSoft": ("eviction-soft", "<"),
    "evictionSoftGracePeriod": ("eviction-soft-grace-period", "="),
}
_PLAIN_FLAGS = {
    "podsPerCore": "pods-per-core",
    "evictionMaxPodGracePeriod": "eviction-max-pod-grace-period",
    "imageGCHighThresholdPercent": "image-gc-high-threshold",
    "imageGCLowThresholdPercent": "image-gc-low-threshold",
    "cpuCFSQuota": "cpu-cfs-quota",
}


def _pairs(values: Mapping[str, Any], sign: str) -> str:
    return ",".join(f"{key}{sign}{values[key]}" for key in sorted(values))
