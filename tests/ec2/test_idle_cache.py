"""What nobody uses leaves the cache, but only when something new comes."""

from __future__ import annotations

from activities.ec2.idle_cache import IdleCache


class Clock:
    """A clock that tests set."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_an_unused_value_leaves_when_something_new_comes() -> None:
    clock = Clock()
    cache = IdleCache[str, int](seconds=10.0, most=100, clock=clock)
    cache.put("deleted", 1)
    cache.put("used", 2)
    clock.now += 9.0
    assert cache.get("used") == 2
    clock.now += 2.0
    assert cache.put("new", 3) == 3
    assert (cache.get("deleted"), cache.get("used"), cache.get("new")) == (None, 2, 3)


def test_a_quiet_cluster_finds_everything_as_it_left_it() -> None:
    clock = Clock()
    cache = IdleCache[str, int](seconds=10.0, most=100, clock=clock)
    cache.put("a", 1)
    cache.put("b", 2)
    clock.now += 1000.0
    assert (cache.get("a"), cache.get("b")) == (1, 2)


def test_of_too_many_values_the_one_used_last_longest_ago_leaves() -> None:
    clock = Clock()
    cache = IdleCache[str, int](seconds=10.0, most=2, clock=clock)
    cache.put("a", 1)
    cache.put("b", 2)
    cache.get("a")
    cache.put("c", 3)
    assert (cache.get("a"), cache.get("b"), cache.get("c"), len(cache)) == (1, None, 3, 2)


def test_a_value_is_replaced() -> None:
    cache = IdleCache[str, int](seconds=10.0, most=2, clock=Clock())
    cache.put("a", 1)
    cache.put("b", 2)
    cache.put("a", 3)
    assert (cache.get("a"), cache.get("b"), len(cache)) == (3, 2, 2)
