"""Prices and instance types when the services that know them fail."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest
from botocore.exceptions import BotoCoreError, ClientError
from prometheus_client import REGISTRY

from activities.ec2.catalogue import Catalogue
from activities.ec2.client import Ec2, pricing_region
from activities.ec2.errors import EC2Error
from activities.ec2.price_tables import PriceTable, built_in_table, table_text
from activities.ec2.pricing import FIRST_RETRY_SECONDS, RETRY_SECONDS, TTL_SECONDS, Pricing
from sandbox.ec2.authorization.identities import worker_key
from tenon.apis.ec2nodeclass import EC2NodeClass
from tenon.ec2.types.instance_types import Prices
from tests.ec2.conftest import clients_of

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


@pytest.mark.integration
def test_prices_come_from_the_services(clients: Ec2, server: Server) -> None:
    """AWS-131, AWS-132: spot prices are by zone."""
    _, prices = Pricing(clients).current()
    assert prices.on_demand["m5.large"] == 0.096
    assert {zone for name, zone in prices.spot if name == "m5.large"} == {f"us-west-2{item}" for item in "abcd"}


@pytest.mark.integration
def test_aws131_the_price_list_is_asked_for_linux_on_demand_in_both_tenancies(server: Server) -> None:
    """Without one of the filters, AWS adds prices of Windows, of reservations, or of paid software."""
    fresh = clients_of(worker_key("sandbox"), server)
    requests: list[dict[str, Any]] = []
    fresh.pricing.meta.events.register(
        "provide-client-params.pricing.GetProducts", lambda params, **_: requests.append(params)
    )
    Pricing(fresh).current()
    values = [
        {item["Field"]: item["Value"] for item in first["Filters"]} for first in requests if "NextToken" not in first
    ]
    common = {
        "regionCode": "us-west-2",
        "preInstalledSw": "NA",
        "operatingSystem": "Linux",
        "capacitystatus": "Used",
        "marketoption": "OnDemand",
    }
    metal = {"tenancy": "Dedicated", "productFamily": "Compute Instance (bare metal)"}
    assert values == [common | {"tenancy": "Shared"}, common | metal]
    assert {item["ServiceCode"] for item in requests} == {"AmazonEC2"}


@pytest.mark.integration
def test_aws132_only_the_spot_prices_of_linux_that_hold_now_are_asked_for(clients: Ec2, server: Server) -> None:
    before = asked(server, "DescribeSpotPriceHistory")
    earliest = datetime.now(UTC)
    Pricing(clients).current()
    calls = [call["parameters"] for call in server.world.calls.listing("DescribeSpotPriceHistory")[before:]]
    assert calls
    for requests in calls:
        products = {value for name, value in requests.items() if name.startswith("ProductDescription")}
        assert products == {"Linux/UNIX", "Linux/UNIX (Amazon VPC)"}
        assert datetime.fromisoformat(requests["StartTime"]) >= earliest.replace(microsecond=0)


@pytest.mark.integration
def test_prices_are_asked_for_twice_a_day(clients: Ec2, server: Server) -> None:
    """AWS-133."""
    clock = Clock()
    pricing = Pricing(clients, clock)
    version, _ = pricing.current()
    clock.now = 12 * 3600.0 - 1
    asked_before = asked(server, "DescribeSpotPriceHistory")
    assert pricing.current()[0] == version
    assert asked(server, "DescribeSpotPriceHistory") == asked_before
    clock.now = 12 * 3600.0
    pricing.current()
    assert asked(server, "DescribeSpotPriceHistory") > asked_before


@pytest.mark.integration
def test_list_prices_that_equal_the_built_in_ones_are_known(clients: Ec2, server: Server) -> None:
    """Without spot prices, they were taken for the built-in ones."""
    fail(server, "DescribeSpotPriceHistory")
    pricing = Pricing(clients)
    pricing.current()
    (spot,) = pricing.warnings()
    assert "the spot prices of us-west-2 are unknown" in spot
    assert pricing.list_source == "the price list of us-west-2"


@pytest.mark.integration
def test_the_built_in_table_stands_in(clients: Ec2, server: Server) -> None:
    """AWS-130, AWS-133: a plan is made without any pricing service, and the services are asked again soon."""
    fail(server, "GetProducts", "DescribeSpotPriceHistory")
    clock = Clock()
    pricing = Pricing(clients, clock)
    version, prices = pricing.current()
    assert (version, prices) == (0, Prices(on_demand=built_in_table("us-west-2").on_demand))
    assert prices.of("m5.large", "anywhere", "spot") == prices.of("m5.large", "anywhere", "on-demand"), (
        "none is invented"
    )
    on_demand, spot = pricing.warnings()
    assert "the on-demand prices of us-west-2 are unknown" in on_demand
    assert "allow pricing:GetProducts in the IAM policy" in on_demand
    assert "the spot prices of us-west-2 are unknown" in spot
    assert "allow ec2:DescribeSpotPriceHistory in the IAM policy" in spot
    server.world.faults.clear()
    clock.now = RETRY_SECONDS
    assert pricing.current()[0] == 1
    assert pricing.warnings() == []


UNREACHABLE = BotoCoreError()
THROTTLED = ClientError({"Error": {"Code": "RequestLimitExceeded", "Message": "slow down"}}, "DescribeSpotPriceHistory")


class Region:
    """The price list and the spot price history of a region, for one type."""

    def __init__(self, region: str, currency: str, list_price: float, spot_price: float) -> None:
        self.region = region
        self.requests: list[str] = []
        self.errors: dict[str, BotoCoreError | ClientError] = {}
        """By request, how AWS fails."""
        dimension = {"pricePerUnit": {currency: str(list_price)}}
        product = {
            "product": {"productFamily": "Compute Instance", "attributes": {"instanceType": "m5.large"}},
            "terms": {"OnDemand": {"x": {"priceDimensions": {"y": dimension}}}},
        }
        row = {
            "InstanceType": "m5.large",
            "AvailabilityZone": f"{region}a",
            "SpotPrice": str(spot_price),
            "Timestamp": datetime(2026, 11, 23, tzinfo=UTC),
        }
        self.pages: dict[str, list[dict[str, Any]]] = {
            "get_products": [{"PriceList": [json.dumps(product)]}],
            "describe_spot_price_history": [{"SpotPriceHistory": [row]}],
        }
        self.ec2 = self.pricing = self

    def get_paginator(self, name: str) -> Region:
        self.requests.append(name)
        return self

    def paginate(self, **_: object) -> list[dict[str, Any]]:
        if (error := self.errors.get(self.requests[-1])) is not None:
            raise error
        return self.pages[self.requests[-1]]


def prices_of(region: Region, now: str = "2025-02-01", **options: Any) -> Pricing:
    """Prices that were read once on a day on which no built-in table was old."""
    pricing = Pricing(cast("Any", region), now=lambda: datetime.fromisoformat(now).replace(tzinfo=UTC), **options)
    pricing.current()
    return pricing


def test_aws133_first_spot_prices_that_are_throttled_are_read_within_seconds() -> None:
    """Until then spot counts at the on-demand price, and plans of a worker that has just started go by it."""
    region, clock = Region("us-west-2", "USD", 0.1, 0.05), Clock()
    region.errors["describe_spot_price_history"] = THROTTLED
    pricing = prices_of(region, clock=clock)
    assert pricing.current()[1].of("m5.large", "us-west-2a", "spot") == 0.1
    del region.errors["describe_spot_price_history"]
    region.requests.clear()
    clock.now = FIRST_RETRY_SECONDS - 1
    assert pricing.current()[1].of("m5.large", "us-west-2a", "spot") == 0.1
    clock.now = FIRST_RETRY_SECONDS
    assert pricing.current()[1].of("m5.large", "us-west-2a", "spot") == 0.05
    assert region.requests == ["describe_spot_price_history"], "the list prices are there"
    clock.now = TTL_SECONDS
    pricing.current()
    assert "get_products" in region.requests


def test_aws133_first_list_prices_that_do_not_come_are_read_within_seconds() -> None:
    """Also those of dedicated instances, which are read when they are needed first."""
    region, clock = Region("us-west-2", "USD", 0.1, 0.05), Clock()
    region.errors["get_products"] = UNREACHABLE
    pricing = prices_of(region, clock=clock)
    dedicated = pricing.current(dedicated=True)[1]
    del region.errors["get_products"]
    clock.now = FIRST_RETRY_SECONDS
    assert pricing.current()[1].on_demand == {"m5.large": 0.1}
    assert pricing.current(dedicated=True)[1] != dedicated


def test_aws133_a_service_that_stays_unreachable_is_asked_ever_more_rarely() -> None:
    """Each attempt takes seconds, and plans wait for it."""
    region, clock = Region("us-west-2", "USD", 0.1, 0.05), Clock()
    region.errors["get_products"] = UNREACHABLE
    pricing = prices_of(region, clock=clock)
    asked_at = []
    for clock.now in range(0, 2000, 5):
        before = len(region.requests)
        pricing.current()
        asked_at += [clock.now] * (len(region.requests) - before)
    pauses = [later - earlier for earlier, later in zip([0, *asked_at], asked_at, strict=False)]
    assert pauses[:2] == [FIRST_RETRY_SECONDS, 2 * FIRST_RETRY_SECONDS]
    assert pauses[-1] == max(pauses) == RETRY_SECONDS


def test_aws133_known_and_refused_prices_are_asked_for_again_after_minutes() -> None:
    region, clock = Region("us-west-2", "USD", 0.1, 0.05), Clock()
    pricing = prices_of(region, clock=clock)
    clock.now = TTL_SECONDS
    region.errors["describe_spot_price_history"] = THROTTLED
    pricing.current()
    region.requests.clear()
    clock.now = TTL_SECONDS + RETRY_SECONDS - 1
    pricing.current()
    refused = Region("us-west-2", "USD", 0.1, 0.05)
    denied = {"Error": {"Code": "AccessDeniedException", "Message": "no"}}
    refused.errors["get_products"] = ClientError(cast("Any", denied), "GetProducts")
    pricing = prices_of(refused, clock=clock)
    refused.requests.clear()
    clock.now += RETRY_SECONDS - 1
    pricing.current()
    assert region.requests == refused.requests == []


def table_file(path: Path, region: str, dedicated: float) -> str:
    """A file as `tenon prices` prints it, with prices of m5.large."""
    currency = built_in_table(region).currency
    table = PriceTable(
        region, "2026-11-01", frozenset([region]), currency, {"m5.large": 0.115}, {"m5.large": dedicated}
    )
    path.write_text(table_text(table))
    return str(path)


def volume(name: str, price: str, family: str = "Storage") -> str:
    dimension = {"unit": "GB-Mo", "pricePerUnit": {"USD": price}}
    product = {
        "product": {"productFamily": family, "attributes": {"volumeApiName": name}},
        "terms": {"OnDemand": {"x": {"priceDimensions": {"y": dimension}}}},
    }
    return json.dumps(product)


def test_prices_of_volumes_are_those_of_the_list_or_else_of_the_table() -> None:
    region = Region("us-west-2", "USD", 0.1, 0.05)
    pricing = prices_of(region)
    assert pricing.volumes() == built_in_table("us-west-2").volumes, "the list has none"
    products = [volume("gp3", "0.0800000000"), volume("gp3", "0.04", "Provisioned Throughput"), volume("", "0.09")]
    region.pages["get_products"] = [{"PriceList": products}]
    assert pricing.volumes() == {"gp3": 0.08}
    isolated = prices_of(region, isolated=True)
    assert isolated.volumes()["gp2"] == 0.1


def test_aws131_prices_of_china_are_in_yuan() -> None:
    """One currency for both, or spot would look dearer than on-demand."""
    pricing = prices_of(Region("cn-north-1", "CNY", 1.2, 0.5))
    prices = pricing.current()[1]
    assert prices.of("m5.large", "cn-north-1a", "on-demand") == 1.2
    assert prices.of("m5.large", "cn-north-1a", "spot") == 0.5
    assert pricing.warnings() == []


def test_aws130_without_a_price_list_a_region_uses_its_own_table() -> None:
    """In yuan, like the spot prices: no prices of two currencies are compared."""
    pricing = prices_of(Region("cn-north-1", "CNY", 1.2, 0.5), isolated=True)
    prices = pricing.current()[1]
    assert prices.of("m5.large", "cn-north-1a", "on-demand") == 1.013
    assert prices.of("m5.large", "cn-north-1a", "spot") == 0.5
    assert pricing.warnings() == []
    assert pricing.list_source == "the built-in table of cn-north-1 (as of 2024-11-06)"


def test_aws130_a_region_without_a_table_uses_one_of_its_partition_and_says_so() -> None:
    for region, stands_in, price in (("cn-northwest-1", "cn-north-1", 1.013), ("eu-central-1", "us-east-1", 0.096)):
        pricing = prices_of(Region(region, "EUR", 1.2, 0.5), isolated=True)
        assert pricing.current()[1].of("m5.large", "anywhere", "on-demand") == price
        (warning,) = pricing.warnings()
        assert f"the on-demand prices of {region} are unknown" in warning
        assert f"Tenon uses those of {stands_in}, from" in warning


def test_aws133_govcloud_has_no_price_list_and_uses_its_own_table() -> None:
    region = Region("us-gov-west-1", "USD", 9.9, 0.04)
    pricing = prices_of(region)
    assert region.requests == ["describe_spot_price_history"]
    prices = pricing.current()[1]
    assert prices.of("m5.large", "us-gov-west-1a", "spot") == 0.04
    assert prices.of("m5.large", "us-gov-west-1a", "on-demand") == 0.121
    assert pricing.warnings() == []
    assert pricing.list_source == "the built-in table of us-gov-west-1 (as of 2025-01-20)"


@pytest.mark.parametrize(("now", "is_said"), [("2025-07-18", False), ("2025-07-20", True)])
def test_aws130_a_table_is_said_to_be_old_after_180_days(now: str, is_said: bool) -> None:
    """GovCloud never gets newer prices by itself, and lacks the families that AWS added since."""
    pricing = prices_of(Region("us-gov-west-1", "USD", 9.9, 0.04), now)
    assert [
        "from the built-in table of us-gov-west-1 (as of 2025-01-20), which is more than 180 days old" in warning
        and "`tenon prices us-gov-west-1` writes a table for the setting PRICE_TABLE" in warning
        for warning in pricing.warnings()
    ] == [True] * is_said


def test_aws130_the_age_of_a_table_does_not_matter_while_the_price_list_answers() -> None:
    pricing = prices_of(Region("cn-north-1", "CNY", 1.2, 0.5), "2030-01-01")
    assert pricing.warnings() == []


def test_aws130_a_metric_and_the_log_say_how_old_the_prices_are(caplog: pytest.LogCaptureFixture) -> None:
    prices_of(Region("us-gov-west-1", "USD", 9.9, 0.04), "2026-11-26")
    assert (
        REGISTRY.get_sample_value("tenon_list_prices_timestamp_seconds")
        == datetime(2025, 1, 20, tzinfo=UTC).timestamp()
    )
    (line,) = [record for record in caplog.records if "prices that may be wrong" in record.message]
    assert line.__dict__["region"] == "us-gov-west-1"
    assert "more than 180 days old" in line.__dict__["error"]
    prices_of(Region("cn-north-1", "CNY", 1.2, 0.5), "2026-11-26")
    assert (
        REGISTRY.get_sample_value("tenon_list_prices_timestamp_seconds")
        == datetime(2026, 11, 26, tzinfo=UTC).timestamp()
    )


def test_aws130_the_operators_table_replaces_the_built_in_one(tmp_path: Path) -> None:
    """Also for dedicated instances, for which no built-in table has prices."""
    path = table_file(tmp_path / "prices.json", "eu-central-1", 0.122)
    pricing = prices_of(Region("eu-central-1", "USD", 9.9, 0.04), "2026-11-26", isolated=True, table_path=path)
    assert pricing.current()[1].on_demand == {"m5.large": 0.115}
    assert pricing.current(dedicated=True)[1].on_demand == {"m5.large": 0.122}
    assert pricing.warnings() == []
    assert pricing.list_source == f"the table of eu-central-1 in {path} (as of 2026-11-01)"


def test_aws130_the_price_list_goes_before_the_operators_table(tmp_path: Path) -> None:
    path = table_file(tmp_path / "prices.json", "eu-central-1", 0.122)
    pricing = prices_of(Region("eu-central-1", "USD", 9.9, 0.04), table_path=path)
    assert pricing.current()[1].on_demand == {"m5.large": 9.9}


def test_aws130_a_changed_table_counts_at_the_next_pass_and_a_broken_one_does_not(tmp_path: Path) -> None:
    """Kubernetes replaces the file of a changed ConfigMap while the worker runs."""
    clock, file = Clock(), tmp_path / "prices.json"
    path = table_file(file, "us-gov-west-1", 0.13)
    pricing = prices_of(Region("us-gov-west-1", "USD", 9.9, 0.04), clock=clock, table_path=path)
    before = pricing.current(dedicated=True)[0]
    table_file(file, "us-gov-west-1", 0.14)
    clock.now = TTL_SECONDS
    version, prices = pricing.current(dedicated=True)
    assert version > before
    assert prices.on_demand == {"m5.large": 0.14}
    file.write_text("{")
    clock.now = 2 * TTL_SECONDS
    assert pricing.current(dedicated=True) == (version, prices)


def test_aws130_a_type_that_a_table_lacks_is_not_bought_at_another_regions_price() -> None:
    """us-east-1 sells m8g.large for less than GovCloud sells any type of its size."""
    region = Region("us-gov-west-1", "USD", 9.9, 0.04)
    pricing = prices_of(region)
    assert pricing.current()[1].of("m8g.large", "us-gov-west-1a", "on-demand") is None
    text = pricing.unpriced([sold("m5.large"), sold("m8g.xlarge"), sold("m8g.large"), sold("mac2.metal", "arm64_mac")])
    assert "2 instance types have no on-demand price" in text
    assert "such as m8g.large, m8g.xlarge" in text
    assert "the built-in table of us-gov-west-1 (as of 2025-01-20)" in text


def sold(name: str, architecture: str = "arm64") -> dict[str, Any]:
    """What EC2 says of a type that it sells."""
    return {
        "InstanceType": name,
        "SupportedUsageClasses": ["on-demand", "spot"],
        "SupportedVirtualizationTypes": ["hvm"],
        "ProcessorInfo": {"SupportedArchitectures": [architecture]},
    }


@pytest.mark.integration
def test_aws130_what_the_price_list_does_not_sell_is_no_warning(
    clients: Ec2, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some types are sold as spot or in capacity blocks only. A user can do nothing about them."""
    monkeypatch.delitem(server.world.prices.on_demand, "m5.large")
    catalogue = Catalogue(clients, Pricing(clients))
    catalogue.warm()
    assert catalogue.price_warnings() == []
    assert catalogue.unpriced_types() == (
        "1 instance type has no on-demand price: m5.large is not in the price list of us-west-2, and Tenon does not "
        "buy it on demand"
    )


