"""The metrics that the code declares, for tests of what names them: documents, alerts and dashboards."""

from __future__ import annotations

from prometheus_client.metrics import MetricWrapperBase

from activities import metrics

HISTOGRAM_PARTS = ("_bucket", "_sum", "_count")


def declared() -> dict[str, tuple[str, tuple[str, ...]]]:
    """The type and the labels of each metric, by its name."""
    result = {}
    for metric in vars(metrics).values():
        if isinstance(metric, metrics.TextGauge):
            result[metric.name] = ("gauge", metric.labels)
        if isinstance(metric, metrics.TextSummary):
            result[metric.name] = ("summary", metric.labels)
        if isinstance(metric, MetricWrapperBase):
            (described,) = metric.describe()
            name = f"{described.name}_total" if described.type == "counter" else described.name
            result[name] = (described.type, metric._labelnames)
    return result


def series() -> dict[str, frozenset[str]]:
    """The labels of each series that a query may name."""
    result: dict[str, frozenset[str]] = {}
    for name, (kind, labels) in declared().items():
        names = [f"{name}{part}" for part in HISTOGRAM_PARTS] if kind == "histogram" else [name]
        result |= {name: frozenset(labels) | ({"le"} if name.endswith("_bucket") else set()) for name in names}
    return result
