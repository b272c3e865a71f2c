"""The sandbox's machine images: fictitious EKS images of AL2023, Bottlerocket and AL2, and the SSM parameters that
name them.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

KUBERNETES = "1.37"
"""The version of the cluster and of its images."""
EKS_OWNER = "602401143452"
BOTTLEROCKET_OWNER = "092701018921"
AL2023_RELEASES = (("v20261001", "2026-10-01T08:00:00.000Z"), ("v20261101", "2026-11-01T08:00:00.000Z"))
BOTTLEROCKET_RELEASES = (("1.49.0", "2026-10-05T08:00:00.000Z"), ("1.50.0", "2026-11-05T08:00:00.000Z"))
AL2023_VARIANTS = (
    ("x86_64", "standard"),
    ("arm64", "standard"),
    ("x86_64", "nvidia"),
    ("arm64", "nvidia"),
    ("x86_64", "neuron"),
)
AL2_KUBERNETES = "1.32"
"""The last version of Kubernetes for which AWS publishes images of AL2."""
AL2_RELEASE, AL2_CREATED = "v20251120", "2025-11-20T08:00:00.000Z"
AL2_VARIANTS = (("x86_64", ""), ("arm64", "-arm64"), ("x86_64", "-gpu"))
BOTTLEROCKET_VARIANTS = (("x86_64", ""), ("arm64", ""), ("x86_64", "-nvidia"), ("arm64", "-nvidia"))


@dataclass(frozen=True)
class Image:
    """One image, and the SSM parameters whose value is its ID."""

    name: str
    architecture: str
    owner: str
    created: str
    parameters: tuple[str, ...]

    @property
    def id(self) -> str:
        return "ami-" + hashlib.sha256(self.name.encode()).hexdigest()[:17]

    def record(self) -> dict[str, Any]:
        """The image in the format that the mock loads."""
        return {
            "ami_id": self.id,
            "name": self.name,
            "description": f"Sandbox image {self.name}",
            "owner_id": self.owner,
            "public": True,
            "virtualization_type": "hvm",
            "architecture": self.architecture,
            "state": "available",
            "platform": None,
            "image_type": "machine",
            "image_location": f"amazon/{self.name}",
            "hypervisor": "xen",
            "root_device_name": "/dev/xvda",
            "root_device_type": "ebs",
            "sriov": "simple",
            "creation_date": self.created,
        }


def images(kubernetes: str = KUBERNETES) -> list[Image]:
    """All images. The newest release of each variant comes last."""
    result = []
    for number, (release, created) in enumerate(AL2023_RELEASES, start=1):
        for architecture, variant in AL2023_VARIANTS:
            name = f"amazon-eks-node-al2023-{architecture}-{variant}-{kubernetes}-{release}"
            base = f"/aws/service/eks/optimized-ami/{kubernetes}/amazon-linux-2023/{architecture}/{variant}"
            newest = (f"{base}/recommended/image_id",) if number == len(AL2023_RELEASES) else ()
            result.append(Image(name, architecture, EKS_OWNER, created, (f"{base}/{name}/image_id", *newest)))
    for number, (release, created) in enumerate(BOTTLEROCKET_RELEASES, start=1):
        for architecture, variant in BOTTLEROCKET_VARIANTS:
            machine = "aarch64" if architecture == "arm64" else architecture
            name = f"bottlerocket-aws-k8s-{kubernetes}{variant}-{machine}-v{release}"
            base = f"/aws/service/bottlerocket/aws-k8s-{kubernetes}{variant}/{architecture}"
            newest = (f"{base}/latest/image_id",) if number == len(BOTTLEROCKET_RELEASES) else ()
            result.append(
                Image(name, architecture, BOTTLEROCKET_OWNER, created, (f"{base}/{release}/image_id", *newest))
            )
    return result + _al2_images()


def _al2_images() -> list[Image]:
    result = []
    for architecture, variant in AL2_VARIANTS:
        name = f"amazon-eks{variant}-node-{AL2_KUBERNETES}-{AL2_RELEASE}"
        base = f"/aws/service/eks/optimized-ami/{AL2_KUBERNETES}/amazon-linux-2{variant}"
        parameters = (f"{base}/{name}/image_id", f"{base}/recommended/image_id")
        result.append(Image(name, architecture, EKS_OWNER, AL2_CREATED, parameters))
    return result
