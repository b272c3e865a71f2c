"""How one io process holds launches back: who goes first, who waits, who probes, and what is told."""

from __future__ import annotations

import asyncio
from datetime import timedelta

from activities.launch_breakers import FIRST_LAUNCHES, ROTATION, TURN, UNANSWERED, LaunchBreakers
from tenon.kube.offerings import OfferingKey
from tenon.lifecycle.messages.launch import OfferingRef
from tenon.lifecycle.messages.provisioning import LaunchReport
from tests.lifecycle_k8s.fake_kube import Clock

SPOT = OfferingRef(capacity_type="spot", instance_type="m5.large", zone="us-west-2a")


async def settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def test_of_a_hundred_launches_two_are_refused_and_the_others_are_never_sent() -> None:
    breakers = LaunchBreakers(Clock())
    sent: list[str] = []

    async def launch(claim: str) -> str:
        breaker = await breakers.admit("web", claim, sends=True)
        if breaker is not None:
            return breaker.reason
        sent.append(claim)
        await settle()
        breakers.refused("web", "Unauthorized", "you may not")
        breakers.leave(claim)
        return "refused"

    outcomes = await asyncio.gather(*(launch(f"c{n}") for n in range(100)))
    assert len(sent) == FIRST_LAUNCHES
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


async def test_refusals_are_reported_once_and_known_again_after_a_restart() -> None:
    clock = Clock()
    before = LaunchBreakers(clock)
    before.sold_out([SPOT])
    before.refused("web", "Unauthorized", "you may not")
    assert before.news.is_set()
    report = before.report()
    after = LaunchBreakers(clock)
    after.launched("batch")
    after.adopt(LaunchReport(refused=report.refused, breakers=[*report.breakers]))
    assert OfferingKey("spot", "m5.large", "us-west-2a") in after.avoided()
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
    held = await breakers.admit("batch", "b", node_class="broken", sends=True)
    assert held is not None
    assert (held.pool, held.node_class) == ("", "broken")
    assert await breakers.admit("web", "w", node_class="mended", sends=True) is None
    clock.instant = held.next_probe_at
    assert await breakers.admit("batch", "b", node_class="broken", sends=True) is None, "one NodePool probes for both"
    assert await breakers.admit("web", "w2", node_class="broken", sends=True) is not None
    breakers.launched("batch", ["m5.large"], node_class="broken")
    breakers.leave("b")
    assert await breakers.admit("web", "w2", node_class="broken", sends=True) is None
    assert breakers.report() == LaunchReport(closed=["EC2NodeClass/broken"])
