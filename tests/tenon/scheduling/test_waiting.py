"""What events, commands and pages say of a pod without a node is one sentence."""

from __future__ import annotations

from tenon.kube.pool_reasons import Clause, NoPlace, Obstacle, ObstacleKind
from tenon.scheduling.explanation.waiting import MAX_EVENT, WaitsFor, event_message, explain_command, waiting_text

SIZE = Obstacle(ObstacleKind.REQUESTS, "needs 5000 CPU; the largest type it allows has 95.9 CPU")
WHY = NoPlace.in_pool("default", SIZE)


def test_an_event_says_the_sentence_and_names_the_command_that_says_more() -> None:
    message, part = event_message(WHY, "shop/web-1")
    assert message == (
        "No node is bought for the pod: NodePool default: needs 5000 CPU; the largest type it allows has 95.9 CPU; "
        "`tenon explain pod shop/web-1` says more"
    )
    assert message.startswith(waiting_text(WaitsFor.NOTHING_FITS, WHY))
    assert part == WHY


def test_a_long_reason_is_cut_and_the_command_is_not() -> None:
    taint = Obstacle(ObstacleKind.TAINTS, "its taint is not tolerated")
    why = NoPlace(tuple(Clause(f"pool-{number}", (taint,)) for number in range(100)))
    message, part = event_message(why, "shop/web-1")
    assert len(message) <= MAX_EVENT
    assert message.endswith(f" more NodePools; `{explain_command('shop/web-1')}` says more")
    assert str(part) in message
    assert part.clauses[0] == why.clauses[0]
    long_name = NoPlace.in_pool("p" * 63, Obstacle(ObstacleKind.NODEPOOL, "x" * 2000))
    assert len(event_message(long_name, f"{'n' * 63}/{'p' * 253}")[0]) <= MAX_EVENT
