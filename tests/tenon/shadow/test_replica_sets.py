"""A ReplicaSet that is scaled in deletes pods of the model by their places there, whichever the cluster deletes."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from tenon.shadow.pods import WAITS
from tests.tenon.shadow.models import BOOT, Steps, live


def on_nodes(*counts: int) -> Steps:
    """Pods ``NODE-NUMBER`` of one Deployment on ready nodes, so many on each. They are numbered from 0."""
    steps = Steps()
    for number in range(len(counts)):
        steps.feed(live(f"first-{number}", cpu="30"))  # none of the other nodes has room for it
        steps.pass_time(2)
    steps.feed(ended=list(steps.cluster.pods))
    steps.pass_time(BOOT)
    for number, count in enumerate(counts):
        for pod in range(count):
            steps.feed(live(f"{number}-{pod}"))
            steps.cluster.place(f"uid-{number}-{pod}", f"shadow-{number + 1}", steps.now)
    steps.pass_time(600)
    assert loads(steps) == list(counts)
    return steps


def loads(steps: Steps) -> list[int]:
    """How many pods each node has."""
    return [len(node.pods) for node in steps.cluster.nodes.values()]


def test_pods_of_the_node_with_most_of_them_go_first() -> None:
    steps = on_nodes(4, 1, 1)
    steps.feed(ended=["uid-1-0", "uid-2-0"])
    assert loads(steps) == [2, 1, 1]
    assert not steps.cluster.faults()


def test_a_pod_that_waits_goes_before_those_that_run() -> None:
    steps = on_nodes(3, 1)
    steps.feed(live("new"))
    steps.feed(ended=["uid-0-1"])
    assert loads(steps) == [3, 1]
    assert not list(steps.cluster.waiting())
    assert steps.cluster.pods["uid-new"].node != WAITS


def test_a_lower_deletion_cost_goes_first() -> None:
    steps = on_nodes(3, 1)
    pod = steps.cluster.pods["uid-1-0"]
    record = replace(pod.live.record, deletion_cost="-10")
    steps.feed(replace(pod.live, record=record))
    steps.feed(ended=["uid-0-0"])
    assert loads(steps) == [3, 0]


def test_a_pod_that_trades_its_place_leaves_the_other_node_as_quiet_as_it_was() -> None:
    steps = on_nodes(2, 1)
    staying, losing = steps.cluster.nodes["shadow-2"], steps.cluster.nodes["shadow-1"]
    quiet = staying.quiet
    moved = steps.cluster.pods["uid-1-0"]
    moved.live = moved.live.created_at(steps.now - 60)
    steps.feed(ended=["uid-1-0"])
    assert staying.quiet == quiet
    assert losing.quiet == steps.now
    (pod,) = staying.pods.values()
    assert pod.created == steps.now - 60, "a pod that was moved there rests there"


def test_a_pod_trades_its_place_when_its_deletion_begins_and_keeps_it_until_it_is_gone() -> None:
    steps = on_nodes(2, 1)
    steps.feed(live("1-0", ends=True))
    ending = steps.cluster.pods["uid-1-0"]
    assert (ending.node, ending.live.ends) == ("shadow-1", True)
    steps.feed(live("1-0", ends=True))
    steps.feed(ended=["uid-1-0"])
    assert loads(steps) == [1, 1]


def test_pods_that_another_controller_evicts_keep_their_places() -> None:
    steps = on_nodes(2, 1)
    steps.feed(live("1-0", ends=True, node_leaves=True))
    assert steps.cluster.pods["uid-1-0"].node == "shadow-2"


def test_pods_of_other_owners_end_where_they_are() -> None:
    steps = on_nodes(2, 1)
    for name in ("0-0", "0-1", "1-0"):
        steps.feed(live(name, kind="Job"))
    steps.feed(ended=["uid-1-0"])
    assert loads(steps) == [2, 0]


@given(
    counts=st.lists(st.integers(1, 4), min_size=1, max_size=4),
    data=st.data(),
)
def test_the_nodes_are_as_full_whichever_pods_the_cluster_deletes(counts: list[int], data: st.DataObject) -> None:
    total = sum(counts)
    many = data.draw(st.integers(0, total))
    results = []
    for _ in range(2):
        steps = on_nodes(*counts)
        uids = sorted(steps.cluster.pods)
        deleted = data.draw(st.permutations(uids))[:many]
        steps.feed(ended=deleted)
        assert set(steps.cluster.pods) == set(uids).difference(deleted)
        assert not steps.cluster.faults()
        results.append(sorted(loads(steps)))
    assert results[0] == results[1]
