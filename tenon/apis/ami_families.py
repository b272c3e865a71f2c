"""The AMI families that a class may name, and what its kubelet settings may hold with each.

`tenon.ec2.families` knows the rest: the API's models are below EC2, and validation needs no more than this.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal, NamedTuple, get_args

AMIFamily = Literal["AL2", "AL2023", "Bottlerocket", "Custom", "Windows2019", "Windows2022", "Windows2025"]
V1beta1AMIFamily = Literal[AMIFamily, "Ubuntu"]
"""The AMI families of v1beta1. Windows2025 came later, but a v1 class that uses it must also convert to v1beta1."""
CUSTOM: Final = "Custom"
"""The family of images that no one publishes: the user's own."""
FAMILY_OF_ALIAS: Mapping[str, AMIFamily] = {
    family.lower(): family for family in get_args(AMIFamily) if family != CUSTOM
}


class KubeletSupport(NamedTuple):
    """Which kubelet settings the nodes of a family take, of those that not all take."""

    pods_per_core: bool
    unlisted: bool
    """Whether the kubelet receives settings that Tenon's API does not name."""
    several_dns: bool
    """Whether the kubelet receives more than one address of the cluster's DNS."""


def require_every_family(table: Mapping[AMIFamily, Any], table_name: str) -> None:
    """Refuse a table that leaves a family out.

    Raises:
        TypeError: a family has no entry, or an entry has no family.
    """
    if different := set(get_args(AMIFamily)) ^ set(table):
        raise TypeError(f"{table_name} and AMIFamily do not name the same families: add or remove {sorted(different)}")


KUBELET: Mapping[AMIFamily, KubeletSupport] = {
    "AL2": KubeletSupport(pods_per_core=True, unlisted=False, several_dns=False),
    "AL2023": KubeletSupport(pods_per_core=True, unlisted=True, several_dns=True),
    "Bottlerocket": KubeletSupport(pods_per_core=False, unlisted=False, several_dns=False),
    # The user data of Custom is the user's, which takes what it wants from its own settings.
    "Custom": KubeletSupport(pods_per_core=True, unlisted=True, several_dns=True),
    "Windows2019": KubeletSupport(pods_per_core=True, unlisted=False, several_dns=False),
    "Windows2022": KubeletSupport(pods_per_core=True, unlisted=False, several_dns=False),
    "Windows2025": KubeletSupport(pods_per_core=True, unlisted=False, several_dns=False),
}
require_every_family(KUBELET, "KUBELET of tenon.apis.ami_families")
WITH_UNLISTED_SETTINGS = tuple(family for family, support in KUBELET.items() if support.unlisted and family != CUSTOM)
