"""Amazon Linux 2023: nodeadm reads NodeConfigs, in a MIME archive with the user's documents."""

from __future__ import annotations

from typing import Any

import yaml

from tenon.apis.json_object import field_at
from tenon.ec2.families import mime
from tenon.ec2.families.amis import (
    ACCELERATOR_COUNT,
    GPU_COUNT,
    MACHINE,
    ImageQuery,
    KubernetesVersion,
    with_device,
    without_devices,
)
from tenon.ec2.families.base import GIB, EbsVolume, Family
from tenon.ec2.families.bootstrap import Bootstrap
from tenon.errors import TenonError


class _Dumper(yaml.SafeDumper):
    """Quotes all texts: nodeadm would read some as booleans or numbers that PyYAML does not quote, as y and 7e3."""


_Dumper.add_representer(str, lambda dumper, text: dumper.represent_scalar("tag:yaml.org,2002:str", text, style='"'))


class RegistrationTaintsError(TenonError, ValueError):
    """The user's part would take away the taints that a node must register with."""


def _images(kubernetes: KubernetesVersion, published: str) -> list[ImageQuery]:
    version = f"{kubernetes[0]}.{kubernetes[1]}"

    def path(arch: str, variant: str) -> str:
        machine = MACHINE[arch]
        image = f"amazon-eks-node-al2023-{machine}-{variant}-{version}-{published}"
        root = f"/aws/service/eks/optimized-ami/{version}/amazon-linux-2023/{machine}/{variant}"
        return f"{root}/{'recommended' if published == 'latest' else image}/image_id"

    return [
        ImageQuery(path("amd64", "standard"), without_devices("amd64")),
        ImageQuery(path("arm64", "standard"), without_devices("arm64")),
        ImageQuery(path("amd64", "nvidia"), with_device("amd64", GPU_COUNT)),
        ImageQuery(path("arm64", "nvidia"), with_device("arm64", GPU_COUNT)),
        ImageQuery(path("amd64", "neuron"), with_device("amd64", ACCELERATOR_COUNT)),
    ]


def _user_data(node: Bootstrap) -> str:
    """The user's documents come first, because nodeadm lets later NodeConfigs override earlier ones."""
    own = mime.parts_of(node.user_data)
    for kind, text in own:
        if kind.startswith(mime.NODE_CONFIG):
            _keep_registration_taints(text)
    return mime.join([*own, (mime.NODE_CONFIG, _node_config(node))])


def _keep_registration_taints(text: str) -> None:
    """Refuse a flag with taints: the kubelet applies flags after its configuration, and then takes only the flag's.

    Pods could then run on a node before Tenon has registered it, and plans would not know the taints of the flag.
    """
    try:
        document = mime.first_document(text)
    except yaml.YAMLError:
        return  # nodeadm says what is wrong, on the console of the instance
    flags = field_at(document, "spec", "kubelet", "flags")
    flag_list = flags if isinstance(flags, list) else []
    words = [word.lstrip("-").replace("_", "-") for flag in flag_list for word in str(flag).split()]
    if any(word.partition("=")[0] == "register-with-taints" for word in words):
        raise RegistrationTaintsError(
            "userData has the kubelet flag --register-with-taints, which would replace the taints that a node must "
            "register with, karpenter.sh/unregistered among them: remove the flag, and use the taints of the NodePool"
        )


def _node_config(node: Bootstrap) -> str:
    config: dict[str, Any] = dict(node.kubelet)
    if node.max_pods is not None:
        config["maxPods"] = node.max_pods
    if node.cluster_dns:
        config["clusterDNS"] = node.cluster_dns
    config["registerWithTaints"] = [
        {"key": taint.key, "effect": taint.effect} | ({"value": taint.value} if taint.value else {})
        for taint in node.taints
    ]
    spec: dict[str, Any] = {
        "cluster": {
            "name": node.cluster.name,
            "apiServerEndpoint": node.cluster.endpoint,
            "certificateAuthority": node.cluster.ca_bundle,
            "cidr": node.cluster.service_cidr,
        },
        "kubelet": {"config": config, "flags": [f"--node-labels={node.label_text}"]},
    }
    if node.raid0:
        spec["instance"] = {"localStorage": {"strategy": "RAID0"}}
    document = {"apiVersion": "node.eks.aws/v1alpha1", "kind": "NodeConfig", "spec": spec}
    return str(yaml.dump(document, Dumper=_Dumper, sort_keys=True, width=10**6))


AL2023 = Family(
    name="AL2023",
    os="linux",
    windows_build="",
    images=_images,
    write_user_data=_user_data,
    volumes=(EbsVolume("/dev/xvda", 20 * GIB, root=True),),
    ephemeral_device="/dev/xvda",
    eni_limited_pods=True,
    eni_limited_overhead=True,
    sets_max_pods=True,
    needs_service_range=True,
    unbootable_types=frozenset({"a1"}),
)
