"""What EC2 does to launches and instances: it slows down, fails, is silent, sells out, and ends instances unasked."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass
from typing import Any

from temporalio.client import Client

from activities.kubernetes.client import Kube
from activities.kubernetes.resources import EVENTS
from sandbox.cluster import Sandbox
from sandbox.ec2.client import Ec2Admin
from sandbox.ec2.region import REGION
from tenon.apis import labels
from tenon.garbage_collection.findings import FindingKind
from tests.e2e.conftest import MakePool
from tests.e2e.lives import life_of
from tests.e2e.pools import KEY, SMALL, Pool, condition
from tests.faults.ageing import launched_just_now, launched_long_ago
from tests.faults.conftest import Observe
from tests.faults.fleets import Fleet, Offering, fleets
from tests.faults.sweeping import only_by_hand, sweep
from tests.workflows.waiting import until

FEW = ["c5.large", "m5.large", "r5.large"]
FEW_TYPES = [{"key": labels.INSTANCE_TYPE, "operator": "In", "values": FEW}]


# --- calls that fail ---


async def test_launches_that_are_throttled_fail_or_are_not_answered(
    make_pool: MakePool, observe: Observe, ec2: Ec2Admin
) -> None:
    """One instance for each claim, although EC2 allows one call a second, fails, and never answers the first request.

    The unanswered request takes effect; it is asked again with its token when the time for one try is over.
    """
    unanswered, many = await asyncio.gather(make_pool(requirements=SMALL), make_pool(requirements=SMALL))
    async with observe(unanswered, many) as observations:
        ec2.hold("CreateFleet", after_effect=True)
        await unanswered.deploy(1)

        async def held() -> bool:
            return await asyncio.to_thread(ec2.held) == 1

        await until(held)
        ec2.throttle("CreateFleet", rate=1, burst=1)
        ec2.fault("CreateFleet", "InternalError", status=500, count=4)
        await many.deploy(6)
        await many.running(6, within=100)
        await unanswered.running(1, within=100)
        errors = [fleet.error for fleet in fleets(ec2, many)]
        assert {"RequestLimitExceeded", "InternalError"} <= set(errors)
        requests = fleets(ec2, unanswered)
        assert len(requests) > 1, "the request was answered after all"
        assert len({fleet.token for fleet in requests}) == 1
        await observations.look()
        assert (observations.bought(unanswered), observations.bought(many)) == (1, 6)

        ec2.fault("TerminateInstances", "InternalError", status=500, count=4)
        ec2.fault("DescribeInstances", "InternalError", status=500, count=4)
        await unanswered.scale(0)
        await many.scale(0)


async def test_aws048_a_claim_says_that_ec2_throttles_its_launch(
    make_pool: MakePool, observe: Observe, ec2: Ec2Admin
) -> None:
    """While the launch waits, not when it gives up; and nothing of it is left once EC2 sells."""
    pool = await make_pool(requirements=SMALL)
    async with observe(pool):
        ec2.fault("CreateFleet", "RequestLimitExceeded", status=503, count=None)
        await pool.deploy(1)
        shown: dict[str, Any] = {}

        async def told() -> bool:
            claims = await pool.claims()
            shown.update(condition(claims[0], "Launched") if claims else {})
            return shown.get("reason") == "RequestLimitExceeded"

        await until(told)
        assert shown["status"] == "Unknown"
        assert shown["message"].startswith("EC2 has throttled CreateFleet for ")
        assert "next attempt at " in shown["message"]
        ec2.clear_faults()
        await pool.running(1)
        (claim,) = await pool.claims()
        launched = condition(claim, "Launched")
        assert (launched["status"], launched.get("message", "")) == ("True", "")
        await pool.scale(0)


async def test_a_node_that_joins_late(make_pool: MakePool, observe: Observe, ec2: Ec2Admin) -> None:
    """The pods wait for it, through batches of other pods, and nothing is bought a second time."""
    pool = await make_pool(requirements=SMALL)
    async with observe(pool) as observations:
        ec2.boot(delay=10.0)
        await pool.deploy(1, "first")

        async def launched() -> bool:
            return [condition(claim, "Launched").get("status") for claim in await pool.claims()] == ["True"]

        await until(launched)
        ec2.clear_boot()
        await pool.deploy(1, "second")
        await pool.running(1, "second")
        await pool.running(1, "first")
        await observations.look()
        assert observations.bought(pool) == 2
        await pool.scale(0, "first")
        await pool.scale(0, "second")


# --- capacity that runs out ---


@dataclass
class Market:
    """A pool whose offerings run out, and what EC2 refused it so far."""

    pool: Pool
    ec2: Ec2Admin
    earlier_requests: int = 0

    async def runs(self, app: str, **spec: Any) -> Offering:
        """Deploy one pod of an app, and wait until it runs; how its node was bought."""
        self.earlier_requests = len(fleets(self.ec2, self.pool))
        await self.pool.deploy(1, app, **spec)
        (pod,) = await self.pool.running(1, app)
        claim = await self.pool.claim_of(pod)
        (instance,) = self.pool.instances(claim)
        return instance["capacity_type"], instance["type"], instance["zone"]

    @property
    def requests(self) -> list[Fleet]:
        """The fleet requests since the last deployment."""
        return fleets(self.ec2, self.pool)[self.earlier_requests :]

    async def given_up(self) -> set[str]:
        """The claims that EC2 had nothing for, as their events tell. Their pods get such events too (N15-312)."""
        events = await self.pool.kube.list(EVENTS, field_selector="reason=InsufficientCapacityError")
        subjects = [event["involvedObject"] for event in events]
        claims = {str(subject["name"]) for subject in subjects if subject["kind"] == "NodeClaim"}
        return {name for name in claims if name.startswith(f"{self.pool.name}-")}


async def test_capacity_that_runs_out_step_by_step(
    make_pool: MakePool, observe: Observe, ec2: Ec2Admin, client: Client, sandbox: Sandbox
) -> None:
    """AWS-033, LIF-03: first the three cheapest offerings, then all spot, then a zone is sold out.

    What EC2 refused is not asked for again; a claim that nothing is left for ends, and its pods run on what is left.
    """
    pool = await make_pool(requirements=FEW_TYPES, consolidate_after="1s")
    async with observe(pool):
        market = Market(pool, ec2)
        first = await market.runs("a")
        cheapest = market.requests[0].cheapest_first
        assert cheapest[0][:2] == first[:2]

        exhaust_cheapest = ec2.exhaust_cheapest(3, capacity_type="spot", types=FEW)
        sold_out = {("spot", item["type"], item["zone"]) for item in exhaust_cheapest}
        assert len(sold_out) == 3
        assert sold_out <= set(cheapest)
        assert await market.runs("b") in set(cheapest) - sold_out
        assert len(market.requests) == 1, "the same request buys elsewhere"

        ec2.capacity(0, capacity_type="spot")
        assert (await market.runs("c"))[0] == "on-demand"
        in_vain, *later = market.requests
        refused = in_vain.offerings
        assert {offering[0] for offering in refused} == {"spot"}
        assert later
        assert not any(request.offerings & refused for request in later)
        await ended_for_want_of_capacity(market, client, sandbox, 1)

        zone = (await market.runs("d"))[2]
        assert not any(request.offerings & refused for request in market.requests)
        ec2.capacity(0, zone=zone)
        await pool.deploy(1, "pinned", nodeSelector={KEY: pool.name, labels.ZONE: zone})
        await ended_for_want_of_capacity(market, client, sandbox, 2)
        assert await market.runs("free") not in refused
        refused |= {("on-demand", kind, zone) for kind in FEW}
        assert market.requests
        assert not any(request.offerings & refused for request in market.requests)
        assert [pod["spec"].get("nodeName") for pod in await pool.pods("pinned")] == [None]
        for app in ("a", "b", "c", "d", "pinned", "free"):
            await pool.scale(0, app)


async def ended_for_want_of_capacity(market: Market, client: Client, sandbox: Sandbox, count: int) -> None:
    """Wait until exactly so many claims were given up; each says why, and had no instance."""

    async def so_many() -> bool:
        return len(await market.given_up()) == count

    await until(so_many)
    for claim in await market.given_up():
        life = await life_of(client, sandbox, claim)
        assert (life.reason, life.instance_id) == ("insufficient_capacity", "")
        assert "InsufficientInstanceCapacity" in " ".join(entry.text for entry in life.timeline)


async def test_capacity_for_some_of_many_claims(make_pool: MakePool, observe: Observe, ec2: Ec2Admin) -> None:
    """Of four nodes wanted at once two get the last spot instances, and the pods of the others run on demand."""
    only = [
        {"key": labels.INSTANCE_TYPE, "operator": "In", "values": ["m5a.large"]},
        {"key": labels.ZONE, "operator": "In", "values": [f"{REGION}a"]},
    ]
    pool = await make_pool(requirements=only)
    async with observe(pool) as observations:
        ec2.capacity(2, type="m5a.large", zone=f"{REGION}a", capacity_type="spot")
        await pool.deploy(4)
        await pool.running(4)
        await observations.look()
        assert observations.bought(pool) == 4
        assert Counter(instance["capacity_type"] for instance in pool.instances()) == {"spot": 2, "on-demand": 2}
        await pool.scale(0)


# --- instances that end unasked ---


async def test_instances_that_end_unasked(
    make_pool: MakePool, observe: Observe, ec2: Ec2Admin, kube: Kube, client: Client, sandbox: Sandbox
) -> None:
    """Killed or vanished while live, dead while booting: garbage collection notices, and the pods get another node."""
    killed, vanished, booting = await asyncio.gather(*(make_pool(requirements=SMALL) for _ in range(3)))
    pools = (killed, vanished, booting)
    async with observe(*pools) as observations:
        for pool in (killed, vanished):
            observations.may_move(pool)
            await pool.deploy(1)
        for pool in (killed, vanished):
            await pool.running(1)
            await pool.settled(1)
        ec2.boot(dies=True)
        await booting.deploy(1)

        async def dead() -> bool:
            instances = await asyncio.to_thread(booting.instances)
            return bool(instances) and all(item["state"] in ("shutting-down", "terminated") for item in instances)

        await until(dead)
        ec2.clear_boot()
        ec2.kill_instance(killed.instances()[0]["id"])
        ec2.vanish_instance(vanished.instances()[0]["id"])
        claims = [(await pool.claim())["metadata"]["name"] for pool in pools]

        async def none_ready() -> bool:
            nodes = [*await killed.nodes(), *await vanished.nodes()]
            return not any(condition(node, "Ready").get("status") == "True" for node in nodes)

        await until(none_ready)
        async with only_by_hand(client, sandbox.cluster_name):
            for claim in claims:
                await launched_just_now(kube, claim)
            early = await sweep(client, sandbox.cluster_name)
            assert FindingKind.CLAIM_WITHOUT_INSTANCE not in early.figures, "nothing is lost before its grace is over"
            for claim in claims:
                await launched_long_ago(kube, claim)
            report = await sweep(client, sandbox.cluster_name)
        assert report.figures[FindingKind.CLAIM_WITHOUT_INSTANCE].ended == len(pools)
        for pool, claim in zip(pools, claims, strict=True):
            await pool.seen(claim, "NodeClaimWithoutInstance", "is gone although Tenon did not terminate it")
            await pool.gone(claim, within=100)
            await observations.whole(pool)
            assert (await life_of(client, sandbox, claim)).reason == "garbage_collected"
            (pod,) = await pool.pods()
            assert await pool.claim_of(pod) != claim
            assert observations.bought(pool) == 2
            await pool.scale(0)