@pytest.mark.parametrize("region", ["us-east-1", "us-gov-east-1", "us-gov-west-1", "cn-north-1"])
def test_aws130_prices_in_a_table_grow_with_the_size(region: str) -> None:
    """A misplaced digit in a table would make a size of a family far cheaper or dearer than its neighbors."""
    sizes = {"large": 2, "xlarge": 4, "2xlarge": 8, "4xlarge": 16, "8xlarge": 32, "12xlarge": 48, "24xlarge": 96}
    prices = built_in_table(region).on_demand
    families = {name.partition(".")[0] for name in prices if name[0] in "cmr" and name[1].isdigit()}
    assert len(families) > 20
    for family in families:
        per_cpu = [prices[f"{family}.{size}"] / cpus for size, cpus in sizes.items() if f"{family}.{size}" in prices]
        assert max(per_cpu, default=1) < 1.15 * min(per_cpu, default=1), family


@pytest.mark.parametrize(
    ("region", "asked_in"),
    [
        ("us-west-2", "us-east-1"),
        ("sa-east-1", "us-east-1"),
        ("eu-north-1", "eu-central-1"),
        ("ap-southeast-2", "ap-south-1"),
        ("cn-north-1", "cn-northwest-1"),
    ],
)
def test_aws131_the_price_list_is_asked_in_the_partition(region: str, asked_in: str) -> None:
    assert pricing_region(region) == asked_in


@pytest.mark.integration
def test_the_last_known_prices_stay(clients: Ec2, server: Server) -> None:
    """AWS-133."""
    clock = Clock()
    pricing = Pricing(clients, clock)
    current = pricing.current()
    fail(server, "GetProducts", "DescribeSpotPriceHistory")
    clock.now = TTL_SECONDS
    assert pricing.current() == current


@pytest.mark.integration
def test_the_last_known_types_stay(clients: Ec2, server: Server, ready_class: EC2NodeClass) -> None:
    """A failing EC2 must not stop plans; but with nothing known, the failure is said."""
    catalogue = Catalogue(clients, Pricing(clients))
    fail(server, "DescribeInstanceTypes")
    with pytest.raises(EC2Error, match="DescribeInstanceTypes"):
        catalogue.instance_types(ready_class)
    server.world.faults.clear()
    instance_types = catalogue.instance_types(ready_class)
    catalogue.forget()
    fail(server, "DescribeInstanceTypes")
    assert catalogue.instance_types(ready_class) is instance_types
