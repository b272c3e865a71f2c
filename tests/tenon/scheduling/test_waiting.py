"""What events, commands and pages say of a pod without a node is one sentence."""

from __future__ import annotations

from tenon.scheduling.explanation.waiting import (
    MAX_EVENT,
    WaitsFor,
    event_message,
    explain_command,
    reason_in,
    waiting_text,
)

WHY = "NodePool default: needs 5000 CPU; the largest type it allows has 95.9 CPU"


def test_an_event_says_the_sentence_and_names_the_command_that_says_more() -> None:
    message = event_message(WHY, "shop/web-1")
    assert message == f"No node is bought for the pod: {WHY}; `tenon explain pod shop/web-1` says more"
    assert message.startswith(waiting_text(WaitsFor.NOTHING_FITS, WHY))


def test_the_reason_is_read_from_an_event_and_from_no_other_message() -> None:
    assert reason_in(event_message(WHY, "shop/web-1")) == WHY
    other = "EC2 has no spot capacity at all (c6g.large first); 2 NodeClaims found no capacity"
    assert reason_in(other) == other
    assert reason_in("") == ""


def test_a_long_reason_is_cut_and_the_command_is_not() -> None:
    why = "; ".join(f"NodePool pool-{number}: its taint is not tolerated" for number in range(100))
    message = event_message(why, "shop/web-1")
    assert len(message) <= MAX_EVENT
    assert message.endswith(f" more NodePools; `{explain_command('shop/web-1')}` says more")
    assert reason_in(message).startswith("NodePool pool-0: its taint")
