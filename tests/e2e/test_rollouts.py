"""A NodeRollout brings new versions of nodes to a NodePool, and takes a bad one back, as a user sees it on nodes."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Collection

import pytest_asyncio

from activities.kubernetes.client import Kube
from activities.kubernetes.resources import CONTROLLERREVISIONS, EC2NODECLASSES, NODEPOOLS, NODEROLLOUTS
from sandbox.cluster import Sandbox
from tenon.apis import labels
from tests.e2e.conftest import MakePool, Run
from tests.e2e.pools import SMALL, Object, Pool, condition
from tests.e2e.repair_policies import deadlock
from tests.workflows.waiting import until

OLDER, NEWER = "al2023@v20261001", "al2023@v20261101"
KEY = "e2e.example.com/rollout"


class Rollout:
    """A NodeRollout that selects one NodePool, as `kubectl` shows it."""

    def __init__(self, kube: Kube, pool: Pool) -> None:
        self._kube = kube
        self._pool = pool

    async def create(self, **spec: object) -> None:
        await self._kube.patch(NODEPOOLS, self._pool.name, {"metadata": {"labels": {KEY: self._pool.name}}})
        selector = {"matchLabels": {KEY: self._pool.name}}
        body = {"metadata": {"name": self._pool.name}, "spec": {"nodePoolSelector": selector, **spec}}
        await self._kube.create(NODEROLLOUTS, body)

    async def row(self) -> Object:
        """What the status says of the NodePool; empty before it says anything."""
        rollout = await self._kube.get(NODEROLLOUTS, self._pool.name)
        assert rollout is not None
        rows = (rollout.get("status") or {}).get("nodePools") or [{}]
        return dict(rows[0])

    async def reached(self, phase: str, *, but: Collection[str] = (), message: str = "") -> Object:
        """Wait for a phase, a current version that is none of ``but``, and these words in the message; the row."""
        row: Object = {}

        async def has_reached() -> bool:
            row.update(await self.row())
            has_version = bool(row.get("currentRevision")) and row["currentRevision"] not in but
            return has_version and row["phase"] == phase and message in row.get("message", "")

        try:
            await until(has_reached, within=300)
        except TimeoutError:
            raise AssertionError(f"the rollout was to be {phase}: it is {row}") from None
        return row

    async def change(self, **spec: object) -> None:
        """Change the EC2NodeClass."""
        await self._kube.patch(EC2NODECLASSES, self._pool.name, {"spec": spec})

    async def versions(self) -> list[str]:
        """The version of each node that stays, sorted."""
        claims = [claim for claim in await self._pool.claims() if "deletionTimestamp" not in claim["metadata"]]
        return sorted(claim["metadata"]["annotations"].get(labels.REVISION, "") for claim in claims)

    async def claims_of(self, version: str) -> list[str]:
        return [
            claim["metadata"]["name"]
            for claim in await self._pool.claims()
            if claim["metadata"]["annotations"].get(labels.REVISION, "") == version
        ]

    async def become(self, expected: list[str]) -> None:
        """Wait until the nodes have these versions."""

        async def became() -> bool:
            return await self.versions() == sorted(expected)

        try:
            await until(became, within=300)
        except TimeoutError:
            raise AssertionError(f"{expected} was to be: it is {await self.versions()}, {await self.row()}") from None

    async def is_held(self, kube: Kube) -> bool:
        """Whether the NodePool and its EC2NodeClass say that a newer version is held."""
        objects = [await kube.get(resource, self._pool.name) for resource in (NODEPOOLS, EC2NODECLASSES)]
        return all(condition(item, "VersionHeld").get("status") == "True" for item in objects)


@pytest_asyncio.fixture(loop_scope="session")
async def rollouts(kube: Kube) -> AsyncIterator[list[str]]:
    """The names of NodeRollouts to delete after the test."""
    names: list[str] = []
    yield names
    for name in names:
        await kube.delete(NODEROLLOUTS, name)


async def test_a_bad_version_touches_one_node_and_goes_and_a_good_one_reaches_all(
    make_pool: MakePool, kube: Kube, tenon: Run, sandbox: Sandbox, rollouts: list[str]
) -> None:
    pool = await make_pool(
        requirements=SMALL,
        consolidate_after="Never",
        budgets=[{"nodes": "100%"}],
        amiSelectorTerms=[{"alias": OLDER}],
    )
    await pool.deploy(3)
    await pool.running(3)
    await pool.settled(3)
    rollout = Rollout(kube, pool)
    assert await rollout.versions() == ["", "", ""], "without a NodeRollout, NodeClaims name no version"
    rollouts.append(pool.name)
    strategy = {"waves": ["1", "100%"], "soak": "5s", "maxUnavailable": "100%"}
    await rollout.create(strategy=strategy, gates={"approval": [2]}, onFailure="Rollback")
    old = (await rollout.reached("Settled"))["currentRevision"]

    # One node gets the new version. The next wave waits for a person, and launches for pods stay with the old one.
    await rollout.change(amiSelectorTerms=[{"alias": NEWER}])
    row = await rollout.reached("Progressing", message="wave 2 waits for an approval")
    bad = row["targetRevision"]
    assert await rollout.versions() == ["", "", bad]
    await until(lambda: rollout.is_held(kube))
    await pool.scale(4)
    await pool.running(4)
    await rollout.become(["", "", bad, old])
    (stays, *_) = await rollout.claims_of("")
    await pool.seen(stays, "DisruptionBlocked", f"NodeRollout {pool.name} is in progress in NodePool {pool.name}")

    # What a node problem detector says of the new node fails the second wave, and all that it brought goes.
    approved = tenon("rollout", "approve", pool.name, "--reason", "looks well")
    assert approved.returncode == 0, approved.stderr
    (canary, *_) = await rollout.claims_of(bad)
    (claim,) = [claim for claim in await pool.claims() if claim["metadata"]["name"] == canary]
    deadlock(sandbox, claim["status"]["nodeName"])
    row = await rollout.reached("RolledBack")
    assert row["targetRevision"] == bad
    versions = await rollout.versions()
    assert (bad in versions, len(versions)) == (False, 4)
    shown = json.loads(tenon("rollout", "list", "-o", "json").stdout)
    assert pool.name in json.dumps(shown)
    evidence = tenon("rollout", "show", pool.name)
    assert "KernelDeadlock=True" in evidence.stdout, evidence.stderr

    # What failed stays held: a node that goes for another reason gets the last good version.
    stays = (await pool.settled(4))[0]["metadata"]["name"]
    expired = tenon("node", "expire", stays)
    assert expired.returncode == 0, expired.stderr
    await pool.gone(stays)
    await pool.running(4)
    assert bad not in await rollout.versions()

    # A later version reaches all nodes, and then everything launches it.
    await rollout.change(userData="#!/bin/bash\necho the fault is mended\n")
    await rollout.reached("Progressing", message="wave 2 waits for an approval")
    assert tenon("rollout", "approve", pool.name, "--reason", "looks well").returncode == 0
    good = (await rollout.reached("Settled", but=[old]))["currentRevision"]
    assert good not in (old, bad)
    assert await rollout.versions() == [good] * 4
    await pool.scale(5)
    await pool.running(5)
    await rollout.become([good] * 5)
    assert not await rollout.is_held(kube)
    recorded = await kube.list(CONTROLLERREVISIONS, namespace="tenon", label_selector=f"{labels.NODEPOOL}={pool.name}")
    assert {item["data"]["digest"] for item in recorded} == {old, bad, good}
