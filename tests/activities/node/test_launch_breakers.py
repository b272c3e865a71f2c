"""How one io process holds launches back: who goes first, who waits, who probes, and what is told."""

from __future__ import annotations

import asyncio
from datetime import timedelta

from activities.node.launch_breakers import FIRST_LAUNCHES, ROTATION, TURN, UNANSWERED, LaunchBreakers
from tenon.apis import labels
from tenon.apis.reasons import Reason
from tenon.ec2.refusals.backoff import FIRST_PROBE_PAUSE
from tenon.kube.claim_record import ClaimRecord
from tenon.kube.offerings import OfferingKey
from tenon.messages.offerings import OfferingRef
from tenon.messages.provisioning import LaunchReport
from tenon.node.launch_breaker import by_key, merged
from tests.activities.node.fake_kube import Clock

SPOT = OfferingRef(capacity_type="spot", instance_type="m5.large", zone="us-west-2a")


async def settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def test_of_a_hundred_launches_two_are_refused_and_the_others_are_never_sent() -> None:
    breakers = LaunchBreakers(Clock())
    names: list[str] = []

    async def launch(claim: str) -> str:
        breaker = await breakers.admit("web", claim, sends=True)
        if breaker is not None:
            return breaker.reason
        names.append(claim)
        await settle()
        breakers.refused("web", "Unauthorized", "you may not")
        breakers.leave(claim)
        return "refused"

    outcomes = await asyncio.gather(*(launch(f"c{n}") for n in range(100)))
    assert len(names) == FIRST_LAUNCHES
    assert outcomes.count("Unauthorized") == 100 - FIRST_LAUNCHES


async def test_the_others_go_at_once_when_the_first_is_taken() -> None:
    breakers = LaunchBreakers(Clock())
    for n in range(FIRST_LAUNCHES):
        assert await breakers.admit("web", f"first-{n}", sends=True) is None
    waiting = [asyncio.create_task(breakers.admit("web", f"c{n}", sends=True)) for n in range(50)]
    await settle()
    assert not any(task.done() for task in waiting)
    breakers.launched("web")
    breakers.leave("first-0")
    assert set(await asyncio.gather(*waiting)) == {None}


async def test_one_launch_probes_and_the_others_learn_its_outcome() -> None:
    clock = Clock()
    breakers = LaunchBreakers(clock)
    breakers.refused("web", "Unauthorized", "you may not")
    (breaker,) = breakers.report().breakers
    assert await breakers.admit("web", "early") == breaker
    clock.instant = breaker.next_probe_at
    assert await breakers.admit("web", "probe") is None, "to prepare its launch"
    assert await breakers.admit("web", "probe", sends=True) is None, "and then to send it"
    second = asyncio.create_task(breakers.admit("web", "second"))
    await settle()
    assert not second.done()
    breakers.refused("web", "Unauthorized", "still not")
    breakers.leave("probe")
    again = await second
    assert again is not None
    assert (again.message, again.failures) == ("still not", 2)

    clock.instant = again.next_probe_at
    assert await breakers.admit("web", "second", sends=True) is None
    third = asyncio.create_task(breakers.admit("web", "third", sends=True))
    await settle()
    breakers.launched("web")
    breakers.leave("second")
    assert await third is None
    assert breakers.report() == LaunchReport(closed=["web"])


def exchange(stored: LaunchReport, clock: Clock, *processes: LaunchBreakers) -> LaunchReport:
    """Let the processes that have news report to the workflow, then all of them learn. Return what it keeps."""
    launch_breakers = by_key(stored.breakers)
    for process in processes:
        if process.news.is_set():
            process.news.clear()
            report = process.report()
            launch_breakers = merged(launch_breakers, report, clock())
            process.acknowledge(report)
    stored = stored.model_copy(update={"breakers": list(launch_breakers.values())})
    for process in processes:
        process.learn(stored)
    return stored


