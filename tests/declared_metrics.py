"""The metrics that the code declares, for tests of what names them: documents, alerts and dashboards."""

from __future__ import annotations

from prometheus_client.metrics import MetricWrapperBase

from activities import metrics
from worker.controllers.observability.node_gauges import LABEL_NAMES

OF_NODES = {
    metric.name for metric in vars(metrics).values() if isinstance(metric, metrics.TextGauge) and metric.of_nodes
}
"""The metrics that also have the well-known labels of their node."""
PARTS = {"histogram": ("_bucket", "_sum", "_count"), "summary": ("", "_sum", "_count")}
"""The ends of the names of a metric's series, by its type."""


def declared() -> dict[str, tuple[str, tuple[str, ...]]]:
    """The type and the labels of each metric, by its name."""
    result: dict[str, tuple[str, tuple[str, ...]]] = {}
    for value in vars(metrics).values():
        for metric in value.values() if isinstance(value, dict) else [value]:
            if isinstance(metric, metrics.TextGauge):
                result[metric.name] = ("gauge", metric.labels)
            if isinstance(metric, metrics.TextSummary):
                result[metric.name] = ("summary", metric.labels)
            if isinstance(metric, MetricWrapperBase):
                (described,) = metric.describe()
                name = f"{described.name}_total" if described.type == "counter" else described.name
                result[name] = (described.type, tuple(metric._labelnames))
    return result


def series() -> dict[str, frozenset[str]]:
    """The labels of each series that a query may name."""
    result: dict[str, frozenset[str]] = {}
    for name, (kind, labels) in declared().items():
        names = [f"{name}{part}" for part in PARTS.get(kind, ("",))]
        own = {"quantile"} if kind == "summary" else set(LABEL_NAMES.values()) if name in OF_NODES else set()
        result |= {part: frozenset(labels) | ({"le"} if part.endswith("_bucket") else own) for part in names}
    return result
