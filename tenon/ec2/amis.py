"""Machine images: where AWS publishes them, which instance types can boot each one, and which of several to boot.

A published image has variants (plain, NVIDIA, Neuron) for each architecture. Each variant gets the requirements that an
instance type must meet to boot it. An image that serves two kinds of types is listed twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tenon.apis import labels
from tenon.ec2.cluster import minor_version
from tenon.errors import TenonError

GPU_COUNT = f"{labels.AWS_GROUP}/instance-gpu-count"
ACCELERATOR_COUNT = f"{labels.AWS_GROUP}/instance-accelerator-count"

Term = dict[str, Any]
"""One requirement as manifests write it: key, operator, values."""

_MACHINE = {"amd64": "x86_64", "arm64": "arm64"}


@dataclass(frozen=True, slots=True)
class Alias:
    """An image family, such as AL2023, and a published version of it, such as ``v20260915`` or ``latest``."""

    family: str
    version: str


@dataclass(frozen=True, slots=True)
class ImageQuery:
    """An SSM parameter that names an image, and the requirements on the instance types that can boot it."""

    parameter: str
    requirements: tuple[Term, ...]


@dataclass(frozen=True, slots=True)
class Image:
    """An image that a node class may boot."""

    id: str
    name: str
    requirements: tuple[Term, ...]
    creation_date: str = ""
    """RFC 3339, as EC2 writes it."""
    deprecated: bool = False


class UnsupportedAliasError(TenonError, ValueError):
    """The alias is well formed, but AWS publishes no such image for this Kubernetes version."""


def al2_has_images(kubernetes_version: str) -> bool:
    """True if AWS publishes AL2 images for this Kubernetes version.

    Raises:
        ValueError: the text is not a Kubernetes version.
    """
    return minor_version(kubernetes_version) < (1, 33)


def image_queries(alias: Alias, kubernetes_version: str) -> list[ImageQuery]:
    """Return the SSM parameters that name the alias's images, plain ones first.

    Raises:
        UnsupportedAliasError: AWS publishes no such image for this Kubernetes version.
    """
    major, minor = minor_version(kubernetes_version)
    if alias.family == "AL2" and not al2_has_images(kubernetes_version):
        raise UnsupportedAliasError(
            f"there are no AL2 images for Kubernetes {kubernetes_version}: the last are for 1.32, use al2023"
        )
    if alias.family == "Windows2025" and (major, minor) < (1, 35):
        raise UnsupportedAliasError(
            f"there are no Windows 2025 images for Kubernetes {kubernetes_version}: the first are for 1.35"
        )
    return _QUERIES[alias.family](f"{major}.{minor}", alias)


def _al2(version: str, alias: Alias) -> list[ImageQuery]:
    tail = f"{'recommended' if alias.version == 'latest' else f'amazon-eks-node-{version}-{alias.version}'}/image_id"
    root = f"/aws/service/eks/optimized-ami/{version}"
    gpu = f"{root}/amazon-linux-2-gpu/{tail.replace('eks-node', 'eks-gpu-node')}"
    arm = f"{root}/amazon-linux-2-arm64/{tail.replace('eks-node', 'eks-arm64-node')}"
    return [
        ImageQuery(f"{root}/amazon-linux-2/{tail}", _plain("amd64")),
        ImageQuery(arm, _plain("arm64")),
        ImageQuery(gpu, _having("amd64", GPU_COUNT)),
        ImageQuery(gpu, _having("amd64", ACCELERATOR_COUNT)),
    ]


def _al2023(version: str, alias: Alias) -> list[ImageQuery]:
    def path(arch: str, variant: str) -> str:
        machine = _MACHINE[arch]
        published = (
            "recommended"
            if alias.version == "latest"
            else f"amazon-eks-node-al2023-{machine}-{variant}-{version}-{alias.version}"
        )
        return f"/aws/service/eks/optimized-ami/{version}/amazon-linux-2023/{machine}/{variant}/{published}/image_id"

    return [
        ImageQuery(path("amd64", "standard"), _plain("amd64")),
        ImageQuery(path("arm64", "standard"), _plain("arm64")),
        ImageQuery(path("amd64", "nvidia"), _having("amd64", GPU_COUNT)),
        ImageQuery(path("arm64", "nvidia"), _having("arm64", GPU_COUNT)),
        ImageQuery(path("amd64", "neuron"), _having("amd64", ACCELERATOR_COUNT)),
    ]


def _bottlerocket(version: str, alias: Alias) -> list[ImageQuery]:
    def path(arch: str, variant: str) -> str:
        published = alias.version.removeprefix("v")
        return f"/aws/service/bottlerocket/aws-k8s-{version}{variant}/{_MACHINE[arch]}/{published}/image_id"

    return [
        ImageQuery(path("amd64", ""), _plain("amd64")),
        ImageQuery(path("arm64", ""), _plain("arm64")),
        ImageQuery(path("amd64", ""), _having("amd64", ACCELERATOR_COUNT)),
        ImageQuery(path("amd64", "-nvidia"), _having("amd64", GPU_COUNT)),
        ImageQuery(path("arm64", "-nvidia"), _having("arm64", GPU_COUNT)),
    ]


def _windows(version: str, alias: Alias) -> list[ImageQuery]:
    year = alias.family.removeprefix("Windows")
    parameter = f"/aws/service/ami-windows-latest/Windows_Server-{year}-English-Core-EKS_Optimized-{version}/image_id"
    return [ImageQuery(parameter, (_in(labels.ARCH, "amd64"), _in(labels.OS, "windows")))]


_QUERIES = {
    "AL2": _al2,
    "AL2023": _al2023,
    "Bottlerocket": _bottlerocket,
    "Windows2019": _windows,
    "Windows2022": _windows,
    "Windows2025": _windows,
}


def _in(key: str, value: str) -> Term:
    return {"key": key, "operator": "In", "values": [value]}


def _plain(arch: str) -> tuple[Term, ...]:
    absent = [{"key": key, "operator": "DoesNotExist"} for key in (ACCELERATOR_COUNT, GPU_COUNT)]
    return (_in(labels.ARCH, arch), *absent)


def _having(arch: str, device: str) -> tuple[Term, ...]:
    return (_in(labels.ARCH, arch), {"key": device, "operator": "Exists"})


def described_image(item: Mapping[str, Any], now: str, requirements: Sequence[Term] | None = None) -> Image:
    """Convert an element of DescribeImages.

    The image is deprecated if its deprecation time is not after ``now`` (RFC 3339).

    Without ``requirements``, the image boots every type of its architecture.
    """
    arch = next((name for name, machine in _MACHINE.items() if machine == item["Architecture"]), "")
    deprecation = item.get("DeprecationTime", "")
    return Image(
        id=item["ImageId"],
        name=item.get("Name", ""),
        requirements=tuple(requirements or (_in(labels.ARCH, arch),)),
        creation_date=item.get("CreationDate", ""),
        deprecated=bool(deprecation) and deprecation <= now,
    )


def usable(item: Mapping[str, Any]) -> bool:
    """True if EC2 can boot the image now and Kubernetes nodes support its architecture."""
    return item.get("State", "available") == "available" and item.get("Architecture") in _MACHINE.values()


def newest_per_requirements(images: Iterable[Image]) -> list[Image]:
    """Pick one image for each set of requirements: images that are not deprecated first, then the newest.

    The result is in order of preference: a type boots the first image in the list whose requirements it meets.
    """
    ordered = sorted(images, key=lambda image: image.name)
    ordered.sort(key=lambda image: image.creation_date, reverse=True)
    ordered.sort(key=lambda image: image.deprecated)
    chosen: dict[str, Image] = {}
    for image in ordered:
        chosen.setdefault(repr(image.requirements), image)
    return list(chosen.values())
