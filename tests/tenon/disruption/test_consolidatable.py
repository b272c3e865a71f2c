"""From when on a NodeClaim is consolidatable: the later of its initialization and each known pod event counts."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from tenon.disruption.pool_policy import PoolPolicy
from tenon.disruption.rules.consolidatable import consolidatable_at
from tests.worker.cache.objects import claim

AFTER = timedelta(minutes=5)
POOL = PoolPolicy("pool", AFTER)


def at(minute: int) -> datetime:
    return datetime(2026, 1, 1, 0, minute, tzinfo=UTC)


def stamp(minute: int) -> str:
    return f"2026-01-01T00:{minute:02}:00Z"


@pytest.mark.parametrize(
    ("initialized", "recorded", "observations", "since"),
    [
        (10, None, None, 10),
        (10, 20, None, 20),
        (10, None, 20, 20),
        (10, 5, None, 10),
        (10, None, 5, 10),
        (10, 30, 20, 30),
        (10, 20, 30, 30),
    ],
)
def test_dis30_the_last_of_initialization_and_pod_events_counts(
    initialized: int, recorded: int | None, observations: int | None, since: int
) -> None:
    """Pods may be bound before the node is initialized, and a worker that just started has seen few events."""
    status = {} if recorded is None else {"lastPodEventTime": stamp(recorded)}
    item = claim(initialized=stamp(initialized), status=status)
    observed_at = None if observations is None else at(observations)
    assert item.quiet_since(observed_at) == at(since)
    assert consolidatable_at(item, POOL, observed_at) == at(since) + AFTER


def test_dis30_an_uninitialized_node_and_a_pool_that_never_consolidates_have_no_time() -> None:
    assert consolidatable_at(claim(status={"lastPodEventTime": stamp(5)}), POOL, at(5)) is None
    assert consolidatable_at(claim(initialized=stamp(5)), PoolPolicy("pool", None), None) is None


def test_dis30_zero_seconds_means_at_once() -> None:
    assert consolidatable_at(claim(initialized=stamp(5)), PoolPolicy("pool", timedelta()), at(7)) == at(7)
