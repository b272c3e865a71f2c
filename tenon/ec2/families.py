"""What each AMI family expects, as data.

A family determines the default volumes, the kubelet's pod limit, and the format of the user data.
"""

from __future__ import annotations

from dataclasses import dataclass

from tenon.resources import parse_quantity

GIB = 2**30


@dataclass(frozen=True, slots=True)
class EbsVolume:
    """One EBS volume of a block device mapping. ``size`` is in bytes; 0 if a snapshot determines it."""

    device: str
    size: int
    root: bool = False


@dataclass(frozen=True, slots=True)
class Family:
    """What Tenon needs to know about an AMI family."""

    name: str
    os: str = "linux"
    volumes: tuple[EbsVolume, ...] = ()
    """Default volumes, gp3 and encrypted. The first is the root volume."""
    ephemeral_device: str = ""
    """The device for the ephemeral storage of pods."""
    eni_limited_pods: bool = True
    """True if the network interfaces limit the number of pods. Otherwise the limit is 110."""
    eni_limited_overhead: bool = False
    """True if kube-reserved memory depends on the pod limit of the network interfaces, even if maxPods differs."""
    pods_per_core: bool = True
    generates_user_data: bool = True
    excluded_families: frozenset[str] = frozenset()
    """Instance families on which the images do not boot."""


_XVDA_20 = (EbsVolume("/dev/xvda", 20 * GIB, root=True),)
_WINDOWS_VOLUMES = (EbsVolume("/dev/sda1", 50 * GIB, root=True),)

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
            volumes=(EbsVolume("/dev/xvda", 6 * GIB, root=True), EbsVolume("/dev/xvdb", 20 * GIB)),
            ephemeral_device="/dev/xvdb",
            pods_per_core=False,
        ),
        Family("Custom", generates_user_data=False, eni_limited_overhead=True),
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
    """Return the family with this name.

    Raises:
        ValueError: no such family exists.
    """
    if name not in FAMILIES:
        raise ValueError(f"AMI family {name!r} is unknown: use one of {', '.join(FAMILIES)}")
    return FAMILIES[name]


def volume_bytes(size: str | None) -> int:
    """Parse a volume size such as ``20Gi`` into bytes; 0 if it is not set."""
    return int(parse_quantity(size)) if size else 0
