"""What an AMI family is: all that Tenon must know to launch and plan its nodes. No field has a default, so that a
family that lacks a part fails when it is imported.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tenon.apis.ami_families import KUBELET, AMIFamily
from tenon.ec2.families.amis import ImageQuery, KubernetesVersion
from tenon.ec2.families.bootstrap import Bootstrap
from tenon.errors import TenonError
from tenon.resources import parse_quantity

GIB = 2**30
SIZE_LIMIT = 16384
"""The most bytes of user data that EC2 accepts, before base64."""
WARNED_AT = 0.9
"""The share of that limit from which on there is a warning."""


class UserDataTooLargeError(TenonError, ValueError):
    """The user data is larger than EC2 accepts."""


@dataclass(frozen=True, slots=True)
class EbsVolume:
    """One EBS volume of a block device mapping. ``size`` is in bytes; 0 if a snapshot determines it."""

    device: str
    size: int
    root: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """An AMI family."""

    name: AMIFamily
    os: str
    """The operating system, as nodes have it in a label."""
    windows_build: str
    """The build of Windows, as nodes have it in a label; empty for Linux."""
    images: Callable[[KubernetesVersion, str], list[ImageQuery]]
    """Returns the SSM parameters of the images for a Kubernetes version, plain ones first. The second argument is the
    published version that the alias names, such as ``v20260915`` or ``latest``. Raises UnsupportedAliasError."""
    write_user_data: Callable[[Bootstrap], str]
    """Returns the user's own part, and what makes the instance join. Raises ValueError if the user's part is unfit."""
    volumes: tuple[EbsVolume, ...]
    """Default volumes, gp3 and encrypted. The first is the root volume. Empty leaves them to the image."""
    ephemeral_device: str
    """The device for the ephemeral storage of pods; empty if only the class can say, whose last volume it then is."""
    eni_limited_pods: bool
    """True if the network interfaces limit the number of pods. Otherwise the limit is 110."""
    eni_limited_overhead: bool
    """True if kube-reserved memory depends on the pod limit of the network interfaces, even if maxPods differs."""
    sets_max_pods: bool
    """True if the user data has the pod limit, so that types with different limits need different user data."""
    needs_service_range: bool
    """True if nodes cannot join without the cluster's service range."""
    unbootable_types: frozenset[str]
    """Families of instance types on which the images do not boot."""

    @property
    def pods_per_core(self) -> bool:
        """Whether the kubelet's setting podsPerCore limits the pods."""
        return KUBELET[self.name].pods_per_core

    def user_data(self, node: Bootstrap) -> str:
        """Return the user data of a node.

        Raises:
            ValueError: the user's part, or a kubelet setting, is one that the family's nodes would not join with.
            UserDataTooLargeError: the user data is larger than EC2 accepts.
        """
        text = self.write_user_data(node)
        if (size := len(text.encode())) > SIZE_LIMIT:
            raise UserDataTooLargeError(
                f"the user data has {size} bytes, but EC2 takes at most {SIZE_LIMIT}: shorten userData"
            )
        return text


def size_warning(size: int) -> str:
    """Return a sentence about user data of so many bytes that EC2 will soon refuse; empty if there is room (EC-10)."""
    if size < SIZE_LIMIT * WARNED_AT:
        return ""
    return (
        f"the user data has {size} bytes and EC2 takes at most {SIZE_LIMIT}: shorten userData, because the labels and "
        "taints of a NodePool come on top of it"
    )


def volume_bytes(size: str | None) -> int:
    """Parse a volume size such as ``20Gi`` into bytes; 0 if it is not set."""
    return int(parse_quantity(size)) if size else 0
