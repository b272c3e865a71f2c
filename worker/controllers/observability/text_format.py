"""Prometheus' text format, for metrics that a process computes from the cache when it is scraped.

The Prometheus client would hold an object for each series, and a cluster of 5,000 nodes has hundreds of thousands.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from itertools import islice

from activities.metrics import TextGauge, TextSummary
from tenon.resources import CPU

LINES = 5000
"""Lines in one piece of text."""


def escaped(value: str) -> str:
    """A label's value as the text format writes it. One bad line makes Prometheus refuse the whole scrape, and tenants
    choose some texts freely: the kind of an owner, a zone in an affinity, the type of a condition.
    """
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


def labeled(labels: Mapping[str, str]) -> str:
    """Labels without those that are empty, which are the same to Prometheus as missing ones."""
    return ",".join(f'{name}="{escaped(value)}"' for name, value in labels.items() if value)


def header(metric: TextGauge | TextSummary) -> str:
    """The lines that introduce a metric."""
    kind = "summary" if isinstance(metric, TextSummary) else "gauge"
    return f"# HELP {metric.name} {metric.documentation}\n# TYPE {metric.name} {kind}\n"


def gauge_text(gauge: TextGauge, series: Iterable[tuple[str, float]]) -> Iterator[str]:
    """A gauge in pieces. ``series`` has the labels and the value of each series."""
    yield header(gauge)
    name = gauge.name
    lines = (f"{name}{{{labels}}} {value}\n" for labels, value in series)
    while piece := "".join(islice(lines, LINES)):
        yield piece


@cache
def resource_label(resource: str) -> str:
    """A resource as the label ``resource_type``."""
    return f'resource_type="{resource.lower().replace("-", "_")}"'


def amount(resource: str, units: int) -> float:
    """An amount of a resource as metrics state it: CPU in cores."""
    return units / 1000 if resource == CPU else units
