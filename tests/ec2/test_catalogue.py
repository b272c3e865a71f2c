"""Reading everything that a region offers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from activities.ec2.provider import Ec2Provider
from tenon.apis.ec2nodeclass import EC2NodeClass
from tests.ec2.samples import rows

if TYPE_CHECKING:
    from sandbox.ec2.server import Server


@pytest.fixture(scope="module")
def few_types() -> None:
    """Every type is offered."""


def test_the_catalogue_is_read_once(provider: Ec2Provider, server: Server, ready_class: EC2NodeClass) -> None:
    """AWS-033: a second plan asks EC2 nothing; the figures are the known ones."""
    first = provider.instance_types(ready_class)
    before = len(server.world.calls.listing())
    assert provider.instance_types(ready_class) is first
    assert len(server.world.calls.listing()) == before
    found = {each.name: each for each in first}
    assert found.keys() >= rows().keys()
    m5 = found["m5.large"]
    assert {offering.capacity_type for offering in m5.offerings} == {"spot", "on-demand"}
    assert {offering.price for offering in m5.offerings if offering.capacity_type == "on-demand"} == {0.096}
    assert all(0 < o.price < 0.096 for o in m5.offerings if o.capacity_type == "spot")
