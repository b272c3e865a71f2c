"""What tests do with a NodeRollout, and what a user sees of it."""

from __future__ import annotations

from collections.abc import Collection

from activities.kubernetes.client import Kube
from activities.kubernetes.resources import EC2NODECLASSES, NODEPOOLS, NODEROLLOUTS
from tenon.apis import labels
from tests.e2e.pools import Object, Pool, condition
from tests.workflows.waiting import until

OLDER, NEWER = "al2023@v20261001", "al2023@v20261101"
KEY = "e2e.example.com/rollout"


class Rollout:
    """A NodeRollout that selects one NodePool, as `kubectl` shows it."""

    def __init__(self, kube: Kube, pool: Pool) -> None:
        self._kube = kube
        self._pool = pool

    async def create(self, **spec: object) -> None:
        """Create it. The test deletes it."""
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

    async def reached(
        self, phase: str, *, but: Collection[str] = (), message: str = "", within: float = 300.0
    ) -> Object:
        """Wait for a phase, a current version that is none of ``but``, and these words in the message; the row."""
        row: Object = {}

        async def has_reached() -> bool:
            row.update(await self.row())
            has_version = bool(row.get("currentRevision")) and row["currentRevision"] not in but
            return has_version and row["phase"] == phase and message in row.get("message", "")

        try:
            await until(has_reached, within=within)
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
        """The names of the NodeClaims with this version."""
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
