"""Dedicated instances count at the prices of dedicated tenancy, wherever it is known that they are dedicated."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from activities.ec2.client import Ec2
from activities.ec2.pricing import RETRY_SECONDS, Pricing
from activities.ec2.provider import Ec2Provider
from tenon.apis.ec2nodeclass import EC2NodeClass
from tests.ec2.conftest import until_shown
from tests.ec2.samples import node_claim
from tests.ec2.test_pricing import Clock, Region, asked, fail, prices_of

if TYPE_CHECKING:
    from sandbox.ec2.server import Server

pytestmark = pytest.mark.integration

DEDICATED = ("karpenter.k8s.aws/instance-tenancy", "In", ["dedicated"])
ON_DEMAND = ("karpenter.sh/capacity-type", "In", ["on-demand"])


def test_aws003_dedicated_prices_are_read_once_somebody_asks_for_them(clients: Ec2, server: Server) -> None:
    """They are half of the price list, and few clusters need them."""
    clock = Clock()
    pricing = Pricing(clients, clock)
    version, shared = pricing.current()
    before = asked(server, "GetProducts")
    pricing.current()
    assert asked(server, "GetProducts") == before
    later, dedicated = pricing.current(dedicated=True)
    assert asked(server, "GetProducts") > before
    assert later > version
    assert shared.on_demand["m5.large"] == 0.096
    assert dedicated.on_demand["m5.large"] == server.world.prices.dedicated("m5.large") == 0.10176
    assert dedicated.on_demand["c6g.metal"] == shared.on_demand["c6g.metal"], "bare metal has one price"
    assert dedicated.spot == shared.spot
    before = asked(server, "GetProducts")
    assert pricing.current(dedicated=True) == (later, dedicated)
    assert pricing.current() == (later, shared)
    assert asked(server, "GetProducts") == before


def test_aws003_unknown_dedicated_prices_are_said_and_asked_for_again(clients: Ec2, server: Server) -> None:
    clock = Clock()
    pricing = Pricing(clients, clock)
    _, shared = pricing.current()
    fail(server, "GetProducts")
    _, stand_in = pricing.current(dedicated=True)
    assert stand_in.on_demand == shared.on_demand
    (warning,) = pricing.warnings()
    assert warning.startswith("the prices of dedicated instances of us-west-2 are unknown (")
    assert "allow pricing:GetProducts in the IAM policy" in warning
    assert warning.endswith("Tenon uses those of shared tenancy")
    server.world.faults.clear()
    clock.now = RETRY_SECONDS
    _, entries = pricing.current(dedicated=True)
    assert entries.on_demand["m5.large"] == 0.10176
    assert pricing.warnings() == []


def test_aws003_known_dedicated_prices_stay_while_the_list_is_away(clients: Ec2, server: Server) -> None:
    clock = Clock()
    pricing = Pricing(clients, clock)
    current = pricing.current(dedicated=True)
    fail(server, "GetProducts")
    clock.now = 13 * 3600
    assert pricing.current(dedicated=True) == current
    assert pricing.warnings() == []


def test_aws003_without_a_price_list_dedicated_prices_are_not_known() -> None:
    """The built-in tables have none."""
    pricing = prices_of(Region("us-gov-west-1", "USD", 9.9, 0.04))
    assert pricing.warnings() == []
    assert pricing.current(dedicated=True)[1].on_demand["m5.large"] == 0.121
    (warning,) = pricing.warnings()
    assert "dedicated instances of us-gov-west-1 are unknown (the price list service does not serve" in warning


def test_aws003_a_dedicated_claim_is_launched_at_its_price(
    provider: Ec2Provider, ready_class: EC2NodeClass, server: Server
) -> None:
    """ALB-18: EC2 says that the instance is dedicated, and what was adopted later has the same price."""
    claim = node_claim(DEDICATED, ON_DEMAND, name="alone")
    request = provider.prepare_launch(claim, ready_class, 1)
    prices = {row.instance_type: row.price for template in request.templates for row in template.overrides}
    assert prices == {name: server.world.prices.dedicated(name) for name in prices}
    instance = provider.launch(request).instance
    assert instance is not None
    assert instance.price == prices[instance.instance_type]
    (machine,) = [item for item in server.world.book.all() if item.id == instance.id]
    assert machine.tenancy == "dedicated"
    until_shown(server, instance.id)
    describe_instance = provider.describe_instance(instance.id)
    assert describe_instance is not None
    assert describe_instance.price == instance.price


@pytest.mark.parametrize(("dedicated", "price"), [(False, 0.096), (True, 0.10176)])
def test_aws003_types_are_priced_by_tenancy(
    dedicated: bool, price: float, provider: Ec2Provider, ready_class: EC2NodeClass
) -> None:
    types = provider.instance_types(ready_class, dedicated=dedicated)
    (large,) = [item for item in types if item.name == "m5.large"]
    assert {offering.price for offering in large.offerings if offering.capacity_type == "on-demand"} == {price}
    assert all(offering.price < 0.096 for offering in large.offerings if offering.capacity_type == "spot")
