"""Ephemeral storage that nodes reported to be less than planned (AWS-061)."""

from __future__ import annotations

import json

import pytest

from tenon.apis import labels
from tenon.apis.ec2nodeclass import EC2NodeClass
from tenon.ec2.types.capacity import MIB, capacity, overhead
from tenon.ec2.types.learned_storage import MOST, learned_storage, read_storage, with_storage
from tenon.ec2.types.settings import settings_of
from tenon.evolve import evolve
from tenon.resources import EPHEMERAL_STORAGE
from tests.ec2.samples import AMD, ARM, item, node_class


def annotated(text: str | None) -> dict[str, str]:
    assert text is not None
    return {labels.LEARNED_STORAGE: text}


def with_learned(node_class: EC2NodeClass, annotations: dict[str, str]) -> EC2NodeClass:
    return evolve(node_class, metadata=evolve(node_class.metadata, annotations=annotations))


def left(of: EC2NodeClass) -> int:
    """The ephemeral storage that pods get on an m5.large of the class."""
    described, settings = item("m5.large"), settings_of(of)
    return capacity(described, settings)[EPHEMERAL_STORAGE] - overhead(described, settings)[EPHEMERAL_STORAGE]


def test_aws061_a_plan_counts_with_the_storage_that_a_node_reported() -> None:
    planned = left(node_class())
    taught = with_learned(node_class(), annotated(with_storage({}, [AMD], AMD, planned, planned - 1000)))
    assert left(taught) == planned - 1000


def test_aws061_another_volume_size_makes_the_figure_void() -> None:
    planned = left(node_class())
    larger = node_class(blockDeviceMappings=[{"deviceName": "/dev/xvda", "ebs": {"volumeSize": "100Gi"}}])
    annotations = annotated(with_storage({}, [AMD], AMD, planned, planned - 1024 * MIB))
    assert left(with_learned(larger, annotations)) == left(larger) > planned


def test_aws061_a_kubelet_that_lies_takes_a_quarter_at_most() -> None:
    planned = left(node_class())
    annotations = annotated(with_storage({}, [AMD], AMD, planned, 1))
    assert left(with_learned(node_class(), annotations)) == int(planned * 0.75)


def test_aws061_a_node_with_even_less_lowers_the_figure_that_its_plan_counted_with() -> None:
    first = annotated(with_storage({}, [AMD], AMD, 1000, 900))
    assert with_storage(first, [AMD], AMD, 1000, 900) is None
    assert with_storage(first, [AMD], AMD, 1000, 950) is None
    second = annotated(with_storage(first, [AMD], AMD, 900, 800))
    assert read_storage(second) == {AMD: {1000: 800}}


@pytest.mark.parametrize(("image", "reported"), [(ARM, 900), (AMD, 1000), (AMD, 1100), (AMD, 0)])
def test_aws061_other_images_and_enough_storage_teach_nothing(image: str, reported: int) -> None:
    assert with_storage({}, [AMD], image, 1000, reported) is None


def test_aws061_the_least_of_the_images_of_a_class_counts_and_others_are_dropped() -> None:
    text = json.dumps({AMD: {"1000": 900}, ARM: {"1000": 800}, "ami-old": {"1000": 1}})
    learned = with_learned(node_class(), {labels.LEARNED_STORAGE: text})
    images = {image.id for image in learned.status.amis}
    assert learned_storage(learned) == {1000: 800 if ARM in images else 900}
    assert read_storage(annotated(with_storage({labels.LEARNED_STORAGE: text}, [AMD], AMD, 50, 40))) == {
        AMD: {1000: 900, 50: 40}
    }


def test_aws061_an_annotation_stays_small() -> None:
    annotations: dict[str, str] = {}
    for planned in range(1000, 1000 + MOST + 5):
        annotations = annotated(with_storage(annotations, [AMD], AMD, planned, 1))
    assert len(read_storage(annotations)[AMD]) == MOST


@pytest.mark.parametrize("text", ["", "{", "[]", '{"a": 1}', '{"a": {"x": 1, "9": "1", "8": true, "7": 7, "6": 0}}'])
def test_aws061_what_is_malformed_is_ignored(text: str) -> None:
    assert not any(read_storage({labels.LEARNED_STORAGE: text}).values())
