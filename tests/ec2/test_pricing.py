"""Prices and instance types when the services that know them fail."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from activities.ec2.catalogue import Catalogue
from activities.ec2.client import Ec2
from activities.ec2.errors import EC2Error
from activities.ec2.pricing import RETRY_SECONDS, TTL_SECONDS, Pricing, built_in_prices
from tenon.apis.ec2nodeclass import EC2NodeClass

if TYPE_CHECKING:
    from sandbox.ec2.server import Server


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def fail(server: Server, *actions: str) -> None:
    from sandbox.ec2.faults import Fault

    for action in actions:
        server.world.faults.add(Fault(action=action, code="AccessDeniedException", status=400, count=None))


def asked(server: Server, action: str) -> int:
    return len(server.world.calls.listing(action))


def test_prices_come_from_the_services(clients: Ec2, server: Server) -> None:
    """AWS-131, AWS-132: spot prices are by zone."""
    _, prices = Pricing(clients).current()
    assert prices.on_demand["m5.large"] == 0.096
    assert {zone for name, zone in prices.spot if name == "m5.large"} == {f"us-west-2{each}" for each in "abcd"}


def test_prices_are_asked_for_twice_a_day(clients: Ec2, server: Server) -> None:
    """AWS-133."""
    clock = Clock()
    pricing = Pricing(clients, clock)
    version, _ = pricing.current()
    clock.now = TTL_SECONDS - 1
    asked_before = asked(server, "DescribeSpotPriceHistory")
    assert pricing.current()[0] == version
    assert asked(server, "DescribeSpotPriceHistory") == asked_before
    clock.now = TTL_SECONDS
    pricing.current()
    assert asked(server, "DescribeSpotPriceHistory") > asked_before


def test_the_built_in_table_stands_in(clients: Ec2, server: Server) -> None:
    """AWS-130, AWS-133: a plan is made without any pricing service, and the services are asked again soon."""
    fail(server, "GetProducts", "DescribeSpotPriceHistory")
    clock = Clock()
    pricing = Pricing(clients, clock)
    version, prices = pricing.current()
    assert (version, prices) == (0, built_in_prices())
    assert prices.of("m5.large", "anywhere", "spot") == prices.spot_estimates["m5.large"]
    server.world.faults.clear()
    clock.now = RETRY_SECONDS
    assert pricing.current()[0] == 1


def test_the_last_known_prices_stay(clients: Ec2, server: Server) -> None:
    """AWS-133."""
    clock = Clock()
    pricing = Pricing(clients, clock)
    known = pricing.current()
    fail(server, "GetProducts", "DescribeSpotPriceHistory")
    clock.now = TTL_SECONDS
    assert pricing.current() == known


def test_the_last_known_types_stay(clients: Ec2, server: Server, ready_class: EC2NodeClass) -> None:
    """A failing EC2 must not stop plans; but with nothing known, the failure is said."""
    catalogue = Catalogue(clients, Pricing(clients))
    fail(server, "DescribeInstanceTypes")
    with pytest.raises(EC2Error, match="DescribeInstanceTypes"):
        catalogue.instance_types(ready_class)
    server.world.faults.clear()
    known = catalogue.instance_types(ready_class)
    catalogue.forget()
    fail(server, "DescribeInstanceTypes")
    assert catalogue.instance_types(ready_class) is known
