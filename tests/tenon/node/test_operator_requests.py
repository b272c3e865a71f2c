"""Which of an operator's requests a node does, and what it says of the others."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from tenon.messages.base import ClaimRef
from tenon.messages.node import Disrupt, Keep, Operator
from tenon.node import disruption_requests, machine, operator_requests
from tenon.node.leave_text import MAX_DETAIL, MAX_NAME
from tenon.node.state import NodeState, Stage
from tests.activities.node.fake_kube import START

NOW = START + timedelta(minutes=3)
ANN = Operator(by="ann", reason="its disk is slow", ticket="OPS-12")
LATER = Keep(by="ann", reason="a long test", until=NOW + timedelta(hours=4))


def state(**fields: Any) -> NodeState:
    return NodeState(claim=ClaimRef(cluster="sandbox", name="web-1", uid="u"), **{"stage": Stage.LIVE, **fields})


OVER = LATER.model_copy(update={"until": NOW})
DRAINING = machine.apply(state(), operator_requests.drain(ANN), NOW)
FORCED = machine.apply(DRAINING, operator_requests.force_drain(ANN), NOW)


@pytest.mark.parametrize(
    ("node", "request_", "why"),
    [
        (state(), operator_requests.drain(ANN), ""),
        (state(stage=Stage.REGISTERING), operator_requests.drain(ANN), ""),
        (state(), LATER, ""),
        (state(stage=Stage.ENDED), operator_requests.drain(ANN), "it is gone"),
        (state(stage=Stage.ENDED), LATER, "it is gone"),
        (DRAINING, operator_requests.expire(ANN), "it is leaving already: Drain: its disk is slow, OPS-12 (ann)"),
        (DRAINING, operator_requests.force_drain(ANN), ""),
        (FORCED, operator_requests.force_drain(ANN), "it is leaving already: Drain: its disk is slow, OPS-12 (ann)"),
        (DRAINING, LATER, "it is leaving already: Drain: its disk is slow, OPS-12 (ann)"),
        (state(), OVER, f"{NOW:%Y-%m-%d %H:%M:%S} UTC is over, and no earlier request keeps it"),
        (state(keep_until=LATER.until), OVER, ""),
        (state(keep_until=NOW), OVER, f"{NOW:%Y-%m-%d %H:%M:%S} UTC is over, and no earlier request keeps it"),
    ],
)
def test_a_node_does_what_it_accepts_and_says_why_it_does_not(node: NodeState, request_: Any, why: str) -> None:
    answer = operator_requests.answer(node, request_, NOW)
    assert (answer.accepted, answer.why) == (not why, why)
    assert (machine.apply(node, request_, NOW) != node) or not answer.accepted


@pytest.mark.parametrize(
    ("operator", "why"),
    [
        (ANN, ""),
        (Operator(by="ann"), ""),
        (Operator(by=" ", reason="x"), "Say who asks"),
        (Operator(by="ann", reason="x" * (MAX_DETAIL + 1)), "reason has 301 characters: 300 are the most."),
        (Operator(by="ann", ticket="x" * 101), "ticket has 101 characters: 100 are the most."),
    ],
)
def test_an_update_must_say_who_asks_and_fits_on_the_nodeclaim(operator: Operator, why: str) -> None:
    assert operator_requests.why_invalid(operator).startswith(why)
    assert bool(operator_requests.why_invalid(operator)) == bool(why)


def test_a_kept_nodes_timeline_says_who_and_why() -> None:
    kept_state = machine.apply(state(), LATER, NOW)
    assert kept_state.timeline[-1].text == f"kept until {LATER.until:%Y-%m-%d %H:%M:%S} UTC: a long test (ann)"
    unsigned = machine.apply(state(), Keep(until=LATER.until), NOW)
    assert unsigned.timeline[-1].text.endswith("(an operator, by a Temporal signal)")


def test_a_time_that_is_over_ends_an_earlier_request() -> None:
    kept_state = machine.apply(state(), LATER, NOW)
    released = machine.apply(kept_state, OVER, NOW)
    assert released.timeline[-1].text == "no longer kept: a long test (ann)"
    assert (released.keep_until, released.keep_recorded) == (NOW, False), "the NodeClaim hears of it too"


def test_a_time_without_a_zone_is_utc() -> None:
    """A person types it in Temporal's UI. The workflow must be able to compare it."""
    keep = Keep.model_validate_json('{"by": "ann", "until": "2999-03-01T12:00:00"}')
    assert operator_requests.answer(state(), keep, NOW).accepted
    kept_state = machine.apply(state(), keep, NOW)
    refused = disruption_requests.answer(kept_state, Disrupt(command="c-1", reason="Empty"), NOW)
    assert refused.why == "kept until 2999-03-01 12:00:00 UTC"


def test_what_a_signal_says_is_one_short_line() -> None:
    request = operator_requests.drain(Operator(by="ann\n" * 500, reason="its disk\n\nis slow " * 500, ticket="OPS\t1"))
    assert "\n" not in request.detail + request.actor
    assert len(request.actor) <= MAX_NAME
    assert len(request.detail) <= MAX_DETAIL + len(", OPS 1")
    assert request.detail.endswith(", OPS 1")