async def test_a_breaker_that_a_launch_closed_is_not_opened_again_by_another_process() -> None:
    clock = Clock()
    closes, other = (LaunchBreakers(clock, wait_seconds=0.0) for _ in range(2))
    for process in (closes, other):
        process.refused("web", "InvalidGroup.NotFound", "no such group", node_class="default")
    stored = exchange(LaunchReport(), clock, closes, other)
    assert len(stored.breakers) == 1
    assert other.active.is_set(), "it must hear when another process closes the breaker"
    closes.launched("web", ["m5.large"], node_class="default")
    other.mark_unavailable([SPOT])
    stored = exchange(stored, clock, closes, other)
    assert stored.breakers == [], "although the other process had not yet heard that it is closed"
    assert await other.admit("batch", "c", node_class="default") is None
    other.mark_unavailable([SPOT])
    assert exchange(stored, clock, closes, other).breakers == []


async def test_a_process_that_starts_hears_of_the_end_of_a_breaker_that_it_took_over() -> None:
    clock = Clock()
    closes, starts = (LaunchBreakers(clock, wait_seconds=0.0) for _ in range(2))
    closes.refused("web", "InvalidGroup.NotFound", "no such group", node_class="default")
    stored = exchange(LaunchReport(), clock, closes)
    starts.adopt(stored)
    assert starts.active.is_set()
    closes.launched("web", ["m5.large"], node_class="default")
    starts.mark_unavailable([SPOT])
    assert exchange(stored, clock, closes, starts).breakers == []
    assert await starts.admit("web", "c", node_class="default") is None


async def test_a_refusal_since_the_last_report_outlasts_what_the_workflow_knows() -> None:
    clock = Clock()
    breakers = LaunchBreakers(clock, wait_seconds=0.0)
    breakers.refused("web", "Unauthorized", "you may not")
    clock.instant = exchange(LaunchReport(), clock, breakers).breakers[0].next_probe_at
    breakers.refused("web", "Unauthorized", "still not")
    breakers.learn(LaunchReport())
    assert await breakers.admit("web", "c") is not None


async def test_a_workflow_that_was_begun_again_learns_the_breakers_from_the_process() -> None:
    """It lacks them because it is new, not because a launch has closed them."""
    clock = Clock()
    breakers = LaunchBreakers(clock, wait_seconds=0.0)
    breakers.refused("web", "Unauthorized", "you may not")
    exchange(LaunchReport(), clock, breakers)
    assert breakers.report().breakers == []
    breakers.learn(LaunchReport(kept_by="a new workflow"))
    assert breakers.news.is_set()
    assert [breaker.pool for breaker in breakers.report().breakers] == ["web"]


async def test_other_pools_and_claims_without_one_are_never_held_back() -> None:
    breakers = LaunchBreakers(Clock())
    breakers.refused("web", "Unauthorized", "you may not")
    breakers.refused("", "Unauthorized", "you may not")
    assert await breakers.admit("batch", "c1", sends=True) is None
    assert [await breakers.admit("", f"c{n}", sends=True) for n in range(10)] == [None] * 10


async def test_a_probe_whose_worker_died_does_not_block_forever() -> None:
    clock = Clock()
    breakers = LaunchBreakers(clock, wait_seconds=0.0)
    breakers.refused("web", "Unauthorized", "you may not")
    (breaker,) = breakers.report().breakers
    clock.instant = breaker.next_probe_at
    assert await breakers.admit("web", "dies") is None
    assert await breakers.admit("web", "next") == breaker
    clock.instant += TURN
    assert await breakers.admit("web", "next") is None


async def test_launches_that_only_take_long_do_not_block_others() -> None:
    breakers = LaunchBreakers(Clock(), wait_seconds=0.0)
    assert [await breakers.admit("web", f"c{n}", sends=True) for n in range(5)] == [None] * 5


async def test_m3_an_ec2_that_does_not_answer_opens_the_breaker_as_an_outage() -> None:
    """One lost answer may be chance."""
    breakers = LaunchBreakers(Clock())
    for _ in range(UNANSWERED - 1):
        breakers.unanswered("web", "LaunchFailed", "no connection")
    assert breakers.report().breakers == []
    breakers.unanswered("web", "LaunchFailed", "no connection")
    (breaker,) = breakers.report().breakers
    assert breaker.outage


