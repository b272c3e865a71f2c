"""What many threads ask for at once is asked in one call."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from activities.ec2.client import Ec2
from activities.ec2.instances import Instances
from activities.ec2.provider import Ec2Provider
from activities.ec2.request_batching import Batcher
from tenon.apis.ec2nodeclass import EC2NodeClass
from tests.ec2.test_termination_batch import bought

if TYPE_CHECKING:
    from sandbox.ec2.server import Server


class Window:
    """Stands for the time that a batch is open: until so many have asked."""

    def __init__(self, batcher_full: threading.Event) -> None:
        self.full = batcher_full

    def __call__(self, _: float) -> None:
        assert self.full.wait(30)


def asked_together(names: list[str], most: int, fails: bool = False) -> tuple[list[list[str]], list[str | None]]:
    """The calls that were made for threads that ask while a batch is open, and what the threads got."""
    calls: list[list[str]] = []
    arrived = threading.Semaphore(0)
    everyone = threading.Event()

    def ask(items: Sequence[str]) -> Mapping[str, str]:
        calls.append(list(items))
        if fails:
            raise ValueError("no answer")
        return {item: item.upper() for item in items if item != "unknown"}

    batcher: Batcher[str, str] = Batcher(ask, window=0.1, most=most, sleep=Window(everyone))

    def get(name: str) -> str | None:
        arrived.release()
        return batcher.get(name)

    with ThreadPoolExecutor(len(names)) as threads:
        waiting = [threads.submit(get, name) for name in names]
        for _ in names:
            arrived.acquire()
        while sum(len(one.items) for one in [batcher._open] if one) < len(set(names)) and most > len(names):
            pass
        everyone.set()
        return calls, [each.result() for each in waiting]


def test_aws031_descriptions_are_asked_for_together() -> None:
    calls, got = asked_together(["a", "b", "unknown", "c"], most=100)
    assert calls == [["a", "b", "c", "unknown"]]
    assert got == ["A", "B", None, "C"]


def test_a_call_takes_no_more_than_it_may() -> None:
    names = [f"i-{number}" for number in range(10)]
    calls, got = asked_together(names, most=4)
    assert max(map(len, calls)) <= 4
    assert sorted(item for call in calls for item in call) == names
    assert got == [name.upper() for name in names]


def test_an_error_reaches_all_who_asked() -> None:
    with pytest.raises(ValueError, match="no answer"):
        asked_together(["a", "b"], most=100, fails=True)


def test_aws031_what_nodes_ask_of_their_instances_is_one_call(
    clients: Ec2, provider: Ec2Provider, server: Server, ready_class: EC2NodeClass
) -> None:
    living = [bought(provider, ready_class, f"asks-{number}") for number in range(4)]
    everyone = threading.Event()
    instances = Instances(clients, provider.cluster.name, provider.catalogue.price, sleep=Window(everyone))
    server.world.calls.clear()
    with ThreadPoolExecutor(len(living)) as threads:
        states = [threads.submit(instances.state, each) for each in living[:2]]
        found = [threads.submit(instances.describe, each) for each in living[2:]]
        while (batch := instances._described._open) is None or len(batch.items) < len(living):
            assert not any(each.done() for each in (*states, *found)), "it was asked without the others"
        everyone.set()
        assert None not in [each.result() for each in states]
        assert [one.id for each in found if (one := each.result()) is not None] == living[2:]
    assert len(server.world.calls.listing("DescribeInstances")) == 1
