"""A NodeRollout brings new versions of nodes to a NodePool, and takes a bad one back, as a user sees it on nodes."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from activities.kubernetes.client import Kube
from activities.kubernetes.resources import CONTROLLERREVISIONS, NODEPOOLS, NODEROLLOUTS
from sandbox.cluster import Sandbox
from sandbox.ec2.images import images
from tenon.apis import labels
from tests.e2e.conftest import MakePool, Run
from tests.e2e.node_rollouts import NEWER, OLDER, Rollout
from tests.e2e.pools import SMALL
from tests.e2e.repair_policies import deadlock
from tests.e2e.worker import Worker
from tests.machine_speed import slowness
from tests.workflows.waiting import until


@pytest_asyncio.fixture(loop_scope="session")
async def rollouts(kube: Kube) -> AsyncIterator[list[str]]:
    """The names of NodeRollouts to delete after the test."""
    names: list[str] = []
    yield names
    for name in names:
        await kube.delete(NODEROLLOUTS, name)


@pytest.mark.timeout(2400)
async def test_a_bad_version_touches_one_node_and_goes_and_a_good_one_reaches_all(
    make_pool: MakePool, kube: Kube, tenon: Run, sandbox: Sandbox, rollouts: list[str], worker: Worker
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
    (canary,) = await rollout.claims_of(bad)
    approved = tenon("rollout", "approve", pool.name, "--reason", "looks well")
    assert approved.returncode == 0, approved.stderr
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
    for reason, words in (
        ("RolloutWaveBegan", bad),
        ("RolloutWavePassed", "wave 1 passed"),
        ("RolloutAwaitsApproval", f"tenon rollout approve {pool.name}"),
        ("RolloutRollingBack", "KernelDeadlock=True"),
        ("RolloutRolledBack", f"version {bad} is held"),
    ):
        await pool.seen(pool.name, reason, words)
    about = {event["involvedObject"]["kind"] for event in await pool.events(pool.name, "RolloutRollingBack")}
    assert about == {"NodeRollout", "NodePool"}
    assert worker.metric("tenon_rollout_state", nodepool=pool.name, state="rolled_back") == 1

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


@pytest.mark.timeout(2400)
async def test_a_version_that_ec2_never_launches_goes_back_with_ec2s_sentence(
    make_pool: MakePool, kube: Kube, tenon: Run, sandbox: Sandbox, rollouts: list[str]
) -> None:
    ec2 = sandbox.ec2()
    pool = await make_pool(requirements=SMALL, consolidate_after="Never", amiSelectorTerms=[{"alias": OLDER}])
    await pool.deploy(1)
    await pool.running(1)
    await pool.settled(1)
    rollout = Rollout(kube, pool)
    rollouts.append(pool.name)
    # EC2 refuses the launch before, and the NodeClaim says so. It is given up after five minutes.
    seconds = round(15 + 45 * slowness())
    gates = {"initializedWithin": f"{seconds}s"}
    await rollout.create(strategy={"waves": ["100%"], "soak": "5s"}, gates=gates, onFailure="Rollback")
    old = (await rollout.reached("Settled"))["currentRevision"]
    sentence = "The image was deregistered"
    for image in images():
        if image.name.endswith(NEWER.partition("@")[2]):
            ec2.fault("CreateFleet", "InvalidAMIID.Unavailable", message=sentence, count=None, value=image.id)
    try:
        await rollout.change(amiSelectorTerms=[{"alias": NEWER}])
        await rollout.reached("RollingBack", within=300 + seconds)
        await pool.seen(
            pool.name, "RolloutRollingBack", f"within {seconds}s: InvalidAMIID.Unavailable: CreateFleet: {sentence}"
        )
        evidence = tenon("rollout", "show", pool.name)
        assert sentence in evidence.stdout, evidence.stderr
        assert len(await rollout.claims_of("")) == 1, "the node that runs pods stays"
        await pool.scale(2)  # EC2 accepts the image of the version that passed
        await pool.running(2)
        assert len(await rollout.claims_of(old)) == 1
    finally:
        ec2.clear_faults()

    # The launch that was under way succeeds now, and goes back too.
    row = await rollout.reached("RolledBack", within=900)
    assert row["currentRevision"] == old
    assert row["targetRevision"] not in await rollout.versions()
    await pool.running(2)


async def test_a_version_without_any_instance_type_goes_back_and_says_why(
    make_pool: MakePool, kube: Kube, rollouts: list[str]
) -> None:
    pool = await make_pool(requirements=SMALL, consolidate_after="Never")
    await pool.deploy(1)
    await pool.running(1)
    await pool.settled(1)
    rollout = Rollout(kube, pool)
    rollouts.append(pool.name)
    seconds = round(30 * slowness())  # the worker knows before that no type is left
    gates = {"initializedWithin": f"{seconds}s"}
    await rollout.create(strategy={"waves": ["100%"], "soak": "5s"}, gates=gates, onFailure="Rollback")
    old = (await rollout.reached("Settled"))["currentRevision"]
    unknown = [{"key": labels.INSTANCE_TYPE, "operator": "In", "values": ["m5.huge"]}]
    await kube.patch(NODEPOOLS, pool.name, {"spec": {"template": {"spec": {"requirements": unknown}}}})
    row = await rollout.reached("RolledBack", within=300 + seconds)
    assert row["currentRevision"] == old
    sentence = "no available instance type meets its requirement node.kubernetes.io/instance-type In [m5.huge]"
    await pool.seen(pool.name, "RolloutRollingBack", f"within {seconds}s: {sentence}")
    assert len(await pool.running(1)) == 1, "the node that runs pods stays"
