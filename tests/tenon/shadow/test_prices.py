"""Types of the built-in catalogue in another region."""

from __future__ import annotations

import pytest

from tenon.apis import labels
from tenon.ec2.types.instance_types import Prices
from tenon.shadow.prices import sold_in
from tests.tenon.scheduling.builders import CATALOG

ZONES = ["eu-west-1a", "eu-west-1b"]


def test_types_have_the_zones_the_region_and_the_prices_of_now() -> None:
    prices = Prices({"m5.large": 0.107}, {("m5.large", "eu-west-1a"): 0.05})
    (kind,) = sold_in(CATALOG, "eu-west-1", ZONES, prices)
    assert kind.requirements.get(labels.REGION).values == ("eu-west-1",)
    offerings = {(offering.zone, offering.capacity_type): offering.price for offering in kind.offerings}
    assert offerings == {
        ("eu-west-1a", "on-demand"): 0.107,
        ("eu-west-1b", "on-demand"): 0.107,
        ("eu-west-1a", "spot"): 0.05,
    }


def test_spot_without_a_price_costs_the_same_part_of_on_demand() -> None:
    (kind,) = sold_in(CATALOG, "eu-west-1", ZONES[:1], Prices({"m5.large": 0.2}))
    prices = {offering.capacity_type: offering.price for offering in kind.offerings}
    assert prices == {"on-demand": 0.2, "spot": pytest.approx(0.08)}
