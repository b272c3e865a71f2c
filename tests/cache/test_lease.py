"""Leader election by a Lease, in virtual time (SET-12, OPS-04)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, cast

import looptime
import pytest

from activities.kubernetes.errors import ApiUnreachable, Conflict
from worker.lease import LeaseElection

NAME = "karpenter-leader-election"


class Api:
    """One Lease with optimistic locking; while ``down`` every request fails."""

    def __init__(self) -> None:
        self.lease: dict[str, Any] | None = None
        self.version = 0
        self.down = False

    def _check(self) -> None:
        if self.down:
            raise ApiUnreachable("https://x", "gone")

    async def get(self, resource: Any, name: str, namespace: str = "") -> dict[str, Any] | None:
        self._check()
        assert (name, namespace) == (NAME, "tenon")
        return self.lease and {"metadata": {**self.lease["metadata"]}, "spec": {**self.lease["spec"]}}

    async def create(self, resource: Any, body: dict[str, Any], namespace: str = "") -> dict[str, Any]:
        self._check()
        if self.lease is not None:
            raise Conflict(409, "AlreadyExists", "exists")
        self._store(body["spec"])
        return body

    async def patch(self, resource: Any, name: str, patch: dict[str, Any], **_: Any) -> dict[str, Any] | None:
        self._check()
        await asyncio.sleep(0)
        assert self.lease is not None
        if patch["metadata"]["resourceVersion"] != self.lease["metadata"]["resourceVersion"]:
            raise Conflict(409, "Conflict", "changed")
        self._store({**self.lease["spec"], **patch["spec"]})
        return self.lease

    def _store(self, spec: dict[str, Any]) -> None:
        self.version += 1
        self.lease = {"metadata": {"resourceVersion": str(self.version)}, "spec": spec}

    @property
    def holder(self) -> str:
        return self.lease["spec"]["holderIdentity"] if self.lease else ""

    def election(self, identity: str, api: Any = None) -> LeaseElection:
        return LeaseElection(cast("Any", api or self), namespace="tenon", identity=identity)


class Cable:
    """One replica's own connection to the API, which can break alone."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self.broken = False

    def __getattr__(self, name: str) -> Any:
        if self.broken:
            raise ApiUnreachable("https://x", "broken cable")
        return getattr(self._api, name)


def virtually(main: Callable[[], Coroutine[Any, Any, None]]) -> None:
    loop = looptime.new_event_loop()
    try:
        loop.run_until_complete(main())
    finally:
        loop.close()


async def forever() -> None:
    await asyncio.Event().wait()


async def stop(*tasks: asyncio.Task[Any]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def test_one_replica_leads_and_keeps_leading() -> None:
    async def main() -> None:
        api = Api()
        elections = [api.election(name) for name in ("a", "b", "c")]
        tasks = [asyncio.create_task(election.run(forever)) for election in elections]
        for _ in range(50):
            await asyncio.sleep(3)
            assert [election.leading for election in elections] == [True, False, False]
        await stop(*tasks)

    virtually(main)


def test_a_release_hands_over_at_the_next_look() -> None:
    async def main() -> None:
        api = Api()
        first, second = api.election("a"), api.election("b")
        one, two = (asyncio.create_task(election.run(forever)) for election in (first, second))
        await asyncio.sleep(5)
        await stop(one)
        assert (api.holder, first.leading) == ("", False)
        await asyncio.sleep(2.1)
        assert (api.holder, second.leading) == ("b", True)
        assert api.lease is not None
        assert api.lease["spec"]["leaseTransitions"] == 1
        await stop(two)

    virtually(main)


def test_a_holder_cut_off_stops_before_another_takes_over() -> None:
    async def main() -> None:
        api = Api()
        loop = asyncio.get_running_loop()
        cable = Cable(api)
        first, second = api.election("a", cable), api.election("b")
        ended: list[float] = []

        async def lead() -> None:
            try:
                await forever()
            finally:
                ended.append(loop.time())

        one = asyncio.create_task(first.run(lead))
        await asyncio.sleep(1)
        two = asyncio.create_task(second.run(forever))
        await asyncio.sleep(20)
        cable.broken = True
        began = loop.time()
        while not second.leading:  # noqa: ASYNC110
            await asyncio.sleep(0.5)
        assert 8 <= ended[0] - began <= 12.1
        assert ended[0] < loop.time() <= began + 19
        cable.broken = False
        await asyncio.sleep(10)
        assert (first.leading, second.leading) == (False, True)
        await stop(one, two)

    virtually(main)


def test_a_lease_taken_by_another_is_given_up_at_once() -> None:
    async def main() -> None:
        api = Api()
        election = api.election("a")
        task = asyncio.create_task(election.run(forever))
        await asyncio.sleep(5)
        assert api.lease is not None
        api._store({**api.lease["spec"], "holderIdentity": "usurper"})
        await asyncio.sleep(2.1)
        assert not election.leading
        assert api.holder == "usurper", "what is not ours is not released"
        await asyncio.sleep(20)
        assert election.leading, "the usurper never renewed"
        await stop(task)

    virtually(main)


def test_what_the_leader_raises_comes_out_after_the_release() -> None:
    async def main() -> None:
        api = Api()

        async def lead() -> None:
            raise RuntimeError("broken")

        with pytest.raises(RuntimeError, match="broken"):
            await api.election("a").run(lead)
        assert api.holder == ""

    virtually(main)


def test_an_api_server_away_at_the_start_is_awaited() -> None:
    async def main() -> None:
        api = Api()
        api.down = True
        election = api.election("a")
        task = asyncio.create_task(election.run(forever))
        await asyncio.sleep(60)
        assert not election.leading
        api.down = False
        await asyncio.sleep(2.1)
        assert election.leading
        await stop(task)

    virtually(main)
