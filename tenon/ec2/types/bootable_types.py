"""Which instance types the images of an EC2NodeClass boot. Plans buy no others, and nodes that run already stay.

An image is for one architecture, and may be for types with or without GPUs only. So a class that selects an image by
its ID often boots only a part of the types that its NodePools allow.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

from tenon.apis import labels
from tenon.apis.ec2nodeclass import AMI
from tenon.kube.requirements import Requirements
from tenon.scheduling.model import InstanceType
from tenon.sentences import first_few

NAMED_TYPES = 3
"""How many instance types a sentence names."""
_UNSTATED = frozenset({labels.ARCH, labels.OS})
"""Labels of images that a user's catalogue may not state at all. Its types then count as of any."""


def images_by_type(instance_types: Iterable[InstanceType], amis: Iterable[AMI]) -> dict[str, str]:
    """Map each type to the ID of the first image that it can boot. A class lists its images in order of preference."""
    images = [(requirements_of(ami), ami.id) for ami in amis]
    image_by_type: dict[str, str] = {}
    for instance_type in instance_types:
        for image_requirements, image_id in images:
            if instance_type.requirements.allow(image_requirements):
                image_by_type[instance_type.name] = image_id
                break
    return image_by_type


def requirements_of(ami: AMI) -> Requirements:
    """Return what an instance type must be like to boot the image."""
    return Requirements.from_terms(term.to_dict() for term in ami.requirements)


def kinds_of_images(amis: Iterable[AMI]) -> tuple[str, ...]:
    """Return a text for each kind of image, sorted. A newer image of the same kind boots the same types."""
    return tuple(sorted({str(requirements_of(ami).to_selectors()) for ami in amis}))


def without_images(instance_types: Iterable[InstanceType], amis: Iterable[AMI]) -> list[InstanceType]:
    """Mark the types that none of the images boots, and their offerings as unavailable.

    Other types stay the same objects. If the images are not known, so do all.
    """
    images = list(dict.fromkeys(map(requirements_of, amis)))
    return [
        instance_type
        if not images or any(instance_type.requirements.allow(image, _UNSTATED) for image in images)
        else _without_image(instance_type)
        for instance_type in instance_types
    ]


def _without_image(instance_type: InstanceType) -> InstanceType:
    offerings = tuple(replace(offering, available=False) for offering in instance_type.offerings)
    return replace(instance_type, offerings=offerings, has_image=False)


def sentence(node_class: str, not_booted: Sequence[InstanceType], booted: Collection[str]) -> str:
    """Say that no image of the class boots these types. It names their architectures if its images are for others.

    Args:
        node_class: the name of the class, and what else says which images it has.
        not_booted: the types.
        booted: the architectures of its images.
    """
    architectures = architectures_of(instance_type.requirements for instance_type in not_booted)
    if architectures and architectures.isdisjoint(booted):
        kinds = " or ".join(sorted(architectures))
    else:
        kinds = first_few(sorted(instance_type.name for instance_type in not_booted), NAMED_TYPES)
    return f"no image of EC2NodeClass {node_class} boots {kinds}"


def architectures_of(requirements: Iterable[Requirements]) -> frozenset[str]:
    """Return the architectures of instance types or of images with these requirements."""
    return frozenset(value for own in requirements for value in own.get(labels.ARCH).values)