async def test_m3_a_lost_answer_leaves_a_breaker_of_some_types_as_it_is() -> None:
    """It would hold back the other types too, and an accepted launch of them would then end it."""
    clock = Clock()
    breakers = LaunchBreakers(clock, wait_seconds=0.0)
    breakers.refused("web", "OptInRequired", "not yours", ["p5.large"])
    clock.instant = breakers.report().breakers[0].next_probe_at
    breakers.unanswered("web", "InternalError", "down")
    (breaker,) = breakers.report().breakers
    assert (breaker.outage, breaker.reason, breaker.instance_types) == (False, "OptInRequired", ["p5.large"])
    assert await breakers.admit("web", "c", ["m5.large"]) is None
    breakers.launched("web", ["m5.large"])
    assert [breaker.pool for breaker in breakers.report().breakers] == ["web"]


async def test_m3_each_lost_answer_of_an_outage_postpones_the_next_probe() -> None:
    clock = Clock()
    breakers = LaunchBreakers(clock)
    for _ in range(UNANSWERED):
        breakers.unanswered("web", "InternalError", "down")
    (before,) = breakers.report().breakers
    clock.instant = before.next_probe_at
    breakers.unanswered("web", "InternalError", "down")
    (after,) = breakers.report().breakers
    assert (after.failures, after.outage) == (before.failures + 1, True)


async def test_refusals_are_reported_once_and_known_again_after_a_restart() -> None:
    clock = Clock()
    before = LaunchBreakers(clock)
    before.mark_unavailable([SPOT])
    before.refused("web", "Unauthorized", "you may not")
    assert before.news.is_set()
    report = before.report()
    after = LaunchBreakers(clock)
    after.launched("batch")
    after.adopt(LaunchReport(unavailable=report.unavailable, breakers=[*report.breakers]))
    assert OfferingKey("spot", "m5.large", "us-west-2a") in after.unavailable()
    assert await after.admit("web", "c1") is not None
    clock.instant += timedelta(minutes=4)
    assert after.report() == LaunchReport()


async def test_what_this_process_has_seen_itself_is_newer_than_what_is_kept() -> None:
    clock = Clock()
    other = LaunchBreakers(clock)
    other.refused("web", "Unauthorized", "you may not")
    breakers = LaunchBreakers(clock)
    breakers.launched("web")
    breakers.adopt(other.report())
    assert await breakers.admit("web", "c1", sends=True) is None


async def test_a_turn_ends_with_its_claim_however_the_launch_ended() -> None:
    """A claim that is deleted between its preparation and its launch keeps nobody waiting."""
    clock = Clock()
    breakers = LaunchBreakers(clock, wait_seconds=0.0)
    breakers.refused("web", "Unauthorized", "you may not")
    clock.instant = breakers.report().breakers[0].next_probe_at
    assert await breakers.admit("web", "deleted") is None
    assert await breakers.admit("web", "next") is not None
    breakers.leave("deleted")
    assert await breakers.admit("web", "next") is None


async def test_claims_of_other_types_launch_while_some_types_are_refused() -> None:
    clock = Clock()
    breakers = LaunchBreakers(clock, wait_seconds=0.0)
    breakers.refused("web", "InvalidAMIID", "gone", ["m7g.large"])
    assert await breakers.admit("web", "arm", ["m7g.large"], sends=True) is not None
    assert await breakers.admit("web", "any", [], sends=True) is not None, "its types are not known"
    assert await breakers.admit("web", "amd", ["m5.large"], sends=True) is None
    breakers.launched("web", ["m5.large"])
    breakers.leave("amd")
    (breaker,) = breakers.report().breakers
    assert breaker.instance_types == ["m7g.large"]
    clock.instant = breaker.next_probe_at
    assert await breakers.admit("web", "arm", ["m7g.large"], sends=True) is None
    breakers.launched("web", ["m7g.large"])
    assert breakers.report() == LaunchReport(closed=["web"])


async def test_the_claims_that_wait_probe_in_turn() -> None:
    """A claim that EC2 never accepts would otherwise hold back others for ever, if it always came first."""
    clock = Clock()
    breakers = LaunchBreakers(clock, wait_seconds=0.0)
    breakers.refused("web", "Unauthorized", "you may not")
    probes = []
    for _ in range(6):
        (breaker,) = breakers.report().breakers
        clock.instant = breaker.next_probe_at
        for claim in ("never", "second", "third"):
            if await breakers.admit("web", claim, sends=True) is None:
                probes.append(claim)
                clock.instant += timedelta(seconds=0.1)
                breakers.refused("web", "Unauthorized", "still not")
                breakers.leave(claim)
    assert probes == ["never", "second", "third"] * 2


