"""What kept a drain is told after the node is gone."""

from __future__ import annotations

from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from tenon.messages.base import Message
from tenon.messages.node_steps import BlockedPods, DetachResult, DrainResult, TerminateResult
from tenon.node import machine
from tenon.node.drain_history import MAX_BLOCKS, VOLUMES, cause_of, with_blocks
from tenon.node.state import DrainBlock, NodeState, Stage
from tenon.node.timeline import result_of
from tenon.record.origin import Origin
from tenon.record.removals import blocked_text, removal_entry
from tests.tenon.node.launched import NOW, REF, at_live

BUDGET = "PodDisruptionBudget shop/web"
DO_NOT_DISRUPT = "annotation karpenter.sh/do-not-disrupt"


def after(minutes: float) -> timedelta:
    return timedelta(minutes=minutes)


def by_budget(*pods: str, more: int = 0) -> BlockedPods:
    why = "cannot be evicted: PodDisruptionBudget shop/web allows none"
    return BlockedPods(pods=pods, more=more, why=why, budgets=("shop/web",))


def by_annotation(pod: str) -> BlockedPods:
    return BlockedPods(pods=(pod,), why="cannot be evicted: do-not-disrupt", annotation="karpenter.sh/do-not-disrupt")


def left(*blocked: BlockedPods, remaining: int = 3) -> DrainResult:
    return DrainResult(remaining=remaining, blocked=list(blocked))


def lived(*events: tuple[float, Message]) -> NodeState:
    """A draining node after these events, each at a minute."""
    state = at_live(stage=Stage.DRAINING)
    for minute, event in events:
        state = machine.apply(state, event, NOW + after(minute))
    return state


def test_each_cause_has_its_pods_and_its_time() -> None:
    state = lived(
        (0, left(by_budget("shop/a", "shop/b"), by_annotation("batch/c"))),
        (2, left(by_budget("shop/b", "shop/d", "shop/e", more=4))),
        (10, left()),  # the pods end
        (11, left(by_budget("shop/b"))),
        (12.5, DrainResult(drained=True)),
    )
    budget, annotation = result_of(state, NOW + after(60)).drain_blocks
    assert budget == DrainBlock(
        cause=BUDGET, pods=("shop/a", "shop/b", "shop/d"), pod_count=7, since=NOW, seconds=11.5 * 60
    )
    assert annotation == DrainBlock(cause=DO_NOT_DISRUPT, pods=("batch/c",), pod_count=1, since=NOW, seconds=120)


def test_volumes_that_stay_attached_keep_a_node_too() -> None:
    state = lived(
        (0, DrainResult(drained=True, volumes_attached=2)),
        (1, DetachResult(attached=2)),
        (4, DetachResult(attached=1)),
        (6, DetachResult(detached=True)),
    )
    assert result_of(state, NOW + after(60)).drain_blocks == [
        DrainBlock(cause=VOLUMES, since=NOW + after(1), seconds=300)
    ]


def test_a_drain_that_ends_while_pods_are_kept_counts_until_the_end() -> None:
    state = lived((0, left(by_budget("shop/a"))))
    (block,) = result_of(state, NOW + after(5)).drain_blocks
    assert (block.seconds, block.lasts_since) == (300, None)


def test_a_drain_that_nothing_keeps_has_no_blocks() -> None:
    state = lived((0, left()), (1, DrainResult(drained=True)), (2, TerminateResult(terminated=True)))
    assert result_of(state, NOW + after(3)).drain_blocks == []


def test_the_entry_of_the_record_says_it_with_the_longest_first() -> None:
    state = lived(
        (0, left(by_annotation("batch/c"))),
        (1, left(by_budget("shop/a", "shop/b", "shop/c", more=2))),
        (121, DrainResult(drained=True)),
    )
    entry = removal_entry(Origin("prod", "w", "r"), NOW, "uid", result_of(state, NOW + after(122)))
    assert [blocked_text(block) for block in entry.blocked_by] == [
        f"{BUDGET} kept 5 pods (shop/a, shop/b, shop/c and 2 more) for 2h",
        f"{DO_NOT_DISRUPT} kept pod batch/c for 1m",
    ]


def test_the_entry_of_the_record_names_the_workloads_of_all_rounds_once() -> None:
    many = [f"shop/job-{number}" for number in range(30)]
    state = lived(
        (0, DrainResult(evicted=2, remaining=1, workloads=["shop/web-5d7c9"])),
        (1, DrainResult(drained=True, evicted=31, workloads=["shop/web-5d7c9", *many])),
    )
    entry = removal_entry(Origin("prod", "w", "r"), NOW, "uid", result_of(state, NOW + after(2)))
    assert (entry.pods, entry.workloads) == (33, ["shop/web-5d7c9", *many[:19]])


def test_a_cause_names_what_keeps_the_pods_and_not_the_pods() -> None:
    finalizers = BlockedPods(pods=("a/b",), why="should have ended", finalizers=("x.io/a", "x.io/b"))
    assert cause_of(finalizers) == "finalizers x.io/a, x.io/b"
    assert cause_of(BlockedPods(pods=("a/b",), why="cannot be evicted: no reason")) == "cannot be evicted: no reason"


@given(st.lists(st.lists(st.text(max_size=400), max_size=12), max_size=20))
def test_the_state_keeps_few_causes_with_short_names(rounds: list[list[str]]) -> None:
    state = NodeState(claim=REF)
    for number, names in enumerate(rounds):
        blocked = [BlockedPods(pods=(f"a/{name[:9]}",), why=name) for name in names]
        state = with_blocks(state, blocked, NOW + after(number))
    assert len(state.drain_blocks) <= MAX_BLOCKS
    assert all(len(block.cause) <= 150 and len(block.pods) <= 3 for block in state.drain_blocks)
    assert all(block.seconds <= 60 * len(rounds) for block in state.drain_blocks)
