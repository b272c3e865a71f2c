"""The metrics of Temporal's client have the same series whoever leads."""

from __future__ import annotations

import socket
import uuid

from worker.runtime.telemetry.leader_series import without_terms
from workflows import names

CLUSTER = "web-plan-eu"


def queue() -> str:
    """A queue as a leader names it."""
    return names.leader_queue(CLUSTER, f"{socket.gethostname()}-{uuid.uuid4().hex[:8]}")


def metric(kind: str, *values: tuple[str, str]) -> str:
    lines = "".join(f'temporal_x{{process="cluster",task_queue="{name}"}} {value}\n' for name, value in values)
    return f"# HELP temporal_x what\n# TYPE temporal_x {kind}\n{lines}"


def test_counters_of_all_terms_are_added_up() -> None:
    text = without_terms(metric("counter", (queue(), "3"), (queue(), "4"), (queue(), "1.5")))
    assert text == metric("counter", (f"tenon-{CLUSTER}-plan-leader", "8.5"))


def test_of_gauges_the_largest_is_taken() -> None:
    text = without_terms(metric("gauge", (queue(), "10"), (queue(), "2")))
    assert text == metric("gauge", (f"tenon-{CLUSTER}-plan-leader", "10.0"))


def test_other_queues_stay_as_they_are() -> None:
    text = metric("counter", *((names.lane_queue(names.task_queue(CLUSTER), lane), "1") for lane in ("", "draining")))
    text += metric("counter", (names.plan_queue(CLUSTER), "1"))
    assert without_terms(text) == text
