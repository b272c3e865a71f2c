"""EC2 prices: list prices from the price list service, or a table, and spot prices from the price history.

Prices are cached for twelve hours. A failing service never stops a launch: the last known prices stay in use. Before
the first answer, list prices are those of the operator's table or a built-in one, and spot capacity counts at the list
price. `warnings` says which prices are not the region's own, or are old.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import TypeVar

from activities import loggers, metrics
from activities.clock import utc_now
from activities.ec2.client import Ec2
from activities.ec2.errors import EC2Error, translated
from activities.ec2.price_list import dedicated_prices, list_prices, volume_prices
from activities.ec2.price_tables import OLD_AFTER, PriceTableError, built_in_table, read_table
from tenon.ec2.types.capacity import Item
from tenon.ec2.types.instance_types import Prices, without_list_price

log = loggers.PRICING

TTL_SECONDS = 12 * 3600.0
RETRY_SECONDS = 300.0
"""How soon to ask again after a service returned no prices."""
FIRST_RETRY_SECONDS = 20.0
"""How soon to ask again if a service that has not returned prices yet did not answer. It doubles up to RETRY_SECONDS,
because plans wait while a service that cannot be reached is asked.
"""
SHOWN_TYPES = 3
Key = TypeVar("Key")
_PRODUCTS = ("Linux/UNIX", "Linux/UNIX (Amazon VPC)")


def why_no_price_list(region: str, *, isolated: bool) -> str:
    """Return why the price list service is not asked; empty if it is."""
    if isolated:
        return "Tenon does not ask the price list service with ISOLATED_VPC=true"
    if region.startswith("us-gov-"):
        return "the price list service does not serve accounts of AWS GovCloud"
    return ""


class Pricing:
    """Reads the current prices and refreshes them when they expire. Thread-safe."""

    def __init__(
        self,
        clients: Ec2,
        clock: Callable[[], float] = time.monotonic,
        *,
        isolated: bool = False,
        table_path: str = "",
        now: Callable[[], datetime] = utc_now,
    ) -> None:
        """``isolated``: do not call the price list service, which has no VPC endpoint; use the prices of a table.

        ``table_path``: the file of the setting PRICE_TABLE; empty for a built-in table.

        Raises:
            PriceTableError: the file cannot be used.
        """
        self._clients = clients
        self._clock = clock
        self._now = now
        self._table_path = table_path
        self._no_list = why_no_price_list(clients.region, isolated=isolated)
        self._lock = threading.Lock()
        self._table = read_table(table_path, clients.region) if table_path else built_in_table(clients.region)
        self._prices = Prices(on_demand=self._table.on_demand)
        self._version = 0
        self._is_listed = False
        """Whether the list prices are those of the price list. They may be equal to the built-in ones."""
        self._read_again_at: dict[str, float] = {}
        """By kind of prices; without a kind that was not asked for yet."""
        self._pauses: dict[str, float] = {}
        """By kind of prices, how soon to ask again after the last failure, if none are known."""
        self._listed_dedicated: Mapping[str, float] = {}
        """On-demand prices of dedicated instances, once they are needed: few clusters need this half of the list."""
        self._dedicated_prices: tuple[int, Prices] | None = None
        """With the version that they belong to."""
        self._failures = {"list": self._no_list, "dedicated": self._no_list} if self._no_list else {}

    def warnings(self) -> list[str]:
        """Which prices are not known, why, and what is used instead; empty if all prices are those of the region.

        Does not wait for prices that are being read, and says nothing before they have been read once.
        """
        prices, failures, region = self._prices, dict(self._failures), self._clients.region
        stand_in = self._stand_in_warning()
        warnings = [stand_in] if stand_in else []
        if not prices.spot and "spot" in failures:
            warnings.append(
                f"the spot prices of {region} are unknown ({failures['spot']}): Tenon uses on-demand prices for spot"
            )
        if "dedicated" in self._read_again_at and not self._dedicated:
            warnings.append(
                f"the prices of dedicated instances of {region} are unknown ({failures['dedicated']}): Tenon uses "
                "those of shared tenancy"
            )
        return warnings

    def _stand_in_warning(self) -> str:
        """Which table stands in for the price list and why it may be wrong; empty if the prices are the region's."""
        table, region = self._table, self._clients.region
        if self._is_listed or "list" not in self._failures:
            return ""
        is_old = table.is_old(self._now().date())
        is_intended = region in table.regions and (self._no_list or table.path)
        if is_intended and not is_old:
            return ""
        age = f", which is more than {OLD_AFTER.days} days old" if is_old else ""
        return (
            f"the on-demand prices of {region} are unknown ({self._failures['list']}): Tenon uses those of "
            f"{table.region}, from {table}{age}; `tenon prices {region}` writes a table for the setting PRICE_TABLE"
        )

    @property
    def list_source(self) -> str:
        """Where the on-demand prices come from, for a sentence."""
        return f"the price list of {self._clients.region}" if self._is_listed else str(self._table)

    @property
    def is_listed(self) -> bool:
        """Whether the on-demand prices come from the price list, which is complete, and not from a built-in table."""
        return self._is_listed

    def volumes(self) -> Mapping[str, float]:
        """The price of a GiB of EBS for a month, by volume type. It asks the price list each time."""
        listed = {} if self._no_list else self._read("volumes", self._volume_list)
        return listed or self._table.volumes

    def _volume_list(self) -> dict[str, float]:
        return volume_prices(self._clients.pricing, self._clients.region, self._table.currency)

    def unpriced(self, items: Iterable[Item]) -> str:
        """Say which of these types of the region have no on-demand price; empty if all have one."""
        missing = sorted(without_list_price(items, self._prices))
        if not missing:
            return ""
        if len(missing) == 1:
            return (
                f"1 instance type has no on-demand price: {missing[0]} is not in {self.list_source}, and Tenon does "
                "not buy it on demand"
            )
        more = ", ..." if len(missing) > SHOWN_TYPES else ""
        return (
            f"{len(missing)} instance types have no on-demand price, such as {', '.join(missing[:SHOWN_TYPES])}{more}: "
            f"they are not in {self.list_source}, and Tenon does not buy them on demand"
        )

    def current(self, *, dedicated: bool = False) -> tuple[int, Prices]:
        """The version of the prices, a number that grows with each change, and the prices.

        ``dedicated``: of dedicated instances.
        """
        with self._lock:
            if self._is_due("list") or self._is_due("spot"):
                self._refresh()
            if not dedicated:
                return self._version, self._prices
            if self._is_due("dedicated"):
                self._refresh_dedicated()
            if self._dedicated_prices is None or self._dedicated_prices[0] != self._version:
                composed = self._prices.in_dedicated_tenancy(self._dedicated) if self._dedicated else self._prices
                self._dedicated_prices = (self._version, composed)
            return self._dedicated_prices

    def _refresh(self) -> None:
        old = self._prices
        on_demand = self._read_if_due("list", self._on_demand, are_known=self._is_listed)
        spot = self._read_if_due("spot", self._spot, are_known=bool(old.spot))
        self._is_listed = self._is_listed or bool(on_demand)
        if not self._is_listed:
            self._read_table_again()
        unlisted = old.on_demand if self._is_listed else self._table.on_demand
        new = Prices(on_demand=on_demand or unlisted, spot=spot or old.spot)
        if new != old:
            self._version += 1
            self._prices = new
        if on_demand:
            metrics.LIST_PRICES_TIME.set(self._now().timestamp())
        elif not self._is_listed:
            metrics.LIST_PRICES_TIME.set(datetime.fromisoformat(self._table.as_of).replace(tzinfo=UTC).timestamp())
        if warning := self._stand_in_warning():
            log.warning(
                "The worker plans with on-demand prices that may be wrong",
                extra={"region": self._clients.region, "error": warning},
            )

    def _read_table_again(self) -> None:
        """Read the file of the operator, which may have changed: Kubernetes writes a changed ConfigMap into it."""
        if not self._table_path:
            return
        try:
            table = read_table(self._table_path, self._clients.region)
        except PriceTableError as error:
            log.warning("The worker failed to read its price table and keeps the last one", extra={"error": str(error)})
            return
        if table != self._table:
            self._version += 1
            self._table = table

    @property
    def _dedicated(self) -> Mapping[str, float]:
        """On-demand prices of dedicated instances; empty if they are not known."""
        return self._listed_dedicated or self._table.dedicated

    def _refresh_dedicated(self) -> None:
        are_known = bool(self._listed_dedicated)
        dedicated_prices = self._read_if_due("dedicated", self._dedicated_list, are_known=are_known)
        if dedicated_prices and dedicated_prices != self._listed_dedicated:
            self._version += 1
            self._listed_dedicated = dedicated_prices

    def _is_due(self, kind: str) -> bool:
        return self._clock() >= self._read_again_at.get(kind, float("-inf"))

    def _read_if_due(
        self, kind: str, ask: Callable[[], Mapping[Key, float]], *, are_known: bool
    ) -> Mapping[Key, float]:
        """Read prices if it is time and a service has them. ``are_known``: whether they were read before."""
        if not self._is_due(kind):
            return {}
        has_service = kind == "spot" or not self._no_list
        prices = self._read(kind, ask) if has_service else {}
        after_failure = RETRY_SECONDS if are_known else self._pauses.get(kind, RETRY_SECONDS)
        self._read_again_at[kind] = self._clock() + (TTL_SECONDS if prices or not has_service else after_failure)
        return prices

    def _read(self, kind: str, ask: Callable[[], Mapping[Key, float]]) -> Mapping[Key, float]:
        try:
            prices = ask()
        except EC2Error as error:
            log.warning("The worker failed to read prices and keeps the last known ones", extra={"error": str(error)})
            self._failures[kind] = error.explained
            pause = 2 * self._pauses.get(kind, FIRST_RETRY_SECONDS / 2) if error.retryable else RETRY_SECONDS
            self._pauses[kind] = min(pause, RETRY_SECONDS)
            return {}
        self._failures[kind] = "AWS lists none"
        return prices

    def _on_demand(self) -> dict[str, float]:
        return list_prices(self._clients.pricing, self._clients.region, self._table.currency)

    def _dedicated_list(self) -> dict[str, float]:
        return dedicated_prices(self._clients.pricing, self._clients.region, self._table.currency)

    def _spot(self) -> dict[tuple[str, str], float]:
        newest: dict[tuple[str, str], tuple[datetime, float]] = {}
        paginator = self._clients.ec2.get_paginator("describe_spot_price_history")
        with translated("DescribeSpotPriceHistory"):
            pages = paginator.paginate(
                ProductDescriptions=list(_PRODUCTS),
                StartTime=utc_now(),
                PaginationConfig={"PageSize": 1000},
            )
            for page in pages:
                for row in page["SpotPriceHistory"]:
                    key = (str(row["InstanceType"]), row["AvailabilityZone"])
                    spot_price = (row["Timestamp"], float(row["SpotPrice"]))
                    newest[key] = max(newest.get(key, spot_price), spot_price)
        return {key: price for key, (_, price) in newest.items()}
