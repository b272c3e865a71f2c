"""Amazon Linux 2: a shell script calls EKS's bootstrap.sh, in a MIME archive with the user's documents."""

from __future__ import annotations

import shlex

from tenon.ec2.families import mime
from tenon.ec2.families.amis import (
    ACCELERATOR_COUNT,
    GPU_COUNT,
    ImageQuery,
    KubernetesVersion,
    UnsupportedAliasError,
    with_device,
    without_devices,
)
from tenon.ec2.families.base import GIB, EbsVolume, Family
from tenon.ec2.families.bootstrap import Bootstrap, kubelet_flags
from tenon.ec2.families.cluster import minor_version

_LAST: KubernetesVersion = (1, 32)


def has_images(kubernetes_version: str) -> bool:
    """True if AWS publishes AL2 images for this Kubernetes version.

    Raises:
        ValueError: the text is not a Kubernetes version.
    """
    return minor_version(kubernetes_version) <= _LAST


def _images(kubernetes: KubernetesVersion, published: str) -> list[ImageQuery]:
    version = f"{kubernetes[0]}.{kubernetes[1]}"
    if kubernetes > _LAST:
        raise UnsupportedAliasError(
            f"there are no AL2 images for Kubernetes {version}: the last are for 1.32, use al2023"
        )
    tail = f"{'recommended' if published == 'latest' else f'amazon-eks-node-{version}-{published}'}/image_id"
    root = f"/aws/service/eks/optimized-ami/{version}"
    gpu = f"{root}/amazon-linux-2-gpu/{tail.replace('eks-node', 'eks-gpu-node')}"
    arm = f"{root}/amazon-linux-2-arm64/{tail.replace('eks-node', 'eks-arm64-node')}"
    return [
        ImageQuery(f"{root}/amazon-linux-2/{tail}", without_devices("amd64")),
        ImageQuery(arm, without_devices("arm64")),
        ImageQuery(gpu, with_device("amd64", GPU_COUNT)),
        ImageQuery(gpu, with_device("amd64", ACCELERATOR_COUNT)),
    ]


def _user_data(node: Bootstrap) -> str:
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


AL2 = Family(
    name="AL2",
    os="linux",
    windows_build="",
    images=_images,
    write_user_data=_user_data,
    volumes=(EbsVolume("/dev/xvda", 20 * GIB, root=True),),
    ephemeral_device="/dev/xvda",
    eni_limited_pods=True,
    eni_limited_overhead=True,
    sets_max_pods=True,
    needs_service_range=False,
    unbootable_types=frozenset(),
)
