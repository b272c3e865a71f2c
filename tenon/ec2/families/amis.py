"""Machine images: where AWS publishes them, which instance types can boot each one, and which of several to boot.

A published image has variants (plain, NVIDIA, Neuron) for each architecture. Each variant gets the requirements that an
instance type must meet to boot it. An image that serves two kinds of types is listed twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tenon.apis import labels
from tenon.errors import TenonError

GPU_COUNT = f"{labels.AWS_GROUP}/instance-gpu-count"
ACCELERATOR_COUNT = f"{labels.AWS_GROUP}/instance-accelerator-count"

Term = dict[str, Any]
"""One requirement as manifests write it: key, operator, values."""

KubernetesVersion = tuple[int, int]
"""Major and minor version."""

MACHINE = {"amd64": "x86_64", "arm64": "arm64"}
"""EC2's name of each architecture, by that of Kubernetes."""


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


def having_label(key: str, value: str) -> Term:
    """Return the requirement that an instance type has this value of a label."""
    return {"key": key, "operator": "In", "values": [value]}


def without_devices(arch: str) -> tuple[Term, ...]:
    """Return the requirements on types of an architecture without GPUs and accelerators."""
    absent = [{"key": key, "operator": "DoesNotExist"} for key in (ACCELERATOR_COUNT, GPU_COUNT)]
    return (having_label(labels.ARCH, arch), *absent)


def with_device(arch: str, device: str) -> tuple[Term, ...]:
    """Return the requirements on types of an architecture with a kind of device: one of the counts above."""
    return (having_label(labels.ARCH, arch), {"key": device, "operator": "Exists"})


def described_image(item: Mapping[str, Any], now: str, requirements: Sequence[Term] | None = None) -> Image:
    """Convert an element of DescribeImages.

    The image is deprecated if its deprecation time is not after ``now`` (RFC 3339).

    Without ``requirements``, the image boots every type of its architecture.
    """
    arch = next((name for name, machine in MACHINE.items() if machine == item["Architecture"]), "")
    deprecation = item.get("DeprecationTime", "")
    return Image(
        id=item["ImageId"],
        name=item.get("Name", ""),
        requirements=tuple(requirements or (having_label(labels.ARCH, arch),)),
        creation_date=item.get("CreationDate", ""),
        deprecated=bool(deprecation) and deprecation <= now,
    )


def usable(item: Mapping[str, Any]) -> bool:
    """True if EC2 can boot the image now and Kubernetes nodes support its architecture."""
    return item.get("State", "available") == "available" and item.get("Architecture") in MACHINE.values()


def newest_per_requirements(images: Iterable[Image]) -> list[Image]:
    """Pick one image for each set of requirements: images that are not deprecated first, then the newest.

    The result is in order of preference: a type boots the first image in the list whose requirements it meets.
    """
    ordered = sorted(images, key=lambda image: image.name)
    ordered.sort(key=lambda image: image.creation_date, reverse=True)
    ordered.sort(key=lambda image: image.deprecated)
    newest: dict[str, Image] = {}
    for image in ordered:
        newest.setdefault(repr(image.requirements), image)
    return list(newest.values())
