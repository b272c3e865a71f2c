"""What the cluster costs an hour in its largest parts, for a page: bounded, whatever the cluster has."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from tenon.cost.sampling import Sample
from tenon.cost.split import PAID_FOR_PODS
from tenon.messages.provisioning import ClusterCost, CostPart
from tenon.money import dollars

MOST_PARTS = 5
"""How many NodePools and namespaces are named."""


def summary_of(sample: Sample, *, at: datetime, nodes: int, others: int, lower_bound: float | None) -> ClusterCost:
    """Return the summary of a sample.

    Args:
        sample: what each consumer costs.
        at: when it was taken.
        nodes: how many instances it is of.
        others: how many nodes Tenon did not launch, which it leaves out.
        lower_bound: dollars an hour.
    """
    pools: dict[str, int] = {}
    namespaces: dict[str, int] = {}
    for pool, prices in sample.items():
        for consumer, price in prices.items():
            pools[pool] = pools.get(pool, 0) + price
            if consumer.kind in PAID_FOR_PODS:
                namespaces[consumer.namespace] = namespaces.get(consumer.namespace, 0) + price
    total, used = sum(pools.values()), sum(namespaces.values())
    return ClusterCost(
        at=at,
        nodes=nodes,
        others=others,
        price=dollars(total),
        lower_bound=lower_bound,
        pools=_dearest(pools),
        more_pools=max(0, len(pools) - MOST_PARTS),
        namespaces=_dearest(namespaces),
        more_namespaces=max(0, len(namespaces) - MOST_PARTS),
        unused=dollars(total - used),
    )


def _dearest(prices: Mapping[str, int]) -> list[CostPart]:
    names = sorted(prices, key=lambda name: (-prices[name], name))[:MOST_PARTS]
    return [CostPart(name=name, price=dollars(prices[name])) for name in names]
