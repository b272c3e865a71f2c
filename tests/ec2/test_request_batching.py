"""Requests of many threads at the same time become one call, and calls keep their distance."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from activities.ec2.client import Ec2
from activities.ec2.instances import COLLECT_SECONDS, SPACING_SECONDS, Instances, LaunchOutcome
from activities.ec2.provider import Ec2Provider
from activities.ec2.request_batching import RequestBatcher, Turns
from tenon.apis.ec2nodeclass import EC2NodeClass
from tenon.messages.launch import LaunchGroup
from tests.ec2.instances import bought

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

    turns = Turns(0)
    batcher: RequestBatcher[str, str] = RequestBatcher(ask, turns=turns, window=0.1, most=most, sleep=Window(everyone))

    def get(name: str) -> str | None:
        arrived.release()
        return batcher.get(name)

    with ThreadPoolExecutor(len(names)) as threads:
        waiting = [threads.submit(get, name) for name in names]
        for _ in names:
            arrived.acquire()
        while sum(len(item.items) for item in [batcher._open] if item) < len(set(names)) and most > len(names):
            pass
        everyone.set()
        return calls, [item.result() for item in waiting]


def test_aws031_descriptions_are_asked_for_together() -> None:
    calls, result = asked_together(["a", "b", "unknown", "c"], most=100)
    assert calls == [["a", "b", "c", "unknown"]]
    assert result == ["A", "B", None, "C"]


def test_a_call_takes_no_more_than_it_may() -> None:
    names = [f"i-{number}" for number in range(10)]
    calls, result = asked_together(names, most=4)
    assert max(map(len, calls)) <= 4
    assert sorted(item for call in calls for item in call) == names
    assert result == [name.upper() for name in names]


def test_an_error_reaches_all_who_asked() -> None:
    with pytest.raises(ValueError, match="no answer"):
        asked_together(["a", "b"], most=100, fails=True)


def test_a_batch_that_failed_takes_no_more_requests() -> None:
    interrupted = [InterruptedError("a signal")]

    def sleep(_: float) -> None:
        if interrupted:
            raise interrupted.pop()

    turns = Turns(0)
    batcher: RequestBatcher[str, str] = RequestBatcher(
        lambda items: {i: i for i in items}, turns=turns, window=0, most=9, sleep=sleep
    )
    with pytest.raises(InterruptedError):
        batcher.get("a")
    assert batcher.get("b") == "b"


class Time:
    """Time that passes only in `sleep`, for several threads."""

    def __init__(self) -> None:
        self.now = 100.0
        self._lock = threading.Lock()

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        with self._lock:
            self.now += seconds


class Answers:
    """Answers the calls of several batchers that share their turns, and records when it is busy."""

    def __init__(self, took: Callable[[], float] = lambda: 0.2) -> None:
        self.clock = Time()
        self.took = took
        self.turns = Turns(SPACING_SECONDS, clock=self.clock, sleep=self.clock.sleep)
        self.busy: list[tuple[float, float]] = []
        self.requests: list[list[str]] = []
        self.meanwhile: Callable[[], None] = lambda: None
        self.failures = 0

    def batcher(self, most: int = 200) -> RequestBatcher[str, str]:
        return RequestBatcher(self.answer, turns=self.turns, window=COLLECT_SECONDS, most=most, sleep=self.clock.sleep)

    def answer(self, items: Sequence[str]) -> Mapping[str, str]:
        began = self.clock.now
        self.requests.append(list(items))
        self.meanwhile()
        self.clock.sleep(self.took())
        self.busy.append((began, self.clock.now))
        if self.failures:
            self.failures -= 1
            raise ConnectionError
        return {item: item.upper() for item in items}

    @property
    def gaps(self) -> list[float]:
        return [began - ended for (_, ended), (began, _) in zip(self.busy, self.busy[1:], strict=False)]


def test_h7_the_first_call_after_a_quiet_period_waits_only_for_its_batch() -> None:
    server = Answers()
    batcher = server.batcher()
    for _ in range(3):
        asked_at = server.clock.now
        batcher.get("a")
        assert server.busy[-1][0] - asked_at == pytest.approx(COLLECT_SECONDS)
        server.clock.sleep(60)


def test_h7_all_kinds_of_calls_of_a_process_share_their_turns() -> None:
    server = Answers()
    ids, claims = server.batcher(), server.batcher()
    server.failures = 2
    for batcher in (ids, claims):
        with pytest.raises(ConnectionError):
            batcher.get("a")
    for batcher in (ids, ids, claims, ids):
        batcher.get("a")
    with server.turns.turn():
        server.answer(["owned"])
    assert server.gaps == pytest.approx([SPACING_SECONDS] * 6)


def test_h7_requests_that_arrive_during_a_call_become_one_next_call() -> None:
    """A batch stays open until its turn comes, however long the call before it takes."""
    server = Answers(took=lambda: 30.0)
    batcher = server.batcher()
    later = [f"i-{number}" for number in range(20)]
    waiting: list[Future[str | None]] = []
    with ThreadPoolExecutor(len(later)) as threads:

        def all_arrive() -> None:
            server.meanwhile = lambda: None
            waiting.extend(threads.submit(batcher.get, item) for item in later)
            while (batch := batcher._open) is None or len(batch.items) < len(later):
                pass

        server.meanwhile = all_arrive
        batcher.get("first")
    assert server.requests == [["first"], sorted(later)]
    assert server.gaps[0] >= SPACING_SECONDS


def test_many_items_of_one_caller_take_as_few_calls_as_they_can() -> None:
    server = Answers()
    names = [f"i-{number:03}" for number in range(450)]
    assert server.batcher().get_all(names) == {name: name.upper() for name in names}
    assert [len(call) for call in server.requests] == [200, 200, 50]


requests = st.lists(
    st.tuples(st.integers(0, 2), st.lists(st.sampled_from([f"i-{number}" for number in range(12)]), min_size=1)),
    min_size=1,
    max_size=12,
)


@given(requests, st.integers(1, 4), st.lists(st.floats(0, 5), min_size=1), st.integers(0, 2))
def test_h7_calls_keep_their_distance_and_everybody_is_answered(
    batches_expected: list[tuple[int, list[str]]], most: int, durations: list[float], failures: int
) -> None:
    server = Answers(took=lambda: durations[len(server.requests) % len(durations)])
    server.failures = failures
    batchers = [server.batcher(most) for _ in range(3)]
    with ThreadPoolExecutor(len(batches_expected)) as threads:
        waiting = [(threads.submit(batchers[kind].get_all, items), items) for kind, items in batches_expected]
    for future, items in waiting:
        if future.exception() is None:
            assert future.result() == {item: item.upper() for item in items}
        else:
            assert isinstance(future.exception(), ConnectionError)
    assert failures or all(future.exception() is None for future, _ in waiting)
    assert all(gap >= SPACING_SECONDS - 1e-9 for gap in server.gaps)
    assert all(len(call) <= most for call in server.requests)
    assert len(server.requests) <= sum(len(set(items)) for _, items in batches_expected)


@pytest.mark.integration
def test_aws031_what_nodes_ask_of_their_instances_is_one_call(
    clients: Ec2, provider: Ec2Provider, server: Server, ready_class: EC2NodeClass
) -> None:
    living = [bought(provider, ready_class, f"asks-{number}") for number in range(4)]
    everyone = threading.Event()
    instances = Instances(clients, provider.cluster.name, provider.catalogue.price, sleep=Window(everyone))
    server.world.calls.clear()
    with ThreadPoolExecutor(len(living)) as threads:
        states = [threads.submit(instances.state, item) for item in living[:2]]
        submits = [threads.submit(instances.describe, item) for item in living[2:]]
        while (batch := instances._described._open) is None or len(batch.items) < len(living):
            assert not any(state.done() for state in states), "it was asked without the others"
            assert not any(submit.done() for submit in submits), "it was asked without the others"
        everyone.set()
        assert None not in [state.result() for state in states]
        assert [first.id for submit in submits if (first := submit.result()) is not None] == living[2:]
    assert len(server.world.calls.listing("DescribeInstances")) == 1


@pytest.mark.integration
def test_aws031_a_search_by_tag_is_one_call_for_many_nodes(
    clients: Ec2, provider: Ec2Provider, server: Server, ready_class: EC2NodeClass
) -> None:
    """Nodes without a known instance look for it by their claim, and then by their launch group."""
    living = [bought(provider, ready_class, f"searched-{number}") for number in range(3)]
    everyone = threading.Event()
    instances = Instances(clients, provider.cluster.name, provider.catalogue.price, sleep=Window(everyone))
    server.world.calls.clear()
    unknown = [LaunchGroup(id=f"never-launched-{number}", ordinal=0, size=2) for number in range(4)]
    with ThreadPoolExecutor(8) as threads:
        claims = [threads.submit(instances.by_claim, f"searched-{number}") for number in range(4)]
        groups = [threads.submit(instances.of_group, group, "searched-4") for group in unknown]
        for batcher, pods in ((instances._of_claims, claims), (instances._of_groups, groups)):
            while (batch := batcher._open) is None or len(batch.items) < len(pods):
                assert not any(item.done() for item in pods), "it was searched without the others"
        everyone.set()
        assert [first.id if (first := claim.result()) else None for claim in claims] == [*living, None]
        assert [group.result() for group in groups] == [LaunchOutcome(None, decided=False)] * 4
    assert len(server.world.calls.listing("DescribeInstances")) == 2
