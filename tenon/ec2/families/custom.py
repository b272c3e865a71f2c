"""Custom: images that the user made. Their user data is the user's alone, so all that they need must be in it."""

from __future__ import annotations

from tenon.ec2.families.amis import ImageQuery, KubernetesVersion
from tenon.ec2.families.base import Family
from tenon.ec2.families.bootstrap import Bootstrap


def _images(_kubernetes: KubernetesVersion, _published: str) -> list[ImageQuery]:
    return []


def _user_data(node: Bootstrap) -> str:
    return node.user_data


CUSTOM = Family(
    name="Custom",
    os="linux",
    windows_build="",
    images=_images,
    write_user_data=_user_data,
    volumes=(),
    ephemeral_device="",
    eni_limited_pods=True,
    eni_limited_overhead=True,
    sets_max_pods=False,
    needs_service_range=False,
    unbootable_types=frozenset(),
)
