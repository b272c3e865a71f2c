"""A bad image reaches one node of sixty and goes again by itself, while the worker and Temporal are killed ten times.

The image starts containers that do not stay up: on each node of it, 30 % of the pods wait in CrashLoopBackOff.
Afterwards a good version reaches all nodes. What happened to NodeClaims and pods is judged at every moment, as the API
server saw it.

``TENON_DRILL_NODES=20`` has fewer nodes.
"""

from __future__ import annotations

import asyncio
import math
import os
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from itertools import cycle, dropwhile

import pytest

from activities.kubernetes.client import Kube
from activities.kubernetes.resources import NODECLAIMS, NODEROLLOUTS, PODS
from sandbox.cluster import Sandbox
from sandbox.ec2.images import images
from tenon.apis import labels
from tests.e2e.conftest import MakePool, Run
from tests.e2e.moments import Moments, recorded
from tests.e2e.node_rollouts import NEWER, OLDER, Rollout
from tests.e2e.pools import KEY, NAMESPACE, SMALL, Object, Pool, condition, leaving
from tests.e2e.worker_process import WorkerProcess
from tests.faults.conftest import Observe
from tests.faults.drills.test_outages import ready_again
from tests.faults.observer import UNREADABLE
from tests.workflows.waiting import until

FLEET = int(os.environ.get("TENON_DRILL_NODES", "60"))
PODS_ON_NODE = 3
PODS_BEFORE, PODS_AFTER = FLEET * PODS_ON_NODE, (FLEET + 1) * PODS_ON_NODE
POD_CPU = "500m"
SHARE = 0.1
"""The part of all nodes that the budget of the NodePool lets go at one time."""
MAX_UNAVAILABLE = max(PODS_ON_NODE + 1, PODS_BEFORE // 20)
"""How many pods the PodDisruptionBudget lets go at one time. A pod that the image broke counts as one of them."""
BROKEN_SHARE = 0.3
KILLS = 10
LOOK_SECONDS = 0.5
WITHIN = 60.0 * FLEET
"""Bounds what would otherwise hang."""
BROKEN_IMAGES = {image.id for image in images() if image.name.endswith(NEWER.partition("@")[2])}


class BrokenImage:
    """Does to pods what an image does whose containers do not stay up."""

    def __init__(self, kube: Kube, pool: Pool) -> None:
        self._kube = kube
        self._pool = pool
        self.breaks = False

    async def watch(self) -> None:
        """Break pods until cancelled."""
        while True:
            if self.breaks:
                with suppress(*UNREADABLE):
                    await self._look()
            await asyncio.sleep(LOOK_SECONDS)

    async def _look(self) -> None:
        claims = [claim for claim in await self._pool.claims() if _status(claim).get("imageID") in BROKEN_IMAGES]
        pods = await self._pool.pods()
        for claim in claims:
            node_name = _status(claim).get("nodeName")
            on_node = [pod for pod in pods if node_name and pod["spec"].get("nodeName") == node_name]
            on_node.sort(key=lambda pod: str(pod["metadata"]["name"]))
            for pod in on_node[: math.ceil(BROKEN_SHARE * len(on_node))]:
                if pod["status"]["phase"] == "Running" and not is_broken(pod):
                    await self._break(pod)

    async def _break(self, pod: Object) -> None:
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        conditions = [
            {**item, "status": "False", "lastTransitionTime": now}
            if item["type"] in ("Ready", "ContainersReady")
            else item
            for item in pod["status"]["conditions"]
        ]
        containers = [
            {
                **item,
                "ready": False,
                "started": False,
                "restartCount": 5,
                "state": {"waiting": {"reason": "CrashLoopBackOff"}},
                "lastState": {"terminated": {"exitCode": 1, "reason": "Error", "startedAt": now, "finishedAt": now}},
            }
            for item in pod["status"]["containerStatuses"]
        ]
        metadata = pod["metadata"]
        change = {
            "metadata": {"uid": metadata["uid"]},
            "status": {"conditions": conditions, "containerStatuses": containers},
        }
        await self._kube.patch(PODS, metadata["name"], change, namespace=NAMESPACE, subresource="status")


def is_broken(pod: Object) -> bool:
    """Whether a container of a pod waits in CrashLoopBackOff."""
    statuses = _status(pod).get("containerStatuses") or ()
    return any((item["state"].get("waiting") or {}).get("reason") == "CrashLoopBackOff" for item in statuses)


@asynccontextmanager
async def broken_image(kube: Kube, pool: Pool) -> AsyncIterator[BrokenImage]:
    """An image that breaks pods once it is told to."""
    image = BrokenImage(kube, pool)
    task = asyncio.create_task(image.watch(), name="broken image")
    try:
        yield image
        assert not task.done(), task.exception()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


class Killer:
    """Kills a process of the worker, Temporal, or both processes of the worker, in turn, and starts it again."""

    def __init__(self, sandbox: Sandbox, worker: WorkerProcess) -> None:
        self._sandbox = sandbox
        self._worker = worker
        self._victims = cycle(("io", "temporal", "cluster", "temporal", "worker"))
        self.kills = 0

    async def strike(self, times: int = 1) -> None:
        """Kill, and wait until the worker is ready again."""
        for _ in range(times):
            victim = next(self._victims)
            await asyncio.to_thread(self._kill, victim)
            self.kills += 1
            await ready_again(self._sandbox)

    def _kill(self, victim: str) -> None:
        if victim == "temporal":
            self._sandbox.stop_component("temporal", kill=True)
            self._sandbox.start_component("temporal")
            return
        if victim == "worker":
            self._worker.crash()
        else:
            self._worker.kill(victim)
        self._worker.start()


def _status(item: Object) -> Object:
    return item.get("status") or {}


def is_disrupted(claim: Object) -> bool:
    """Whether a command for a NodeClaim is open, or it leaves."""
    return leaving(claim) or condition(claim, "DisruptionReason").get("status") == "True"


def most_disrupted(moments: Moments) -> int:
    """The most nodes that left at a time. At no time were these more than the budget of the NodePool allows."""
    most = 0
    for objects in moments.replay():
        present = [
            claim
            for claim in objects.get("NodeClaim", {}).values()
            if condition(claim, "Initialized").get("status") == "True"
            and condition(claim, "InstanceTerminating").get("status") != "True"
        ]
        names = [claim["metadata"]["name"] for claim in present if is_disrupted(claim)]
        assert len(names) <= math.ceil(len(present) * SHARE), f"of {len(present)} nodes, {names} leave"
        most = max(most, len(names))
    return most


def unbroken(moments: Moments) -> Iterator[int]:
    """At every moment, how many pods are Ready, or are not because of the image."""
    for objects in moments.replay():
        pods: Mapping[str, Object] = objects.get("Pod", {})
        yield sum(
            not leaving(pod) and (condition(pod, "Ready").get("status") == "True" or is_broken(pod))
            for pod in pods.values()
        )


def most_with(moments: Moments, version: str) -> int:
    """The most NodeClaims that had a version at a time. A command that a kill undid is tried again minutes later."""
    return max(
        sum(version_of(claim) == version for claim in objects.get("NodeClaim", {}).values())
        for objects in moments.replay()
    )


def version_of(claim: Object) -> str:
    """The version of a NodeClaim."""
    return str((claim["metadata"].get("annotations") or {}).get(labels.REVISION, ""))


@pytest.mark.alone
@pytest.mark.timeout(3600)
async def test_a_bad_image_touches_one_node_and_goes_without_a_person(
    make_pool: MakePool,
    observe: Observe,
    worker: WorkerProcess,
    kube: Kube,
    sandbox: Sandbox,
    tenon: Run,
) -> None:
    """No budget is broken, scale-up gets the version that passed last, and a good version passes afterwards."""
    pool: Pool = await make_pool(
        requirements=SMALL,
        consolidate_after="Never",
        budgets=[{"nodes": f"{SHARE:.0%}"}],
        amiSelectorTerms=[{"alias": OLDER}],
    )
    rollout, killer = Rollout(kube, pool), Killer(sandbox, worker)
    strategy = {"waves": ["1", "10%", "100%"], "soak": "30m", "maxUnavailable": "10%"}
    await rollout.create(strategy=strategy, onFailure="Rollback")
    try:
        old = (await rollout.reached("Settled"))["currentRevision"]
        async with observe(pool) as observations, broken_image(kube, pool) as image:
            await pool.deploy(PODS_BEFORE, cpu=POD_CPU)
            await pool.running(PODS_BEFORE, within=WITHIN)
            await until_settled(pool, FLEET)
            await pool.protect("web", max_unavailable=MAX_UNAVAILABLE)
            observations.may_move(pool)

            async with recorded(kube, f"{KEY}={pool.name}", (PODS,)) as pods:
                async with recorded(kube, f"{labels.NODEPOOL}={pool.name}", (NODECLAIMS,)) as claims:
                    bad = await bad_version_comes_and_goes(pool, rollout, killer, image, old)
                assert most_with(claims, bad) == 1
                assert most_disrupted(claims) == 1
                assert await rollout.versions() == [old] * (FLEET + 1)
                evidence = tenon("rollout", "show", pool.name)
                assert "crash loop" in evidence.stdout, evidence.stderr
                assert killer.kills == KILLS

                await kube.patch(NODEROLLOUTS, pool.name, {"spec": {"strategy": {"soak": "5s"}}})
                async with recorded(kube, f"{labels.NODEPOOL}={pool.name}", (NODECLAIMS,)) as claims:
                    await rollout.change(
                        amiSelectorTerms=[{"alias": OLDER}], userData="#!/bin/bash\necho containers stay up\n"
                    )
                    good = (await rollout.reached("Settled", but=[old], within=WITHIN))["currentRevision"]
                    await observations.whole(pool)
                assert most_disrupted(claims) > 1
                assert await rollout.versions() == [good] * (FLEET + 1)
            course = dropwhile(lambda count: count < PODS_BEFORE, unbroken(pods))
            assert min(course) >= PODS_BEFORE - MAX_UNAVAILABLE

            await pool.scale(0)
            await asyncio.gather(*(kube.delete(NODECLAIMS, claim["metadata"]["name"]) for claim in await pool.claims()))
            await until_settled(pool, 0)
    finally:
        await kube.delete(NODEROLLOUTS, pool.name)


async def bad_version_comes_and_goes(pool: Pool, rollout: Rollout, killer: Killer, image: BrokenImage, old: str) -> str:
    """Roll out the broken image, with a kill at each step of the first wave and of the way back; the bad version."""
    await rollout.change(amiSelectorTerms=[{"alias": NEWER}])
    await killer.strike()
    bad = str((await rollout.reached("Progressing"))["targetRevision"])
    await killer.strike()

    async def new_node(condition_type: str) -> bool:
        claims = [claim for claim in await pool.claims() if version_of(claim) == bad]
        return any(condition(claim, condition_type).get("status") == "True" for claim in claims)

    await until(lambda: new_node("Launched"), within=WITHIN)
    await killer.strike()
    await until(lambda: new_node("Initialized"), within=WITHIN)
    await killer.strike()
    await rollout.reached("Progressing", message="the gates must hold", within=WITHIN)
    await killer.strike()

    # The gates hold, so far. What pods need meanwhile has the version before.
    await pool.scale(PODS_AFTER)
    await killer.strike()
    await pool.running(PODS_AFTER)
    await until_settled(pool, FLEET + 1)
    assert sorted(await rollout.versions()) == sorted([bad, *[old] * FLEET])

    image.breaks = True
    await killer.strike()
    await rollout.reached("RollingBack", within=WITHIN)
    await killer.strike(KILLS - killer.kills)
    row = await rollout.reached("RolledBack", within=WITHIN)
    assert (row["currentRevision"], row["targetRevision"]) == (old, bad)
    await pool.running(PODS_AFTER)
    return bad


async def until_settled(pool: Pool, count: int) -> None:
    """Wait until the pool has so many NodeClaims, all Ready."""

    async def settled() -> bool:
        claims = await pool.claims()
        return len(claims) == count and all(condition(claim, "Ready").get("status") == "True" for claim in claims)

    await until(settled, within=WITHIN)
