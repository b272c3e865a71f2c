"""Reading and writing a catalogue of instance types."""

from __future__ import annotations

from typing import Any

import pytest

from tenon.apis import labels
from tenon.scheduling.catalog import catalog_entry, parse_catalog
from tests.ec2.samples import instance_type
from tests.tenon.scheduling.builders import entry


def test_an_entry_becomes_a_type_with_its_labels_room_and_offerings() -> None:
    (m5,) = parse_catalog({"instanceTypes": [entry("m5.large", 2, 8, 0.096, zones=["z1"])]})
    assert m5.requirements[labels.INSTANCE_TYPE].values == ("m5.large",)
    assert m5.requirements["karpenter.k8s.aws/instance-gpu-count"].operator == "DoesNotExist"
    assert m5.allocatable["cpu"] == 1900
    assert [(o.zone, o.capacity_type, o.price, o.available) for o in m5.offerings] == [
        ("z1", "on-demand", 0.096, True),
        ("z1", "spot", 0.0384, True),
    ]


def test_a_label_that_only_other_types_have_does_not_exist_on_a_type() -> None:
    special = entry("a.large", 2, 8, 0.1, requirements={"example.com/special": ["yes"]})
    _, plain = parse_catalog({"instanceTypes": [special, entry("b.large", 2, 8, 0.1)]})
    assert plain.requirements["example.com/special"].operator == "DoesNotExist"


@pytest.mark.parametrize(
    ("document", "fault"),
    [
        ({}, "no list instanceTypes"),
        ({"instanceTypes": [{"name": "x"}]}, "instance type x: field capacity is missing"),
        ({"instanceTypes": [entry("x", 2, 8, 0.1)] * 2}, "x is listed twice"),
        ({"instanceTypes": [{**entry("x", 2, 8, 0.1), "capacity": {"cpu": "two"}}]}, "instance type x: 'two'"),
    ],
)
def test_a_faulty_catalogue_is_refused_with_the_place(document: dict[str, Any], fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        parse_catalog(document)


@pytest.mark.parametrize("name", ["m5.large", "g4dn.xlarge"])
def test_a_written_type_is_read_as_the_same_type(name: str) -> None:
    """Labels that the type must not have are part of it."""
    built = instance_type(name, 0.115, spot={"us-west-2a": 0.0437})
    (read,) = parse_catalog({"instanceTypes": [catalog_entry(built)]})
    of_offerings = (labels.ZONE, labels.CAPACITY_TYPE)
    own = {key: requirement for key, requirement in built.requirements.items() if key not in of_offerings}
    assert {labels.INSTANCE_TYPE: read.requirements[labels.INSTANCE_TYPE], **own} == dict(read.requirements)
    assert (read.capacity, read.overhead, read.offerings) == (built.capacity, built.overhead, built.offerings)
