"""Sets gauges with a label for an object, whose series drop to 0 when the object is gone.

The metrics of all processes of a worker are served from files, and a series in such a file cannot be removed: its last
value would alert about a deleted NodePool forever. So this module remembers the series as long as they exist: for the
life of the process. A leader that leads again also sets those to 0 whose object went while another replica led.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TypeVar

from prometheus_client import Gauge

Labels = TypeVar("Labels", bound=tuple[str, ...])

_SERIES: dict[Gauge, dict[str, frozenset[tuple[str, ...]]]] = {}
"""By gauge and object: the label values of the series that the last report set."""


def report(gauge: Gauge, values: Mapping[Labels, float], of: str = "") -> None:
    """Set the values of a gauge by their label values. All other series of the gauge drop to 0.

    ``of``: an object that is reported by itself. Series of others stay as they are.
    """
    reported = _SERIES.setdefault(gauge, {})
    for labels in reported.get(of, frozenset()) - values.keys():
        gauge.labels(*labels).set(0)
    for labels, value in values.items():
        gauge.labels(*labels).set(value)
    reported[of] = frozenset(values)


def end_all_but(gauge: Gauge, objects: Collection[str]) -> None:
    """Set the series of all other objects to 0."""
    reported = _SERIES.get(gauge, {})
    for name in [name for name in reported if name not in objects]:
        report(gauge, {}, of=name)
        del reported[name]
