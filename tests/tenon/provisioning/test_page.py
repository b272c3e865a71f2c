"""What Temporal's UI says of the provisioner: its batches by NodeClaim, and what EC2 refuses until when."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from urllib.parse import quote

from tenon.messages.provisioning import (
    LaunchBreaker,
    PendingPods,
    PlanResult,
    PurchasePause,
    ShortageWait,
    UnavailableTypes,
)
from tenon.provisioning import page

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
LATER = NOW + timedelta(minutes=3)
PLAN = PlanResult(batch=7, pods=5, claims=["web-1", "web-2"], price=0.25, placed_on_existing=1, unschedulable=2)


def details(lines: list[str], *, full: bool = False) -> str:
    number = 200 if full else 1
    refused = [
        UnavailableTypes(capacity_type="spot", zone="us-west-2a", instance_types=[f"c{n}.large"], until=LATER)
        for n in range(number)
    ]
    breaker = LaunchBreaker(
        pool="web", reason="Unauthorized", message="not allowed " * 40, opened_at=NOW, next_probe_at=LATER
    )
    wait = ShortageWait(
        pool="web", pods=3, instance_type="m5.24xlarge", price=4.0, usual_type="m5.large", usual_price=0.1, until=LATER
    )
    pause = PurchasePause(group="g", nodes=2, until=LATER, pods=["shop/db-0"], waiting=1, refusal="no " * 100)
    why = "NodePool web: EC2 refuses 3 spot offerings (c1.large in us-west-2a); " * (9 if full else 1)
    pods = [f"a-namespace-with-a-name/a-pod-with-a-long-name-{n}" for n in range(3)] if full else ["shop/web-1"]
    pending = [PendingPods(why=why, pods=pods, count=len(pods))] * min(number, 10)
    plan = PlanResult(waits=[wait] * number, pending=pending, pending_left_out=number - 1)
    return page.current_details("c", "waits for pods", lines, refused, [breaker] * number, plan, [pause] * number, NOW)


def test_a_batch_names_its_nodeclaims_its_price_and_the_pods_that_fit_nowhere() -> None:
    (line,) = page.remembered([], PLAN, 7, NOW)
    assert line.startswith("`2026-11-21 12:00:00` batch 7, 5 pods: bought web-1, web-2 at 0.2500 USD/h; 1 pod on nodes")
    assert "2 pods fit nowhere" in line
    assert "last batch: 2026-11-21 12:00:00 batch 7" in page.headline("c", [line])


def test_the_page_says_what_ec2_refuses_until_when_and_which_pods_wait() -> None:
    shown = details(page.remembered([], PLAN, 7, NOW))
    assert "**Now:** it waits for pods" in shown
    assert "#### Pods without a node\n\n- 1 pod (shop/web-1): NodePool web: EC2 refuses 3 spot" in shown
    assert "for other reasons" not in shown
    assert "1 spot offering" in shown
    assert "tried again after 2026-11-21T12:03:00Z" in shown
    assert "NodePool web: its launches are held back because EC2 refuses them: Unauthorized" in shown
    assert "3 pods of NodePool web until 2026-11-21 12:03:00 UTC: EC2 sells m5.24xlarge at 4.0000 USD/h" in shown
    assert "1 pod (shop/db-0) until 2026-11-21 12:03:00 UTC" in shown
    assert "batch 7" in shown
    assert "$" not in shown


def test_the_page_fits_into_a_url_in_a_great_shortage() -> None:
    lines: list[str] = []
    for number in range(20):
        lines = page.remembered(lines, PLAN, number, NOW)
    shown = details(lines, full=True)
    assert "- and 195 more" in shown
    assert "- and 5 more\n- and 199 pods for other reasons: `tenon pods --pending`" in shown
    assert len(quote(shown)) < 8000


def test_all_refused_offerings_are_named_as_far_as_they_fit() -> None:
    refused = [
        UnavailableTypes(capacity_type="spot", zone="us-west-2a", instance_types=[f"c{n}.large"], until=LATER)
        for n in range(250)
    ]
    few = page.current_details("c", "waits", [], refused[:60], [], None, [], NOW)
    assert all(f"c{n}.large in us-west-2a" in few for n in range(60))
    many = page.current_details("c", "waits", [], refused, [], None, [], NOW)
    assert many.count(".large") == 150
    assert " in us-west-2a and 100 more): tried again after" in many


def test_what_is_over_is_not_shown() -> None:
    pause = PurchasePause(group="g", until=NOW, waiting=1)
    shown = page.current_details("c", "waits", [], [], [], None, [pause], NOW)
    assert "####" not in shown
