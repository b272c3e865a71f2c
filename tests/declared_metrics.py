"""The metrics that the code declares, for tests of what names them: documents, alerts and dashboards."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client.metrics import Histogram, MetricWrapperBase

from activities import metrics
from cli.shadowing.metrics import ShadowMetrics
from worker.controllers.observability.node_gauges import LABEL_NAMES

OF_NODES = {
    metric.name for metric in vars(metrics).values() if isinstance(metric, metrics.TextGauge) and metric.of_nodes
}
"""The metrics that also have the well-known labels of their node."""
PARTS = {"histogram": ("_bucket", "_sum", "_count"), "summary": ("", "_sum", "_count")}
"""The ends of the names of a metric's series, by its type."""


_OF_CLIENT = frozenset({"namespace", "service_name", "process"})
_OF_QUEUE = _OF_CLIENT | {"task_queue"}
_OF_ACTIVITY = _OF_QUEUE | {"workflow_type", "activity_type"}
OF_TEMPORAL = {
    "temporal_request_total": _OF_CLIENT | {"operation"},
    "temporal_request_failure_total": _OF_CLIENT | {"operation", "status_code"},
    "temporal_long_request_failure_total": _OF_QUEUE | {"operation", "status_code"},
    "temporal_request_latency_seconds_bucket": _OF_CLIENT | {"operation", "le"},
    "temporal_workflow_task_schedule_to_start_latency_seconds_bucket": _OF_QUEUE | {"le"},
    "temporal_activity_schedule_to_start_latency_seconds_bucket": _OF_QUEUE | {"le"},
    "temporal_workflow_task_execution_latency_seconds_bucket": _OF_QUEUE | {"workflow_type", "le"},
    "temporal_workflow_task_replay_latency_seconds_bucket": _OF_QUEUE | {"workflow_type", "le"},
    "temporal_activity_execution_latency_seconds_bucket": _OF_ACTIVITY | {"le"},
    "temporal_activity_execution_failed_total": _OF_ACTIVITY,
    "temporal_worker_task_slots_available": _OF_QUEUE | {"worker_type"},
    "temporal_worker_task_slots_used": _OF_QUEUE | {"worker_type"},
    "temporal_num_pollers": _OF_QUEUE | {"poller_type"},
    "temporal_sticky_cache_size": _OF_QUEUE,
    "temporal_sticky_cache_hit_total": _OF_QUEUE | {"workflow_type"},
    "temporal_sticky_cache_miss_total": _OF_QUEUE | {"workflow_type"},
    "temporal_workflow_completed_total": _OF_QUEUE | {"workflow_type"},
    "temporal_workflow_continue_as_new_total": _OF_QUEUE | {"workflow_type"},
    "temporal_workflow_failed_total": _OF_QUEUE | {"workflow_type"},
}
"""The series of Temporal's client that dashboards use, as `tests/e2e/test_dashboards.py` scrapes them."""


def bounds() -> dict[str, list[float]]:
    """The upper bounds of the buckets of each histogram, by its name."""
    declared_values = [value for values in vars(metrics).values() for value in _all(values)]
    return {metric._name: metric._upper_bounds for metric in declared_values if isinstance(metric, Histogram)}


def _all(value: object) -> Iterable[object]:
    return value.values() if isinstance(value, dict) else [value]


def declared() -> dict[str, tuple[str, tuple[str, ...]]]:
    """The type and the labels of each metric, by its name."""
    result: dict[str, tuple[str, tuple[str, ...]]] = {}
    for value in vars(metrics).values():
        for metric in _all(value):
            if isinstance(metric, metrics.TextGauge):
                result[metric.name] = ("gauge", metric.labels)
            if isinstance(metric, metrics.TextSummary):
                result[metric.name] = ("summary", metric.labels)
            if isinstance(metric, MetricWrapperBase):
                (described,) = metric.describe()
                name = f"{described.name}_total" if described.type == "counter" else described.name
                result[name] = (described.type, tuple(metric._labelnames))
    return result


def of_shadow() -> dict[str, frozenset[str]]:
    """The labels of each series of `tenon shadow`."""
    result: dict[str, frozenset[str]] = {}
    for metric in vars(ShadowMetrics()).values():
        if isinstance(metric, MetricWrapperBase):
            (described,) = metric.describe()
            result[described.name] = frozenset(metric._labelnames)
    return result


def series() -> dict[str, frozenset[str]]:
    """The labels of each series that a query may name."""
    result: dict[str, frozenset[str]] = dict(OF_TEMPORAL) | of_shadow()
    for name, (kind, labels) in declared().items():
        names = [f"{name}{part}" for part in PARTS.get(kind, ("",))]
        own = {"quantile"} if kind == "summary" else set(LABEL_NAMES.values()) if name in OF_NODES else set()
        result |= {part: frozenset(labels) | ({"le"} if part.endswith("_bucket") else own) for part in names}
    return result
