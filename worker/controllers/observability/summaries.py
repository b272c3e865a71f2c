"""Summaries with quantiles over the last minutes, as Karpenter's dashboards read them.

The Prometheus client for Python knows only the sum and the count of a summary.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator

from activities.metrics import TextSummary
from worker.controllers.observability.text_format import header, labeled

QUANTILES = (0.0, 0.5, 0.9, 0.99, 1.0)
WINDOW_SECONDS = 600.0
"""How old the values may be of which the quantiles are."""
MOST_VALUES = 1000
"""Of more values in the window, only the newest count."""


class _Series:
    def __init__(self) -> None:
        self.values: deque[tuple[float, float]] = deque(maxlen=MOST_VALUES)
        """Times and values."""
        self.sum = 0.0
        self.count = 0


class Summary:
    """The values of one metric."""

    def __init__(self, metric: TextSummary, clock: Callable[[], float]) -> None:
        self._metric = metric
        self._clock = clock
        self._series: dict[tuple[str, ...], _Series] = {}

    def observe(self, value: float, *labels: str) -> None:
        """Add a value to the series with these labels."""
        series = self._series.setdefault(labels, _Series())
        series.values.append((self._clock(), value))
        series.sum += value
        series.count += 1

    def text(self) -> str:
        """The metric in Prometheus' text format. Quantiles of no value are NaN."""
        return "".join([header(self._metric), *self._lines()])

    def _lines(self) -> Iterator[str]:
        oldest = self._clock() - WINDOW_SECONDS
        for values, series in sorted(self._series.items()):
            labels = dict(zip(self._metric.labels, values, strict=True))
            recent = sorted(value for time, value in series.values if time >= oldest)
            for quantile in QUANTILES:
                value = recent[min(int(quantile * len(recent)), len(recent) - 1)] if recent else float("nan")
                yield f"{self._metric.name}{{{labeled(labels | {'quantile': f'{quantile:g}'})}}} {value}\n"
            for part, total in (("sum", series.sum), ("count", series.count)):
                yield f"{self._metric.name}_{part}{{{labeled(labels)}}} {total}\n"
