"""The gauges of a sample: what NodePools, the dearest namespaces and the dearest workloads cost an hour.

Tenants choose how many namespaces and workloads there are, so each gauge has a limited number of series. What they do
not name is one series together, so that a sum over a gauge is right. The label is called pod_namespace, because
Prometheus replaces a label ``namespace`` by that of the worker.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeVar

from activities.metrics import COST_BY_KIND, COST_BY_NAMESPACE, COST_BY_WORKLOAD, COST_LOWER_BOUND
from tenon.cost.sampling import OTHERS, Sample
from tenon.cost.split import PAID_FOR_PODS
from tenon.money import dollars
from worker.controllers.observability.text_format import gauge_text, labeled

MAX_NAMESPACES = 100
MAX_WORKLOADS = 50
Key = TypeVar("Key", str, tuple[str, str])


def cost_texts(sample: Sample, lower_bound: float | None = None) -> Iterator[str]:
    """The gauges in Prometheus' text format, in pieces."""
    yield from gauge_text(COST_LOWER_BOUND, [] if lower_bound is None else [("", round(lower_bound, 6))])
    kinds: dict[tuple[str, str], int] = {}
    namespaces: dict[str, int] = {}
    workloads: dict[tuple[str, str], int] = {}
    for pool, prices in sample.items():
        for consumer, price in prices.items():
            kinds[pool, consumer.kind.value] = kinds.get((pool, consumer.kind.value), 0) + price
            if consumer.kind in PAID_FOR_PODS:
                workload = (consumer.namespace, consumer.workload)
                namespaces[consumer.namespace] = namespaces.get(consumer.namespace, 0) + price
                workloads[workload] = workloads.get(workload, 0) + price
    yield from gauge_text(
        COST_BY_KIND,
        [(labeled({"nodepool": pool, "kind": kind}), dollars(kinds[pool, kind])) for pool, kind in sorted(kinds)],
    )
    yield from gauge_text(
        COST_BY_NAMESPACE,
        [(labeled({"pod_namespace": name}), price) for name, price in _dearest(namespaces, MAX_NAMESPACES, OTHERS)],
    )
    yield from gauge_text(
        COST_BY_WORKLOAD,
        [
            (labeled({"pod_namespace": namespace, "workload": workload}), price)
            for (namespace, workload), price in _dearest(workloads, MAX_WORKLOADS, (OTHERS, ""))
        ],
    )


def _dearest(prices: Mapping[Key, int], most: int, others: Key) -> list[tuple[Key, float]]:
    """The dearest in dollars an hour, in order of their names, and the sum of the others."""
    by_price = sorted(prices, key=lambda key: (-prices[key], key))
    series = [(key, dollars(prices[key])) for key in sorted(by_price[:most])]
    if rest := sum(prices[key] for key in by_price[most:]):
        series.append((others, dollars(rest)))
    return series
