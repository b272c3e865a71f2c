"""The AMI families: what each operating system image expects, as data.

A family decides the default volumes, how many pods the kubelet is told to take, and the shape of the user data.
"""

from __future__ import annotations

from dataclasses import dataclass

from tenon.resources import parse_quantity

GIB = 2**30


@dataclass(frozen=True, slots=True)
class Volume:
    """One EBS volume of a block device mapping; ``size`` in bytes, 0 when a snapshot decides."""

    device: str
    size: int
    root: bool = False


@dataclass(frozen=True, slots=True)
class Family:
    """What Tenon must know of an AMI family."""

    name: str
    os: str = "linux"
    volumes: tuple[Volume, ...] = ()
    """Default volumes, gp3 and encrypted; the first is the root."""
    ephemeral_device: str = ""
    """The device that holds pods' ephemeral storage."""
    eni_limited_pods: bool = True
    """The number of pods follows from the network interfaces; otherwise it is 110."""
    eni_limited_overhead: bool = False
    """Memory for the kubelet is reckoned from the interfaces' number of pods, even where maxPods differs."""
    pods_per_core: bool = True
    generates_user_data: bool = True
    excluded_families: frozenset[str] = frozenset()
    """Instance families that the images do not boot on."""


_XVDA_20 = (Volume("/dev/xvda", 20 * GIB, root=True),)
_WINDOWS_VOLUMES = (Volume("/dev/sda1", 50 * GIB, root=True),)

FAMILIES: dict[str, Family] = {
    family.name: family
    for family in (
        Family("AL2", volumes=_XVDA_20, ephemeral_device="/dev/xvda", eni_limited_overhead=True),
        Family(
            "AL2023",
            volumes=_XVDA_20,
            ephemeral_device="/dev/xvda",
            eni_limited_overhead=True,
            excluded_families=frozenset({"a1"}),
        ),
        Family(
            "Bottlerocket",
            volumes=(Volume("/dev/xvda", 4 * GIB, root=True), Volume("/dev/xvdb", 20 * GIB)),
            ephemeral_device="/dev/xvdb",
            pods_per_core=False,
        ),
        Family("Custom", generates_user_data=False),
        *(
            Family(
                f"Windows{year}",
                os="windows",
                volumes=_WINDOWS_VOLUMES,
                ephemeral_device="/dev/sda1",
                eni_limited_pods=False,
            )
            for year in (2019, 2022, 2025)
        ),
    )
}

WINDOWS_BUILDS = {"Windows2019": "10.0.17763", "Windows2022": "10.0.20348", "Windows2025": "10.0.26100"}


def family_named(name: str) -> Family:
    """The family of that name.

    Raises:
        ValueError: there is no such family.
    """
    if name not in FAMILIES:
        raise ValueError(f"AMI family {name!r} is unknown: use one of {', '.join(FAMILIES)}")
    return FAMILIES[name]


def volume_bytes(size: str | None) -> int:
    """The size of a volume such as ``20Gi`` in bytes; 0 when unset."""
    return int(parse_quantity(size)) if size else 0
