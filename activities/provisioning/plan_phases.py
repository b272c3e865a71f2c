"""Measures and records the phases of a plan."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from activities import metrics
from activities.tracing import spans
from activities.tracing.catalogue import Phase


@contextmanager
def plan_phase(name: str, span: Phase) -> Iterator[None]:
    """Measure and record a phase of a plan. ``name`` is that of the metric's label."""
    with metrics.PLAN_PHASE_SECONDS.labels(name).time(), spans.phase(span):
        yield
