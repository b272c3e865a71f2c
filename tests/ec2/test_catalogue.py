"""Reading everything that a region offers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from moto.ec2.models.instance_types import INSTANCE_TYPES

from activities.ec2.provider import Ec2Provider
from tenon.apis.ec2nodeclass import EC2NodeClass
from tenon.ec2.launch.request import FIRST_EFA_CARD
from tests.ec2.samples import rows

if TYPE_CHECKING:
    from sandbox.ec2.server import Server

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def few_types() -> None:
    """Every type is offered."""


def test_the_catalogue_is_read_once(provider: Ec2Provider, server: Server, ready_class: EC2NodeClass) -> None:
    """AWS-033: a second plan asks EC2 nothing; the figures are the known ones."""
    first = provider.instance_types(ready_class)
    before = len(server.world.calls.listing())
    assert provider.instance_types(ready_class) is first
    assert len(server.world.calls.listing()) == before
    result = {item.name: item for item in first}
    assert result.keys() >= rows().keys()
    m5 = result["m5.large"]
    assert {offering.capacity_type for offering in m5.offerings} == {"spot", "on-demand"}
    assert {offering.price for offering in m5.offerings if offering.capacity_type == "on-demand"} == {0.096}
    assert all(0 < o.price < 0.096 for o in m5.offerings if o.capacity_type == "spot")


def test_classes_whose_types_cannot_differ_share_them(provider: Ec2Provider, ready_class: EC2NodeClass) -> None:
    """AWS-033: a list takes megabytes, and a cluster may have a class for each team."""
    other = changed(ready_class, "other", tags={"team": "other"}, userData="#!/bin/bash\n")
    assert provider.instance_types(other) is provider.instance_types(ready_class)
    smaller = provider.instance_types(changed(ready_class, "smaller", kubelet={"maxPods": 8}))
    assert {item.capacity["pods"] for item in smaller} == {8}
    assert {instance_type.capacity["pods"] for instance_type in provider.instance_types(ready_class)} > {8}


def test_types_share_their_labels(provider: Ec2Provider, ready_class: EC2NodeClass) -> None:
    """Without it, the types of each class would take four times the memory."""
    types = provider.instance_types(ready_class)
    total = sum(len(item.requirements) for item in types)
    distinct = {id(item.requirements[key]) for item in types for key in item.requirements}
    assert len(distinct) < total / 10


def changed(ready_class: EC2NodeClass, name: str, **spec: Any) -> EC2NodeClass:
    """A class of another name with these fields in its spec."""
    body = ready_class.to_dict()
    return EC2NodeClass.model_validate(
        {**body, "metadata": {**body["metadata"], "name": name}, "spec": {**body["spec"], **spec}}
    )


def test_aws110_the_first_card_with_efa_is_the_one_that_ec2_describes() -> None:
    first_cards = {
        name: next((card["NetworkCardIndex"] for card in cards if "efa" in card["InterfaceTypes"]), 0)
        for name, kind in INSTANCE_TYPES.items()
        if (cards := kind["NetworkInfo"]["NetworkCards"])
    }
    assert {name: card for name, card in first_cards.items() if card} == FIRST_EFA_CARD
