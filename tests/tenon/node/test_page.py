"""A node's page in Temporal's UI: it explains itself, says what to do about a blocked node, and fits into a URL."""

from __future__ import annotations

from datetime import timedelta
from urllib.parse import quote

import pytest

from tenon.evolve import evolve
from tenon.messages.base import ClaimRef
from tenon.messages.node_steps import BlockedPods, DrainResult
from tenon.node import machine, operator_help, page
from tenon.node.state import NodeState, Stage
from tenon.node.steps import LeaveRequest
from tenon.node.timeline import record
from tests.tenon.node.launched import NOW, at_live

DRAINING = machine.apply(
    evolve(at_live(), stage=Stage.DRAINING, pool="web"),
    DrainResult(remaining=1, blocked=[BlockedPods(pods=("shop/db-0",), why="waits", budgets=("shop/db",))]),
    NOW,
)


@pytest.mark.parametrize("stage", list(Stage))
def test_the_page_of_each_stage_says_what_happens_and_what_to_send(stage: Stage) -> None:
    shown = page.current_details(evolve(at_live(), stage=stage, pool="web"))
    verb = "has" if stage is Stage.ENDED else "is"
    assert shown.startswith(f"### Node n1 of NodePool web {verb} {stage.value}")
    assert page.ABOUT in shown
    assert "**Now:** " in shown
    assert ("`force_drain`: DANGER" in shown) is (stage not in (Stage.RELEASING, Stage.ENDED))


def test_a_page_offers_only_what_the_node_would_do() -> None:
    """A node that leaves is only hurried; one that is gone takes nothing, also not by details that cannot change."""
    leaving = machine.apply(at_live(), LeaveRequest(reason="drain", actor="ann"), NOW)
    shown = page.current_details(leaving)
    assert "- `force_drain`: " in shown
    for text in ("- `drain`: ", "- `expire`: ", "keep", "Request Cancellation"):
        assert text not in shown.partition("#### What you can send")[2]
    forced = machine.apply(leaving, LeaveRequest(reason="force_drain", actor="ann", force=True), NOW)
    ended = evolve(leaving, stage=Stage.ENDED)
    for shown in (page.current_details(forced), page.current_details(ended), page.static_details("web")):
        assert "What you can send" not in shown
        assert "force_drain" not in shown.replace("force_drain requested", "")


def test_a_blocked_page_says_what_resolves_it_and_what_happens_if_no_one_acts() -> None:
    """Before anything else, and without a dollar sign, which the UI takes for a formula."""
    state = evolve(DRAINING, force_at=NOW + timedelta(hours=1))
    shown = page.current_details(state)
    assert "is draining and blocked" in shown
    assert shown.index("#### Blocked") < shown.index("#### Facts")
    assert "kubectl edit poddisruptionbudget -n shop db" in shown
    assert "tenon node force-drain default-x1" in shown
    assert "#### If no one acts" in shown
    assert "$" not in shown


def test_the_next_run_begins_with_a_headline_and_a_reason_made_from_the_state() -> None:
    begin = page.first_input(ClaimRef(cluster="c", name="default-x1", uid="u1"), "web")
    assert begin.headline.startswith("The life of one node of NodePool web")
    live = evolve(at_live(), pool="web", bought_for="5 pods: shop/db-0", explanation=("one of", "5 pods: shop/db-0"))
    after = page.next_input(begin, live)
    assert after.state == live
    assert after.headline.startswith("Node n1 of NodePool web is live; m5.large, ")
    assert after.why == "It was bought for 5 pods: shop/db-0"
    leaving = machine.apply(live, LeaveRequest(reason="drain", detail="its disk is slow", actor="ann"), NOW)
    assert page.next_input(after, leaving).why == "It leaves because of Drain: its disk is slow (ann)"
    assert list(after.model_dump())[:3] == ["headline", "why", "details"]


def test_a_long_page_leaves_out_the_middle_of_the_timeline() -> None:
    """It goes into a URL, of which proxies take 8 KB."""
    state = at_live()
    for number in range(60):
        state = record(state, NOW, f"line {number} " + "x" * 90)
    shown = page.current_details(state)
    assert len(quote(shown)) < 8000
    assert "lines left out" in shown
    assert state.timeline[0].text in shown
    assert "line 59 " in shown


def test_the_page_names_every_request_of_an_operator() -> None:
    shown = page.current_details(NodeState(claim=ClaimRef(cluster="c", name="a", uid="u")))
    assert all(f"- `{name}`: {effect}" in shown for name, effect in operator_help.REQUESTS.items())
    assert '`{"by": "ann", ' in shown  # not as text, in which the UI replaces quotes


def test_the_page_does_not_say_that_the_pods_of_the_beginning_still_run_there() -> None:
    live = evolve(at_live(), initialized=True, planned_pods=2, bound_pods=2, running_pods=2)
    for state in (live, evolve(live, stage=Stage.ENDED)):
        assert "- Pods: when it became live, 2 pods ran here" in page.current_details(state)
        assert "2 pods run here" not in page.current_details(state)


def test_the_page_of_a_nodeclaim_whose_launch_ec2_refused_does_not_say_that_a_node_is_gone() -> None:
    refused = NodeState(claim=ClaimRef(cluster="c", name="a", uid="u"), stage=Stage.ENDED)
    assert "**Now:** No node came of this NodeClaim. This page stays" in page.current_details(refused)
    ended = evolve(at_live(), stage=Stage.ENDED)
    assert "**Now:** The node is gone. This page stays" in page.current_details(ended)
