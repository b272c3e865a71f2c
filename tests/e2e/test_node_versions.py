"""Which version of a NodePool launches while a NodeRollout holds a newer one back, as a user sees it on nodes."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest_asyncio

from activities.kubernetes.client import Kube
from activities.kubernetes.resources import (
    CONTROLLERREVISIONS,
    EC2NODECLASSES,
    NODECLAIMS,
    NODEPOOLS,
    NODEROLLOUTS,
)
from tenon.apis import labels
from tests.e2e.conftest import MakePool, Run
from tests.e2e.pools import SMALL, Object, Pool, condition
from tests.workflows.waiting import until

OLDER, NEWER = "al2023@v20261001", "al2023@v20261101"


class Rollout:
    """A NodeRollout that selects one NodePool, with a status that the test writes."""

    def __init__(self, kube: Kube, pool: Pool) -> None:
        self._kube = kube
        self._pool = pool

    async def create(self) -> None:
        selected = {"metadata": {"labels": {"e2e.example.com/rollout": self._pool.name}}}
        await self._kube.patch(NODEPOOLS, self._pool.name, selected)
        selector = {"matchLabels": {"e2e.example.com/rollout": self._pool.name}}
        await self._kube.create(
            NODEROLLOUTS, {"metadata": {"name": self._pool.name}, "spec": {"nodePoolSelector": selector}}
        )

    async def says(self, phase: str, current: str, target: str = "", *claims: str, message: str = "") -> None:
        row: Object = {
            "name": self._pool.name,
            "phase": phase,
            "currentRevision": current,
            "targetRevision": target,
            "waveClaims": list(claims),
            "message": message,
        }
        status = {"status": {"nodePools": [row]}}
        await self._kube.patch(NODEROLLOUTS, self._pool.name, status, subresource="status")

    async def revisions(self, count: int) -> list[str]:
        """Wait until so many versions are recorded. Their digests, the oldest first."""
        recorded: list[Object] = []

        async def all_recorded() -> bool:
            selector = f"{labels.NODEPOOL}={self._pool.name}"
            recorded[:] = await self._kube.list(CONTROLLERREVISIONS, namespace="tenon", label_selector=selector)
            return len(recorded) == count

        await until(all_recorded, within=120)
        return [str(item["data"]["digest"]) for item in sorted(recorded, key=lambda item: item["revision"])]


@pytest_asyncio.fixture(loop_scope="session")
async def rollouts(kube: Kube) -> AsyncIterator[list[str]]:
    """The names of NodeRollouts to delete after the test."""
    names: list[str] = []
    yield names
    for name in names:
        await kube.delete(NODEROLLOUTS, name)


def _facts(claim: Object) -> tuple[str, str]:
    """The version and the image of a node."""
    return claim["metadata"]["annotations"].get(labels.REVISION, ""), str(claim["status"]["imageID"])


async def _other(pool: Pool, count: int, *known_names: str) -> Object:
    """Wait until the pool has so many ready nodes. The one that is not among the known names."""
    claims = await pool.settled(count)
    (new,) = [claim for claim in claims if claim["metadata"]["name"] not in known_names]
    return new


async def test_a_version_that_is_held_back_reaches_only_the_nodes_of_a_wave(
    make_pool: MakePool, kube: Kube, tenon: Run, rollouts: list[str]
) -> None:
    pool = await make_pool(
        requirements=SMALL,
        consolidate_after="Never",
        budgets=[{"nodes": "100%"}],
        amiSelectorTerms=[{"alias": OLDER}],
    )
    await pool.deploy(1)
    await pool.running(1)
    (before,) = await pool.settled(1)
    first = before["metadata"]["name"]
    assert _facts(before)[0] == "", "without a NodeRollout, NodeClaims name no version"
    image = _facts(before)[1]

    rollout = Rollout(kube, pool)
    rollouts.append(pool.name)
    await rollout.create()
    (old,) = await rollout.revisions(1)
    await rollout.says("Settled", old)
    await kube.patch(EC2NODECLASSES, pool.name, {"spec": {"amiSelectorTerms": [{"alias": NEWER}]}})
    _, new = await rollout.revisions(2)
    assert new != old

    # A launch for pods has the version that passed, and drift waits.
    await pool.scale(2)
    await pool.running(2)
    added = await _other(pool, 2, first)
    second = added["metadata"]["name"]
    assert _facts(added) == (old, image)
    await pool.seen(first, "DisruptionBlocked", f"NodeRollout {pool.name} is settled in NodePool {pool.name}")

    async def held() -> bool:
        objects = [await kube.get(resource, pool.name) for resource in (NODEPOOLS, EC2NODECLASSES)]
        texts = [str(condition(item, "VersionHeld").get("message", "")) for item in objects]
        return all(f"have version {old}" in text and f"keeps them from version {new}" in text for text in texts)

    await until(held)
    assert condition(await kube.get(NODEPOOLS, pool.name), "Ready")["status"] == "True"

    # A node of the wave is replaced by the new version; the other one stays.
    await rollout.says("Progressing", old, new, first, message="wave 1 replaces 1 node")
    await pool.gone(first)
    canary = await _other(pool, 2, second)
    assert _facts(canary)[0] == new
    new_image = _facts(canary)[1]
    assert new_image != image
    assert await kube.get(NODECLAIMS, second) is not None

    # While it is not passed, expiry replaces by the version that did.
    await rollout.says("Halted", old, new, message="the canary has a fault")
    done = tenon("node", "expire", second)
    assert done.returncode == 0, done.stderr
    await pool.gone(second)
    after_expiry = await _other(pool, 2, canary["metadata"]["name"])
    assert _facts(after_expiry) == (old, image)

    # The way back replaces the node of the failed version.
    await rollout.says("RollingBack", old, new, canary["metadata"]["name"])
    await pool.gone(canary["metadata"]["name"])
    replaced = await _other(pool, 2, after_expiry["metadata"]["name"])
    assert _facts(replaced) == (old, image)

    # Once the new version has passed, everything launches it, and the conditions end.
    await rollout.says("Settled", new)

    async def free() -> bool:
        objects = [await kube.get(resource, pool.name) for resource in (NODEPOOLS, EC2NODECLASSES)]
        return not any(condition(item, "VersionHeld") for item in objects)

    await until(free)
    await pool.scale(3)
    await pool.running(3)
    last = await _other(pool, 3, after_expiry["metadata"]["name"], replaced["metadata"]["name"])
    assert _facts(last) == (new, new_image)
