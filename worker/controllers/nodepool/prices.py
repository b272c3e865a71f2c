"""The price an hour of each NodePool's nodes: shared by the controller that computes it and the one that writes it."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from tenon.provisioning.pool_price import status_price


class PoolPrices:
    """The last prices, and what was written of them."""

    def __init__(self) -> None:
        self._prices: Mapping[str, float] | None = None
        self._written: dict[str, str] = {}

    def update(self, prices: Mapping[str, float]) -> None:
        """Replace the prices: dollars an hour by NodePool. NodePools without nodes are missing."""
        self._prices = prices

    def of(self, pool: str) -> float | None:
        """Return what the instances of the NodePool cost, in dollars an hour; None before that is known."""
        return None if self._prices is None else self._prices.get(pool, 0.0)

    def change(self, pool: str, present: str) -> str | None:
        """Return what the status of the NodePool should say now; None if it can stay as it is.

        An API server with Karpenter's CRD drops the field. So what was written counts as present, or every reconcile
        would write it again.
        """
        if self._prices is None:
            return None
        before = present or self._written.get(pool, "")
        text = status_price(before, self._prices.get(pool, 0.0))
        return None if text == before else text

    def wrote(self, pool: str, text: str) -> None:
        """Remember what the API server has accepted."""
        self._written[pool] = text

    def forget_all_but(self, pools: Collection[str]) -> None:
        """Forget what was written to NodePools that are gone."""
        for pool in self._written.keys() - set(pools):
            del self._written[pool]
