"""Since when a wave tries in vain to start nodes of a new version, although each of its nodes is young."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from tenon.rollout.nodes import PoolNode
from tenon.rollout.starting import starting_since

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


def at(minutes: int) -> datetime:
    return BEGIN + timedelta(minutes=minutes)


def node(minutes: int, *, initialized: bool = False) -> PoolNode:
    """A node that was created after so many minutes."""
    return PoolNode(f"web-{minutes}", "a", at(minutes), "new", initialized)


def test_the_first_node_that_starts_begins_the_time() -> None:
    assert starting_since(None, [node(3), node(2)], at(5), under_way=True, refused=False) == at(2)


def test_a_later_try_and_the_pause_before_it_do_not_end_the_time() -> None:
    since = starting_since(at(2), [], at(12), under_way=True, refused=False)
    assert starting_since(since, [node(16)], at(17), under_way=True, refused=False) == at(2)


def test_a_refusal_of_which_no_node_is_left_begins_the_time() -> None:
    assert starting_since(None, [], at(5), under_way=True, refused=True) == at(5)


def test_a_node_that_became_initialized_ends_the_time() -> None:
    assert starting_since(at(2), [node(2, initialized=True)], at(4), under_way=True, refused=False) is None


def test_a_node_of_an_earlier_wave_does_not_end_the_time() -> None:
    assert starting_since(at(2), [node(0, initialized=True)], at(4), under_way=True, refused=True) == at(2)


def test_a_wave_that_replaces_nothing_any_more_starts_nothing() -> None:
    assert starting_since(at(2), [], at(4), under_way=False, refused=True) is None