async def test_a_claim_probes_again_if_no_other_claim_does() -> None:
    clock = Clock()
    breakers = LaunchBreakers(clock, wait_seconds=0.0)
    breakers.refused("web", "Unauthorized", "you may not")
    for _ in range(3):
        clock.instant = breakers.report().breakers[0].next_probe_at
        assert await breakers.admit("web", "only") is None
        breakers.refused("web", "Unauthorized", "still not")
        breakers.leave("only")
    assert await breakers.admit("web", "given-up") is not None
    clock.instant = breakers.report().breakers[0].next_probe_at
    assert await breakers.admit("web", "only") is not None
    clock.instant += ROTATION
    assert await breakers.admit("web", "only") is None


async def test_a_refusal_of_a_class_holds_back_its_nodepools_and_no_others() -> None:
    clock = Clock()
    breakers = LaunchBreakers(clock, wait_seconds=0.0)
    breakers.refused("web", "InstanceProfileNameInvalid", "no such profile", node_class="broken")
    admit = await breakers.admit("batch", "b", node_class="broken", sends=True)
    assert admit is not None
    assert (admit.pool, admit.node_class) == ("", "broken")
    assert await breakers.admit("web", "w", node_class="mended", sends=True) is None
    clock.instant = admit.next_probe_at
    assert await breakers.admit("batch", "b", node_class="broken", sends=True) is None, "one NodePool probes for both"
    assert await breakers.admit("web", "w2", node_class="broken", sends=True) is not None
    breakers.launched("batch", ["m5.large"], node_class="broken")
    breakers.leave("b")
    assert await breakers.admit("web", "w2", node_class="broken", sends=True) is None
    assert breakers.report() == LaunchReport(closed=["EC2NodeClass/broken"])


async def test_n15_404_n15_405_a_full_reservation_counts_as_full_for_a_minute_only() -> None:
    clock = Clock()
    breakers = LaunchBreakers(clock)
    full = OfferingKey.of_full_reservation("reserved", "us-west-2a", "cr-1")
    refused = OfferingKey.refusable("reserved", "m5.large", "us-west-2a", "cr-2")
    breakers.mark_unavailable([OfferingRef.of(full), OfferingRef.of(refused)])
    assert set(breakers.unavailable()) == {full, refused}
    clock.instant += timedelta(seconds=61)
    (group,) = breakers.report().unavailable
    assert group.scope == refused.scope
    clock.instant += timedelta(minutes=2)
    assert breakers.report().unavailable == []


async def test_a_nodeclaim_that_probes_may_ask_for_what_ec2_refused_half_a_minute_ago() -> None:
    """Until when other NodeClaims avoid it, plans decide, and name it on them."""
    clock = Clock()
    breakers = LaunchBreakers(clock)
    breakers.mark_unavailable([SPOT])
    clock.instant += FIRST_PROBE_PAUSE - timedelta(seconds=1)
    assert SPOT.key in breakers.unavailable()
    clock.instant += timedelta(seconds=1)
    assert SPOT.key not in breakers.unavailable()
    assert [group.instance_types for group in breakers.report().unavailable] == [["m5.large"]]


def a_claim(name: str, **own_labels: str) -> ClaimRecord:
    return ClaimRecord.of({"metadata": {"name": name, "labels": own_labels}})


def test_a_nodeclaim_without_an_instance_is_reported_until_the_workflow_has_heard_of_it() -> None:
    """Not one of a static NodePool: no batch names it."""
    breakers = LaunchBreakers(Clock())
    breakers.gave_up(a_claim("static-1"), Reason.INSUFFICIENT_CAPACITY)
    assert not breakers.news.is_set()
    of_batch = {labels.BATCH: "7"}
    for name in ("web-1", "web-2"):
        breakers.gave_up(a_claim(name, **of_batch), Reason.INSUFFICIENT_CAPACITY)
    assert breakers.news.is_set()
    report = breakers.report()
    assert [(group.batch, group.claims) for group in report.unlaunched] == [(7, ["web-1", "web-2"])]
    breakers.gave_up(a_claim("web-3", **of_batch), Reason.INSUFFICIENT_CAPACITY)
    breakers.acknowledge(report)
    (group,) = breakers.report().unlaunched
    assert group.claims == ["web-3"]
