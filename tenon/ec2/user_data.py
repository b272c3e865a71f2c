"""User data for every AMI family: the user's own, plus what makes the instance join the cluster."""

from __future__ import annotations

import shlex
from typing import Any

import yaml

from tenon.apis.json_object import field_at
from tenon.ec2 import mime
from tenon.ec2.bootstrap import Bootstrap, kubelet_flags
from tenon.ec2.bottlerocket import settings_text
from tenon.ec2.families import Family
from tenon.errors import TenonError

SIZE_LIMIT = 16384
"""The most bytes of user data that EC2 accepts, before base64."""


WARNED_AT = 0.9
"""The share of that limit from which on there is a warning."""


def size_warning(size: int) -> str:
    """Return a sentence about user data of so many bytes that EC2 will soon refuse; empty if there is room (EC-10)."""
    if size < SIZE_LIMIT * WARNED_AT:
        return ""
    return (
        f"the user data has {size} bytes and EC2 takes at most {SIZE_LIMIT}: shorten userData, because the labels and "
        "taints of a NodePool come on top of it"
    )


class UserDataTooLargeError(TenonError, ValueError):
    """The user data is larger than EC2 accepts."""


class RegistrationTaintsError(TenonError, ValueError):
    """The user's part would take away the taints that a node must register with."""


def render(family: Family, node: Bootstrap) -> str:
    """Return the user data of a node of this family.

    Raises:
        ValueError: the user's part cannot be read (Bottlerocket).
        RegistrationTaintsError: the user's part replaces the taints that a node registers with (AL2023).
        UserDataTooLargeError: the user data is larger than EC2 accepts.
    """
    text = _RENDERERS.get(family.name, _windows)(node)
    if len(text.encode()) > SIZE_LIMIT:
        raise UserDataTooLargeError(
            f"the user data has {len(text.encode())} bytes, but EC2 takes at most {SIZE_LIMIT}: shorten userData"
        )
    return text


def _custom(node: Bootstrap) -> str:
    return node.user_data


def _al2023(node: Bootstrap) -> str:
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
        document = yaml.safe_load(text)
    except yaml.YAMLError:
        return  # nodeadm says what is wrong, on the console of the instance
    flags = field_at(document, "spec", "kubelet", "flags")
    given = flags if isinstance(flags, list) else []
    words = [word.lstrip("-").replace("_", "-") for flag in given for word in str(flag).split()]
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
    return str(yaml.safe_dump(document, sort_keys=True, width=10**6))


def _al2(node: Bootstrap) -> str:
    """The user's documents come first, because cloud-init runs scripts in order."""
    arguments = [
        "--apiserver-endpoint",
        node.cluster.endpoint,
        "--b64-cluster-ca",
        node.cluster.ca_bundle,
        "--use-max-pods",
        "false",
        "--kubelet-extra-args",
        " ".join(kubelet_flags(node)),
    ]
    if node.cluster.ipv6:
        arguments += ["--ip-family", "ipv6"]
    if node.cluster_dns:
        arguments += ["--dns-cluster-ip", node.cluster_dns[0]]
    if node.raid0:
        arguments += ["--local-disks", "raid0"]
    script = "#!/bin/bash -xe\n" + shlex.join(["/etc/eks/bootstrap.sh", node.cluster.name, *arguments])
    own = [(mime.SHELL if kind == mime.NODE_CONFIG else kind, text) for kind, text in mime.parts_of(node.user_data)]
    return mime.join([*own, (mime.SHELL, script)])


def _windows(node: Bootstrap) -> str:
    """The user's script comes first, in the same PowerShell block."""
    arguments = {
        "EKSClusterName": node.cluster.name,
        "APIServerEndpoint": node.cluster.endpoint,
        "Base64ClusterCA": node.cluster.ca_bundle,
        "KubeletExtraArgs": " ".join(kubelet_flags(node)),
    }
    if node.cluster_dns:
        arguments["DNSClusterIP"] = node.cluster_dns[0]
    quoted = " ".join("-{} '{}'".format(name, value.replace("'", "''")) for name, value in arguments.items())
    own = node.user_data.strip().removeprefix("<powershell>").removesuffix("</powershell>").strip()
    call = f'& "$env:ProgramFiles\\Amazon\\EKS\\Start-EKSBootstrap.ps1" {quoted}'
    return "\n".join(["<powershell>", *([own] if own else []), call, "</powershell>"])


_RENDERERS = {"AL2": _al2, "AL2023": _al2023, "Bottlerocket": settings_text, "Custom": _custom}
