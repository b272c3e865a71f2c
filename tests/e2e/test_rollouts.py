"""A NodeRollout brings new versions of nodes to a NodePool, and takes a bad one back, as a user sees it on nodes."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

import pytest_asyncio

from activities.kubernetes.client import Kube
from activities.kubernetes.resources import CONTROLLERREVISIONS, NODEROLLOUTS
from sandbox.cluster import Sandbox
from tenon.apis import labels
from tests.e2e.conftest import MakePool, Run
from tests.e2e.node_rollouts import NEWER, OLDER, Rollout
from tests.e2e.pools import SMALL
from tests.e2e.repair_policies import deadlock
from tests.workflows.waiting import until


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
